# SPDX-License-Identifier: GPL-3.0-or-later
"""What effectors ask for while a bone is dragged, and which pose is preferred.

Where live mode solves when the drag ends, that is what it will solve for then: targets that come along are
where their bones are, what follows has gone along with what carries it, and joints prefer what they prefer
in a solve. So the body does not move when it is let go.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, cast

import numpy as np
from bpy.types import Depsgraph, Object, Scene

from ...core import Problem, Skeleton, Task
from ...core.arrays import FloatArray
from ..effectors.effectors import at_point
from ..effectors.stance import anchored
from ..kinds.frame_data import FrameData
from ..kinds.kinds import Effector
from ..kinds.plan import Plan
from ..rig.rig import Rig

CARRIED: Final = 1e-4
"""By how much what follows goes along at least [m, 1], so that it comes to rest with the body."""


class LetGo(NamedTuple):
    """What live mode will solve when a bone is let go."""

    plan: Plan
    frames: FrameData
    """Of one frame."""


class DragPlan:
    """Tasks of the effectors of a rig, and preferences, with targets where bones are now."""

    def __init__(
        self,
        armature_object: Object,
        rig: Rig,
        depsgraph: Depsgraph,
        dragged: Collection[Effector],
        coming: Collection[Effector],
    ) -> None:
        """Read targets.

        Args:
            dragged: Effectors of the dragged bone, which ask for its place from then on.
            coming: Effectors whose targets come along with their bones.
        """
        self._effectors = rig.effectors
        self._rig = replace(rig, effectors=tuple(_reaching(e) if e in dragged else e for e in rig.effectors))
        self._frames = self._rig.read_frame(armature_object, depsgraph)
        self._time = float(cast(Scene, depsgraph.scene).frame_current_final)
        posed = armature_object.evaluated_get(depsgraph)
        self._world_from_armature = np.array(posed.matrix_world)
        counts = [len(effector.targets) for effector in self._rig.effectors]
        self._first = np.cumsum([0, *counts[:-1]])
        """The first target of each effector, (E,)."""
        self._moved = [row for row, effector in enumerate(rig.effectors) if effector in (*dragged, *coming)]
        self._plan = self._rig.plan(self._frames)

    @property
    def tasks(self) -> dict[Effector, tuple[Task, ...]]:
        """Those with a weight of each effector."""
        tasks = iter([task for task in self._plan.tasks if task.weight > 0.0])
        groups = [tuple(islice(tasks, count)) for count in self._plan.counts]
        return dict(zip(self._effectors, groups, strict=True))

    def problem(self, skeleton: Skeleton, tasks: Collection[Task], start: FloatArray) -> Problem:
        """A problem in which joints prefer what they prefer in a solve; what that leaves alone, its start."""
        planned, solved = self._plan.skeleton, [skeleton.index(bone) for bone in self._rig.chains]
        preferred = start.copy()
        preferred[solved] = planned.preferred[solved]
        own = replace(skeleton, preferred=preferred, stiffness=planned.stiffness)
        return Problem(own, tuple(tasks), self._plan.preferred)

    def take_along(self, armature_object: Object, matrices: FloatArray) -> bool:
        """Let what follows go along with bones that are at armature_from_bone (n, 4, 4); whether it moves."""
        targets = self._targets(armature_object, matrices, self._rig.effectors, self._moved)
        following = [self._first[row] for row, own in enumerate(self._rig.effectors) if own.follows]
        if np.abs(targets - self._frames.world_from_target[0])[following].max(initial=0.0) <= CARRIED:
            return False
        self._frames = replace(self._frames, world_from_target=targets[None])
        self._plan = self._rig.plan(self._frames)
        return True

    def let_go(
        self,
        armature_object: Object,
        matrices: FloatArray,
        effectors: Sequence[Effector],
        brought: Sequence[int],
    ) -> LetGo:
        """What live mode will solve when the bone is let go.

        Args:
            matrices: armature_from_bone where bones are now, (n, 4, 4).
            effectors: As they are then, (E,).
            brought: Which of them have their targets brought to their bones.
        """
        rig = replace(self._rig, effectors=tuple(effectors))
        targets = self._targets(armature_object, matrices, rig.effectors, brought)
        frames = replace(self._frames, world_from_target=targets[None])
        return LetGo(rig.plan(frames), frames)

    def _targets(
        self,
        armature_object: Object,
        matrices: FloatArray,
        effectors: Sequence[Effector],
        brought: Sequence[int],
    ) -> FloatArray:
        """Targets where some are brought to their bones and what follows goes along, (T, 4, 4)."""
        index, targets = self._rig.armature.skeleton.index, self._frames.world_from_target[0].copy()
        here = list(np.linalg.inv(self._world_from_armature) @ targets[self._first])
        for row in brought:
            here[row] = at_point(matrices[index(effectors[row].bone)], effectors[row])
            targets[self._first[row]] = self._world_from_armature @ here[row]
        for row, own in enumerate(effectors):
            if own.follows and own.anchors:
                bone = anchored(armature_object, effectors, own, here, self._time)
                targets[self._first[row]] = self._world_from_armature @ at_point(bone, own)
        return targets


def _reaching(effector: Effector) -> Effector:
    """An effector that asks for the place of its bone, as that of a dragged bone does at the end."""
    if effector.follows:
        effector = replace(effector, state='REACH', anchors=())
    return replace(effector, kind='BOTH') if effector.turns_only else effector
