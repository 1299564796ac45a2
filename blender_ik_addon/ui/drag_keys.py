# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a drag in the status bar, as signs: in words they are longer than a window is wide."""

from collections.abc import Callable
from typing import Any, Final

from bpy.types import Context

from ..scene.live.dragging import Drag

KEYS: Final = (
    (('MOUSE_LMB', 'EVENT_RETURN'), "Confirm"),
    (('MOUSE_RMB', 'EVENT_ESC'), "Put Back"),
    (('EVENT_X', 'EVENT_Y', 'EVENT_Z'), "Axis"),
    (('EVENT_SHIFT', 'EVENT_X'), "Plane"),
    (('EVENT_TAB',), "0-9 Numbers"),
    (('EVENT_SHIFT',), "Slow"),
    (('EVENT_CTRL',), "Steps"),
    (('EVENT_H',), "Hold: Pin Bone"),
    (('EVENT_R',), "Keep Orientation ({orientation})"),
    (('MOUSE_MMB_SCROLL',), "Priority ({priority})"),
)
"""Signs of Blender, and what they do; all on the page docs/dragging.md."""


WIDE: Final = ('EVENT_ESC', 'EVENT_CTRL')
"""Signs that are drawn wider than the room that a label has for them."""

WIDE_MORE: Final = 1.2
"""How much more room they need [separators of Blender]."""


def keys_of(drag: Drag) -> Callable[[Any, Context], None]:
    """Return what draws the keys of a drag in the status bar, with what they have set."""
    orientation, priority = ("on" if drag.keeps_orientation else "off"), drag.priority

    def draw(header: Any, context: Context) -> None:
        layout = header.layout
        for signs, text in KEYS:
            row = layout.row(align=True)
            for sign in signs:
                row.label(text="", icon=sign)
                if sign in WIDE:
                    row.separator(factor=WIDE_MORE)
            row.label(text=text.format(orientation=orientation, priority=priority))

    return draw
