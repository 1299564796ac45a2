# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets on the other side: their places, and their keys if they are animated.

The mirror image of a target is an affine map of its place in the world, and one rotation from either side
for its orientation. Seen from the channels of both objects these are constant as long as what they are
parented to stands still or is mirrored itself. Then every key has its mirror image.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.model.euler import EULER_ORDERS, order_index
from ...core.model.rotation import (
    continuous_euler,
    euler_from_matrix,
    nearest_euler,
    quat_from_matrix,
)
from ..animation.fcurves import ROTATION_CHANNELS, animated_channels
from ..animation.mapped_keys import (
    Track,
    Tracks,
    linear,
    obstacle_to_keys,
    plays_alone,
    read_tracks,
    sampled,
    write_tracks,
)
from ..armature.symmetry import Symmetry, rotation_in
from ..effectors.transforms import (
    depth,
    is_moved,
    put,
    rides,
    rotations_of,
    world_from_basis,
    world_of,
)

CHANNELS: Final = dict(ROTATION_CHANNELS.values()) | {"location": 3}
"""Properties whose keys are mirrored -> number of their components."""

SIGNED: Final = 1e-6
"""How far from 0 and ±1 [1] a rotation may be that only changes signs."""


@dataclass(frozen=True)
class Image:
    """Which target takes after which, and how."""

    source: Object
    target: Object
    linear: FloatArray
    """Places in the world: P, (3, 3)."""
    offset: FloatArray
    """Added to P times a place, (3,) [m]."""
    after: FloatArray
    """Rotations in the world: Q in P T Q, (3, 3); P with its scale taken out."""
    above: FloatArray
    """world_from_basis of the source, before anything is mirrored, (4, 4)."""
    place: FloatArray
    """Where the target goes at present, (3,) [m]."""
    turn: FloatArray
    """How it is turned then, (3, 3)."""


def image_of(armature_object: Object, body: Symmetry, source: Object, target: Object, bone: str) -> Image:
    """Return what becomes of a target in the mirror, for the target of the counterpart of a bone.

    S T Rᵀ S R': the target of the counterpart is turned as the counterpart would be.
    """
    world = np.array(armature_object.matrix_world)
    turned = rotation_in(world)
    matrix = world[:3, :3] @ body.reflection @ np.linalg.inv(world[:3, :3])
    middle = world[:3, :3] @ body.origin + world[:3, 3]
    before = turned @ body.reflection @ turned.T
    after = body.rest(bone).T @ body.reflection @ body.rest(body.other[bone])
    place, turn = world_of(source)
    return Image(
        source=source,
        target=target,
        linear=matrix,
        offset=middle - matrix @ middle,
        after=after,
        above=world_from_basis(source),
        place=matrix @ (place - middle) + middle,
        turn=before @ turn @ after,
    )


def mirror_images(armature_object: Object, images: Sequence[Image], notes: list[str]) -> None:
    """Move targets to where their images are, keys and all, parents first."""
    keys = {image.target: _read(image) for image in images}
    moving = is_moved(armature_object)
    riding = {obj for image in images for obj in (image.source, image.target) if rides(obj, armature_object)}
    mirrored = {image.target for image in images}
    for image in sorted(images, key=lambda image: depth(image.target)):
        target = image.target
        # What rides on the armature keeps its place in it, wherever that goes.
        carrier = armature_object if {image.source, target} <= riding else None
        still = not moving or carrier is not None
        why = _obstacle(image, mirrored, keys[target], carrier, "" if still else "the armature is animated")
        if why:
            notes.append(f"the keys of target {target.name!r} stay as they are: {why}")
        put(target, image.place, image.turn)
        if not why and _write(image, keys[target]):
            notes.append(
                f"keys of target {target.name!r} were put on common frames: between these it may differ"
            )


def _read(image: Image) -> Mapping[str, Tracks]:
    """Read the keys of what an image is taken of, before anything is changed."""
    return {path: read_tracks(image.source, path, count) for path, count in CHANNELS.items()}


def _obstacle(
    image: Image, mirrored: set[Object], keys: Mapping[str, Tracks], carrier: Object | None, moving: str
) -> str:
    """Say in words why the keys of an image cannot be mirrored; empty if they can, or if there are none."""
    source, target = image.source, image.target
    animated = any(track.animated for track in keys.values())
    animated = animated or any(path in CHANNELS for path, _ in animated_channels(target))
    if not animated:
        return ""
    for obj in (source, target):
        if why := obstacle_to_keys(obj, CHANNELS):
            return why if obj == target else f"of {obj.name!r}, {why}"
        if source != target and not plays_alone(obj):
            return f"another object plays the action of {obj.name!r}"
        if obj.constraints:
            return f"{obj.name!r} has constraints"
        parent = obj.parent
        if parent is not None and parent not in {carrier, *mirrored} and is_moved(parent, carrier):
            return f"{parent.name!r}, its parent, is animated and is not mirrored"
    return moving


