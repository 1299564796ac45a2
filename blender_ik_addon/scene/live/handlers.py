# SPDX-License-Identifier: GPL-3.0-or-later
"""Live mode: after every update of the scene, bodies that are live follow what has moved.

Blender calls a handler when it has evaluated the scene, for an update and for a new frame. What the handler
writes is evaluated in a second pass of the same update, for which no handler is called: so one update is one
solve, and the pose is that of this frame. Whether anything has moved is told by `following`, from the file
alone.

What is live is a property, `Object.poise.live`. Nothing switches it off but the user. What keeps a body from
following stands in `Object.poise.live_problem`, and it follows again at the first update after that is
mended.
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import bpy
from bpy.app.handlers import persistent
from bpy.types import Depsgraph, Object, Scene, ViewLayer

from ...core import IKError
from ..properties.naming import follow_names
from ..properties.settings import settings_of
from . import fields, following
from .following import Trigger

logger = logging.getLogger(__name__)

GESTURES: Final = ("TRANSFORM_OT_", "POISE_OT_")
"""How tools begin that move things under the mouse and can be cancelled."""

MOST_ROUNDS: Final = 16
"""How often bodies that follow each other, or what answers to them, are looked at again after one update."""

TOOL_PAUSE: Final = 0.1
"""After how long it is looked again whether a tool is still running, where its end is waited for [s]."""

STEP_PAUSE: Final = 0.02
"""The same where a pose is still moving towards where the mouse rests, or was let go [s]."""


@dataclass
class _Again:
    """Another look that is due once Blender is done with the present update."""

    trigger: Trigger = Trigger.USER
    places: set[tuple[str, str]] = field(default_factory=set)
    """Where it is due: scenes and view layers, by name."""
    running: bool = False
    """Whether it is being done: then the handlers follow nothing."""
    watching: bool = False
    """Whether it is just seeing what others have changed since the last one."""
    restless: bool = False
    """Whether the bodies that were looked at last are to be looked at again."""
    field_is_held: bool = False
    """Whether a number field may still be dragged: nobody tells when it is let go."""


_AGAIN: Final = _Again()


def live_armatures(view_layer: ViewLayer) -> Iterator[Object]:
    """Give the armature objects of a view layer that follow their targets."""
    for candidate in view_layer.objects:
        # The list has None for an object that has just been deleted.
        if candidate is not None and candidate.type == 'ARMATURE' and settings_of(candidate).live:
            yield candidate


def problem_of(armature_object: Object) -> str:
    """Say what keeps a live armature from following; empty if nothing does."""
    if not armature_object.is_editable:  # then nothing can be noted in it
        return f"{armature_object.name!r} is linked from another file: make a library override of it"
    return settings_of(armature_object).live_problem


@persistent
def _after_update(scene: Scene, depsgraph: Depsgraph) -> None:
    """Follow what the user, a script or undo has moved."""
    if _AGAIN.running:
        if _AGAIN.watching and _field_is_edited(depsgraph):
            _AGAIN.field_is_held = True  # it was held still, and is dragged on
        return
    # Scripts that update the scene get what a solve gives, whatever is under the mouse.
    if fields.is_called_by_blender(sys._getframe()) and _field_is_edited(depsgraph):
        _AGAIN.field_is_held = True
        _follow_all(depsgraph, Trigger.FIELD)
    else:
        _follow_all(depsgraph, _user_occasion(again=_will_look_again()))


@persistent
def _after_frame_change(scene: Scene, depsgraph: Depsgraph) -> None:
    """Follow what is animated."""
    _follow_all(depsgraph, Trigger.FRAME)


@persistent
def _forget(*_: object) -> None:
    """Drop what was prepared: in another state of the file, or another file, nothing need be what it was.

    Before undo and not after it, because Blender updates the scene in between.
    """
    _AGAIN.field_is_held = False
    following.forget()


@persistent
def _after_load(*_: object) -> None:
    """Look at bodies that were saved on their way, or whose targets were moved where nobody looked."""
    _forget()
    if not bpy.app.background and not bpy.app.timers.is_registered(_look_first):
        bpy.app.timers.register(_look_first, first_interval=0.0)


def _follow_all(depsgraph: Depsgraph, trigger: Trigger) -> None:
    # Rendering has a depsgraph of its own, and may run beside the user interface. Bodies follow after it.
    if depsgraph.mode != 'VIEWPORT' or bpy.app.is_job_running('RENDER'):
        return
    view_layer: Any = depsgraph.view_layer
    if depsgraph.id_type_updated('ARMATURE'):
        _follow_names(depsgraph)
    lives = list(live_armatures(view_layer))
    if not lives:
        return
    scene_changed = depsgraph.id_type_updated('SCENE') or depsgraph.id_type_updated('COLLECTION')
    updates: Any = depsgraph.updates
    changed = {update.id.original.session_uid for update in updates}
    restless = owing = False
    for armature_object in lives:
        data: Any = armature_object.data
        closely = scene_changed or not changed.isdisjoint((armature_object.session_uid, data.session_uid))
        closely = closely or bool(problem_of(armature_object))
        moved = _follow(armature_object, depsgraph, trigger, closely)
        # Who is on the way is looked at again in any case, after a while: in between the window is drawn.
        if not following.is_underway(armature_object):
            restless |= (moved and len(lives) > 1) or following.is_restless(armature_object)
        owing |= trigger is not Trigger.FRAME and _waits_for_the_tool(armature_object)
    if _AGAIN.running:
        _AGAIN.restless |= restless
    elif restless or owing:
        _AGAIN.trigger = trigger
        scene: Any = depsgraph.scene
        _AGAIN.places.add((scene.name, view_layer.name))
        # Without a window there are no timers: there another look is the next update.
        if not bpy.app.background and not _will_look_again():
            bpy.app.timers.register(_look_again, first_interval=0.0)


def _follow_names(depsgraph: Depsgraph) -> None:
    """Let what is held of bones follow these where some may have been renamed, live or not."""
    view_layer: Any = depsgraph.view_layer
    for candidate in view_layer.objects:  # all of them: bones of others may be targets
        if candidate is not None and candidate.type == 'ARMATURE':
            follow_names(candidate)


def _follow(armature_object: Object, depsgraph: Depsgraph, trigger: Trigger, look_closely: bool) -> bool:
    """Let one body follow, and note what keeps it from that; whether it has moved."""
    problem, moved = "", False
    try:
        report = following.follow(armature_object, depsgraph, trigger, look_closely=look_closely)
        moved = report is not None
    except Exception as error:  # noqa: BLE001  Blender calls us, at every update: said once, and tried again
        problem = _told(armature_object, error)
    _note(armature_object, problem)
    return moved


def _look_again() -> float | None:
    """Look at bodies until they are at rest, outside the handlers; Blender calls this as a timer.

    What is written in a handler is evaluated after it. So bodies that follow other bodies, and bones that
    answer to them, are not there in the same update; and a handler must not update the scene itself: in
    Blender 4.5 and 5.0 that ends in a crash later on, if an object has been added meanwhile. Keys wait for
    the end of a tool that can still be cancelled, and for bodies to be at rest; and what cannot be met goes
    on to near the answer when the tool has ended, so that nothing jumps, and then is solved for. That
    something waits is noted in the file: where this look is lost, the next update solves at once.
    """
    found = [
        bpy.data.scenes[scene].view_layers.get(layer)
        for scene, layer in _AGAIN.places
        if scene in bpy.data.scenes
    ]
    view_layers = [view_layer for view_layer in found if view_layer is not None]
    _AGAIN.running = _AGAIN.watching = True
    try:
        for view_layer in view_layers:
            view_layer.update()
        _AGAIN.watching = False
        if _AGAIN.trigger is not Trigger.FRAME:
            _AGAIN.trigger = Trigger.FIELD if _AGAIN.field_is_held else _user_occasion(again=True)
        for _ in range(MOST_ROUNDS):
            _AGAIN.restless = False
            for view_layer in view_layers:
                view_layer.update()
                _follow_all(view_layer.depsgraph, _AGAIN.trigger)
                view_layer.update()
            if not _AGAIN.restless:
                break
    finally:
        _AGAIN.running = _AGAIN.watching = False
    lives = [found for view_layer in view_layers for found in live_armatures(view_layer)]
    if _AGAIN.trigger in following.GESTURES and any(_waits_for_the_tool(found) for found in lives):
        if not all(_is_still(found) or problem_of(found) for found in lives):
            return STEP_PAUSE
        _AGAIN.field_is_held = False  # or it is held still: dragged on, it is noticed again
        return TOOL_PAUSE
    if _AGAIN.trigger is Trigger.ENDING and any(_goes_on(found) for found in lives):
        return STEP_PAUSE
    _AGAIN.places.clear()
    _AGAIN.field_is_held = False
    return None


def _look_first() -> float | None:
    """Let bodies follow what was moved while nobody looked: before it was enabled, or elsewhere."""
    for window in bpy.context.window_manager.windows:
        _AGAIN.places.add((window.scene.name, window.view_layer.name))
    _AGAIN.trigger = Trigger.USER
    return _look_again()


def _will_look_again() -> bool:
    return any(bpy.app.timers.is_registered(look) for look in (_look_again, _look_first))


def _is_still(armature_object: Object) -> bool:
    """Whether another look would find it as it is, for as long as the tool is held still."""
    return following.is_settled(armature_object) and not following.is_restless(armature_object)


def _goes_on(armature_object: Object) -> bool:
    """Whether a body is on its way and nothing keeps it from that."""
    return following.is_underway(armature_object) and not problem_of(armature_object)


def _waits_for_the_tool(armature_object: Object) -> bool:
    """Whether a body owes keys or a solve."""
    return following.owes_keys(armature_object) or following.is_underway(armature_object)


def _told(armature_object: Object, error: Exception) -> str:
    """Say in words what keeps a body from following; what nobody foresaw also goes to the console, once.

    By its kind and place, for its text may be another one at each update.
    """
    if isinstance(error, IKError):
        return str(error)
    known = problem_of(armature_object)
    place = traceback.extract_tb(error.__traceback__)[-1]
    file = place.filename.replace("\\", "/").rpartition("/")[2]
    start = f"unexpected error ({type(error).__name__} in {file}, line {place.lineno}: "
    if known.startswith(start):
        return known
    logger.error("%r does not follow", armature_object.name, exc_info=error)
    return f"{start}{error}); the console tells more"


def _note(armature_object: Object, problem: str) -> None:
    if armature_object.is_editable and settings_of(armature_object).live_problem != problem:
        settings_of(armature_object).live_problem = problem
        _redraw()


def _user_occasion(*, again: bool) -> Trigger:
    """What the user is about; with whether it will be looked again."""
    if _gesture_is_running():
        return Trigger.GESTURE
    return Trigger.ENDING if again else Trigger.USER


def _gesture_is_running() -> bool:
    """Whether a tool moves things under the mouse; while an animation plays each frame is final."""
    windows: Any = bpy.context.window_manager.windows
    return not _is_playing() and any(
        operator.bl_idname.startswith(GESTURES) for window in windows for operator in window.modal_operators
    )


def _field_is_edited(depsgraph: Depsgraph) -> bool:
    """Whether the user has just changed something with a button, as a number field that is dragged."""
    # Without anybody live this is not looked for: it takes longer than all the rest.
    view_layer: Any = depsgraph.view_layer
    lives = any(True for _ in live_armatures(view_layer))
    return (
        lives and not bpy.app.background and not _is_playing() and fields.edited_block(depsgraph) is not None
    )


def _is_playing() -> bool:
    return any(window.screen.is_animation_playing for window in bpy.context.window_manager.windows)


def _redraw() -> None:
    """Show a problem, or that it is gone: it may have come without anything else to draw."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == 'VIEW_3D':
                area.tag_redraw()


_HANDLERS: Final = (
    ("depsgraph_update_post", _after_update),
    ("frame_change_post", _after_frame_change),
    ("undo_pre", _forget),
    ("redo_pre", _forget),
    ("load_post", _after_load),
)


def register() -> None:
    """Add the handlers; files that are loaded leave them in place."""
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)
    # Not here: while an extension is being enabled there is no context. Without a window there are no timers.
    if not bpy.app.background:
        bpy.app.timers.register(_look_first, first_interval=0.0)


def unregister() -> None:
    """Take the handlers away; one left behind would keep Blender 4.5 from ending."""
    for name, handler in _HANDLERS:
        handlers = getattr(bpy.app.handlers, name)
        if handler in handlers:  # others may have cleared the list
            handlers.remove(handler)
    for look in (_look_again, _look_first):
        if bpy.app.timers.is_registered(look):
            bpy.app.timers.unregister(look)
    _AGAIN.places.clear()
    _AGAIN.field_is_held = False
    following.forget()
