# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of [KiSheen] and its table: a target path, several effectors, damping, limits.

The pictures of the paper did not come with its text, which gives neither link lengths nor starting poses.
Links are 1 long here and the poses are our own; what is compared are the claims, and the numbers where there
are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import pi, radians
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS, INK
from benchmarks.page import stored
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods import target_path
from blender_ik_addon.core.methods.nonlinear import BoundedDescent, penalized_error
from blender_ik_addon.core.methods.step_rules import (
    bounded_least_squares_step,
    damped_step,
    pseudo_inverse_step,
)

from .findings import HAIR, Finding, Picture
from .formulas import prioritized_inverse, three_effector_inverse, two_effector_inverse
from .linkages import Linkage, PlacedLinkage, Rule, Walk, follow

# ---------------------------------------------------------------- linkages and poses

NINE: Final = (-1, 0, 1, 2, 3, 4, 2, 6, 7)
"""Figure 4: links 1 to 3 shared, 4 to 6 to effector 2, 7 to 9 to effector 1."""

ELEVEN: Final = (*NINE, 0, 9)  # Figure 7: and 10, 11 on link 1 to effector 3
LEANING: Final = (65.0, 115.0, 90.0, 140.0, 230.0, 150.0, 40.0, 140.0, 60.0, 100.0, -10.0)
"""Where the links of either point to at the start of Figures 5 to 9, in the world [°]."""

REACHING: Final = (55.0, 25.0, -5.0, 25.0, -5.0, -35.0, 150.0, 80.0, 20.0)  # The same for Figures 11 to 14
BENT: Final = (55.0, 25.0, -5.0, 45.0, -80.0, -80.0, 150.0, 80.0, 20.0)
"""The same for Figure 15: the sixth joint begins straight, and without its limit would bend the other way."""


def linkage_with(effectors: Sequence[int]) -> Linkage:
    """The tree with two effectors, P9 and P6, or that with more."""
    parents = NINE if len(effectors) == 2 else ELEVEN
    return Linkage.planar([1.0] * len(parents), parents, effectors)


def relative(directions: Sequence[float], parents: Sequence[int]) -> FloatArray:
    """Angles between links (n,) [rad] from where they point to in the world [°]."""
    world = np.radians(directions[: len(parents)])
    return np.array([world[i] - (world[p] if p >= 0 else 0.0) for i, p in enumerate(parents)])


# ---------------------------------------------------------------- Figure 3: a path to the target

CHAIN_START: Final = (75.0, -50.0, -40.0)  # Angles of the three links [°]
CHAIN_TARGET: Final = (-1.6, 1.0)
PATH_POINTS: Final = 9
GAMMAS: Final = (0.0, 0.1, 0.3, 0.6)
MOST_ITERATIONS: Final = 200  # Of the minimisation for one point
SOLVED: Final = 1e-6  # To how many links a point counts as solved for exactly


def _distance_to_way(point: FloatArray, corners: FloatArray) -> float:
    """From a point (2,) to the lines between corners (K, 2)."""
    along = np.diff(corners, axis=0)
    part = np.einsum("kd,kd->k", point - corners[:-1], along) / np.einsum("kd,kd->k", along, along)
    nearest = corners[:-1] + np.clip(part, 0.0, 1.0)[:, None] * along
    return float(np.linalg.norm(point - nearest, axis=1).min())


def solve_path(gamma: float, points: int, *, arc: bool = False) -> SimpleNamespace:
    """Figure 3: minimise |X − f(q)|² + γ²|q|², for each point of the path from the answer before.

    Args:
        gamma: γ.
        points: M; 0 solves for the target at once.
        arc: Whether the path is the arc.

    Returns:
        targets (S, 2) and tips (S + 1, 2) of the path, wandered (I + 1, 2), where the tip was at each
        iteration, and how far the tip strayed from the way along the targets (detour), how far it ended
        from the target (miss), how far a joint turned between two points (turned) [rad] and the largest
        difference of two such turns (jerked) [rad].
    """
    chain = Linkage.planar([1.0] * 3, (-1, 0, 1), (2,))
    q = np.radians(CHAIN_START)
    start = chain.at(q).tips[0, 0]
    inner = target_path([*start, 0.0], [*CHAIN_TARGET, 0.0], points, arc=arc)[:, :2]
    targets = np.concatenate([inner, [CHAIN_TARGET]])
    every, wandered = [q], [start]
    for target in targets:

        def cost(values: FloatArray, target: FloatArray = target) -> tuple[float, FloatArray]:
            placed = chain.at(values)
            return penalized_error(target - placed.tips[0, 0], placed.stacked[0], values, gamma)

        descent = BoundedDescent(cost, q, np.full(3, -pi), np.full(3, pi), tolerance=1e-8)
        while not descent.converged and descent.iterations < MOST_ITERATIONS:
            descent.iterate()
            wandered.append(chain.at(descent.values).tips[0, 0])
        q = np.array(descent.values)
        every.append(q)
    tips, corners = chain.at(np.array(every)).tips[:, 0], np.concatenate([[start], targets])
    return SimpleNamespace(
        targets=targets,
        tips=tips,
        wandered=np.array(wandered),
        detour=max(_distance_to_way(tip, corners) for tip in wandered),
        miss=float(np.linalg.norm(tips[-1] - targets[-1])),
        turned=float(np.abs(np.diff(every, axis=0)).max()),
        jerked=float(np.abs(np.diff(every, 2, axis=0)).max()) if points else 0.0,
    )


