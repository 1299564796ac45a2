# SPDX-License-Identifier: GPL-3.0-or-later
"""An armature with its effectors: read and checked once per use, then read frame by frame, and measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError, Pose, Problem, Skeleton, SolverOptions, forward_kinematics
from ...core.arrays import FloatArray
from ...core.character.roles.names import read_name
from ...core.problem.options import USED_BY
from ..armature.armature import NO_SCALE, Armature, check_armature, read_armature, world_from_armature
from ..armature.limits import broken_limits
from ..armature.poses import evaluated_matrices, read_pose, sheared_bones
from ..armature.rotation_modes import RotationLocks
from ..armature.switches import Carried, carried_by, notes_on_switches, switch_hint
from ..effectors.effectors import Effector, read_effectors
from ..effectors.frame_data import Body, FrameData
from ..effectors.goals import (
    Plan,
    make_goals,
    make_plan,
    measure,
    needs_joints,
    needs_origin,
    wanders,
)
from ..effectors.kinds import KINDS
from ..effectors.masses import body_of
from ..effectors.targets import check_evaluated, read_amounts, world_from_targets
from ..properties.naming import follow_names
from ..properties.settings import method_settings, settings_of
from ..reports import Tolerances, counted, listed
from .live_state import Origin

SOLVE_MARGIN: Final = 0.5
"""Part of the user's tolerance [1] to which is solved: Blender holds poses in single precision."""

MACHINERY: Final = frozenset({"MCH", "ORG", "DEF"})
"""Layers of a generated control rig that are no controls, as `core.character.roles` names them."""

REASONS_TOLD: Final = 3
"""How many reasons a sentence lists for which bones are not solved."""

FLOOR_TOLERANCE: Final = 1e-4
"""How far a point may sink below its floor [m], where the user does not want it more exactly: a tenth of a
millimetre is not seen, half of one is, where a sole meets the ground."""


@dataclass(frozen=True)
class Reading:
    """What the solve of one frame starts from."""

    pose: Pose
    world_from_target: FloatArray
    """(T, 4, 4) [m], as `targets.world_from_targets` has them."""
    world_from_armature: FloatArray
    """(4, 4) [m]."""
    scale: float
    """World metres to one armature unit."""
    influences: FloatArray
    """How far each effector takes part, (E,) [1]."""
    lengths: FloatArray
    """Distances of DISTANCE and heights of PLANE and FLOOR, (E,) [m]."""
    world_from_joint: FloatArray | None = None
    """All bones where influences below 1 begin, (n, 4, 4) [m]; None where no task needs it."""
    origin: Pose | None = None
    """The pose where influences below 1 begin; None where it is `pose`, or no task needs it."""
    world_from_present: FloatArray | None = None
    """All bones in `pose`, (n, 4, 4) [m], where influences begin elsewhere."""

    @property
    def taking_part(self) -> tuple[bool, ...]:
        """Which effectors take part, (E,)."""
        return tuple((self.influences > 0.0).tolist())


@dataclass(frozen=True)
class Lost:
    """A control that an effector is about, and the bone that carries the mesh and does not follow it."""

    control: str
    bone: str
    on_target: bool
    """Whether the control itself is where the effector asks."""


