# SPDX-License-Identifier: GPL-3.0-or-later
"""Dragging by mouse: events become calls of `scene.live.dragging.Drag`, and nothing else happens here.

The grabbed point moves by as much as the mouse does in the plane of the view through that point, along an
axis or in a plane, or by typed numbers (`mouse`). The mouse is followed in steps of its own, so that
holding Shift slows it down from where it is.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import bpy
import numpy as np
from bpy.props import FloatVectorProperty, StringProperty
from bpy.types import Context, Event, Object, WorkSpaceTool

from ..core.arrays import FloatArray
from ..core.errors import IKError
from ..core.messages import Joined, Message
from ..scene.live.dragging import Drag
from ..scene.trails.editing import TargetsAtFrame
from ..scene.translations import translated
from ..scene.units import length_text
from . import overlay
from .acting import ArmatureOperator, flag, refuse, require_armature
from .mouse import AXES, SLOW, AxisLock, Numbers, View, mouse_in, nearest_segment, stepped

logger = logging.getLogger(__name__)

REACH_PIXELS: Final = 30.0
"""How far from a bone the mouse may be to mean it [pixels], at the resolution scale 1."""
TIMER_SECONDS: Final = 1.0 / 60.0
"""Pause between two steps of a body that comes after [s]."""
REST_SECONDS: Final = 0.15
"""How long the mouse rests before the body settles [s]."""
FINE_STEPS: Final = 0.1
"""Part of a step [1] that counts as one while Shift is held."""
WHEEL: Final = {'WHEELUPMOUSE': -1, 'WHEELDOWNMOUSE': 1}
"""By how much the wheel changes the priority."""
KEYS: Final = (
    (('MOUSE_LMB', 'EVENT_RETURN'), Message("Confirm")),
    (('MOUSE_RMB', 'EVENT_ESC'), Message("Put Back")),
    (('EVENT_X', 'EVENT_Y', 'EVENT_Z'), Message("Axis")),
    (('EVENT_SHIFT', 'EVENT_X'), Message("Plane")),
    (('EVENT_TAB',), Message("0-9 Numbers")),
    (('EVENT_SHIFT',), Message("Slow")),
    (('EVENT_CTRL',), Message("Steps")),
    (('EVENT_H',), Message("Hold: Pin Bone")),
    (('EVENT_R',), Message("Keep Orientation ({orientation})")),
    (('MOUSE_MMB_SCROLL',), Message("Priority ({priority})")),
)
"""Signs in the status bar, since words are longer than a window is wide, and what the keys do; all on the
page docs/dragging.md."""
WIDE: Final = ('EVENT_ESC', 'EVENT_CTRL')
"""Signs that are drawn wider than the room that a label has for them."""
WIDE_MORE: Final = 1.2
"""How much more room they need [separators of Blender]."""
Dragged = Drag | TargetsAtFrame
"""What a mouse can drag."""


@dataclass
class _ByMouse:
    """A drag by mouse as it goes on; places of the mouse are (2,) [pixels]."""

    drag: Dragged
    view: View
    area: Any
    region: Any
    timer: Any
    step: float
    """What Ctrl snaps to: a line of the viewport's grid [m]."""
    pressed: FloatArray
    """Where the mouse was pressed."""
    last: FloatArray
    """Where the mouse is."""
    lock: AxisLock = field(default_factory=AxisLock)
    numbers: Numbers = field(default_factory=Numbers)
    shift_slows: bool = True
    """Whether the mouse counts less while Shift is held."""
    snaps: bool = False
    fine: bool = False
    moved_at: float | None = None
    """When the place was moved last [s]; None where it has not been."""
    choosing: bool = False
    """Whether H is held: the dragged bone waits until it is released over a bone."""
    lets_go: bool = False
    """Whether it is confirmed as soon as the body has settled."""
    warning: str = ""

    def __post_init__(self) -> None:
        self.start = self.drag.place
        self.mouse = self.last
        """Where the mouse is, slowed down."""

    def follow(self, event: Event) -> None:
        """Follow the mouse."""
        mouse = mouse_in(self.region, event)
        if not self.choosing:
            self.snaps, self.fine = event.ctrl, event.shift and self.shift_slows
            self.mouse = self.mouse + (mouse - self.last) * (SLOW if self.fine else 1.0)
            if not self.numbers.typed:
                self.warning = ""
                self.go()
        self.last = mouse

    def go(self) -> None:
        """Bring the grabbed point to where mouse or numbers want it."""
        self.moved_at, axes = time.monotonic(), self.drag.world_from_bone
        if self.numbers.typed:
            offset = self.numbers.offset(self.lock, axes)
        else:
            offset = self.lock.offset(self.view, self.start, (self.pressed, self.mouse), axes)
            if offset is None:
                self.warning = Message("the view is along the axis or the plane: turn the view first")
                return
            if self.snaps:
                step = self.step * (FINE_STEPS if self.fine else 1.0)
                offset = stepped(offset, self.lock.axes(axes), step)
        self.drag.move(self.start + offset, smoothly=True)

    def goes_on(self) -> bool:
        """Take a step where the body comes after or settles; whether there was one to take."""
        if self.moved_at is None or self.drag.report.final:
            return False
        if self.drag.rests and not self.lets_go and time.monotonic() < self.moved_at + REST_SECONDS:
            return False
        self.drag.again(smoothly=True)
        return True

    def choose(self, context: Context, event: Event) -> None:
        """Pin or free the bone under the mouse when H is released."""
        self.choosing = event.value == 'PRESS'
        mouse = mouse_in(self.region, event)
        if self.choosing:
            self.warning = Message("release H over a bone to pin it or to free it")
        elif found := bone_at(context, self.view, mouse, of=self.drag.object(), but=self.drag.bone):
            bone = found[0].name
            holds = self.drag.pin(bone)
            self.warning = (
                Message("{bone} holds", bone=bone) if holds else Message("{bone} is free", bone=bone)
            )
            self.go()
        else:
            self.warning = Message("no bone under the mouse to be pinned")

    def key(self, event: Event) -> bool:
        """Take a key; whether it changes what is asked for."""
        numbers = self.numbers.after(event.type, len(self.lock.components))
        if numbers is not None:
            self.numbers = numbers
        elif event.type in AXES and not (event.ctrl or event.oskey):  # Ctrl Z is no axis, as with G
            self.lock = self.lock.after(event.type, event.shift)
        elif event.type == 'R':
            self.drag.keep_orientation(not self.drag.keeps_orientation)
        elif event.type in WHEEL:
            self.drag.priority = max(0, self.drag.priority + WHEEL[event.type])
        else:
            return False
        return True

    def show(self, context: Context) -> None:
        """Say in status bar and header how it goes, and have it drawn."""
        drag, way = self.drag, self.drag.goal - self.start
        context.workspace.status_text_set(keys_of(drag))
        if self.numbers.typed:
            parts = [f"{drag.bone}: {self.numbers.text(self.lock)}"]
        else:
            parts: list[str] = [Joined(": ", (drag.bone, length_text(float(np.linalg.norm(way)))))]
            parts.append("(" + ", ".join(length_text(float(part)) for part in way) + ")")
        parts += [text for text in (self.lock.text, drag.report.message, self.warning) if text]
        self.area.header_text_set(translated(Joined("   ", parts)))
        self.area.tag_redraw()

    def end(self, context: Context) -> None:
        """Take away what is shown while it goes on."""
        overlay.show_drag(None)
        context.window_manager.event_timer_remove(self.timer)
        if context.workspace:
            context.workspace.status_text_set(None)
        self.area.header_text_set(None)
        self.area.tag_redraw()


