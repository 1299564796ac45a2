# SPDX-License-Identifier: GPL-3.0-or-later
"""Set Up Character: roles, limits, targets and effectors of an armature.

Roles are kept as a table in `Object.poise.roles`, where every row can be changed; another run uses the table.
Effectors that are made here have the name of their part of the body, by which another run finds them: it adds
what is missing, uses the bones of the table, and changes nothing else.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core.amounts import number_of_targets
from ...core.character.ranges import joint_defaults
from ...core.character.role_edits import rows_of
from ...core.character.roles import Body, Character, Limb, LimbKind, Role, Side
from ...core.character.roles.trunk import NO_HEAD
from ...core.errors import IKError
from ...core.messages import Joined, Message, both, listed, sentences
from ...core.model.rotation import EULER_ORDERS
from ...core.model.skeleton import Skeleton
from ..animation.dependence import dependence
from ..armature.armature import read_armature
from ..armature.limits import BoneLimits, RigLimits, joint_entries, own_limits, read_limits, store_limits
from ..armature.restoring import set_up_restored_on_error
from ..armature.role_table import read_character, recognise_roles, write_table
from ..armature.switches import control_of, pole_of, switch_over
from ..effectors.effectors import check_present, keep_keyed_targets, note_place, target_of
from ..effectors.entries import (
    COLOURS,
    SUFFIX,
    add_effector,
    chosen_rows,
    free_name,
    hold,
    make_target,
    note_carriers,
    remove_effector,
)
from ..effectors.transforms import attach
from ..kinds.kinds import AXES
from ..live import following
from ..properties.naming import follow_names
from ..properties.settings import POISE_PG_effector, settings_of
from ..rig.noted import note_pose_held
from ..rig.rig import notes_on_bones
from .preferring import beyond_limits, prefer_present_pose, widen_limits, widen_to_action

LEAST_CONFIDENCE: Final = 0.5
"""Confidence [1] below which a note asks to look at a row of the table."""

OVERSTRETCHED: Final = Message(
    "elbows or knees are a little over-stretched or askew: a solve turns {clamped} to the limits"
)
"""Note on hinges whose limits are not widened."""

SMALL_ROLES: Final = frozenset({Role.FINGER, Role.TOE, Role.EYE, Role.JAW, Role.HEAD_PART})
"""Roles that need no such note."""


@dataclass(frozen=True)
class SetupReport:
    """Report of a set-up."""

    bodies: tuple[str, ...]
    """Kind of each figure, see `Body`."""
    roles: tuple[tuple[str, str, str, float, str], ...]
    """Bone, role, side (L, R or C), confidence and reason of each row of the table."""
    left_out: tuple[tuple[str, str], ...]
    """Bones without a role and why."""
    added: tuple[str, ...]
    """Effectors that are new."""
    kept: tuple[str, ...]
    """Effectors that were kept."""
    removed: tuple[str, ...]
    """Effectors of parts that are no longer in the table."""
    limits_read: tuple[str, ...]
    """Bones whose limits come from the rig."""
    limits_assumed: tuple[str, ...]
    """Bones whose limits are the usual ones for their role."""
    held: tuple[str, ...]
    """Bones between others that are not solved: twist bones and the like."""
    notes: tuple[str, ...]
    """Remarks, one sentence each."""

    @property
    def ready(self) -> bool:
        """Whether there is any effector."""
        return bool(self.added or self.kept)

    def summary(self) -> str:
        """Return what was made, for the status bar."""
        if not self.ready:
            return sentences(Message("no part of a body was found"), *self.notes)
        counts = Counter(self.bodies)
        bodies = [
            BODIES[body][0] if count == 1 else BODIES[body][1].filled(count=count)
            for body, count in counts.items()
        ]
        parts = [
            Message(
                "{bodies} found: {targets} created",
                bodies=both(bodies) if bodies else Message("no whole figure"),
                targets=number_of_targets(len(self.added)),
            )
        ]
        if self.kept:
            parts.append(Message("{count} kept", count=len(self.kept)))
        if self.removed:
            parts.append(Message("removed {names}", names=listed(self.removed)))
        return sentences(Joined(", ", parts), *self.notes)


BODIES: Final[Mapping[str, tuple[Message, Message]]] = {
    "biped": (Message("biped"), Message("{count} bipeds")),
    "quadruped": (Message("quadruped"), Message("{count} quadrupeds")),
    "bird": (Message("bird"), Message("{count} birds")),
    "many-legged": (Message("many-legged"), Message("{count} many-legged bodies")),
    "snake": (Message("snake"), Message("{count} snakes")),
    "fish": (Message("fish"), Message("{count} fish")),
    "unknown": (Message("unknown"), Message("{count} unknown bodies")),
}
"""A kind of figure -> its name, and that of several."""

SHAPES: Final = {
    "hips": ('CIRCLE', 0.12),
    "chest": ('CIRCLE', 0.1),
    "hand": ('SPHERE', 0.035),
    "foot": ('CUBE', 0.035),
    "head": ('SPHERE', 0.07),
    "tail": ('CONE', 0.04),
    "wing": ('CONE', 0.05),
    "fin": ('CONE', 0.03),
    "elbow": ('PLAIN_AXES', 0.03),
    "knee": ('PLAIN_AXES', 0.03),
}
"""Part of the body -> shape of the empty that is its target, and size [sizes of the figure]."""

FRONT: Final = "front "
"""What names of parts of front legs begin with."""

STATES: Final = {"foot": 'PIN'} | dict.fromkeys(("hips", "chest", "tail", "wing", "fin"), 'FOLLOW')
"""Part of the body -> the state of its effector; others reach for their targets."""

TURNING_HEADS: Final = frozenset({Body.BIPED, Body.QUADRUPED, Body.MANY_LEGGED})
"""Bodies whose heads turn, and are carried by the rest; those of others lead it."""

CHEST: Final = ("chest", 2)
"""Part and priority of the last bone of the trunk before the neck."""

_FOOT: Final = ("foot", 0, {Role.FOOT, Role.TOE, Role.ANKLE})

LIMB_PARTS: Final[dict[LimbKind, tuple[str, int, Container[Role | None]]]] = {
    LimbKind.TRUNK: ("hips", 1, {Role.HIPS}),
    LimbKind.LEG: _FOOT,
    LimbKind.FRONT_LEG: _FOOT,
    LimbKind.ARM: ("hand", 1, {Role.HAND}),
    LimbKind.HEAD: ("head", 2, {*Role, None}),
    LimbKind.WING: ("wing", 1, set()),
    LimbKind.TAIL: ("tail", 3, set()),
    LimbKind.FIN: ("fin", 3, set()),
}
"""Kind of limb -> its part with an effector, the priority, and the roles of bones that get the effector
themselves. Of others the end gets a position. What stands has the highest priority."""


@dataclass(frozen=True)
class Part:
    """A part of the body that gets an effector."""

    name: str
    """"hand.L", "foot.R.2" for the second right foot, "head (2)" for that of a second figure."""
    what: str
    """A key of `SHAPES`."""
    joint: int
    kind: str
    """Kind of the effector."""
    priority: int
    limb: Limb
    at_tail: bool = False
    """Whether the end of the bone gets the effector: there is no hand or foot below it."""
    state: str = 'REACH'
    is_control: bool = False
    """Whether the joint is a control of a limb that the rig's own IK decides, and leaves its place."""


