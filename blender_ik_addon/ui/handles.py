# SPDX-License-Identifier: GPL-3.0-or-later
"""Handles: the points of effectors in the viewport can be clicked and dragged, in Object and in Pose Mode.

The overlay draws the points. One gizmo stands for all of them: Blender asks it what is under the mouse before
anything else may have the event. A handle means the target of its effector, of several that which the bone
takes, so it is chosen by selecting the target, and moved by Blender's own tools, with their keys, numbers,
snapping and auto-key. In Pose Mode these would move bones: there the target is the active object for as long
as the tool runs.

Where the orientation of a target alone counts, as of a head's, dragging its handle turns it: moving it would
do nothing.

With the tool Drag with Body the body is dragged: a handle at its bone is the bone then.
"""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, ClassVar, Final

import bpy
import numpy as np
from bpy.types import Context, Event, Gizmo, GizmoGroup, KeyMap, Macro, Object, Operator

from ..core.errors import IKError
from ..core.messages import Joined, Message
from ..scene import posing
from ..scene.effectors.effectors import label_of, present_state, taken_of, target_of
from ..scene.kinds.frame_data import points_of
from ..scene.kinds.kinds import KINDS, asked_of
from ..scene.matching.snapping import obstacle_of
from ..scene.properties.settings import settings_of
from ..scene.rig.noted import bring_handles
from ..scene.translations import translated
from . import overlay
from .acting import (
    EffectorOperator,
    choice,
    context_armature,
    refuse,
    require_armature,
    select_only,
    show_effector,
)
from .drag import drag_tool
from .mouse import View, is_dragged, mouse_in
from .preferences import look

TIMER_SECONDS: Final = 0.02
"""Pause between two looks whether the tool that moves a handle still runs [s]."""
PRESSED: Final = ('PRESS', 'DOUBLE_CLICK')
"""Values of an event when a key or a button is pressed; timers, also those of reports, have others."""
TOOLS: Final = ('POISE_OT_move_handle', 'POISE_OT_turn_handle', 'POISE_OT_trackball_handle')
"""The tools that move handles."""


def handle_at(context: Context, mouse: Any) -> int:
    """Place in the list of the effector whose handle is under the mouse (2,) [pixels]; -1 for none."""
    places, effectors = overlay.handles_in(context)
    if not len(effectors):
        return -1
    distances = np.linalg.norm(places - np.asarray(mouse, dtype=np.float64), axis=1)
    distances = np.where(np.isnan(distances), np.inf, distances)
    nearest = int(distances.argmin())
    return int(effectors[nearest]) if distances[nearest] <= _radius(context) else -1


def _radius(context: Context) -> float:
    """How far from its middle a handle is still meant [pixels]."""
    return 0.5 * look(context).handle_size * context.preferences.system.ui_scale


class POISE_GT_handles(Gizmo):
    """What is under the mouse, and rings about handles that are chosen."""

    bl_idname = "POISE_GT_handles"
    under: int
    """Place in the list of the effector whose handle is under the mouse; -1 for none."""

    def setup(self) -> None:
        """Nothing is under the mouse at first."""
        self.under = -1

    def test_select(self, context: Context, location: Any) -> int:
        """Return which handle is under the mouse; -1 for none."""
        self.under = handle_at(context, location)
        return self.under

    def draw(self, context: Context) -> None:
        """Draw a ring about handles whose target is selected, and about that under the mouse."""
        armature = context_armature(context)
        if armature is None:
            return
        entries = settings_of(armature).effectors
        theme: Any = context.preferences.themes[0]
        chosen, hover = theme.view_3d.object_active, theme.user_interface.gizmo_hi
        colours: dict[int, tuple[float, ...]] = {
            row: (*chosen[:3], 1.0) for row, entry in enumerate(entries) if _is_chosen(context, entry)
        }
        if self.is_highlight and self.under >= 0:
            colours[self.under] = (*hover[:3], 1.0)
        if not colours:
            return
        places, effectors = overlay.handles_in(context)
        rows = [row for row, effector in enumerate(effectors.tolist()) if effector in colours]
        rings = [colours[int(effectors[row])] for row in rows]
        overlay.draw_rings(context, places[rows], rings, _radius(context))


def _is_chosen(context: Context, entry: Any) -> bool:
    """Whether the target of an effector is selected."""
    target = target_of(taken_of(entry))
    return target is not None and target.select_get(view_layer=context.view_layer)


