# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors keys: of settings, and of targets with their places.

Keys are put through a linear map. Where each new channel is one old one times a number, as in the mirror
image of an upright rig, its keys are the old ones with other values, handles and interpolation included.
Where channels mix and their keys are on the same frames, handles are mixed like values, which is exact.
Otherwise the curves are sampled on all frames that have a key on any of them; between these a motion may
differ.

The mirror image of a target is an affine map of its place in the world, and one rotation from either side
for its orientation. In the channels of both objects these are constant as long as what they are parented to
stands still or is mirrored itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.errors import IKError
from ...core.messages import Message
from ...core.model.rotation import EULER_ORDERS, quat_from_matrix, skew
from ..animation.fcurves import (
    POINTS,
    ROTATION_CHANNELS,
    CurveState,
    KeyArrays,
    animated_channels,
    ensure_channelbag,
    holds_samples,
    is_locked,
    new_keys,
    other_players,
    own_channelbag,
    own_curves,
    sample_channels,
)
from ..armature.role_table import Symmetry, rotation_in
from ..armature.rotation_modes import rotations_in
from ..effectors.transforms import depth, is_moved, put, rides, rotations_of, world_from_basis, world_matrix

NOTHING: Final = 1e-6
"""Entries of a map [1] that are as near to 0 or ±1 are rounded: maps come from single precision."""

SAME_FRAME: Final = 1e-3
"""Difference of keys and handles [frames] that is rounding: Blender has them in single precision."""

CHANNELS: Final = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle")
"""Properties whose keys are mirrored."""


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
    for (path, _), curve in own_curves(obj).items():
        if path in paths and (is_locked(curve) or holds_samples(curve) or len(curve.modifiers)):
            if is_locked(curve):
                return Message("F-curves of it are locked")
            if holds_samples(curve):
                return Message("F-curves of it are baked to samples")
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
        world, reflection = np.array(armature_object.matrix_world), np.eye(4)
        reflection[:3, :3] = body.reflection
        reflection[:3, 3] = body.origin - body.reflection @ body.origin
        mirror = world @ reflection @ np.linalg.inv(world)
        after = body.rest(bone).T @ body.reflection @ body.rest(body.other[bone])
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
        put(target, there[:3, 3], rotation_in(image.mirror) @ rotation_in(image.world) @ image.after)
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
    before = np.linalg.multi_dot([rotation_in(step) for step in steps])
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
        matrices = before @ rotations_of(samples, source_mode) @ after
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
