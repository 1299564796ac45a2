# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets of feet that roll: the frame that an effector follows is moved as `core.character.feet` says.

The same tasks are solved as for any target, so a foot that rolls is posed, baked and followed as others are.
Where a floor effector keeps the foot's bone above a plane the whole foot is lifted until its sole is on it.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.character import FootAngles, Sole
from ..kinds.frame_data import normals, orientations, points_of
from ..kinds.kinds import Effector
from ..properties.settings import FOOT_ANGLES

LEAST_SOLE: Final = 1e-6
"""Distance from heel to tip [m] at and below which a foot has no direction."""


def is_rolling(entry: Any) -> bool:
    """Whether the target of an entry is that of a whole foot."""
    return entry.rolls and entry.kind == 'BOTH'


def sole_of(entry: Any) -> Sole:
    """Return where the foot of an entry touches the floor."""
    return Sole(
        heel=tuple(entry.heel_point),
        ball=tuple(entry.ball_point),
        tip=tuple(entry.tip_point),
        up=tuple(entry.sole_up),
        out=tuple(entry.sole_out),
        has_toe=bool(entry.toe_bone),
    )


def angles_of(label: str, entry: Any) -> FootAngles:
    """Return what is set of the foot of an entry at present (IKError: something is not a number)."""
    values = {name: getattr(entry, name) for name in FOOT_ANGLES}
    for name, value in values.items():
        if not np.isfinite(value):
            raise IKError(
                "effector {label!r}: its {name} is not a number. Look at its keys and drivers",
                label=label,
                name=name,
            )
    return FootAngles(**values)


def read_foot(armature_object: Object, label: str, entry: Any) -> dict[str, Any]:
    """Return what an effector has of a foot that rolls; nothing for others (IKError: something lacks)."""
    if not is_rolling(entry):
        return {}
    sole, data = sole_of(entry), armature_object.data
    bones: Any = data.bones  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    way = sole.on_floor(sole.tip) - sole.on_floor(sole.heel)
    if not np.linalg.norm(way) > LEAST_SOLE or not np.linalg.norm(sole.up) > 0.5:
        raise IKError(
            "effector {label!r}: heel and tip of its foot are at one place. Press Foot Roll twice to "
            "find them anew, or set Heel Point and Tip Point",
            label=label,
        )
    if not entry.toe_bone:
        return {"sole": sole}
    if entry.toe_bone not in bones:
        raise IKError(
            "effector {label!r} has no toe bone {toe_bone!r} (renamed?): choose one, or none, or press "
            "Foot Roll twice",
            label=label,
            toe_bone=entry.toe_bone,
        )
    rest = np.linalg.inv(np.array(bones[entry.bone].matrix_local))
    rest = rest @ np.array(bones[entry.toe_bone].matrix_local)
    return {"sole": sole, "toe_bone": entry.toe_bone, "toe_from_foot": tuple(rest.ravel().tolist())}


def with_feet_rolled(
    effectors: Sequence[Effector], entries: Any, matrices: Sequence[list[FloatArray]], scale: float
) -> list[list[FloatArray]]:
    """Return the targets of effectors, (4, 4) [m], those of feet that roll as foot and toes are to be.

    Args:
        matrices: world_from_target of each effector, as many as it has targets, of a foot only the first.
        scale: World metres to one armature unit.
    """
    rolled: list[list[FloatArray]] = []
    for effector, own in zip(effectors, matrices, strict=True):
        if effector.sole is None:
            rolled.append(own)
            continue
        angles = angles_of(effector.name, entries[effector.index])
        foot, toe = effector.sole.motions(angles)
        world_from_foot = foot_at_target(own[0], effector.point, scale)
        floors = [
            (other, plane[0])
            for other, plane in zip(effectors, matrices, strict=True)
            if other.kind == 'FLOOR' and other.bone == effector.bone and entries[other.index].influence > 0.0
        ]
        if floors:
            touching = points_of(world_from_foot, effector.sole.touching(foot, toe))
            world_from_foot[:3, 3] += _lift(effector.sole, entries, floors, touching, scale)
        placed = world_from_foot @ foot
        placed[:3, 3] = points_of(placed, effector.point)
        frames = [placed]
        if effector.toe_bone:
            frames.append(world_from_foot @ toe @ np.array(effector.toe_from_foot).reshape(4, 4))
        rolled.append(frames)
    return rolled


def foot_at_target(target: FloatArray, point: Sequence[float], scale: float) -> FloatArray:
    """world_from_foot of a foot that is at its target and as large as the armature is, (4, 4) [m]."""
    matrix = np.eye(4)
    matrix[:3, :3] = scale * orientations(target)
    matrix[:3, 3] = target[:3, 3] - matrix[:3, :3] @ np.array(point)
    return matrix


def _lift(
    sole: Sole,
    entries: Any,
    floors: Sequence[tuple[Effector, FloatArray]],
    touching: FloatArray,
    scale: float,
) -> FloatArray:
    """By how much floors lift a foot, (3,) [m]: until no part of its sole is lower than it stands there."""
    lift = np.zeros(3)
    for floor, plane in floors:
        normal = normals(plane)
        # A foot that stands has the point of the floor effector so high above the plane.
        standing = scale * (float(np.dot(sole.up, floor.point)) - sole.height)
        above = (touching + lift - plane[:3, 3]) @ normal - (entries[floor.index].height - standing)
        if np.isfinite(above).all():
            lift = lift + max(0.0, -float(above.min())) * normal
    return lift


def unrolled(entry: Any, world_from_bone: FloatArray) -> FloatArray:
    """Return where the bone of an entry would be with a foot that is not rolled, (4, 4) [m].

    There the target goes that has a foot where it is: from it the foot is rolled again.
    """
    if not is_rolling(entry):
        return world_from_bone
    foot, _ = sole_of(entry).motions(angles_of(entry.name or entry.bone, entry))
    return world_from_bone @ np.linalg.inv(foot)
