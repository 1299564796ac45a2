# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake in small steps, which can be cancelled at any of them."""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from numbers import Real
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..core import IKError, Pose, Solution, SolverOptions
from ..core.arrays import BoolArray, FloatArray, frozen
from ..core.engine.pops import Pop
from ..core.solve.sequence import SequenceJob
from .animation.fcurves import Channel, check_keyable, write_keys
from .armature.pose_note import note_posed
from .armature.poses import channel_values, rotation_values
from .armature.restoring import ActionSnapshot, PlayedSnapshot, PoseSnapshot, block_with_uid, restore_frame
from .kinds.frame_data import FrameData
from .kinds.kinds import Plan
from .live.following import held
from .properties.settings import settings_of
from .reports import Smoothed, notes_on_branches, notes_on_smoothing
from .rig.reports import (
    UNSETTLED,
    BakeReport,
    Measured,
    Tolerances,
    effector_errors,
    measured_status,
    show,
    solver_reasons,
)
from .rig.rig import Rig
from .rig.states import held_for_bake

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
        rig = Rig.read(armature_object, depsgraph)
        effectors = held_for_bake(armature_object, rig.effectors, depsgraph)
        self._rig = replace(rig, effectors=effectors)
        check_keyable(armature_object)
        self.frames = checked_frames(armature_object, frames)
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
        numbers = (*before, *self.frames, *after)
        own = slice(len(before), len(before) + len(self.frames))
        read: list[FrameData] = []
        present: dict[str, FloatArray] = {}
        """Rotations that are there already in the first frame: the keys go on from them."""
        for row, frame in enumerate(numbers):
            scene.frame_set(frame)
            read.append(rig.read_frame(self._armature_object(), view_layer.depsgraph))
            if frame == self.frames[0]:
                present = rotation_values(self._armature_object(), rig.armature)
            yield third * (row + 1) / len(numbers)
        rig.check_evaluated(self._armature_object(), view_layer.depsgraph)

        frames = FrameData.joined(read)
        options = rig.solver_options(self._armature_object(), frames.largest_scale)
        solved = _Solved(rig, frames, own)
        times = np.array(numbers, dtype=np.float64) * self._frame_time
        for run in rig.runs(frames):
            for part in solved.solve(run, times[run], options):
                yield third * (1.0 + (run.start + part * (run.stop - run.start)) / len(frames))
            options = replace(options, restarts=0)  # another start in the middle of a motion would be a jump

        armature_object = self._armature_object()
        if not solved.joints:
            raise IKError(
                f"no effector of {self._name!r} takes part in any of these frames: give one a weight and an "
                "influence above 0"
            )
        channels = np.stack([solution.pose.channels for solution in solved.keyed])
        keys = channel_values(rig.armature, channels, sorted(solved.joints), present=present)
        undo_keys = self._undo.enter_context(ExitStack())
        undo_keys.callback(self._restore_action, ActionSnapshot.take(armature_object))
        written = write_keys(armature_object, np.array(self.frames, dtype=np.float64), keys)
        if not written.keys:
            raise IKError(f"nothing could be keyed: {'; '.join(written.notes)}")

        played: list[Measured] = []
        for row, frame in enumerate(self.frames):
            scene.frame_set(frame)
            start = frames[own.start + row : own.start + row + 1]
            played.append(rig.measure(self._armature_object(), view_layer.depsgraph, start))
            yield third * (2.0 + (row + 1) / len(self.frames))
        rig.check_evaluated(self._armature_object(), view_layer.depsgraph)

        armature_object = self._armature_object()
        sheared = rig.notes_on_shear(armature_object, view_layer.depsgraph)
        distances = np.stack([measured.distances for measured in played])
        angles = np.stack([measured.angles for measured in played])
        within = rig.tolerances(armature_object)
        missed = within.missed(distances, angles)
        reasons = [""] * len(rig.effectors)
        for row, effectors in _worst_rows(within.excess(distances, angles), missed):
            errors = effector_errors(armature_object, rig, played[row], solved.reasons(row))
            for effector in effectors:
                reasons[effector] = errors[effector].why
        pops, traded = solved.pops(numbers), solved.traded(self.frames, within)
        undo_keys.pop_all()
        self._keyed = tuple(k.channel for k in keys if k.channel not in written.skipped)
        self._undo.close()
        armature_object = self._armature_object()
        note_posed(armature_object)
        self._report = BakeReport(
            frames=self.frames,
            names=tuple(effector.name for effector in rig.effectors),
            position_errors=frozen(distances),
            rotation_errors=frozen(angles),
            tolerances=within,
            statuses=tuple(
                measured_status(solution.status, not miss)
                for solution, miss in zip(solved.keyed, np.any(missed, axis=1), strict=True)
            ),
            iterations=np.array([solution.iterations for solution in solved.keyed]),
            branches=tuple(sorted({pop.frame for pop in pops})),
            reasons=tuple(reasons),
            notes=(
                *rig.notes,
                *rig.notes_on_limits(frames[own]),
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
    """The frames that are solved so far, run by run."""

    def __init__(self, rig: Rig, frames: FrameData, own: slice) -> None:
        """`own` are the frames that are keyed."""
        self._rig, self._frames, self._own = rig, frames, own
        self._solutions: list[tuple[Plan, Solution]] = []
        """Of each frame, with what was to be solved."""
        self._pops: list[tuple[int, Pop]] = []
        self._added = np.zeros((2, *frames.influences.shape))
        """By how much smoothness adds to misses: distances, angles."""
        self.joints: set[int] = set()
        """Joints that move in any frame that is keyed."""

    def solve(self, run: slice, times: FloatArray, options: SolverOptions) -> Iterator[float]:
        """Solve the next run, which goes on from the last; gives the part done."""
        frames, plan = self._frames[run], self._rig.plan(self._frames[run])
        problem, poses = plan.problem, frames.pose
        if self._solutions:
            last, solution = self._solutions[-1]
            channels = poses.channels.copy()
            joints = [j for j in problem.moving_joints if j in last.problem.moving_joints]
            channels[0, joints] = solution.pose.channels[joints]
            poses = Pose(channels, poses.scale)
        asked = slice(*(min(max(row, run.start), run.stop) - run.start for row in _ends(self._own)))
        job = SequenceJob(problem, poses, options, times=times, own=asked)
        yield from job.run()
        solved = job.solution()
        self._solutions += [(plan, solved.frame(frame)) for frame in range(len(solved))]
        self._pops += [(run.start + pop.frame, pop) for pop in solved.pops]
        if asked.start < asked.stop:
            self.joints.update(problem.moving_joints)
        for task, effector in enumerate(np.repeat(np.arange(len(plan.counts)), plan.counts).tolist()):
            own = self._added[int(solved.angular[task]), run, effector]
            scale = 1.0 if solved.angular[task] else frames.scale
            np.maximum(own, solved.smoothing[:, task] * scale, out=own)

    @property
    def keyed(self) -> list[Solution]:
        """Of the frames that are keyed, (F,)."""
        return [solution for _plan, solution in self._solutions[self._own]]

    def reasons(self, row: int) -> list[str]:
        """Why each effector misses in a frame, counted from the first that is keyed, (E,)."""
        row += self._own.start
        plan, solution = self._solutions[row]
        whys = [error.why for error in solution.errors]
        texts = solver_reasons(self._rig, self._frames[row : row + 1], plan, whys)
        answering = self._rig.armature.driven.intersection(self._rig.chains)
        return [text or UNSETTLED for text in texts] if answering else texts

    def pops(self, numbers: Sequence[int]) -> list[Pop]:
        """Joints that turn out of proportion in frames that are keyed, with the numbers of these.

        The frame before the first one is not keyed: nothing turns from there.
        """
        known = range(*_ends(self._own))[1:]
        return [pop._replace(frame=numbers[row]) for row, pop in self._pops if row in known]

    def traded(self, numbers: Sequence[int], within: Tolerances) -> tuple[Smoothed, ...]:
        """The largest distance and angle above the tolerances that smoothness adds to misses."""
        effectors, found = self._rig.effectors, list[Smoothed]()
        for angular, tolerances in enumerate((within.positions, within.rotations)):
            amounts = self._added[angular, self._own]
            amounts = np.where(amounts > tolerances, amounts, 0.0)
            row, effector = divmod(int(amounts.argmax()), len(effectors))
            if amounts[row, effector] > 0.0:
                amount = float(amounts[row, effector])
                found.append(Smoothed(effectors[effector].name, numbers[row], amount, bool(angular)))
        return tuple(found)


def _ends(rows: slice) -> tuple[int, int]:
    return rows.start, rows.stop


def _worst_rows(excess: FloatArray, missed: BoolArray) -> Iterator[tuple[int, list[int]]]:
    """The frames in which effectors that are missed are so by most, and which, (F, E)."""
    worst, any_missed = excess.argmax(axis=0), np.logical_or.reduce(missed, axis=0)
    for row in np.unique(worst[any_missed]).tolist():
        yield row, np.flatnonzero(any_missed & (worst == row)).tolist()


def bake_range(armature_object: Object) -> range:
    """Frames of the bake range in the settings (IKError: it is empty)."""
    settings, scene = settings_of(armature_object), bpy.context.scene
    if settings.use_scene_range:
        start, end = scene.frame_start, scene.frame_end
    else:
        start, end = settings.bake_start, settings.bake_end
    if end < start:
        raise IKError(
            f"the frame range of {armature_object.name!r} is empty: it starts at {start} and ends at "
            f"{end}. Set it in the sidebar, tab Poise"
        )
    return range(start, end + 1)


def checked_frames(armature_object: Object, frames: Iterable[int] | None) -> tuple[int, ...]:
    """Frames to key, by default the range in the settings (IKError: there are none, or they do not rise)."""
    if frames is None:
        frames = bake_range(armature_object)
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
