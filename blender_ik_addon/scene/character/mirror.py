# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors settings of effectors, their targets, limits and the pose to the other side.

Pairs of bones are found by Blender's own exchange of names (.L and .R, left and right), and where that finds
none by their roles. With S the reflection in the body's plane of symmetry, R the rest rotation of a bone and
R' that of its counterpart, both in armature space: a turn Q of the bone from its rest pose, in its own axes,
is R Q Rᵀ in the armature's, reflected S R Q Rᵀ S, and R'ᵀ S R Q Rᵀ S R' for the counterpart. A target that is
turned by T in the armature goes to S T Rᵀ S R'. Mirroring twice changes nothing, for any R and R'.

Keys, of settings and of targets with their places, are put through a linear map. Where each new channel is
one old one times a number, as in the mirror image of an upright rig, its keys are the old ones with other
values, handles and interpolation included. Where channels mix and their keys are on the same frames, handles
are mixed like values, which is exact. Otherwise the curves are sampled on all frames that have a key on any
of them; between these a motion may differ.

The mirror image of a target is an affine map of its place in the world, and one rotation from either side
for its orientation. In the channels of both objects these are constant as long as what they are parented to
stands still or is mirrored itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core.amounts import number_of_bones, number_of_effectors, number_of_targets
from ...core.arrays import FloatArray
from ...core.errors import IKError, check_known
from ...core.messages import Joined, Message, counted, listed, sentences
from ...core.model.rotation import EULER_ORDERS, matrix_in_mode, quat_from_matrix, skew
from ..animation.fcurves import (
    POINTS,
    ROTATION_CHANNELS,
    CurveState,
    KeyArrays,
    animated_channels,
    ensure_channelbag,
    holds_samples,
    is_locked,
    is_moved,
    new_keys,
    other_players,
    own_channelbag,
    own_curves,
    rotation_channel,
    sample_channels,
)
from ..armature.armature import check_armature
from ..armature.limits import joint_entries, limits_of, store_limits, turned_limits
from ..armature.poses import note_posed
from ..armature.role_table import Symmetry
from ..armature.rotation_modes import rotation_of, rotations_in, set_rotation
from ..effectors.effectors import check_present, label_of, note_anchors, note_place, read_effectors, target_of
from ..effectors.entries import add_effector, hold, note_carriers
from ..effectors.transforms import (
    depth,
    put,
    rides,
    world_from_basis,
    world_matrix,
)
from ..kinds.frame_data import orthogonal
from ..kinds.kinds import AXES, KINDS, Anchor, Effector
from ..live.following import held
from ..properties.settings import (
    FOOT_POINTS,
    FURTHER_BONES,
    SIDELESS,
    SOLE_AXES,
    POISE_PG_effector,
    effector_path,
    plain,
    settings_of,
)
from ..rig.noted import end_solve, held_from_now

DIRECTIONS: Final = ('FLIP', 'LEFT_TO_RIGHT', 'RIGHT_TO_LEFT')

SQUARE: Final = 1e-4
"""Cosine [1] between axes up to which they are square: rest matrices are stored in single precision."""

SAME_TURN: Final = 1e-9
"""Difference of rotations [1] that is rounding."""

NOTHING: Final = 1e-6
"""Entries of a map [1] that are as near to 0 or ±1 are rounded: maps come from single precision."""

SAME_FRAME: Final = 1e-3
"""Difference of keys and handles [frames] that is rounding: Blender has them in single precision."""