def path_finding() -> Finding:
    """Figure 3."""
    straight = {gamma: solve_path(gamma, PATH_POINTS) for gamma in GAMMAS}
    at_once = {gamma: solve_path(gamma, 0) for gamma in GAMMAS}
    arcs = {gamma: solve_path(gamma, PATH_POINTS, arc=True) for gamma in GAMMAS}
    misses = [straight[gamma].miss for gamma in GAMMAS]
    kept, left, curved = straight[0.0], at_once[0.0], arcs[0.0]
    distances = np.diff(np.linalg.norm(curved.tips, axis=1))
    told = [f"{miss:.2g} at {gamma:g}" for gamma, miss in zip(GAMMAS, misses, strict=True)]

    def draw(panels: Sequence[Axes]) -> None:
        for panel, runs, title in zip(
            panels, (at_once, straight, arcs), ("at once", "along the segment", "along the arc"), strict=True
        ):
            for colour, (gamma, run) in zip(COLOURS, runs.items(), strict=False):
                way = run.wandered if runs is at_once else run.tips
                panel.plot(*way.T, ".-", color=colour, lw=1.2, ms=4, label=f"γ = {gamma:g}")
            panel.plot(*kept.tips[0], "o", color=INK, ms=6)
            panel.plot(*runs[0.0].targets.T, "*", color=INK, ms=8, mfc="none", label="targets")
            panel.set_title(title)
            panel.set_aspect("equal", adjustable="datalim")

    return Finding(
        title="Figure 3: a path to the target",
        holds=(
            kept.detour < left.detour,
            kept.turned < left.turned,
            curved.jerked < kept.jerked,
            bool(np.ptp(distances) < SOLVED),
            bool((np.diff(misses) > 0.0).all()),
        ),
        facts=locals(),
        picture=Picture("ki-sheen-3", (9.0, 3.2), 3, draw),
    )


# ---------------------------------------------------------------- Figures 5, 6, 8, 9: several effectors

MOVES: Final = ((0.0, -1.0), (-1.0, -1.0), (1.0, -1.0), (0.0, -1.0))
"""Of P9, P6, P11 and P2 (eq. 6.5 and Example 6.21)."""

MOVE_STEPS: Final = 20
ROUNDING: Final = 1e-9  # What two ways to compute the same may differ by [1]
ON_THE_WAY: Final = 0.05
"""Largest distance from its target at which an effector follows it, in links: the size of a step."""


def inverted(inverse: Callable[[FloatArray], FloatArray]) -> Rule:
    """The step by one of the papers' inverses of the Jacobians (E, 2, n), with z = 0."""
    return lambda placed, error, angles: inverse(placed.jacobian[0]) @ error


TWO: Final = inverted(lambda jacobians: two_effector_inverse(*jacobians)[0])  # Eq. 5.1.
THREE: Final = inverted(lambda jacobians: three_effector_inverse(*jacobians)[0])  # Theorem 6.8
RECURSION: Final = inverted(lambda jacobians: prioritized_inverse(list(jacobians))[0])
"""Definitions 6.14 and 6.15."""


def shortest(placed: PlacedLinkage, error: FloatArray, angles: FloatArray) -> FloatArray:
    """Moore and Penrose's inverse of all rows."""
    del angles
    return pseudo_inverse_step(placed.stacked[0], error)


