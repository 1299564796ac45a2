# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of effectors as plain data, and what is read of them at a frame: targets, influences, lengths.

Targets are read from the evaluated depsgraph, in world space, with whatever parents, constraints and
animation they have. What is missing, not evaluated or not a number is refused by an `IKError` that names the
effector and says what to do.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import isclose, isfinite
from typing import Any, Final, cast

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError
from ...core.arrays import BoolArray, FloatArray
from ...core.messages import Message
from ..animation.dependence import check_independence, check_place
from ..animation.fcurves import (
    PLACED_BY,
    driven_channels,
    is_moved,
    own_curves,
    present_time,
)
from ..animation.own_keys import keys_that_place
from ..armature.armature import check_armature, world_from_armature
from ..armature.limits import SAME_REST
from ..kinds.kinds import KINDS, Anchor, Effector, asked_of
from ..properties.overrides import library_of
from ..properties.settings import STATE_ITEMS, POISE_PG_effector, POISE_PG_target, settings_of
from .feet import angles_of, foot_at_target, is_rolling, read_foot, unrolled, with_feet_rolled
from .rests import change_of_rest, note_rest, placed_now, rest_is_noted, taken_along
from .stance import anchored, anchors_from, anchors_text, stance, sum_of_carriers

COPIED: Final = ("bone", "kind", "priority", "weight", "chain_depth", "is_support", "stay")
"""Fields of an entry that an effector takes as they are."""

FINITE: Final = (
    *("weight", "softness_position", "softness_rotation", "point", "other_point", "pin_matrix"),
    *("heel_point", "ball_point", "tip_point"),
)
"""Fields of an entry that must be numbers; scripts and drivers can write others."""

UNMOVED: Final = 1e-6
"""Difference of an entry of a matrix [1, m], of its size and 1, up to which a target is where it was."""

Following = POISE_PG_effector | POISE_PG_target
"""What names a target: an effector, or one of its further targets."""


def read_effectors(armature_object: Object, *, drawing: bool = False) -> tuple[Effector, ...]:
    """Read and check the enabled effectors of an armature object.

    Args:
        drawing: Whether incomplete ones are left out instead of refused.
    """
    entries = settings_of(armature_object).effectors
    found: list[Effector] = []
    for index, entry in enumerate(entries):
        if entry.enabled:
            try:
                found.append(_read(armature_object, index, entry))
            except IKError:
                if not drawing:
                    raise
    if not any(entry.enabled for entry in entries):
        if not len(entries):
            raise IKError(
                "{armature!r}: there are no effectors: add one in the sidebar, tab Poise",
                armature=armature_object.name,
            )
        raise IKError(
            "{armature!r}: all effectors are disabled: enable one in the sidebar, tab Poise",
            armature=armature_object.name,
        )
    return tuple(found)


def _read(armature_object: Object, index: int, entry: POISE_PG_effector) -> Effector:
    label, kind, asked = label_of(entry), KINDS[entry.kind], asked_of(entry)
    state = present_state(armature_object, entry)
    check_bone(armature_object, entry)
    for field in FINITE:
        value: Any = getattr(entry, field)
        if not all(map(isfinite, (value,) if isinstance(value, float) else value)):
            name = Message(entry.bl_rna.properties[field].name)
            remedy = Message("set it in the sidebar, tab Poise")
            if field == "pin_matrix":
                remedy = Message("pin the bone again")
            raise IKError(
                "effector {label!r}: its {name} is not a number: {remedy}",
                label=label,
                name=name,
                remedy=remedy,
            )
    use = 'NEEDED' if state == 'REACH' != entry.state else kind.target_use(entry)
    followed: list[Following] = []
    if use == 'NEEDED' or (use == 'OPTIONAL' and target_of(entry) is not None):
        followed = [entry, *(entry.others if kind.several else ())]
    for each in followed:
        check_independence(label, present_target(label, each), armature_object)
    # Two of several by the same name, from two files, would not be told apart, nor two bones of one armature.
    names = [target_label(each) if kind.several else each.target.name for each in followed if each.target]
    return Effector(
        index=index,
        name=label,
        **{name: getattr(entry, name) for name in COPIED},
        target=names[0] if names else "",
        target_bone=_target_bone(entry) if names else "",
        others=tuple(names[1:]),
        **{name: tuple(getattr(entry, name)) for name in ("point", "position_axes", "orientation_axes")},
        softness_position=entry.softness_position if asked.placed else 0.0,
        softness_rotation=entry.softness_rotation if asked.turned else 0.0,
        state=state,
        anchors=_present_anchors(entry, state),
        **kind.read(label, entry),
        **read_foot(armature_object, label, entry),
    )


