# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; a header that is drawn has a view layer.
# pyright: reportOptionalMemberAccess=false
"""What the header of the 3D viewport shows: that live mode is on."""

from typing import Any

from bpy.types import Context, VIEW3D_HT_header

from ..scene.live.handlers import live_armatures, problem_of
from ..scene.properties.settings import settings_of
from .acting import context_armature


def draw_live(header: Any, context: Context) -> None:
    """Draw a button that switches live mode off, or who is live where that is not the armature at hand."""
    lives = list(live_armatures(context.view_layer))
    if not lives:
        return
    row = header.layout.row(align=True)
    row.alert = any(problem_of(armature) for armature in lives)
    icon = 'ERROR' if row.alert else 'REC'
    armature = context_armature(context)
    if armature is not None and settings_of(armature).live:
        row.operator("poise.live", text="Live", icon=icon, depress=True)
    else:
        row.label(text=f"Live: {', '.join(armature.name for armature in lives)}", icon=icon)


def register() -> None:
    """Add it to the header."""
    VIEW3D_HT_header.append(draw_live)  # pyright: ignore[reportArgumentType]


def unregister() -> None:
    """Take it away."""
    VIEW3D_HT_header.remove(draw_live)  # pyright: ignore[reportArgumentType]