def body_parts(skeleton: Skeleton, character: Character, *, poles: bool) -> tuple[Part, ...]:
    """Return the parts that get an effector: feet and hips first, then hands, then heads, then the rest."""
    parts: list[Part] = []
    for limb in character.limbs:
        parts += _parts_of(skeleton, character, limb, poles)
    order = {part.joint: row for row, part in reversed(list(enumerate(parts)))}
    # Two parts with the same bone would ask for the same twice.
    unique = [p for row, p in enumerate(parts) if p.kind == 'POLE' or order[p.joint] == row]
    return tuple(sorted(unique, key=lambda part: (part.limb.figure, part.priority)))


def _parts_of(skeleton: Skeleton, character: Character, limb: Limb, poles: bool) -> Iterator[Part]:
    def named(what: str) -> str:
        name = what if limb.side is Side.CENTRE else f"{what}.{limb.side.value}"
        name = FRONT + name if limb.kind is LimbKind.FRONT_LEG else name
        name += f".{limb.number + 1}" if limb.number else ""
        return name + (f" ({limb.figure + 1})" if limb.figure else "")

    what, priority, held = LIMB_PARTS.get(limb.kind, ("", 0, ()))
    own, state = character.role_of(limb.effector) in held, STATES.get(what, 'REACH')
    body = character.figures[limb.figure].body if character.figures else Body.UNKNOWN
    if limb.kind is _anchor(character, limb.figure):
        state = 'PIN'  # or nothing would stay where it is
    if what and (own or what != "hips"):
        turns = what == "head" and body in TURNING_HEADS
        kind = 'ORIENTATION' if turns else 'BOTH' if own and what != "hand" else 'POSITION'
        yield Part(named(what), what, limb.effector, kind, priority, limb, at_tail=not own, state=state)
    chests = [joint for joint, role in zip(limb.joints, limb.roles, strict=True) if role is Role.CHEST]
    if what == "hips" and chests:
        what, priority = CHEST
        yield Part(named(what), what, chests[-1], 'BOTH', priority, limb, state=STATES[what])
    joints = dict(zip(reversed(limb.roles), reversed(limb.joints), strict=True))  # the first of each role
    middle = joints.get(Role.LOWER_ARM, joints.get(Role.LOWER_LEG))
    if poles and limb.bend_axis is not None and middle is not None and skeleton.parents[middle] >= 0:
        what = "elbow" if limb.kind is LimbKind.ARM else "knee"
        yield Part(named(what), what, middle, 'POLE', 3, limb)


