# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of a solve or a bake: how far each effector is off and why, in numbers, words and the panel."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from math import degrees
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import Explanation, Skeleton, Status, TaskError
from ...core.amounts import angle_text
from ...core.arrays import BoolArray, FloatArray, IntArray
from ...core.engine.pops import Pop
from ...core.explain.explanation import NOT_BOTH
from ...core.messages import NAMES_SHOWN, Joined, Message, both, counted, sentences
from ..kinds.frame_data import FrameData
from ..kinds.kinds import KINDS, Rank
from ..kinds.plan import Plan
from ..properties.settings import NOT_MEASURED, settings_of
from ..translations import translated
from ..units import length_text, metres

if TYPE_CHECKING:
    from .rig import Rig

# Why an effector is missed where the solver does not say

RESTLESS: Final = Message("constraints or drivers answer to each solve with another pose")
POSED: Final = Message("a bone was posed by hand, Solve goes back to the targets")
DRAGGED: Final = Message("a bone was dragged, Solve goes back to the targets")
UNSEEN: Final = Message(
    "solved within its tolerance, but Blender shows it elsewhere: look at the constraints, drivers and "
    "locked or muted keys of its chain"
)
COMBINED: Final = Message(
    "Blender loses turns below 0.03° in strips with the blend Combine: choose Add or Replace where that "
    "counts"
)
"""What is said besides of such strips: half a turn is the arc cosine of a single-precision number there."""
NOWHERE: Final = Message(
    "its bone is scaled to nothing, or its place is not a number: look at the drivers, constraints and scale "
    "of its chain"
)

SETTLING: Final = Message("Settling")
"""The message while live mode moves the body to the solution; misses are not reported meanwhile."""

SMOOTHNESS: Final = Message("smoothness adds up to {amounts} to the misses")
BETWEEN: Final = Message("between keys targets are missed by up to {amounts}")
"""What is said of the largest amounts."""

MOST_SHOWN: Final = 1e30
"""Error [m, rad] that stands for one that is not a number: Blender's properties end soon after."""

SHOWN_DIGITS: Final = 1e-6
"""Change of an error [m, rad] that the panel would not show."""


# Numbers


class Amount(NamedTuple):
    """A distance or an angle by which an effector is off in a frame, or by which a part of its miss is."""

    effector: int
    """Its row."""
    name: str
    frame: float
    amount: float
    """[m] or [rad]"""
    angular: bool
    """Whether it is an angle."""

    @property
    def text(self) -> str:
        """The amount in words."""
        return (angle_text if self.angular else length_text)(self.amount)


@dataclass(frozen=True)
class Tolerances:
    """How near to its target each effector must be to count as having reached it."""

    positions: FloatArray
    """(E,) [m] in the world."""
    rotations: FloatArray
    """(E,) [rad]."""

    def wider(self, distance: float, angle: float) -> "Tolerances":
        """Return the same with a distance [m] and an angle [rad] more."""
        return Tolerances(self.positions + distance, self.rotations + angle)

    def missed(self, distances: FloatArray, angles: FloatArray) -> BoolArray:
        """Tell where a distance (..., E) [m] or angle [rad] is too large; nan, not asked for, is not."""
        return (distances > self.positions) | (angles > self.rotations)

    def amounts(self, distances: FloatArray, angles: FloatArray, effector: int) -> str:
        """Write by how much an effector is too far off, of distances (E,) [m] and angles (E,) [rad]."""
        kinds = (distances, self.positions, length_text), (angles, self.rotations, angle_text)
        return both(
            [text(float(own[effector])) for own, most, text in kinds if own[effector] > most[effector]]
        )

    def largest(
        self, names: Sequence[str], frames: Sequence[float], distances: FloatArray, angles: FloatArray
    ) -> tuple[Amount, ...]:
        """Return the largest distance [m] and the largest angle [rad] that are too large, of (F, E) each."""
        found: list[Amount] = []
        for angular, (amounts, most) in enumerate(((distances, self.positions), (angles, self.rotations))):
            large = np.where(amounts > most, amounts, 0.0)
            if large.any():
                row, effector = divmod(int(large.argmax()), len(names))
                amount = float(large[row, effector])
                found.append(Amount(effector, names[effector], frames[row], amount, bool(angular)))
        return tuple(found)

    def excess(self, distances: FloatArray, angles: FloatArray) -> FloatArray:
        """Return distances (..., E) [m] and angles [rad] in tolerances [1], the larger; 0 for nan."""
        larger = np.fmax(distances / self.positions, angles / self.rotations)
        return np.nan_to_num(larger, nan=0.0, posinf=np.inf)