def _write(image: Image, keys: Mapping[str, Tracks]) -> bool:
    """Write the keys of an image; whether any had to be sampled."""
    target: Any = image.target
    inverse: FloatArray = np.asarray(np.linalg.inv(world_from_basis(target)), dtype=np.float64)
    matrix = inverse[:3, :3] @ image.linear @ image.above[:3, :3]
    offset = inverse[:3, :3] @ (image.linear @ image.above[:3, 3] + image.offset) + inverse[:3, 3]
    tracks, mixed = linear(keys["location"], _snapped(matrix), offset)
    write_tracks(target, "location", tracks)
    before = rotation_in(inverse) @ rotation_in(image.linear) @ rotation_in(image.above)
    path, turned, resampled = _turned(image, keys, before)
    for other in dict(ROTATION_CHANNELS.values()):
        own = turned if other == path else (None,) * CHANNELS[other]
        write_tracks(target, other, own)
    return mixed or resampled


def _turned(
    image: Image, keys: Mapping[str, Tracks], before: FloatArray
) -> tuple[str, tuple[Track | None, ...], bool]:
    """Return the property in which a target is turned, its keys, and whether they had to be sampled.

    Args:
        image: Of what.
        keys: Of the source.
        before: Rotation or reflection P in P T Q, from the channels of the source to those of the target.
    """
    source: Any = image.source
    target: Any = image.target
    path, count = ROTATION_CHANNELS[target.rotation_mode]
    own = keys[ROTATION_CHANNELS[source.rotation_mode][0]]
    before, after = _snapped(before), _snapped(image.after)
    if source.rotation_mode == target.rotation_mode == 'QUATERNION':
        tracks, resampled = linear(own, _snapped(_quaternion_map(before, after)), np.zeros(4))
        return path, tracks, resampled
    if source.rotation_mode == target.rotation_mode and source.rotation_mode in EULER_ORDERS:
        signs = np.diag(before)
        if np.array_equal(before, np.diag(signs)) and np.array_equal(after, before):
            # A turn about an axis is one about its mirror image, the other way round.
            tracks, resampled = linear(own, np.diag(np.linalg.det(before) * signs), np.zeros(3))
            return path, tracks, resampled

    def change(samples: FloatArray) -> FloatArray:
        matrices = before @ rotations_of(samples, source.rotation_mode) @ after
        if target.rotation_mode in EULER_ORDERS:
            order = order_index(target.rotation_mode)
            angles = euler_from_matrix(matrices, order)
            angles[0] = nearest_euler(angles[0], order, np.array(target.rotation_euler))
            return continuous_euler(angles, order)
        quats = quat_from_matrix(matrices)
        for row in range(1, len(quats)):
            quats[row] *= -1.0 if quats[row] @ quats[row - 1] < 0.0 else 1.0
        if target.rotation_mode == 'QUATERNION':
            return quats
        sines = np.linalg.norm(quats[:, 1:], axis=1, keepdims=True)
        axes = np.where(sines > SIGNED, quats[:, 1:] / np.maximum(sines, SIGNED), (0.0, 1.0, 0.0))
        return np.concatenate([2.0 * np.arctan2(sines, quats[:, :1]), axes], axis=1)

    return path, sampled(own, change, count), own.animated


def _quaternion_map(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the matrix that takes the quaternion of T to that of P T Q, (4, 4)."""
    signs = np.linalg.det(before)  # both are reflections, or neither is
    left, right = quat_from_matrix(signs * before), quat_from_matrix(signs * after)
    columns = [_product(_product(left, unit), right) for unit in np.eye(4)]
    matrix = np.stack(columns, axis=1)
    # Of the two signs that one which the way back has too: it is the transpose, with the same diagonal.
    diagonal = np.diag(matrix)[np.argmax(np.abs(np.diag(matrix)) > SIGNED)]
    return -matrix if diagonal < 0.0 else matrix


def _product(one: FloatArray, other: FloatArray) -> FloatArray:
    """Product of quaternions, (4,)."""
    vector = one[0] * other[1:] + other[0] * one[1:] + np.cross(one[1:], other[1:])
    return np.array([one[0] * other[0] - one[1:] @ other[1:], *vector])


def _snapped(matrix: FloatArray) -> FloatArray:
    """A matrix with entries near 0 and ±1 made such, so that no digit of a key is lost."""
    rounded = np.rint(matrix)
    return np.where(np.abs(matrix - rounded) <= SIGNED, rounded, matrix)
