# SPDX-License-Identifier: GPL-3.0-or-later
"""Rings about a foot that rolls: dragged in the viewport they set its roll, its bank and its pivots.

They are Blender's own dials, in the colours of its axes, at the foot whose effector is the active line of the
list. With Live on the body follows. Their size is that of the foot.
"""

from dataclasses import dataclass, field, replace
from math import asin, atan2, degrees, pi, radians
from typing import Any, ClassVar, Final

import bpy
import numpy as np
from bpy.props import FloatProperty
from bpy.types import Context, Event, GizmoGroup, Object
from mathutils import Matrix

from ..core.arrays import FloatArray
from ..core.errors import IKError
from ..core.messages import Joined, Message
from ..scene.effectors.effectors import foot_rings, label_of
from ..scene.effectors.feet import is_rolling
from ..scene.matching.snapping import auto_key_foot
from ..scene.properties.settings import FOOT_ANGLES, settings_of
from ..scene.translations import translated
from .acting import EffectorOperator, choice, context_armature, refuse, require_armature, shown_effector
from .mouse import SLOW, AxisLock, Numbers, View, mouse_in
from .overlay import overlay_of

LARGE: Final = 0.55
"""Radius of the rings of roll and bank against the length of the foot [1]."""
SMALL: Final = 0.16
"""The same of pivots."""
LEAST_PIXELS: Final = 28.0
"""Radius of the large ones at least [pixels], at the resolution scale 1."""
ROOM_PIXELS: Final = 70.0
"""Length of a foot [pixels] from which there is room for the small ones, at the resolution scale 1."""
COLOURS: Final = {"roll": "axis_x", "bank": "axis_y"}
"""Colours of the theme by angle; pivots have that of the vertical axis."""
FACING: Final = 0.3
"""Cosine between a ring's axis and the line of sight [1], from which the mouse is followed in the ring's
plane; one that is seen from its edge is turned like a wheel."""
STEP: Final = radians(5.0)
"""What Ctrl snaps to [rad]; a fifth of it with Shift."""
NAMES: Final = {
    "roll": "Roll",
    "bank": "Bank",
    "pivot_heel": "Pivot Heel",
    "pivot_ball": "Pivot Ball",
    "pivot_toe": "Pivot Toe",
}


def _rolling_row(context: Context) -> int:
    """Place in the list of the foot whose rings are shown; -1 for none."""
    armature = context_armature(context)
    if armature is None or context.mode not in {'OBJECT', 'POSE'}:
        return -1
    entries, row = settings_of(armature).effectors, shown_effector(context, armature)
    shown = row < len(entries) and is_rolling(entries[row]) and entries[row].enabled
    return row if shown else -1


