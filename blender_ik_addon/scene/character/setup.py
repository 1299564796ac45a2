# SPDX-License-Identifier: GPL-3.0-or-later
"""Set Up Character: roles, limits, targets and effectors of an armature.

Roles are kept as a table in `Object.poise.roles`, where every row can be changed; another run uses the table.
Effectors that are made here have the name of their part of the body, by which another run finds them: it adds
what is missing, takes the bones of the table, and changes nothing else.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Collection, Object

from ...core.character.human import ACROSS, joint_defaults
from ...core.character.role_edits import rows_of
from ...core.character.roles import Character, Limb, LimbKind, Role, Side
from ...core.errors import IKError
from ...core.model.euler import EULER_ORDERS
from ...core.model.rotation import nearest_euler
from ...core.model.skeleton import Skeleton
from ..animation.dependence import dependence
from ..armature.armature import Armature, read_armature
from ..armature.limits import (
    BoneLimits,
    entry_for,
    joint_entries,
    limits_of,
    own_limits,
    read_limits,
    store_limits,
)
from ..armature.poses import read_pose
from ..armature.restoring import set_up_restored_on_error
from ..armature.role_table import read_character, recognise_roles, write_table
from ..armature.switches import switch_over
from ..effectors.effectors import check_present, target_of
from ..effectors.entries import add_effector, collection_of, free_name, make_target, remove_effector
from ..effectors.transforms import attach
from ..live import following
from ..properties.effector_properties import POISE_PG_effector
from ..properties.naming import follow_names
from ..properties.settings import settings_of
from ..reports import counted, listed, sentences
from ..rig.rig import notes_on_bones

LEAST_CONFIDENCE: Final = 0.5
"""Confidence [1] below which a note asks to look at a row of the table."""


WITHIN: Final = 1e-3
"""How far inside its limits [rad] a pose is to which they were widened."""
ASKEW: Final = np.radians(20.0)
"""Beyond the limits of a hinge by this [rad] a file means another rest pose; by less, its pose is inexact."""


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
            return sentences("no part of a body was found", *self.notes)
        counts = Counter(self.bodies)
        bodies = [body if count == 1 else counted(count, body) for body, count in counts.items()]
        text = (
            f"{' and '.join(bodies) or 'no whole figure'} found: {counted(len(self.added), 'target')} created"
        )
        if self.kept:
            text += f", {len(self.kept)} kept"
        if self.removed:
            text += f", removed {listed(self.removed)}"
        return sentences(text, *self.notes)


# Parts of the body that get an effector


COLOURS: Final = {
    Side.LEFT: (0.15, 0.45, 1.0, 1.0),
    Side.RIGHT: (1.0, 0.25, 0.2, 1.0),
    Side.CENTRE: (1.0, 0.8, 0.1, 1.0),
}
"""Of targets: blue left, red right, yellow in the middle."""


@dataclass(frozen=True)
class Shape:
    """How the target of a part of the body is shown."""

    display: str
    """Shape of the empty."""
    size: float
    """In sizes of the figure [1]."""


SHAPES: Final = {
    "hips": Shape('CIRCLE', 0.12),
    "hand": Shape('SPHERE', 0.035),
    "foot": Shape('CUBE', 0.035),
    "head": Shape('SPHERE', 0.07),
    "tail": Shape('CONE', 0.04),
    "wing": Shape('CONE', 0.05),
    "fin": Shape('CONE', 0.03),
    "elbow": Shape('PLAIN_AXES', 0.03),
    "knee": Shape('PLAIN_AXES', 0.03),
}


FOLLOWING: Final = frozenset({"head", "tail", "wing", "fin"})
"""Parts whose targets go with the hips'."""


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
    side: Side
    figure: int
    at_tail: bool = False
    """Whether the end of the bone is meant, where nothing hangs on it that could be held."""
    limb: Limb | None = None
    """Of a pole: what bends."""