def walk(linkage: Linkage, moves: Sequence[tuple[float, float]], rule: Rule, steps: int = MOVE_STEPS) -> Walk:
    """Move the effectors along straight lines, from LEANING."""
    start = relative(LEANING, linkage.parents)
    parts = np.arange(1, steps + 1)[:, None, None] / steps
    return follow(linkage, start, linkage.at(start).tips + parts * np.array(moves), rule)


def effectors_finding(
    title: str,
    effectors: Sequence[int],
    moves: Sequence[tuple[float, float]],
    rules: Sequence[Rule],
    before: tuple[str, Sequence[int], Sequence[tuple[float, float]], Rule] | None = None,
) -> Finding:
    """One of the figures with several effectors: the paper's forms against the pseudo-inverse of all rows.

    With `before`, name, effectors, moves and rule of the figure before, both are drawn.
    """
    linkage = linkage_with(effectors)
    plain = walk(linkage, moves, shortest)
    walks = [walk(linkage, moves, rule) for rule in rules]
    last = walks[0]
    facts: dict[str, object] = {"distances": last.distances, "end": last.distances[-1]}
    holds = [bool(last.distances.max() < ON_THE_WAY)]
    holds += [bool(np.abs(each.angles - plain.angles).max() < ROUNDING) for each in walks]
    still = [i for i, move in enumerate(moves) if move == (0.0, 0.0)]
    if still:
        rest = last.placed.tips[:, still]
        moved = float(np.linalg.norm(rest - rest[0], axis=-1).max())
        joints = float(np.abs(last.angles[-1] - last.angles[0])[3:6].max())
        facts |= {"moved": moved, "joints": joints}
        holds.append(moved < ON_THE_WAY < joints)
    if before is None:
        return Finding(title, holds, facts)
    name, others, other_moves, rule = before

    def draw(panels: Sequence[Axes]) -> None:
        pictured = ((name, walk(linkage_with(others), other_moves, rule)), (title.split(": ")[1], last))
        for panel, (heading, walked) in zip(panels, pictured, strict=True):
            draw_walk(panel, walked)
            panel.set_title(heading)

    number = int(title.split()[1].rstrip(":"))
    picture = Picture(f"ki-sheen-{number - 1}-{number}", (8.4, 3.9), 2, draw)
    return Finding(title, holds, facts, picture)


def several_findings() -> list[Finding]:
    """Figures 5, 6, 8 and 9."""
    two, three, four = (8, 5), (8, 5, 10), (8, 5, 10, 1)
    both = "both effectors move", two, MOVES[:2], TWO
    all_three = "three effectors", three, MOVES[:3], THREE
    return [
        effectors_finding("Figure 5: both effectors move", two, MOVES[:2], (TWO, RECURSION)),
        effectors_finding(
            "Figure 6: only one moves", two, (MOVES[0], (0.0, 0.0)), (TWO, RECURSION), before=both
        ),
        effectors_finding("Figure 8: three effectors", three, MOVES[:3], (THREE, RECURSION)),
        effectors_finding(
            "Figure 9: a fourth effector is added", four, MOVES, (RECURSION,), before=all_three
        ),
    ]


def draw_walk(panel: Axes, walked: Walk, every: int = 4) -> None:
    """Start, end and some poses between, with the targets."""
    last = len(walked.angles) - 1
    ends = {0: ("0.45", 2.0, 3.5), last: (COLOURS[0], 2.2, 3.5)}
    for frame in [*range(every, last, every), 0, last]:
        colour, width, size = ends.get(frame, ("0.8", 1.0, 2.5))
        for line in walked.placed.links(frame):
            panel.plot(*line.T, "-o", color=colour, lw=width, ms=size)
    for targets in np.swapaxes(walked.targets, 0, 1):
        panel.plot(*targets.T, ":", color=COLOURS[1], lw=1.0)
        panel.plot(*targets[-1], "x", color=COLOURS[3], ms=8, mew=2)
    panel.set_aspect("equal", adjustable="datalim")


# ---------------------------------------------------------------- Figures 11 to 15, Table 1: damping, limits

PRINTED: Final = stored("papers/ki_sheen")
"""Captions of Figures 11 to 14, and Table 1: figure; c, s₁, s₄; condition number, lower and upper bound, and
the unit of each one's last digit."""
LAST_DIGIT: Final = 1e-4  # Unit of the last digit of the printed singular values
WAY_STEPS: Final = 40
WAY_START, WAY_FARTHEST = (4.4, 2.4), 6.2
"""Where the target of P6 begins, and its largest x; the chain can reach 6."""
LIMITED_JOINT: Final = 5  # The sixth, which has limits of its own in Example 7.4
LIMITED_RANGE: Final = (-pi, 0.0)  # These [rad]
LIMIT_DAMPING: Final = 0.25


