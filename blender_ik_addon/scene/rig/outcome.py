# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a solve: as a report, and where the panel shows it."""

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
from ..reports import BakeReport, EffectorError, Report, Tolerances, all_reached, measured_status
from .rig import Lost, Measured, Reading, Rig

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

    `whys` (E,) is known from the solve; where nothing is known, it is `unknown`.
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
    """Return how far each effector is off, and why, from what keeps each from its target, (E,)."""
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
    was: where the rig is astray, `before` says how far that is off.
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
    lost: list[Lost | None] = [None] * len(rig.effectors)
    if before is not None:
        on_target = ~rig.tolerances(armature_object).missed(distances, angles)
        for row, own in enumerate(before.lost):
            if own is not None:
                lost[row] = replace(own, on_target=bool(on_target[row]))
            if own is not None or np.inf in (before.distances[row], before.angles[row]):
                distances[row], angles[row] = before.distances[row], before.angles[row]
    measured = Measured(distances, angles, tuple(taken), tuple(lost))
    explanations = [error.why for error in errors]
    whys = reasons(rig.effectors, reading.influences, plan.counts, explanations, reading.scale)
    # A body on its way to its targets misses them for no reason.
    return _report(armature_object, rig, measured, whys, unknown="", status=status, iterations=iterations)


def measured_report(
    armature_object: Object, depsgraph: Depsgraph, rig: Rig, reading: Reading, why: str
) -> Report:
    """Say how far effectors are off, as Blender shows them, where no solve gives a reason."""
    measured = rig.measure(armature_object, depsgraph, reading)
    return _report(armature_object, rig, measured, [why] * len(rig.effectors))


def _report(
    armature_object: Object,
    rig: Rig,
    measured: Measured,
    whys: Sequence[str],
    *,
    unknown: str = UNSEEN,
    status: Status = Status.SETTLED,
    iterations: int = 0,
) -> Report:
    within = rig.tolerances(armature_object)
    whys = reasons_seen(armature_object, rig, measured, whys, unknown)
    errors = effector_errors(rig, within, measured, whys)
    message = within.misses_text(errors) or reached_text(errors)
    reached = all(error.reached for error in errors)
    return Report(measured_status(status, reached), message, iterations, errors, rig.notes)


def show(armature_object: Object, rig: Rig, report: Report | BakeReport, *, unseen: float = 0.0) -> None:
    """Write errors and message where the panel shows them, as far as they have changed.

    A change of an error up to `unseen` [m, rad] is not worth writing: what is written updates the scene.
    """
    settings = settings_of(armature_object)
    head = {"last_message": report.summary(), "last_reached": report.reached}
    entries = zip(settings.effectors, _shown(settings, rig, report), strict=True)
    for block, values in ((settings, head), *entries):
        for name, value in values.items():
            now = getattr(block, name)
            if now != value and not (isinstance(value, float) and abs(now - value) <= unseen):
                setattr(block, name, value)


def is_shown(armature_object: Object, rig: Rig, report: Report | BakeReport) -> bool:
    """Return whether the panel shows the errors of a report already."""
    settings = settings_of(armature_object)
    return all(
        abs(getattr(entry, name) - values[name]) <= SHOWN_DIGITS
        for entry, values in zip(settings.effectors, _shown(settings, rig, report), strict=True)
        for name in ("error_position", "error_rotation")
    )


def _shown(settings: Any, rig: Rig, report: Report | BakeReport) -> list[dict[str, Any]]:
    """Return what the panel is to show of each effector, by the names of its properties."""
    names = ("error_position", "error_rotation", "why", "taken")
    shown: list[dict[str, Any]] = [
        dict(zip(names, (NOT_MEASURED, NOT_MEASURED, "", ""), strict=True)) for _ in settings.effectors
    ]
    columns = zip(*report.worst_errors, report.whys, report.taken, strict=True)
    for effector, (distance, angle, why, taken) in zip(rig.effectors, columns, strict=True):
        amounts = [
            NOT_MEASURED if np.isnan(error) else float(np.float32(min(error, MOST_SHOWN)))  # as it is held
            for error in (distance, angle)
        ]
        shown[effector.index] = dict(zip(names, (*amounts, why, taken), strict=True))
    return shown