class DragOperator(ArmatureOperator):
    """What is dragged with the mouse until it is confirmed or put back; not registered itself."""

    # Not REGISTER: what a drag comes to depends on its way (pins, what was freed), so no panel could redo it.
    bl_options = {'UNDO', 'BLOCKING'}

    offset: FloatVectorProperty(
        name="Offset",
        description="How far to drag it in the world, when it is done without a mouse",
        size=3,
        subtype='TRANSLATION',
        unit='LENGTH',
        options={'SKIP_SAVE'},
    )
    release_confirm: flag(
        "Confirm on Release", "Confirm when the mouse button is released", False, options={'SKIP_SAVE'}
    )

    shift_slows = True
    """Whether the mouse counts less while Shift is held."""
    _by_mouse: _ByMouse

    def grab(
        self, context: Context, armature: Object, view: View | None = None, mouse: Any = None
    ) -> Dragged | None:
        """Begin the drag, where it is by mouse with the view and where that was pressed, (2,) [pixels].

        None where nothing is there to be dragged. An IKError refuses.
        """
        raise NotImplementedError

    def act(self, context: Context, armature: Object) -> set[str]:
        drag = self.grab(context, armature)
        assert drag is not None
        drag.move(drag.place + np.array(self.offset))
        return self._confirmed(drag)

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.window is None or context.area is None:
            return self.execute(context)
        if context.area.type != 'VIEW_3D':
            self.report({'ERROR'}, translated(Message("Drag bones in the 3D viewport")))
            return {'CANCELLED'}
        region = _region_at(context, event)
        view = View.of(region, region.data)
        pressed = mouse = mouse_in(region, event)
        if self.release_confirm:
            begun = event.mouse_prev_press_x - event.mouse_x, event.mouse_prev_press_y - event.mouse_y
            pressed = mouse + begun
        try:
            drag = self.grab(context, require_armature(context), view, pressed)
        except IKError as error:
            return refuse(self, error)
        if drag is None:
            return {'PASS_THROUGH'}  # the mouse means something else
        grid: Any = context.space_data.overlay
        timer = context.window_manager.event_timer_add(TIMER_SECONDS, window=context.window)
        step = float(grid.grid_scale) / max(1, int(grid.grid_subdivisions))
        self._by_mouse = _ByMouse(drag, view, context.area, region, timer, step, pressed, mouse)
        self._by_mouse.shift_slows = self.shift_slows
        if isinstance(drag, Drag):
            overlay.show_drag(drag)
        context.window_manager.modal_handler_add(self)
        self._by_mouse.show(context)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        try:
            return self._take(context, event)
        except Exception as error:  # Blender calls us: else the timer and a pose half done would stay
            if not isinstance(error, IKError):
                logger.exception("The drag stopped")
            self.cancel(context)
            return refuse(self, error)

    def cancel(self, context: Context) -> None:
        """Put everything back; Blender calls this too, when the window closes or another file is opened."""
        self._by_mouse.end(context)
        self._by_mouse.drag.cancel()

    def _take(self, context: Context, event: Event) -> set[str]:
        """Take an event. All are kept from others: the scene must not change under the drag."""
        drag, kind, pressed = self._by_mouse, event.type, event.value == 'PRESS'
        done = {'RET', 'NUMPAD_ENTER', 'SPACE'} | (set() if self.release_confirm else {'LEFTMOUSE'})
        if (kind in done and pressed) or (kind == 'LEFTMOUSE' and self.release_confirm and not pressed):
            drag.lets_go = drag.drag.rests = True
        if (kind in {'ESC', 'RIGHTMOUSE'} and pressed) or (drag.lets_go and drag.moved_at is None):
            self.cancel(context)
            return {'CANCELLED'}
        if drag.lets_go and drag.drag.report.final:
            drag.end(context)
            return self._confirmed(drag.drag)
        changes = True
        if (
            kind == 'TIMER' or drag.lets_go
        ):  # what lags comes after as smoothly as before, then it is confirmed
            changes = kind == 'TIMER' and drag.goes_on()
        elif kind == 'H':
            drag.choose(context, event)
        elif kind == 'MOUSEMOVE':
            drag.follow(event)
        elif kind in {'LEFT_CTRL', 'RIGHT_CTRL'}:
            drag.snaps = pressed
            if drag.moved_at is not None:
                drag.go()
        elif pressed and drag.key(event):
            drag.go()
        else:
            changes = False
        if changes:
            drag.show(context)
        return {'RUNNING_MODAL'}

    def _confirmed(self, drag: Dragged) -> set[str]:
        report = drag.confirm()
        if report.message:
            self.tell(report.message, not report.dragged.reached)
        return {'FINISHED'}


