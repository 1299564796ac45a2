# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that constraints or drivers move, and that move again with each solve: how they come to rest.

A solve takes driven bones as if they stood still, at x. Blender then evaluates the pose that was written, and
they are elsewhere, g(x): a bone that copies the rotation of something in the world turns against its parent
whenever that turns. To be solved for is x = g(x), and g is known only by a whole update of the scene. Taking
x = g(x) again and again creeps there, or goes to and fro.

With f = g(x) − x of the solves so far, the next x is that of [Anderson1965] (see [WalkerNi2011] eq. 2.1, with
β = 1): γ = argmin |f_k − ΔF γ|, x_{k+1} = g_k − ΔG γ, where ΔF, ΔG have the differences of one solve to the
next. For one bone that moves along one way it is the secant method.

Solve and Bake repeat in passes over all their frames (`Passes`), live mode with the updates of the scene
(`DrivenBones`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import Pose, Skeleton
from ...core.arrays import FloatArray, IntArray
from ...core.messages import Message
from ..armature.poses import decided_channels, with_parents
from ..kinds.frame_data import FrameData
from ..rig.reports import Measured, Tolerances
from ..rig.rig import Rig

SAME_PLACE: Final = 1e-5
"""Difference of a channel [m, rad, 1] of a driven bone up to which it has not moved: ten times what single
precision leaves of it when the whole body moves."""
MOST_SOLVES: Final = 12
"""Solves in a row after which live mode leaves bones that do not come to rest where they are."""
MOST_PASSES: Final = 24
"""The same for Solve and Bake, which nobody waits for between two movements of the mouse."""
AGREES: Final = 0.2
"""Part of the tolerance [1] up to which effectors that Blender shows are as solved, and targets at rest."""
WINDOW: Final = 2
"""Differences that are looked back to."""
FLAT: Final = 0.05
"""Part of the largest singular value up to which differences say nothing new [1]: less leads astray, where
bones are far from linear."""
FURTHER: Final = 1.5
"""Most by which the next solve takes bones to be elsewhere than they are, in how far they have moved [1]."""


class _Extrapolation:
    """Where driven bones are to be taken to be next, from where they were taken to be and were then.

    The frames of a motion share their γ with those beside them: what moves the bones of one moves those too,
    and a frame alone cannot tell what is due to its own bones from what is due to others.
    """

    def __init__(self, times: FloatArray | None = None, span: float = 0.0) -> None:
        """Begin.

        Args:
            times: Of the frames, rising, (F,) [s]; None for one frame.
            span: Up to which time beside a frame others depend on it [s].
        """
        times = np.zeros(1) if times is None else times
        self._begin = np.searchsorted(times, times - span)
        self._end = np.searchsorted(times, times + span, side="right")
        self._solves: list[tuple[FloatArray, FloatArray]] = []
        """Of the last solves in a row, (F, k, 9) each."""

    def clear(self) -> None:
        """Forget all solves."""
        self._solves.clear()

    def next(self, taken: FloatArray, found: FloatArray) -> FloatArray:
        """Return where to take driven bones to be that were taken to be and found at (F, k, 9)."""
        self._solves = [*self._solves[-WINDOW:], (taken, found)]
        count, frames = len(self._solves), len(taken)
        was, got = (np.stack(own).reshape(count, frames, -1) for own in zip(*self._solves, strict=True))
        away = got - was  # f, (s, F, 9 k)
        ways, ends = np.diff(away, axis=0), np.diff(got, axis=0)  # ΔF, ΔG, (s - 1, F, 9 k)
        # The normal equations, as there are few differences and many bones: γ is (F, s - 1).
        own = np.linalg.pinv(self._near(np.einsum("afi,bfi->fab", ways, ways)), FLAT**2, hermitian=True)
        shared = np.einsum("fab,fb->fa", own, self._near(np.einsum("afi,fi->fa", ways, away[-1])))
        more = np.einsum("fa,afi->fi", shared, ends)
        square = np.square(away[-1]).sum(axis=1)
        longest = FURTHER * np.sqrt(self._near(square) / (self._end - self._begin))
        more *= np.minimum(1.0, longest / np.maximum(np.linalg.norm(more, axis=1), SAME_PLACE))[:, None]
        # What rests, as scales do, differs by rounding from solve to solve, which multiples would raise.
        next_one = np.where(np.abs(away[-1]) <= SAME_PLACE, got[-1], got[-1] - more)
        return next_one.reshape(taken.shape)

    def _near(self, values: FloatArray) -> FloatArray:
        """Sums of values (F, ...) over the frames near each one."""
        sums = np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])
        return sums[self._end] - sums[self._begin]


