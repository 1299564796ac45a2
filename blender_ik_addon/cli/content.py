# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as JSON: lengths in Blender units, angles in radians, null where there is no such error."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..scene import posing
from ..scene.properties.settings import settings_of

REPORT_VERSION: Final = 1
"""Of the form of a report; it grows when a field changes its meaning."""

MEASURED: Final = ("frames", "frames_to_look_at", "statuses", "position_errors", "rotation_errors")
"""What a report says of frames."""
BAKED: Final = (
    *("limits_met", "clamped", "branches", "action", "keys", "keys_replaced", "iterations"),
    *("between", "position_errors_between", "rotation_errors_between"),
)
"""What it says besides of a bake."""

AnyReport = posing.Report | posing.BakeReport | posing.MatchReport | posing.SetupReport | posing.PresetReport


def as_json(armature_object: Object, report: AnyReport) -> dict[str, Any]:
    """Return what a report says of an armature; whoever writes the files adds which were written."""
    content: dict[str, Any] = {
        "report_version": REPORT_VERSION,
        "blender": bpy.app.version_string,
        "file": bpy.data.filepath,
        "armature": armature_object.name,
        "reached": True,
        "summary": report.summary(),
        "notes": list(report.notes),
    }
    if isinstance(report, posing.Report | posing.BakeReport):
        settings = settings_of(armature_object)
        content |= {
            "method": settings.method,
            "reached": report.reached,
            "tolerance_position": settings.tolerance_position,
            "tolerance_rotation": settings.tolerance_rotation,
            **(_solved(report) if isinstance(report, posing.Report) else _measured(report)),
        }
        for effector, (position, rotation, *_) in zip(content["effectors"], report.shown, strict=True):
            effector |= {"position_error": position, "rotation_error": rotation}
    else:  # names and numbers, all of them
        content |= {own.name: getattr(report, own.name) for own in fields(report)}
    return _plain(content)


def _solved(report: posing.Report) -> dict[str, Any]:
    return {
        "status": report.status,
        "iterations": report.iterations,
        "effectors": [
            {"name": own.name, "bone": own.bone, "reached": own.reached, "why": own.why}
            for own in report.effectors
        ],
    }


def _measured(report: posing.BakeReport) -> dict[str, Any]:
    """Of frames: of a bake also what it solved and keyed."""
    errors = report.position_errors, report.rotation_errors
    missed = np.any(report.tolerances.missed(*errors), axis=0)
    rows = zip(report.names, missed.tolist(), report.worst_frames, report.reasons, strict=True)
    effectors = [{"name": n, "reached": not m, "worst_frame": f, "why": why} for n, m, f, why in rows]
    for effector, amounts in zip(effectors, report.statistics, strict=True):
        effector |= amounts
    content = {name: getattr(report, name) for name in MEASURED} | {"effectors": effectors}
    if not report.action:
        return content
    content |= {name: getattr(report, name) for name in BAKED}
    content["pops"] = [{"frame": p.frame, "bone": p.joint, "angle": p.turn} for p in report.pops]
    content["smoothing"] = [
        {
            "name": added.name,
            "frame": added.frame,
            "position_error": None if added.angular else added.amount,
            "rotation_error": added.amount if added.angular else None,
        }
        for added in report.smoothing
    ]
    return content


def _plain(value: Any) -> Any:
    """A value as JSON has it, null for a number that is none."""
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    if isinstance(value, (np.ndarray, tuple, list)):
        return [_plain(own) for own in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def with_files(content: Mapping[str, Any], files: Mapping[str, Any], lost: Sequence[str]) -> dict[str, Any]:
    """Return a report with the files written; if one was lost it says why, and has reached nothing."""
    report = {**content, **files, "error": " ".join(lost), "reached": content["reached"] and not lost}
    return report | {"output": None} if lost else report