CHANNELS: Final = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle")
"""Properties whose keys are mirrored."""

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
    depsgraph = bpy.context.evaluated_depsgraph_get()
    has_effectors = any(entry.enabled for entry in settings_of(armature_object).effectors)
    effectors = read_effectors(armature_object, drawing=True) if has_effectors else ()
    before = held_from_now(armature_object, effectors, depsgraph)
    with held(armature_object):  # live mode would follow targets whose bones are not mirrored yet
        changed = _mirror_settings(armature_object, body, notes) if settings else ()
        moved = _mirror_targets(armature_object, body, notes) if targets else ()
        limited = _mirror_limits(armature_object, body, notes) if limits else ()
        posed = _mirror_pose(armature_object, body) if pose else ()
        note_posed(armature_object)
        if before and targets and pose:
            _mirror_states(armature_object, body, before, settings=settings)
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
                alone.append(label_of(entry))
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
                    entries=label_of(entries[index]),
                    why=why,
                )
            )
            continue
        count = len(own.present)
        turn = body.turn(entries[wanted[index][0]].bone) if name == "point" else np.eye(count)
        write_keys_of(armature_object, paths[0], own.affine(turn, np.zeros(count))[0])
    return tuple(entries[index].name for index in wanted)


def _mirror_states(
    armature_object: Object, body: Symmetry, before: Sequence[Effector], *, settings: bool
) -> None:
    """Let what was pinned or followed do so on the other side: a moved target is to be reached else.

    Args:
        before: The effectors as they were, with the places where they held their bones.
        settings: Whether states go to the other side; otherwise each effector has its own again.
    """
    entries, known = settings_of(armature_object).effectors, {effector.index: effector for effector in before}
    wanted: list[tuple[int, str, tuple[float, ...] | None]] = []
    for index, counterpart in _counterparts(armature_object, body).items():
        source = known.get(index)
        if counterpart is None or source is None or source.bone not in body.sources:
            continue
        state = source.state if settings else known[counterpart].state if counterpart in known else 'REACH'
        pin = None
        if source.anchors and not source.anchors[0].keyed:
            pin = np.array(source.anchors[0].bone).reshape(4, 4)
        image = None if pin is None else tuple(body.image(source.bone, pin).ravel().tolist())
        wanted.append((counterpart, state, image))
    bpy.context.view_layer.update()
    for index, state, pin in wanted:
        entry = entries[index]
        if state not in {'PIN', 'FOLLOW'} or not KINDS[entry.kind].pinnable:
            entry.state = state if settings else entry.state
        elif pin is None:
            hold(armature_object, entry, state)
        else:
            entry.state = state
            note_anchors(entry, Anchor(pin))
            if target_of(entry) is not None:
                note_place(entry)
    note_carriers(armature_object)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    posed: Any = armature_object.evaluated_get(depsgraph)
    bones = np.array([bone.matrix for bone in posed.pose.bones])
    effectors = read_effectors(armature_object, drawing=True)
    end_solve(armature_object, effectors, depsgraph, bones, posed.pose.bones.keys())


def _mirrored_settings(entry: POISE_PG_effector, body: Symmetry) -> dict[str, Any]:
    """Return the settings of an effector as its counterpart has them."""
    values = {name: plain(getattr(entry, name)) for name in SIDELESS}
    bones = {name: getattr(entry, name) for name in ("toe_bone", *FURTHER_BONES)}
    values |= {name: body.other.get(bone, bone) for name, bone in bones.items()}
    turn = body.turn(entry.bone)
    for name in ("point", *FOOT_POINTS, *SOLE_AXES):
        values[name] = tuple((turn @ np.array(getattr(entry, name))).tolist())
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
                        entry=label_of(entry),
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
        if near is not None and np.abs(matrix_in_mode(mode, near) - rotation).max() < SAME_TURN:
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


# Keys


Curves = Sequence[CurveState | None]
"""Of the components of a property; None for one without keys."""


