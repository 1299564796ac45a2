# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of a solve in live mode, by the solver's own account: Blender shows the pose only afterwards."""

from typing import Final

import numpy as np
from bpy.types import Depsgraph, Object

from ..core import Solution, Status
from .effector_properties import NOT_MEASURED
from .effectors import reasons
from .goals import Plan
from .properties import settings_of
from .reports import EffectorError, Report, all_reached, measured_status
from .rig import Reading, Rig

RESTLESS: Final = "constraints or drivers answer to each solve with another pose"
"""Why an effector is missed whose chain does not come to rest."""

SHOWN_DIGITS: Final = 1e-6
"""Change of an error [m, rad] that the panel would not show."""


def report_of(armature_object: Object, rig: Rig, plan: Plan, reading: Reading, solution: Solution) -> Report:
    """Say how far effectors are off, by the solver's own account: Blender shows the pose only afterwards."""
    distances, angles = np.full((2, len(rig.effectors)), np.nan)
    taken = [""] * len(rig.effectors)
    errors = iter(solution.errors)
    for row, count in enumerate(plan.counts):
        for _ in range(count):
            error = next(errors)
            taken[row] = error.taken
            if error.angular:
                angles[row] = error.error
            else:
                distances[row] = error.error * reading.scale
    within = rig.tolerances(armature_object)
    missed = within.missed(distances, angles)
    explanations = [error.why for error in solution.errors]
    whys = [""] * len(rig.effectors)
    if missed.any():
        whys = reasons(rig.effectors, reading.influences, plan.counts, explanations, reading.scale)
    effectors = tuple(
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
            rig.effectors, distances, angles, missed, within.own, whys, taken, strict=True
        )
    )
    message = within.misses_text(effectors) or all_reached(len(effectors))
    status = measured_status(solution.status, not missed.any())
    return Report(status, message, solution.iterations, effectors, rig.notes)


def restless_report(armature_object: Object, depsgraph: Depsgraph, rig: Rig, reading: Reading) -> Report:
    """Say how far effectors are off, as Blender shows them, where bones that answer did not come to rest."""
    distances, angles = rig.measure(armature_object, depsgraph, reading)
    within = rig.tolerances(armature_object)
    missed = within.missed(distances, angles)
    effectors = tuple(
        EffectorError(
            name=effector.name,
            bone=effector.bone,
            position=None if np.isnan(distance) else float(distance),
            rotation=None if np.isnan(angle) else float(angle),
            reached=not miss,
            why=RESTLESS if miss else "",
            kind=effector.kind,
            tolerance_position=tolerance[0],
            tolerance_rotation=tolerance[1],
        )
        for effector, distance, angle, miss, tolerance in zip(
            rig.effectors, distances, angles, missed, within.own, strict=True
        )
    )
    message = within.misses_text(effectors) or all_reached(len(effectors))
    status = measured_status(Status.SETTLED, not missed.any())
    return Report(status, message, 0, effectors, rig.notes)


def show(armature_object: Object, rig: Rig, report: Report) -> None:
    """Write errors and message where the panel shows them, as far as they have changed."""
    settings = settings_of(armature_object)
    summary = report.summary()
    if settings.last_message != summary or settings.last_reached != report.reached:
        settings.last_message, settings.last_reached = summary, report.reached
    for effector, error in zip(rig.effectors, report.effectors, strict=True):
        entry = settings.effectors[effector.index]
        for name, value in (("error_position", error.position), ("error_rotation", error.rotation)):
            shown = NOT_MEASURED if value is None else value
            if abs(getattr(entry, name) - shown) > SHOWN_DIGITS:
                setattr(entry, name, shown)
        if entry.why != error.why:
            entry.why = error.why
        if entry.taken != error.taken:
            entry.taken = error.taken
