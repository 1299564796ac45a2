# SPDX-License-Identifier: GPL-3.0-or-later
"""Four ways to hold joint limits in a step, those of [SochLorencz2005] §1.4 beside that of [KiSheen] §7.

All of them answer the same questions, the steps of the stretched tree of Example 7.4:

    minimise  ½|C dq − d|²  with  l <= q + dq <= u,   C = [J; cI],  d = [e; 0]     (eq. 7.4, 7.5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, radians
from types import SimpleNamespace
from typing import Final, NamedTuple

import numpy as np

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods import bounded_least_squares_step

from .findings import Check, Finding
from .ki_sheen import LIMIT_DAMPING, bounded, limited_walk, limits

SAME: Final = 1e-6  # Difference [rad] to the exact step up to which an answer counts as the same
NARROW: Final = radians(6.0)
"""How far each joint may turn from where it starts, to either side, in the second range."""
ITERATIONS: Final = 60  # Most of them in ways that iterate
CONVERGED: Final = 1e-10  # Change at which they stop
WEIGHTS: Final = (1e2, 1e4, 1e8, 1e12)  # Of the penalty for being outside
BARRIERS: Final = (1e-2, 1e-4, 1e-8)  # Of the penalty for coming near
STEP_BACK: Final = 1e-3
"""How far inside, as a part of the range [1], a barrier starts where the joint stands on its limit."""
FIRST_MULTIPLIER: Final = 1e-2  # With which the method of new variables starts


@dataclass(frozen=True)
class Question:
    """One step: minimise ½ dqᵀH dq + gᵀdq with lower <= dq <= upper, from J (m, n) and the error (m,)."""

    jacobian: FloatArray
    error: FloatArray
    lower: FloatArray
    upper: FloatArray

    @cached_property
    def hessian(self) -> FloatArray:
        """The matrix H = CᵀC, (n, n)."""
        return self.jacobian.T @ self.jacobian + LIMIT_DAMPING**2 * np.eye(len(self.lower))

    @cached_property
    def slope(self) -> FloatArray:
        """The vector g = −Cᵀd, (n,)."""
        return -self.jacobian.T @ self.error

    @cached_property
    def exact(self) -> FloatArray:
        """The core's own bounded step, by an active set, which the method `BOUNDED` takes, (n,)."""
        return bounded_least_squares_step(self.jacobian, self.error, self.lower, self.upper, LIMIT_DAMPING)

    def cost(self, change: FloatArray) -> float:
        """The value at a change (n,)."""
        return float(0.5 * change @ self.hessian @ change + self.slope @ change)

    def beyond(self, change: FloatArray) -> float:
        """By how much a change breaks the limits [rad]."""
        return float(np.maximum(change - self.upper, self.lower - change).max(initial=0.0))

    def inner(self) -> FloatArray:
        """A change (n,) near none, a little inside the limits."""
        back = STEP_BACK * (self.upper - self.lower)
        return np.clip(np.zeros(len(self.lower)), self.lower + back, self.upper - back)

    @property
    def optimality(self) -> float:
        """Largest violation of the conditions of a bounded minimum by the exact step."""
        pull = -(self.hessian @ self.exact + self.slope)
        # Where a limit is met the pull may go outward; everywhere else there is none.
        pull = np.where(self.exact >= self.upper - CONVERGED, np.minimum(pull, 0.0), pull)
        pull = np.where(self.exact <= self.lower + CONVERGED, np.maximum(pull, 0.0), pull)
        return float(np.abs(pull).max())


class Answer(NamedTuple):
    """What a way makes of a question."""

    change: FloatArray | None  # (n,); None where it finds nothing
    systems: int  # Linear systems solved; 0 where the core does not count them
    unknowns: int  # Of the largest
    condition: float  # Condition number of the worst of them


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def active_set(question: Question) -> Answer:
    """The core's own step as one of the ways."""
    return Answer(question.exact, 0, len(question.lower), float(np.linalg.cond(question.hessian)))


def one_at_its_limit(question: Question) -> Answer:
    """§1.4.1: the free minimum, or the best of 2n minima with one joint set to a bound."""
    hessian, slope, size = question.hessian, question.slope, len(question.lower)
    condition = float(np.linalg.cond(hessian))
    free = _solved(hessian, -slope)
    if question.beyond(free) <= CONVERGED:
        return Answer(free, 1, size, condition)
    found: list[FloatArray] = []
    for joint in range(size):
        others = np.arange(size) != joint
        for bound in (question.lower[joint], question.upper[joint]):
            change = np.full(size, bound)
            wanted = -slope[others] - hessian[others, joint] * bound
            change[others] = np.linalg.solve(hessian[np.ix_(others, others)], wanted)
            if question.beyond(change) <= CONVERGED:
                found.append(change)
    return Answer(min(found, key=question.cost) if found else None, 1 + 2 * size, size, condition)