@dataclass(frozen=True)
class Measured:
    """How far bones that carry the mesh are from what their effectors ask for, in Blender's matrices."""

    distances: FloatArray
    """(E,) [m]; nan for none, inf where it is not a number."""
    angles: FloatArray
    """(E,) [rad]; likewise."""
    taken: tuple[str, ...]
    """Which of several targets each effector has taken, (E,); empty for those that have one."""
    lost: tuple[Lost | None, ...]
    """What does not follow, (E,); None where all does."""


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
    body: Body | None = None
    """What bones weigh; None where no effector asks."""
    prefers: bool = True
    """Whether the method knows a preferred pose."""
    carried: tuple[Carried, ...] = ()
    """Bones of the effectors that are controls: others carry the mesh."""
    _skeletons: dict[tuple[bool, ...], Skeleton] = field(default_factory=dict, compare=False)
    """Those of the last plans, by the effectors that take part."""

    @classmethod
    def read(cls, armature_object: Object, depsgraph: Depsgraph, *, drawing: bool = False) -> "Rig":
        """Read and check an armature object and its effectors.

        Args:
            armature_object: The original object.
            depsgraph: Up to date.
            drawing: Whether nothing may be changed, such as names of bones, and effectors of which something
                is missing are left out.

        Raises:
            IKError: Something is missing or cannot be posed.
        """
        check_armature(armature_object)
        if not drawing:
            follow_names(armature_object)
        effectors = read_effectors(armature_object, drawing=drawing)
        armature = read_armature(armature_object, move_root=settings_of(armature_object).move_root)

        def check(some: Sequence[Effector]) -> None:
            for effector in some:
                _check_movable(armature, effector)
            check_evaluated(armature_object, some, depsgraph)

        if drawing:
            effectors = those_that(check, effectors)
        check(effectors)
        chains = _chains(armature, effectors)
        notes = notes_on_bones(armature_object, armature, chains)
        balances = any(effector.kind == 'BALANCE' for effector in effectors)
        body = body_of(armature_object, armature.skeleton) if balances else None
        prefers = settings_of(armature_object).method in USED_BY["redundancy"]
        carried = carried_by(
            armature_object, [bone for effector in effectors for bone in _bones_of(effector)]
        )
        return cls(armature, effectors, chains, notes, body, prefers, carried)

    def check_evaluated(self, armature_object: Object, depsgraph: Depsgraph) -> None:
        """Refuse what is not up to date any more, as `read` does."""
        check_evaluated(armature_object, self.effectors, depsgraph)

    def read_frame(
        self, armature_object: Object, depsgraph: Depsgraph, *, origin: Origin | None = None
    ) -> Reading:
        """Read pose, targets and the place of the object at the depsgraph's frame.

        Args:
            armature_object: The original object.
            depsgraph: Up to date.
            origin: Where influences below 1 begin; by default in the pose that is read.

        Raises:
            IKError: The object is scaled unevenly, or a target is gone or nowhere.
        """
        posed = armature_object.evaluated_get(depsgraph)
        matrix, scale = world_from_armature(posed)
        influences, lengths = read_amounts(armature_object, self.effectors, depsgraph)
        pose = read_pose(armature_object, self.armature, depsgraph=depsgraph)
        joints = begun = present = None
        if needs_joints(self.effectors, influences):
            joints = matrix @ evaluated_matrices(posed, self.armature)
        if origin is not None and needs_origin(self.effectors, influences):
            begun, present = origin.pose(self.armature, pose), joints
            if joints is not None:
                joints = matrix @ forward_kinematics(self.armature.skeleton, begun).matrices
        return Reading(
            pose=pose,
            world_from_target=world_from_targets(armature_object, self.effectors, depsgraph),
            world_from_armature=matrix,
            scale=scale,
            influences=influences,
            lengths=lengths,
            world_from_joint=joints,
            origin=begun,
            world_from_present=present,
        )

    def frame_data(self, readings: Sequence[Reading]) -> FrameData:
        """Return where bones and targets are over some frames."""
        joints = [reading.world_from_joint for reading in readings]
        present = [own for reading in readings if (own := reading.world_from_present) is not None]
        begun = [reading.pose if reading.origin is None else reading.origin for reading in readings]
        # What no task needs in some of the frames is not there, and is not read.
        known = any(matrices is not None for matrices in joints)
        nothing = np.zeros((len(self.armature.skeleton) if known else 0, 4, 4))
        names = ("world_from_armature", "world_from_target", "influences", "lengths")
        return FrameData(
            **{name: np.stack([getattr(reading, name) for reading in readings]) for name in names},
            skeleton=self.armature.skeleton,
            channels=np.stack([pose.channels for pose in begun]),
            world_from_joint=np.stack([nothing if own is None else own for own in joints]),
            world_from_present=np.stack(present) if present else None,
            body=self.body,
        )

    def runs(self, readings: Sequence[Reading]) -> list[slice]:
        """Return the runs of frames in which the same effectors take part: each is a problem of its own.

        So is each frame where the pose near which bones stay is another in each.
        """
        if wanders(self.effectors, self.frame_data(readings), prefers=self.prefers):
            return [slice(row, row + 1) for row in range(len(readings))]
        taking_part = [reading.taking_part for reading in readings]
        starts = [row for row in range(len(readings)) if row == 0 or taking_part[row] != taking_part[row - 1]]
        return [slice(*ends) for ends in pairwise([*starts, len(readings)])]

    def problem(self, readings: Sequence[Reading]) -> Problem:
        """Return what is to be solved for some frames of one run, in armature space."""
        plan = self.plan(readings)
        return Problem(plan.skeleton, plan.tasks)

    def plan(self, readings: Sequence[Reading]) -> Plan:
        """Return the same, with what belongs to which effector."""
        key = readings[0].taking_part
        known = self._skeletons.get(key)
        plan = make_plan(self.effectors, self.frame_data(readings), prefers=self.prefers, known=known)
        self._skeletons[key] = plan.skeleton
        return plan

    def notes_on_shear(self, armature_object: Object, depsgraph: Depsgraph) -> tuple[str, ...]:
        """Say which bones of the chains are sheared at present, so that a solve is not exact."""
        sheared = sheared_bones(armature_object, self.armature, depsgraph=depsgraph)
        named = [name for name in sheared if name in self.chains]
        return (f"constraints shear {listed(named)}, so what hangs below is not exact",) if named else ()

    def notes_on_limits(self, readings: Sequence[Reading]) -> tuple[str, ...]:
        """Say which limits the poses break from which a solve starts; it begins by bringing them inside."""
        skeleton = self.armature.skeleton
        joints = [j for name in self.chains if skeleton.free[j := skeleton.index(name), 3:].any()]
        lower, upper = (
            np.where(skeleton.free[joints, 3:], limit[joints, 3:], none)
            for limit, none in ((skeleton.lower, -np.inf), (skeleton.upper, np.inf))
        )
        angles = np.stack([reading.pose.rotation[joints] for reading in readings])
        return broken_limits([skeleton.names[joint] for joint in joints], lower, upper, angles)

    def measure(self, armature_object: Object, depsgraph: Depsgraph, before: Reading) -> Measured:
        """Measure in Blender's evaluated matrices; a control counts as being where the mesh goes with it.

        Args:
            armature_object: The original object.
            depsgraph: Up to date.
            before: What was solved from: where influences below 1 begin. Targets are read anew.
        """
        posed = armature_object.evaluated_get(depsgraph)
        matrix = np.array(posed.matrix_world)
        targets = world_from_targets(armature_object, self.effectors, depsgraph)
        frame_data = self.frame_data([replace(before, world_from_target=targets)])
        goals = make_goals(self.effectors, frame_data)
        stays = any(effector.kind == 'STAY' for effector in self.effectors)
        pose = read_pose(armature_object, self.armature, depsgraph=depsgraph) if stays else before.pose
        bones = evaluated_matrices(posed, self.armature)
        now = replace(frame_data, world_from_joint=(matrix @ bones)[None], channels=pose.channels[None])
        lost: tuple[Lost | None, ...] = (None,) * len(self.effectors)
        if astray := self._astray(posed, bones):
            distances, angles = measure(goals, now)
            missed = self.tolerances(armature_object).missed(distances[0], angles[0])
            lost = tuple(
                next(
                    (Lost(bone, astray[bone], not miss) for bone in _bones_of(effector) if bone in astray),
                    None,
                )
                for effector, miss in zip(self.effectors, missed.tolist(), strict=True)
            )
            now = replace(now, world_from_joint=(matrix @ bones)[None])
        distances, angles = measure(goals, now)
        taken = tuple(
            goal.met(now).effector.target if goal.effector.others and influence > 0.0 else ""
            for goal, influence in zip(goals, before.influences, strict=True)
        )
        return Measured(distances[0], angles[0], taken, lost)

    def is_astray(self, armature_object: Object, depsgraph: Depsgraph) -> bool:
        """Return whether at present the mesh does not follow some control, or a bone is nowhere."""
        posed: Any = armature_object.evaluated_get(depsgraph)
        bones = np.array([posed.pose.bones[effector.bone].matrix for effector in self.effectors])
        known = np.isfinite(bones).all() and (np.linalg.norm(bones[:, :3, :3], axis=1) > NO_SCALE).all()
        return not (known and all(own.follows(posed) for own in self.carried))

    def _astray(self, posed: Object, bones: FloatArray) -> dict[str, str]:
        """Put controls where the mesh is that does not follow them; these -> the bones that carry it.

        Args:
            posed: The evaluated armature object.
            bones: Matrices of all joints, (n, 4, 4) [m]; those of such controls are changed.
        """
        skeleton = self.armature.skeleton
        found: dict[str, str] = {}
        for own in self.carried:
            if not own.follows(posed):
                named = {name: bones[skeleton.index(name)] for name in (own.control, *own.bones)}
                found[own.control], bones[skeleton.index(own.control)] = own.shown(posed, named)
        return found

    def lost_text(self, armature_object: Object, lost: Lost | None) -> str:
        """Say what does not follow, and which switch decides that; nothing where all does."""
        if lost is None:
            return ""
        follows = f"{lost.bone} does not follow"
        text = (
            f"{lost.control} is on target, but {follows} it"
            if lost.on_target
            else f"{follows} {lost.control}"
        )
        carried = next(own for own in self.carried if own.control == lost.control)
        hint = switch_hint(armature_object, carried)
        return f"{text}: {hint}" if hint else text

    def tolerances(self, armature_object: Object) -> Tolerances:
        """Return what counts as reached for each effector."""
        settings = settings_of(armature_object)
        position, rotation = settings.tolerance_position, settings.tolerance_rotation
        exact = {'FLOOR': (min(position, FLOOR_TOLERANCE), rotation), 'STAY': (np.inf, np.inf)}
        own: list[tuple[float, float]] = []
        for effector in self.effectors:
            length, angle = exact.get(effector.kind, (position, rotation))
            own.append((max(length, effector.softness_position), max(angle, effector.softness_rotation)))
        return Tolerances(position, rotation, tuple(own))

    def solver_options(self, armature_object: Object, scale: float) -> SolverOptions:
        """Return the settings for a solve in armature units, of which one is `scale` metres in the world.

        The tolerance of places is one for all, so that floors have all solved as exactly as themselves.
        """
        options = solver_options(armature_object, scale)
        if not any(effector.kind == 'FLOOR' for effector in self.effectors):
            return options
        return replace(
            options,
            tolerance_position=min(options.tolerance_position, SOLVE_MARGIN * FLOOR_TOLERANCE / scale),
        )


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
        smoothness=settings.smoothness,
        pop_angle=settings.pop_angle,
    )


