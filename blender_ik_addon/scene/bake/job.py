# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake in small steps, which can be cancelled at any of them; and frames that are measured as they play."""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, TypeVar, Unpack

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError, SequenceSolution, SolverOptions, Status
from ...core.arrays import BoolArray, FloatArray, IntArray, frozen
from ...core.engine.pops import Pop
from ...core.messages import Joined, Message, listed
from ...core.solve.sequence import SequenceJob
from ..animation.fcurves import (
    KEY_DISTANCE,
    Channel,
    ChannelKeys,
    WriteResult,
    check_keyable,
    key_frames,
    own_curves,
)
from ..animation.own_keys import channels_with_own_keys
from ..armature.limits import REPORTED
from ..armature.poses import channel_values, rotation_values
from ..armature.restoring import (
    ActionSnapshot,
    GroupSnapshot,
    PlayedSnapshot,
    block_with_uid,
    go_to_frame,
    played_restored,
)
from ..effectors.effectors import check_evaluated
from ..jobs import Job, check_progress
from ..kinds.frame_data import FrameData
from ..kinds.kinds import Effector
from ..live.driven_bones import Passes
from ..live.following import held
from ..properties.settings import settings_of
from ..rig.noted import Origin, held_by_keys, moved_since_live, note_pose_held, note_where_held
from ..rig.reports import (
    BETWEEN,
    COMBINED,
    SMOOTHNESS,
    UNSEEN,
    Amount,
    BakeReport,
    Measured,
    Tolerances,
    effector_errors,
    measured_status,
    notes_on_amounts,
    notes_on_branches,
    show,
    solved_errors,
    solver_reasons,
)
from ..rig.rig import RawFrame, Rig
from ..translations import translated
from .bones import (
    Constraint,
    constrained_joints,
    constraints_on,
    keyable,
    keys_where_shown,
    mute_constraints,
    remove_constraints,
    restricted,
    unmute_constraints,
)
from .destinations import Destination
from .frames import frame_times, frames_of, solved_and_keyed
from .key_reduction import TRIES, KeyReduction
from .loops import CLOSES, Loop, check_loop, repeating
from .meshes import MeshesLeftOut
from .options import BakeChoices, BakeOptions
from .replaced_keys import ReplacedKeys, are_followed, may_be_solved, solved_joints

LIVE_SHOWS: Final = Message(
    "while Live is on each frame that is shown is solved again: switch it off to see the keys"
)
"""Remark on a bake while live mode is on."""

REPLACED: Final = Message("among those replaced, not written by Poise: {replaced}")
"""Remark on keys that were somebody's work."""

AGAIN: Final = Message(
    "influences below 1 start from the keys of an earlier bake and go part of the way again ({effectors}): "
    "undo that bake first (bakes to an NLA strip start from the motion below each time)"
)
"""Remark on a bake that starts from keys that Poise has written."""

AT_ONCE: Final = 64
"""Frames that are turned into data, or measured, at once."""

SAME_FRAME: Final = 1e-6
"""Difference [frames] up to which two are the same."""

KNOWN: Final = 3.0
"""Time beside the frames to bake, in smoothnesses, of which they know [1]: 5 % of a change are left then."""