class POISE_GGT_feet(GizmoGroup):
    """The rings of the foot that is shown."""

    bl_idname = "POISE_GGT_feet"
    bl_label = "Poise Feet"
    bl_space_type = 'VIEW_3D'
    bl_region_type = 'WINDOW'
    bl_options: ClassVar = {'3D', 'SCALE', 'PERSISTENT'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return overlay_of(context.scene).show and _rolling_row(context) >= 0

    def setup(self, context: Context) -> None:
        """Make a dial for each angle."""
        theme: Any = context.preferences.themes[0]
        self.dials = {}
        for name in FOOT_ANGLES:
            dial: Any = self.gizmos.new("GIZMO_GT_dial_3d")
            properties: Any = dial.target_set_operator("poise.roll_foot")
            properties.angle = name.upper()
            dial.color = getattr(theme.user_interface, COLOURS.get(name, "axis_z"))
            dial.alpha, dial.alpha_highlight = 0.8, 1.0
            dial.color_highlight = theme.user_interface.gizmo_hi[:3]
            dial.line_width = 3.0 if name in COLOURS else 2.0
            dial.use_draw_modal = True
            self.dials[name] = dial

    def draw_prepare(self, context: Context) -> None:
        """Put the dials where the foot is."""
        armature, row = context_armature(context), _rolling_row(context)
        rings, length = {}, 0.0
        if armature is not None and row >= 0:
            rings, length = foot_rings(armature, row, context.evaluated_depsgraph_get())
        scale = context.preferences.system.ui_scale
        for name, dial in self.dials.items():
            dial.hide = name not in rings
            if dial.hide:
                continue
            pixels = length * pixels_for(context, rings[name][:3, 3])
            large = name in COLOURS
            dial.hide = not large and pixels < ROOM_PIXELS * scale
            part = max(LARGE, LEAST_PIXELS * scale / max(pixels, 1e-6)) if large else SMALL
            dial.matrix_basis = Matrix(rings[name].tolist())
            dial.scale_basis = part * length / scale  # Blender multiplies by it


def pixels_for(context: Context, place: FloatArray) -> float:
    """How many pixels of the view a metre across it is at a place (3,)."""
    region_data: Any = context.region_data
    across = np.array(region_data.view_matrix)[0, :3]
    here, there = View.of(context.region, region_data).pixels(np.stack([place, place + 1e-3 * across]))
    pixels = 1e3 * float(np.linalg.norm(there - here))
    return pixels if np.isfinite(pixels) else 0.0


@dataclass(frozen=True)
class Turning:
    """How a mouse turns a ring."""

    view: View
    world_from_ring: FloatArray
    """(4, 4)."""
    radius: float
    """[m]"""

    def angle_at(self, pixel: FloatArray) -> float:
        """Where about the ring the mouse is [rad]; only differences of two have a meaning."""
        axes, centre = self.world_from_ring[:3, :3], self.world_from_ring[:3, 3]
        [middle] = self.view.pixels(centre[None])
        axis, sight = axes[:, 2], self.view.sight(middle)[1]
        place = self.view.on_plane(pixel, centre, axis) if abs(sight @ axis) > FACING else None
        if place is not None:
            x, y, _ = axes.T @ (place - centre)
            return atan2(y, x)
        # It is seen from its edge: the near side goes with the mouse.
        towards = (sight @ axis) * axis - sight
        ahead = np.cross(axis, towards / max(float(np.linalg.norm(towards)), 1e-9))
        part = float((self.view.at_depth_of(pixel, centre) - centre) @ ahead) / self.radius
        return asin(min(max(part, -1.0), 1.0))


@dataclass
class _ByMouse:
    """A ring that is being turned."""

    armature: str
    row: int
    name: str
    """Of the angle."""
    turning: Turning
    start: float
    """Value when it began [rad]."""
    last: float
    """Where about the ring the mouse is [rad]."""
    area: Any
    region: Any
    way: float = 0.0
    """By how much the mouse has turned it [rad]."""
    numbers: Numbers = field(default_factory=Numbers)
    moved: bool = False

    def follow(self, event: Event) -> None:
        """Follow the mouse."""
        now = self.turning.angle_at(mouse_in(self.region, event))
        step = (now - self.last + pi) % (2.0 * pi) - pi
        self.way += step * (SLOW if event.shift and not event.ctrl else 1.0)
        self.last, self.moved = now, True

    def value(self, event: Event) -> float:
        """What the angle is to be [rad]."""
        text = self.numbers.texts[0]
        if text.strip("-."):
            return self.start + radians(float(text))
        value = self.start + self.way
        if event.ctrl:
            step = STEP * (0.2 if event.shift else 1.0)
            value = step * round(value / step)
        return value


class POISE_OT_roll_foot(EffectorOperator, label="Roll Foot"):
    """Drag to turn the foot: Ctrl for steps, Shift for precision, numbers for degrees"""

    bl_options: ClassVar = {'UNDO', 'BLOCKING'}

    angle: choice("Which angle of the foot is set", *((n.upper(), text, text) for n, text in NAMES.items()))
    by: FloatProperty(
        name="By",
        description="By how much the foot is turned, when it is done without a mouse",
        subtype='ANGLE',
        options={'SKIP_SAVE'},
    )

    _by_mouse: _ByMouse

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        if _rolling_row(context) < 0:
            return Message("Choose the effector of a foot in the list, and switch Foot Roll on")
        return ""

    def act(self, context: Context, armature: Object) -> None:
        row, name = _rolling_row(context), self.angle.lower()
        entry = settings_of(armature).effectors[row]
        _set(entry, name, getattr(entry, name) + self.by)
        self._key(armature, row, name)

    def _key(self, armature: Object, row: int, name: str) -> None:
        if why := auto_key_foot(armature, row, name):
            entry = settings_of(armature).effectors[row]
            self.tell(Joined(": ", (label_of(entry), why)), warning=True)

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.area is None or context.area.type != 'VIEW_3D':
            return self.execute(context)
        armature, row, name = require_armature(context), _rolling_row(context), self.angle.lower()
        rings, length = foot_rings(armature, row, context.evaluated_depsgraph_get())
        if name not in rings:
            return refuse(self, IKError("this foot cannot be turned: press Solve to see what it lacks"))
        view = View.of(context.region, context.region_data)
        pixels = max(length * pixels_for(context, rings[name][:3, 3]), 1e-6)
        least = LEAST_PIXELS * context.preferences.system.ui_scale / pixels
        turning = Turning(view, rings[name], length * (max(LARGE, least) if name in COLOURS else SMALL))
        region, pixel = context.region, mouse_in(context.region, event)
        start = getattr(settings_of(armature).effectors[row], name)
        self._by_mouse = _ByMouse(
            armature.name, row, name, turning, start, turning.angle_at(pixel), context.area, region
        )
        context.window_manager.modal_handler_add(self)
        self._show()
        return {'RUNNING_MODAL'}

    def _entry(self) -> Any:
        """The effector, as long as it is there and rolls."""
        armature = bpy.data.objects.get(self._by_mouse.armature)
        entries = () if armature is None else settings_of(armature).effectors
        row = self._by_mouse.row
        return entries[row] if row < len(entries) and is_rolling(entries[row]) else None

    def modal(self, context: Context, event: Event) -> set[str]:
        drag, entry = self._by_mouse, self._entry()
        if entry is None:
            self._end()
            return refuse(self, IKError("the foot that was turned is gone"))
        if event.type in {'ESC', 'RIGHTMOUSE'} and event.value == 'PRESS':
            self.cancel(context)
            return {'CANCELLED'}
        released = event.type == 'LEFTMOUSE' and (event.value == 'RELEASE') != drag.numbers.typed
        entered = event.type in {'RET', 'NUMPAD_ENTER', 'SPACE'} and event.value == 'PRESS'
        if released or entered:
            self._end()
            if getattr(entry, drag.name) == drag.start:
                return {'CANCELLED'}  # a click: nothing to be undone
            self._key(require_armature(context), drag.row, drag.name)
            return {'FINISHED'}
        typed = drag.numbers.after(event.type, 1) if event.value == 'PRESS' else None
        if typed is not None:
            drag.numbers = replace(typed, place=0)
        elif event.type == 'MOUSEMOVE':
            drag.follow(event)
        elif not event.type.startswith(('LEFT_', 'RIGHT_')):
            return {'RUNNING_MODAL'}
        if drag.moved or drag.numbers.typed:
            _set(entry, drag.name, drag.value(event))
        self._show()
        return {'RUNNING_MODAL'}

    def cancel(self, context: Context) -> None:
        """Put the angle back; Blender calls this too, when another file is opened."""
        if (entry := self._entry()) is not None:
            _set(entry, self._by_mouse.name, self._by_mouse.start)
        self._end()

    def _show(self) -> None:
        """Say in the header how it goes."""
        drag, entry = self._by_mouse, self._entry()
        value, typed = degrees(getattr(entry, drag.name)), drag.numbers
        text = f"{label_of(entry)}: {translated(Message(NAMES[drag.name]))} {value:.1f}°"
        if typed.typed:
            text += f"   {typed.text(AxisLock('X')).removeprefix('X ')}°"
        drag.area.header_text_set(text)
        drag.area.tag_redraw()

    def _end(self) -> None:
        self._by_mouse.area.header_text_set(None)
        self._by_mouse.area.tag_redraw()


def _set(entry: Any, name: str, value: float) -> None:
    """Set an angle and have the scene updated, as Blender does for its own fields but not for scripts."""
    setattr(entry, name, value)
    entry.id_data.update_tag()


CLASSES = (POISE_OT_roll_foot, POISE_GGT_feet)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
