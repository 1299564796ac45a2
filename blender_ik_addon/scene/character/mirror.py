# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors settings of effectors, their targets, limits and the pose to the other side.

Pairs of bones are found by Blender's own exchange of names (.L and .R, left and right), and where that finds
none by their roles. With S the reflection in the body's plane of symmetry, R the rest rotation of a bone and
R' that of its counterpart, both in armature space: a turn Q of the bone from its rest pose, in its own axes,
is R Q Rᵀ in the armature's, reflected S R Q Rᵀ S, and R'ᵀ S R Q Rᵀ S R' for the counterpart. A target that is
turned by T in the armature goes to S T Rᵀ S R'. Mirroring twice changes nothing, for any R and R'.
"""

from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.messages import Joined, Message, counted, sentences
from ..animation.fcurves import animated_channels, rotation_channel
from ..armature.armature import check_armature
from ..armature.limits import joint_entries, limits_of, store_limits, turned_limits
from ..armature.pose_note import note_posed
from ..armature.role_table import Symmetry
from ..effectors.effectors import check_present, label_of, target_of
from ..effectors.entries import add_effector
from ..effectors.transforms import rotation_of, rotations_of, set_rotation
from ..kinds.kinds import AXES
from ..properties.effector_properties import FURTHER_BONES, SIDELESS, POISE_PG_effector, plain
from ..properties.settings import effector_path, settings_of
from ..reports import check_known, listed, number_of_bones, number_of_effectors, number_of_targets
from .mirrored_keys import Image, PropertyKeys, mirror_images, obstacle_to_keys, write_keys_of

DIRECTIONS: Final = ('FLIP', 'LEFT_TO_RIGHT', 'RIGHT_TO_LEFT')

SQUARE: Final = 1e-4
"""Cosine [1] between axes up to which they are square: rest matrices are stored in single precision."""

SAME: Final = 1e-9
"""Difference of rotations [1] that is rounding."""

ANIMATED: Final = {"point", *SIDELESS} - {"kind", "choice", "stay", "stay_scope"}
"""Settings whose keys are mirrored too: `point` is turned, the others are the same on both sides."""


@dataclass(frozen=True)
class MirrorReport:
    """Report of mirroring."""

    effectors: tuple[str, ...]
    """Names of effectors with other settings than before."""
    targets: tuple[str, ...]
    """Names of targets that were moved."""
    limits: tuple[str, ...]
    """Bones with other limits than before."""
    bones: tuple[str, ...]
    """Bones that were posed."""
    notes: tuple[str, ...]
    """What could not be mirrored, one sentence each."""

    def summary(self) -> str:
        """Return how much was mirrored, for the status bar."""
        parts = [
            number_of_effectors(len(self.effectors)),
            number_of_targets(len(self.targets)),
            counted(len(self.limits), "{count} limit", "{count} limits"),
            number_of_bones(len(self.bones)),
        ]
        parts = [part for part in parts if part.values["count"]]
        done = Message("mirrored {parts}", parts=Joined(", ", parts))
        return sentences(done if parts else Message("nothing to mirror"), *self.notes)


def mirror(
    armature_object: Object,
    direction: str = 'FLIP',
    *,
    settings: bool = True,
    targets: bool = True,
    limits: bool = True,
    pose: bool = True,
) -> MirrorReport:
    """Mirror an armature's set-up and pose.

    Args:
        direction: 'FLIP' exchanges both sides, 'LEFT_TO_RIGHT' and 'RIGHT_TO_LEFT' copy one to the other.
        settings: Settings of effectors.
        targets: Places and orientations of targets.
        limits: Limits, stiffness and preferred angles.
        pose: Location and rotation of bones.

    Raises:
        IKError: The armature cannot be posed, or there is no such direction.
    """
    (check_present if targets else check_armature)(armature_object)
    check_known("Direction", direction, DIRECTIONS)
    body = Symmetry.read(armature_object, direction)
    notes: list[str] = []
    changed = _mirror_settings(armature_object, body, notes) if settings else ()
    moved = _mirror_targets(armature_object, body, notes) if targets else ()
    limited = _mirror_limits(armature_object, body, notes) if limits else ()
    posed = _mirror_pose(armature_object, body) if pose else ()
    note_posed(armature_object)
    return MirrorReport(changed, moved, limited, posed, tuple(dict.fromkeys(notes)))


def _counterparts(armature_object: Object, body: Symmetry) -> dict[int, int | None]:
    """Return the effector on the other side of each; itself in the middle, None where there is none."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, entry in enumerate(settings_of(armature_object).effectors):
        groups.setdefault((entry.bone, entry.kind), []).append(index)
    found: dict[int, int | None] = {}
    for (bone, kind), members in groups.items():
        others = groups.get((body.other.get(bone, bone), kind), [])
        found |= {index: others[row] if row < len(others) else None for row, index in enumerate(members)}
    return found


