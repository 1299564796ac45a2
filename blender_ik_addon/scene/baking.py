# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake in small steps, which can be cancelled at any of them."""

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from numbers import Real
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..core import IKError, Pose, Problem, Status
from ..core.arrays import BoolArray, FloatArray, IntArray, frozen
from ..core.engine.pops import Pop
from ..core.explain.explanation import Explanation
from ..core.solve.sequence import SequenceJob, SequenceSolution
from .animation.fcurves import Channel, check_keyable, write_keys
from .armature.poses import channel_values, rotation_values
from .armature.restoring import ActionSnapshot, PlayedSnapshot, PoseSnapshot, block_with_uid, restore_frame
from .effectors.effectors import reasons
from .live.following import held
from .properties.settings import settings_of
from .reports import BakeReport, Smoothed, Tolerances, measured_status, notes_on_branches, notes_on_smoothing
from .rig.outcome import UNSETTLED, reasons_seen, show
from .rig.rig import Measured, Reading, Rig

LIVE_SHOWS: Final = "while Live is on each frame that is shown is solved again: switch it off to see the keys"
"""Remark on a bake while live mode is on."""

LAST_FRAME: Final = 1_048_574
"""Blender's last frame, and how far below zero its first one is (MAXFRAME)."""
KNOWN: Final = 3.0
"""Time beside the frames to bake, in smoothnesses, of which they know [1]: 5 % of a change are left then."""