# Entries


def check_bone(armature_object: Object, entry: POISE_PG_effector) -> None:
    """Refuse an entry whose bone is not chosen or not there."""
    data: Any = armature_object.data
    if entry.bone not in data.bones:
        missing = (
            Message("no bone {bone!r} (renamed?)", bone=entry.bone)
            if entry.bone
            else Message("no bone chosen")
        )
        raise IKError(
            "effector {label!r} has {missing} in {armature!r}: choose its bone, or disable it",
            label=label_of(entry),
            missing=missing,
            armature=armature_object.name,
        )


def present_state(armature_object: Object, entry: POISE_PG_effector) -> str:
    """The state of an entry, which is Reach as soon as somebody has moved, keyed or bound its target.

    Who moves a target wants the bone there. What had keys, constraints or another parent already when its
    bone was pinned does not count: then the target is left out on purpose.
    """
    if entry.state in {'REACH', 'OFF'}:
        return entry.state
    if not KINDS[entry.kind].pinnable:
        return 'REACH'
    target = target_of(entry)
    if target is None:
        return entry.state
    is_noted, follows = bool(entry.placed[15]), entry.state == 'FOLLOW'
    if (is_led if follows else is_taken)(armature_object, entry) and (is_noted or follows):
        return 'REACH'
    # The own channels: they stay where the armature object takes the target along.
    was, now = placed_now(entry), np.array(target.matrix_basis)
    far = np.abs(now - was) > UNMOVED * (1.0 + np.abs(was))
    return 'REACH' if is_noted and far.any() and not (follows and _is_played(target, far)) else entry.state


def _is_played(target: Object, far: BoolArray) -> bool:
    """Whether a target whose matrix has moved in some entries (4, 4) is where its keys have it now."""
    curves = {channel: curve for channel, curve in own_curves(target).items() if channel[0] in PLACED_BY}
    if not curves:
        return False
    time = present_time()
    values = np.array([getattr(target, path)[index] for path, index in curves])
    played = np.array([curve.evaluate(time) for curve in curves.values()])
    paths = {path for path, _ in curves}
    unkeyed = ("location" not in paths and far[:3, 3].any()) or (paths <= {"location"} and far[:3, :3].any())
    return not unkeyed and bool((np.abs(values - played) <= UNMOVED * (1.0 + np.abs(played))).all())


def possible_states(entry: POISE_PG_effector) -> list[str]:
    """States that an entry can have, in the order of the menu; to follow its target must be free as well."""
    held = KINDS[entry.kind].pinnable
    return [item[0] for item in STATE_ITEMS if held or item[0] in {'REACH', 'OFF'}]


def is_taken(armature_object: Object, entry: Following) -> bool:
    """Whether keys, drivers, constraints, a parent or a bone say where a target is."""
    return is_moved(entry.target, armature_object) or is_led(armature_object, entry)


def is_led(armature_object: Object, entry: Following) -> bool:
    """Whether others than Poise say where a target is: as `is_taken`, without keys that have an anchor."""
    keyed = is_moved(entry.target, armature_object)
    if keyed and (anchors := _anchors_of_keys(entry)):
        keyed = None in anchors
    return keyed or _is_bound(armature_object, entry)


def _is_bound(armature_object: Object, entry: Following) -> bool:
    """Whether drivers, strips, constraints, a parent or a bone say where a target is."""
    target: Any = entry.target
    bound = target.parent not in {None, armature_object} or target.parent_type != 'OBJECT'
    driven = any(path in PLACED_BY for path, _ in driven_channels(target))
    played = target.animation_data is not None and len(target.animation_data.nla_tracks) > 0
    return bool(bound or driven or played or target.constraints or _target_bone(entry))