def body_parts(skeleton: Skeleton, character: Character, *, poles: bool) -> tuple[Part, ...]:
    """Return the parts that get an effector: feet and hips first, then hands, then heads, then the rest."""
    parts: list[Part] = []
    for limb in character.limbs:
        parts += _parts_of(skeleton, character, limb, poles)
    order = {part.joint: row for row, part in reversed(list(enumerate(parts)))}
    # Two parts that hold the same bone would ask for the same twice.
    unique = [p for row, p in enumerate(parts) if p.kind == 'POLE' or order[p.joint] == row]
    return tuple(sorted(unique, key=lambda part: (part.figure, part.priority)))


def _parts_of(skeleton: Skeleton, character: Character, limb: Limb, poles: bool) -> Iterator[Part]:
    def part(what: str, kind: str, priority: int, joint: int, *, at_tail: bool = False) -> Part:
        name = what if limb.side is Side.CENTRE else f"{what}.{limb.side.value}"
        name = f"front {name}" if limb.kind is LimbKind.FRONT_LEG else name
        name += f".{limb.number + 1}" if limb.number else ""
        name += f" ({limb.figure + 1})" if limb.figure else ""
        bends = limb if kind == 'POLE' else None
        return Part(name, what, joint, kind, priority, limb.side, limb.figure, at_tail, bends)

    role = character.role_of(limb.effector)
    if limb.kind is LimbKind.TRUNK:
        if role is Role.HIPS:
            yield part("hips", 'BOTH', 0, limb.effector)
    elif limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG):
        whole = role in (Role.FOOT, Role.TOE, Role.ANKLE)
        yield part("foot", 'BOTH' if whole else 'POSITION', 0, limb.effector, at_tail=not whole)
    elif limb.kind is LimbKind.ARM:
        whole = role is Role.HAND
        yield part("hand", 'BOTH' if whole else 'POSITION', 1, limb.effector, at_tail=not whole)
    elif limb.kind is LimbKind.HEAD:
        yield part("head", 'BOTH', 2, limb.effector)
    elif limb.kind is LimbKind.WING:
        yield part("wing", 'POSITION', 1, limb.effector, at_tail=True)
    elif limb.kind in (LimbKind.TAIL, LimbKind.FIN):
        yield part(limb.kind.value, 'POSITION', 3, limb.effector, at_tail=True)
    if poles and limb.bend_axis is not None:
        middle = next(
            (
                j
                for j, r in zip(limb.joints, limb.roles, strict=True)
                if r in (Role.LOWER_ARM, Role.LOWER_LEG)
            ),
            None,
        )
        if middle is not None and skeleton.parents[middle] >= 0:
            yield part("elbow" if limb.kind is LimbKind.ARM else "knee", 'POLE', 3, middle)


