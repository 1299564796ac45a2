# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of a solve: as a report, and where the panel shows it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import Status, TaskError
from ..effectors.effectors import reasons
from ..effectors.goals import Plan
from ..properties.effector_properties import NOT_MEASURED
from ..properties.settings import settings_of
from ..reports import (
    BakeReport,
    EffectorError,
    Report,
    Tolerances,
    all_reached,
    measured_status,
)
from .rig import (
    Lost,
    Measured,
    Reading,
    Rig,
)

RESTLESS: Final = "constraints or drivers answer to each solve with another pose"
"""Why an effector is missed whose chain does not come to rest."""

ANSWERED: Final = "constraints or drivers answered with another pose, Solve again"
"""Why an effector is missed whose target one solve has met with bones as they stood before."""

UNSETTLED: Final = "constraints or drivers answered with another pose: bake again, or mute them"
"""The same after a bake."""

UNSEEN: Final = (
    "solved within its tolerance, but Blender shows it elsewhere: look at the constraints, drivers and "
    "locked or muted keys of its chain"
)
"""Why an effector is missed where nothing else is known."""

NOWHERE: Final = (
    "its bone is scaled to nothing, or its place is not a number: look at the drivers, constraints and scale "
    "of its chain"
)
"""Why an effector is missed whose error is not a number."""

POSED: Final = "a bone was posed by hand, Solve goes back to the targets"
"""Why an effector is missed after that, while the body follows its targets."""

DRAGGED: Final = "a bone was dragged, Solve goes back to the targets"
"""Why an effector is missed after a drag."""

MOST_SHOWN: Final = 1e30
"""Error [m, rad] that stands for one that is not a number: Blender's properties end soon after."""

SHOWN_DIGITS: Final = 1e-6
"""Change of an error [m, rad] that the panel would not show."""


def reasons_seen(
    armature_object: Object, rig: Rig, measured: Measured, whys: Sequence[str], unknown: str = UNSEEN
) -> list[str]:
    """Return what keeps each effector from its target, (E,); counts only where one is missed.

    Args:
        armature_object: The armature object.
        rig: With E effectors.
        measured: As Blender shows them.
        whys: What is known from the solve, (E,).
        unknown: What is said where nothing is known.
    """
    texts: list[str] = []
    amounts = zip(measured.distances.tolist(), measured.angles.tolist(), strict=True)
    for (distance, angle), lost, why in zip(amounts, measured.lost, whys, strict=True):
        if np.inf in (distance, angle):
            texts.append(NOWHERE)
        elif lost is not None:
            text = rig.lost_text(armature_object, lost)
            texts.append(text if lost.on_target or not why else f"{why}; {text}")
        else:
            texts.append(why or unknown)
    return texts


def effector_errors(
    rig: Rig, within: Tolerances, measured: Measured, whys: Sequence[str]
) -> tuple[EffectorError, ...]:
    """Return how far each effector is off.

    Args:
        rig: With E effectors.
        within: What counts as reached for each.
        measured: How far they are.
        whys: What keeps each from its target, (E,); counts only where one is missed.
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
            measured.distances,
            measured.angles,
            within.missed(measured.distances, measured.angles),
            within.own,
            whys,
            measured.taken,
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
    before: Measured | None = None,
) -> Report:
    """Say how far effectors are off, by the solver's own account: Blender shows the pose only afterwards.

    What does not follow that, as a mesh that goes with other controls, or a bone that is nowhere, is where it
    was.

    Args:
        armature_object: The original object.
        rig: That was solved.
        plan: Which tasks belong to which effector.
        reading: What was solved from.
        errors: Of each task that has a weight.
        status: How the solve ended.
        iterations: How many it took.
        before: How far the effectors were off before; needed where the rig is astray.
    """
    distances, angles = np.full((2, len(rig.effectors)), np.nan)
    taken = [""] * len(rig.effectors)
    one_by_one = iter(errors)
    for row, count in enumerate(plan.counts):
        for _ in range(count):
            error = next(one_by_one)
            taken[row] = error.taken
            amount = np.inf if np.isnan(error.error) else error.error  # nan is what is not asked for
            if error.angular:
                angles[row] = amount
            else:
                distances[row] = amount * reading.scale
    within = rig.tolerances(armature_object)
    lost: list[Lost | None] = [None] * len(rig.effectors)
    if before is not None:
        on_target = ~within.missed(distances, angles)
        for row, own in enumerate(before.lost):
            if own is not None:
                lost[row] = replace(own, on_target=bool(on_target[row]))
            if own is not None or np.inf in (before.distances[row], before.angles[row]):
                distances[row], angles[row] = before.distances[row], before.angles[row]
    measured = Measured(distances, angles, tuple(taken), tuple(lost))
    explanations = [error.why for error in errors]
    whys = reasons(rig.effectors, reading.influences, plan.counts, explanations, reading.scale)
    # A body on its way to its targets misses them for no reason.
    whys = reasons_seen(armature_object, rig, measured, whys, unknown="")
    return _report(rig, within, effector_errors(rig, within, measured, whys), status, iterations)


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
    measured = rig.measure(armature_object, depsgraph, reading)
    within = rig.tolerances(armature_object)
    whys = reasons_seen(armature_object, rig, measured, [why] * len(rig.effectors))
    return _report(rig, within, effector_errors(rig, within, measured, whys))


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
    rows = {effector.index: row for row, effector in enumerate(rig.effectors)}
    for index, (entry, errors) in enumerate(
        zip(settings.effectors, _shown_errors(settings, rig, report), strict=True)
    ):
        for name, shown in errors.items():
            if abs(getattr(entry, name) - shown) > unseen:
                setattr(entry, name, shown)
        row = rows.get(index)
        write(entry, "why", "" if row is None else report.whys[row])
        write(entry, "taken", "" if row is None else report.taken[row])


def is_shown(armature_object: Object, rig: Rig, report: Report | BakeReport) -> bool:
    """Return whether the panel shows the errors of a report already."""
    settings = settings_of(armature_object)
    return all(
        abs(getattr(entry, name) - shown) <= SHOWN_DIGITS
        for entry, errors in zip(settings.effectors, _shown_errors(settings, rig, report), strict=True)
        for name, shown in errors.items()
    )


def _shown_errors(settings: Any, rig: Rig, report: Report | BakeReport) -> list[dict[str, float]]:
    """Return what the panel is to show of the errors of each effector, by the names of its properties."""
    distances, angles = report.worst_errors
    shown = [{"error_position": NOT_MEASURED, "error_rotation": NOT_MEASURED} for _ in settings.effectors]
    for effector, distance, angle in zip(rig.effectors, distances, angles, strict=True):
        for name, error in (("error_position", distance), ("error_rotation", angle)):
            if not np.isnan(error):
                shown[effector.index][name] = float(np.float32(min(error, MOST_SHOWN)))  # as it is held
    return shown