@dataclass(frozen=True)
class Lost:
    """A control that an effector is about, and the bone that carries the mesh and does not follow it."""

    control: str
    bone: str
    on_target: bool
    """Whether the control itself is where the effector asks."""


@dataclass(frozen=True)
class Measured:
    """How far bones are from what their effectors ask for, in one frame."""

    distances: FloatArray
    """(E,) [m]; nan for none, inf where it is not a number."""
    angles: FloatArray
    """(E,) [rad]; likewise."""
    taken: tuple[str, ...]
    """Which of several targets each effector has taken, (E,); empty for those that have one."""
    lost: tuple[Lost | None, ...]
    """What does not follow, (E,); None where all does."""

    @classmethod
    def solved(cls, plan: Plan, errors: Sequence[TaskError], scale: float) -> "Measured":
        """By the solver's own account: Blender shows the pose only afterwards."""
        amounts, angular = np.array([[error.error for error in errors]]), [error.angular for error in errors]
        taken = [""] * len(plan.counts)
        for row, error in zip(plan.effector_of_task, errors, strict=True):
            taken[row] = error.taken
        distances, angles = solved_errors(plan, amounts, angular, np.array([scale]))
        return cls(distances[0], angles[0], tuple(taken), (None,) * len(taken))

    def unless_lost(self, before: "Measured", within: Tolerances) -> "Measured":
        """The same where all follows; what does not, or is nowhere, is as far off as it was before."""
        nowhere = np.isinf(before.distances) | np.isinf(before.angles)
        stays = nowhere | [own is not None for own in before.lost]
        met = np.logical_not(within.missed(self.distances, self.angles)).tolist()
        lost = [own and replace(own, on_target=on) for own, on in zip(before.lost, met, strict=True)]
        distances, angles = (
            np.where(stays, was, now)
            for was, now in ((before.distances, self.distances), (before.angles, self.angles))
        )
        return replace(self, distances=distances, angles=angles, lost=tuple(lost))