def way() -> FloatArray:
    """Targets of P6, (WAY_STEPS + 1, 2): outward through where the chain is stretched, and back."""
    part = np.linspace(0.0, 1.0, WAY_STEPS + 1)
    x0, y0 = WAY_START
    return np.stack([x0 + (WAY_FARTHEST - x0) * np.sin(pi * part), y0 * (1.0 - 2.0 * part)], axis=1)


def damped(c: float) -> Rule:
    """Eq. 7.2 for both effectors together."""
    return lambda placed, error, angles: damped_step(placed.stacked[0], error, c)


def bounded(c: float, lower: FloatArray, upper: FloatArray) -> Rule:
    """Eq. 7.4 and 7.5."""
    return lambda placed, error, angles: bounded_least_squares_step(
        placed.stacked[0], error, lower - angles, upper - angles, c
    )


def limits() -> tuple[FloatArray, FloatArray]:
    """Of Example 7.4, (9,) each [rad]."""
    lower, upper = np.full(9, -pi), np.full(9, pi)
    lower[LIMITED_JOINT], upper[LIMITED_JOINT] = LIMITED_RANGE
    return lower, upper


def stretched(rule: Rule, directions: Sequence[float] = REACHING, beside: FloatArray | float = 0.0) -> Walk:
    """Lead P6 along `way` while P9 is held, from a pose brought to the beginning of the way, or beside it."""
    linkage, targets = linkage_with((8, 5)), way()
    start = relative(directions, NINE)
    held = linkage.at(start).tips[0, 0]
    first = np.tile([held, targets[0]], (WAY_STEPS, 1, 1))
    start = follow(linkage, start, first, bounded(LIMIT_DAMPING, *limits())).angles[-1]
    both = np.stack([np.broadcast_to(held, (WAY_STEPS, 2)), targets[1:]], axis=1)
    return follow(linkage, start + beside, both, rule)


def condition_number(s: Any, c: float) -> Any:
    """Of (JᵀJ + c²I) dq = Jᵀe, from the largest singular value of J [Lemma 7.1]."""
    return (s**2 + c**2) / c**2


def part_left(s: Any, c: float) -> Any:
    """Of e by a damped step along a singular vector; in all between those of s₁ and s_m [Lemma 7.2]."""
    return c**2 / (s**2 + c**2)


class DampedRun:
    """Figures 11 to 14: what one damping does."""

    def __init__(self, figure: int, c: float) -> None:
        self.figure, self.c, self.walked = figure, c, stretched(damped(c))
        jacobians = self.walked.placed.stacked[:-1]
        errors = (self.walked.targets - self.walked.placed.tips[:-1]).reshape(len(jacobians), -1)
        left = errors - np.einsum("smn,sn->sm", jacobians, np.diff(self.walked.angles, axis=0))
        parts = np.linalg.norm(left, axis=1) / np.linalg.norm(errors, axis=1)  # |e − J dq| / |e| of each step
        singular = np.linalg.svd(jacobians, compute_uv=False)  # (S, 4)
        lower, upper = part_left(singular[:, 0], c), part_left(singular[:, -1], c)
        self.within = bool(((parts >= lower - ROUNDING) & (parts <= upper + ROUNDING)).all())
        """Whether each step keeps to Lemma 7.2."""
        worst = int(singular[:, -1].argmin())
        self.largest, self.smallest = singular[worst, 0], singular[worst, -1]
        """The singular values s₁ and s₄ at the step with the smallest s₄."""
        self.lower, self.left, self.upper = lower[worst], parts[worst], upper[worst]
        """What is left of the error there, between its bounds [1]."""
        self.condition = float(condition_number(self.largest, c))
        self.misses = self.walked.distances[:, 1]
        """Of P6, (S,)."""
        self.mean, self.turn = float(self.misses.mean()), float(self.walked.steps.max())
        """Their mean, and the largest change of an angle in a step [rad]."""


def agrees(function: Callable[[float], float], value: float, printed: float, unit: float) -> bool:
    """Whether a printed result can come from a printed argument, both rounded to their last digit."""
    ends = sorted(function(value + side * 0.5 * LAST_DIGIT) for side in (-1.0, 1.0))
    return ends[0] - 0.5 * unit <= printed <= ends[1] + 0.5 * unit