class POISE_OT_drag(DragOperator, label="Drag Bone"):
    """Drag a bone with the mouse; the body follows, and hands, feet and hips hold where they are"""

    bone: StringProperty(
        name="Bone", description="The bone to drag; empty for the active one", options={'SKIP_SAVE'}
    )
    keep_orientation: flag("Keep Orientation", "The dragged bone keeps its orientation", False)
    under_mouse: flag(
        "Under Mouse", "Drag the bone under the mouse, by the point under it", False, options={'SKIP_SAVE'}
    )

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        return "" if context.mode == 'POSE' else Message("Go to Pose Mode (Ctrl Tab) to drag bones")

    def grab(
        self, context: Context, armature: Object, view: View | None = None, mouse: Any = None
    ) -> Drag | None:
        bone, point = self.bone, (0.0, 0.0, 0.0)
        if self.under_mouse and view is not None:
            found = bone_at(context, view, mouse)
            if found is None:
                return None
            armature, bone, point = found[0].id_data, found[0].name, (0.0, found[1], 0.0)
        if not bone:
            if context.active_pose_bone is None:
                raise IKError("Click the bone that is to be dragged, in Pose Mode")
            bone = context.active_pose_bone.name
        drag = Drag(armature, bone, point=point, depsgraph=context.evaluated_depsgraph_get())
        if self.keep_orientation:
            drag.keep_orientation(True)
        return drag