def has_own_place(armature_object: Object, entry: Following) -> bool:
    """Whether a target is where its own channels say, which no keys move, and where its armature takes it."""
    return is_placed_by_channels(armature_object, entry) and not is_moved(entry.target, armature_object)


def is_placed_by_channels(armature_object: Object, entry: Following) -> bool:
    """Whether a target is where its own channels say, keyed or not, and where its armature takes it."""
    target: Any = entry.target
    deltas = [*target.delta_location, *target.delta_rotation_euler, *target.delta_rotation_quaternion[1:]]
    return not (_is_bound(armature_object, entry) or any(deltas) or target.rigid_body is not None)


def is_held(entry: POISE_PG_effector) -> bool:
    """Whether it is noted where the bone of an entry is held."""
    return bool(np.any(np.array(entry.pin_matrix) != 0.0))


def noted_anchor(entry: POISE_PG_effector) -> Anchor | None:
    """Where others have left the bone of an entry last; None where nobody has noted that."""
    if not is_held(entry):
        return None
    bone = tuple(entry.pin_matrix)
    known = (own for own in anchors_from(entry.anchors) if not own.keyed and own.bone == bone)
    return taken_along(next(known, Anchor(bone)), change_of_rest(entry))


def keyed_anchors(entry: Following) -> tuple[Anchor, ...]:
    """The anchors of the keys that the target of an entry has, in the order of time.

    A key that was moved or copied has the anchor that it had; of several with its values the nearest.
    """
    return tuple(own for own in _anchors_of_keys(entry) if own is not None)


def _anchors_noted(entry: Following) -> list[Anchor]:
    """The anchors that are noted of an entry with what carries the bone, or with keys."""
    if not isinstance(entry, POISE_PG_effector) or not entry.anchors:
        return []
    change = change_of_rest(entry)
    return [taken_along(own, change) for own in anchors_from(entry.anchors)]


def _anchors_of_keys(entry: Following) -> list[Anchor | None]:
    """The anchor of each key of the target of an entry; none where the entry has no anchors of keys."""
    known = [own for own in _anchors_noted(entry) if own.keyed]
    target = target_of(entry) if known else None
    found: list[Anchor | None] = []
    for time, key in () if target is None else zip(*keys_that_place(target), strict=True):
        alike = [own for own in known if own.key == key]
        nearest = min(alike, key=lambda own, time=time: abs((own.time or 0.0) - time), default=None)
        found.append(None if nearest is None else nearest._replace(time=float(time)))
    return found


def _present_anchors(entry: POISE_PG_effector, state: str) -> tuple[Anchor, ...]:
    """Where the bone of an entry in a state is held: by keys, if nobody has posed it in this frame since."""
    noted = None if state == 'REACH' else noted_anchor(entry)
    by_hand = noted is not None and noted.time is not None and noted.time == present_time()
    keyed = keyed_anchors(entry) if state == 'FOLLOW' and not by_hand else ()
    return keyed or (() if noted is None else (noted,))


def note_anchors(entry: POISE_PG_effector, *anchors: Anchor) -> None:
    """Note where the bone of an entry is held, in place of what was noted: as it was left, and at keys."""
    noted, place = noted_anchor(entry), placed_now(entry).ravel().tolist()
    now = keyed_anchors(entry)  # a key that was moved keeps its anchor when another comes to its place
    before = [own for own in _anchors_noted(entry) if own.key not in {own.key for own in now}]
    for own in (own for own in (noted, *anchors) if own is not None and not own.keyed):
        if tuple(entry.pin_matrix) != own.bone:
            entry.pin_matrix = own.bone
    if not rest_is_noted(entry):
        note_rest(entry)
        if entry.target is not None and place[15] and place == _own_matrix(entry.target):
            note_place(entry)
    found = {own.time if own.keyed else None: own for own in (*before, *now, *anchors)}
    text = anchors_text(own for own in found.values() if own.keyed or own.carriers is not None)
    if entry.anchors != text:
        entry.anchors = text


def note_place(entry: Any) -> None:
    """Note that the target of an entry is where Poise has placed it."""
    if not rest_is_noted(entry):
        note_anchors(entry)
    placed = _own_matrix(entry.target)
    if placed != list(entry.placed):
        entry.placed = placed
    _note_inverse(entry)


