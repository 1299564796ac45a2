# SPDX-License-Identifier: GPL-3.0-or-later
"""Poise: full-body inverse kinematics for Blender.

Blender calls `register` and `unregister`. Nothing of Blender is imported before that, so that
`blender_ik_addon.core` can be used in plain Python.
"""


def register() -> None:
    """Enable the add-on: add its properties, operators and panels to Blender."""
    from . import registration

    registration.register()


def unregister() -> None:
    """Disable the add-on: take everything away that `register` added."""
    from . import registration

    registration.unregister()
