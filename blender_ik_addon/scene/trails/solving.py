# SPDX-License-Identifier: GPL-3.0-or-later
"""The body at a frame that is not shown, where only Live poses it: solved as if the scene went there.

Targets are evaluated in a scene that is made for a moment, as for trails. What is animated of the effectors
themselves is taken from its F-curves: Blender writes it only at the frame that it shows.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import forward_kinematics, solve
from ...core.arrays import FloatArray
from ..animation.fcurves import Channel, driven_channels, own_curves
from ..effectors.effectors import targets_of
from ..properties.effector_properties import FOOT_ANGLES
from ..properties.settings import SETTINGS_PATH, effector_path, settings_of
from ..rig.rig import Rig
from .sampling import Curves, Sampled, evaluated_elsewhere, frame_times, moved_by_others

AMOUNTS: Final = ("influence", "height", "distance", *FOOT_ANGLES)
"""Properties of an effector that are read at each frame."""
_SETTINGS: Final = ("bone", "kind", "enabled", "state", "priority", "weight")


class EntryAtFrame:
    """An effector of the list as it is at another frame."""

    def __init__(self, entry: Any, amounts: dict[str, float]) -> None:
        """Take the entry as it is, and what is animated of it."""
        self._entry, self._amounts = entry, amounts

    def __getattr__(self, name: str) -> Any:
        """Return the property at that frame."""
        return self._amounts[name] if name in self._amounts else getattr(self._entry, name)


def entries_at(armature_object: Object, frame: int) -> list[EntryAtFrame]:
    """Return the list of effectors as it is at a frame, by the F-curves of the armature object."""
    entries: Any = settings_of(armature_object).effectors
    curves = Curves.of(armature_object, frame_times([frame]), whole=False)
    amounts: list[dict[str, float]] = [{} for _ in entries]
    for row, own in enumerate(amounts):
        for name in AMOUNTS:
            values = curves.values.get((effector_path(row, name), 0))
            if values is not None:
                own[name] = float(values[0])
    return [EntryAtFrame(entry, own) for entry, own in zip(entries, amounts, strict=True)]


def unkeyed_settings(armature_object: Object, decided: Collection[Channel]) -> bytes:
    """Return what a solve takes of the effectors that has no keys."""
    found: list[Any] = []
    for row, entry in enumerate(settings_of(armature_object).effectors):
        for name in (*_SETTINGS, *AMOUNTS):
            if (effector_path(row, name), 0) not in decided:
                found.append(getattr(entry, name))
    return repr(found).encode()


def is_solvable(armature_object: Object, bones: Iterable[str]) -> bool:
    """Whether the body can be solved at frames that are not shown: F-curves decide all else.

    Args:
        bones: Those that are to be known.
    """
    animation: Any = armature_object.animation_data
    if animation is not None and animation.use_nla and len(animation.nla_tracks):
        return False
    if any(path.startswith(SETTINGS_PATH) for path, _ in driven_channels(armature_object)):
        return False
    animated = [path for path, _ in own_curves(armature_object) if path.startswith(SETTINGS_PATH)]
    if any(path.rpartition(".")[2] not in AMOUNTS for path in animated):
        return False
    return not moved_by_others(armature_object, bones)


def solve_at(armature_object: Object, sampled: Sampled, frame: int) -> FloatArray:
    """Return heads and tails (b, 2, 3) [m] of bones at a frame, as Live poses them from the present pose.

    Raises:
        IKError: Something cannot be solved there.
        RuntimeError: As `evaluated_elsewhere`.
    """
    present = {obj.session_uid for obj in bpy.context.view_layer.objects}
    targets = [target for target in targets_of(armature_object) if target.session_uid in present]
    with evaluated_elsewhere(armature_object, targets) as scene:
        scene.frame_set(frame)
        graph = scene.view_layers[0].depsgraph
        rig = Rig.read(armature_object, graph, drawing=True)
        raw = rig.read_raw(armature_object, graph, entries_at(armature_object, frame))
    frames = rig.frames_of([raw])
    options = rig.solver_options(armature_object, frames.largest_scale)
    solution = solve(rig.plan(frames).problem, frames.pose[0], options)
    skeleton = rig.armature.skeleton
    matrices = forward_kinematics(skeleton, solution.pose).matrices
    joints = [skeleton.index(bone) for bone in sampled.bones]
    return sampled.ends(np.asarray(raw.world_from_armature) @ matrices[joints])
