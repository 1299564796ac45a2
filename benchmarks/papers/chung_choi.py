# SPDX-License-Identifier: GPL-3.0-or-later
"""Table 1 of [ChungChoi1994]: a planar arm of three links goes round a square, with springs and without.

All starts go round together, one on each frame axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS
from benchmarks.page import stored
from blender_ik_addon.core.arrays import FloatArray, times
from blender_ik_addon.core.methods.step_rules import pseudo_inverse, spring_inverse

from .findings import Finding, Picture
from .linkages import Linkage

STIFFNESS: Final = (1.0, 1.0, 1.0)
FREE_ANGLES: Final = (5.0, 10.0, 0.0)  # [°]
SIDE: Final = 0.1  # Of the square [m]
STEPS: Final = 1000  # Of a side: 10 mm/s with Δt = 0.01 s
CYCLES: Final = 10
CORNERS: Final = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
"""Directions of the sides, counter-clockwise from the lower left corner."""

TABLE: Final = SimpleNamespace(**stored("papers/chung_choi"))
"""Table 1: angles at the starts [°], their drift after ten cycles with springs and with Moore and Penrose's
inverse, the rows DIFF. [°], the Lie-bracket condition of both at the starts, and the angles after ten cycles
with springs, the rows 10 [°]."""

NEAR: Final = 0.35
"""How far a drift may be from the table's [°]: an Euler step of another precision moves it by tenths."""
SPRING_DRIFT: Final = 0.13  # Largest drift with springs [°]: the largest of the table
NEAR_BRACKET: Final = 0.005  # Half of the last digit that the table gives of a bracket
DIFFERENCE_STEP: Final = 1e-3
"""Of the differences in brackets [rad]: truncation about its fourth power, rounding about 1e-16 by it."""
NO_BRACKET: Final = 1e-6  # A bracket that is none: the paper's own are up to 2.5e-7

Control = Callable[[FloatArray], FloatArray]  # P (F, 3, 2) of angles (F, 3)


def arm() -> Linkage:
    """Three links of 1 m."""
    return Linkage.planar([1.0] * 3, (-1, 0, 1), (2,))


def jacobian_and_hessian(linkage: Linkage, angles: FloatArray) -> tuple[FloatArray, FloatArray]:
    """J (F, 2, 3) and G (F, 3, 3) for the forces that bear the springs."""
    placed = linkage.at(angles)
    J, away = placed.stacked, angles - np.radians(FREE_ANGLES)
    # f = (JK⁻¹Jᵀ)⁻¹J(θ − θ₀)
    forces = times(pseudo_inverse(J / STIFFNESS @ J.swapaxes(1, 2)), times(J, away))
    return J, placed.hessian(forces[:, None, :])


def springs(linkage: Linkage, angles: FloatArray) -> FloatArray:
    """The general pseudo-inverse."""
    jacobian, hessian = jacobian_and_hessian(linkage, angles)
    return spring_inverse(jacobian, np.array(STIFFNESS), hessian)[0]


def plain(linkage: Linkage, angles: FloatArray) -> FloatArray:
    """Moore and Penrose's."""
    return pseudo_inverse(linkage.at(angles).stacked)


def go_round(control: Control, *, cycles: int = CYCLES, steps: int = STEPS) -> FloatArray:
    """Angles at the end of each cycle, the start first, (cycles + 1, 3 starts, 3) [rad], by Euler steps."""
    angles = np.radians(TABLE.starts)
    ends = [angles]
    for _ in range(cycles):
        for direction in CORNERS:
            change = SIDE / steps * np.array(direction)
            for _ in range(steps):
                angles = angles + control(angles) @ change
        ends.append(angles)
    return np.array(ends)


def drift(ends: FloatArray) -> FloatArray:
    """Change of the angles since the start after each cycle, (cycles, 3 starts, 3) [rad]."""
    return ends[1:] - ends[0]


