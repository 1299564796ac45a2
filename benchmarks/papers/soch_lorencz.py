# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures 4 to 6 of [SochLorencz2005]: a stretched chain follows an ellipse with two methods."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS, INK
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods import extended_jacobian_step, planar_elements, pseudo_inverse_step

from .findings import Chapter, Check, Finding, Picture
from .joint_limits import limits_finding
from .linkages import Linkage, PlacedLinkage, Rule, Walk, follow

LENGTHS: Final = (90.0, 60.0, 90.0, 150.0, 150.0, 90.0)
BASE: Final = (-230.0, 0.0)
ELLIPSE: Final = (400.0, 50.0)
"""Half its axes; its middle is the origin."""
STEPS_ROUND: Final = 360
"""Steps for the whole ellipse. The paper does not tell; with these the largest distance fits Figure 4."""
AXIS: Final = (200.0, 250.0)
"""Between which the largest distance in Figure 4 must be, as its axis is drawn up to 250."""
FIRST: Final = 7
"""Steps that Figure 4 shows."""
SHOWN: Final = (0, 2, 3, 4, 5, 10)
"""Steps that Figure 5 shows, the start first."""
WEIGHTS: Final = (1.0, 0.1, 1e-2, 1e-4, 1e-6, 1e-8)
"""w of the added rows."""
SAME: Final = (1e-2, 1e-6)
"""Largest and least weight between which nothing changes any more."""
LOST: Final = 1e-8
"""A weight that is lost in rounding."""
OTHER_STEPS: Final = (90, 180, 720)
"""Other numbers of steps, to see what of the figure is theirs."""


def chain() -> Linkage:
    """Six segments."""
    return Linkage.planar(LENGTHS, range(-1, 5), (5,), BASE)


def ellipse(steps: int, steps_round: int = STEPS_ROUND) -> FloatArray:
    """Targets after the start, (steps, 1, 2)."""
    angle = 2.0 * pi * np.arange(1, steps + 1) / steps_round
    return np.stack([ELLIPSE[0] * np.cos(angle), ELLIPSE[1] * np.sin(angle)], axis=1)[:, None]


def inversion(placed: PlacedLinkage, error: FloatArray, angles: FloatArray) -> FloatArray:
    """Eq. 4."""
    del angles
    return pseudo_inverse_step(placed.stacked[0], error.ravel())


def extended(weight: float = 1.0) -> Rule:
    """Eq. 9 with the displacements of all basic elements 0."""

    def rule(placed: PlacedLinkage, error: FloatArray, angles: FloatArray) -> FloatArray:
        elements = planar_elements(np.array(LENGTHS), angles)
        return extended_jacobian_step(placed.stacked[0], error.ravel(), elements, weight=weight)

    return rule


def walk(rule: Rule, steps: int = SHOWN[-1], steps_round: int = STEPS_ROUND) -> Walk:
    """From the stretched chain."""
    return follow(chain(), np.zeros(len(LENGTHS)), ellipse(steps, steps_round), rule)


