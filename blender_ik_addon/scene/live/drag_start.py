# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read when a bone is grabbed: tasks of the effectors, and what may move for it."""

from dataclasses import replace

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError, Skeleton, Task
from ...core.arrays import BoolArray
from ..armature.armature import Armature
from ..effectors.effectors import Effector
from ..properties.settings import settings_of
from ..reports import listed
from ..rig.rig import Rig


def read_tasks(
    armature_object: Object, depsgraph: Depsgraph
) -> tuple[Rig | None, tuple[Effector, ...], list[tuple[Task, ...]]]:
    """Read the enabled effectors, and the tasks of each that take part; no rig where there are none."""
    if not any(entry.enabled for entry in settings_of(armature_object).effectors):
        return None, (), []
    rig = Rig.read(armature_object, depsgraph)
    plan = rig.plan([rig.read_frame(armature_object, depsgraph)])
    weighty = iter([task for task in plan.tasks if task.weight > 0.0])
    groups = [tuple(next(weighty) for _ in range(count)) for count in plan.counts]
    return rig, rig.effectors, groups


def movable_for(armature: Armature, bone: str, depth: int) -> Skeleton:
    """The skeleton with those bones held that may not move for a dragged one.

    Raises:
        IKError: None of its chain may move.
    """
    skeleton = armature.skeleton
    chain = skeleton.ancestors(skeleton.index(bone))
    free: BoolArray = skeleton.free
    if depth:
        free = np.zeros_like(skeleton.free)
        free[chain[:depth]] = skeleton.free[chain[:depth]]
    if not free[chain].any():
        names = [skeleton.names[joint] for joint in chain]
        why = sorted({armature.driven_by[name] for name in names if name in armature.driven_by}) or ["locks"]
        raise IKError(
            f"{bone!r} cannot be dragged: no bone of its chain may move, because of {' or '.join(why)}: "
            f"{listed(names)}. Free some of them, or drag a bone that decides them"
        )
    return replace(skeleton, free=free) if depth else skeleton
