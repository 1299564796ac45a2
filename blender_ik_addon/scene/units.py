# SPDX-License-Identifier: GPL-3.0-or-later
"""Lengths as Blender's own fields show them: by the Unit Scale of the scene."""

import bpy

from ..core import amounts


def metres() -> float:
    """How many metres a Blender unit is in the scene that is open [m]."""
    units = bpy.context.scene.unit_settings
    return 1.0 if units.system == 'NONE' else float(units.scale_length)


def length_text(length: float) -> str:
    """Write a length in Blender units as the scene measures it, to three digits."""
    return amounts.length_text(length * metres())


def litres(volume: float) -> float:
    """Return a volume in cubic Blender units as the scene measures it [l]."""
    return 1e3 * volume * metres() ** 3
