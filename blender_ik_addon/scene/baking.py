# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake in small steps, which can be cancelled at any of them."""

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..core import IKError, Pose, Solution, SolverOptions
from ..core.arrays import BoolArray, FloatArray, IntArray, frozen
from ..core.engine.pops import Pop
from ..core.solve.sequence import SequenceJob
from .animation.fcurves import Channel, WriteResult, check_keyable, write_keys
from .armature.pose_note import note_posed
from .armature.poses import channel_values, rotation_values
from .armature.restoring import ActionSnapshot, PlayedSnapshot, PoseSnapshot, block_with_uid, restore_frame
from .bake_frames import BakeFrames
from .kinds.frame_data import FrameData
from .kinds.kinds import Effector, Plan
from .live.driven_bones import Passes
from .live.following import held
from .properties.settings import settings_of
from .reports import Smoothed, notes_on_between, notes_on_branches, notes_on_smoothing
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
    """The frames to key; with *At Targets' Keys* more are added where the error between them needs it."""
    solved: tuple[int, ...]
    """All frames to solve: those to key, and those between them."""

    def __init__(
        self,
        armature_object: Object,
        frames: Iterable[int] | str | None = None,
        step: int | None = None,
        *,
        at_keys: bool | None = None,
    ) -> None:
        """Check all that can be checked before anything is changed (arguments and IKError: as `bake`)."""
        depsgraph = bpy.context.evaluated_depsgraph_get()
        rig = Rig.read(armature_object, depsgraph)
        effectors = held_for_bake(armature_object, rig.effectors, depsgraph)
        self._rig = replace(rig, effectors=effectors)
        check_keyable(armature_object)
        chosen = BakeFrames.of(armature_object, frames, step, at_keys=at_keys)
        self.solved, self.frames, self._at_keys = chosen.solved, chosen.keyed, chosen.at_keys
        self._rig.read_frame(armature_object, depsgraph)  # refuses what cannot be read in any frame
        self._name, self._uid = armature_object.name, armature_object.session_uid
        self._progress = 0.0
        self._report: BakeReport | None = None
        self._written: tuple[Channel, ...] = ()
        """Channels that were written last."""
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
        first, last = self.solved[0], self.solved[-1]
        if options.differential or len(self.solved) == 1:
            return range(0), range(0)
        known = math.ceil(KNOWN * options.smoothness / self._frame_time)
        before, after = self.solved[1] - first, last - self.solved[-2]
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
        numbers = (*before, *self.solved, *after)
        own = slice(len(before), len(before) + len(self.solved))
        read: list[FrameData] = []
        present: dict[str, FloatArray] = {}
        """Rotations that are there already in the first frame: the keys go on from them."""
        for row, frame in enumerate(numbers):
            scene.frame_set(frame)
            read.append(rig.read_frame(self._armature_object(), view_layer.depsgraph))
            if frame == self.solved[0]:
                present = rotation_values(self._armature_object(), rig.armature)
            yield third * (row + 1) / len(numbers)
        rig.check_evaluated(self._armature_object(), view_layer.depsgraph)

        frames = FrameData.joined(read)
        times = np.array(numbers, dtype=np.float64) * self._frame_time
        passes = Passes(rig, frames, own, times[own], KNOWN * settings_of(self._armature_object()).smoothness)
        within = rig.tolerances(self._armature_object())
        undo_keys = self._undo.enter_context(ExitStack())
        action = ActionSnapshot.take(self._armature_object())
        undo_keys.callback(self._restore_action, action)
        every, keyed = np.arange(len(self.solved)), np.searchsorted(self.solved, self.frames)
        is_dense = len(every) == len(keyed)
        first: WriteResult | None = None
        done = third
        while True:
            # How many passes there are is not known: each is half of what is left.
            half = (1.0 - done) * (0.25 if passes.repeats or not is_dense else 0.5)
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
            played: list[Measured] = []
            if is_dense or passes.repeats:
                written = self._write(solved, every, present)
                first = first or written
                for part in self._play(solved, passes, played):
                    yield done + half * (1.0 + part)
            if passes.rest(within):
                break
            passes.again([solution for _plan, solution in solved.solutions])
            done += 2.0 * half

        done += 2.0 * half
        begun, more = keyed, keyed
        while len(more) and not is_dense:
            keyed, played, half = np.union1d(keyed, more), [], (1.0 - done) * (0.5 if self._at_keys else 1.0)
            if first is not None:
                action.restore()
            first = self._write(solved, keyed, present, ~np.isin(keyed, begun))
            for part in self._play(solved, passes, played):
                yield done + half * part
            done += half
            more = self._needed(solved, played, keyed) if self._at_keys else keyed[:0]
        assert first is not None
        self.frames = tuple(self.solved[row] for row in keyed.tolist())

        armature_object = self._armature_object()
        sheared = rig.notes_on_shear(armature_object, view_layer.depsgraph)
        all_distances = np.stack([measured.distances for measured in played])
        all_angles = np.stack([measured.angles for measured in played])
        between = np.setdiff1d(every, keyed)
        frames_between = tuple(self.solved[row] for row in between.tolist())
        missed_between = np.stack([all_distances[between], all_angles[between]])
        distances, angles = all_distances[keyed], all_angles[keyed]
        missed = within.missed(distances, angles)
        reasons = [""] * len(rig.effectors)
        for number, effectors in _worst_rows(within.excess(distances, angles), missed):
            row = int(keyed[number])
            moved = zip(solved.reasons(row), passes.reasons(row, within), strict=True)
            errors = effector_errors(armature_object, rig, played[row], [why or by for why, by in moved])
            for effector in effectors:
                reasons[effector] = errors[effector].why
        pops, traded = solved.pops(numbers), solved.traded(self.solved, within)
        solutions = [solved.own[row] for row in keyed.tolist()]
        undo_keys.pop_all()
        self._keyed = self._written
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
                for solution, miss in zip(solutions, np.any(missed, axis=1), strict=True)
            ),
            iterations=np.array([solution.iterations for solution in solutions]),
            branches=tuple(sorted({pop.frame for pop in pops})),
            reasons=tuple(reasons),
            notes=(
                *rig.notes,
                *rig.notes_on_limits(frames[own]),
                *sheared,
                *first.notes,
                *notes_on_branches(pops),
                *notes_on_smoothing(traded),
                *notes_on_between(_largest(rig.effectors, frames_between, missed_between, within)),
                *((LIVE_SHOWS,) if settings_of(armature_object).live else ()),
            ),
            action=first.action,
            keys=first.keys,
            keys_replaced=first.keys_replaced,
            smoothing=traded,
            kinds=tuple(effector.kind for effector in rig.effectors),
            choices=tuple(played[row].taken for row in keyed.tolist()),
            between=frames_between,
            position_errors_between=frozen(missed_between[0]),
            rotation_errors_between=frozen(missed_between[1]),
        )
        show(armature_object, rig, self._report)
        settings_of(armature_object).last_bake = self._report.summary()

    def _needed(self, solved: "_Solved", played: Sequence[Measured], keyed: IntArray) -> IntArray:
        """The frame between each pair of keys in which effectors are furthest from where they were solved.

        Those within the deviations of the settings need no key.
        """
        settings = settings_of(self._armature_object())
        deviations = settings.bake_deviation, settings.bake_deviation_angle
        excess = np.zeros(len(played))
        for row, shown in enumerate(played):
            plan, solution = solved.with_plan(row)
            meant = Measured.solved(plan, solution.errors, float(solved.start(row).scale[0]))
            for now, was, most in zip(
                (shown.distances, shown.angles), (meant.distances, meant.angles), deviations, strict=True
            ):
                more = np.where(np.isfinite(now) & np.isfinite(was), now - was, 0.0)
                excess[row] = max(excess[row], float(more.max(initial=0.0)) / most)
        worst = [a + 1 + int(excess[a + 1 : b].argmax()) for a, b in pairwise(keyed.tolist()) if b > a + 1]
        return np.array([row for row in worst if excess[row] > 1.0], dtype=np.int64)

    def _write(
        self,
        solved: "_Solved",
        rows: IntArray,
        present: Mapping[str, FloatArray],
        breakdowns: BoolArray | None = None,
    ) -> WriteResult:
        """Key some of the own frames; keys that leave frames out between them are no straight lines.

        Args:
            solved: All frames.
            rows: Which, counted from the first.
            present: Rotations in the first frame, from which the keys go on.
            breakdowns: Which of these keys are breakdowns; none by default.
        """
        if not solved.joints:
            raise IKError(
                f"no effector of {self._name!r} takes part in any of these frames: give one a weight and an "
                "influence above 0"
            )
        # Rotations are continuous over all frames, also where a bone turns far from one key to the next.
        channels = np.stack([solution.pose.channels for solution in solved.own])
        keys = channel_values(self._rig.armature, channels, sorted(solved.joints), present=present)
        some = [replace(own, values=own.values[rows]) for own in keys]
        frames = np.array(self.solved, dtype=np.float64)[rows]
        interpolation = "LINEAR" if len(rows) == len(self.solved) else "BEZIER"
        written = write_keys(
            self._armature_object(), frames, some, interpolation=interpolation, breakdowns=breakdowns
        )
        if not written.keys:
            raise IKError(f"nothing could be keyed: {'; '.join(written.notes)}")
        self._written = tuple(own.channel for own in keys if own.channel not in written.skipped)
        return written

    def _play(self, solved: "_Solved", passes: Passes, played: list[Measured]) -> Iterator[float]:
        """Show all own frames and measure them; gives the part done."""
        depsgraph, scene = bpy.context.view_layer.depsgraph, bpy.context.scene
        for row, frame in enumerate(self.solved):
            scene.frame_set(frame)
            armature_object, start = self._armature_object(), solved.start(row)
            shown = self._rig.shown(armature_object, depsgraph)
            played.append(self._rig.measure(armature_object, depsgraph, start, shown))
            passes.note(row, shown, played[row], *solved.with_plan(row), float(start.scale[0]))
            yield (row + 1) / len(self.solved)
        self._rig.check_evaluated(self._armature_object(), depsgraph)

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
        """`own` are the frames that were asked for; others lie beside them."""
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
    def own(self) -> list[Solution]:
        """Of the own frames, (F,)."""
        return [solution for _plan, solution in self.solutions[self._own]]

    def with_plan(self, row: int) -> tuple[Plan, Solution]:
        """An own frame, counted from the first, with what was to be solved."""
        return self.solutions[self._own.start + row]

    def start(self, row: int) -> FrameData:
        """What an own frame was solved from."""
        return self._frames[self._own.start + row : self._own.start + row + 1]

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