def _on_controls(armature_object: Object, parts: Sequence[Part], notes: list[str]) -> tuple[Part, ...]:
    """Return the parts; those of limbs that the rig's own IK decides with its controls, or left out."""
    armature = read_armature(armature_object)
    names, parents = armature.skeleton.names, armature.skeleton.parents
    found: list[Part] = []
    controls: list[str] = []
    for part in (_on_own_limb(armature.skeleton, part) for part in parts):
        # The bone above says where a bone is; the bone itself may still turn.
        deciding = {int(parents[part.joint])} & set(part.limb.joints) or {part.joint}
        deciding |= {part.joint} if part.kind == 'ORIENTATION' else set()
        if not armature.driven.issuperset(names[joint] for joint in deciding):
            found.append(part)
            continue
        is_pole = part.kind == 'POLE'
        if is_pole:
            control = pole_of(armature_object, armature, part.limb.joints)
        else:
            control = control_of(armature_object, armature, part.joint)
        if control is not None:
            controls.append(names[control])
            kind = 'POSITION' if is_pole else part.kind
            found.append(replace(part, joint=control, kind=kind, at_tail=False, is_control=True))
        else:
            notes.append(
                Message(
                    "{part}: {decider} decides {bone!r}, and no control of it was found that may be moved, "
                    "so it has no target",
                    part=part.name,
                    decider=armature.driven_by[names[max(deciding)]],
                    bone=names[max(deciding)],
                )
            )
    if controls:
        notes.append(
            Message(
                "the rig's own IK decides limbs: their controls have the targets: {controls}",
                controls=listed(controls),
            )
        )
    return tuple(found)


def _on_own_limb(skeleton: Skeleton, part: Part) -> Part:
    """Return a part; at the end of its limb where that does not carry the joint.

    On a generated rig toes hang on bones between controls: no bone of the leg that is posed is above them.
    """
    end = part.limb.joints[-1]
    carried = part.joint in part.limb.joints or end in skeleton.ancestors(part.joint)
    return part if carried else replace(part, joint=end, at_tail=True)