def _is_at_bone(context: Context, armature: Object, entry: Any, event: Event) -> bool:
    """Whether what is under the mouse is the bone of an effector of a place or an orientation."""
    if not KINDS[entry.kind].pinnable:
        return False
    posed: Any = armature.evaluated_get(context.evaluated_depsgraph_get())
    world_from_bone = np.array(posed.matrix_world @ posed.pose.bones[entry.bone].matrix)
    place = points_of(world_from_bone, entry.point)
    seen = View.of(context.region, context.region_data).pixels(place[None])[0]
    return bool(np.linalg.norm(seen - mouse_in(context.region, event)) <= _radius(context))


def _goes_to_place(entry: Any) -> bool:
    """Whether the place of its target counts for an effector, and not its orientation alone."""
    kind = asked_of(entry)
    return kind.position or not kind.orientation


class PointsGroup(GizmoGroup):
    """One gizmo that stands for all points of a kind, with keys of its own; not registered itself."""

    bl_space_type = 'VIEW_3D'
    bl_region_type = 'WINDOW'
    bl_options: ClassVar = {'PERSISTENT'}
    gizmo: ClassVar[type[Gizmo]]
    operator: ClassVar[str]
    presses: ClassVar[tuple[tuple[str, bool, dict[str, Any]], ...]]
    """Keys that call the operator while a point is under the mouse, whether with Shift, and with what."""

    @classmethod
    def setup_keymap(cls, keyconfig: Any) -> KeyMap:
        keymap = keyconfig.keymaps.new(name=cls.bl_label, space_type='VIEW_3D', region_type='WINDOW')
        for item in list(keymap.keymap_items):  # those of before the extension was switched off
            keymap.keymap_items.remove(item)
        for key, shift, properties in cls.presses:
            item = keymap.keymap_items.new(cls.operator, key, 'PRESS', shift=shift)
            for name, value in properties.items():
                setattr(item.properties, name, value)
        return keymap

    def setup(self, context: Context) -> None:
        self.gizmos.new(self.gizmo.bl_idname)


class POISE_GGT_handles(PointsGroup):
    """The handles of the figure that is shown."""

    bl_idname = "POISE_GGT_handles"
    bl_label = "Poise Handles"
    gizmo, operator = POISE_GT_handles, "poise.handle"
    presses = (
        ('LEFTMOUSE', False, {"action": 'PRESS'}),
        ('LEFTMOUSE', True, {"action": 'PRESS'}),
        ('G', False, {"action": 'MOVE'}),
        ('R', False, {"action": 'TURN'}),
    )

    @classmethod
    def poll(cls, context: Context) -> bool:
        armature = context_armature(context)
        return (
            armature is not None
            and context.mode in {'OBJECT', 'POSE'}
            and bool(settings_of(armature).effectors)
        )


_put_back = ExitStack()
"""What is undone when the tool that is running ends; by names, as objects may be gone by then."""


def _show(context: Context, target: Object) -> None:
    """Show a target for as long as the tool runs, if only it itself is hidden (H): tools need that."""
    if target.hide_get(view_layer=context.view_layer):
        target.hide_set(False, view_layer=context.view_layer)
        _put_back.callback(_hide, target.name)
        context.view_layer.update()


def _hide(name: str) -> None:
    if (target := bpy.context.view_layer.objects.get(name)) is not None:
        target.hide_set(True, view_layer=bpy.context.view_layer)


def _select_alone(context: Context, targets: set[Object], active: Object) -> None:
    """Deselect all but some targets and make one of them active, for as long as the tool runs."""
    objects: Any = context.view_layer.objects
    others = [own for own in objects if own not in targets and own.select_get()]
    _put_back.callback(_select, [own.name for own in others], objects.active and objects.active.name)
    for own in others:
        own.select_set(False)
    objects.active = active


def _select(selected: Iterable[str], active: str | None) -> None:
    """Select objects beside those that are, and make one of them active."""
    objects: Any = bpy.context.view_layer.objects
    for name in selected:
        if (found := objects.get(name)) is not None:
            found.select_set(True)
    if active is not None and (found := objects.get(active)) is not None:
        objects.active = found