def _driven_joints(rig: Rig) -> IntArray:
    """The driven bones of the chains of a rig, (k,)."""
    names = [name for name in rig.chains if name in rig.armature.driven_by]
    return np.array([rig.armature.skeleton.index(name) for name in names], dtype=np.int64)


def _seen(rig: Rig, shown: FloatArray, joints: IntArray, taken: FloatArray) -> FloatArray:
    """Where joints (k,) are of which matrices with parents are shown, as `taken` (k, 9).

    Angles are the nearest to those taken.
    """
    return np.concatenate(decided_channels(rig.armature.skeleton, shown, joints, taken[:, 3:6]), axis=1)


def _placed(frames: FrameData, own: slice, joints: IntArray, places: FloatArray) -> FrameData:
    """Return the data of frames with joints (k,) in some of them at places (F, k, 9)."""
    channels, scale = frames.pose.channels.copy(), frames.pose.scale.copy()
    channels[own, joints], scale[own, joints] = places[..., :6], places[..., 6:]
    return replace(frames, pose=Pose(channels, scale))


class Passes:
    """Frames that are solved, written and shown again until driven bones rest."""

    def __init__(
        self, rig: Rig, frames: FrameData, own: slice, times: FloatArray | None = None, span: float = 0.0
    ) -> None:
        """Begin.

        Args:
            frames: All frames, as they were read.
            own: Those that are written and shown.
            times: Of these, (F,) [s]; None for one frame.
            span: Up to which time beside a frame others depend on it [s].
        """
        self.frames = frames
        """What the next pass solves: the frames as read, with driven bones where they are taken to be."""
        self.near: Pose | None = None
        """Poses of the last pass, from which the next one begins."""
        self._rig, self._own = rig, own
        self._joints = _driven_joints(rig)
        pose = frames.pose[own]
        taken = np.concatenate([pose.channels, pose.scale], axis=2)[:, self._joints]
        self._taken: FloatArray = taken
        self._shown = np.empty((*taken.shape[:2], 2, 4, 4))
        """Matrices of the driven bones and their parents, of each own frame."""
        self._solves, self._extrapolation = 0, _Extrapolation(times, span)
        self._distances, self._angles = np.full((2, len(taken), len(rig.effectors)), np.nan)
        """By how much effectors are nearer or further than solved, (F, E) [m], [rad]; nan where unknown."""

    @property
    def repeats(self) -> bool:
        """Whether there may be more than one pass."""
        return len(self._joints) > 0

    def shown(self, joints: IntArray, skeleton: Skeleton) -> tuple[FloatArray, FloatArray]:
        """Channels (F, k, 6) and scale (F, k, 3) that put driven joints where the last pass showed them.

        Args:
            joints: Which, (k,).
            skeleton: As it is where these are keyed.
        """
        rows, frames = np.searchsorted(self._joints, joints), len(self._taken)
        shown, near = self._shown[:, rows].reshape(-1, 2, 4, 4), self._taken[:, rows, 3:6].reshape(-1, 3)
        channels, scale = decided_channels(skeleton, shown, np.tile(joints, frames), near)
        return channels.reshape(frames, len(rows), 6), scale.reshape(frames, len(rows), 3)

    def note(self, row: int, shown: FloatArray) -> None:
        """Note where Blender shows the bones of an own frame: armature_from_joint, (n, 4, 4) [m]."""
        if self.repeats:
            self._shown[row] = with_parents(self._rig.armature.skeleton, shown, self._joints)

    def compare(self, measured: Sequence[Measured], distances: FloatArray, angles: FloatArray) -> None:
        """Note by how much effectors are nearer or further than solved.

        Args:
            measured: How far they are off in the own frames, (F,).
            distances: The same by the solver's account, (F, E) [m].
            angles: Likewise, (F, E) [rad].
        """
        # What does not follow its control is elsewhere however often it is solved.
        known = np.array([[lost is None for lost in own.lost] for own in measured])
        for differences, was, now in (
            (self._distances, distances, np.array([own.distances for own in measured])),
            (self._angles, angles, np.array([own.angles for own in measured])),
        ):
            known_here = known & np.isfinite(was) & np.isfinite(now)
            away = np.subtract(now, was, where=known_here, out=np.zeros_like(now))
            differences[:] = np.where(known_here, np.abs(away), np.nan)

    def rest(self, within: Tolerances) -> bool:
        """Whether the last pass is the last one of all.

        It is where effectors are as solved, or driven bones have not moved, or after the most passes.
        """
        self._solves += 1
        if not self.repeats or self._solves >= MOST_PASSES:
            return True
        if (within.excess(self._distances, self._angles) <= AGREES).all():
            return True
        return bool((np.abs(self._found() - self._taken) <= SAME_PLACE).all())

    def _found(self) -> FloatArray:
        """Where driven bones are shown, (F, k, 9) as `_taken`."""
        frames, count = self._taken.shape[:2]
        shown, taken = self._shown.reshape(-1, 2, 4, 4), self._taken.reshape(-1, 9)
        found = _seen(self._rig, shown, np.tile(self._joints, frames), taken)
        return found.reshape(frames, count, 9)

    def again(self, solved: FloatArray) -> None:
        """Prepare the next pass, from the channels that the last one has found, of all frames (F, n, 6)."""
        self._taken = self._extrapolation.next(self._taken, self._found())
        self.frames = _placed(self.frames, self._own, self._joints, self._taken)
        self.near = Pose(solved, self.frames.pose.scale)

    def reasons(self, row: int, within: Tolerances) -> list[str]:
        """Say by how much constraints move each effector's bone away from where it was solved to be, (E,).

        Empty where they do not.
        """
        if not self.repeats:
            return [""] * len(self._rig.effectors)
        texts: list[str] = []
        missed = within.missed(self._distances[row], self._angles[row]).tolist()
        for number, effector in enumerate(self._rig.effectors):
            if not missed[number]:
                texts.append("")
                continue
            amounts = within.amounts(self._distances[row], self._angles[row], number)
            texts.append(
                Message("constraints keep moving {bone} by {amounts}", bone=effector.bone, amounts=amounts)
            )
        return texts


