# SPDX-License-Identifier: GPL-3.0-or-later
"""Four ways to hold joint limits in a step, those of [SochLorencz2005] §1.4 beside that of [KiSheen] §7.

All of them answer the same questions, the steps of the stretched tree of Example 7.4:

    minimise  ½|C dq − d|²  with  l <= q + dq <= u,   C = [J; cI],  d = [e; 0]     (eq. 7.4, 7.5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, radians
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS, INK
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.methods import bounded_least_squares_step

from .findings import Check, Finding, Picture
from .ki_sheen import LIMIT_DAMPING, bounded, limits, stretched

SAME: Final = 1e-6
"""Difference [rad] to the exact step up to which an answer counts as the same."""
NARROW: Final = radians(6.0)
"""How far each joint may turn from where it starts, to either side, in the second range."""
ITERATIONS: Final = 60
"""Most of them in ways that iterate."""
CONVERGED: Final = 1e-10
"""Change at which they stop."""
WEIGHTS: Final = (1e2, 1e4, 1e8, 1e12, 1e16)
"""Of the penalty for being outside."""
BARRIERS: Final = (1e-2, 1e-4, 1e-8)
"""Of the penalty for coming near."""
STEP_BACK: Final = 1e-3
"""How far inside, as a part of the range [1], a barrier starts where the joint stands on its limit."""
FIRST_MULTIPLIER: Final = 1e-2
"""With which the method of new variables starts."""


@dataclass(frozen=True)
class Question:
    """One step: minimise ½ dqᵀH dq + gᵀdq with lower <= dq <= upper."""

    jacobian: FloatArray
    """(m, n)."""
    error: FloatArray
    """Target − current, (m,)."""
    lower: FloatArray
    """(n,)."""
    upper: FloatArray
    """(n,)."""

    @property
    def hessian(self) -> FloatArray:
        """The matrix H = CᵀC, (n, n)."""
        return self.jacobian.T @ self.jacobian + LIMIT_DAMPING**2 * np.eye(len(self.lower))

    @property
    def slope(self) -> FloatArray:
        """The vector g = −Cᵀd, (n,)."""
        return -self.jacobian.T @ self.error

    def cost(self, change: FloatArray) -> float:
        """The value at a change (n,)."""
        return float(0.5 * change @ self.hessian @ change + self.slope @ change)

    def inside(self, change: FloatArray) -> bool:
        """Whether a change keeps the limits, to rounding."""
        return self.beyond(change) <= CONVERGED

    def beyond(self, change: FloatArray) -> float:
        """By how much it breaks them [rad]."""
        return float(np.maximum(change - self.upper, self.lower - change).max(initial=0.0))

    def pressed(self, change: FloatArray) -> BoolArray:
        """Channels that stand on a limit, (n,)."""
        at_limit: BoolArray = np.minimum(change - self.lower, self.upper - change) <= CONVERGED
        return at_limit


@dataclass(frozen=True)
class Answer:
    """What a way makes of a question."""

    change: FloatArray | None
    """(n,); None where it finds nothing."""
    systems: int | None
    """Linear systems solved; None where the core does not count them."""
    unknowns: int
    """Of the largest."""
    condition: float
    """Condition number of the worst of them."""


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def exact(question: Question) -> FloatArray:
    """The core's own bounded step, by an active set, which the method `BOUNDED` takes, (n,)."""
    return bounded_least_squares_step(
        question.jacobian, question.error, question.lower, question.upper, LIMIT_DAMPING
    )


def active_set(question: Question) -> Answer:
    """The same as one of the ways."""
    change = exact(question)
    return Answer(change, None, len(change), float(np.linalg.cond(question.hessian)))


def one_at_its_limit(question: Question) -> Answer:
    """§1.4.1: the free minimum, or the best of 2n minima with one joint set to a bound."""
    hessian, slope, size = question.hessian, question.slope, len(question.lower)
    condition = float(np.linalg.cond(hessian))
    free = _solved(hessian, -slope)
    if question.inside(free):
        return Answer(free, 1, size, condition)
    found: list[FloatArray] = []
    for joint in range(size):
        others = np.arange(size) != joint
        for bound in (question.lower[joint], question.upper[joint]):
            change = np.full(size, bound)
            wanted = -slope[others] - hessian[others, joint] * bound
            change[others] = np.linalg.solve(hessian[np.ix_(others, others)], wanted)
            if question.inside(change):
                found.append(change)
    best = min(found, key=question.cost) if found else None
    return Answer(best, 1 + 2 * size, size, condition)