class BakeJob(Job[BakeReport]):
    """A bake in small steps; frame, action and pose are put back when it is cancelled."""

    noun = Message("the bake")

    frames: tuple[float, ...]
    """The frames to key; with *At Targets' Keys* more are added where the error between them needs it."""
    solved: tuple[float, ...]
    """All frames to solve: those to key, and those between them."""
    replace_keys: bool
    """Whether keys may be replaced that Poise has not written."""
    replaced: ReplacedKeys
    """Keys that may be replaced and that Poise has not written."""

    def __init__(
        self,
        armature_object: Object,
        frames: Iterable[float] | str | None = None,
        **given: Unpack[BakeChoices],
    ) -> None:
        """Check all that can be checked before anything is changed; arguments as of `BakeOptions.of`.

        `replace_keys` may be set until the first step, as when somebody was asked about `replaced`.
        """
        depsgraph = bpy.context.evaluated_depsgraph_get()
        rig = Rig.read(armature_object, depsgraph)
        self._all_held = effectors = held_by_keys(armature_object, rig.effectors, depsgraph)
        """All effectors, those included whose bones get no keys."""
        self.options = options = BakeOptions.of(armature_object, frames, **given)
        self._rig = restricted(
            replace(rig, effectors=effectors), armature_object, options.bones, options.channels
        )
        check_keyable(armature_object, own_action=options.to == 'ACTION')
        self._at_keys = options.at_keys and not options.fewest
        self.solved, self.frames = solved_and_keyed(
            armature_object, options.frames, options.step, at_keys=options.at_keys, fewest=options.fewest
        )
        self._fewest = np.isin(self.solved, self.frames) if options.fewest else None
        """Frames at which all curves have keys in any case, (F,), where the others are to have the fewest."""
        if options.fewest:
            self.frames = self.solved
        now = self._rig.read_frame(armature_object, depsgraph)  # refuses what cannot be read in any frame
        self.replace_keys = options.replace
        self._to = Destination(options, armature_object, self.solved)
        self._joints = joints = may_be_solved(armature_object, self._rig, now)
        """Joints that may get keys."""
        self._constrained = np.zeros(0, dtype=np.int64)
        """Joints that constraints pose and that get keys in their place, (k,)."""
        self._begun_solved = np.zeros(len(rig.armature.skeleton), dtype=np.bool_)
        """Joints that start from keys that Poise has written, (n,)."""
        self.is_part = False
        """Whether all is put back when it is cancelled after its last step, too, until `complete`."""
        self._cleared: list[Constraint] = []
        """Constraints that are muted, and removed when it is complete."""
        if options.clear_constraints:
            self._constrained = constrained_joints(armature_object, rig, options.bones, options.channels)
            joints |= set(self._constrained.tolist())
            constraints_on(armature_object, self._names(joints))
        self._keyable = keyable(armature_object, self._rig.armature, self._constrained)
        self._in_place: list[ChannelKeys] = []
        """Keys of joints that constraints posed."""
        self.replaced = self._to.replaced(armature_object, self._keyable, joints)
        if options.loop:
            check_loop(armature_object, options, self.solved, self._channels(joints), self._to.span)
        self._uid = armature_object.session_uid
        self._present: dict[str, FloatArray] = {}
        """Rotations that are there already in the first frame: the keys go on from them."""
        self._written: tuple[Channel, ...] = ()
        """Channels that were written last."""
        self._keyed: tuple[Channel, ...] = ()
        """Channels that move with the new keys from now on: empty until the bake has succeeded."""
        self._played: list[Measured] = []
        """How the own frames were measured last, (F,)."""
        self._held = ExitStack()
        """Holds live mode."""
        self._kept: tuple[Callable[[], object], ...] = ()
        """What puts back what is changed for a while, in this order."""
        super().__init__(armature_object)

    targets: FloatArray
    """Matrices of the targets that were solved for, (F, T, 4, 4) [m]; there when the frames are read."""
    _passes: Passes
    """There when the frames are read."""
    _solved: "_Solved"
    """All frames as solved last."""
    _result: WriteResult
    """What was written, of several passes by the first."""

    @property
    def effectors(self) -> tuple[Effector, ...]:
        """Those that take part, (E,)."""
        return self._rig.effectors

    @property
    def _is_dense(self) -> bool:
        """Whether all frames get keys at first."""
        return len(self.frames) == len(self.solved)

    @property
    def asks(self) -> bool:
        """Whether keys would be lost that nobody has said may be."""
        return bool(self.replaced) and not (self.replace_keys or are_followed(self._rig))

    def _names(self, joints: Iterable[int]) -> list[str]:
        return [self._rig.armature.skeleton.names[joint] for joint in sorted(joints)]

    def _channels(self, joints: Iterable[int]) -> list[Channel]:
        return [own for joint in sorted(joints) for own in self._keyable.written_channels(joint)]

    def _beside(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Frames of the scene before and after those to bake, so many as a motion knows of.

        They are solved with the others and not keyed: parts of a shot that are baked one after the other, or
        apart, meet where they adjoin.
        """
        options, scene = self._rig.solver_options(self._object(), 1.0), bpy.context.scene
        first, last = self.solved[0], self.solved[-1]
        if options.differential or self.options.loop:
            return (), ()
        known = math.ceil(KNOWN * options.smoothness / self._frame_time)
        steps = [b - a for a, b in pairwise(self.solved)] or [min(self.options.step, 1)]
        before, after = steps[0], steps[-1]
        earlier = np.arange(first - before, max(scene.frame_start, first - known) - SAME_FRAME, -before)
        later = np.arange(last + after, min(scene.frame_end, last + known) + SAME_FRAME, after)
        return tuple(earlier[::-1].tolist()), tuple(later.tolist())

    @property
    def _frame_time(self) -> float:
        """How long a frame is shown [s]."""
        render = bpy.context.scene.render
        return float(render.fps_base / render.fps)

    def _run(self) -> Generator[float, None, BakeReport]:
        """As in the base: all frames are read, solved, keyed, played and measured."""
        rig, options = self._rig, self.options
        self._keep()
        before, after = self._beside()
        numbers = (*before, *self.solved, *after)
        own = slice(len(before), len(before) + len(self.solved))
        action = ActionSnapshot.take(self._object())
        self._undo.callback(self._restore, lambda _: action.restore())
        self._undo.callback(self._restore, self._to.remember(self._object()))
        self._to.open(self._object())
        frames = yield from self._read_without(numbers, own)
        self.targets = frames[own].world_from_target
        times = np.array(numbers, dtype=np.float64) * self._frame_time
        span = KNOWN * settings_of(self._object()).smoothness
        self._passes = Passes(rig, frames, own, times[own], span)
        loop = None
        if options.loop:
            loop = Loop.of(rig, frames, self.solved, rig.tolerances(self._object()))
        keyed, notes = np.searchsorted(self.solved, self.frames), loop.notes if loop else ()
        is_last = self._is_dense and not (options.fewest or options.clear_constraints)
        played = self._plays(np.array(numbers, dtype=np.float64))
        steps = self._solve(times, own, played, loop)
        yield from _within(steps, 1.0 / 3.0, 1.0 if is_last else 0.5)
        done = 1.0 if is_last else 2.0 / 3.0
        if options.clear_constraints and self._clear_constraints() and self._is_dense:
            self._to.clear()
            self._result = self._write(keyed)
            if not options.fewest:
                yield from _within(self._play(), done, 1.0)
        if not self._is_dense:
            keyed = yield from _within(self._key_some(keyed), done, 1.0)
            self.frames = tuple(self.solved[row] for row in keyed.tolist())
        reduced: tuple[str, ...] = ()
        if options.fewest:
            reduced = yield from _within(self._reduce(frames.largest_scale), done, 1.0)
        report = self._reported(keyed, numbers, frames[own], (*notes, *self._result.notes, *reduced))
        self._end(report)
        return report

    def _plays(self, numbers: FloatArray) -> BoolArray:
        """Whether a motion of the bones plays in frames of the scene (F,), besides what is written here.

        Beside their keys bones only rest in the first and last pose: that is no motion, and after a bake it
        is what this has left there.
        """
        armature_object: Any = self._object()
        animation, wanted = armature_object.animation_data, self._channels(self._joints)
        curves = own_curves(armature_object, self._to.strip)
        curves = [curves[channel] for channel in wanted if channel in curves]
        layered = animation is not None and animation.use_nla and len(animation.nla_tracks)
        if layered or any(len(curve.modifiers) for curve in curves):
            return np.ones(len(numbers), dtype=np.bool_)
        keys, (first, last), times = key_frames(*curves), self._to.span, frame_times(numbers)
        earlier, later = keys[keys < first - KEY_DISTANCE], keys[keys > last + KEY_DISTANCE]
        before = times >= earlier.min(initial=np.inf) - KEY_DISTANCE
        after = times <= later.max(initial=-np.inf) + KEY_DISTANCE
        return np.where(times < first, before, after)

    def _solve(
        self, times: FloatArray, own: slice, played: BoolArray, loop: Loop | None
    ) -> Generator[float, None, None]:
        """Solve all frames, at times (F,) [s], until driven bones rest; gives the part done.

        Where all frames get keys, or bones must be seen to rest, they are written and played each time.
        """
        rig, passes, first = self._rig, self._passes, True
        writes = self._is_dense or passes.repeats
        plays = passes.repeats or (self._is_dense and not self.options.fewest)
        done = 0.0
        while True:
            # How many passes there are is not known: each is half of what is left.
            part = (1.0 - done) * (0.5 if passes.repeats else 1.0)
            self._solved = solved = _Solved(rig, passes, own, played, loop, self._begun_solved)
            options = rig.solver_options(self._object(), passes.frames.largest_scale)
            for step in solved.solve(times, options):
                yield done + part * step * (0.5 if plays else 1.0)
            if not solved.joints:
                raise IKError(
                    "no effector of {name} takes part in any of these frames: give one a weight and an "
                    "influence above 0",
                    name=self._name,
                )
            if writes:
                written = self._write(np.arange(len(self.solved)))
                self._result = written if first else self._result
            if plays:
                left = 1.0 - done - 0.5 * part
                yield from _within(self._play(), 1.0 - left, 0.5 * part / left)
            if passes.rest(rig.tolerances(self._object())):
                return
            passes.again(solved.channels)
            done, first = done + part, False

    def _key_some(self, begun: IntArray) -> Generator[float, None, IntArray]:
        """Key some own frames and, with *At Targets' Keys*, more where it needs them; gives the part done.

        `begun` are keyed in any case, counted from the first. Returns all that have keys.
        """
        keyed, done = begun, 0.0
        while True:
            part = 0.5 if self._at_keys else 1.0
            self._to.clear()
            self._result = self._write(keyed, ~np.isin(keyed, begun))
            yield from _within(self._play(), done, part)
            more = self._needed(keyed) if self._at_keys else keyed[:0]
            if not len(more):
                return keyed
            keyed = np.union1d(keyed, more)
            done += part * (1.0 - done)

    def _end(self, report: BakeReport) -> None:
        """Let the keys stay, put all else back and show the report; where this raises nothing stays."""
        armature_object = self._object()
        settings = settings_of(armature_object)
        looked_at = [f"{frame} {translated(text)}" for frame, text in report.frames_to_look_at]
        self._keyed = self._written
        self._put_back()
        noted = GroupSnapshot(settings)
        self._undo.callback(self._restore, lambda own: own.update_tag())
        self._undo.callback(self._restore, lambda own: noted.restore(settings_of(own)))
        note_where_held(armature_object, self._all_held)
        note_pose_held(armature_object, self._to.span)
        show(armature_object, self._rig, report)
        settings.last_bake = translated(report.summary())
        settings.last_frames = "\n".join(looked_at)
        self._held.close()
        if not self.is_part:
            self.complete()

    def complete(self) -> None:
        """Let all stay that was baked: nothing can be put back any more."""
        remove_constraints(self._object(), self._cleared)
        self._to.finish(self._object())
        self._undo.pop_all()

    def cancel(self) -> None:
        """Put everything back; when it is complete, or a second time, do nothing."""
        self._keyed = ()
        super().cancel()

    def _keep(self) -> None:
        """Let all that going to frames changes be put back at the end, after an error and when cancelled."""
        played = PlayedSnapshot(self._object())
        meshes = MeshesLeftOut.of(bpy.context.view_layer, len(self.solved))
        self.remark = meshes.remark
        self._kept = (
            meshes.show,
            lambda: played.restore(self._keyed),
        )
        self._undo.callback(self._held.close)
        self._undo.callback(self._put_back)
        self._held.enter_context(held(self._object()))  # live mode would overwrite what is played

    def _put_back(self) -> None:
        """Put frame, pose and what else was played back, each also where another cannot be."""
        with ExitStack() as undo:
            for put_back in reversed(self._kept):
                undo.callback(put_back)

    def _read_without(self, numbers: Sequence[float], own: slice) -> Generator[float, None, FrameData]:
        """Read frames as they play without the channels that get keys; gives the part done of the bake.

        What is not solved keeps the keys that it has, and is read with them.
        """
        joints, done, frames = self._joints, 0.0, None
        if self._to.strip:  # before its channels are hidden
            go_to_frame(bpy.context.scene, self.solved[0])
            self._present = rotation_values(self._object(), self._rig.armature)
        while self._to.hide(self._object(), self._channels(joints)) or frames is None:
            frames = yield from _within(self._read(numbers), done, 1.0 / 3.0 - done)
            found = solved_joints(self._rig, frames[own]) | set(self._constrained.tolist())
            joints, done = joints & found, 1.0 / 3.0
        self.replaced = self._to.replaced(self._object(), self._keyable, joints)
        if self.asks:
            raise IKError(self.replaced.refusal)
        if frames.recorded is None:
            again = channels_with_own_keys(self._object(), self._to.span)
            rows = [joint for joint in joints if again.intersection(self._channels([joint]))]
            self._begun_solved[rows] = True
        return frames

    def _read(self, numbers: Sequence[float]) -> Generator[float, None, FrameData]:
        """Show frames and read them; gives the part done and returns them."""
        rig, parts = self._rig, list[FrameData]()
        moved = list[frozenset[str] | None]()
        for row, _raw, raws in _shown(rig, self._object, numbers):
            if numbers[row] == self.solved[0] and not self._to.strip:
                self._present = rotation_values(self._object(), rig.armature)
            moved.append(moved_since_live(self._object()))
            if raws:
                parts.append(rig.frames_of(raws))
            yield (row + 1) / len(numbers)
        check_evaluated(self._object(), rig.effectors, bpy.context.view_layer.depsgraph)
        frames = FrameData.joined(parts)
        origin, by_others = Origin.of(self._object(), rig.armature), [own for own in moved if own is not None]
        if origin is None or len(by_others) < len(frames) or frames.recorded is not None:
            return frames.as_recorded()
        return rig.let_go(rig.from_origin(frames, origin, by_others))  # not where Live has left bones

    def _reported(
        self, keyed: IntArray, numbers: Sequence[float], read: FrameData, notes: Sequence[str]
    ) -> BakeReport:
        """Report of what was written and played.

        Args:
            keyed: Which of the own frames have keys, counted from the first.
            numbers: Frames of the scene that were solved, those beside the own ones included.
            read: The own frames as they were read, (F,).
            notes: What else is to be said of these.
        """
        armature_object, rig, solved, played = self._object(), self._rig, self._solved, self._played
        channels = solved.channels[solved.own]
        clamped = rig.notes_on_limits(read, channels)
        settings = settings_of(armature_object)
        deviation = (0.0, 0.0)
        if self._fewest is not None:  # a deviation that was asked for is no miss
            deviation = self.options.deviation, self.options.deviation_angle
        within = rig.tolerances(armature_object).wider(*deviation)
        all_distances = np.stack([measured.distances for measured in played])
        all_angles = np.stack([measured.angles for measured in played])
        between = np.setdiff1d(np.arange(len(self.solved)), keyed)
        frames_between = tuple(self.solved[row] for row in between.tolist())
        missed_between = np.stack([all_distances[between], all_angles[between]])
        distances, angles = all_distances[keyed], all_angles[keyed]
        missed = within.missed(distances, angles)
        reasons = [""] * len(rig.effectors)
        unknown = Joined("; ", (UNSEEN, COMBINED)) if self._to.multiplies else UNSEEN
        for number, effectors in _worst_rows(within.excess(distances, angles), missed):
            row = int(keyed[number])
            moved = zip(solved.reasons(self._object(), row), self._passes.reasons(row, within), strict=True)
            known = [why or by for why, by in moved]
            if self.options.loop and row == len(self.solved) - 1:
                known = [CLOSES.filled(first=self.solved[0])] * len(known)
            errors = effector_errors(armature_object, rig, played[row], known, unknown)
            for effector in effectors:
                reasons[effector] = errors[effector].why
        pops, traded = solved.pops(numbers), solved.traded(self.solved, within)
        names = tuple(effector.name for effector in rig.effectors)
        return BakeReport(
            frames=self.frames,
            names=names,
            position_errors=frozen(distances),
            rotation_errors=frozen(angles),
            tolerances=within,
            statuses=tuple(
                measured_status(solved.statuses[row], not miss)
                for row, miss in zip(keyed.tolist(), np.any(missed, axis=1), strict=True)
            ),
            iterations=solved.iterations[keyed],
            branches=tuple(sorted({pop.frame for pop in pops})),
            pops=tuple(sorted(pops)),
            reasons=tuple(reasons),
            notes=(
                *rig.notes,
                *clamped,
                *rig.notes_on_shear(armature_object, bpy.context.view_layer.depsgraph),
                *notes,
                *self._notes_on_start(read),
                *notes_on_branches(pops),
                *notes_on_amounts(SMOOTHNESS, traded),
                *notes_on_amounts(BETWEEN, within.largest(names, frames_between, *missed_between)),
                *([REPLACED.filled(replaced=self.replaced.text)] if self.replaced else []),
                *([LIVE_SHOWS] if settings.live else []),
            ),
            action=self._to.note_keys(armature_object, self._written),
            keys=self._result.keys,
            keys_replaced=self._result.keys_replaced,
            clamped=clamped,
            limits_met=bool((rig.beyond_limits(read, channels)[1] <= REPORTED).all()),
            deviation=deviation,
            smoothing=traded,
            kinds=tuple(effector.kind for effector in rig.effectors),
            choices=tuple(played[row].taken for row in keyed.tolist()),
            between=frames_between,
            position_errors_between=frozen(missed_between[0]),
            rotation_errors_between=frozen(missed_between[1]),
        )

    def _notes_on_start(self, read: FrameData) -> tuple[str, ...]:
        """Say which effectors go part of the way from keys that Poise has written."""
        parts = np.logical_or.reduce((read.influences > 0.0) & (read.influences < 1.0), axis=0)
        names = [
            effector.name
            for effector, part in zip(self.effectors, parts.tolist(), strict=True)
            if part and self._begun_solved[effector.chain(read.skeleton)].any()
        ]
        return (AGAIN.filled(effectors=listed(names)),) if names else ()

    def _needed(self, keyed: IntArray) -> IntArray:
        """The frame between each pair of keys in which effectors are furthest from where they were solved.

        Those within the deviations need no key.
        """
        deviations = self.options.deviation, self.options.deviation_angle
        excess = np.zeros(len(self._played))
        shown = [own.distances for own in self._played], [own.angles for own in self._played]
        for now, was, most in zip(map(np.array, shown), self._solved.errors, deviations, strict=True):
            known = np.isfinite(now) & np.isfinite(was)
            more = np.subtract(now, was, where=known, out=np.zeros_like(now))
            excess = np.maximum(excess, more.max(axis=1, initial=0.0) / most)
        worst = [a + 1 + int(excess[a + 1 : b].argmax()) for a, b in pairwise(keyed.tolist()) if b > a + 1]
        return np.array([row for row in worst if excess[row] > 1.0], dtype=np.int64)

    def _write(
        self, rows: IntArray, breakdowns: BoolArray | None = None, keys: Sequence[ChannelKeys] | None = None
    ) -> WriteResult:
        """Key some of the own frames; what plays between them is smooth.

        Args:
            rows: Which, counted from the first.
            breakdowns: Which of these keys are breakdowns; none by default.
            keys: What to key, by default as solved.
        """
        keys = self._channel_keys() if keys is None else keys
        written = self._to.write(self._object(), keys, rows, breakdowns)
        if not written.keys:
            raise IKError("nothing could be keyed: {reasons}", reasons=Joined("; ", written.notes))
        self._written = tuple(own.channel for own in keys if own.channel not in written.skipped)
        return written

    def _channel_keys(self) -> list[ChannelKeys]:
        """What to key of all own frames, as solved."""
        # Rotations are continuous over all frames, also where a bone turns far from one key to the next.
        channels, joints = self._solved.channels[self._solved.own], sorted(self._solved.joints)
        keys = list(channel_values(self._rig.armature, channels, joints, present=self._present))
        keys += self._in_place
        return repeating(keys) if self.options.loop else keys

    def _clear_constraints(self) -> bool:
        """Mute the constraints of the bones that are keyed; bones that they posed get keys in their place.

        Returns:
            Whether there are any.
        """
        armature_object, joints, solved = self._object(), self._constrained, self._solved
        names = self._names(solved.joints | set(joints.tolist()))
        self._cleared = constraints_on(armature_object, names)
        if not self._cleared:
            return False
        if len(joints):
            own, scale = self._passes.shown(joints, self._keyable.skeleton)
            channels = solved.channels[solved.own].copy()
            channels[:, joints] = own
            self._in_place = keys_where_shown(armature_object, self._keyable, joints, channels, scale)
        muted = mute_constraints(armature_object, self._cleared)
        self._undo.callback(unmute_constraints, self._uid, muted)
        return True

    def _reduce(self, scale: float) -> Generator[float, None, tuple[str, ...]]:
        """Write the fewest keys in place of those that were written, and measure; gives the part done.

        `scale` is that of world metres to one armature unit. Returns a note on the keys if they are fewer.
        """
        solved, own = self._solved, self._solved.own
        frames = np.array(self.solved, dtype=np.float64)
        keys = [key for key in self._channel_keys() if key.channel in self._written]
        scales = [key for key in keys if key.data_path.endswith(".scale")]
        pose = self._passes.frames.pose[own].with_channels(solved.channels[own])
        deviation = self.options.deviation, self.options.deviation_angle
        reduction = KeyReduction(
            self._object(), self._rig, keys, pose, self.solved, deviation, scale, self._to
        )
        assert self._fewest is not None
        done = 0.1
        yield from _within(reduction.measure(self._object(), self._rig), 0.0, done)
        for number in range(TRIES):
            steps = reduction.reduce(self._fewest)
            fewest = yield from _within(steps, done, 0.25)
            self._to.clear()
            self._result = self._write(np.arange(len(frames)), keys=(*fewest, *scales))
            steps = reduction.measure(self._object(), self._rig)
            found = yield from _within(steps, done + 0.25 * (1.0 - done), 0.25)
            done += 0.5 * (1.0 - done)
            if not reduction.exceeds(found) or number == TRIES - 1:
                break
        yield from _within(self._play(), done, 1.0)
        if self._result.keys >= reduction.dense:
            return ()
        return (found.note(reduction.dense, self._result.keys, frames),)

    def _play(self) -> Generator[float, None, None]:
        """Show all own frames and measure them; gives the part done."""
        played, within = list[Measured](), self._rig.tolerances(self._object())
        for row, raw, raws in _shown(self._rig, self._object, self.solved):
            self._passes.note(row, raw.pose.shown)
            if raws:
                start = self._solved.start(slice(row + 1 - len(raws), row + 1))
                played += self._rig.measure_frames(start, raws, within)
            yield (row + 1) / len(self.solved)
        for row in self._to.eased.tolist():  # nobody asks for targets there
            for amounts in (played[row].distances, played[row].angles):
                amounts[:] = np.nan
        self._passes.compare(played, *self._solved.errors)
        check_evaluated(self._object(), self.effectors, bpy.context.view_layer.depsgraph)
        self._played = played

    def _restore(self, put_back: Callable[[Object], None]) -> None:
        if block_with_uid(bpy.data.objects, self._uid) is not None:
            put_back(self._object())


def measure(
    armature_object: Object,
    frames: Iterable[int] | str | None = None,
    *,
    progress: Callable[[float], None] | None = None,
) -> BakeReport:
    """Play frames and measure how far each effector is from its target, as Blender shows them.

    Where the influence of an effector is below 1, its goal depends on the pose that was there before the
    solve, which nobody knows any more: it is not measured there, and a note says so. After a bake with the
    fewest keys what they may deviate by is no miss, as in its own report.

    Args:
        frames: Increasing whole frames, or a range as of a bake; by default that in the settings.
        progress: Called with the part done in [0, 1]; what it raises stops the work.

    Returns:
        The report of a bake that has written nothing: its action is empty.

    Raises:
        IKError: Something is missing or cannot be read.
    """
    check_progress(progress)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    rig = Rig.read(armature_object, depsgraph)
    rig = replace(rig, effectors=held_by_keys(armature_object, rig.effectors, depsgraph))
    numbers, settings = frames_of(armature_object, frames), settings_of(armature_object)
    deviation = settings.last_deviation, settings.last_deviation_angle
    within = rig.tolerances(armature_object).wider(*deviation)
    parts, influences = list[Measured](), list[FloatArray]()
    with ExitStack() as undo:
        undo.enter_context(held(armature_object))  # live mode would pose what is measured
        undo.enter_context(played_restored(armature_object))
        undo.callback(MeshesLeftOut.of(bpy.context.view_layer, len(numbers)).show)
        for row, _raw, raws in _shown(rig, lambda: armature_object, numbers):
            if raws:
                read = rig.frames_of(raws)
                influences.append(read.influences)
                parts += rig.measure_frames(read, raws, within)
            if progress is not None:
                progress((row + 1) / len(numbers))
    influence = np.concatenate(influences)
    unknown = np.logical_and(influence < 1.0, influence > 0.0)
    distances = np.where(unknown, np.nan, np.stack([own.distances for own in parts]))
    angles = np.where(unknown, np.nan, np.stack([own.angles for own in parts]))
    names = tuple(effector.name for effector in rig.effectors)
    blended = [names[number] for number in np.flatnonzero(np.any(unknown, axis=0)).tolist()]
    missed = np.any(within.missed(distances, angles), axis=1)
    statuses = [measured_status(Status.SETTLED, not own) for own in missed.tolist()]
    return BakeReport(
        frames=numbers,
        names=names,
        position_errors=frozen(distances),
        rotation_errors=frozen(angles),
        tolerances=within,
        statuses=tuple(statuses),
        deviation=deviation,
        iterations=np.zeros(len(numbers), dtype=np.int64),
        reasons=("",) * len(names),
        notes=(Message("not measured where its influence is below 1: {blended}", blended=listed(blended)),)
        if blended
        else (),
        kinds=tuple(effector.kind for effector in rig.effectors),
        choices=tuple(own.taken for own in parts),
    )


def _shown(
    rig: Rig, armature_object: Callable[[], Object], numbers: Sequence[float]
) -> Iterator[tuple[int, RawFrame, list[RawFrame]]]:
    """Show frames; gives the row of each, what is read of it, and with some of them all of the last ones."""
    raws = list[RawFrame]()
    for row, frame in enumerate(numbers):
        go_to_frame(bpy.context.scene, frame)
        raws.append(rig.read_raw(armature_object(), bpy.context.view_layer.depsgraph))
        are_many = len(raws) == AT_ONCE or row + 1 == len(numbers)
        yield row, raws[-1], raws if are_many else []
        raws = [] if are_many else raws


class _Solved:
    """The frames that are solved so far."""

    def __init__(
        self,
        rig: Rig,
        passes: Passes,
        own: slice,
        played: BoolArray,
        loop: Loop | None,
        begun_solved: BoolArray,
    ) -> None:
        """`own` are the frames that were asked for; others lie beside them, but for a loop.

        In those that are `played` (F,) a motion is there already. Joints that are `begun_solved` (n,) start
        from an earlier solve.
        """
        self._played, self._begun_solved = played, begun_solved
        self._rig, self._near = rig, passes.near
        self._frames, self._loop, self.own = passes.frames, loop, own
        if loop is not None:
            self._frames = loop.closed(passes.frames)
            self._near = None if self._near is None else loop.closed_pose(self._near)
        self._plan = rig.plan(self._frames)
        """What is to be solved."""
        self._found: SequenceSolution
        """Its solution."""
        self.channels: FloatArray = self._frames.pose.channels.copy()
        """Of all frames, also those beside the own ones, as solved, (F, n, 6) [m, rad]."""
        self._distances, self._angles = np.full((2, *self._frames.influences.shape), np.nan)

    @property
    def joints(self) -> set[int]:
        """Joints that move in the own frames."""
        joints = set(self._plan.problem.moving_joints)
        if (held := self._plan.held) is not None:
            joints -= set(np.flatnonzero(held[self.own].all(axis=0)).tolist())
        return joints

    def solve(self, times: FloatArray, options: SolverOptions) -> Iterator[float]:
        """Solve all frames, at given times (F,) [s]; gives the part done."""
        frames, plan = self._frames, self._plan
        job = SequenceJob(
            plan.problem,
            frames.pose,
            options,
            times=times,
            own=self.own,
            played=self._played,
            near=self._near,
            held=plan.held,
            solved=self._begun_solved,
            cyclic=None if self._loop is None else True,
        )
        yield from job.run()
        self._found = found = job.solution()
        self.channels = found.pose.channels.copy()
        self._distances, self._angles = solved_errors(plan, found.errors, found.angular, frames.scale)
        if self._loop is not None:
            self.channels = self._loop.played(self.channels)

    @property
    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Distances [m] and angles [rad] of the own frames by the solver's account, (F, E) each."""
        return self._distances[self.own], self._angles[self.own]

    @property
    def statuses(self) -> tuple[Status, ...]:
        """How the own frames ended, (F,)."""
        return self._found.statuses[self.own]

    @property
    def iterations(self) -> IntArray:
        """Of the own frames, (F,)."""
        return self._found.iterations[self.own]

    def start(self, rows: slice) -> FrameData:
        """What some own frames, counted from the first, were solved from."""
        return self._frames[self.own.start + rows.start : self.own.start + rows.stop]

    def reasons(self, armature_object: Object, row: int) -> list[str]:
        """Why each effector misses in a frame, counted from the first that is keyed, (E,)."""
        row += self.own.start
        frame = self._frames[row : row + 1]
        return solver_reasons(armature_object, self._rig, frame, self._plan, self._found.why(row))

    def pops(self, numbers: Sequence[float]) -> list[Pop]:
        """Joints that turn out of proportion in frames that are keyed, with the numbers of these.

        The frame before the first one is not keyed: nothing turns from there.
        """
        known = range(self.own.start, self.own.stop)[1:]
        pops = [(int(pop.frame), pop) for pop in self._found.pops]
        return [pop._replace(frame=numbers[row]) for row, pop in pops if row in known]

    def traded(self, numbers: Sequence[float], within: Tolerances) -> tuple[Amount, ...]:
        """The largest distance and angle above the tolerances that smoothness adds to misses."""
        added = np.zeros((2, *self._frames.influences.shape))
        for task, effector in enumerate(self._plan.effector_of_task):
            angular = self._found.angular[task]
            own = added[int(angular), :, effector]
            scale = 1.0 if angular else self._frames.scale
            np.maximum(own, self._found.smoothing[:, task] * scale, out=own)
        names = [effector.name for effector in self._rig.effectors]
        return within.largest(names, numbers, *added[:, self.own])


_Result = TypeVar("_Result")


def _within(
    steps: Generator[float, None, _Result], done: float, part: float
) -> Generator[float, None, _Result]:
    """Do steps that are a part of what is left [1]; gives the part of all that is done."""
    while True:
        try:
            yield done + part * (1.0 - done) * next(steps)
        except StopIteration as end:
            return end.value


def _worst_rows(excess: FloatArray, missed: BoolArray) -> Iterator[tuple[int, list[int]]]:
    """The frames in which effectors that are missed are so by most, and which, (F, E)."""
    worst, any_missed = excess.argmax(axis=0), np.logical_or.reduce(missed, axis=0)
    for row in np.unique(worst[any_missed]).tolist():
        yield row, np.flatnonzero(any_missed & (worst == row)).tolist()
