# SPDX-License-Identifier: GPL-3.0-or-later
"""The Y and double-Y trees of [Buss2009]: targets in and out of reach, one update for each step.

Trees, targets and the totals to compare with come from a file; without it there is nothing to run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, pi, radians
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.drawing import COLOURS
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods import (
    RANK_TOLERANCE,
    clamped_largest,
    clamped_magnitude,
    damped_step,
    pseudo_inverse,
    selectively_damped_step,
    transpose_step,
)

from .findings import Chapter, Check, Finding, Picture
from .linkages import Linkage

TIME_STEP: Final = 0.005
CLOSE: Final = 0.05
"""Part of the reference total [1] within which ours must be."""

PSEUDO_INVERSE_RANK: Final = 0.01
"""Singular values below this part of the largest [1] are left out by the author's program."""
DISTANCE: Final = 0.4
"""Its Dmax, about half a link of the double Y."""

RUNS: Final = 9
HAIR: Final = 1e-9
"""How far apart the starts of several runs are [rad]."""
SEED: Final = 4

StepRule = Callable[[FloatArray, FloatArray], FloatArray]
"""dq (F, n) for Jacobians (F, 3 E, n) and errors (F, 3 E)."""


@dataclass(frozen=True)
class Method:
    """A method with its clamps."""

    name: str
    rule: StepRule
    reference: str
    """How the file's name of it begins; empty where it is not there."""
    max_angle: float = inf
    """Largest change of an angle in one update [rad]."""
    distance: float = inf
    """Dmax: to what errors are shortened, besides what came nearer in the last step; see `Clamp`."""


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
    """One of the trees, and what was measured on it by others."""

    name: str
    linkage: Linkage
    centres: FloatArray
    """Of the targets, (E, 3)."""
    amplitudes: FloatArray
    """(E, 3)."""
    frequencies: FloatArray
    """(E, 3)."""
    warm: int
    """Steps before those that count."""
    steps: int
    references: dict[str, float]
    """Totals by the name of the method in the file."""

    def targets(self, step: int) -> FloatArray:
        """At a step, (E, 3)."""
        return self.centres + self.amplitudes * np.sin(self.frequencies * ((step + 1) * TIME_STEP))

    def reference(self, method: Method) -> float | None:
        """The total to compare with."""
        found = [
            total
            for name, total in self.references.items()
            if method.reference and name.startswith(method.reference)
        ]
        return found[0] if found else None


def load(path: Path) -> list[Experiment]:
    """The experiments of a file.

    Raises:
        ValueError: It is not such a file.
    """
    try:
        content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return [_experiment(content, key, name) for key, name in (("Y", "Y"), ("doubleY", "double Y"))]
    except (KeyError, TypeError, IndexError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} does not hold Buss's trees ({error!r}); wanted are Y, doubleY with nodes and targets, "
            "and protocol with reference_runs"
        ) from error


def _experiment(content: Mapping[str, Any], key: str, name: str) -> Experiment:
    nodes, targets = content[key]["nodes"], content[key]["targets"]
    hinges = [node for node in nodes if node["purpose"] == "hinge"]
    number = {node["id"]: i for i, node in enumerate(hinges)}
    tips = [(number[node["parent"]], node["attach"]) for node in nodes if node["purpose"] == "effector"]
    parents = [-1 if node["parent"] is None else number[node["parent"]] for node in hinges]
    runs = [
        run
        for run in content["protocol"]["reference_runs"]
        if run["tree"] == key and run["iters_per_step"] == 1
    ]
    return Experiment(
        name=name,
        linkage=Linkage(
            parents, [node["attach"] for node in hinges], tips, [node["axis"] for node in hinges]
        ),
        centres=np.array([target["centre"] for target in targets], dtype=np.float64),
        amplitudes=np.array([target["amp"] for target in targets], dtype=np.float64),
        frequencies=np.array([target["freq"] for target in targets], dtype=np.float64),
        warm=int(runs[0]["warm"]),
        steps=int(runs[0]["steps"]),
        references={run["method"]: float(run["total"]) for run in runs},
    )


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


def _percent(part: float) -> str:
    return f"{round(100.0 * part, 2) + 0.0:+.2f} %"  # never -0.00