def _chains(armature: Armature, effectors: Sequence[Effector]) -> tuple[str, ...]:
    skeleton = armature.skeleton
    joints = {joint for effector in effectors for joint in KINDS[effector.kind].chain(effector, skeleton)}
    return tuple(skeleton.names[joint] for joint in sorted(joints))


def those_that(
    succeed: Callable[[Sequence[Effector]], object], effectors: Sequence[Effector]
) -> tuple[Effector, ...]:
    """Return the effectors with which something can be done: all, or those with which alone it can be."""

    def can(some: Sequence[Effector]) -> bool:
        try:
            succeed(some)
        except IKError:
            return False
        return True

    return tuple(effectors) if can(effectors) else tuple(one for one in effectors if can([one]))


def _bones_of(effector: Effector) -> list[str]:
    """Return the bones that decide whether an effector is met."""
    bones = (effector.bone, effector.other_bone, effector.root_bone, effector.tip_bone)
    return [bone for bone in bones if bone]


def _check_movable(armature: Armature, effector: Effector) -> None:
    """Refuse an effector that no bone can bring nearer to its target."""
    skeleton = armature.skeleton
    if skeleton.free[KINDS[effector.kind].chain(effector, skeleton)].any():
        return
    chain = _chains(armature, [effector])
    raise IKError(
        f"effector {effector.name!r}: no bone of its chain in {armature.object_name!r} may move, because of "
        f"{what_holds(armature, chain)}: {listed(chain)}. Free some of them, or disable the effector"
    )