class POISE_OT_handle(EffectorOperator, label="Handle"):
    """Click to choose its effector, drag to move or turn its target, double-click to pin or free it"""

    bl_options: ClassVar = {'INTERNAL', 'BLOCKING'}

    action: choice(
        "What is done with the handle under the mouse",
        ('PRESS', "Press", "Choose it when the mouse is released, move it when the mouse is dragged"),
        ('MOVE', "Move", "Move it"),
        ('TURN', "Turn", "Turn it"),
    )

    _index: int
    _timer: Any
    _tool: Any
    """Drag with Body, where that is chosen and the handle is at its bone; else None."""
    _moves: bool
    """Whether the tool that moves it was begun."""
    _again_until: float
    """Until when it may be pressed again for a second click [s]; 0 while it is pressed."""
    _again: bool
    """Whether it is pressed for the second time."""

    @staticmethod
    def _under(context: Context, event: Event) -> int:
        return handle_at(context, mouse_in(context.region, event))

    def invoke(self, context: Context, event: Event) -> set[str]:
        self._index = self._under(context, event)
        self._timer, self._moves, self._again_until, self._again = None, False, 0.0, False
        if self._index < 0:
            return {'PASS_THROUGH'}
        armature = require_armature(context)
        entry = settings_of(armature).effectors[self._index]
        self._tool = drag_tool(context)
        if self.action != 'PRESS' or not _is_at_bone(context, armature, entry, event):
            self._tool = None
        is_chosen = _is_chosen(context, entry)
        if self.action != 'PRESS' and context.mode == 'OBJECT' and is_chosen:
            return {'PASS_THROUGH'}  # Blender's own keys move what is selected
        try:
            if self.action != 'PRESS':
                return self._move(context, armature)
        except IKError as error:
            return refuse(self, error)
        context.window_manager.modal_handler_add(self)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        window: Any = context.window
        if self._moves:
            if any(tool.bl_idname in TOOLS for tool in window.modal_operators):
                return {'PASS_THROUGH'}
            self.cancel(context)  # where the tool was cancelled nobody else has put the selection back
            return {'FINISHED'}
        if self._again_until:
            return self._wait(context, event)
        if event.type in {'ESC', 'RIGHTMOUSE'}:
            return {'CANCELLED'}
        if event.type == 'LEFTMOUSE' and event.value == 'RELEASE':
            if self._again:
                return self._pin(require_armature(context))
            self._choose(context, require_armature(context), extend=event.shift)
            bpy.ops.ed.undo_push(message=translated(Message("Choose Handle")))
            self._again_until = time.monotonic() + 1e-3 * context.preferences.inputs.mouse_double_click_time
            self._timer = context.window_manager.event_timer_add(TIMER_SECONDS, window=window)
            return {'RUNNING_MODAL'}
        if not is_dragged(context, event):
            return {'RUNNING_MODAL'}
        try:
            return self._move(context, require_armature(context), release_confirm=True)
        except IKError as error:
            return refuse(self, error)

    def cancel(self, context: Context) -> None:
        """Put the selection back; Blender calls this too, when another file is opened."""
        _put_back.close()
        if self._timer is not None:
            context.window_manager.event_timer_remove(self._timer)
            self._timer = None

    def _choose(self, context: Context, armature: Object, *, extend: bool) -> None:
        """Make the effector the active one of the list, and select its target; `extend`: beside others."""
        settings = settings_of(armature)
        target = target_of(taken_of(settings.effectors[self._index]))
        bring_handles(armature, context.evaluated_depsgraph_get())
        if target is not None and target.visible_get(view_layer=context.view_layer):
            chosen = target.select_get()
            if not extend:
                for other in handle_targets(armature):
                    other.select_set(False)
                if context.mode == 'OBJECT':
                    select_only(context, target)
            target.select_set(not (extend and chosen))
            if context.mode == 'OBJECT' and target.select_get():
                context.view_layer.objects.active = target
        settings.active_effector = self._index
        show_effector(context, armature, self._index)

    def _move(self, context: Context, armature: Object, *, release_confirm: bool = False) -> set[str]:
        """Begin to move the handle, or to turn it, and with it the others that are chosen."""
        entries = settings_of(armature).effectors
        entry = entries[self._index]
        followed = taken_of(entry)
        target = target_of(followed)
        if target is None or self._tool is not None:
            return self._drag_bone(context, entry.bone, release_confirm)
        _show(context, target)
        if why := obstacle_of(armature, entry, moved=True, keyed=False, followed=followed):
            _put_back.close()
            raise IKError("{effector}: {why}", effector=label_of(entry), why=why)
        if not _is_chosen(context, entry):
            self._choose(context, armature, extend=False)
        bring_handles(armature, context.evaluated_depsgraph_get())
        if not self._moves and self.action != 'PRESS':
            context.window_manager.modal_handler_add(self)
        if context.mode == 'POSE':
            _select_alone(context, handle_targets(armature), target)
        else:
            context.view_layer.objects.active = target
        show_effector(context, armature, self._index)
        self._moves = True
        self._timer = context.window_manager.event_timer_add(TIMER_SECONDS, window=context.window)
        operators: Any = bpy.ops
        tools = operators.poise
        if self.action == 'TURN':
            tools.turn_handle('INVOKE_DEFAULT')
        elif release_confirm and not any(_goes_to_place(own) for own in entries if _is_chosen(context, own)):
            tools.trackball_handle('INVOKE_DEFAULT', TRANSFORM_OT_trackball={"release_confirm": True})
        else:
            tools.move_handle('INVOKE_DEFAULT', TRANSFORM_OT_translate={"release_confirm": release_confirm})
        return {'RUNNING_MODAL'}

    def _drag_bone(self, context: Context, bone: str, release_confirm: bool) -> set[str]:
        """Drag the bone itself, where it has no target that could be moved, or the tool is for that."""
        if context.mode != 'POSE':
            raise IKError(
                "{bone} has no target to be moved: drag it in Pose Mode, or make targets", bone=bone
            )
        operators: Any = bpy.ops
        keeps = self._tool is not None and self._tool.operator_properties("poise.drag").keep_orientation
        operators.poise.drag(
            'INVOKE_DEFAULT', bone=bone, keep_orientation=keeps, release_confirm=release_confirm
        )
        return {'FINISHED'}

    def _wait(self, context: Context, event: Event) -> set[str]:
        """Wait whether the handle is pressed again; all else goes on as if nobody waited for that."""
        pressed = event.value in PRESSED
        if not pressed and time.monotonic() < self._again_until:
            return {'PASS_THROUGH'}
        self.cancel(context)
        if not pressed or event.type != 'LEFTMOUSE' or self._under(context, event) != self._index:
            return {'FINISHED', 'PASS_THROUGH'}
        self._again_until, self._again = 0.0, True
        return {'RUNNING_MODAL'}

    def _pin(self, armature: Object) -> set[str]:
        """Pin the handle, or free it."""
        entry = settings_of(armature).effectors[self._index]
        state = 'REACH' if present_state(armature, entry) == 'PIN' else 'PIN'
        try:
            posing.set_state(armature, self._index, state)
        except IKError as error:
            return refuse(self, error)
        bpy.ops.ed.undo_push(message=translated(Message("Set State")))
        now = Message("Pin") if state == 'PIN' else Message("Reach")
        self.tell(Joined(": ", (label_of(entry), now)))
        return {'FINISHED'}


