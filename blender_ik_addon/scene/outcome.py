# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of a solve: as a report, and where the panel shows it."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ..core import Status, TaskError
from ..core.arrays import FloatArray
from .effector_properties import NOT_MEASURED
from .effectors import reasons
from .goals import Plan
from .properties import settings_of
from .reports import BakeReport, EffectorError, Report, Tolerances, all_reached, measured_status
from .rig import Reading, Rig

RESTLESS: Final = "constraints or drivers answer to each solve with another pose"
"""Why an effector is missed whose chain does not come to rest."""

ANSWERED: Final = "constraints or drivers answered with another pose, Solve again"
"""Why an effector is missed whose target one solve has met with bones as they stood before."""

DRAGGED: Final = "a bone was dragged, Solve goes back to the targets"
"""Why an effector is missed after a drag."""

SHOWN_DIGITS: Final = 1e-6
"""Change of an error [m, rad] that the panel would not show."""


def effector_errors(
    rig: Rig,
    within: Tolerances,
    distances: FloatArray,
    angles: FloatArray,
    whys: Sequence[str],
    taken: Sequence[str],
) -> tuple[EffectorError, ...]:
    """Return how far each effector is off.

    Args:
        rig: With E effectors.
        within: What counts as reached for each.
        distances: (E,) [m]; nan where no place is asked for.
        angles: (E,) [rad]; nan where no orientation is.
        whys: What keeps each from its target, (E,); counts only where one is missed.
        taken: Which of several targets each took, (E,).
    """
    return tuple(
        EffectorError(
            name=effector.name,
            bone=effector.bone,
            position=None if np.isnan(distance) else float(distance),
            rotation=None if np.isnan(angle) else float(angle),
            reached=not miss,
            why=why if miss else "",
            kind=effector.kind,
            tolerance_position=tolerance[0],
            tolerance_rotation=tolerance[1],
            taken=choice,
        )
        for effector, distance, angle, miss, tolerance, why, choice in zip(
            rig.effectors,
            distances,
            angles,
            within.missed(distances, angles),
            within.own,
            whys,
            taken,
            strict=True,
        )
    )


def reached_text(errors: Sequence[EffectorError], how: str = "") -> str:
    """Write that all effectors that ask for something have it, and how; or that none asks for anything."""
    count = sum(error.position is not None or error.rotation is not None for error in errors)
    return all_reached(count) + how if count else "no effector has any influence: raise one"


def report_of(
    armature_object: Object,
    rig: Rig,
    plan: Plan,
    reading: Reading,
    errors: Sequence[TaskError],
    status: Status,
    iterations: int,
) -> Report:
    """Say how far effectors are off, by the solver's own account: Blender shows the pose only afterwards.

    Args:
        armature_object: The original object.
        rig: That was solved.
        plan: Which tasks belong to which effector.
        reading: What was solved from.
        errors: Of each task that has a weight.
        status: How the solve ended.
        iterations: How many it took.
    """
    distances, angles = np.full((2, len(rig.effectors)), np.nan)
    taken = [""] * len(rig.effectors)
    one_by_one = iter(errors)
    for row, count in enumerate(plan.counts):
        for _ in range(count):
            error = next(one_by_one)
            taken[row] = error.taken
            if error.angular:
                angles[row] = error.error
            else:
                distances[row] = error.error * reading.scale
    within = rig.tolerances(armature_object)
    explanations = [error.why for error in errors]
    whys = reasons(rig.effectors, reading.influences, plan.counts, explanations, reading.scale)
    return _report(
        rig, within, effector_errors(rig, within, distances, angles, whys, taken), status, iterations
    )


def _report(
    rig: Rig,
    within: Tolerances,
    errors: tuple[EffectorError, ...],
    solver_status: Status = Status.SETTLED,
    iterations: int = 0,
) -> Report:
    message = within.misses_text(errors) or reached_text(errors)
    status = measured_status(solver_status, all(error.reached for error in errors))
    return Report(status, message, iterations, errors, rig.notes)


def measured_report(
    armature_object: Object, depsgraph: Depsgraph, rig: Rig, reading: Reading, why: str
) -> Report:
    """Say how far effectors are off, as Blender shows them, where no solve tells why."""
    distances, angles = rig.measure(armature_object, depsgraph, reading)
    taken = rig.taken(armature_object, depsgraph, reading)
    within = rig.tolerances(armature_object)
    whys = [why] * len(rig.effectors)
    return _report(rig, within, effector_errors(rig, within, distances, angles, whys, taken))


def show(
    armature_object: Object,
    rig: Rig,
    report: Report | BakeReport,
    *,
    unseen: float = 0.0,
) -> None:
    """Write errors and message where the panel shows them, as far as they have changed.

    Args:
        armature_object: The armature object.
        rig: That was solved.
        report: What came of it.
        unseen: Change of an error [m, rad] that is not worth writing: what is written updates the scene.
    """
    settings = settings_of(armature_object)

    def write(block: Any, name: str, value: object) -> None:
        if getattr(block, name) != value:
            setattr(block, name, value)

    write(settings, "last_message", report.summary())
    write(settings, "last_reached", report.reached)
    solved = {effector.index: row for row, effector in enumerate(rig.effectors)}
    for index, entry in enumerate(settings.effectors):
        row = solved.get(index)
        for name, errors in zip(("error_position", "error_rotation"), report.worst_errors, strict=True):
            shown = NOT_MEASURED if row is None or np.isnan(errors[row]) else float(errors[row])
            if abs(getattr(entry, name) - shown) > unseen:
                setattr(entry, name, shown)
        write(entry, "why", "" if row is None else report.whys[row])
        write(entry, "taken", "" if row is None else report.taken[row])