def new_variables(question: Question) -> Answer:
    """§1.4.2: two variables y for each joint make equations of its limits; Newton on all conditions.

    dq + y_u² = u, dq − y_l² = l; the conditions of Lagrange are those, H dq + g + λ_u − λ_l = 0 and λ y = 0.
    """
    hessian, slope, size = question.hessian, question.slope, len(question.lower)
    eye, none, diag = np.eye(size), np.zeros((size, size)), np.diag
    change = question.inner()
    rooms = np.sqrt(change - question.lower), np.sqrt(question.upper - change)
    state: FloatArray = np.concatenate([change, *rooms, np.full(2 * size, FIRST_MULTIPLIER)])
    worst = 0.0
    for iteration in range(1, ITERATIONS + 1):
        change, low, high, press_low, press_high = np.split(state, 5)
        forces = hessian @ change + slope + press_high - press_low
        bounds = change - low**2 - question.lower, change + high**2 - question.upper
        conditions = np.concatenate([forces, press_low * low, press_high * high, *bounds])
        matrix = np.block(
            [
                [hessian, none, none, -eye, eye],
                [none, diag(press_low), none, diag(low), none],
                [none, none, diag(press_high), none, diag(high)],
                [eye, -2.0 * diag(low), none, none, none],
                [eye, none, 2.0 * diag(high), none, none],
            ]
        )
        worst = max(worst, float(np.linalg.cond(matrix)))
        try:
            step = np.linalg.solve(matrix, -conditions)
        except np.linalg.LinAlgError:
            return Answer(None, iteration, 5 * size, inf)
        state = np.asarray(state + step, dtype=np.float64)
        if np.abs(step).max() < CONVERGED:
            # A negative multiplier holds a joint back that wants to leave its limit: no minimum.
            least = state[3 * size :].min() > -CONVERGED
            return Answer(state[:size] if least else None, iteration, 5 * size, worst)
    return Answer(None, ITERATIONS, 5 * size, worst)


def penalty(question: Question, weight: float) -> Answer:
    """§1.4.3: ½ w · (what is outside)² added to the cost."""
    hessian, slope = question.hessian, question.slope
    change, worst = _solved(hessian, -slope), float(np.linalg.cond(hessian))
    outside = np.zeros(len(change), dtype=np.bool_)
    for iteration in range(1, ITERATIONS + 1):
        now = (change > question.upper) | (change < question.lower)
        if (now == outside).all():
            return Answer(change, iteration, len(change), worst)
        outside = now
        bound = np.where(change > question.upper, question.upper, question.lower)
        matrix = hessian + weight * np.diag(outside.astype(np.float64))
        worst = max(worst, float(np.linalg.cond(matrix)))
        change = _solved(matrix, weight * outside * bound - slope)
    return Answer(None, ITERATIONS, len(change), worst)


def barrier(question: Question, weight: float) -> Answer:
    """§1.4.3, growing as joints approach their limits: −w · log of the room to each limit."""
    lower, upper, change, worst = question.lower, question.upper, question.inner(), 0.0

    def value(at: FloatArray) -> float:
        rooms = np.concatenate([at - lower, upper - at])
        return inf if rooms.min() <= 0.0 else question.cost(at) - weight * float(np.log(rooms).sum())

    for iteration in range(1, ITERATIONS + 1):
        low, high = change - lower, upper - change
        gradient = question.hessian @ change + question.slope - weight / low + weight / high
        matrix = question.hessian + np.diag(weight / low**2 + weight / high**2)
        worst = max(worst, float(np.linalg.cond(matrix)))
        step, part = _solved(matrix, -gradient), 1.0
        while value(change + part * step) > value(change) and part > CONVERGED:
            part *= 0.5
        change = change + part * step
        if np.abs(part * step).max() < CONVERGED:
            return Answer(change, iteration, len(change), worst)
    return Answer(change, ITERATIONS, len(change), worst)


def questions(lower: FloatArray, upper: FloatArray) -> list[Question]:
    """Those of all steps of the stretched tree inside limits (n,) each."""
    walked = limited_walk(bounded(LIMIT_DAMPING, lower, upper))
    placed = walked.placed
    return [
        Question(placed.stacked[step], (goals - placed.tips[step]).ravel(), lower - angles, upper - angles)
        for step, (goals, angles) in enumerate(zip(walked.targets, walked.angles[:-1], strict=True))
    ]


