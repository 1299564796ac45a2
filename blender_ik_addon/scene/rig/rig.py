# SPDX-License-Identifier: GPL-3.0-or-later
"""An armature with its effectors: read and checked once per use, then read frame by frame, and measured.

What is missing or cannot be posed is refused by an `IKError`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from bpy.types import Depsgraph, Object, Scene

from ...core import IKError, Pose, Skeleton, SolverOptions
from ...core.arrays import FloatArray
from ...core.character.roles.names import read_name
from ...core.messages import Joined, Message, counted, either, listed
from ...core.problem.options import USED_BY
from ..armature.armature import Armature, check_armature, read_armature, world_from_armature
from ..armature.limits import clamped
from ..armature.poses import RawPose, evaluated_matrices, poses_of, recorded_channels, sheared_bones
from ..armature.rest_changes import follow_rests
from ..armature.rotation_modes import RotationLocks
from ..armature.switches import Carried, carried_by, notes_on_switches, switch_hint
from ..effectors.effectors import (
    check_evaluated,
    keep_keyed_targets,
    read_amounts,
    read_effectors,
    world_from_targets,
)
from ..effectors.masses import body_of
from ..kinds.frame_data import NO_SCALE, Body, FrameData
from ..kinds.kinds import Effector
from ..kinds.plan import Plan, let_go, make_goals, make_plan, measure
from ..properties.naming import follow_names
from ..properties.settings import settings_of, solver_options
from .noted import Origin
from .reports import Lost, Measured, Tolerances

MACHINERY: Final = frozenset({"MCH", "ORG", "DEF"})
"""Layers of a generated control rig that are no controls, as `core.character.roles` names them."""

REASONS_TOLD: Final = 3
"""How many reasons a sentence lists for which bones are not solved."""


@dataclass(frozen=True)
class RawFrame:
    """One frame as Blender has it, with all that is solved from and measured."""

    pose: RawPose
    """Channels of bones, and where they are shown."""
    astray: Mapping[str, str]
    """Controls that the mesh does not follow -> the bones that carry it."""
    with_mesh: FloatArray
    """armature_from_joint with these controls where the mesh is, (n, 4, 4) [m]."""
    world_from_armature: FloatArray
    """(4, 4) [m]."""
    world_from_target: FloatArray
    """(T, 4, 4) [m], as by `world_from_targets`."""
    influences: FloatArray
    """(E,) [1]."""
    lengths: FloatArray
    """(E,) [m]."""
    recorded: FloatArray | None
    """Channels of the recorded motion, (n, 6); None without one."""


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
            drawing: Whether nothing may be changed, such as names of bones, and effectors of which something
                is missing are left out.
        """
        check_armature(armature_object)
        notes: tuple[str, ...] = ()
        if not drawing:
            follow_names(armature_object)
            notes = follow_rests(armature_object)
            keep_keyed_targets(armature_object)
        settings = settings_of(armature_object)
        effectors = read_effectors(armature_object, drawing=drawing)
        armature = read_armature(armature_object, move_root=settings.move_root)

        def check(some: Sequence[Effector]) -> None:
            for effector in some:
                _check_movable(armature, effector)
            check_evaluated(armature_object, some, depsgraph)

        if drawing:
            effectors = those_that(check, effectors)
        check(effectors)
        chains = _chains(armature, effectors)
        weighs = any(effector.goal.weighs for effector in effectors)
        return cls(
            armature,
            effectors,
            chains,
            (*notes, *notes_on_bones(armature_object, armature, chains)),
            body_of(armature_object, armature.skeleton) if weighs else None,
            settings.method in USED_BY["redundancy"],
            carried_by(armature_object, [bone for effector in effectors for bone in effector.bones]),
        )

    def read_frame(
        self,
        armature_object: Object,
        depsgraph: Depsgraph,
        *,
        origin: Origin | None = None,
        but: frozenset[str] = frozenset(),
    ) -> FrameData:
        """Read pose, targets and the place of the object at the depsgraph's frame, as data of one frame.

        Args:
            origin: Where influences below 1 begin; by default in the pose that is read.
            but: Driven bones whose channels are not read, as the caller knows them.
        """
        frames = self.frames_of([self.read_raw(armature_object, depsgraph)], but)
        return frames if origin is None else self.from_origin(frames, origin)

    def from_origin(
        self, frames: FrameData, origin: Origin, moved: Sequence[frozenset[str]] | None = None
    ) -> FrameData:
        """Return data of frames in which influences below 1 begin elsewhere than in their poses.

        Args:
            frames: Of (F,) frames.
            origin: Where they begin.
            moved: Bones for which that is their pose, in each frame, (F,); none by default.
        """
        if (frames.influences == 1.0).all() and not any(own.kind == 'STAY' for own in self.effectors):
            return frames  # nothing asks where they begin
        moved = [frozenset()] * len(frames) if moved is None else moved
        poses = [origin.pose(self.armature, frames.pose[row], own) for row, own in enumerate(moved)]
        channels = np.stack([pose.channels for pose in poses])
        scale = np.stack([pose.scale for pose in poses])
        return replace(frames, origin=Pose(channels, scale))

    def let_go(self, frames: FrameData) -> FrameData:
        """Return the frames with bones that no influence leads where influences begin."""
        return let_go(self.effectors, frames)

    def read_raw(self, armature_object: Object, depsgraph: Depsgraph, entries: Any = None) -> RawFrame:
        """Read the depsgraph's frame (entries: as `world_from_targets`)."""
        posed, scene = armature_object.evaluated_get(depsgraph), cast(Scene, depsgraph.scene)
        bones, recorded = evaluated_matrices(posed, self.armature), None
        if self.prefers:
            recorded = recorded_channels(armature_object, self.armature, scene.frame_current_final)
        return RawFrame(
            RawPose.read(armature_object, self.armature, shown=bones),
            *self._astray(posed, bones),
            world_from_armature(posed)[0],
            world_from_targets(armature_object, self.effectors, depsgraph, entries),
            *read_amounts(armature_object, self.effectors, depsgraph, entries),
            recorded,
        )

    def frames_of(self, raws: Sequence[RawFrame], but: frozenset[str] = frozenset()) -> FrameData:
        """Return frames that were read as data (but: as `read_frame`)."""
        bones = self._posed_bones
        if but:
            bones = (frozenset(self.armature.skeleton.names) if bones is None else bones) - but

        def stacked(name: str) -> FloatArray:
            return np.stack([getattr(raw, name) for raw in raws])

        matrices = stacked("world_from_armature")
        return FrameData(
            skeleton=self.armature.skeleton,
            pose=poses_of(self.armature, [raw.pose for raw in raws], bones=bones),
            world_from_armature=matrices,
            world_from_joint=matrices[:, None] @ np.stack([raw.pose.shown for raw in raws]),
            world_from_target=stacked("world_from_target"),
            influences=stacked("influences"),
            lengths=stacked("lengths"),
            body=self.body,
            recorded=None if raws[0].recorded is None else stacked("recorded"),
        )

    @cached_property
    def _posed_bones(self) -> frozenset[str] | None:
        """Bones whose poses a solve needs, those of effectors and all above; None: all, as they weigh."""
        if self.body is not None:
            return None
        skeleton = self.armature.skeleton
        own = {skeleton.index(bone) for effector in self.effectors for bone in effector.bones}
        own.update(skeleton.index(bone) for bone in self.chains)
        return frozenset(skeleton.names[above] for joint in own for above in skeleton.ancestors(joint))

    def plan(self, frames: FrameData) -> Plan:
        """Return what is to be solved for some frames, in armature space, by effector."""
        key = tuple(np.logical_or.reduce(frames.influences > 0.0, axis=0).tolist())
        known = self._skeletons.get(key)
        plan = make_plan(self.effectors, frames, prefers=self.prefers, known=known)
        self._skeletons[key] = plan.skeleton
        return plan

    def notes_on_shear(self, armature_object: Object, depsgraph: Depsgraph) -> tuple[str, ...]:
        """Say which bones of the chains are sheared at present, so that a solve is not exact."""
        sheared = sheared_bones(armature_object, self.armature, depsgraph=depsgraph)
        named = [name for name in sheared if name in self.chains]
        return (
            (Message("constraints shear {named}, so what hangs below is not exact", named=listed(named)),)
            if named
            else ()
        )

    def notes_on_limits(self, frames: FrameData, solved: FloatArray) -> tuple[str, ...]:
        """Say which poses from which a solve starts it has brought inside their limits, or nearer.

        Args:
            solved: Channels as solved, (F, n, 6).
        """
        names, before = self.beyond_limits(frames, frames.pose.channels)
        return clamped(names, before - self.beyond_limits(frames, solved)[1])

    def beyond_limits(self, frames: FrameData, channels: FloatArray) -> tuple[list[str], FloatArray]:
        """Bones of the chains, and by how much channels (F, n, 6) are beyond their limits, (F, k, 3) [rad].

        Limits do not change what is recorded.
        """
        skeleton = self.armature.skeleton
        joints = [j for name in self.chains if skeleton.free[j := skeleton.index(name), 3:].any()]
        lower, upper = (
            np.where(skeleton.free[joints, 3:], limit[joints, 3:], none)
            for limit, none in ((skeleton.lower, -np.inf), (skeleton.upper, np.inf))
        )
        angles = channels[:, joints, 3:]
        beyond = np.maximum(np.maximum(lower - angles, angles - upper), 0.0)
        return [skeleton.names[joint] for joint in joints], beyond * (frames.recorded is None)

    def shown(self, armature_object: Object, depsgraph: Depsgraph) -> FloatArray:
        """Return armature_from_joint of all joints as Blender shows them, (n, 4, 4) [m]."""
        return evaluated_matrices(armature_object.evaluated_get(depsgraph), self.armature)

    def measure(self, armature_object: Object, depsgraph: Depsgraph, before: FrameData) -> Measured:
        """Measure the depsgraph's frame (arguments: as `measure_frames`)."""
        raw = self.read_raw(armature_object, depsgraph)
        return self.measure_frames(before, [raw], self.tolerances(armature_object))[0]

    def measure_frames(
        self, before: FrameData, raws: Sequence[RawFrame], within: Tolerances
    ) -> list[Measured]:
        """Measure in Blender's evaluated matrices; a control counts as being where the mesh goes with it.

        Args:
            before: What was solved from, (F,): where influences below 1 begin. Targets are read anew.
            raws: What Blender shows, (F,).
            within: What counts as reached.
        """
        targets = np.stack([raw.world_from_target for raw in raws])
        goals = make_goals(self.effectors, replace(before, world_from_target=targets))
        now = before
        if any(effector.kind == 'STAY' for effector in self.effectors):  # the others do not ask for channels
            now = replace(now, pose=poses_of(self.armature, [raw.pose for raw in raws]))

        def with_bones(bones: Sequence[FloatArray]) -> FrameData:
            placed = [raw.world_from_armature @ own for raw, own in zip(raws, bones, strict=True)]
            return replace(now, world_from_joint=np.stack(placed))

        there = with_bones([raw.with_mesh for raw in raws])
        lost: list[tuple[Lost | None, ...]] = [(None,) * len(self.effectors)] * len(raws)
        astray = [row for row, raw in enumerate(raws) if raw.astray]
        if astray:
            on_target = ~within.missed(*measure(goals, with_bones([raw.pose.shown for raw in raws])))
            for row in astray:
                strays = [next(filter(raws[row].astray.get, e.bones), "") for e in self.effectors]
                lost[row] = tuple(
                    Lost(bone, raws[row].astray[bone], reached) if bone else None
                    for bone, reached in zip(strays, on_target[row].tolist(), strict=True)
                )
        taken = zip(*(goal.taken(there) for goal in goals), strict=True) if goals else [()] * len(raws)
        return [Measured(*own) for own in zip(*measure(goals, there), taken, lost, strict=True)]

    def is_astray(self, armature_object: Object, depsgraph: Depsgraph) -> bool:
        """Return whether at present the mesh does not follow some control, or a bone is nowhere."""
        posed: Any = armature_object.evaluated_get(depsgraph)
        bones = np.array([posed.pose.bones[effector.bone].matrix for effector in self.effectors])
        known = np.isfinite(bones).all() and (np.linalg.norm(bones[:, :3, :3], axis=1) > NO_SCALE).all()
        return not (known and all(own.follows(posed) for own in self.carried))

    def _astray(self, posed: Object, bones: FloatArray) -> tuple[dict[str, str], FloatArray]:
        """Controls that the mesh does not follow -> the bones that carry it, and where these controls count.

        Args:
            posed: The evaluated armature object.
            bones: Matrices of all joints, (n, 4, 4) [m]; as they are returned, such controls are where the
                mesh is.
        """
        skeleton = self.armature.skeleton
        found: dict[str, str] = {}
        for own in self.carried:
            if not own.follows(posed):
                bones = bones if found else bones.copy()
                named = {name: bones[skeleton.index(name)] for name in (own.control, *own.bones)}
                found[own.control], bones[skeleton.index(own.control)] = own.shown(posed, named)
        return found, bones

    def lost_text(self, armature_object: Object, lost: Lost) -> str:
        """Say what does not follow, and which switch decides that."""
        own = {"control": lost.control, "bone": lost.bone}
        text = Message("{bone} does not follow {control}", **own)
        if lost.on_target:
            text = Message("{control} is on target, but {bone} does not follow it", **own)
        carried = next(own for own in self.carried if own.control == lost.control)
        hint = switch_hint(armature_object, carried)
        return Joined(": ", (text, hint)) if hint else text

    def tolerances(self, armature_object: Object) -> Tolerances:
        """Return what counts as reached for each effector; a soft one reaches within its softness."""
        settings = settings_of(armature_object)
        position, rotation = settings.tolerance_position, settings.tolerance_rotation
        own = [
            (max(length, effector.softness_position), max(angle, effector.softness_rotation))
            for effector in self.effectors
            for length, angle in (effector.goal.tolerances(position, rotation),)
        ]
        return Tolerances(*np.array(own).reshape(-1, 2).T)

    def solver_options(self, armature_object: Object, scale: float) -> SolverOptions:
        """Return the settings for a solve in armature units, of which one is `scale` metres in the world.

        The tolerance of places is one for all, so that floors have all solved as exactly as themselves.
        """
        options = solver_options(armature_object, scale)
        exact = [e.goal.tolerances(options.tolerance_position, 0.0)[0] for e in self.effectors]
        return replace(options, tolerance_position=min([options.tolerance_position, *exact]))