def table_finding() -> Finding:
    """Table 1, from the singular values in the captions."""
    rows: list[SimpleNamespace] = []
    for _, c, s1, s4, *printed in PRINTED:
        for what, function, argument, (value, unit) in zip(
            ("condition number", "lower bound", "upper bound"),
            (condition_number, part_left, part_left),
            (s1, s1, s4),
            printed,
            strict=True,
        ):
            own = partial(function, c=c)
            agree, ours = agrees(own, argument, value, unit), own(argument)
            rows.append(SimpleNamespace(c=c, what=what, s=argument, printed=value, ours=ours, agree=agree))
    return Finding(
        title="Table 1: condition numbers and bounds of the residual",
        holds=(all(row.agree for row in rows),),
        facts={"rows": rows},
    )


UNDAMPED_RUNS: Final = 9  # From starts that are a hair apart
BITES: Final = 10.0  # How far beyond its limit a joint must want to go in Figure 15 [°]


def damping_finding() -> Finding:
    """Figures 10 to 14."""
    hairs = HAIR * np.random.default_rng(4).uniform(-1.0, 1.0, (UNDAMPED_RUNS, 9))
    plain = [stretched(shortest, beside=hair) for hair in hairs]
    strays = np.array([walked.distances[:, 1].max() for walked in plain])
    runs = [DampedRun(figure, c) for figure, c, *_ in PRINTED]
    weak, calm, steady, strong = runs
    turns = [walked.steps.max() for walked in plain]
    means = [walked.distances[:, 1].mean() for walked in plain]
    times = strong.mean / calm.mean

    def draw(panels: Sequence[Axes]) -> None:
        for panel, run in zip(panels, runs, strict=True):
            draw_walk(panel, run.walked, every=5)
            panel.plot(*run.walked.placed.tips[:, 1].T, "-", color=COLOURS[2], lw=1.5)
            panel.set_title(f"Figure {run.figure}: c = {run.c:g}")

    return Finding(
        title="Figures 10 to 14: damping",
        holds=(
            bool(strays.min() > 2.0 * calm.misses.max()),
            all(a.condition > b.condition and a.smallest < b.smallest for a, b in pairwise(runs)),
            all(run.within for run in runs),
            weak.turn == max(run.turn for run in runs) and weak.turn > 3.0 * steady.turn,
            strong.mean == max(run.mean for run in runs) and strong.mean > 3.0 * calm.mean,
        ),
        facts=locals(),
        picture=Picture("ki-sheen-11-14", (9.0, 7.6), 2, draw, rows=2),
    )


def limits_finding() -> Finding:
    """Figure 15."""
    lower, upper = limits()
    free, walked = (
        stretched(rule, BENT) for rule in (damped(LIMIT_DAMPING), bounded(LIMIT_DAMPING, lower, upper))
    )
    joint = LIMITED_JOINT
    beyond = float(np.maximum(walked.angles - upper, lower - walked.angles).max(initial=0.0))
    beyond_free = float((free.angles[:, joint] - upper[joint]).max())
    misses, misses_free = walked.distances[:, 1], free.distances[:, 1]
    held = int((walked.angles[1:, joint] >= upper[joint] - ROUNDING).sum())

    def draw(panels: Sequence[Axes]) -> None:
        draw_walk(panels[0], walked, every=5)
        panels[0].plot(*walked.placed.tips[:, 1].T, "-", color=COLOURS[2], lw=1.5)
        panels[0].set_title("Figure 15: c = 0.25, −π < q₆ < 0")
        for run, colour, label in ((free, COLOURS[1], "free"), (walked, COLOURS[0], "limited")):
            panels[1].plot(np.degrees(run.angles[:, joint]), color=colour, label=label)
        panels[1].axhline(0.0, color=INK, lw=0.8, ls="--")
        panels[1].set(xlabel="step", ylabel="q₆ [°]")

    return Finding(
        title="Figure 15: limits",
        holds=(
            beyond <= ROUNDING,
            beyond_free > radians(BITES) and held > 0,
            float(misses.mean()) < 1.5 * float(misses_free.mean()),
        ),
        facts=locals(),
        picture=Picture("ki-sheen-15", (9.0, 3.9), 2, draw),
    )


def findings() -> Iterator[Finding]:
    """All of the paper."""
    yield path_finding()
    yield from several_findings()
    yield damping_finding()
    yield table_finding()
    yield limits_finding()