def bracket(control: Control, angles: FloatArray) -> float:
    """The number det [P₁ P₂ [P₁, P₂]] at angles (3,), [P₁, P₂] = (∂P₂/∂q) P₁ − (∂P₁/∂q) P₂.

    The control leads back to the same angles on every closed path where it is 0: the Lie-bracket condition.
    The derivative is by central differences of the fourth order.
    """
    steps = DIFFERENCE_STEP * np.eye(3)
    near, far = (control(angles + k * steps) - control(angles - k * steps) for k in (1.0, 2.0))
    slope = (8.0 * near - far) / (12.0 * DIFFERENCE_STEP)  # (3 joints, 3, 2)
    P = control(angles[None])[0]
    lie = P[:, 0] @ slope[..., 1] - P[:, 1] @ slope[..., 0]
    return float(np.linalg.det(np.column_stack([P, lie])))


COARSE: Final = 10  # How much longer the steps are with which the origin of the springs' drift is looked for


def stability(linkage: Linkage) -> tuple[FloatArray, FloatArray]:
    """Least eigenvalue of A at each start, and A along the motion that leaves the end where it is, (3,)."""
    jacobian, hessian = jacobian_and_hessian(linkage, np.radians(TABLE.starts))
    a = np.diag(STIFFNESS) - hessian
    along = np.linalg.svd(jacobian)[2][:, -1]  # (3, 3): the null space has one dimension
    least: FloatArray = np.asarray(np.linalg.eigvalsh(a)[:, 0], dtype=np.float64)
    return least, np.einsum("fi,fij,fj->f", along, a, along)


def wrong_differences() -> str:
    """Where the rows DIFF. of Table 1 are not the differences of the rows above them."""
    found = np.array(TABLE.after) - np.array(TABLE.starts)
    off = np.abs(found - TABLE.springs) > 1.5e-4
    return ", ".join(
        f"{TABLE.springs[row][joint]:.4f} for {found[row, joint]:.4f} (start {row + 1}, θ{joint + 1})"
        for row, joint in np.argwhere(off)
    )


class Cycles:
    """What one of the inverses does from all starts, beside what is printed of it."""

    def __init__(
        self,
        rule: Callable[[Linkage, FloatArray], FloatArray],
        drifts: Sequence[Sequence[float]],
        column: int,
    ) -> None:
        control = partial(rule, arm())
        self.drifts = np.degrees(drift(go_round(control)))
        """After each cycle, (cycles, 3 starts, 3) [°]."""
        now, brackets = (
            self.drifts[-1],
            np.array([bracket(control, np.radians(start)) for start in TABLE.starts]),
        )
        wanted = np.array([row[column] for row in TABLE.brackets])
        self.largest, self.off = float(np.abs(now).max()), float(np.abs(now - drifts).max())
        self.bracket, self.off_bracket = np.abs(brackets).max(), np.abs(brackets - wanted).max()
        self.rows = [
            SimpleNamespace(start=start, printed=printed, ours=ours, wanted=bracket, bracket=own)
            for start, printed, ours, bracket, own in zip(
                TABLE.starts, drifts, now, wanted, brackets, strict=True
            )
        ]


def findings() -> Iterator[Finding]:
    """Table 1."""
    held, free = Cycles(springs, TABLE.springs, 0), Cycles(plain, TABLE.plain, 1)
    coarse = drift(go_round(partial(springs, arm()), cycles=1, steps=STEPS // COARSE))
    growth = float(np.degrees(np.abs(coarse).max()) / np.abs(held.drifts[0]).max())
    (least, along), wrong = stability(arm()), wrong_differences()

    def draw(panels: Sequence[Axes]) -> None:
        for panel, name, drifted in zip(
            panels, ("Moore-Penrose", "springs"), (free.drifts, held.drifts), strict=True
        ):
            for start in range(len(TABLE.starts)):
                for joint, style in enumerate(("-", "--", ":")):
                    label = f"start {start + 1}" if joint == 0 else None
                    panel.plot([0.0, *drifted[:, start, joint]], style, color=COLOURS[start], label=label)
            panel.set(title=name, xlabel="cycles")
        panels[0].set_ylabel("drift [°]")

    yield Finding(
        title="Table 1: drift over ten cycles",
        holds=(
            free.off <= NEAR,
            held.largest <= SPRING_DRIFT,
            0.5 * COARSE < growth < 2.0 * COARSE,
            free.off_bracket <= NEAR_BRACKET and held.bracket <= NO_BRACKET,
        ),
        facts=locals(),
        picture=Picture("chung-choi-1", (9.0, 3.3), 2, draw),
    )
