# SPDX-License-Identifier: GPL-3.0-or-later
"""An armature with its effectors: read and checked once per use, then read frame by frame, and measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ..core import IKError, Pose, Problem, SolverOptions
from ..core.arrays import FloatArray
from .armature import (
    Armature,
    check_armature,
    evaluated_matrices,
    read_armature,
    read_pose,
    sheared_bones,
    world_from_armature,
)
from .effectors import (
    Effector,
    check_evaluated,
    make_tasks,
    measure,
    read_effectors,
    world_from_targets,
)
from .properties import NOT_MEASURED, method_settings, settings_of
from .reports import BakeReport, Report, Tolerances, listed
from .rotation_modes import RotationLocks

SOLVE_MARGIN: Final = 0.5
"""Part of the user's tolerance [1] to which is solved: Blender holds poses in single precision."""


@dataclass(frozen=True)
class Reading:
    """What the solve of one frame starts from."""

    pose: Pose
    world_from_target: FloatArray
    """(E, 4, 4) [m]."""
    world_from_armature: FloatArray
    """(4, 4) [m]."""
    scale: float
    """World metres to one armature unit."""


@dataclass(frozen=True)
class Rig:
    """An armature and its enabled effectors, as plain data."""

    armature: Armature
    effectors: tuple[Effector, ...]
    """(E,)."""
    chains: tuple[str, ...]
    """The bones of the effectors and their ancestors, parents first."""
    notes: tuple[str, ...]
    """What the user should know of these bones, one sentence each."""

    @classmethod
    def read(cls, armature_object: Object, depsgraph: Depsgraph) -> "Rig":
        """Read and check an armature object and its effectors.

        Args:
            armature_object: The original object.
            depsgraph: Up to date.

        Raises:
            IKError: Something is missing or cannot be posed.
        """
        check_armature(armature_object)
        effectors = read_effectors(armature_object)
        armature = read_armature(armature_object, move_root=settings_of(armature_object).move_root)
        for effector in effectors:
            _check_movable(armature, effector)
        check_evaluated(armature_object, effectors, depsgraph)
        chains = _chains(armature, effectors)
        return cls(armature, effectors, chains, _notes(armature_object, armature, chains))

    def check_evaluated(self, armature_object: Object, depsgraph: Depsgraph) -> None:
        """Refuse what is not up to date any more, as `read` does."""
        check_evaluated(armature_object, self.effectors, depsgraph)

    def read_frame(self, armature_object: Object, depsgraph: Depsgraph) -> Reading:
        """Read pose, targets and the place of the object at the depsgraph's frame.

        Raises:
            IKError: The object is scaled unevenly, or a target is gone or nowhere.
        """
        matrix, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
        return Reading(
            pose=read_pose(armature_object, self.armature, depsgraph=depsgraph),
            world_from_target=world_from_targets(armature_object, self.effectors, depsgraph),
            world_from_armature=matrix,
            scale=scale,
        )

    def problem(self, readings: Sequence[Reading]) -> Problem:
        """Return what is to be solved for some frames, in armature space."""
        tasks = make_tasks(
            self.effectors,
            np.stack([reading.world_from_target for reading in readings]),
            np.stack([reading.world_from_armature for reading in readings]),
        )
        return Problem(self.armature.skeleton, tasks)

    def notes_on_shear(self, armature_object: Object, depsgraph: Depsgraph) -> tuple[str, ...]:
        """Say which bones of the chains are sheared at present, so that the answer is not exact."""
        sheared = sheared_bones(armature_object, self.armature, depsgraph=depsgraph)
        named = [name for name in sheared if name in self.chains]
        return (f"constraints shear {listed(named)}, so what hangs below is not exact",) if named else ()

    def measure(self, armature_object: Object, depsgraph: Depsgraph) -> tuple[FloatArray, FloatArray]:
        """Return distances [m] and angles [rad] in Blender's evaluated matrices, (E,) each; nan for none."""
        posed = armature_object.evaluated_get(depsgraph)
        joints = [self.armature.skeleton.index(effector.bone) for effector in self.effectors]
        world_from_bone = np.array(posed.matrix_world) @ evaluated_matrices(posed, self.armature)[joints]
        targets = world_from_targets(armature_object, self.effectors, depsgraph)
        return measure(self.effectors, world_from_bone, targets)

    def show(
        self, armature_object: Object, distances: FloatArray, angles: FloatArray, report: Report | BakeReport
    ) -> None:
        """Write errors (E,) and message where the panel shows them."""
        settings = settings_of(armature_object)
        settings.last_message, settings.last_reached = report.summary(), report.reached
        for entry in settings.effectors:
            entry.error_position = entry.error_rotation = NOT_MEASURED
            entry.why = ""
        for effector, distance, angle, why in zip(
            self.effectors, distances, angles, report.whys, strict=True
        ):
            entry = settings.effectors[effector.index]
            entry.error_position = NOT_MEASURED if np.isnan(distance) else distance
            entry.error_rotation = NOT_MEASURED if np.isnan(angle) else angle
            entry.why = why


