# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""Dragging by mouse: events become calls of `scene.dragging.Drag`, and nothing else happens here.

The grabbed point moves by as much as the mouse does in the plane of the view through that point, along an
axis or in a plane, or by typed numbers (`constraint`). The mouse is followed in steps of its own, so that
holding Shift slows it down from where it is.
"""

import logging
import time
from typing import TYPE_CHECKING, Any, Final

import bpy
import numpy as np
from bpy.props import BoolProperty, FloatVectorProperty, StringProperty
from bpy.types import Context, Event, Object, Operator, WorkSpaceTool

from ..core.arrays import FloatArray
from ..core.errors import IKError
from ..scene.live.dragging import Drag
from ..scene.reports import length_text
from . import overlay
from .acting import obstacle_to, possible, refuse, require_armature
from .axis_lock import (
    AXES,
    Constraint,
    Numbers,
    stepped,
)
from .drag_keys import keys_of
from .picking import View, nearest_segment

logger = logging.getLogger(__name__)

REACH_PIXELS: Final = 30.0
"""How far from a bone the mouse may be to mean it [pixels], at the resolution scale 1."""

SLOW: Final = 0.1
"""How much of its way the mouse counts while Shift is held [1]."""

TIMER_SECONDS: Final = 1.0 / 60.0
"""Pause between two looks at whether there is more to do [s]."""

REST_SECONDS: Final = 0.15
"""How long the mouse rests before the body settles [s]."""

FINE_STEPS: Final = 0.1
"""Part of a step [1] that counts as one while Shift is held."""


class POISE_OT_drag(Operator):
    """Drag a bone with the mouse; the body follows, and hands, feet and hips hold where they are"""

    bl_idname = "poise.drag"
    bl_label = "Drag Bone"
    # Not REGISTER: what a drag comes to depends on its way (pins, what was freed), so no panel could redo it.
    bl_options = {'UNDO', 'BLOCKING'}

    bone: StringProperty(
        name="Bone",
        description="The bone to drag; empty for the active one",
        options={'SKIP_SAVE'},
    )
    offset: FloatVectorProperty(
        name="Offset",
        description="How far to drag the bone in the world, when it is done without a mouse",
        size=3,
        subtype='TRANSLATION',
        unit='LENGTH',
        options={'SKIP_SAVE'},
    )
    keep_orientation: BoolProperty(
        name="Keep Orientation",
        description="The dragged bone keeps its orientation",
        default=False,
    )
    under_mouse: BoolProperty(
        name="Under Mouse",
        description="Drag the bone under the mouse, by the point under it",
        default=False,
        options={'SKIP_SAVE'},
    )
    release_confirm: BoolProperty(
        name="Confirm on Release",
        description="Confirm when the mouse button is released",
        default=False,
        options={'SKIP_SAVE'},
    )

    if TYPE_CHECKING:
        bone: str
        offset: tuple[float, float, float]
        keep_orientation: bool
        under_mouse: bool
        release_confirm: bool
        _drag: Drag
        _view: View
        _area: Any
        _region: Any
        _timer: Any
        _start: FloatArray
        _pressed: FloatArray
        _mouse: FloatArray
        _last: FloatArray
        _constraint: Constraint
        _numbers: Numbers
        _step: float
        _snaps: bool
        _fine: bool
        _moved_at: float
        _moved: bool
        _choosing: bool
        _lets_go: bool
        _warning: str

    @classmethod
    def poll(cls, context: Context) -> bool:
        obstacle = obstacle_to(context, needs_effectors=False)
        if not obstacle and context.mode != 'POSE':
            obstacle = "Go to Pose Mode (Ctrl Tab) to drag bones"
        return possible(cls, obstacle)

    def execute(self, context: Context) -> set[str]:
        try:
            drag = self._grab(context, require_armature(context), self.bone, (0.0, 0.0, 0.0))
            drag.move(drag.place + np.array(self.offset))
            return self._confirmed(drag)
        except IKError as error:
            return refuse(self, error)

    # By mouse

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.window is None or context.area is None:
            return self.execute(context)
        space: Any = context.space_data
        if context.area.type != 'VIEW_3D':
            self.report({'ERROR'}, "Drag bones in the 3D viewport")
            return {'CANCELLED'}
        self._area = context.area
        self._region = _region_at(context, event)
        self._view = View.of(self._region, self._region.data)
        self._step = _grid_step(space)
        self._last = self._mouse_at(event)
        pressed = np.array([event.mouse_prev_press_x, event.mouse_prev_press_y], dtype=np.float64)
        pressed -= np.array([self._region.x, self._region.y])
        self._pressed = pressed if self.release_confirm else self._last
        armature = require_armature(context)
        bone, point = self.bone, (0.0, 0.0, 0.0)
        if self.under_mouse:
            found = bone_at(context, armature, self._view, self._pressed)
            if found is None:
                return {'PASS_THROUGH'}  # there is no bone: the mouse means something else
            bone, point = found[0], (0.0, found[1], 0.0)
        try:
            self._drag = self._grab(context, armature, bone, point)
        except IKError as error:
            return refuse(self, error)
        self._start = self._drag.place
        self._mouse = self._last.copy()
        self._constraint, self._numbers = Constraint(), Numbers()
        self._snaps = self._fine = False
        self._moved_at, self._moved, self._choosing, self._warning = 0.0, False, False, ""
        self._lets_go = False
        overlay.show_drag(self._drag)
        self._timer = context.window_manager.event_timer_add(TIMER_SECONDS, window=context.window)
        context.window_manager.modal_handler_add(self)
        self._tell(context)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        try:
            return self._answer(context, event)
        except Exception as error:  # Blender calls us: else the timer and a pose half done would stay
            if not isinstance(error, IKError):
                logger.exception("The drag stopped")
            self.cancel(context)
            return refuse(self, error)

    def cancel(self, context: Context) -> None:
        """Put everything back; Blender calls this too, when the window closes or another file is opened."""
        self._end(context)
        self._drag.cancel()

    def _answer(self, context: Context, event: Event) -> set[str]:
        kind, pressed = event.type, event.value == 'PRESS'
        if kind in {'ESC', 'RIGHTMOUSE'} and pressed:
            self.cancel(context)
            return {'CANCELLED'}
        if self._lets_go:
            return self._settled(context, event)
        done = {'RET', 'NUMPAD_ENTER', 'SPACE'} | (set() if self.release_confirm else {'LEFTMOUSE'})
        if (kind in done and pressed) or (kind == 'LEFTMOUSE' and self.release_confirm and not pressed):
            self._lets_go = True
            self._drag.let_go()
            return self._settled(context, event)
        if kind == 'H':
            self._choose(context, event)
        elif kind == 'MOUSEMOVE':
            self._follow(event)
        elif kind == 'TIMER':
            rests = self._drag.rests and time.monotonic() < self._moved_at + REST_SECONDS
            if self._drag.report.final or not self._moved or rests:
                return {'RUNNING_MODAL'}
            self._drag.again(smoothly=True)
        elif kind in {'LEFT_CTRL', 'RIGHT_CTRL'}:
            self._snaps = pressed
            if self._moved:
                self._go()
        elif pressed and self._key(event):
            self._go()
        else:
            return {'RUNNING_MODAL'}  # keep other input away: the scene must not change under the drag
        self._tell(context)
        return {'RUNNING_MODAL'}

    def _settled(self, context: Context, event: Event) -> set[str]:
        """Let go of a pose that lags as smoothly as it has come, then confirm."""
        if self._moved and not self._drag.report.final:
            if event.type == 'TIMER':
                self._drag.again(smoothly=True)
                self._tell(context)
            return {'RUNNING_MODAL'}
        self._end(context)
        if self._moved:
            return self._confirmed(self._drag)
        self._drag.cancel()
        return {'CANCELLED'}

    def _choose(self, context: Context, event: Event) -> None:
        """Pin or free the bone under the mouse when H is released; until then the dragged bone waits."""
        self._choosing = event.value == 'PRESS'
        self._warning = "release H over a bone to pin it or to free it"
        if self._choosing:
            return
        found = bone_at(context, self._drag.object(), self._view, self._mouse_at(event), but=self._drag.bone)
        if found is None:
            self._warning = "no bone under the mouse to be pinned"
            return
        holds = self._drag.pin(found[0])
        self._warning = f"{found[0]} {'holds' if holds else 'is free'}"
        self._go()

    def _key(self, event: Event) -> bool:
        """Answer a key; whether it changes what is asked for."""
        numbers = self._numbers.after(event.type, len(self._constraint.components))
        if numbers is not None:
            self._numbers = numbers
        elif event.type in AXES:
            self._constraint = self._constraint.after(event.type, event.shift)
        elif event.type == 'R':
            self._drag.keep_orientation(not self._drag.keeps_orientation)
        elif event.type in {'WHEELUPMOUSE', 'WHEELDOWNMOUSE'}:
            step = -1 if event.type == 'WHEELUPMOUSE' else 1
            self._drag.set_priority(self._drag.priority + step)
        else:
            return False
        return True

    # The mouse

    def _mouse_at(self, event: Event) -> FloatArray:
        """Where the mouse is in the viewport [pixels]."""
        return np.array([event.mouse_x - self._region.x, event.mouse_y - self._region.y], dtype=np.float64)

    def _follow(self, event: Event) -> None:
        mouse = self._mouse_at(event)
        if self._choosing:
            self._last = mouse
            return
        self._snaps, self._fine = event.ctrl, event.shift
        self._mouse += (mouse - self._last) * (SLOW if event.shift else 1.0)
        self._last = mouse
        if self._numbers.typed:
            return
        self._warning = ""
        self._go()

    def _go(self) -> None:
        """Bring the grabbed point to where mouse or numbers want it."""
        self._moved_at, self._moved = time.monotonic(), True
        axes = self._drag.world_from_bone
        if self._numbers.typed:
            self._drag.move(self._start + self._numbers.offset(self._constraint, axes), smoothly=True)
            return
        offset = self._constraint.offset(self._view, self._start, (self._pressed, self._mouse), axes)
        if offset is None:
            self._warning = "the view is along the axis or the plane: turn the view first"
            return
        if self._snaps:
            step = self._step * (FINE_STEPS if self._fine else 1.0)
            offset = stepped(offset, self._constraint.axes(axes), step)
        self._drag.move(self._start + offset, smoothly=True)

    # Before and after

    def _grab(self, context: Context, armature: Object, bone: str, point: tuple[float, float, float]) -> Drag:
        if not bone:
            active = context.active_pose_bone
            if active is None:
                raise IKError("Click the bone that is to be dragged, in Pose Mode")
            bone = active.name
        drag = Drag(armature, bone, point=point, depsgraph=context.evaluated_depsgraph_get())
        drag.keep_orientation(self.keep_orientation)
        return drag

    def _confirmed(self, drag: Drag) -> set[str]:
        report = drag.confirm()
        if report.message:
            self.report({'WARNING'} if not report.dragged.reached else {'INFO'}, report.message)
        return {'FINISHED'}

    def _tell(self, context: Context) -> None:
        """Say in status bar and header how it goes, and have it drawn."""
        drag = self._drag
        context.workspace.status_text_set(keys_of(drag))
        way = drag.goal - self._start
        parts = [f"{drag.bone}: {length_text(float(np.linalg.norm(way)))}"]
        if self._numbers.typed:
            parts = [f"{drag.bone}: {self._numbers.text(self._constraint)}"]
        else:
            parts += ["(" + ", ".join(length_text(float(part)) for part in way) + ")"]
        parts += [self._constraint.text] if self._constraint.letter else []
        parts += [text for text in (drag.report.message, self._warning) if text]
        self._area.header_text_set("   ".join(parts))
        self._area.tag_redraw()

    def _end(self, context: Context) -> None:
        overlay.show_drag(None)
        context.window_manager.event_timer_remove(self._timer)
        if context.workspace:
            context.workspace.status_text_set(None)
        self._area.header_text_set(None)
        self._area.tag_redraw()


def _region_at(context: Context, event: Event) -> Any:
    """The part of the viewport under the mouse, of which a quad view has four; the first for a button."""
    regions: list[Any] = [region for region in context.area.regions if region.type == 'WINDOW']
    for region in regions:
        across, up = event.mouse_x - region.x, event.mouse_y - region.y
        if 0 <= across < region.width and 0 <= up < region.height:
            return region
    return regions[0]


def _grid_step(space: Any) -> float:
    """What Ctrl snaps to: a line of the viewport's grid [m]."""
    overlay_of: Any = space.overlay
    return float(overlay_of.grid_scale) / max(1, int(overlay_of.grid_subdivisions))