def new_variables(question: Question) -> Answer:
    """§1.4.2: two variables y for each joint make equations of its limits; Newton on all conditions.

    dq + y_u² = u, dq − y_l² = l; the conditions of Lagrange are those, H dq + g + λ_u − λ_l = 0 and λ y = 0.
    """
    hessian, slope, size = question.hessian, question.slope, len(question.lower)
    eye, none = np.eye(size), np.zeros((size, size))
    room = question.upper - question.lower
    change = np.clip(np.zeros(size), question.lower + STEP_BACK * room, question.upper - STEP_BACK * room)
    rooms = np.sqrt(change - question.lower), np.sqrt(question.upper - change)
    state: FloatArray = np.concatenate([change, *rooms, np.full(2 * size, FIRST_MULTIPLIER)])
    worst = 0.0
    for iteration in range(1, ITERATIONS + 1):
        change, low, high, press_low, press_high = np.split(state, 5)
        conditions = np.concatenate(
            [
                hessian @ change + slope + press_high - press_low,
                press_low * low,
                press_high * high,
                change - low**2 - question.lower,
                change + high**2 - question.upper,
            ]
        )
        matrix = np.block(
            [
                [hessian, none, none, -eye, eye],
                [none, np.diag(press_low), none, np.diag(low), none],
                [none, none, np.diag(press_high), none, np.diag(high)],
                [eye, -2.0 * np.diag(low), none, none, none],
                [eye, none, 2.0 * np.diag(high), none, none],
            ]
        )
        worst = max(worst, float(np.linalg.cond(matrix)))
        try:
            step = np.linalg.solve(matrix, -conditions)
        except np.linalg.LinAlgError:
            return Answer(None, iteration, 5 * size, inf)
        state = state + step
        if np.abs(step).max() < CONVERGED:
            # A negative multiplier holds a joint back that wants to leave its limit: no minimum.
            least = state[3 * size :].min() > -CONVERGED
            return Answer(state[:size] if least else None, iteration, 5 * size, worst)
    return Answer(None, ITERATIONS, 5 * size, worst)


def penalty(weight: float) -> Callable[[Question], Answer]:
    """§1.4.3: ½ w · (what is outside)² added to the cost."""

    def way(question: Question) -> Answer:
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

    return way


def barrier(weight: float) -> Callable[[Question], Answer]:
    """§1.4.3, growing as joints approach their limits: −w · log of the room to each limit."""

    def way(question: Question) -> Answer:
        hessian, slope, lower, upper = question.hessian, question.slope, question.lower, question.upper
        back = STEP_BACK * (upper - lower)
        change, worst = np.clip(np.zeros(len(lower)), lower + back, upper - back), 0.0

        def value(at: FloatArray) -> float:
            rooms = np.concatenate([at - lower, upper - at])
            return inf if rooms.min() <= 0.0 else question.cost(at) - weight * float(np.log(rooms).sum())

        for iteration in range(1, ITERATIONS + 1):
            low, high = change - lower, upper - change
            gradient = hessian @ change + slope - weight / low + weight / high
            matrix = hessian + np.diag(weight / low**2 + weight / high**2)
            worst = max(worst, float(np.linalg.cond(matrix)))
            step = np.linalg.solve(matrix, -gradient)
            part = 1.0
            while value(change + part * step) > value(change) and part > CONVERGED:
                part *= 0.5
            change = change + part * step
            if np.abs(part * step).max() < CONVERGED:
                return Answer(change, iteration, len(change), worst)
        return Answer(change, ITERATIONS, len(change), worst)

    return way


