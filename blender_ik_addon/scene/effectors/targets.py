# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets and what can be animated of effectors, read at the depsgraph's frame.

Targets are read from the evaluated depsgraph, in world space, with whatever parents, constraints and
animation they have.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError
from ...core.arrays import FloatArray
from ..armature.armature import check_armature, world_from_armature
from ..properties.effector_properties import POISE_PG_effector, POISE_PG_target
from ..properties.settings import settings_of
from .effectors import Effector, checked_target

_LENGTHS: Final = MappingProxyType({'DISTANCE': "distance", 'PLANE': "height", 'FLOOR': "height"})
"""Kinds with a length that can be animated, and what it is called."""


def check_evaluated(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> None:
    """Refuse an armature or targets that the depsgraph does not keep up to date.

    `is_evaluated` does not help: a target that is not shown is still in the depsgraph, because the effector
    points to it, with the values of when it was last shown. The check reads the whole depsgraph (1 ms for
    1000 objects), so call it once, not for each frame.

    Raises:
        IKError: One is disabled, or was deleted from the scene.
    """
    entries = settings_of(armature_object).effectors
    targets = [
        (f"effector {effector.name!r}: its target", followed.target)
        for effector in effectors
        for followed in _followed(effector, entries[effector.index])
    ]
    present = {block.original for block in depsgraph.ids}
    for role, obj in [("armature", armature_object), *targets]:
        if obj is not None and obj not in present:
            raise IKError(
                f"{role} {obj.name!r} is not evaluated in this view layer: it was deleted from the scene, is "
                "disabled in viewports, or its collections are. Enable it there (hiding with H does no harm)"
            )


def check_present(armature_object: Object) -> None:
    """Refuse an armature that cannot be posed, or whose matrix cannot place targets in the world.

    Raises:
        IKError: It cannot be posed, is not evaluated, or its scale is uneven or none.
    """
    check_armature(armature_object)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    check_evaluated(armature_object, (), depsgraph)
    world_from_armature(armature_object.evaluated_get(depsgraph))


def world_from_targets(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> FloatArray:
    """Read the matrices of the targets at the depsgraph's frame, (T, 4, 4) [m].

    An effector has as many as `Effector.targets` has names, in the order of the effectors. That of a pinned
    effector is the matrix of its bone where it was pinned, with the origin at its point. That of an effector
    without a target is the identity.

    Raises:
        IKError: A target or its bone is gone, or nowhere.
    """
    entries = settings_of(armature_object).effectors
    matrices: list[FloatArray] = []
    for effector in effectors:
        entry = _same_entry(armature_object, entries, effector)
        if effector.pin is not None:
            pinned = np.array(armature_object.evaluated_get(depsgraph).matrix_world)
            pinned = pinned @ np.array(effector.pin).reshape(4, 4)
            pinned[:3, 3] += pinned[:3, :3] @ np.array(effector.point)
            matrices.append(pinned)
        elif effector.target:
            matrices += [_world_from(effector, each, depsgraph) for each in _followed(effector, entry)]
        else:
            matrices.append(np.eye(4))
    return np.array(matrices).reshape(-1, 4, 4)


def _followed(effector: Effector, entry: POISE_PG_effector) -> list[POISE_PG_effector | POISE_PG_target]:
    """Return the entries that hold the targets of an effector.

    From the entry, not by name: a target may have been renamed, and names differ only within a file.
    """
    return [entry, *entry.others][: len(effector.targets)] if effector.target else []


def _world_from(
    effector: Effector, followed: POISE_PG_effector | POISE_PG_target, depsgraph: Depsgraph
) -> FloatArray:
    """Read world_from_target, (4, 4) [m]."""
    target = checked_target(effector.name, followed).evaluated_get(depsgraph)
    matrix = np.array(target.matrix_world)
    if target.type == 'ARMATURE' and followed.target_bone:
        assert target.pose is not None
        matrix = matrix @ np.array(target.pose.bones[followed.target_bone].matrix)
    if not np.isfinite(matrix).all():
        scene: Any = depsgraph.scene
        raise IKError(
            f"effector {effector.name!r}: the place of its target {target.name!r} is not a number "
            f"in frame {scene.frame_current}. Look at its drivers, constraints and scale"
        )
    return matrix


def _same_entry(armature_object: Object, entries: Any, effector: Effector) -> POISE_PG_effector:
    """Return the entry of an effector, if the list is still the same."""
    entry = entries[effector.index] if effector.index < len(entries) else None
    if entry is None or entry.bone != effector.bone or len(entry.others) < len(effector.others):
        raise IKError(f"the effectors of {armature_object.name!r} have changed meanwhile: begin again")
    return entry


def read_amounts(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> tuple[FloatArray, FloatArray]:
    """Read what can be animated, at the depsgraph's frame.

    From the original object, to which Blender writes what it has animated: the evaluated one does not follow
    when a script changes a property of an add-on.

    Returns:
        Influences, (E,), clamped to 0 to 1, and lengths [m], (E,): distances of DISTANCE, at least 0, and
        heights of PLANE and FLOOR.

    Raises:
        IKError: One is not a number.
    """
    entries = settings_of(armature_object).effectors
    influences, lengths = np.ones(len(effectors)), np.zeros(len(effectors))
    for row, effector in enumerate(effectors):
        entry = _same_entry(armature_object, entries, effector)
        for amounts, name in ((influences, "influence"), (lengths, _LENGTHS.get(effector.kind))):
            if name is not None:
                amounts[row] = getattr(entry, name)
                if not np.isfinite(amounts[row]):
                    scene: Any = depsgraph.scene
                    raise IKError(
                        f"effector {effector.name!r}: its {name} is not a number in frame "
                        f"{scene.frame_current}. Look at its keys and drivers"
                    )
        if effector.kind == 'DISTANCE':
            lengths[row] = max(lengths[row], 0.0)
    return np.clip(influences, 0.0, 1.0), lengths