def handle_targets(armature: Object) -> set[Object]:
    """The targets of an armature's effectors; of several those that are taken."""
    targets = (target_of(taken_of(entry)) for entry in settings_of(armature).effectors)
    return {target for target in targets if target is not None}


class POISE_OT_handle_end(Operator):
    """Go back to what was active before a handle was moved"""

    bl_idname = "poise.handle_end"
    bl_label = "End Handle"
    bl_options: ClassVar = {'INTERNAL'}

    def execute(self, context: Context) -> set[str]:
        _put_back.close()
        return {'FINISHED'}


class _HandleTool(Macro):
    """One of Blender's tools, and then going back to what was active; not registered itself."""

    bl_options: ClassVar = {'UNDO', 'BLOCKING', 'INTERNAL'}

    def __init_subclass__(cls, *, label: str) -> None:
        cls.bl_idname, cls.bl_label = cls.__name__.replace("POISE_OT_", "poise."), label


class POISE_OT_move_handle(_HandleTool, label="Move Handle"):
    """Move the target of a handle"""


class POISE_OT_turn_handle(_HandleTool, label="Turn Handle"):
    """Turn the target of a handle"""


class POISE_OT_trackball_handle(_HandleTool, label="Trackball Handle"):
    """Turn the target of a handle about both axes of the view"""


CLASSES = (
    POISE_OT_handle,
    POISE_OT_handle_end,
    POISE_OT_move_handle,
    POISE_OT_turn_handle,
    POISE_OT_trackball_handle,
    POISE_GT_handles,
    POISE_GGT_handles,
)
_register_classes, _unregister_classes = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    """Add operators and gizmos, and the steps of the tools."""
    _register_classes()
    for tool, step in (
        (POISE_OT_move_handle, "translate"),
        (POISE_OT_turn_handle, "rotate"),
        (POISE_OT_trackball_handle, "trackball"),
    ):
        steps: Any = tool
        steps.define(f"TRANSFORM_OT_{step}")
        steps.define("POISE_OT_handle_end")


def unregister() -> None:
    """Take them away."""
    _put_back.pop_all()
    _unregister_classes()