def solved_errors(
    plan: Plan, errors: FloatArray, angular: Sequence[bool], scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return distances [m] and angles [rad] of effectors by the solver's own account, (F, E) each.

    Args:
        errors: Of its tasks with a weight, (F, T) [rad] or in armature units.
        angular: Which are angles, (T,).
        scale: World metres to one armature unit, (F,).
    """
    distances, angles = np.full((2, len(errors), len(plan.counts)), np.nan)
    errors = np.where(np.isnan(errors), np.inf, errors)  # nan is what is not asked for
    for task, effector in enumerate(plan.effector_of_task):
        if angular[task]:
            angles[:, effector] = errors[:, task]
        else:
            distances[:, effector] = errors[:, task] * scale
    return distances, angles


@dataclass(frozen=True)
class EffectorError:
    """How far one effector is from its target, read back from Blender."""

    name: str
    bone: str
    position: float | None
    """[m] in the world; None where the effector does not ask for a place. For PLANE the distance from the
    plane, for FLOOR the depth below it, for DISTANCE how much too far or too near, for BALANCE how far the
    centre of mass is off along the ground, for STAY the offset of the bone that is furthest off."""
    rotation: float | None
    """[rad]; None where the effector does not ask for an orientation. For AIM the angle between ray and
    target, for POLE that by which the limb would have to swing, for STAY the largest turn of a bone."""
    reached: bool
    why: str = ""
    """Why the target is missed, in words, if that is known; empty if it is reached."""
    kind: str = ""
    """Its kind, a name in `KINDS`."""
    tolerance_position: float = np.inf
    """What counts as reached [m]."""
    tolerance_rotation: float = np.inf
    """[rad]"""
    taken: str = ""
    """The target that the bone took, of several; empty if it has one."""

    @property
    def miss(self) -> str:
        """By how much it misses, in what, and why."""
        position, rotation = self.position or 0.0, self.rotation or 0.0
        amounts = [length_text(position)] if position > self.tolerance_position else []
        amounts += [angle_text(rotation)] if rotation > self.tolerance_rotation else []
        miss = KINDS[self.kind].miss.filled(effector=self.name, amount=both(amounts))
        return Message("{miss} ({why})", miss=miss, why=self.why) if self.why else miss


# Reasons and remarks


def notes_on_branches(pops: Iterable[Pop]) -> tuple[str, ...]:
    """Write at which frames the pose flips, and which bone turns most there."""
    largest = {pop.frame: pop for pop in sorted(pops, key=lambda pop: (pop.frame, pop.turn))}
    if not largest:
        return ()
    flips = [
        Message(
            "at frame {frame}: {joint} turns {turn}°",
            frame=pop.frame,
            joint=pop.joint,
            turn=round(degrees(pop.turn)),
        )
        for pop in largest.values()
    ]
    more = len(flips) - NAMES_SHOWN
    rest = [counted(more, "and at {count} more frame", "and at {count} more frames")] if more > 0 else []
    return (Message("pose flips {frames}", frames=Joined("; ", [*flips[:NAMES_SHOWN], *rest])),)


def notes_on_amounts(text: Message, largest: Iterable[Amount]) -> tuple[str, ...]:
    """Write a text with amounts, of which effector and in which frame; nothing where there are none."""
    amounts = [
        Message("{amount} ({effector}, frame {frame})", amount=own.text, effector=own.name, frame=own.frame)
        for own in largest
    ]
    return (text.filled(amounts=both(amounts)),) if amounts else ()


def all_reached(count: int) -> Message:
    """Write that all of some targets are reached."""
    return counted(count, "the target is reached", "all {count} targets are reached")


def with_own_levels(why: Explanation) -> Explanation:
    """Return the reason of a miss with the levels that users know, in place of those of the solver."""
    level = None if why.level is None else Rank.level_of(why.level)
    return replace(why, level=level, levels=tuple(dict.fromkeys(map(Rank.level_of, why.levels))))


def why_in_place(
    armature_object: Object, skeleton: Skeleton, bone: str, depth: int, *, dragged: bool = False
) -> str:
    """Say that a bone can only turn, and what to do, where nothing of its chain may leave its place.

    Args:
        depth: How many bones its chain has, all above it if 0: a chain that is short on purpose is none.
        dragged: Whether it is dragged, so that another bone could be.
    """
    settings = settings_of(armature_object)
    if depth or skeleton.free[skeleton.ancestors(skeleton.index(bone)), :3].any():
        return ""
    cause = Message("no bone of its chain may change its location")
    remedy = Message("press Set Up Character, or switch May Move on for one of them (Limits)")
    if not settings.move_root:
        remedy = Message("switch Move Root on (Advanced, Solver)")
    elif any(entry.part for entry in settings.effectors):
        remedy = Message("switch May Move on for one of them (Limits)")
        if dragged:
            remedy = Message("drag another bone, or switch May Move on for one of them (Limits)")
    return Joined(": ", (cause, remedy))


def solver_reasons(
    armature_object: Object,
    rig: "Rig",
    frames: FrameData,
    plan: Plan,
    explanations: Sequence[Explanation | None],
) -> list[str]:
    """Say for each effector why its tasks were missed in one frame; nothing where they were met.

    `explanations` are those of the solver for each task of the plan with a weight, None where it was met.
    """
    whys, scale = iter(explanations), frames.largest_scale
    texts: list[str] = []
    for effector, influence, count in zip(
        rig.effectors, frames.influences[0].tolist(), plan.counts, strict=True
    ):
        missed = [why for why in islice(whys, count) if why is not None]
        if influence == 0.0 or effector.weight == 0.0:
            # Its tasks take no part and have no errors; without influence it cannot even be missed.
            texts.append("" if influence == 0.0 else Message("its weight is 0"))
            continue
        if any(why.others for why in missed):  # without these its position and orientation may go together
            missed = [replace(why, shares_with=why.others) for why in missed]
        fixed = [not (why.movable or why.angular) for why in missed]
        skeleton, depth = rig.armature.skeleton, effector.chain_depth
        cause = why_in_place(armature_object, skeleton, effector.bone, depth) if any(fixed) else ""
        reasons = [
            [cause] if cause and is_fixed else with_own_levels(why).reasons(scale * metres())
            for why, is_fixed in zip(missed, fixed, strict=True)
        ]
        every = dict.fromkeys(chain.from_iterable(reasons))
        # What position and orientation have in common is said once.
        parts = [one for one in every if one == NOT_BOTH or all(one in own for own in reasons)]
        for why, own in zip(missed, reasons, strict=True):
            if rest := Joined("; ", [reason for reason in own if reason not in parts]):
                what = Message("orientation: {why}") if why.angular else Message("position: {why}")
                parts.append(what.filled(why=rest))
        texts.append(Joined("; ", dict.fromkeys(parts)))
    return texts


def effector_errors(
    armature_object: Object, rig: "Rig", measured: Measured, whys: Sequence[str], unknown: str = UNSEEN
) -> tuple[EffectorError, ...]:
    """Return how far each effector is off, and why.

    `whys` (E,) is what is known from the solve; where nothing is known, it is `unknown`.
    """
    within = rig.tolerances(armature_object)
    errors: list[EffectorError] = []
    for row, effector in enumerate(rig.effectors):
        distance, angle = float(measured.distances[row]), float(measured.angles[row])
        length, turn = float(within.positions[row]), float(within.rotations[row])
        missed, why, lost = distance > length or angle > turn, whys[row], measured.lost[row]
        if missed and np.inf in (distance, angle):
            why = NOWHERE
        elif missed and lost is not None:
            text = rig.lost_text(armature_object, lost)
            why = text if lost.on_target or not why else Joined("; ", (why, text))
        errors.append(
            EffectorError(
                name=effector.name,
                bone=effector.bone,
                position=None if np.isnan(distance) else distance,
                rotation=None if np.isnan(angle) else angle,
                reached=not missed,
                why=(why or unknown) if missed else "",
                kind=effector.kind,
                tolerance_position=length,
                tolerance_rotation=turn,
                taken=measured.taken[row],
            )
        )
    return tuple(errors)


# Reports


def measured_status(solver_status: Status, reached: bool) -> str:
    """Return how a solve ended as Blender shows it: reached is what is measured, not what was computed."""
    if reached:
        return Status.REACHED.value
    return (Status.SETTLED if solver_status is Status.REACHED else solver_status).value


@dataclass(frozen=True)
class Report:
    """Report of a solve."""

    status: str
    """How it ended, a name of `core.Status`; 'REACHED' if all effectors are, measured in Blender."""
    message: str
    """The result in words."""
    iterations: int
    effectors: tuple[EffectorError, ...]
    """The enabled ones, in the order of the list."""
    notes: tuple[str, ...]
    """Further remarks, one sentence each."""

    @classmethod
    def of(
        cls,
        errors: tuple[EffectorError, ...],
        status: Status = Status.SETTLED,
        iterations: int = 0,
        notes: tuple[str, ...] = (),
        *,
        reached: str = "",
    ) -> "Report":
        """Say what is missed, or that all is reached, and how."""
        misses = [error.miss for error in errors if not error.reached]
        asked = sum(error.position is not None or error.rotation is not None for error in errors)
        if misses:
            message = Message(
                "{count} of {targets} targets missed: {names}",
                count=len(misses),
                targets=asked,
                names=Joined(", ", misses),
            )
        else:
            message = reached or all_reached(asked)
            if not asked:
                message = Message("no effector has any influence: raise one")
        return cls(measured_status(status, not misses), message, iterations, errors, notes)

    deviation: ClassVar = (0.0, 0.0)

    @property
    def reached(self) -> bool:
        """Whether every effector is within its tolerance."""
        return all(effector.reached for effector in self.effectors)

    is_good = reached
    """Whether there is nothing to look at."""

    @property
    def shown(self) -> list[tuple[float, float, str, str]]:
        """For the panel: distance [m], angle [rad], reason and chosen target of each effector."""
        return [
            (
                np.nan if own.position is None else own.position,
                np.nan if own.rotation is None else own.rotation,
                own.why,
                own.taken,
            )
            for own in self.effectors
        ]

    def summary(self) -> str:
        """Return the message and the notes, for the status bar."""
        chosen = [
            Message("{effector} took {taken!r}", effector=effector.name, taken=effector.taken)
            for effector in self.effectors
            if effector.taken
        ]
        return sentences(self.message, *([Joined(", ", chosen)] if chosen else []), *self.notes)


@dataclass(frozen=True)
class BakeReport:
    """Report of a bake, or of frames that were only measured."""

    frames: tuple[float, ...]
    """The frames that were keyed, or measured, (F,)."""
    names: tuple[str, ...]
    """The effectors, (E,)."""
    position_errors: FloatArray
    """Distances from the targets, read back from Blender, (F, E) [m]; nan where not asked for."""
    rotation_errors: FloatArray
    """Angles to the targets' orientations, likewise, (F, E) [rad]."""
    tolerances: Tolerances
    """What counts as reached, `deviation` included."""
    statuses: tuple[str, ...]
    """How each frame ended, (F,), names of `core.Status`; 'REACHED' where measured so in Blender."""
    iterations: IntArray
    """Of each frame, (F,)."""
    reasons: tuple[str, ...]
    """Why each effector misses its target in its worst frame, in words, (E,); empty if it does not."""
    notes: tuple[str, ...]
    """Further remarks, one sentence each."""
    branches: tuple[float, ...] = ()
    """Frames at which the pose flips; a note names the bone that turns most."""
    action: str = ""
    """Name of the action with the keys; empty where frames were only measured."""
    keys: int = 0
    """How many were written."""
    keys_replaced: int = 0
    """How many older keys of the same channels, from the first to the last frame, were replaced."""
    smoothing: tuple[Amount, ...] = ()
    """The largest distance and the largest angle that smoothness adds to misses, where it adds any."""
    kinds: tuple[str, ...] = ()
    """Kind of each effector, (E,), for the words in which a miss is told."""
    between: tuple[float, ...] = ()
    """The frames between keys, (G,): they count in no other field, and not as missed."""
    position_errors_between: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """Distances from the targets there, read back from Blender, (G, E) [m]; nan where not asked for."""
    rotation_errors_between: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """Angles to the targets' orientations there, (G, E) [rad]."""
    choices: tuple[tuple[str, ...], ...] = ()
    """Which of several targets each effector took in each frame, (F, E); empty for those that have one, and
    where they take no part."""

    pops: tuple[Pop, ...] = ()
    """Joints that turn out of proportion, with the numbers of the frames to which they turn."""
    clamped: tuple[str, ...] = ()
    """Limits that the poses broke before the bake, in words: it is no success without a warning then."""
    limits_met: bool = True
    """Whether all that was solved is inside of its limits."""
    deviation: tuple[float, float] = (0.0, 0.0)
    """How far [m] and by how much [rad] the fewest keys may lead bones from where they were solved."""

    @property
    def statistics(self) -> tuple[dict[str, float], ...]:
        """Median, 95 % and worst distance [m] and angle [rad] of each effector, (E,); nan for none."""
        found: list[dict[str, float]] = []
        for number in range(len(self.names)):
            own: dict[str, float] = {}
            for what, errors in (("position", self.position_errors), ("rotation", self.rotation_errors)):
                known = errors[:, number][~np.isnan(errors[:, number])]
                for name, part in (("median", 50.0), ("95", 95.0), ("worst", 100.0)):
                    own[f"{what}_{name}"] = float(np.percentile(known, part)) if len(known) else float("nan")
            found.append(own)
        return tuple(found)

    @property
    def frames_to_look_at(self) -> tuple[tuple[float, str], ...]:
        """Frames in which the pose flips or an effector misses by most, and what is there, in their order."""
        found = [
            (pop.frame, Message("{joint} turns {amount}", joint=pop.joint, amount=angle_text(pop.turn)))
            for pop in self.pops
        ]
        missed = self.tolerances.missed(self.position_errors, self.rotation_errors)
        for number, frame in enumerate(self.worst_frames):
            row = self.frames.index(frame)
            if missed[row, number]:
                errors = self.position_errors[row], self.rotation_errors[row]
                # As short as it can be said: a button in the sidebar has room for about 30 letters.
                found.append(
                    (frame, Joined(": ", (self.names[number], self.tolerances.amounts(*errors, number))))
                )
        return tuple(sorted(found))

    @property
    def taken(self) -> tuple[str, ...]:
        """Which of several targets each effector took, one after the other, (E,)."""
        columns = zip(*self.choices, strict=True) if self.choices else [("",)] * len(self.names)
        return tuple(" → ".join(name for name, _ in groupby(filter(None, own))) for own in columns)

    @property
    def reached_frames(self) -> tuple[bool, ...]:
        """Whether all effectors are within their tolerances, (F,)."""
        missed = self.tolerances.missed(self.position_errors, self.rotation_errors).any(axis=1)
        return tuple(np.logical_not(missed).tolist())

    @property
    def reached(self) -> bool:
        """Whether every effector is within its tolerance in every frame."""
        return all(self.reached_frames)

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to look at."""
        return self.reached and not self.clamped

    @property
    def worst_frames(self) -> tuple[float, ...]:
        """Where each effector misses by most of its tolerances, (E,)."""
        rows = self.tolerances.excess(self.position_errors, self.rotation_errors).argmax(axis=0)
        return tuple(self.frames[row] for row in rows)

    @property
    def whys(self) -> tuple[str, ...]:
        """Why each effector misses its target, with the frame, (E,)."""
        told = zip(self.reasons, self.worst_frames, strict=True)
        return tuple(why and Message("in frame {frame}: {why}", frame=frame, why=why) for why, frame in told)

    @property
    def shown(self) -> list[tuple[float, float, str, str]]:
        """For the panel: of all frames largest distance [m] and angle [rad], reason, and chosen targets."""
        errors = (np.fmax.reduce(e, axis=0).tolist() for e in (self.position_errors, self.rotation_errors))
        return list(zip(*errors, self.whys, self.taken, strict=True))

    def _worst(self, effector: int) -> str:
        """By how much an effector misses in its worst frame: all that its reason is about."""
        frame, why = self.worst_frames[effector], self.reasons[effector]
        row = self.frames.index(frame)
        amount = self.tolerances.amounts(self.position_errors[row], self.rotation_errors[row], effector)
        miss = KINDS[self.kinds[effector]].miss.filled(effector=self.names[effector], amount=amount)
        plain = Message("{miss} in frame {frame}", miss=miss, frame=frame)
        return Message("{miss} in frame {frame} ({why})", miss=miss, frame=frame, why=why) if why else plain

    def summary(self) -> str:
        """Return what was missed, what was keyed or measured, and the notes, for the status bar."""
        text = counted(len(self.frames), "measured {count} frame", "measured {count} frames")
        if self.action:
            written = counted(self.keys, "{count} key written", "{count} keys written")
            text = counted(
                len(self.frames),
                "baked {count} frame into {action!r}: {written}",
                "baked {count} frames into {action!r}: {written}",
                action=self.action,
                written=written,
            )
        if self.keys_replaced:
            text = Message("{keys}, {count} replaced", keys=text, count=self.keys_replaced)
        missed = self.reached_frames.count(False)
        chosen = [
            Message("{effector} took {target}", effector=name, target=own)
            for name, own in zip(self.names, self.taken, strict=True)
            if own
        ]
        if not missed:
            asked = ~np.isnan([self.position_errors, self.rotation_errors])  # not of what follows
            if count := int(asked.any(axis=(0, 1)).sum()):
                text = Joined("; ", (all_reached(count), text))
            return sentences(text, *chosen, *self.notes)
        errors = self.position_errors, self.rotation_errors
        largest = self.tolerances.largest(self.names, self.frames, *errors)
        worst = [self._worst(effector) for effector in dict.fromkeys(own.effector for own in largest)]
        told = counted(
            missed,
            "targets missed in {count} frame, at worst {misses}",
            "targets missed in {count} frames, at worst {misses}",
            misses=both(worst),
        )
        text = Joined("; ", (told, text))
        return sentences(text, *chosen, *self.notes)


def solved_report(
    armature_object: Object,
    rig: "Rig",
    plan: Plan,
    frames: FrameData,
    errors: Sequence[TaskError],
    status: Status,
    iterations: int,
    before: Measured | None = None,
) -> Report:
    """Say how far effectors are off, by the solver's own account.

    What does not follow that, as a mesh that goes with other controls, or a bone that is nowhere, is where it
    was: where the rig is astray, `before` says how far that is off.
    """
    measured = Measured.solved(plan, errors, frames.largest_scale)
    goes_along = [effector.follows for effector in rig.effectors]  # which misses nothing
    for amounts in (measured.distances, measured.angles):
        amounts[goes_along] = np.nan
    if before is not None:
        measured = measured.unless_lost(before, rig.tolerances(armature_object))
    whys = solver_reasons(armature_object, rig, frames, plan, [error.why for error in errors])
    # A body on its way to its targets misses them for no reason.
    found = effector_errors(armature_object, rig, measured, whys, unknown="")
    return Report.of(found, status, iterations, rig.notes)


def measured_report(
    armature_object: Object,
    depsgraph: Depsgraph,
    rig: "Rig",
    frames: FrameData,
    whys: Sequence[str],
    met: Collection[int] = (),
) -> Report:
    """Say how far effectors are off, as Blender shows them, where no solve gives a reason.

    Args:
        whys: What is to be said where one is missed, (E,).
        met: Rows of effectors whose targets were just brought to their bones: Blender does not show it yet.
    """
    measured = rig.measure(armature_object, depsgraph, frames)
    for amounts in (measured.distances, measured.angles):
        amounts[list(met)] = np.minimum(amounts[list(met)], 0.0)  # what is not asked for stays so
    errors = effector_errors(armature_object, rig, measured, whys)
    return Report.of(errors, notes=rig.notes)


# The panel

_HEAD: Final = ("last_message", "last_reached", "last_deviation", "last_deviation_angle")
"""Properties of the settings that the panel shows after a solve or a bake."""
_EACH: Final = ("error_position", "error_rotation", "why", "taken")
"""The same of each effector."""


@dataclass(frozen=True)
class Shown:
    """What the panel says."""

    head: Sequence[Any]
    entries: Mapping[str, Sequence[Any]]
    """Of each entry by its name: entries that are not used come and go."""

    @classmethod
    def of(cls, armature_object: Object) -> "Shown":
        """Note what it says now."""
        settings = settings_of(armature_object)
        entries = {entry.name: [getattr(entry, name) for name in _EACH] for entry in settings.effectors}
        return cls([getattr(settings, name) for name in _HEAD], entries)

    def restore(self, armature_object: Object) -> None:
        """Let it say that again."""
        settings = settings_of(armature_object)
        there = [entry for entry in settings.effectors if entry.name in self.entries]
        _write([(settings, _HEAD, self.head), *((own, _EACH, self.entries[own.name]) for own in there)])


def show(armature_object: Object, rig: "Rig", report: Report | BakeReport, *, unseen: float = 0.0) -> None:
    """Write errors and message where the panel shows them, as far as they have changed.

    A change of an error up to `unseen` [m, rad] is not worth writing: what is written updates the scene.
    """
    settings = settings_of(armature_object)
    head = translated(report.summary()), report.is_good, *report.deviation
    entries = zip(settings.effectors, _shown(settings, rig, report), strict=True)
    _write([(settings, _HEAD, head), *((entry, _EACH, own) for entry, own in entries)], unseen)


def _write(blocks: Iterable[tuple[Any, Sequence[str], Sequence[Any]]], unseen: float = 0.0) -> None:
    """Write values of properties of groups, as far as they have changed by more than that."""
    for block, names, values in blocks:
        for name, value in zip(names, values, strict=True):
            now = getattr(block, name)
            if now != value and not (isinstance(value, float) and abs(now - value) <= unseen):
                setattr(block, name, value)


def is_shown(armature_object: Object, rig: "Rig", report: Report | BakeReport) -> bool:
    """Return whether the panel shows the errors of a report already."""
    settings = settings_of(armature_object)
    return all(
        abs(getattr(entry, name) - value) <= SHOWN_DIGITS
        for entry, values in zip(settings.effectors, _shown(settings, rig, report), strict=True)
        for name, value in zip(_EACH, values[:2], strict=False)
    )


def _shown(settings: Any, rig: "Rig", report: Report | BakeReport) -> list[tuple[float, float, str, str]]:
    """Return what the panel is to show of each effector, see `_EACH`."""
    rows: list[Any] = [(np.nan, np.nan, "", "")] * len(settings.effectors)
    for effector, own in zip(rig.effectors, report.shown, strict=True):
        rows[effector.index] = own
    return [(_as_held(length), _as_held(angle), translated(why), taken) for length, angle, why, taken in rows]


def _as_held(error: float) -> float:
    """An error [m, rad] as a property of Blender holds it."""
    return NOT_MEASURED if np.isnan(error) else float(np.float32(min(error, MOST_SHOWN)))