def what_holds(armature: Armature, bones: Sequence[str]) -> str:
    """Name what keeps bones from being moved: locks, kinds of constraints, drivers."""
    reasons = dict.fromkeys(armature.driven_by.get(bone, "locks") for bone in bones)
    return " or ".join(sorted(reasons, key=lambda reason: reason != "locks"))


def notes_on_bones(armature_object: Object, armature: Armature, bones: Sequence[str]) -> tuple[str, ...]:
    """Say which of some bones are not solved, and why; and which controls nothing follows."""
    notes: list[str] = [*notes_on_switches(armature_object, set(bones) - armature.driven)]
    decided = [bone for bone in bones if bone in armature.driven_by]
    # What a generated rig has between its controls is not for the user to mute.
    within = [bone for bone in decided if read_name(bone).layer in MACHINERY]
    if within and len(within) < len(bones):
        decided = [bone for bone in decided if bone not in within]
        notes.append(
            f"{counted(len(within), 'bone')} between controls ({within[0]!r}"
            f"{' and others' * (len(within) > 1)}) answer by constraints: live mode solves until they rest, "
            "Solve and Bake take them as they stand"
        )
    if decided:  # one sentence: a control rig has many bones of many such reasons
        reasons = list(dict.fromkeys(armature.driven_by[bone] for bone in decided))
        who = f"{' or '.join(reasons[:REASONS_TOLD])}{' or others' * (len(reasons) > REASONS_TOLD)}"
        notes.append(
            f"not solved, because {who} decides: {listed(decided)} (the rest is solved as if that stood "
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