def recovery_finding(inverse: Walk, added: Walk) -> Finding:
    """Figures 4, 5 and 6."""
    jump, calm = inverse.distances[:FIRST, 0], added.distances[:FIRST, 0]
    turns, calm_turns = np.degrees(inverse.steps), np.degrees(added.steps)
    elements = planar_elements(np.array(LENGTHS), added.angles)
    jacobians = added.placed.stacked
    bare = np.linalg.svd(jacobians, compute_uv=False)[:, -1]
    whole = np.linalg.svd(np.concatenate([elements, jacobians], axis=1), compute_uv=False)[:, -1]
    others = [
        (steps, walk(inversion, FIRST, steps).distances.max(), walk(extended(), FIRST, steps).distances.max())
        for steps in OTHER_STEPS
    ]
    rows = [("step", *(f"{i}" for i in range(1, FIRST + 1)))]
    rows.append(("pseudo-inverse", *(f"{d:.2f}" for d in jump)))
    rows.append(("extended Jacobian", *(f"{d:.2f}" for d in calm)))

    def draw(panels: Sequence[Axes]) -> None:
        steps = np.arange(FIRST + 1)
        for values, colour, label in (
            (calm, COLOURS[0], "extended Jacobian"),
            (jump, COLOURS[3], "pseudo-inverse"),
        ):
            panels[0].plot(steps, np.concatenate([[0.0], values]), "o-", color=colour, label=label)
        panels[0].set_xlabel("step")
        panels[0].set_ylabel("distance from the wanted place")
        panels[0].set_title("Figure 4", fontsize=10)
        panels[0].legend(fontsize=8)
        panels[0].grid(alpha=0.25)
        angle = np.linspace(0.0, 2.0 * pi, 200)
        for panel, walked, title in (
            (panels[1], inverse, "Figure 5: pseudo-inverse"),
            (panels[2], added, "Figure 6: extended Jacobian"),
        ):
            panel.plot(ELLIPSE[0] * np.cos(angle), ELLIPSE[1] * np.sin(angle), ":", color="0.5", lw=1.0)
            for number, step in enumerate(SHOWN):
                lines = np.array(walked.placed.links(step))  # (6, 2, 2)
                way = np.concatenate([lines[:, 0], lines[-1:, 1]])
                colour = INK if step == 0 else COLOURS[number - 1]
                panel.plot(
                    *way.T, "o-", ms=2.5, lw=1.3, color=colour, label=f"step {step}" if step else "start"
                )
            panel.set_aspect("equal", adjustable="datalim")
            panel.set_title(title, fontsize=10)
            panel.grid(alpha=0.25)
        panels[1].legend(fontsize=7)

    return Finding(
        title="Figures 4, 5 and 6: leaving the stretched pose",
        claim="The Jacobian inversion makes a big jump when it leaves the stretched pose, the extended "
        "Jacobian recovers well, as its rank is full in any pose.",
        checks=(
            Check(
                f"the pseudo-inverse jumps at step {int(jump.argmax()) + 1} to {jump.max():.0f} points from "
                f"the wanted place, turning a joint by {turns.max():.0f}°, and is back within {jump[-1]:.1f} "
                f"at step {FIRST}",
                AXIS[0] < jump.max() < AXIS[1],
            ),
            Check(
                f"the extended Jacobian stays within {calm.max():.2f} and turns no joint by more than "
                f"{calm_turns.max():.1f}° a step",
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
        reading=f"The number of steps is not told; {STEPS_ROUND} for the ellipse give a highest point that "
        f"fits the axis of Figure 4, which is drawn to {AXIS[1]:.0f}. At the start itself the first row of J "
        "is exactly 0, so that the SVD leaves it out and the jump comes one step later, as in the paper's "
        "pictures. The tip's displacement is taken from where the tip is, not from where it should have "
        "been.",
        table=tuple(rows),
        picture=Picture(
            "soch-lorencz-4-6",
            "Distance over the first steps, and the poses of both methods.",
            (12.0, 3.6),
            (1, 3),
            draw,
        ),
    )


def normal_equations(weight: float) -> str:
    """What becomes of the way in which the paper solves its least squares, in words."""

    def rule(placed: PlacedLinkage, error: FloatArray, angles: FloatArray) -> FloatArray:
        elements = weight * planar_elements(np.array(LENGTHS), angles)
        rows = np.concatenate([elements, placed.stacked[0]])
        wanted = np.concatenate([np.zeros(len(elements)), error.ravel()])
        return np.asarray(np.linalg.solve(rows.T @ rows, rows.T @ wanted), dtype=np.float64)

    try:
        largest = walk(rule).distances.max()
    except np.linalg.LinAlgError:
        return f"at w = {weight:g} they have no solution"
    return f"at w = {weight:g} they bring a jump of {largest:.0f}"


def weight_finding() -> Finding:
    """What the paper says of w, beside the figures."""
    walks = {weight: walk(extended(weight)) for weight in WEIGHTS}
    rows = [
        ("w", f"largest distance in {SHOWN[-1]} steps", "largest turn in a step [°]", "distance at the last")
    ]
    for weight, walked in walks.items():
        distances = walked.distances[:, 0]
        turn = np.degrees(walked.steps).max()
        rows.append((f"{weight:g}", f"{distances.max():.2f}", f"{turn:.1f}", f"{distances[-1]:.3f}"))
    small = [walks[weight].distances[:, 0] for weight in WEIGHTS if SAME[1] <= weight <= SAME[0]]
    apart = float(np.ptp(small, axis=0).max())
    calm, lost = max(float(d.max()) for d in small), float(walks[LOST].distances.max())
    normal = normal_equations(LOST)
    lagging = float(walks[1.0].distances[-1, 0])
    return Finding(
        title="The weight of the added rows",
        claim="With w → 0 the behaviour stays what it is, other than that of the pseudo-inverse, and the "
        "ability to recover disappears.",
        checks=(
            Check(
                f"from w = {SAME[0]:g} to {SAME[1]:g} the distances differ by {apart:.1e} and none is above "
                f"{calm:.2f}: no jump",
                apart < 0.01 * calm and calm < 0.05 * AXIS[0],
            ),
            Check(
                f"the ability to recover stays as well: a jump, of {lost:.0f}, comes only at w = {LOST:g}, "
                "which is lost in rounding",
                calm > AXIS[0],
                required=False,
            ),
        ),
        reading="As w falls, the answer goes to that which moves the elements least among those that move "
        "the tip as asked, which exists for any w > 0. The paper's way to solve it, normal equations and "
        f"LU, squares w: {normal}. Small weights follow better than w = 1, which lags by {lagging:.2f} at "
        "the last step, as the error is shared between the tip and the elements.",
        table=tuple(rows),
    )


def chapter() -> Chapter:
    """All of the paper."""
    inverse, added = walk(inversion), walk(extended())
    return Chapter(
        "Šoch and Lórencz: a new extended Jacobian",
        f"Six segments of {', '.join(f'{length:g}' for length in LENGTHS)} from {BASE}, all in one line, so "
        f"that the tip is at the end of the ellipse with half axes {ELLIPSE[0]:g} and {ELLIPSE[1]:g} that it "
        "is to follow.",
        (recovery_finding(inverse, added), weight_finding(), limits_finding()),
    )