def questions(lower: FloatArray, upper: FloatArray) -> list[Question]:
    """Those of all steps of the stretched tree inside limits (n,) each."""
    walked = stretched(bounded(LIMIT_DAMPING, lower, upper))
    placed = walked.placed
    return [
        Question(placed.stacked[step], (goals - placed.tips[step]).ravel(), lower - angles, upper - angles)
        for step, (goals, angles) in enumerate(zip(walked.targets, walked.angles[:-1], strict=True))
    ]


def narrow_limits() -> tuple[FloatArray, FloatArray]:
    """NARROW round the start, inside Example 7.4's own, (n,) each."""
    lower, upper = limits()
    start = stretched(bounded(LIMIT_DAMPING, lower, upper)).angles[0]
    return np.maximum(lower, start - NARROW), np.minimum(upper, start + NARROW)


@dataclass(frozen=True)
class Summary:
    """What a way makes of all questions."""

    answered: int
    same: int
    """How many answers are the exact step."""
    beyond: float
    """Largest violation of a limit [rad]."""
    apart: float
    """Largest difference to the exact step [rad]."""
    systems: float | None
    """Linear systems for a step, mean."""
    unknowns: int
    condition: float
    """Worst condition number."""


def summary(way: Callable[[Question], Answer], asked: Sequence[Question]) -> Summary:
    """Ask all of them."""
    answers = [way(question) for question in asked]
    found = [(q, a.change) for q, a in zip(asked, answers, strict=True) if a.change is not None]
    apart = [float(np.abs(change - exact(question)).max()) for question, change in found]
    systems = [answer.systems for answer in answers if answer.systems is not None]
    return Summary(
        len(found),
        sum(a <= SAME for a in apart),
        max((q.beyond(change) for q, change in found), default=0.0),
        max(apart, default=0.0),
        float(np.mean(systems)) if systems else None,
        max(answer.unknowns for answer in answers),
        max(answer.condition for answer in answers),
    )


