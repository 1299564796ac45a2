# SPDX-License-Identifier: GPL-3.0-or-later
"""[SochLorencz2005]: a stretched chain on an ellipse with two methods, and four ways to hold joint limits.

The four ways of §1.4, and that of [KiSheen] §7, answer the same questions, the steps of the stretched tree of
Example 7.4:

    minimise  ½|C dq − d|²  with  l <= q + dq <= u,   C = [J; cI],  d = [e; 0]     (eq. 7.4, 7.5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, pi, radians
from types import SimpleNamespace
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from benchmarks import page
from benchmarks.drawing import COLOURS, INK
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods.step_rules import bounded_least_squares_step, extended_jacobian_step

from .findings import HAIR, Finding, Picture
from .formulas import planar_elements
from .ki_sheen import BENT, LIMIT_DAMPING, bounded, limits, shortest, stretched
from .linkages import Linkage, PlacedLinkage, Rule, Walk, follow

LENGTHS: Final = (90.0, 60.0, 90.0, 150.0, 150.0, 90.0)
BASE: Final = (-230.0, 0.0)
ELLIPSE: Final = (400.0, 50.0)  # Half its axes; its middle is the origin
STEPS_ROUND: Final = 360
"""Steps for the whole ellipse. The paper does not tell; with these the largest distance fits Figure 4."""
AXIS: Final = (200.0, 250.0)
"""Between which the largest distance in Figure 4 must be, as its axis is drawn up to 250."""
FIRST: Final = 7  # Steps that Figure 4 shows
SHOWN: Final = (0, 2, 3, 4, 5, 10)  # Steps that Figure 5 shows, the start first
WEIGHTS: Final = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-6)  # w of the added rows
ENOUGH, GONE = WEIGHTS[2:4]
"""The last weight at which single precision recovers, and the first at which it does not."""
OTHER_STEPS: Final = (90, 180, 720)  # Other numbers of steps, to see what of the figure is theirs
RUNS: Final = 9  # Of a weight, from starts that are a little apart
BESIDE: Final = 1e-6  # Where the chain begins that is not quite stretched [rad]


def ellipse(steps: int, steps_round: int = STEPS_ROUND) -> FloatArray:
    """Targets after the start, (steps, 1, 2)."""
    angle = 2.0 * pi * np.arange(1, steps + 1) / steps_round
    return np.stack([ELLIPSE[0] * np.cos(angle), ELLIPSE[1] * np.sin(angle)], axis=1)[:, None]


def extended(weight: float = 1.0) -> Rule:
    """Eq. 9 with the displacements of all basic elements 0."""
    return lambda placed, error, angles: extended_jacobian_step(
        placed.stacked[0], error, planar_elements(np.array(LENGTHS), angles), weight=weight
    )


def normal_equations(weight: float) -> Rule:
    """The same as the paper solves it, normal equations and LU, which squares w, in single precision."""

    def rule(placed: PlacedLinkage, error: FloatArray, angles: FloatArray) -> FloatArray:
        elements = weight * planar_elements(np.array(LENGTHS), angles)
        rows = np.concatenate([elements, placed.stacked[0]]).astype(np.float32)
        wanted = np.concatenate([np.zeros(len(elements)), error]).astype(np.float32)
        return np.linalg.solve(rows.T @ rows, rows.T @ wanted).astype(np.float64)

    return rule


def walk(
    rule: Rule, steps: int = SHOWN[-1], steps_round: int = STEPS_ROUND, start: FloatArray | None = None
) -> Walk:
    """From the stretched chain, or a start beside it."""
    chain = Linkage.planar(LENGTHS, range(-1, 5), (5,), BASE)
    return follow(chain, np.zeros(6) if start is None else start, ellipse(steps, steps_round), rule)


def recovery_finding(inverse: Walk, added: Walk) -> Finding:
    """Figures 4, 5 and 6."""
    jump, calm = inverse.distances[:FIRST, 0], added.distances[:FIRST, 0]
    elements, jacobians = planar_elements(np.array(LENGTHS), added.angles), added.placed.stacked
    bare = np.linalg.svd(jacobians, compute_uv=False)[:, -1]
    whole = np.linalg.svd(np.concatenate([elements, jacobians], axis=1), compute_uv=False)[:, -1]
    others = [
        [walk(rule, FIRST, steps).distances.max() for rule in (shortest, extended())] for steps in OTHER_STEPS
    ]
    highest, back = int(jump.argmax()) + 1, jump[-1]
    pairs = zip(OTHER_STEPS, others, strict=True)
    told = [f"{a:.0f} against {b:.1f} with {steps}" for steps, (a, b) in pairs]
    rows = [SimpleNamespace(step=step + 1, jump=jump[step], calm=calm[step]) for step in range(FIRST)]

    def draw(panels: Sequence[Axes]) -> None:
        for values, colour, label in ((calm, 0, "extended Jacobian"), (jump, 3, "pseudo-inverse")):
            panels[0].plot([0.0, *values], "o-", color=COLOURS[colour], label=label)
        panels[0].set(xlabel="step", ylabel="distance from the wanted place", title="Figure 4")
        angle = np.linspace(0.0, 2.0 * pi, 200)
        for panel, walked, title in (
            (panels[1], inverse, "Figure 5: pseudo-inverse"),
            (panels[2], added, "Figure 6: extended Jacobian"),
        ):
            panel.plot(ELLIPSE[0] * np.cos(angle), ELLIPSE[1] * np.sin(angle), ":", color="0.5", lw=1.0)
            for number, step in enumerate(SHOWN):
                lines = np.array(walked.placed.links(step))  # (6, 2, 2)
                way = np.concatenate([lines[:, 0], lines[-1:, 1]])
                style = {"ms": 2.5, "lw": 1.3, "color": COLOURS[number - 1] if step else INK}
                panel.plot(*way.T, "o-", label=f"step {step}" if step else "start", **style)
            panel.set_aspect("equal", adjustable="datalim")
            panel.set_title(title)

    return Finding(
        title="Figures 4, 5 and 6: leaving the stretched pose",
        holds=(
            AXIS[0] < jump.max() < AXIS[1],
            calm.max() < 0.01 * jump.max(),
            bool(whole.min() > 1.0 > bare.min()),
            all(b < 0.1 * a for a, b in others),
        ),
        facts=locals(),
        picture=Picture("soch-lorencz-4-6", (12.0, 3.6), 3, draw),
    )


def largest_distances(rule: Rule, beside: float = HAIR) -> FloatArray:
    """Of walks from several starts beside the stretched one [rad], (RUNS,); infinite without solution."""
    found: list[float] = []
    for start in beside * np.random.default_rng(4).uniform(-1.0, 1.0, (RUNS, len(LENGTHS))):
        try:
            found.append(float(walk(rule, start=start).distances.max()))
        except np.linalg.LinAlgError:
            found.append(inf)
    return np.array(found)


def weight_finding() -> Finding:
    """What the paper says of w, beside the figures."""
    exact, beside, single = (
        {weight: largest(weight) for weight in WEIGHTS}
        for largest in (
            lambda weight: walk(extended(weight)).distances.max(axis=0),
            lambda weight: largest_distances(extended(weight), BESIDE),
            lambda weight: largest_distances(normal_equations(weight)),
        )
    )

    def told(distances: FloatArray) -> str:
        if np.isinf(distances).all():
            return "no solution"
        return page.told(distances, "span .2f") + (", or no solution" if np.isinf(distances).any() else "")

    most = max(float(exact[weight][0]) for weight in WEIGHTS)
    calm, lagging = 0.05 * AXIS[0], float(walk(extended()).distances[-1, 0])
    rows = [
        SimpleNamespace(w=w, exact=exact[w], beside=told(beside[w]), single=told(single[w])) for w in WEIGHTS
    ]
    _, _, enough, gone, none, _ = rows
    return Finding(
        title="The weight of the added rows",
        holds=(
            most < calm,
            single[ENOUGH].max() < calm < 2.0 * calm < single[GONE].max(),
            beside[ENOUGH].max() < calm < 2.0 * calm < beside[GONE].max(),
        ),
        facts=locals(),
    )


SAME: Final = 1e-6  # Difference [rad] to the exact step up to which an answer counts as the same
NARROW: Final = radians(6.0)
"""How far each joint may turn from where it starts, to either side, in the second range."""
ITERATIONS: Final = 60  # Most of them in ways that iterate
CONVERGED: Final = 1e-10  # Change at which they stop
OUTSIDE: Final = (1e2, 1e4, 1e8, 1e12)  # Of the penalty for being outside
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
    walked = stretched(bounded(LIMIT_DAMPING, lower, upper), BENT)
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
        none=len(asked) - len(found),
        same=sum(a <= SAME for a in apart),
        beyond=max((q.beyond(change) for q, change in found), default=0.0),
        apart=max(apart, default=0.0),
        off=f"< {np.degrees(SAME):.0e}"
        if max(apart, default=0.0) <= SAME
        else f"{np.degrees(max(apart)):.1g}",
        systems=float(np.mean([answer.systems for answer in answers])) or None,
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
        **{f"penalty outside, w = {weight:g}": partial(penalty, weight=weight) for weight in OUTSIDE},
        **{f"penalty near, w = {weight:g}": partial(barrier, weight=weight) for weight in BARRIERS},
    }
    lower, upper = limits()
    start = stretched(bounded(LIMIT_DAMPING, lower, upper), BENT).angles[0]
    wide, tight = "Example 7.4", f"±{np.degrees(NARROW):g}°"
    narrow = np.maximum(lower, start - NARROW), np.minimum(upper, start + NARROW)
    asked = {wide: questions(lower, upper), tight: questions(*narrow)}
    resting = [
        max(int((np.minimum(q.exact - q.lower, q.upper - q.exact) <= CONVERGED).sum()) for q in some)
        for some in asked.values()
    ]
    found = {(name, way): summary(ways[way], some) for name, some in asked.items() for way in ways}
    steps = len(asked[tight])
    outside = [found[tight, f"penalty outside, w = {weight:g}"] for weight in OUTSIDE]
    near = [found[tight, f"penalty near, w = {weight:g}"] for weight in BARRIERS]
    most = max(q.optimality for some in asked.values() for q in some)
    first, then = ([found[name, way] for name in asked] for way in (single, added))
    rows = [SimpleNamespace(ranges=name, way=way, of=r) for (name, way), r in found.items()]
    return Finding(
        title="§1.4: four ways to hold joint limits",
        holds=(
            most < SAME
            and all(found[n, ours].answered == steps for n in asked)
            and all(found[n, ours].beyond <= CONVERGED for n in asked),
            first[0].same == steps,
            first[1].same == steps,
            all(r.same == steps for r in then),
            outside[0].beyond > outside[2].beyond and outside[-1].condition > 1e6 * outside[0].condition,
            all(r.beyond == 0.0 for r in near) and near[-1].apart < near[0].apart,
        ),
        claims=(2, 3),
        facts=locals(),
    )


def findings() -> Iterator[Finding]:
    """All of the paper."""
    yield recovery_finding(walk(shortest), walk(extended()))
    yield weight_finding()
    yield limits_finding()
