# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures 4 to 6 of [SochLorencz2005]: a stretched chain follows an ellipse with two methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, pi
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS, INK
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods import extended_jacobian_step, planar_elements, pseudo_inverse_step

from .findings import HAIR, Check, Finding, Picture, span
from .joint_limits import limits_finding
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
GONE: Final = 1e-3  # The weight at which single precision no longer recovers
OTHER_STEPS: Final = (90, 180, 720)  # Other numbers of steps, to see what of the figure is theirs
RUNS: Final = 9  # Of a weight, from starts that are a little apart
BESIDE: Final = 1e-6  # Where the chain begins that is not quite stretched [rad]


def ellipse(steps: int, steps_round: int = STEPS_ROUND) -> FloatArray:
    """Targets after the start, (steps, 1, 2)."""
    angle = 2.0 * pi * np.arange(1, steps + 1) / steps_round
    return np.stack([ELLIPSE[0] * np.cos(angle), ELLIPSE[1] * np.sin(angle)], axis=1)[:, None]


def inversion(placed: PlacedLinkage, error: FloatArray, angles: FloatArray) -> FloatArray:
    """Eq. 4."""
    del angles
    return pseudo_inverse_step(placed.stacked[0], error)


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
    turn, calm_turn = (np.degrees(walked.steps.max()) for walked in (inverse, added))
    elements, jacobians = planar_elements(np.array(LENGTHS), added.angles), added.placed.stacked
    bare = np.linalg.svd(jacobians, compute_uv=False)[:, -1]
    whole = np.linalg.svd(np.concatenate([elements, jacobians], axis=1), compute_uv=False)[:, -1]
    others = [
        [steps, *(walk(rule, FIRST, steps).distances.max() for rule in (inversion, extended()))]
        for steps in OTHER_STEPS
    ]
    rows = [
        ("step", *(f"{i}" for i in range(1, FIRST + 1))),
        ("pseudo-inverse", *(f"{d:.2f}" for d in jump)),
        ("extended Jacobian", *(f"{d:.2f}" for d in calm)),
    ]

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
        checks=(
            Check(
                f"the pseudo-inverse jumps at step {int(jump.argmax()) + 1} to {jump.max():.0f} points from "
                f"the wanted place, turning a joint by {turn:.0f}°, and is back within {jump[-1]:.1f} at "
                f"step {FIRST}",
                AXIS[0] < jump.max() < AXIS[1],
            ),
            Check(
                f"the extended Jacobian stays within {calm.max():.2f} and turns no joint by more than "
                f"{calm_turn:.1f}° a step",
                calm.max() < 0.01 * jump.max(),
            ),
            Check(
                f"its rank is always full: the least singular value is {whole.min():.1f}, of J alone "
                f"{bare.min():.1g}",
                bool(whole.min() > 1.0 > bare.min()),
            ),
            Check(
                "with other numbers of steps likewise: "
                + ", ".join(f"{a:.0f} against {b:.1f} with {steps}" for steps, a, b in others),
                all(b < 0.1 * a for _, a, b in others),
            ),
        ),
        table=rows,
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
    found = {
        "largest distance": {w: walk(extended(w)).distances.max(axis=0) for w in WEIGHTS},
        f"from {BESIDE:g} rad beside": {w: largest_distances(extended(w), BESIDE) for w in WEIGHTS},
        "normal equations in single precision": {w: largest_distances(normal_equations(w)) for w in WEIGHTS},
    }
    exact, beside, single = found.values()

    def told(distances: FloatArray) -> str:
        if np.isinf(distances).all():
            return "no solution"
        some = distances[np.isfinite(distances)]
        return span(some, ".2f") + (", or no solution" if len(some) < RUNS and len(distances) == RUNS else "")

    most = max(float(exact[weight][0]) for weight in WEIGHTS)
    lagging, calm = float(walk(extended()).distances[-1, 0]), 0.05 * AXIS[0]
    return Finding(
        title="The weight of the added rows",
        checks=(
            Check(
                f"the behaviour stays: down to w = {WEIGHTS[-1]:g} the chain leaves the stretched pose "
                f"without a jump, never farther than {most:.2f} from the wanted place",
                most < calm,
            ),
            Check(
                "the ability to recover disappears in single precision, solved as in the paper: at w = 0.01 "
                f"the largest distance is {told(single[1e-2])}, at w = {GONE:g} {told(single[GONE])}, at "
                f"w = {0.1 * GONE:g} {told(single[0.1 * GONE])}",
                single[1e-2].max() < calm < 2.0 * calm < single[GONE].max(),
            ),
            Check(
                f"so it does in double precision where the chain begins {BESIDE:g} rad beside the stretched "
                f"pose: {told(beside[1e-2])} at w = 0.01, {told(beside[GONE])} at w = {GONE:g}",
                beside[1e-2].max() < calm < 2.0 * calm < beside[GONE].max(),
            ),
        ),
        facts={"lagging": lagging},
        table=[("w", *found), *((f"{w:g}", *(told(some[w]) for some in found.values())) for w in WEIGHTS)],
    )


def findings() -> Iterator[Finding]:
    """All of the paper."""
    yield recovery_finding(walk(inversion), walk(extended()))
    yield weight_finding()
    yield limits_finding()