def _note_inverse(entry: Any) -> None:
    inverse = np.array(entry.target.matrix_parent_inverse).ravel().tolist()
    if inverse != list(entry.placed_inverse):
        entry.placed_inverse = inverse


def keep_keyed_targets(armature_object: Object) -> None:
    """Let keys of targets play where they did when the armature object was applied, and note their space.

    *Apply* and *Set Origin* make the place of a child in the world its own channels, to which its keys do not
    lead, and give it the inverse of the new matrix of the object. Instead of that inverse the target gets the
    one that it had, by which armature space has changed, and its own channels back; it stays where it is.
    """
    data: Any = armature_object.data
    if not armature_object.is_editable or data.is_editmode:
        return
    for entry in settings_of(armature_object).effectors:
        target: Any = entry.target
        if target is None or target.parent != armature_object or target.parent_type != 'OBJECT':
            continue
        is_same, noted = rest_is_noted(entry), np.array(entry.placed_inverse).reshape(4, 4)
        if is_same and (noted == np.array(target.matrix_parent_inverse)).all():
            continue
        change = np.eye(4) if is_same else change_of_rest(entry)
        if change is not None and noted[3, 3] and target.is_editable:
            _give_back_inverse(target, change @ noted, is_same=is_same)
        if not is_same:
            note_anchors(entry)
        _note_inverse(entry)


def _give_back_inverse(target: Any, inverse: FloatArray, *, is_same: bool) -> None:
    """Give a target that Blender has moved away from its keys the parent inverse (4, 4) that they need.

    Where armature space is the same, one that was not at its keys has got another inverse from the user.
    """
    time, curves = present_time(), own_curves(target).items()
    keyed = {channel: curve.evaluate(time) for channel, curve in curves if channel[0] in PLACED_BY}
    if not keyed:
        return
    now = {path: tuple(getattr(target, path)) for path in PLACED_BY}
    inverse_now = target.matrix_parent_inverse.copy()
    armature_from_target = np.array(inverse_now) @ np.array(target.matrix_basis)
    target.matrix_parent_inverse = inverse.T.tolist()
    target.matrix_basis = np.linalg.solve(inverse, armature_from_target).T.tolist()
    left = target.matrix_basis.copy()
    for (path, index), value in keyed.items():  # exactly, and with whole turns
        getattr(target, path)[index] = value
    if np.abs(np.array(target.matrix_basis) - np.array(left)).max() <= SAME_REST * (1.0 + np.abs(left).max()):
        return
    target.matrix_basis = left  # it had been moved from its keys before
    played = (
        isclose(now[path][index], value, rel_tol=UNMOVED, abs_tol=UNMOVED)
        for (path, index), value in keyed.items()
    )
    if is_same or all(played):
        # Nobody has moved it away, or it was keyed anew since.
        target.matrix_parent_inverse = inverse_now
        for path, values in now.items():
            setattr(target, path, values)


def _own_matrix(target: Any) -> list[float]:
    return np.array(target.matrix_basis).ravel().tolist()


def label_of(entry: POISE_PG_effector) -> str:
    """Return the name of an entry for messages: its place in the list where nothing else is known of it."""
    if entry.name or entry.bone:
        return entry.name or entry.bone
    entries = list(settings_of(cast(Object, entry.id_data)).effectors)
    return Message("number {index}", index=entries.index(entry) + 1)


def lacks_target(entry: POISE_PG_effector) -> bool:
    """Whether an entry needs a target and has none."""
    kind = KINDS[entry.kind]
    if kind.several and any(target_of(other) is None for other in entry.others):
        return True
    return kind.target_use(entry) == 'NEEDED' and target_of(entry) is None


def target_of(entry: Following) -> Object | None:
    """The target of an entry; None where there is none, or it was deleted.

    An object that is deleted in the viewport leaves the scene, but stays in the file while an entry points to
    it. Then nobody can see or move it, and nothing evaluates it.
    """
    target = entry.target
    if target is None or target.is_missing:  # what is missing from its library can be relinked
        return target
    # By name first, which is quick: panels ask for every effector whenever they are drawn.
    if bpy.context.view_layer.objects.get(target.name) == target or target.users_scene:
        return target
    instanced = {user.instance_collection for user in bpy.data.objects}
    return target if any(target in each.all_objects.values() for each in instanced if each) else None