@dataclass(frozen=True)
class PropertyKeys:
    """The keys of a property with k components."""

    curves: Curves
    """(k,)."""
    present: FloatArray
    """Present values, (k,)."""
    frames: FloatArray
    """Frames that have a key in any component, (F,)."""
    samples: FloatArray
    """Values on these frames, (F, k)."""

    @classmethod
    def read(cls, obj: Object, path: str) -> "PropertyKeys":
        """Read the keys of a property; modifiers of F-curves are not read."""
        value: Any = obj.path_resolve(path)
        present = np.atleast_1d(np.array(value, dtype=np.float64))
        channels = [(path, index) for index in range(len(present))]
        found = [own_curves(obj).get(channel) for channel in channels]
        curves = [CurveState.read(c) if c is not None and len(c.keyframe_points) else None for c in found]
        keyed = [curve.keys["co"][:, 0] for curve in curves if curve is not None]
        frames = np.unique(np.concatenate(keyed).astype(np.float64)) if keyed else np.zeros(0)
        return cls(curves, present, frames, sample_channels(obj, channels, frames))

    @property
    def animated(self) -> bool:
        """Whether any component has keys."""
        return bool(len(self.frames))

    def affine(self, matrix: FloatArray, offset: FloatArray) -> tuple[Curves, bool]:
        """Return the keys of `matrix @ components + offset`, (n,), and whether any had to be sampled."""
        mapped: list[CurveState | None] = []
        resampled = False
        for row, start in zip(_snapped(matrix), offset, strict=True):
            curves = {j: curve for j in np.flatnonzero(row).tolist() if (curve := self.curves[j]) is not None}
            if not curves:
                mapped.append(None)
            elif _alike([curve.keys for curve in curves.values()]):
                still = np.where([curve is None for curve in self.curves], row, 0.0) @ self.present
                mapped.append(_mixed([(float(row[j]), curve) for j, curve in curves.items()], start + still))
            else:
                mapped.append(self._sampled(self.samples @ row + start))
                resampled = True
        return mapped, resampled

    def sampled(self, change: Callable[[FloatArray], FloatArray]) -> Curves:
        """Return the keys of what a function (F, k) -> (F, n) makes of the values on all keyed frames."""
        return [self._sampled(column) for column in change(self.samples).T]

    def _sampled(self, values: FloatArray) -> CurveState:
        first = next(curve for curve in self.curves if curve is not None)
        keys = dict(new_keys(self.frames, values))
        keys["interpolation"] = np.full_like(keys["interpolation"], first.keys["interpolation"][0])
        return replace(first, keys=keys)


def _alike(curves: Sequence[KeyArrays]) -> bool:
    """Whether keys and handles are on the same frames, with the same interpolation."""
    first = curves[0]
    return all(
        len(keys["co"]) == len(first["co"])
        and np.array_equal(keys["interpolation"], first["interpolation"])
        and all(np.allclose(keys[name][:, 0], first[name][:, 0], atol=SAME_FRAME) for name in POINTS)
        for keys in curves[1:]
    )


def _mixed(parts: Sequence[tuple[float, CurveState]], rest: float) -> CurveState:
    """Return the sum of curves, each times a number, and of another number."""
    first = parts[0][1]
    keys = {name: array.copy() for name, array in first.keys.items()}
    for name in POINTS:
        values = [part * curve.keys[name][:, 1].astype(np.float64) for part, curve in parts]
        keys[name][:, 1] = rest + sum(values)
    if len(parts) > 1:  # handles that Blender places by itself are those of one curve, not of a sum
        keys["handle_left_type"][:] = keys["handle_right_type"][:] = 0  # 'FREE'
    return replace(first, keys=keys)


def write_keys_of(obj: Object, path: str, curves: Curves) -> None:
    """Give the components of a property these keys and no others; F-curves that are there stay."""
    for index, state in enumerate(curves):
        if state is not None:
            state.write(ensure_channelbag(obj, f"{obj.name}Action"), (path, index)).update()
        elif (curve := own_curves(obj).get((path, index))) is not None:
            own_channelbag(obj).fcurves.remove(curve)


