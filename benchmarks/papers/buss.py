# SPDX-License-Identifier: GPL-3.0-or-later
"""The Y and double-Y trees of [Buss2009]: targets in and out of reach, one update for each step.

Trees, targets and the totals to compare with come from a file; without it there is nothing to run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, pi, radians
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods.step_rules import (
    RANK_TOLERANCE,
    clamped_largest,
    clamped_magnitude,
    damped_step,
    pseudo_inverse,
    selectively_damped_step,
    transpose_step,
)

from .findings import HAIR, Finding, Picture
from .linkages import Linkage

TIME_STEP: Final = 0.005
CLOSE: Final = 0.05  # Part of the reference total [1] within which ours must be
PSEUDO_INVERSE_RANK: Final = 0.01
"""Singular values below this part of the largest [1] are left out by the author's program."""
DISTANCE: Final = 0.4  # Its Dmax, about half a link of the double Y
RUNS: Final = 9  # From starts that are a hair apart
SEED: Final = 4

StepRule = Callable[[FloatArray, FloatArray], FloatArray]
"""dq (F, n) for Jacobians (F, 3 E, n) and errors (F, 3 E)."""


@dataclass(frozen=True)
class Method:
    """A method with its clamps."""

    name: str
    rule: StepRule
    reference: str  # How the file's name of it begins; empty where it is not there
    max_angle: float = inf  # Largest change of an angle in one update [rad]
    distance: float = inf
    """Dmax: to what errors are shortened, besides what came nearer in the last step."""


def _inverted(jacobian: FloatArray, errors: FloatArray, rank: float) -> FloatArray:
    return (pseudo_inverse(jacobian, rank) @ errors[..., None])[..., 0]


def _selectively(jacobian: FloatArray, errors: FloatArray) -> FloatArray:
    return selectively_damped_step(jacobian, errors, [3] * (errors.shape[-1] // 3))


METHODS: Final = (
    Method("Jacobian transpose", transpose_step, "Jacobian transpose", radians(30.0)),
    Method("pseudo-inverse", partial(_inverted, rank=PSEUDO_INVERSE_RANK), "pseudo-inverse", radians(5.0)),
    Method("DLS, λ = 1.1", partial(damped_step, damping=1.1), "DLS lambda 1.1", pi / 4.0),
    Method("DLS, λ = 0.6", partial(damped_step, damping=0.6), "DLS lambda 0.6", pi / 4.0),
    Method("DLS′, λ = 0.7", partial(damped_step, damping=0.7), "", pi / 4.0, DISTANCE),
    Method("SDLS", _selectively, "SDLS", pi / 4.0, DISTANCE),
)


@dataclass(frozen=True)
class Experiment:
    """One of the trees, its targets (E, 3), and what was measured on it by others."""

    name: str
    linkage: Linkage
    centres: FloatArray
    amplitudes: FloatArray
    frequencies: FloatArray
    warm: int  # Steps before those that count
    steps: int
    references: dict[str, float]  # Totals by the name of the method in the file

    @classmethod
    def of(cls, content: Mapping[str, Any], key: str, name: str) -> Experiment:
        """One of a file."""
        targets = content[key]["targets"]
        every = content["protocol"]["reference_runs"]
        runs = [run for run in every if run["tree"] == key and run["iters_per_step"] == 1]
        return cls(
            name,
            Linkage.of_nodes(content[key]["nodes"]),
            *(np.array([target[part] for target in targets], float) for part in ("centre", "amp", "freq")),
            warm=int(runs[0]["warm"]),
            steps=int(runs[0]["steps"]),
            references={run["method"]: float(run["total"]) for run in runs},
        )

    def targets(self, step: int) -> FloatArray:
        """At a step, (E, 3)."""
        return self.centres + self.amplitudes * np.sin(self.frequencies * ((step + 1) * TIME_STEP))

    def reference(self, method: Method) -> float | None:
        """The total to compare with."""
        names = [name for name in self.references if method.reference and name.startswith(method.reference)]
        return self.references[names[0]] if names else None


def errors_of(experiment: Experiment, method: Method, runs: int = RUNS) -> FloatArray:
    """Sum of the distances of the effectors from their targets after each step that counts, (steps, runs).

    The first run starts from zero, the others a hair beside it. Where there is a Dmax it is infinite for the
    first step, then the given one and in addition that by which the effector came nearer in the step before
    [Buss2009 §2].
    """
    linkage = experiment.linkage
    angles = HAIR * np.random.default_rng(SEED).uniform(-1.0, 1.0, (runs, len(linkage)))
    angles[0] = 0.0
    allowed = np.full((runs, len(experiment.centres)), inf)
    totals: list[FloatArray] = []
    placed = linkage.at(angles)
    for step in range(experiment.warm + experiment.steps):
        targets = experiment.targets(step)
        error = targets - placed.tips  # (F, E, 3)
        clamped = clamped_magnitude(error, allowed).reshape(runs, -1)
        angles = angles + clamped_largest(method.rule(placed.stacked, clamped), method.max_angle)
        placed = linkage.at(angles)
        distances = np.linalg.norm(targets - placed.tips, axis=-1)
        if method.distance < inf:
            nearer = np.linalg.norm(error, axis=-1) - distances
            allowed = method.distance + np.maximum(nearer, 0.0)
        if step >= experiment.warm:
            totals.append(distances.sum(axis=-1))
    return np.array(totals)


def finding(experiment: Experiment) -> Finding:
    """One tree with every method."""
    unclamped = Method("pseudo-inverse without clamps", partial(_inverted, rank=RANK_TOLERANCE), "")
    rows: list[SimpleNamespace] = []
    for method in (*METHODS, unclamped):
        errors, reference = errors_of(experiment, method), experiment.reference(method)
        totals = errors.sum(axis=0)
        off = None if reference is None else totals / reference - 1.0
        rows.append(
            SimpleNamespace(
                method=method,
                errors=errors,
                totals=totals,
                reference=reference,
                off=off,
                most=errors.max(axis=0),
            )
        )
    compared = [row for row in rows if row.off is not None]
    median = {row.method.name: float(np.median(row.totals)) for row in rows}
    ratios = [
        SimpleNamespace(name=name, other=other, ratio=median[name] / median[other], least=least)
        for name, other, least in (
            ("Jacobian transpose", "DLS, λ = 0.6", 1.0),
            (unclamped.name, "pseudo-inverse", 1.5),
            ("DLS, λ = 0.6", "SDLS", 1.0),
            ("DLS, λ = 1.1", "DLS′, λ = 0.7", 1.0),
        )
    ]

    def draw(panels: Sequence[Axes]) -> None:
        for colour, row in zip(COLOURS, rows, strict=False):
            panels[0].plot(np.cumsum(row.errors[:, 0]), color=colour, lw=1.3, label=row.method.name)
        panels[0].set(xlabel="step", ylabel="sum of distances so far")

    return Finding(
        title=f"The {experiment.name}",
        holds=[
            *(abs(float(np.median(row.off))) <= CLOSE for row in compared),
            *(pair.ratio > pair.least for pair in ratios),
        ],
        facts={"rows": rows, "compared": compared, "ratios": ratios},
        picture=Picture(f"buss-{experiment.name.lower().replace(' ', '-')}", (6.0, 3.2), 1, draw),
    )


def findings(data: Path) -> Iterator[Finding]:
    """All of the paper."""
    content = json.loads(data.read_text(encoding="utf-8"))
    for key, name in (("Y", "Y"), ("doubleY", "double Y")):
        yield finding(Experiment.of(content, key, name))