def taken_of(entry: POISE_PG_effector) -> Following:
    """What a bone follows, of several targets: that which it took last, before that the first."""
    every = (entry, *entry.others) if KINDS[entry.kind].several else ()
    return next((own for own in every if own.target and target_label(own) == entry.taken), entry)


def all_targets(entry: POISE_PG_effector) -> list[Object]:
    """All targets of an entry, deleted ones included."""
    return [own.target for own in (entry, *entry.others) if own.target is not None]


def targets_of(armature_object: Object) -> list[Object]:
    """All targets of an armature object's effectors, each once, deleted ones included."""
    return list(dict.fromkeys(chain(*map(all_targets, settings_of(armature_object).effectors))))


def _target_bone(entry: Following) -> str:
    """The bone of a target that is followed; empty for the target itself."""
    return entry.target_bone if entry.target is not None and entry.target.type == 'ARMATURE' else ""


def target_label(entry: Following) -> str:
    """Return the name of a target for messages."""
    return ", ".join(filter(None, (entry.target.name, _target_bone(entry)))) if entry.target else ""


def present_target(label: str, entry: Following) -> Object:
    """Return the target of an entry, if it is there and was not deleted from the scene."""
    target = checked_target(label, entry)
    if target_of(entry) is None:
        raise IKError(
            "effector {label!r}: its target {target!r} is in no scene (deleted?): choose one, make one, "
            "or disable it",
            label=label,
            target=target.name,
        )
    return target


def checked_target(label: str, entry: Following) -> Object:
    """Return the target of an entry, if it is there; fast enough for each frame."""
    target = entry.target
    if target is None:
        raise IKError(
            "effector {label!r} has no target (deleted?): choose one, make one, or disable it", label=label
        )
    if target.is_missing:
        raise IKError(
            "effector {label!r}: its target {target!r} is missing from {where}. Relink it",
            label=label,
            target=target.name,
            where=library_of(target),
        )
    if bone := _target_bone(entry):
        bones: Any = () if target.pose is None else target.pose.bones
        if bone not in bones:
            raise IKError(
                "effector {label!r}: its target {target!r} has no bone {bone!r} (renamed?). Choose another "
                "bone, or none",
                label=label,
                target=target.name,
                bone=bone,
            )
    return target


# At a frame