def obstacle_to_keys(obj: Object, paths: Sequence[str]) -> str:
    """Say why the keys of some properties cannot be read and written; empty if they can."""
    animation = obj.animation_data
    if animation is None:
        return ""
    if any(driver.data_path in paths and not driver.mute for driver in animation.drivers):
        return Message("drivers decide")
    if any(not track.mute and track.strips for track in animation.nla_tracks):
        return Message("it has NLA strips")
    if animation.action is not None and not animation.action.is_editable:
        return Message("its action {action!r} is linked", action=animation.action.name)
    for curve in (curve for (path, _), curve in own_curves(obj).items() if path in paths):
        if is_locked(curve):
            return Message("F-curves of it are locked")
        if holds_samples(curve):
            return Message("F-curves of it are baked to samples")
        if len(curve.modifiers):
            return Message("F-curves of it are modified")
    return ""


@dataclass(frozen=True)
class Image:
    """A target and its counterpart, as read before anything is mirrored."""

    source: Object
    target: Object
    mirror: FloatArray
    """Takes places in the world to their images, (4, 4) [m]; its linear part is P."""
    after: FloatArray
    """Q, (3, 3): the image of a source that is turned by T in the world is turned by P T Q."""
    above: FloatArray
    """world_from_basis of the source, (4, 4) [m]."""
    world: FloatArray
    """world_from_source, (4, 4) [m]."""
    keys: Mapping[str, PropertyKeys]
    """Of the source, by the names of `CHANNELS`."""

    @classmethod
    def of(
        cls, armature_object: Object, body: Symmetry, source: Object, target: Object, bone: str
    ) -> "Image":
        """Read a target of a bone, and how it is mirrored to that of the bone's counterpart: S T Rᵀ S R'.

        Raises:
            IKError: The place of either is not a number, or it has no size.
        """
        for obj in (source, target):
            sizes = np.linalg.norm([world_matrix(obj)[:3, :3], world_from_basis(obj)[:3, :3]], axis=1)
            if not (np.isfinite(world_matrix(obj)).all() and np.isfinite(sizes).all() and sizes.all()):
                raise IKError(
                    "target {name!r} cannot be mirrored: it is scaled to nothing, or its place is not a "
                    "number. Look at its drivers, constraints and scale, and those of its parents",
                    name=obj.name,
                )
        world = np.array(armature_object.matrix_world)
        mirror = world @ body.plane @ np.linalg.inv(world)
        after = body.after(bone)
        keys = {path: PropertyKeys.read(source, path) for path in CHANNELS}
        return cls(source, target, mirror, after, world_from_basis(source), world_matrix(source), keys)


def mirror_images(armature_object: Object, images: Sequence[Image], notes: list[str]) -> None:
    """Move targets to where their images are, keys and all, parents first."""
    moving = is_moved(armature_object)
    riding = {obj for image in images for obj in (image.source, image.target) if rides(obj, armature_object)}
    mirrored = {image.target for image in images}
    for image in sorted(images, key=lambda image: depth(image.target)):
        target = image.target
        # Children of the armature keep their place in it, wherever it moves.
        carrier = armature_object if {image.source, target} <= riding else None
        why = _obstacle(image, mirrored, carrier, moving)
        if why:
            notes.append(
                Message("the keys of target {target!r} stay as they are: {why}", target=target.name, why=why)
            )
        there = image.mirror @ image.world
        put(target, there[:3, 3], orthogonal(image.mirror) @ orthogonal(image.world) @ image.after)
        if not why and _write(image):
            notes.append(
                Message(
                    "keys of target {target!r} were put on common frames: between these it may differ",
                    target=target.name,
                )
            )