def _anchor(character: Character, figure: int) -> LimbKind | None:
    """The kind of limb that holds a figure without feet: the trunk with hips, else the tail, as a snake's."""
    limbs = [limb for limb in character.limbs if limb.figure == figure]
    if any(LIMB_PARTS.get(limb.kind) is _FOOT for limb in limbs):
        return None
    return LimbKind.TRUNK if any(Role.HIPS in limb.roles for limb in limbs) else LimbKind.TAIL


def setup_character(
    armature_object: Object,
    *,
    use_table: bool = True,
    poles: bool = False,
    limits: bool = True,
    controls: bool = True,
) -> SetupReport:
    """Make an armature posable: roles, limits, and effectors with targets at the bones' present places.

    Args:
        use_table: Use the table of roles if there is one; recognise roles again otherwise.
        poles: Also create targets for elbows and knees.
        limits: Read limits from the rig; bones without any get the usual ones for their role.
        controls: Switch a control rig to the controls that get targets.

    Raises:
        IKError: The armature cannot be posed, or the table of roles cannot be; nothing is changed then.
    """
    check_present(armature_object)
    settings = settings_of(armature_object)
    with set_up_restored_on_error(armature_object):
        follow_names(armature_object)
        read = _read_limits(armature_object) if limits else RigLimits((), ())
        skeleton = read_armature(armature_object).skeleton  # limits that are read decide bones no more
        if not use_table:
            recognise_roles(armature_object)
        character, notes = read_character(armature_object, skeleton)
        if not len(settings.roles):
            write_table(armature_object, rows_of(character))
        parts = _on_controls(armature_object, body_parts(skeleton, character, poles=poles), notes)
        above = sorted({joint for part in parts for joint in skeleton.ancestors(part.joint)})
        chains = [skeleton.names[joint] for joint in above]
        if controls:
            with following.held(armature_object):  # switches are tried both ways
                notes += switch_over(armature_object, chains)
        is_new = not any(entry.part for entry in settings.effectors)
        notes += read.notes
        assumed = _assume_limits(armature_object, skeleton, character, notes) if limits else ()
        if clamped := beyond_limits(armature_object, [name for name in chains if name in assumed]):
            notes.append(OVERSTRETCHED.filled(clamped=listed(clamped)))
        held = _hold(armature_object, skeleton, character, parts)
        if limits and is_new:  # what targets leave free stays as it is
            hips = {part.joint for part in parts if part.what == "hips"}
            own = {skeleton.index(name) for name in (*read.bones, *assumed)} | set(above)
            prefer_present_pose(armature_object, [skeleton.names[joint] for joint in sorted(own - hips)])
        armature = read_armature(armature_object, move_root=settings.move_root)
        effectors = _Effectors(armature_object, armature.skeleton, character, notes)
        effectors.remove_others(parts, poles=poles)
        effectors.set(parts)
        if parts:
            note_carriers(armature_object)
            keep_keyed_targets(armature_object)
            if is_new:  # all that follows is held from where it is now
                note_pose_held(armature_object)
        notes += notes_on_bones(armature_object, armature, chains)
        follow_names(armature_object)
        # The last thing of all, since it cannot be put back.
        bpy.data.batch_remove([target for target in effectors.gone if _is_left_over(target)])
    guessed = [c for c in character.choices if c.confidence < LEAST_CONFIDENCE and c.role not in SMALL_ROLES]
    if guessed:
        names = listed([choice.name for choice in guessed])
        notes.append(Message("check these roles in the table, they are a guess: {names}", names=names))
    has_head = any(part.what == "head" for part in parts)
    on_roles = [note for note in character.notes if note != NO_HEAD or not has_head]
    return SetupReport(
        bodies=tuple(figure.body.value for figure in character.figures),
        roles=tuple((c.name, c.role.value, c.side.value, c.confidence, c.reason) for c in character.choices),
        left_out=tuple((bone.name, bone.reason) for bone in character.left_out),
        added=tuple(effectors.added),
        kept=tuple(effectors.kept),
        removed=tuple(effectors.removed),
        limits_read=read.bones,
        limits_assumed=assumed,
        held=held,
        notes=(*on_roles, *dict.fromkeys(notes)),
    )