class BakeJob:
    """A bake in small steps, so that an operator can show progress and be cancelled.

    Call `step` until it returns False, then `finish`; or `cancel` at any time, which puts everything back.
    Frame, action and pose are put back as well when a step raises.
    """

    frames: tuple[int, ...]
    """The frames to bake."""

    def __init__(self, armature_object: Object, frames: Iterable[int] | None = None) -> None:
        """Check all that can be checked before anything is changed (IKError: as `bake`)."""
        depsgraph = bpy.context.evaluated_depsgraph_get()
        self._rig = Rig.read(armature_object, depsgraph)
        check_keyable(armature_object)
        self.frames = _checked_frames(armature_object, frames)
        self._rig.read_frame(armature_object, depsgraph)  # refuses what cannot be read in any frame
        self._name, self._uid = armature_object.name, armature_object.session_uid
        self._progress = 0.0
        self._report: BakeReport | None = None
        self._keyed: tuple[Channel, ...] = ()
        """Channels that move with the new keys from now on: empty until the bake has succeeded."""
        self._undo = ExitStack()
        self._work = self._run()

    @property
    def progress(self) -> float:
        """Part done, in [0, 1]: each frame is read, solved and measured."""
        return self._progress

    def step(self) -> bool:
        """Do the next step; returns whether there is more to do.

        Raises:
            IKError: Something went missing meanwhile; everything is as before then.
        """
        try:
            self._progress = next(self._work)
        except StopIteration:
            return False
        except BaseException as error:
            try:
                self.cancel()
            except IKError as lost:
                raise IKError(f"{error}. Not all could be put back: {lost}") from error
            raise
        return True

    def cancel(self) -> None:
        """Put action, frame and pose back; after the last step, or a second time, do nothing."""
        self._work.close()
        self._undo.close()

    def finish(self) -> BakeReport:
        """Do all remaining steps and return the report (IKError: the bake was cancelled, or as `step`)."""
        while self.step():
            pass
        if self._report is None:
            raise IKError(f"the bake of {self._name!r} was cancelled: begin again")
        return self._report

    def _armature_object(self) -> Object:
        """Return the armature object, which may have been renamed meanwhile."""
        found = block_with_uid(bpy.data.objects, self._uid)
        if found is None:
            raise IKError(f"armature {self._name!r} was deleted during the bake: nothing is baked")
        return found

    def _beside(self) -> tuple[range, range]:
        """Frames of the scene before and after those to bake, so many as a motion knows of.

        They are solved with the others and not keyed: parts of a shot that are baked one after the other, or
        apart, meet where they adjoin.
        """
        options, scene = self._rig.solver_options(self._armature_object(), 1.0), bpy.context.scene
        first, last = self.frames[0], self.frames[-1]
        if options.differential or len(self.frames) == 1:
            return range(0), range(0)
        known = math.ceil(KNOWN * options.smoothness / self._frame_time)
        before, after = self.frames[1] - first, last - self.frames[-2]
        earliest = max(scene.frame_start, first - known)
        latest = min(scene.frame_end, last + known)
        return range(first - before, earliest - 1, -before)[::-1], range(last + after, latest + 1, after)

    @property
    def _frame_time(self) -> float:
        """How long a frame is shown [s]."""
        render = bpy.context.scene.render
        return float(render.fps_base / render.fps)

    def _run(self) -> Generator[float]:
        """Do the work; gives the part done after each bit."""
        scene, view_layer = bpy.context.scene, bpy.context.view_layer
        third = 1.0 / 3.0
        rig = self._rig
        # Live mode would overwrite what is played back.
        self._undo.enter_context(held(self._armature_object()))
        # Undone in reverse. The pose, and what else is animated and was moved without a key, come last:
        # setting the frame, and updating what was tagged, play the animation over them.
        self._undo.callback(self._restore_pose, PoseSnapshot.take(self._armature_object()))
        self._undo.callback(PlayedSnapshot.take(view_layer, self._armature_object()).restore)
        self._undo.callback(view_layer.update)
        self._undo.callback(restore_frame, scene, scene.frame_current + scene.frame_subframe)

        before, after = self._beside()
        frames = (*before, *self.frames, *after)
        own = slice(len(before), len(before) + len(self.frames))
        readings: list[Reading] = []
        present: dict[str, FloatArray] = {}
        """Rotations that are there already in the first frame: the keys go on from them."""
        for row, frame in enumerate(frames):
            scene.frame_set(frame)
            readings.append(rig.read_frame(self._armature_object(), view_layer.depsgraph))
            if frame == self.frames[0]:
                present = rotation_values(self._armature_object(), rig.armature)
            yield third * (row + 1) / len(frames)
        rig.check_evaluated(self._armature_object(), view_layer.depsgraph)

        options = rig.solver_options(self._armature_object(), max(reading.scale for reading in readings))
        solved, times = _Solved(), np.array(frames, dtype=np.float64) * self._frame_time
        smoothed: list[FloatArray] = []
        """What smoothness adds to the misses of each run."""
        for run in rig.runs(readings):
            problem = rig.problem(readings[run])
            poses = solved.going_on(_stacked(readings[run]), problem)
            asked = slice(*(min(max(row, run.start), run.stop) - run.start for row in (own.start, own.stop)))
            job = SequenceJob(problem, poses, options, times=times[run], own=asked)
            options = replace(options, restarts=0)  # another start in the middle of a motion would be a jump
            for part in job.run():
                yield third * (1.0 + (run.start + part * (run.stop - run.start)) / len(readings))
            solution = job.solution()
            solved.append(solution, problem, keyed=asked.start < asked.stop)
            smoothed.append(_by_effector(rig, readings[run], solution))
        readings = readings[own]

        armature_object = self._armature_object()
        if not solved.joints:
            raise IKError(
                f"no effector of {self._name!r} takes part in any of these frames: give one a weight and an "
                "influence above 0"
            )
        keys = channel_values(rig.armature, solved.channels(own), sorted(solved.joints), present=present)
        undo_keys = self._undo.enter_context(ExitStack())
        undo_keys.callback(self._restore_action, ActionSnapshot.take(armature_object))
        written = write_keys(armature_object, np.array(self.frames, dtype=np.float64), keys)
        if not written.keys:
            raise IKError(f"nothing could be keyed: {'; '.join(written.notes)}")

        played: list[Measured] = []
        for row, frame in enumerate(self.frames):
            scene.frame_set(frame)
            played.append(rig.measure(self._armature_object(), view_layer.depsgraph, readings[row]))
            yield third * (2.0 + (row + 1) / len(self.frames))
        rig.check_evaluated(self._armature_object(), view_layer.depsgraph)

        sheared = rig.notes_on_shear(self._armature_object(), view_layer.depsgraph)
        distances = np.stack([measured.distances for measured in played])
        angles = np.stack([measured.angles for measured in played])
        within = rig.tolerances(self._armature_object())
        missed = within.missed(distances, angles)
        worst = within.excess(distances, angles).argmax(axis=0)
        any_missed = np.logical_or.reduce(missed, axis=0)
        known = _reasons(rig, readings, solved.whys(own), worst, any_missed)
        whys = tuple(
            reasons_seen(self._armature_object(), rig, played[worst[number]], known)[number] if miss else ""
            for number, miss in enumerate(any_missed.tolist())
        )
        pops = solved.pops(frames, own)
        traded = _largest(np.concatenate(smoothed, axis=1)[:, own], rig, self.frames, within)
        undo_keys.pop_all()
        self._keyed = tuple(k.channel for k in keys if k.channel not in written.skipped)
        self._undo.close()
        armature_object = self._armature_object()
        self._report = BakeReport(
            frames=self.frames,
            names=tuple(effector.name for effector in rig.effectors),
            position_errors=frozen(distances),
            rotation_errors=frozen(angles),
            tolerances=within,
            statuses=tuple(
                measured_status(status, not miss)
                for status, miss in zip(solved.statuses(own), np.any(missed, axis=1), strict=True)
            ),
            iterations=solved.iterations(own),
            branches=tuple(sorted({pop.frame for pop in pops})),
            reasons=whys,
            notes=(
                *rig.notes,
                *rig.notes_on_limits(readings),
                *sheared,
                *written.notes,
                *notes_on_branches(pops),
                *notes_on_smoothing(traded),
                *((LIVE_SHOWS,) if settings_of(armature_object).live else ()),
            ),
            action=written.action,
            keys=written.keys,
            keys_replaced=written.keys_replaced,
            smoothing=traded,
            kinds=tuple(effector.kind for effector in rig.effectors),
            choices=tuple(measured.taken for measured in played),
        )
        show(armature_object, rig, self._report)
        settings_of(armature_object).last_bake = self._report.summary()

    def _restore_action(self, before: ActionSnapshot) -> None:
        if block_with_uid(bpy.data.objects, self._uid) is not None:
            before.restore()

    def _restore_pose(self, before: PoseSnapshot) -> None:
        """Put every channel back but those that the new keys move."""
        armature_object: Any = block_with_uid(bpy.data.objects, self._uid)
        if armature_object is None:
            return
        played = [armature_object.path_resolve(path)[index] for path, index in self._keyed]
        before.restore(armature_object)
        for (path, index), value in zip(self._keyed, played, strict=True):
            armature_object.path_resolve(path)[index] = value