def optimality(asked: Sequence[Question]) -> float:
    """Largest violation of the conditions of a bounded minimum by the active set, over all questions."""
    worst = 0.0
    for question in asked:
        change = exact(question)
        pull = -(question.hessian @ change + question.slope)
        # Where a limit is met the pull may go outward; everywhere else there is none.
        pull = np.where(change >= question.upper - CONVERGED, np.minimum(pull, 0.0), pull)
        pull = np.where(change <= question.lower + CONVERGED, np.maximum(pull, 0.0), pull)
        worst = max(worst, float(np.abs(pull).max()))
    return worst


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def limits_finding() -> Finding:
    """The summary of §1.4, tried."""
    ways: dict[str, Callable[[Question], Answer]] = {
        "active set (ours)": active_set,
        "one joint at a bound": one_at_its_limit,
        "new variables": new_variables,
        **{f"penalty outside, w = {weight:g}": penalty(weight) for weight in WEIGHTS},
        **{f"penalty near, w = {weight:g}": barrier(weight) for weight in BARRIERS},
    }
    ranges = {"Example 7.4": limits(), f"±{np.degrees(NARROW):g}°": narrow_limits()}
    asked = {name: questions(*both) for name, both in ranges.items()}
    resting = {name: max(int(q.pressed(exact(q)).sum()) for q in some) for name, some in asked.items()}
    found = {(name, way): summary(ways[way], some) for name, some in asked.items() for way in ways}
    rows = [
        (
            *("ranges", "way", "steps answered", "the exact step", "beyond a limit [°]"),
            *("off the exact step [°]", "linear systems", "unknowns", "condition number"),
        )
    ]
    for (name, way), result in found.items():
        rows.append(
            (
                *(name, way, f"{result.answered}", f"{result.same}", f"{np.degrees(result.beyond):.1g}"),
                *(f"{np.degrees(result.apart):.1g}", _number(result.systems, ".1f")),
                *(f"{result.unknowns}", f"{result.condition:.1e}"),
            )
        )
    wide, tight = ranges
    steps = len(asked[tight])
    ours = [found[name, "active set (ours)"] for name in ranges]
    single = {name: found[name, "one joint at a bound"] for name in ranges}
    added = {name: found[name, "new variables"] for name in ranges}
    outside = [found[tight, f"penalty outside, w = {weight:g}"] for weight in WEIGHTS]
    near = [found[tight, f"penalty near, w = {weight:g}"] for weight in BARRIERS]

    def draw(panels: Sequence[Axes]) -> None:
        panels[0].loglog(WEIGHTS, [np.degrees(r.beyond) for r in outside], "o-", color=COLOURS[0])
        panels[0].set_ylabel("beyond a limit [°]", color=COLOURS[0])
        panels[0].set_xlabel("w of the penalty for being outside")
        twin = panels[0].twinx()
        twin.loglog(WEIGHTS, [r.condition for r in outside], "s--", color=COLOURS[3])
        twin.set_ylabel("condition number", color=COLOURS[3])
        panels[0].grid(alpha=0.25)
        names = ["active set (ours)", "one joint at a bound", "new variables"]
        for offset, name, colour in ((-0.2, wide, COLOURS[5]), (0.2, tight, INK)):
            counts = [found[name, way].same for way in names]
            panels[1].bar(np.arange(len(names)) + offset, counts, 0.4, color=colour, label=name)
        panels[1].set_xticks(np.arange(len(names)), names, fontsize=8)
        panels[1].set_ylim(0.0, 1.25 * steps)
        panels[1].set_ylabel(f"of {steps} steps, the exact one")
        panels[1].legend(fontsize=8)

    return Finding(
        title="§1.4: four ways to hold joint limits",
        claim="Minima on the boundary are found by setting one joint at a time to a bound; new variables "
        "make equations of the limits; penalties prohibit violations, and are not stable numerically.",
        checks=(
            Check(
                f"the active set, which is what ships, answers every step, breaks no limit by more than "
                f"{np.degrees(max(r.beyond for r in ours)):.0e}° and meets the conditions of a bounded "
                f"minimum to {max(optimality(some) for some in asked.values()):.0e}",
                all(r.answered == steps and r.beyond <= CONVERGED for r in ours)
                and all(optimality(some) < SAME for some in asked.values()),
            ),
            Check(
                f"one joint at a bound gives the exact step in {single[wide].same} of {steps} steps where at "
                f"most {resting[wide]} rests on a limit",
                single[wide].same == steps,
            ),
            Check(
                f"where up to {resting[tight]} rest at once it gives the exact step as well: it does in "
                f"{single[tight].same} of {steps}, and in {steps - single[tight].answered} it finds none",
                single[tight].same == steps,
                required=False,
            ),
            Check(
                "new variables lead Newton's method to the exact step: they do in "
                f"{added[wide].same} and {added[tight].same} of {steps} steps, by "
                f"{_number(added[tight].systems, '.0f')} systems of {added[tight].unknowns} unknowns a step",
                added[wide].same == added[tight].same == steps,
                required=False,
            ),
            Check(
                f"penalties prohibit violations only as far as they weigh: w = {WEIGHTS[0]:g} leaves "
                f"{np.degrees(outside[0].beyond):.2g}°, {WEIGHTS[2]:g} {np.degrees(outside[2].beyond):.1g}°, "
                f"and the condition number grows from {outside[0].condition:.1g} to "
                f"{outside[-1].condition:.1g}",
                outside[0].beyond > outside[2].beyond and outside[-1].condition > 1e6 * outside[0].condition,
            ),
            Check(
                f"those that grow near a limit break none, and keep joints off it: by "
                f"{np.degrees(near[0].apart):.2g}° with w = {BARRIERS[0]:g}, "
                f"{np.degrees(near[-1].apart):.1g}° with {BARRIERS[-1]:g}, in "
                f"{_number(near[-1].systems, '.0f')} systems a step",
                all(r.beyond == 0.0 for r in near) and near[-1].apart < near[0].apart,
            ),
        ),
        reading="The paper gives no experiment; all ways answer the steps of Figure 15, and those with every "
        f"joint within {np.degrees(NARROW):g}° of its start, so that several limits are met at once. 'One "
        "joint at a bound' is taken as printed; with several at once there are up to 3ⁿ faces to try. The "
        "count of systems is for one step.",
        table=tuple(rows),
        picture=Picture(
            "soch-lorencz-limits",
            f"What a penalty leaves and costs (ranges {tight}); how often three ways give the exact step.",
            (9.0, 3.6),
            (1, 2),
            draw,
        ),
    )