def bend_limbs(
    armature_object: Object, effectors: Sequence[int] | None = None, *, on: bool | None = None
) -> tuple[tuple[str, ...], bool]:
    """Give elbows and knees targets that they bend towards, or take these away.

    Args:
        effectors: Places in the list of hands and feet whose limbs are meant; all limbs for None.
        on: Whether to give them targets; None to take them away where all limbs have them.

    Returns:
        The parts that got targets or lost them, such as "elbow.L", and whether they have them now.

    Raises:
        IKError: None of these is a limb with an elbow or a knee; nothing is changed then.
    """
    check_present(armature_object)
    with set_up_restored_on_error(armature_object):
        follow_names(armature_object)
        skeleton = read_armature(armature_object).skeleton
        character, notes = read_character(armature_object, skeleton)
        entries: Any = settings_of(armature_object).effectors
        rows = None if effectors is None else chosen_rows(armature_object, effectors)
        bones = None if rows is None else {entries[row].bone for row in rows}
        limbs = [
            part
            for part in body_parts(skeleton, character, poles=True)
            if part.kind == 'POLE'
            and (bones is None or bones & {skeleton.names[joint] for joint in part.limb.joints})
        ]
        if not limbs:
            raise IKError(
                "{armature!r} has no such arm or leg with an elbow or a knee: look at its roles (tab "
                "Poise, Roles), or add an effector of the kind Pole to the forearm or shin",
                armature=armature_object.name,
            )
        known = {entry.part: row for row, entry in enumerate(entries) if entry.part}
        on = not all(part.name in known for part in limbs) if on is None else on
        made = _Effectors(armature_object, skeleton, character, notes)
        if on:
            made.set(_on_controls(armature_object, limbs, notes))
        else:
            made.remove([known[part.name] for part in limbs if part.name in known])
        follow_names(armature_object)
        bpy.data.batch_remove([target for target in made.gone if _is_left_over(target)])
    return tuple(made.added if on else made.removed), on


def _read_limits(armature_object: Object) -> RigLimits:
    """Read the limits of bones of the rig that have no entry yet."""
    pose: Any = armature_object.pose
    present = joint_entries(armature_object)
    return read_limits(armature_object, [bone.name for bone in pose.bones if bone.name not in present])


def _assume_limits(
    armature_object: Object, skeleton: Skeleton, character: Character, notes: list[str]
) -> tuple[str, ...]:
    """Give bones that have no limits yet the usual ones for their role; return which."""
    pose: Any = armature_object.pose
    present = joint_entries(armature_object)
    any_order = np.array([pose.bones[name].rotation_mode not in EULER_ORDERS for name in skeleton.names])
    assumed: list[str] = []
    hinges: set[str] = set()
    for usual in joint_defaults(skeleton, character, any_order=any_order).values():
        if (name := skeleton.names[usual.joint]) not in present:
            limits = BoneLimits(usual.lower, usual.upper, usual.stiffness, usual.preferred, usual.order)
            store_limits(armature_object, name, limits, usual.why)
            assumed.append(name)
            hinges |= {name} if usual.is_hinge else set()
    beside = Message("the present pose is outside the usual limits: limits are wider for {widened}")
    beyond = Message("the animation goes beyond the usual limits: limits are wider for {widened}")
    if widened := widen_limits(armature_object, assumed, hinges):
        notes.append(beside.filled(widened=listed(widened)))
    if widened := widen_to_action(armature_object, assumed):
        notes.append(beyond.filled(widened=listed(widened)))
    return tuple(assumed)