def _chains(armature: Armature, effectors: Sequence[Effector]) -> tuple[str, ...]:
    joints = {joint for effector in effectors for joint in effector.chain(armature.skeleton)}
    return tuple(armature.skeleton.names[joint] for joint in sorted(joints))


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


def _check_movable(armature: Armature, effector: Effector) -> None:
    """Refuse an effector that no bone can bring nearer to its target."""
    skeleton = armature.skeleton
    if skeleton.free[effector.chain(skeleton)].any():
        return
    chain = _chains(armature, [effector])
    raise IKError(
        "effector {effector!r}: no bone of its chain in {object_name!r} may move, because of "
        "{armature}: {chain}. Free some of them, or disable the effector",
        effector=effector.name,
        object_name=armature.object_name,
        armature=what_holds(armature, chain),
        chain=listed(chain),
    )


def what_holds(armature: Armature, bones: Sequence[str]) -> str:
    """Name what keeps bones from being moved: locks, kinds of constraints, drivers."""
    reasons = dict.fromkeys(armature.driven_by.get(bone, Message("locks")) for bone in bones)
    return either(sorted(reasons, key=lambda reason: reason != "locks"))


def notes_on_bones(armature_object: Object, armature: Armature, bones: Sequence[str]) -> tuple[str, ...]:
    """Say which of some bones are not solved, and why; and which controls nothing follows."""
    notes: list[str] = [*notes_on_switches(armature_object, set(bones) - armature.driven)]
    decided = [bone for bone in bones if bone in armature.driven_by]
    # What a generated rig has between its controls is not for the user to mute.
    within = [bone for bone in decided if read_name(bone).layer in MACHINERY]
    if within and len(within) < len(bones):
        decided = [bone for bone in decided if bone not in within]
        notes.append(
            counted(
                len(within),
                "{count} bone between controls ({bone!r}) answer by constraints: each solve is repeated "
                "until they rest",
                "{count} bones between controls ({bone!r} and others) answer by constraints: each solve is "
                "repeated until they rest",
                bone=within[0],
            )
        )
    if decided:  # one sentence: a control rig has many bones of many such reasons
        reasons = list(dict.fromkeys(armature.driven_by[bone] for bone in decided))
        others = [Message("others")] if len(reasons) > REASONS_TOLD else []
        who = either([*reasons[:REASONS_TOLD], *others])
        notes.append(
            Message(
                "not solved, because {who} decides: {decided} (where it moves with the rest, each solve is "
                "repeated until it rests; mute what decides to have it solved)",
                who=who,
                decided=listed(decided),
            )
        )
    pose: Any = armature_object.pose
    solved = [bone for bone in bones if bone not in armature.driven_by]
    held = [bone for bone in solved if RotationLocks.of(pose.bones[bone]).unsolvable]
    if held:
        notes.append(
            Message(
                "not turned, because locks hold some of four components that only change together (lock all "
                "of them, or use an Euler mode): {held}",
                held=listed(held),
            )
        )
    return tuple(notes)