def bone_at(
    context: Context, armature: Object, view: View, mouse: FloatArray, *, but: str = ""
) -> tuple[str, float] | None:
    """The visible bone under the mouse, and how far along it the mouse is [m] before the bone's scale.

    Args:
        context: Of the viewport.
        armature: The armature object.
        view: Of the viewport.
        mouse: (2,) [pixels].
        but: Name of a bone that is not meant.
    """
    bones = [bone for bone in context.visible_pose_bones or () if bone.id_data == armature]
    bones = [bone for bone in bones if bone.name != but]
    if not bones:
        return None
    posed: Any = armature.evaluated_get(context.evaluated_depsgraph_get())
    matrix = np.array(posed.matrix_world)
    ends = np.array([[posed.pose.bones[bone.name].head, posed.pose.bones[bone.name].tail] for bone in bones])
    places = ends.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3]
    seen = view.pixels(places).reshape(-1, 2, 2)
    radius = REACH_PIXELS * context.preferences.system.ui_scale
    found = nearest_segment(mouse, seen[:, 0], seen[:, 1], radius)
    return None if found is None else (bones[found[0]].name, found[1] * bones[found[0]].bone.length)


class POISE_drag_tool(WorkSpaceTool):
    """The tool in the toolbar: click selects, drag drags."""

    bl_space_type = 'VIEW_3D'
    bl_context_mode = 'POSE'
    bl_idname = "poise.drag_tool"
    bl_label = "Drag with Body"
    bl_description = "Drag a bone; the body follows, and hands, feet and hips hold where they are"
    bl_icon = "ops.pose.relax"
    bl_widget = None
    bl_keymap = (
        (
            "poise.drag",
            {"type": 'LEFTMOUSE', "value": 'CLICK_DRAG'},
            {"properties": [("under_mouse", True), ("release_confirm", True)]},
        ),
        # By click, not by press: a drag leaves the selection as it is.
        ("view3d.select", {"type": 'LEFTMOUSE', "value": 'CLICK'}, {"properties": [("deselect_all", True)]}),
        (
            "view3d.select",
            {"type": 'LEFTMOUSE', "value": 'CLICK', "shift": True},
            {"properties": [("toggle", True)]},
        ),
    )

    @staticmethod
    def draw_settings(context: Context, layout: Any, tool: Any) -> None:
        """Show the tool's one setting in the header."""
        layout.prop(tool.operator_properties("poise.drag"), "keep_orientation")


CLASSES = (POISE_OT_drag,)

_register_classes, _unregister_classes = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    """Add the operators, and the tool where there are windows."""
    _register_classes()
    if not bpy.app.background:
        bpy.utils.register_tool(POISE_drag_tool, after={"builtin.transform"}, separator=True)


def unregister() -> None:
    """Take tool and operators away."""
    if not bpy.app.background:
        bpy.utils.unregister_tool(POISE_drag_tool)
    _unregister_classes()