def _hold(
    armature_object: Object, skeleton: Skeleton, character: Character, parts: Sequence[Part]
) -> tuple[str, ...]:
    """Hold the bones between those with a role: twist bones, roots above hips that may move; return which."""
    roles = {choice.joint for choice in character.choices}
    between = {joint for part in parts for joint in skeleton.ancestors(part.joint)} - roles
    held: list[int] = []
    pose: Any = armature_object.pose
    for hips in (part for part in parts if part.what == "hips"):
        bone = pose.bones[skeleton.names[hips.joint]]
        # The hips leave their place instead of the root, which carries the character through the scene.
        if bone.parent is not None and not bone.bone.use_connect and not any(bone.lock_location):
            own_limits(armature_object, bone.name).may_move = True
            held += sorted(set(skeleton.ancestors(hips.joint)[1:]) - roles)
    for part in parts:
        if part.is_control:
            own_limits(armature_object, skeleton.names[part.joint]).may_move = True
            between.discard(part.joint)
    held += sorted(joint for joint in between if skeleton.parents[joint] >= 0)
    names = tuple(dict.fromkeys(skeleton.names[joint] for joint in held))
    for name in names:
        own_limits(armature_object, name).is_held = True
    return names


class _Effectors:
    """The effectors of the parts of a body, while they are made."""

    def __init__(
        self, armature_object: Object, skeleton: Skeleton, character: Character, notes: list[str]
    ) -> None:
        self._object, self._skeleton, self._character = armature_object, skeleton, character
        self._entries: Any = settings_of(armature_object).effectors
        self._notes = notes
        self.added: list[str] = []
        self.kept: list[str] = []
        self.removed: list[str] = []
        self.gone: list[Object] = []
        """Targets that are not followed any more."""

    def remove_others(self, parts: Sequence[Part], *, poles: bool) -> None:
        """Remove the effectors of parts that there are not any more; without `poles` those of poles stay."""
        names = {"", *(part.name for part in parts)}
        self.remove(
            row
            for row, entry in enumerate(self._entries)
            if entry.part not in names and (poles or entry.kind != 'POLE')
        )

    def remove(self, rows: Iterable[int]) -> None:
        """Remove effectors at some places of the list."""
        for row in sorted(rows, reverse=True):
            part, target = self._entries[row].part, self._entries[row].target
            if self._remove(row):
                self.removed.insert(0, part)
                self.gone += [] if target is None else [target]

    def set(self, parts: Sequence[Part]) -> None:
        """Make the effectors of parts, or give those that are there the bones of the parts.

        Raises:
            IKError: There is none in the end, because bones are scaled to nothing.
        """
        made: list[tuple[Part, Object]] = []
        lost: IKError | None = None
        for part in parts:
            bone = self._skeleton.names[part.joint]
            if not self._skeleton.free[self._skeleton.ancestors(part.joint)].any():
                self._notes.append(
                    Message(
                        "{part}: nothing above {bone!r} may move, so it has no target",
                        part=part.name,
                        bone=bone,
                    )
                )
                continue
            index = self._find(part, bone)
            if index is None:
                index = add_effector(self._object, bone, kind=part.kind, make_target=False)
                self._fill(self._entries[index], part)
            entry: POISE_PG_effector = self._entries[index]
            target, is_there = target_of(entry), entry.bone == bone
            entry.part, entry.bone = part.name, bone
            if target is not None and is_there:
                self.kept.append(part.name)
                if links := dependence(target, self._object):
                    self._notes.append(
                        Message(
                            "the target of {part} depends on the armature ({names}): break that link (Alt P "
                            "clears a parent), or nothing can be solved",
                            part=part.name,
                            names=Joined(", ", links),
                        )
                    )
                continue
            self.gone += [] if target is None else [target]
            try:
                made.append((part, make_target(self._object, index)))
            except IKError as error:  # the bone is scaled to nothing
                lost = lost or error
                self._notes.append(error.message)
                self._remove(index)
            else:
                (self.added if target is None else self.kept).append(part.name)
        if lost is not None and not len(self._entries):
            raise lost
        names = {part.name for part in parts}
        self.kept += [entry.part for entry in self._entries if entry.part and entry.part not in names]
        self._place(made)
        for part, _target in made:
            entry = next(entry for entry in self._entries if entry.part == part.name)
            if part.name in self.added and entry.state == 'REACH' and part.state != 'REACH':
                hold(self._object, entry, part.state)
            elif entry.state in {'PIN', 'FOLLOW'}:
                note_place(entry)

    def _find(self, part: Part, bone: str) -> int | None:
        """Return the effector of a part, or one made by hand for the same bone and of the same kind."""
        found = [index for index, entry in enumerate(self._entries) if entry.part == part.name]
        for index, entry in enumerate(self._entries):
            if not entry.part and entry.bone == bone and entry.kind in {part.kind, 'BOTH'}:
                found.append(index)
        return found[0] if found else None

    def _fill(self, entry: POISE_PG_effector, part: Part) -> None:
        entry.name = free_name(self._entries, part.name, entry)
        entry.priority = part.priority
        entry.is_support = part.what == "foot"
        if part.what == "head" and self._character.figures:
            entry.axis = self._facing(part)  # so that the face points at what it looks at, once it aims
        if part.at_tail:
            data: Any = self._object.data
            entry.point = (0.0, data.bones[entry.bone].length, 0.0)
        if part.kind == 'POLE':
            roles = dict(zip(part.limb.roles, part.limb.joints, strict=True))
            upper = roles.get(Role.UPPER_ARM, roles.get(Role.UPPER_LEG))
            end = next((roles[role] for role in (Role.HAND, Role.ANKLE, Role.FOOT) if role in roles), None)
            if upper is not None and end is not None:
                entry.root_bone, entry.tip_bone = self._skeleton.names[upper], self._skeleton.names[end]

    def _facing(self, part: Part) -> str:
        """Return the axis of a part's bone that points forward the most, at rest."""
        forward = self._character.figures[part.limb.figure].forward
        rest = self._skeleton.armature_from_joint_rest[part.joint, :3, :3]
        along = {name: float(rest @ np.array(axis) @ forward) for name, axis in AXES.items()}
        return max(along, key=along.__getitem__)

    def _remove(self, index: int) -> bool:
        """Remove an effector, or disable it where that cannot be; return whether it is removed."""
        try:
            remove_effector(self._object, index)
        except IKError as error:  # it belongs to the library
            self._entries[index].enabled = False
            self._notes.append(Message("{error}. It is disabled now", error=error.message))
            return False
        return True

    def _place(self, made: Sequence[tuple[Part, Any]]) -> None:
        """Show new targets with the others, which go where the whole character is moved."""
        figures, scale = self._character.figures, self._object.matrix_world.median_scale
        for part, target in made:
            size = scale * (figures[part.limb.figure].size if figures else 1.0)
            show_as_part(self._object, target, part.name, size)
            target.color = COLOURS[part.limb.side]
        bpy.context.view_layer.update()


def show_as_part(armature_object: Object, target: Any, part: str, size: float) -> None:
    """Give the target of a part of the body its shape, and let it go where the armature goes.

    Args:
        armature_object: The armature.
        target: An empty.
        part: Name of the part; nothing is done where it is none that Set-up makes.
        size: Of the figure in the world [m].
    """
    shape = SHAPES.get(part.removeprefix(FRONT).replace(" ", ".").partition(".")[0])
    if shape is None:
        return
    target.empty_display_type, target.empty_display_size = shape[0], shape[1] * size
    if target.parent is None:
        attach(target, armature_object)


def _is_left_over(target: Object) -> bool:
    """Whether a target was made here, has not been animated and is not used elsewhere."""
    collections = target.users_collection
    ours = target.type == 'EMPTY' and any(own.name.endswith(SUFFIX) for own in collections)
    used = target.library or target.animation_data or target.children or target.users > len(collections)
    return ours and not used
