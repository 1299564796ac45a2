# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that come along when a bone has been dragged: its own and that of hips, and what hangs on them.

An effector holds its bone at its target. But what a drag moves on purpose, or what may give way to it, has to
take its target along, or the next solve would take the pose back. Children of such a target go with it, and
their bones are held against where they will be then.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any

import bpy
import numpy as np
from bpy.types import Object

from ...core import ReachPoint, Task
from ...core.arrays import FloatArray
from ...core.model.euler import EULER_ORDERS, order_index
from ...core.model.rotation import euler_from_matrix_near, matrix_from_euler
from ...core.tasks.points import ReachCarried
from ..properties.effector_properties import PINNABLE
from ..properties.settings import settings_of
from .effectors import Effector, orientations
from .frame_data import points_of
from .transforms import depth, world_from_basis


def coming_along(
    armature_object: Object, effectors: Sequence[Effector], dragged: str, hips: Collection[str]
) -> tuple[Effector, ...]:
    """Return the effectors whose targets are brought to their bones, those on which others hang first.

    These are the dragged bone's own, and those of hips that nobody has pinned.

    Args:
        armature_object: The original armature object.
        effectors: All that are enabled.
        dragged: Name of the dragged bone.
        hips: Names of the bones that are hips.
    """
    found = {
        effector: target
        for effector in effectors
        if effector.kind in PINNABLE
        and effector.bone in {dragged, *hips}
        and (target := movable_target(armature_object, effector)) is not None
    }
    return tuple(sorted(found, key=lambda effector: depth(found[effector])))


def carriers(
    armature_object: Object, effectors: Sequence[Effector], coming: Sequence[Effector]
) -> dict[int, Effector]:
    """Return which effector that comes along carries the target of another, by the other's index.

    Those on which others hang are first.
    """
    entries = settings_of(armature_object).effectors
    moved = {entries[effector.index].target: effector for effector in coming}
    found: dict[int, Effector] = {}
    for effector in effectors:
        target = entries[effector.index].target
        if effector in coming or effector.pin is not None or target is None:
            continue
        above = next((moved[parent] for parent in _above(target) if parent in moved), None)
        if above is not None:
            found[effector.index] = above
    return dict(sorted(found.items(), key=lambda pair: depth(entries[pair[0]].target)))


def _above(target: Object) -> Iterator[Object]:
    """Parents of an object, the nearest first."""
    while target.parent is not None:
        target = target.parent
        yield target


def carried_task(task: Task, carrier: Effector, carrier_from: FloatArray) -> Task:
    """A task whose target goes with the point of a carrier, from where that was (3,) [m].

    Orientations and others stay. They do not turn with the carrier: hips turn as they come, and what would
    turn with them would leave nothing to turn them back. So do places of the carrier itself.
    """
    if not isinstance(task, ReachPoint) or not carrier.position or task.joint == carrier.bone:
        return task
    return ReachCarried(
        **{field.name: getattr(task, field.name) for field in fields(task)},
        carrier=carrier.bone,
        carrier_point=np.array(carrier.point, dtype=np.float64),
        carrier_from=carrier_from,
    )


def movable_target(armature_object: Object, effector: Effector) -> Object | None:
    """The object that can be moved to where the bone of an effector is; None where there is none."""
    target = settings_of(armature_object).effectors[effector.index].target
    if effector.pin is not None or target is None or effector.target_bone or not target.is_editable:
        return None
    return target


def bring_target(
    armature_object: Object, effector: Effector, world_from_bone: FloatArray
) -> Iterator[tuple[Object, bool, bool]]:
    """Move the target of an effector to where its bone is (4, 4) [m]; its own scale stays.

    Only what the effector follows changes: place, orientation or both. Gives the target, and whether it was
    moved and whether it was turned.
    """
    target = movable_target(armature_object, effector)
    if target is None:
        return
    if target.parent not in {None, armature_object}:
        bpy.context.view_layer.update()  # its parent may have come along just now
    now = np.array(target.matrix_world)
    wanted = now.copy()
    if effector.position:
        wanted[:3, 3] = points_of(world_from_bone, effector.point)
    turn = orientations(world_from_bone) @ orientations(now).T
    if effector.orientation and np.isfinite(turn).all():
        wanted[:3, :3] = turn @ now[:3, :3]
    local: Any = target
    plain = target.parent is None or (target.parent == armature_object and target.parent_type == 'OBJECT')
    if plain and target.rotation_mode in EULER_ORDERS:
        # Channel by channel, so that what does not change keeps its bits, and angles go on from theirs.
        above = world_from_basis(target)[:3, :3]
        if effector.position:
            way = np.linalg.solve(above, wanted[:3, 3] - now[:3, 3])
            local.location = (np.array(target.location) + way).tolist()
        if effector.orientation:
            order = order_index(target.rotation_mode)
            upright = orientations(above)
            turn = upright.T @ orientations(wanted) @ orientations(now).T @ upright
            own = matrix_from_euler(np.array(target.rotation_euler), order)
            angles = euler_from_matrix_near(turn @ own, order, np.array(target.rotation_euler))
            local.rotation_euler = angles.tolist()
    else:
        local.matrix_world = wanted.T.tolist()
    yield target, effector.position, effector.orientation
