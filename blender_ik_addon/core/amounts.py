# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts as people read them: lengths in millimetres, angles in degrees, numbers of things."""

from typing import Final

import numpy as np

from .messages import Message, counted

FAR: Final = 10.0
"""Length [m] from which lengths are written in metres: nobody counts the digits of 27960 mm."""

VERY_FAR: Final = 1e4
"""Length [m] from which they are written in kilometres."""

ROUNDING: Final = 1e-6
"""Angle [°] and length [mm] below which nothing is left but rounding."""


def length_text(length: float) -> str:
    """Write a length [m] in millimetres, to three digits; in metres if it is far."""
    if not np.isfinite(length):
        return Message("an unknown distance")
    if abs(length) >= VERY_FAR:
        return f"{1e-3 * length:,.0f} km"
    if abs(length) >= FAR:
        return f"{length:.1f} m"
    return f"{_three_digits(1e3 * length)} mm"


def angle_text(angle: float) -> str:
    """Write an angle [rad] in degrees, to three digits."""
    if not np.isfinite(angle):
        return Message("an unknown angle")
    return f"{_three_digits(float(np.degrees(angle)))}°"


def limit_angle(angle: float) -> str:
    """Write a limit [rad] in tenths of a degree: one that was set to 0 is 1e-14 after conversions."""
    return f"{round(float(np.degrees(angle)), 1) + 0.0:g}°"  # no -0


def number_of_bones(count: int) -> Message:
    """Write how many bones."""
    return counted(count, "{count} bone", "{count} bones")


def number_of_targets(count: int) -> Message:
    """Write how many targets."""
    return counted(count, "{count} target", "{count} targets")


def number_of_effectors(count: int) -> Message:
    """Write how many effectors."""
    return counted(count, "{count} effector", "{count} effectors")


def _three_digits(number: float) -> str:
    size = abs(number)
    if size >= 100.0:
        return f"{number:.0f}"
    if size < ROUNDING:
        return "0"
    return f"{number:.3g}" if size >= 1e-3 else f"{number:.1g}"
