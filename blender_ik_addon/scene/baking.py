# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake in small steps, which can be cancelled at any of them."""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..core import IKError, Pose, Solution, SolverOptions
from ..core.arrays import BoolArray, FloatArray, frozen
from ..core.engine.pops import Pop
from ..core.solve.sequence import SequenceJob
from .animation.fcurves import Channel, WriteResult, check_keyable, write_keys
from .armature.poses import channel_values, rotation_values
from .armature.restoring import ActionSnapshot, PlayedSnapshot, PoseSnapshot, block_with_uid, restore_frame
from .bake_frames import bake_frames
from .kinds.frame_data import FrameData
from .kinds.kinds import Effector, Plan
from .live.driven_bones import Passes
from .live.following import held
from .properties.settings import settings_of
from .reports import Smoothed, notes_on_between, notes_on_branches, notes_on_smoothing
from .rig.live_state import note_posed
from .rig.reports import (
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

KNOWN: Final = 3.0
"""Time beside the frames to bake, in smoothnesses, of which they know [1]: 5 % of a change are left then."""


class BakeJob:
    """A bake in small steps, so that an operator can show progress and be cancelled.

    Call `step` until it returns False, then `finish`; or `cancel` at any time, which puts everything back.
    Frame, action and pose are put back as well when a step raises.
    """

    frames: tuple[int, ...]
    """The frames to bake."""

    def __init__(self, armature_object: Object, frames: Iterable[int] | str | None = None) -> None:
        """Check all that can be checked before anything is changed (`frames` and IKError: as `bake`)."""
        depsgraph = bpy.context.evaluated_depsgraph_get()
        rig = Rig.read(armature_object, depsgraph)
        effectors = held_for_bake(armature_object, rig.effectors, depsgraph)
        self._rig = replace(rig, effectors=effectors)
        check_keyable(armature_object)
        self.frames = bake_frames(armature_object, frames)
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
        between = sorted(set(range(self.frames[0], self.frames[-1])).difference(self.frames))
        read: list[FrameData] = []
        read_between: list[FrameData] = []
        present: dict[str, FloatArray] = {}
        """Rotations that are there already in the first frame: the keys go on from them."""
        unkeyed, all_numbers = set(between), sorted((*numbers, *between))
        for row, frame in enumerate(all_numbers):
            scene.frame_set(frame)
            found = rig.read_frame(self._armature_object(), view_layer.depsgraph)
            (read_between if frame in unkeyed else read).append(found)
            if frame == self.frames[0]:
                present = rotation_values(self._armature_object(), rig.armature)
            yield third * (row + 1) / len(all_numbers)
        rig.check_evaluated(self._armature_object(), view_layer.depsgraph)

        frames = FrameData.joined(read)
        times = np.array(numbers, dtype=np.float64) * self._frame_time
        passes = Passes(rig, frames, own, times[own], KNOWN * settings_of(self._armature_object()).smoothness)
        within = rig.tolerances(self._armature_object())
        undo_keys = self._undo.enter_context(ExitStack())
        undo_keys.callback(self._restore_action, ActionSnapshot.take(self._armature_object()))
        first: WriteResult | None = None
        done = third
        while True:
            # How many passes there are is not known: each is half of what is left.
            half = (1.0 - done) * (0.25 if passes.repeats or between else 0.5)
            solved = _Solved(rig, passes, own)
            options = rig.solver_options(self._armature_object(), frames.largest_scale)
            for run in rig.runs(frames):
                for part in solved.solve(run, times[run], options):
                    yield done + half * (run.start + part * (run.stop - run.start)) / len(frames)
                options = replace(options, restarts=0)  # another start in the middle of a motion is a jump

            if not solved.joints:
                raise IKError(
                    f"no effector of {self._name!r} takes part in any of these frames: give one a weight and "
                    "an influence above 0"
                )
            channels = np.stack([solution.pose.channels for solution in solved.keyed])
            keys = channel_values(rig.armature, channels, sorted(solved.joints), present=present)
            written = write_keys(self._armature_object(), np.array(self.frames, dtype=np.float64), keys)
            first = first or written
            if not written.keys:
                raise IKError(f"nothing could be keyed: {'; '.join(written.notes)}")

            played: list[Measured] = []
            for row, frame in enumerate(self.frames):
                scene.frame_set(frame)
                armature_object = self._armature_object()
                start = frames[own.start + row : own.start + row + 1]
                shown = rig.shown(armature_object, view_layer.depsgraph)
                played.append(rig.measure(armature_object, view_layer.depsgraph, start, shown))
                passes.note(row, shown, played[row], *solved.keyed_with_plan(row), float(start.scale[0]))
                yield done + half * (1.0 + (row + 1) / len(self.frames))
            rig.check_evaluated(self._armature_object(), view_layer.depsgraph)
            if passes.rest(within):
                break
            passes.again([solution for _plan, solution in solved.solutions])
            done += 2.0 * half

        done += 2.0 * half
        missed_between = np.full((2, len(between), len(rig.effectors)), np.nan)
        for row, (frame, start) in enumerate(zip(between, read_between, strict=True)):
            scene.frame_set(frame)
            measured = rig.measure(self._armature_object(), view_layer.depsgraph, start)
            missed_between[:, row] = measured.distances, measured.angles
            yield done + (1.0 - done) * (row + 1) / len(between)

        armature_object = self._armature_object()
        sheared = rig.notes_on_shear(armature_object, view_layer.depsgraph)
        distances = np.stack([measured.distances for measured in played])
        angles = np.stack([measured.angles for measured in played])
        missed = within.missed(distances, angles)
        reasons = [""] * len(rig.effectors)
        for row, effectors in _worst_rows(within.excess(distances, angles), missed):
            moved = zip(solved.reasons(row), passes.reasons(row, within), strict=True)
            errors = effector_errors(armature_object, rig, played[row], [why or by for why, by in moved])
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
                *first.notes,
                *notes_on_branches(pops),
                *notes_on_smoothing(traded),
                *notes_on_between(_largest(rig.effectors, between, missed_between, within)),
                *((LIVE_SHOWS,) if settings_of(armature_object).live else ()),
            ),
            action=written.action,
            keys=written.keys,
            keys_replaced=first.keys_replaced,
            smoothing=traded,
            kinds=tuple(effector.kind for effector in rig.effectors),
            choices=tuple(measured.taken for measured in played),
            between=tuple(between),
            position_errors_between=frozen(missed_between[0]),
            rotation_errors_between=frozen(missed_between[1]),
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

    def __init__(self, rig: Rig, passes: Passes, own: slice) -> None:
        """`own` are the frames that are keyed."""
        self._rig, self._frames, self._near, self._own = rig, passes.frames, passes.near, own
        self.solutions: list[tuple[Plan, Solution]] = []
        """Of each frame, with what was to be solved."""
        self._pops: list[tuple[int, Pop]] = []
        self._added = np.zeros((2, *self._frames.influences.shape))
        """By how much smoothness adds to misses: distances, angles."""
        self.joints: set[int] = set()
        """Joints that move in any frame that is keyed."""

    def solve(self, run: slice, times: FloatArray, options: SolverOptions) -> Iterator[float]:
        """Solve the next run, which goes on from the last; gives the part done."""
        frames, plan = self._frames[run], self._rig.plan(self._frames[run])
        problem, poses = plan.problem, frames.pose
        if self.solutions:
            last, solution = self.solutions[-1]
            channels = poses.channels.copy()
            joints = [j for j in problem.moving_joints if j in last.problem.moving_joints]
            channels[0, joints] = solution.pose.channels[joints]
            poses = Pose(channels, poses.scale)
        asked = slice(*(min(max(row, run.start), run.stop) - run.start for row in _ends(self._own)))
        near = None if self._near is None else self._near[run]
        job = SequenceJob(problem, poses, options, times=times, own=asked, near=near)
        yield from job.run()
        solved = job.solution()
        self.solutions += [(plan, solved.frame(frame)) for frame in range(len(solved))]
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
        return [solution for _plan, solution in self.solutions[self._own]]

    def keyed_with_plan(self, row: int) -> tuple[Plan, Solution]:
        """A frame, counted from the first that is keyed, with what was to be solved."""
        return self.solutions[self._own.start + row]

    def reasons(self, row: int) -> list[str]:
        """Why each effector misses in a frame, counted from the first that is keyed, (E,)."""
        row += self._own.start
        plan, solution = self.solutions[row]
        whys = [error.why for error in solution.errors]
        return solver_reasons(self._rig, self._frames[row : row + 1], plan, whys)

    def pops(self, numbers: Sequence[int]) -> list[Pop]:
        """Joints that turn out of proportion in frames that are keyed, with the numbers of these.

        The frame before the first one is not keyed: nothing turns from there.
        """
        known = range(*_ends(self._own))[1:]
        return [pop._replace(frame=numbers[row]) for row, pop in self._pops if row in known]

    def traded(self, numbers: Sequence[int], within: Tolerances) -> tuple[Smoothed, ...]:
        """The largest distance and angle above the tolerances that smoothness adds to misses."""
        return _largest(self._rig.effectors, numbers, self._added[:, self._own], within)


def _largest(
    effectors: Sequence[Effector], frames: Sequence[int], amounts: FloatArray, within: Tolerances
) -> tuple[Smoothed, ...]:
    """The largest distance and the largest angle above the tolerances, of (2, F, E)."""
    found: list[Smoothed] = []
    for angular, tolerances in enumerate((within.positions, within.rotations)):
        large = np.where(amounts[angular] > tolerances, amounts[angular], 0.0)
        if large.any():
            row, effector = divmod(int(large.argmax()), len(effectors))
            name, amount = effectors[effector].name, float(large[row, effector])
            found.append(Smoothed(name, frames[row], amount, bool(angular)))
    return tuple(found)


def _ends(rows: slice) -> tuple[int, int]:
    return rows.start, rows.stop


def _worst_rows(excess: FloatArray, missed: BoolArray) -> Iterator[tuple[int, list[int]]]:
    """The frames in which effectors that are missed are so by most, and which, (F, E)."""
    worst, any_missed = excess.argmax(axis=0), np.logical_or.reduce(missed, axis=0)
    for row in np.unique(worst[any_missed]).tolist():
        yield row, np.flatnonzero(any_missed & (worst == row)).tolist()