class _Solved:
    """The runs of frames that are solved so far, one after the other."""

    def __init__(self) -> None:
        self._runs: list[SequenceSolution] = []
        self._last: list[int] = []
        """Joints that moved in the last run."""
        self.joints: set[int] = set()
        """Joints that moved in any run that is keyed."""

    def going_on(self, poses: Pose, problem: Problem) -> Pose:
        """Poses of the next run, (F, n, 6), of which the first goes on from the last solved one."""
        if not self._runs:
            return poses
        channels = poses.channels.copy()
        joints = [joint for joint in problem.moving_joints if joint in self._last]
        channels[0, joints] = self._runs[-1].pose.channels[-1, joints]
        return Pose(channels, poses.scale)

    def append(self, solution: SequenceSolution, problem: Problem, *, keyed: bool) -> None:
        """Take the next run, of which some frames are keyed or none."""
        self._runs.append(solution)
        self._last = problem.moving_joints
        if keyed:
            self.joints.update(self._last)

    def channels(self, rows: slice) -> FloatArray:
        """Poses of some frames, (F, n, 6)."""
        return np.concatenate([run.pose.channels for run in self._runs])[rows]

    def iterations(self, rows: slice) -> IntArray:
        """Of some frames, (F,)."""
        return np.concatenate([run.iterations for run in self._runs])[rows]

    def statuses(self, rows: slice) -> list[Status]:
        """How some frames ended, (F,)."""
        return [status for run in self._runs for status in run.statuses][rows]

    def whys(self, rows: slice) -> list[tuple[Explanation | None, ...]]:
        """Why each task is missed, for some frames, (F,)."""
        return [whys for run in self._runs for whys in run.whys][rows]

    def pops(self, frames: Sequence[int], rows: slice) -> list[Pop]:
        """Joints that turn out of proportion in some of the frames, with the numbers of these.

        The frame before the first one is not keyed: nothing turns from there.
        """
        starts = np.cumsum([0, *(len(run.statuses) for run in self._runs)]).tolist()
        found = [
            (start + pop.frame, pop)
            for start, run in zip(starts, self._runs, strict=False)
            for pop in run.pops
        ]
        known = range(len(frames))[rows][1:]
        return [pop._replace(frame=frames[row]) for row, pop in found if row in known]