def _mirror_settings(armature_object: Object, body: Symmetry, notes: list[str]) -> tuple[str, ...]:
    entries = settings_of(armature_object).effectors
    wanted: dict[int, tuple[int, dict[str, Any]]] = {}
    alone: list[str] = []
    for index, counterpart in _counterparts(armature_object, body).items():
        entry = entries[index]
        if entry.bone not in body.sources:
            continue
        values = _mirrored_settings(entry, body)
        if counterpart is None and body.other[entry.bone] != entry.bone:
            if len(body.sources) == len(body.skeleton):
                alone.append(label_of(entry, index))
                continue
            name, part = bpy.utils.flip_name(entry.name), bpy.utils.flip_name(entry.part)
            counterpart = add_effector(armature_object, body.other[entry.bone], kind=entry.kind)
            if name not in {other.name for other in entries}:
                entries[counterpart].name = name
            entries[counterpart].part = part
        if counterpart is not None:
            wanted[counterpart] = index, values
    if alone:
        notes.append(Message("without a counterpart on the other side: {alone}", alone=listed(alone)))
    animated = {path for path, _ in animated_channels(armature_object)}
    keys: list[tuple[int, str, tuple[str, str], PropertyKeys]] = []
    for index, (origin, _) in wanted.items():
        for name in sorted(ANIMATED):
            path, other = (effector_path(row, name) for row in (index, origin))
            if not animated.isdisjoint((path, other)):
                keys.append((index, name, (path, other), PropertyKeys.read(armature_object, other)))
    for index, (_, values) in wanted.items():
        for name, value in values.items():
            setattr(entries[index], name, value)
    for index, name, paths, own in keys:
        if why := obstacle_to_keys(armature_object, paths):
            notes.append(
                Message(
                    "the keys of {name} of {entries!r} stay: {why}",
                    name=name,
                    entries=label_of(entries[index], index),
                    why=why,
                )
            )
            continue
        count = len(own.present)
        turn = body.turn(entries[wanted[index][0]].bone) if name == "point" else np.eye(count)
        write_keys_of(armature_object, paths[0], own.affine(turn, np.zeros(count))[0])
    return tuple(entries[index].name for index in wanted)


def _mirrored_settings(entry: POISE_PG_effector, body: Symmetry) -> dict[str, Any]:
    """Return the settings of an effector as its counterpart has them."""
    values = {name: plain(getattr(entry, name)) for name in SIDELESS}
    values |= {name: body.other.get(getattr(entry, name), getattr(entry, name)) for name in FURTHER_BONES}
    turn = body.turn(entry.bone)
    values["point"] = tuple((turn @ np.array(entry.point)).tolist())
    axis = turn @ np.array(AXES[entry.axis])
    values["axis"] = max(AXES, key=lambda name: float(np.array(AXES[name]) @ axis))
    if entry.other_bone in body.other:
        values["other_point"] = tuple((body.turn(entry.other_bone) @ np.array(entry.other_point)).tolist())
    return values


def _mirror_targets(armature_object: Object, body: Symmetry, notes: list[str]) -> tuple[str, ...]:
    entries = settings_of(armature_object).effectors
    bpy.context.view_layer.update()
    images: dict[Object, Image] = {}
    for index, counterpart in _counterparts(armature_object, body).items():
        entry = entries[index]
        if counterpart is None or entry.bone not in body.sources:
            continue
        sides = ([own, *own.others] for own in (entry, entries[counterpart]))
        for own, other in zip(*sides, strict=False):
            source, target = target_of(own), target_of(other)
            if source is None:
                continue
            if target is None or own.target_bone or other.target_bone or not target.is_editable:
                notes.append(
                    Message(
                        "the target of {entry!r} is no object that can be moved alone",
                        entry=label_of(entry, index),
                    )
                )
                continue
            images[target] = Image.of(armature_object, body, source, target, entry.bone)
    mirror_images(armature_object, tuple(images.values()), notes)
    return tuple(target.name for target in images)


def _mirror_limits(armature_object: Object, body: Symmetry, notes: list[str]) -> tuple[str, ...]:
    pose: Any = armature_object.pose
    entries = joint_entries(armature_object)
    wanted: dict[str, tuple[Any, str]] = {}
    askew: list[str] = []
    for bone in sorted(entries.keys() & body.sources & body.other.keys()):
        # Turns are mirrored the other way round than vectors.
        turned = turned_limits(limits_of(pose.bones[bone], entries[bone]), -body.turn(bone))
        if turned is None:
            askew.append(bone)
        else:
            wanted[body.other[bone]] = turned, entries[bone].source
    if askew:
        notes.append(
            Message(
                "the axes of these bones do not mirror those of the other side: {askew}", askew=listed(askew)
            )
        )
    for bone, (limits, source) in wanted.items():
        store_limits(armature_object, bone, limits, source)
    return tuple(wanted)


def _mirror_pose(armature_object: Object, body: Symmetry) -> tuple[str, ...]:
    pose: Any = armature_object.pose
    wanted: dict[str, tuple[FloatArray, FloatArray, FloatArray | None, tuple[float, ...]]] = {}
    for bone in body.skeleton.names:
        to = body.other[bone]
        if bone in body.sources and to not in body.driven:
            source, turn = pose.bones[bone], body.turn(bone)
            location = turn @ np.array(source.location)
            signs = np.rint(turn)
            turn = signs if np.abs(signs - turn).max() < SQUARE else turn
            rotation = turn @ rotation_of(source) @ turn.T
            same_mode = source.rotation_mode == pose.bones[to].rotation_mode
            near = _mirrored_channels(source, turn) if same_mode else None
            wanted[to] = location, rotation, near, tuple(source.scale)
    for bone, (location, rotation, near, scale) in wanted.items():
        target = pose.bones[bone]
        target.location, target.scale = location.tolist(), scale
        mode = target.rotation_mode
        if near is not None and np.abs(rotations_of(near[None], mode)[0] - rotation).max() < SAME:
            setattr(target, rotation_channel(mode)[0], near.tolist())
        else:
            set_rotation(target, rotation, None if near is None else near.tolist())
    return tuple(wanted)


def _mirrored_channels(source: Any, turn: FloatArray) -> FloatArray:
    """Return rotation channels for the counterpart of a bone: the mirrored rotation, or near to it.

    Where the axes of both are mirror images, which they are in most rigs, these are the same numbers with
    other signs, so no digit is lost, not even near gimbal lock.
    """
    values = np.array(getattr(source, rotation_channel(source.rotation_mode)[0]))
    return np.concatenate([values[:-3], -turn @ values[-3:]])