def solver_options(armature_object: Object, scale: float) -> SolverOptions:
    """Return the settings for a solve in armature units, of which one is `scale` metres in the world."""
    settings = settings_of(armature_object)
    own: dict[str, Any] = {name: getattr(settings, name) for name in method_settings(settings.method)}
    if "clamp_distance" in own:
        own["clamp_distance"] = settings.clamp_distance / scale or None
    return SolverOptions(
        **own,
        method=settings.method,
        max_iterations=settings.iterations,
        tolerance_position=SOLVE_MARGIN * settings.tolerance_position / scale,
        tolerance_rotation=SOLVE_MARGIN * settings.tolerance_rotation,
    )


def tolerances(armature_object: Object) -> Tolerances:
    """Return what counts as reached for an armature object."""
    settings = settings_of(armature_object)
    return Tolerances(settings.tolerance_position, settings.tolerance_rotation)


def _chains(armature: Armature, effectors: Sequence[Effector]) -> tuple[str, ...]:
    skeleton = armature.skeleton
    joints = {j for effector in effectors for j in skeleton.ancestors(skeleton.index(effector.bone))}
    return tuple(skeleton.names[joint] for joint in sorted(joints))


def _check_movable(armature: Armature, effector: Effector) -> None:
    """Refuse an effector that no bone can bring nearer to its target."""
    skeleton = armature.skeleton
    if skeleton.free[skeleton.ancestors(skeleton.index(effector.bone))].any():
        return
    chain = _chains(armature, [effector])
    reasons = dict.fromkeys(armature.driven_by[bone] for bone in chain if bone in armature.driven_by)
    all_decided = all(bone in armature.driven_by for bone in chain)
    why = " or ".join([*([] if all_decided else ["locks"]), *reasons])
    raise IKError(
        f"effector {effector.name!r}: no bone of its chain in {armature.object_name!r} may move, because of "
        f"{why}: {listed(chain)}. Free some of them, or disable the effector"
    )


def _notes(armature_object: Object, armature: Armature, bones: Sequence[str]) -> tuple[str, ...]:
    """Say which of some bones are not solved, and why."""
    notes: list[str] = []
    for reason in dict.fromkeys(armature.driven_by[bone] for bone in bones if bone in armature.driven_by):
        decided = [bone for bone in bones if armature.driven_by.get(bone) == reason]
        notes.append(
            f"not solved, because {reason} decides: {listed(decided)} (the rest is solved as if that stood "
            "still; where it moves after all, mute what decides or solve again)"
        )
    pose: Any = armature_object.pose
    solved = [bone for bone in bones if bone not in armature.driven_by]
    held = [bone for bone in solved if RotationLocks.of(pose.bones[bone]).unsolvable]
    if held:
        notes.append(
            "not turned, because locks hold some of four components that only change together (lock all of "
            f"them, or use an Euler mode): {listed(held)}"
        )
    return tuple(notes)