@dataclass
class DrivenBones:
    """Where driven bones were taken to be, and where they were then, from one update to the next."""

    joints: IntArray
    """(k,)."""
    key: tuple[object, ...]
    """Names, joints and rotation orders."""
    taken: FloatArray
    """By the last solve: channels and scale, (k, 9) [m, rad, 1]."""
    at_rest: bool = True
    """Whether they were there after that solve too, so that what moves them next is not a solve."""
    solves: int = 1
    """In a row, with the one that began it."""
    given_up: bool = False
    """Whether they did not come to rest."""
    restored: bool = False
    """Whether a pose was put back in which they were at rest: where is seen at the next update."""
    _extrapolation: _Extrapolation = field(default_factory=_Extrapolation)

    @classmethod
    def of(
        cls, rig: Rig, armature_object: Object, depsgraph: Depsgraph, before: "DrivenBones | None"
    ) -> "DrivenBones | None":
        """The driven bones of the chains of a rig, those before if they are the same; None without any."""
        skeleton, joints = rig.armature.skeleton, _driven_joints(rig)
        if not len(joints):
            return None
        names = [skeleton.names[joint] for joint in joints]
        key = (*names, *joints.tolist(), *skeleton.orders[joints].tolist())
        if before is not None and key == before.key:
            return before
        bones = cls(joints, key, np.zeros((len(joints), 9)))
        bones.taken = bones.seen(rig, armature_object, depsgraph)
        return bones

    def names(self, rig: Rig) -> frozenset[str]:
        """Their names."""
        return frozenset(rig.armature.skeleton.names[joint] for joint in self.joints.tolist())

    def seen(self, rig: Rig, armature_object: Object, depsgraph: Depsgraph) -> FloatArray:
        """Where they are, as `taken`; angles are the nearest to those."""
        shown = with_parents(rig.armature.skeleton, rig.shown(armature_object, depsgraph), self.joints)
        return _seen(rig, shown, self.joints, self.taken)

    def placed(self, frames: FrameData, places: FloatArray) -> FrameData:
        """Return data of one frame with driven bones at places (k, 9)."""
        return _placed(frames, slice(0, 1), self.joints, places)

    def moved(self, found: FloatArray) -> bool:
        """Whether bones (k, 9) are elsewhere than they were taken to be.

        Bones that do not come to rest have not moved: they are taken as they are from then on.
        """
        if self.restored:
            self.taken = found
        if (np.abs(found - self.taken) <= SAME_PLACE).all():
            self.at_rest, self.restored = True, False
            return False
        if not self.at_rest and self.solves >= MOST_SOLVES:
            self.taken, self.at_rest, self.given_up = found, True, True
            return False
        return True

    def begin(self, found: FloatArray) -> FloatArray:
        """Where a solve is to take bones that are at (k, 9), if it is made for another reason."""
        if (np.abs(found - self.taken) > SAME_PLACE).any():
            self.taken = found
        self.at_rest, self.restored, self.solves, self.given_up = False, False, 1, False
        self._extrapolation.clear()
        return self.taken

    def follow(self, found: FloatArray) -> FloatArray:
        """Where the next solve is to take bones that have moved to (k, 9)."""
        if self.at_rest:  # something else has moved them
            return self.begin(found)
        self.taken = self._extrapolation.next(self.taken[None], found[None])[0]
        self.solves += 1
        return self.taken