def finding(experiment: Experiment, methods: Sequence[Method] = METHODS) -> Finding:
    """One tree with every method."""
    unclamped = Method("pseudo-inverse without clamps", partial(_inverted, rank=RANK_TOLERANCE), "")
    errors = {method.name: errors_of(experiment, method) for method in (*methods, unclamped)}
    totals = {name: values.sum(axis=0) for name, values in errors.items()}
    total = {name: float(np.median(values)) for name, values in totals.items()}
    rows = [("method", "total, reference", "total, ours", "difference", "from, to", "largest of a step")]
    checks: list[Check] = []
    for method in (*methods, unclamped):
        name, reference = method.name, experiment.reference(method)
        off = None if reference is None else total[name] / reference - 1.0
        rows.append(
            (
                *(name, "–" if reference is None else f"{reference:.1f}", f"{total[name]:.1f}"),
                "–" if off is None else _percent(off),
                *(f"{totals[name].min():.1f}, {totals[name].max():.1f}", f"{errors[name].max():.3f}"),
            )
        )
        if off is not None:
            checks.append(Check(f"{name} {_percent(off)} from its reference", abs(off) <= CLOSE))
    dls, clamped = "DLS, λ = 0.6", "pseudo-inverse"
    checks += [
        Check(
            f"the transpose is {total['Jacobian transpose'] / total[dls]:.2f} times as far off as DLS with "
            "0.6",
            total["Jacobian transpose"] > total[dls],
        ),
        Check(
            f"the pseudo-inverse without clamps {total[unclamped.name] / total[clamped]:.1f} times as far as "
            "with them",
            total[unclamped.name] > 1.5 * total[clamped],
        ),
        Check(
            f"SDLS {total['SDLS'] / total[dls]:.3f} times as far as DLS with 0.6", total["SDLS"] < total[dls]
        ),
        Check(
            f"DLS′ with 0.7 {total['DLS′, λ = 0.7'] / total['DLS, λ = 1.1']:.2f} times as far as DLS with "
            "1.1",
            total["DLS′, λ = 0.7"] < total["DLS, λ = 1.1"],
        ),
    ]

    def draw(panels: Sequence[Axes]) -> None:
        for colour, method in zip(COLOURS, methods, strict=False):
            panels[0].plot(np.cumsum(errors[method.name][:, 0]), color=colour, lw=1.3, label=method.name)
        panels[0].set_xlabel("step")
        panels[0].set_ylabel("sum of distances so far")
        panels[0].legend(fontsize=8)
        panels[0].grid(alpha=0.25)

    return Finding(
        title=f"The {experiment.name}",
        claim="The transpose tracks poorly, the pseudo-inverse very poorly unless angles are severely "
        "clamped; damped least squares do better, selectively damped ones best, and clamped errors (DLS′) "
        "allow less damping.",
        checks=tuple(checks),
        reading=f"Some of these paths hang on rounding: of {RUNS} runs whose first angles differ by up to "
        f"{HAIR:g} rad the total is the median, with the least and the largest beside it.",
        table=tuple(rows),
        picture=Picture(
            f"buss-{experiment.name.lower().replace(' ', '-')}",
            f"Sum of the distances over the steps of the {experiment.name}.",
            (6.0, 3.2),
            (1, 1),
            draw,
        ),
    )


def chapter(data: Path) -> Chapter:
    """All of the paper.

    Raises:
        ValueError: The file is none of Buss's trees.
    """
    experiments = load(data)
    return Chapter(
        "Buss: Y and double Y",
        "Sinusoidal targets in and out of reach, one update for each step, from all angles zero, without "
        "limits. Totals are the sums of all distances over the steps that count; ours must be within "
        f"{100.0 * CLOSE:g} % of those in the file. The paper gives few numbers; the clamps are those of the "
        "author's published program: angles change by at most 30° (transpose), 5° (pseudo-inverse), 45° "
        f"(the others) in an update, singular values below {PSEUDO_INVERSE_RANK:g} of the largest count as "
        f"zero in the pseudo-inverse, and the errors of SDLS and DLS′ are shortened to Dmax = {DISTANCE:g} "
        "plus what the effector came nearer in the step before. SDLS is the paper's, with ClampMaxAbs.",
        tuple(finding(experiment) for experiment in experiments),
    )