def summary(way: Callable[[Question], Answer], asked: Sequence[Question]) -> SimpleNamespace:
    """What a way makes of all questions."""
    answers = [way(question) for question in asked]
    found = [(q, a.change) for q, a in zip(asked, answers, strict=True) if a.change is not None]
    apart = [float(np.abs(change - q.exact).max()) for q, change in found]
    return SimpleNamespace(
        answered=len(found),
        same=sum(a <= SAME for a in apart),
        beyond=max((q.beyond(change) for q, change in found), default=0.0),
        apart=max(apart, default=0.0),
        systems=float(np.mean([answer.systems for answer in answers])),
        unknowns=max(answer.unknowns for answer in answers),
        condition=max(answer.condition for answer in answers),
    )


def limits_finding() -> Finding:
    """The summary of §1.4, tried."""
    ours, single, added = "active set (ours)", "one joint at a bound", "new variables"
    ways: dict[str, Callable[[Question], Answer]] = {
        ours: active_set,
        single: one_at_its_limit,
        added: new_variables,
        **{f"penalty outside, w = {weight:g}": partial(penalty, weight=weight) for weight in WEIGHTS},
        **{f"penalty near, w = {weight:g}": partial(barrier, weight=weight) for weight in BARRIERS},
    }
    lower, upper = limits()
    start = limited_walk(bounded(LIMIT_DAMPING, lower, upper)).angles[0]
    wide, tight = "Example 7.4", f"±{np.degrees(NARROW):g}°"
    narrow = np.maximum(lower, start - NARROW), np.minimum(upper, start + NARROW)
    asked = {wide: questions(lower, upper), tight: questions(*narrow)}
    resting = {
        name: max(int((np.minimum(q.exact - q.lower, q.upper - q.exact) <= CONVERGED).sum()) for q in some)
        for name, some in asked.items()
    }
    found = {(name, way): summary(ways[way], some) for name, some in asked.items() for way in ways}
    heading = ("ranges", "way", "steps answered", "the exact step", "beyond a limit [°]")
    rows: list[tuple[str, ...]] = [
        (*heading, "off the exact step [°]", "linear systems", "unknowns", "condition number")
    ]
    for (name, way), r in found.items():
        counts = (f"{r.answered}", f"{r.same}", f"{np.degrees(r.beyond):.1g}")
        off = f"{np.degrees(r.apart):.1g}" if r.apart > SAME else f"< {np.degrees(SAME):.0e}"
        systems = f"{r.systems:.0f}" if r.systems else "–"
        rows.append((name, way, *counts, off, systems, f"{r.unknowns}", f"{r.condition:.0e}"))
    steps = len(asked[tight])
    outside = [found[tight, f"penalty outside, w = {weight:g}"] for weight in WEIGHTS]
    near = [found[tight, f"penalty near, w = {weight:g}"] for weight in BARRIERS]
    most = max(q.optimality for some in asked.values() for q in some)
    return Finding(
        title="§1.4: four ways to hold joint limits",
        checks=(
            Check(
                "the active set, which is what ships, answers every step, breaks no limit and meets the "
                "conditions of a bounded minimum, but for rounding",
                most < SAME
                and all(found[n, ours].answered == steps for n in asked)
                and all(found[n, ours].beyond <= CONVERGED for n in asked),
            ),
            Check(
                f"one joint at a bound gives the exact step in {found[wide, single].same} of {steps} steps "
                f"where at most {resting[wide]} rests on a limit",
                found[wide, single].same == steps,
            ),
            Check(
                f"where up to {resting[tight]} rest at once it gives the exact step as well: it does in "
                f"{found[tight, single].same} of {steps}, and in {steps - found[tight, single].answered} it "
                "finds none",
                found[tight, single].same == steps,
                required=False,
            ),
            Check(
                f"new variables lead Newton's method to the exact step: they do in {found[wide, added].same} "
                f"and {found[tight, added].same} of {steps} steps, by {found[tight, added].systems:.0f} "
                f"systems of {found[tight, added].unknowns} unknowns a step",
                found[wide, added].same == found[tight, added].same == steps,
                required=False,
            ),
            Check(
                f"penalties prohibit violations only as far as they weigh: w = {WEIGHTS[0]:g} leaves "
                f"{np.degrees(outside[0].beyond):.2g}°, {WEIGHTS[2]:g} {np.degrees(outside[2].beyond):.1g}°, "
                f"and the condition number grows from {outside[0].condition:.0e} to "
                f"{outside[-1].condition:.0e}",
                outside[0].beyond > outside[2].beyond and outside[-1].condition > 1e6 * outside[0].condition,
            ),
            Check(
                "those that grow near a limit break none, and keep joints off it: by "
                f"{np.degrees(near[0].apart):.2g}° with w = {BARRIERS[0]:g}, "
                f"{np.degrees(near[-1].apart):.1g}° with {BARRIERS[-1]:g}, in {near[-1].systems:.0f} systems "
                "a step",
                all(r.beyond == 0.0 for r in near) and near[-1].apart < near[0].apart,
            ),
        ),
        facts={"narrow": np.degrees(NARROW)},
        table=rows,
    )