# The use case


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
        armature_object: The original armature object.
        use_table: Use the table of roles if there is one; recognise roles again otherwise.
        poles: Also create targets for elbows and knees.
        limits: Read limits from the rig; bones without any get the usual ones for their role.
        controls: Switch a control rig to the controls that get targets.

    Raises:
        IKError: The armature cannot be posed, or the table of roles cannot be; nothing is changed then.
    """
    check_present(armature_object)
    with set_up_restored_on_error(armature_object):
        report, gone = _set_up(
            armature_object, use_table=use_table, poles=poles, limits=limits, controls=controls
        )
        left_over = [target for target in gone if _is_left_over(target)]
        bpy.data.batch_remove(left_over)  # the last thing of all, since it cannot be put back
    return report


def _set_up(
    armature_object: Object, *, use_table: bool, poles: bool, limits: bool, controls: bool
) -> tuple[SetupReport, list[Object]]:
    """Do it; what was made, and targets that are not followed any more."""
    follow_names(armature_object)
    settings = settings_of(armature_object)
    notes: list[str] = []
    skeleton = read_armature(armature_object).skeleton
    if not use_table:
        recognise_roles(armature_object)
    character, gone = read_character(armature_object, skeleton)
    notes += gone
    if not len(settings.roles):
        write_table(armature_object, rows_of(character))
    parts = body_parts(skeleton, character, poles=poles)
    if controls:
        above = {joint for part in parts for joint in skeleton.ancestors(part.joint)}
        with following.held(armature_object):  # it is switched to and fro
            notes += switch_over(armature_object, [skeleton.names[joint] for joint in sorted(above)])
    read: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    if limits:
        read, assumed, said = _set_limits(armature_object, skeleton, character)
        notes += said
    held = _hold(armature_object, skeleton, character, parts)
    armature = read_armature(armature_object, move_root=settings.move_root)
    gone_targets: list[Object] = []
    added, kept, removed, said = _set_effectors(
        armature_object, armature, character, parts, gone_targets, poles=poles
    )
    notes += said
    chains = sorted({joint for part in parts for joint in skeleton.ancestors(part.joint)})
    notes += notes_on_bones(armature_object, armature, [skeleton.names[joint] for joint in chains])
    follow_names(armature_object)
    unsure = [c.name for c in character.choices if c.confidence < LEAST_CONFIDENCE and c.role in _LIMB_ROLES]
    if unsure:
        notes.append(f"check these roles in the table, they are a guess: {listed(unsure)}")
    report = SetupReport(
        bodies=tuple(figure.body.value for figure in character.figures),
        roles=tuple((c.name, c.role.value, c.side.value, c.confidence, c.reason) for c in character.choices),
        left_out=tuple((bone.name, bone.reason) for bone in character.left_out),
        added=added,
        kept=kept,
        removed=removed,
        limits_read=read,
        limits_assumed=assumed,
        held=held,
        notes=(*character.notes, *dict.fromkeys(notes)),
    )
    return report, gone_targets


_LIMB_ROLES: Final = frozenset(set(Role) - {Role.FINGER, Role.TOE, Role.EYE, Role.JAW, Role.HEAD_PART})


# Limits


def _set_limits(
    armature_object: Object, skeleton: Skeleton, character: Character
) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """Give bones with a role limits: what they have, else what the rig says, else what such a body has."""
    present = set(joint_entries(armature_object))
    from_rig = read_limits(armature_object, [name for name in skeleton.names if name not in present])
    present |= set(from_rig.bones)
    pose: Any = armature_object.pose
    any_order = np.array([pose.bones[name].rotation_mode not in EULER_ORDERS for name in skeleton.names])
    assumed: list[str] = []
    for defaults in joint_defaults(skeleton, character, any_order=any_order).values():
        name = skeleton.names[defaults.joint]
        if name in present:
            continue
        limits = BoneLimits(
            defaults.lower,
            defaults.upper,
            defaults.stiffness,
            defaults.preferred,
            defaults.order,
        )
        store_limits(entry_for(armature_object, name), limits, defaults.why)
        assumed.append(name)
    widened = _widen(armature_object, assumed)
    notes = list(from_rig.notes)
    if widened:
        notes.append(f"the present pose is outside the usual limits: limits are wider for {listed(widened)}")
    return from_rig.bones, tuple(assumed), notes


def _widen(armature_object: Object, bones: Sequence[str]) -> tuple[str, ...]:
    """Widen assumed limits to where bones are: what a figure does already it can do.

    Files often hold a pose, or a rest pose, that is none of a standing body; limits that it breaks would pull
    it apart in the first solve. Elbows and knees of recordings often are a little over-stretched or askew;
    that is nothing to be learnt from, and they are brought inside.

    Returns:
        The bones whose limits are wider.
    """
    armature = read_armature(armature_object)
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    entries = joint_entries(armature_object)
    bones_posed: Any = armature_object.pose
    widened: list[str] = []
    for name in bones:
        joint = skeleton.index(name)
        own = limits_of(bones_posed.bones[name], entries[name])
        finite = np.isfinite(own.lower) & np.isfinite(own.upper)
        middle = np.where(
            finite, 0.5 * (np.where(finite, own.lower, 0.0) + np.where(finite, own.upper, 0.0)), 0.0
        )
        angles = nearest_euler(pose.rotation[joint], int(skeleton.orders[joint]), middle)
        beyond = float(np.maximum(own.lower - angles, angles - own.upper).max())
        if beyond > (ASKEW if (own.stiffness > ACROSS - WITHIN).any() else WITHIN):
            limits = replace(
                own,
                lower=np.minimum(own.lower, angles - WITHIN),
                upper=np.maximum(own.upper, angles + WITHIN),
            )
            store_limits(entries[name], limits, entries[name].source)
            widened.append(name)
    return tuple(widened)


def _hold(
    armature_object: Object, skeleton: Skeleton, character: Character, parts: Sequence[Part]
) -> tuple[str, ...]:
    """Hold what lies between the bones of a body and is none: twist bones, roots above hips that may move.

    Returns:
        Names of the bones that are held.
    """
    roles = {choice.joint for choice in character.choices}
    above = {joint for part in parts for joint in skeleton.ancestors(part.joint)}
    data: Any = armature_object.data
    held: list[str] = []
    for part in parts:
        if part.what != "hips":
            continue
        bone = data.bones[skeleton.names[part.joint]]
        if bone.parent is None or bone.use_connect:
            continue
        # The hips leave their place instead of the root, which carries the character through the scene.
        pose: Any = armature_object.pose
        if not any(pose.bones[bone.name].lock_location):
            own_limits(armature_object, bone.name).may_move = True
            roots = set(skeleton.ancestors(part.joint)[1:]) - roles
            held += [skeleton.names[joint] for joint in sorted(roots)]
    tops = {joint for joint in above if skeleton.parents[joint] < 0}
    between = sorted(above - roles - tops)
    held += [skeleton.names[joint] for joint in between]
    held = list(dict.fromkeys(held))
    for name in held:
        own_limits(armature_object, name).is_held = True
    return tuple(held)


# Effectors


def _set_effectors(
    armature_object: Object,
    armature: Armature,
    character: Character,
    parts: Sequence[Part],
    gone: list[Object],
    *,
    poles: bool,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], list[str]]:
    """Make the effectors of parts, or find those that are there; names of those added, kept and removed.

    Targets that are not followed any more are added to those that are gone.
    """
    settings = settings_of(armature_object)
    skeleton = armature.skeleton
    added: list[str] = []
    kept: list[str] = []
    notes: list[str] = []
    names = {part.name for part in parts}
    removed = _remove_others(armature_object, names, gone, notes, poles=poles)
    poles_kept = [entry.part for entry in settings.effectors if entry.part and entry.part not in names]
    collection: Collection | None = None
    made: list[tuple[Part, Object]] = []
    for part in parts:
        bone = skeleton.names[part.joint]
        if not any(skeleton.free[joint].any() for joint in skeleton.ancestors(part.joint)):
            notes.append(f"{part.name}: nothing above {bone!r} may move, so it has no target")
            continue
        index = _find(settings.effectors, part, bone)
        if index is None:
            index = add_effector(armature_object, bone, kind=part.kind, make_target=False)
            _fill(armature_object, settings.effectors[index], part, skeleton)
            added.append(part.name)
        else:
            entry = settings.effectors[index]
            entry.part = part.name
            target = target_of(entry)
            if entry.bone == bone and target is not None:
                kept.append(part.name)
                if links := dependence(target, armature_object):
                    notes.append(
                        f"the target of {part.name} depends on the armature ({', '.join(links)}): break that "
                        "link (Alt P clears a parent), or nothing can be solved"
                    )
                continue
            moved = entry.bone != bone
            entry.bone = bone
            (added if target is None else kept).append(part.name)
            if target is not None and moved:
                gone.append(target)
        try:
            target = make_target(armature_object, index)
        except IKError as error:  # the bone is scaled to nothing
            notes.append(str(error))
            for told in (added, kept):
                told[:] = [name for name in told if name != part.name]
            _take_away(armature_object, index, notes)
            continue
        collection = collection or _targets_collection(armature_object)
        _show(target, part, character, armature_object, collection)
        if target.parent is None:
            attach(target, armature_object)
        made.append((part, target))
    _follow_hips(settings.effectors, parts, made)
    return tuple(added), (*kept, *poles_kept), removed, notes


def _follow_hips(entries: Any, parts: Sequence[Part], made: Sequence[tuple[Part, Object]]) -> None:
    """Parent the targets of head, tail and the like to that of the hips, so that they go where the body goes.

    Hands and feet stay where they are, on a table or on the ground, unless the whole character is moved.
    """
    hips = {part.figure: part.name for part in parts if part.what == "hips"}
    targets = {entry.part: entry.target for entry in entries if entry.part}
    bpy.context.view_layer.update()
    for part, target in made:
        body = targets.get(hips.get(part.figure, ""))
        if part.what in FOLLOWING and body is not None and body is not target:
            target.parent = body
            target.matrix_parent_inverse = body.matrix_world.inverted()


def _find(entries: Any, part: Part, bone: str) -> int | None:
    """Return the effector of a part: made for it, or made by hand for the same bone and of the same kind."""
    for index, entry in enumerate(entries):
        if entry.part == part.name:
            return index
    for index, entry in enumerate(entries):
        if not entry.part and entry.bone == bone and (entry.kind == part.kind or entry.kind == 'BOTH'):
            return index
    return None


def _fill(armature_object: Object, entry: POISE_PG_effector, part: Part, skeleton: Skeleton) -> None:
    data: Any = armature_object.data
    entry.name = free_name(settings_of(armature_object).effectors, part.name, entry)
    entry.part = part.name
    entry.priority = part.priority
    entry.is_support = part.what == "foot"
    if part.at_tail:
        entry.point = (0.0, data.bones[skeleton.names[part.joint]].length, 0.0)
    if part.limb is not None:
        roles = dict(zip(part.limb.roles, part.limb.joints, strict=True))
        upper = roles.get(Role.UPPER_ARM, roles.get(Role.UPPER_LEG))
        end = next((roles[r] for r in (Role.HAND, Role.ANKLE, Role.FOOT) if r in roles), None)
        if upper is not None and end is not None:
            entry.root_bone, entry.tip_bone = skeleton.names[upper], skeleton.names[end]


def _remove_others(
    armature_object: Object, names: set[str], gone: list[Object], notes: list[str], *, poles: bool
) -> tuple[str, ...]:
    """Remove the effectors of parts that there are not any more."""
    entries = settings_of(armature_object).effectors
    poles_stay = not poles  # who switches poles off for a run has not asked to lose those there are
    rows = [
        row
        for row, entry in enumerate(entries)
        if entry.part and entry.part not in names and not (poles_stay and entry.kind == 'POLE')
    ]
    removed: list[str] = []
    for row in reversed(rows):
        part, target = entries[row].part, entries[row].target
        if _take_away(armature_object, row, notes):
            removed.insert(0, part)
            gone += [] if target is None else [target]
    return tuple(removed)


def _take_away(armature_object: Object, index: int, notes: list[str]) -> bool:
    """Remove an effector, or disable it where that cannot be; whether it is removed."""
    try:
        remove_effector(armature_object, index)
    except IKError as error:  # it belongs to the library
        settings_of(armature_object).effectors[index].enabled = False
        notes.append(f"{error}. It is disabled now")
        return False
    return True


def _is_left_over(target: Object) -> bool:
    """Whether a target was made here, has not been animated and is not used elsewhere."""
    collections = target.users_collection
    ours = target.type == 'EMPTY' and target.library is None and target.animation_data is None
    ours = ours and not target.children and target.users <= len(collections)
    return ours and any(collection.name.endswith(SUFFIX) for collection in collections)


# Targets


SUFFIX: Final = " Targets"


def _targets_collection(armature_object: Object) -> Collection:
    """Return the collection of the targets of an armature, shown where the armature is."""
    parent = collection_of(armature_object, bpy.context.view_layer)
    name = f"{armature_object.name}{SUFFIX}"
    for child in parent.children:
        if child.name == name:
            return child
    collection: Any = bpy.data.collections.new(name)
    collection.color_tag = 'COLOR_03'
    parent.children.link(collection)
    return collection


def _show(
    target: Any, part: Part, character: Character, armature_object: Object, collection: Collection
) -> None:
    """Give a target its shape, size and colour, and put it with the others."""
    shape = SHAPES[part.what]
    target.empty_display_type = shape.display
    size = character.figures[part.figure].size if character.figures else 1.0
    target.empty_display_size = shape.size * size * armature_object.matrix_world.median_scale
    target.color = COLOURS[part.side]
    target.show_in_front = True
    for other in target.users_collection:
        other.objects.unlink(target)
    collection.objects.link(target)