def _checked_frames(armature_object: Object, frames: Iterable[int] | None) -> tuple[int, ...]:
    settings, scene = settings_of(armature_object), bpy.context.scene
    if frames is None:
        start, end = (
            (scene.frame_start, scene.frame_end)
            if settings.use_scene_range
            else (settings.bake_start, settings.bake_end)
        )
        if end < start:
            raise IKError(
                f"the frame range of {armature_object.name!r} is empty: it starts at {start} and ends at "
                f"{end}. Set it in the sidebar, tab Poise"
            )
        frames = range(start, end + 1)
    if not isinstance(frames, Iterable):
        raise IKError(f"frames to bake must be given one by one, as in range(1, 251), got {frames!r}")
    chosen = tuple(frames)
    if not chosen and isinstance(frames, range):
        raise IKError(
            f"there are no frames to bake: they start at {frames.start} and end at {frames.stop - 1}. The "
            "end must not be before the start"
        )
    if not chosen:
        raise IKError("there are no frames to bake: give at least one, the end not before the start")
    for frame in chosen:
        whole = isinstance(frame, Real) and math.isfinite(frame) and int(frame) == frame
        if not whole or abs(frame) > LAST_FRAME:
            raise IKError(f"frame {frame} cannot be baked: frames are whole numbers up to ±{LAST_FRAME}")
    for before, frame in pairwise(chosen):
        if frame <= before:
            raise IKError(f"frame {frame} is given after {before}: give each once, in increasing order")
    return tuple(int(frame) for frame in chosen)


def _reasons(
    rig: Rig,
    readings: Sequence[Reading],
    explanations: Sequence[tuple[Explanation | None, ...]],
    worst: IntArray,
    missed: BoolArray,
) -> tuple[str, ...]:
    """Say why effectors missed.

    Args:
        rig: With E effectors.
        readings: What each frame was solved from, (F,).
        explanations: Why each task is missed, for each frame, (F,).
        worst: In which frame, counted from 0, each effector is to be explained, (E,).
        missed: Which effectors are, (E,).
    """
    told = [""] * len(rig.effectors)
    answering = bool(rig.armature.driven.intersection(rig.chains))
    for row in np.unique(worst[missed]).tolist():
        reading, counts = readings[row], rig.plan([readings[row]]).counts
        texts = reasons(rig.effectors, reading.influences, counts, explanations[row], reading.scale)
        for effector in np.flatnonzero(missed & (worst == row)).tolist():
            told[effector] = texts[effector] or (UNSETTLED if answering else "")
    return tuple(told)


def _by_effector(rig: Rig, readings: Sequence[Reading], solution: SequenceSolution) -> FloatArray:
    """What smoothness adds to misses in the frames of a run: distances [m] and angles [rad], (2, F, E)."""
    found = np.zeros((2, len(readings), len(rig.effectors)))
    effectors = np.repeat(np.arange(len(rig.effectors)), rig.plan(readings).counts)
    for task, effector in enumerate(effectors.tolist()):
        own = found[int(solution.angular[task]), :, effector]
        np.maximum(own, solution.smoothing[:, task], out=own)
    found[0] *= np.array([reading.scale for reading in readings])[:, None]
    return found


def _largest(
    smoothed: FloatArray, rig: Rig, frames: Sequence[int], within: Tolerances
) -> tuple[Smoothed, ...]:
    """The largest distance and the largest angle (2, F, E) that are above the tolerances."""
    found: list[Smoothed] = []
    for angular, tolerances in enumerate((within.positions, within.rotations)):
        amounts = np.where(smoothed[angular] > tolerances, smoothed[angular], 0.0)
        row, effector = divmod(int(amounts.argmax()), len(rig.effectors))
        if amounts[row, effector] > 0.0:
            name, amount = rig.effectors[effector].name, float(amounts[row, effector])
            found.append(Smoothed(name, frames[row], amount, bool(angular)))
    return tuple(found)


def _stacked(readings: Sequence[Reading]) -> Pose:
    return Pose(
        np.stack([reading.pose.channels for reading in readings]),
        np.stack([reading.pose.scale for reading in readings]),
    )