def check_evaluated(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> None:
    """Refuse an armature or targets that the depsgraph does not keep up to date, or a place that is lost.

    `is_evaluated` does not help: a target that is not shown is still in the depsgraph, because the effector
    points to it, with the values of when it was last shown. The check reads the whole depsgraph (1 ms for
    1000 objects), so call it once, not for each frame.
    """
    entries = settings_of(armature_object).effectors
    targets = [
        (Message("effector {effector!r}: its target", effector=effector.name), followed.target)
        for effector in effectors
        for followed in _followed(effector, entries[effector.index])
    ]
    present = {block.original for block in depsgraph.ids}
    for role, obj in [(Message("armature"), armature_object), *targets]:
        if obj is not None and obj not in present:
            raise IKError(
                "{role} {obj!r} is not evaluated in this view layer: it was deleted from the scene, is "
                "disabled in viewports, or its collections are. Enable it there (hiding with H does no harm)",
                role=role,
                obj=obj.name,
            )
    check_place(armature_object)


def check_present(armature_object: Object) -> None:
    """Refuse an armature that cannot be posed, or whose matrix cannot place targets in the world."""
    check_armature(armature_object)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    check_evaluated(armature_object, (), depsgraph)
    world_from_armature(armature_object.evaluated_get(depsgraph))


def _followed(effector: Effector, entry: POISE_PG_effector) -> list[Following]:
    """Return the entries that hold the targets of an effector.

    From the entry, not by name: a target may have been renamed, and names differ only within a file.
    """
    return [entry, *entry.others][: len(effector.targets)] if effector.target else []


def _same_entry(armature_object: Object, entries: Any, effector: Effector) -> POISE_PG_effector:
    """Return the entry of an effector, if the list is still the same."""
    entry = entries[effector.index] if effector.index < len(entries) else None
    if entry is None or entry.bone != effector.bone or len(entry.others) < len(effector.others):
        raise IKError(
            "the effectors of {armature!r} have changed meanwhile: begin again", armature=armature_object.name
        )
    return entry


def world_from_targets(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph, entries: Any = None
) -> FloatArray:
    """Read the matrices of the targets at the depsgraph's frame, (T, 4, 4) [m].

    An effector has as many as `Effector.targets` has names, in the order of the effectors. That of one whose
    bone is held is the matrix of the bone where it is held, with the origin at its point: see `stance` for
    those that follow. That of an effector without a target is the identity. Those of feet that roll are
    where foot and toes are rolled to.

    Args:
        entries: The list of effectors at the depsgraph's frame, see `trails.sampling`; by default as it is.
    """
    entries = settings_of(armature_object).effectors if entries is None else entries
    matrices: list[list[FloatArray]] = []
    for effector in effectors:
        entry = _same_entry(armature_object, entries, effector)
        if effector.anchors:
            own = [_world_from_held(armature_object, effector, effector.anchors[0].bone, depsgraph)]
        elif effector.target:
            own = [_world_from(effector, each, depsgraph) for each in _followed(effector, entry)]
        else:
            own = [np.eye(4)]
        matrices.append(own)
    if following := [row for row, effector in enumerate(effectors) if effector.follows and effector.anchors]:
        scene: Any = depsgraph.scene
        armature_from_world = _armature_from_world(armature_object, depsgraph)
        targets = [armature_from_world @ own[0] for own in matrices]
        for row in following:
            own = effectors[row]
            bone = anchored(armature_object, effectors, own, targets, float(scene.frame_current_final))
            matrices[row] = [_world_from_held(armature_object, own, bone, depsgraph)]
    if any(effector.sole is not None for effector in effectors):
        _, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
        matrices = with_feet_rolled(effectors, entries, matrices, scale)
    return np.array(list(chain(*matrices))).reshape(-1, 4, 4)


def _world_from_held(
    armature_object: Object, effector: Effector, bone: Sequence[float] | FloatArray, depsgraph: Depsgraph
) -> FloatArray:
    """world_from_point of a bone at armature_from_bone (16,) [m]."""
    held = np.array(armature_object.evaluated_get(depsgraph).matrix_world) @ np.reshape(bone, (4, 4))
    return at_point(held, effector)


def at_point(matrix: FloatArray, effector: Effector) -> FloatArray:
    """The matrix of the bone of an effector (4, 4) [m] with the origin at its point."""
    moved = np.array(matrix)
    moved[:3, 3] += moved[:3, :3] @ np.array(effector.point)
    return moved


def anchors_now(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> dict[int, Anchor]:
    """Return where bones that follow are held in the depsgraph's frame, by the index of the effector."""
    following = [effector for effector in effectors if effector.follows and effector.anchors]
    if not following:
        return {}
    scene: Any = depsgraph.scene
    targets, up = _armature_from_targets(armature_object, effectors, depsgraph)
    found: dict[int, Anchor] = {}
    for own in following:
        bone = anchored(armature_object, effectors, own, targets, float(scene.frame_current_final))
        found[own.index] = _anchor(armature_object, effectors, own, bone, targets, up)
    return found


def _armature_from_world(armature_object: Object, depsgraph: Depsgraph) -> FloatArray:
    """(4, 4) [m] (IKError: as `world_from_armature`)."""
    matrix, _ = world_from_armature(armature_object.evaluated_get(depsgraph))
    return np.linalg.inv(matrix).astype(np.float64)


def _armature_from_targets(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> tuple[list[FloatArray], FloatArray]:
    """The first target of each effector (4, 4) [m], feet not rolled, and the vertical, of length 1."""
    flat = [replace(effector, others=(), sole=None, toe_bone="") for effector in effectors]
    armature_from_world = _armature_from_world(armature_object, depsgraph)
    up = armature_from_world[:3, 2] / np.linalg.norm(armature_from_world[:3, 2])
    return list(armature_from_world @ world_from_targets(armature_object, flat, depsgraph)), up


def _anchor(
    armature_object: Object,
    effectors: Sequence[Effector],
    own: Effector,
    bone: FloatArray,
    places: Sequence[FloatArray],
    up: FloatArray,
) -> Anchor:
    """Where a bone is held (4, 4) [m], with what carries it, which is at some places (as `stance`)."""
    now = stance(armature_object, effectors, own, places, up)
    stood = None if now is None else tuple(now.ravel().tolist())
    return Anchor(tuple(bone.ravel().tolist()), stood, sum_of_carriers(armature_object, effectors, own))


def as_noted(armature_object: Object, effectors: Sequence[Effector]) -> tuple[Effector, ...]:
    """Return effectors in the states that are noted: those from before others have moved targets."""
    entries = settings_of(armature_object).effectors
    return tuple(replace(own, state=entries[own.index].state) for own in effectors)


def anchors_taken_along(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> dict[int, Anchor]:
    """Return anchors of no key whose carriers have moved, as they are with these now, by effector index.

    Bones are held from there as before.
    """
    following = [own for own in effectors if own.follows and own.anchors and not own.anchors[0].keyed]
    following = [own for own in following if own.anchors[0].stance is not None]
    if not following:
        return {}
    targets, _ = _armature_from_targets(armature_object, effectors, depsgraph)
    found: dict[int, Anchor] = {}
    for own in following:
        anchor = own.anchors[0]
        then = np.reshape(anchor.stance or (), (4, 4))
        now = stance(armature_object, effectors, own, targets, then[:3, 2])
        if now is None or anchor.carriers != sum_of_carriers(armature_object, effectors, own):
            continue
        if np.abs(now - then).max() > UNMOVED * (1.0 + np.abs(then).max()):
            bone = anchored(armature_object, effectors, own, targets, present_time())
            stood = tuple(now.ravel().tolist())
            found[own.index] = anchor._replace(bone=tuple(bone.ravel().tolist()), stance=stood)
    return found


def with_carriers(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph, *, in_frame: bool = False
) -> tuple[Effector, ...]:
    """Return effectors with what carries those that follow noted as it is now, where others are noted.

    Bone and carriers are noted as they are in one pose. That is the one in which the bone was noted: what
    others have moved since counts where it was before, as the last solve has left it. Where the bone was
    noted just now, or with keys, it is the pose that is shown.

    Args:
        in_frame: Whether anchors of keys get another one in the present frame, where others carry the bone
            in this solve than in the last one.
    """
    before = as_noted(armature_object, effectors)

    def lacks(own: Effector) -> bool:
        if not own.follows or not own.anchors:
            return False
        anchor, known = own.anchors[0], sum_of_carriers(armature_object, effectors, own)
        if anchor.keyed:
            return in_frame and known != sum_of_carriers(armature_object, before, own)
        return anchor.stance is None or anchor.carriers != known

    lacking = [own.index for own in effectors if lacks(own)]
    if not lacking:
        return tuple(effectors)
    targets, up = _armature_from_targets(armature_object, effectors, depsgraph)
    entries, time = settings_of(armature_object).effectors, present_time()
    posed: Any = armature_object.evaluated_get(depsgraph)
    bones = [np.array(posed.pose.bones[own.bone].matrix) for own in effectors]
    flat = [unrolled(entries[own.index], bone) for own, bone in zip(effectors, bones, strict=True)]
    places = [at_point(bone, own) for own, bone in zip(effectors, flat, strict=True)]
    left = [_left_at(armature_object, own) for own in effectors]

    def noted(own: Effector) -> Anchor:
        anchor, known = own.anchors[0], sum_of_carriers(armature_object, effectors, own)
        bone, shown = np.reshape(anchor.bone, (4, 4)), places
        if anchor.keyed:
            bone = anchored(armature_object, before, own, places, time)
        elif anchor.carriers in {None, known}:
            shown = [now if was is None else was for was, now in zip(left, targets, strict=True)]
        elif anchor.stance is not None:
            shown = [now if was is None else was for was, now in zip(left, places, strict=True)]
        found = _anchor(armature_object, effectors, own, bone, shown, up)
        return found._replace(time=time if anchor.keyed else anchor.time)

    return tuple(replace(own, anchors=(noted(own),)) if own.index in lacking else own for own in effectors)


def _left_at(armature_object: Object, effector: Effector) -> FloatArray | None:
    """armature_from_target where Poise has left it, (4, 4) [m]; None where nobody has moved it since."""
    entry: Any = settings_of(armature_object).effectors[effector.index]
    if entry.state == effector.state:
        return None
    if entry.state == 'PIN' and (pinned := noted_anchor(entry)) is not None:
        return at_point(np.reshape(pinned.bone, (4, 4)), effector)
    if entry.target is None or not entry.placed[15]:
        return None
    if entry.target.parent == armature_object:
        return np.array(entry.target.matrix_parent_inverse) @ placed_now(entry)
    return np.linalg.inv(np.array(armature_object.matrix_world)) @ placed_now(entry)


def foot_rings(
    armature_object: Object, row: int, depsgraph: Depsgraph
) -> tuple[dict[str, FloatArray], float]:
    """Where the angles of the foot at a place in the list turn it, and how long that foot is, in the world.

    Returns:
        world_from_ring of each angle, (4, 4) [m], without scale, turned about Z by it; none where the foot
        does not roll or lacks something. And the length from heel to tip [m].
    """
    entry = settings_of(armature_object).effectors[row]
    try:
        effector = _read(armature_object, row, entry) if is_rolling(entry) and entry.enabled else None
        if effector is None or effector.sole is None:
            return {}, 0.0
        flat = replace(effector, sole=None, toe_bone="")
        [world_from_target] = world_from_targets(armature_object, [flat], depsgraph)
        rings = effector.sole.rings(angles_of(effector.name, entry))
        _, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
    except IKError:
        return {}, 0.0  # what is wrong is said where the user asks for a solve
    world_from_foot = foot_at_target(world_from_target, effector.point, scale)
    placed = {name: world_from_foot @ ring for name, ring in rings.items()}
    for matrix in placed.values():
        matrix[:3, :3] /= scale
    return placed, scale * effector.sole.length


def _world_from(effector: Effector, followed: Following, depsgraph: Depsgraph) -> FloatArray:
    """Read world_from_target, (4, 4) [m]."""
    target: Any = checked_target(effector.name, followed).evaluated_get(depsgraph)
    matrix = np.array(target.matrix_world)
    if bone := _target_bone(followed):
        matrix = matrix @ np.array(target.pose.bones[bone].matrix)
    if not np.isfinite(matrix).all():
        scene: Any = depsgraph.scene
        raise IKError(
            "effector {effector!r}: the place of its target {target!r} is not a number in frame "
            "{frame}. Look at its drivers, constraints and scale",
            effector=effector.name,
            target=target.name,
            frame=scene.frame_current,
        )
    return matrix


def read_amounts(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph, entries: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Read what can be animated, at the depsgraph's frame.

    From the original object, to which Blender writes what it has animated: the evaluated one does not follow
    when a script changes a property of an add-on.

    Args: as `world_from_targets`.

    Returns:
        Influences, (E,), clamped to 0 to 1, and lengths [m], (E,): distances and heights; 0 for kinds that
        have none.
    """
    entries = settings_of(armature_object).effectors if entries is None else entries
    influences, lengths = np.ones(len(effectors)), np.zeros(len(effectors))
    for row, effector in enumerate(effectors):
        entry = _same_entry(armature_object, entries, effector)
        for amounts, name in ((influences, "influence"), (lengths, effector.goal.length_property)):
            if name:
                amounts[row] = getattr(entry, name)
                if not np.isfinite(amounts[row]):
                    scene: Any = depsgraph.scene
                    raise IKError(
                        "effector {effector!r}: its {name} is not a number in frame {frame}. Look at its "
                        "keys and drivers",
                        effector=effector.name,
                        name=name,
                        frame=scene.frame_current,
                    )
        if effector.follows:  # an influence is a part of the way to a target
            influences[row] = 1.0
    return np.clip(influences, 0.0, 1.0), lengths