def _obstacle(image: Image, mirrored: set[Object], carrier: Object | None, moving: bool) -> str:
    """Say why the keys of an image cannot be mirrored; empty if they can, or if there are none."""
    source, target = image.source, image.target
    own = any(path in CHANNELS for path, _ in animated_channels(target))
    if not own and not any(keys.animated for keys in image.keys.values()):
        return ""
    for obj in (source, target):
        if why := obstacle_to_keys(obj, CHANNELS):
            return why if obj == target else Message("of {obj!r}, {why}", obj=obj.name, why=why)
        if source != target and other_players(obj):
            return Message("another object plays the action of {obj!r}", obj=obj.name)
        if obj.constraints:
            return Message("{obj!r} has constraints", obj=obj.name)
        parent = obj.parent
        if parent is not None and parent not in {carrier, *mirrored} and is_moved(parent, carrier):
            return Message("{parent!r}, its parent, is animated and is not mirrored", parent=parent.name)
    return Message("the armature is animated") if moving and carrier is None else ""


def _write(image: Image) -> bool:
    """Write the keys of an image; return whether any had to be sampled."""
    target: Any = image.target
    steps = (np.asarray(np.linalg.inv(world_from_basis(target)), np.float64), image.mirror, image.above)
    change = np.linalg.multi_dot(steps)
    curves, mixed = image.keys["location"].affine(change[:3, :3], change[:3, 3])
    write_keys_of(target, "location", curves)
    # One by one: scales of parents that are uneven turn nothing.
    before = np.linalg.multi_dot([orthogonal(step) for step in steps])
    turned, resampled = _turned(image, _snapped(before), _snapped(image.after))
    for path, count in ROTATION_CHANNELS.values():
        own = path == ROTATION_CHANNELS[target.rotation_mode][0]
        write_keys_of(target, path, turned if own else (None,) * count)
    return mixed or resampled


def _turned(image: Image, before: FloatArray, after: FloatArray) -> tuple[Curves, bool]:
    """Return the keys of the rotation of a target, and whether they had to be sampled.

    A turn T of the source's channels is P T Q in the target's: `before` is P, `after` is Q.
    """
    target: Any = image.target
    mode, source_mode = target.rotation_mode, str(image.source.rotation_mode)
    path, count = ROTATION_CHANNELS[mode]
    own = image.keys[ROTATION_CHANNELS[source_mode][0]]
    if not own.animated:
        return (None,) * count, False
    if source_mode == mode == 'QUATERNION':
        return own.affine(_quaternion_map(before, after), np.zeros(4))
    if source_mode == mode and mode in EULER_ORDERS:
        signs = np.diag(before)
        if np.array_equal(before, np.diag(signs)) and np.array_equal(after, before):
            # A turn about an axis is one about its mirror image, the other way round.
            return own.affine(np.diag(np.linalg.det(before) * signs), np.zeros(3))

    def change(samples: FloatArray) -> FloatArray:
        matrices = before @ matrix_in_mode(source_mode, samples) @ after
        return rotations_in(mode, matrices, np.array(getattr(target, path)) if mode in EULER_ORDERS else None)

    return own.sampled(change), True


def _quaternion_map(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the matrix that takes the quaternion of T to that of P T Q, (4, 4)."""
    signs = np.linalg.det(before)  # both are reflections, or neither is
    matrix = _product(signs * before, 1.0) @ _product(signs * after, -1.0)
    # Of the two signs that one which the way back has too: it is the transpose, with the same diagonal.
    diagonal = np.diag(matrix)[np.argmax(np.abs(np.diag(matrix)) > NOTHING)]
    return -matrix if diagonal < 0.0 else matrix


def _product(rotation: FloatArray, side: float) -> FloatArray:
    """Return the matrix (4, 4) that multiplies quaternions by a rotation, on its left (1) or right (-1)."""
    scalar, *vector = quat_from_matrix(rotation).tolist()
    column = np.array([vector]).T
    return np.block([[scalar, -column.T], [column, scalar * np.eye(3) + side * skew(vector)]])


def _snapped(matrix: FloatArray) -> FloatArray:
    """Round entries near 0 and ±1, so that no digit of a key is lost."""
    rounded = np.rint(matrix)
    return np.where(np.abs(matrix - rounded) <= NOTHING, rounded, matrix)