def keys_of(drag: Dragged) -> Callable[[Any, Context], None]:
    """Return what draws the keys of a drag in the status bar, with what they have set."""
    orientation, priority = Message("on") if drag.keeps_orientation else Message("off"), drag.priority

    def draw(header: Any, context: Context) -> None:
        for signs, text in KEYS:
            row = header.layout.row(align=True)
            for sign in signs:
                row.label(text="", icon=sign)
                if sign in WIDE:
                    row.separator(factor=WIDE_MORE)
            own = text.filled(orientation=orientation, priority=priority)
            row.label(text=translated(own), translate=False)

    return draw


def _region_at(context: Context, event: Event) -> Any:
    """The part of the viewport under the mouse, of which a quad view has four; the first for a button."""
    regions: list[Any] = [region for region in context.area.regions if region.type == 'WINDOW']
    inside = (
        region
        for region in regions
        if 0 <= event.mouse_x - region.x < region.width and 0 <= event.mouse_y - region.y < region.height
    )
    return next(inside, regions[0])


def bone_at(
    context: Context, view: View, mouse: FloatArray, *, of: Object | None = None, but: str = ""
) -> tuple[Any, float] | None:
    """The visible bone under the mouse (2,) [pixels], and how far along it that is [m] before its scale.

    Of all armatures that are in Pose Mode, or of one (`of`), in which it has another name than `but`.
    """
    visible: Any = context.visible_pose_bones or ()
    bones = [own for own in visible if of is None or (own.id_data == of and own.name != but)]
    if not bones:
        return None
    depsgraph = context.evaluated_depsgraph_get()
    ends: list[Any] = []
    for bone in bones:
        posed: Any = bone.id_data.evaluated_get(depsgraph)
        own = posed.pose.bones[bone.name]
        ends.append([posed.matrix_world @ own.head, posed.matrix_world @ own.tail])
    seen = view.pixels(np.array(ends).reshape(-1, 3)).reshape(-1, 2, 2)
    radius = REACH_PIXELS * context.preferences.system.ui_scale
    found = nearest_segment(mouse, seen[:, 0], seen[:, 1], radius)
    return None if found is None else (bones[found[0]], found[1] * bones[found[0]].bone.length)


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


def drag_tool(context: Context) -> Any:
    """The tool, where it is the chosen one; else None."""
    tools: Any = context.workspace.tools
    tool = tools.from_space_view3d_mode(context.mode, create=False)
    return tool if tool is not None and tool.idname == POISE_drag_tool.bl_idname else None


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
