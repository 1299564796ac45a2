# SPDX-License-Identifier: GPL-3.0-or-later
"""Live mode: after every update of the scene, bodies that are live follow what has moved.

Blender calls a handler when it has evaluated the scene, for an update and for a new frame. What the handler
writes is evaluated in a second pass of the same update, for which no handler is called: so one update is one
solve, and the pose is that of this frame.

What is live is a property, `Object.poise.live`. Nothing switches it off but the user. What keeps a body from
following stands in `Object.poise.live_problem`, and it follows again at the first update after that is
mended.
"""

import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import bpy
from bpy.app.handlers import persistent
from bpy.types import ID, Depsgraph, Object, Scene, ViewLayer

from ...core import IKError
from ...core.messages import Message, sentences
from ..armature.rest_changes import follow_rests
from ..effectors.effectors import keep_keyed_targets
from ..properties.app_handlers import handlers_factory
from ..properties.naming import follow_names
from ..properties.settings import armatures_in, settings_of
from ..translations import translated
from . import following
from .machine import LIVE, TOOLS, Trigger

logger = logging.getLogger(__name__)

GESTURES: Final = ("TRANSFORM_OT_", "POISE_OT_")
"""How tools begin that move things under the mouse and can be cancelled."""
RELOADS: Final = "FORCE_INDIRECT"
"""Option of an import by which a library that is there already is read again."""
MOST_POLL_ROUNDS: Final = 16
"""How often bodies that follow each other, or driven bones, are updated again in one poll."""
TOOL_PAUSE: Final = 0.1
"""Pause between two polls whether a tool is still running, where its end is waited for [s]."""
STEP_PAUSE: Final = 0.02
"""The same where a body is on its way [s]."""


def live_armatures(objects: Iterable[Object | None]) -> Iterator[Object]:
    """Give the armature objects of a list that follow their targets."""
    return (found for found in armatures_in(objects) if settings_of(found).live)


def problem_of(armature_object: Object) -> str:
    """Say what keeps a live armature from following; empty if nothing does."""
    if not armature_object.is_editable:  # then nothing can be noted in it
        return Message(
            "{armature_object!r} is linked from another file: make a library override of it",
            armature_object=armature_object.name,
        )
    return settings_of(armature_object).live_problem


# What Blender calls


@persistent
def _after_update(scene: Scene, depsgraph: Depsgraph) -> None:
    """Follow what the user, a script or undo has moved."""
    if LIVE.polling:
        if LIVE.watching and field_is_edited(depsgraph):
            LIVE.field_is_held = True  # it was held still, and is dragged on
        return
    # Scripts that update the scene get what a solve gives, whatever is under the mouse.
    if is_called_by_blender(sys._getframe()) and field_is_edited(depsgraph):
        LIVE.field_is_held = True
        _update_all(depsgraph, Trigger.FIELD)
    else:
        _update_all(depsgraph, _user_trigger(polls=bpy.app.timers.is_registered(poll)))


@persistent
def _after_frame_change(scene: Scene, depsgraph: Depsgraph) -> None:
    """Follow what is animated."""
    _update_all(depsgraph, Trigger.FRAME)


@persistent
def _before_undo(*_: object) -> None:
    """Drop what was prepared, and note where targets are that follow.

    Before undo and not after it, because Blender updates the scene in between.
    """
    LIVE.forget()
    LIVE.followed = {
        (body.session_uid, target.session_uid): matrix
        for body in live_armatures(bpy.data.objects)
        for target, matrix in following.followed(body)
    }


@persistent
def _after_undo(*_: object) -> None:
    """Bring targets along that Blender has left, where no update has done so."""
    for body in live_armatures(bpy.data.objects):
        with _guarded(body):
            following.bring_along(body)
    for found in armatures_in(bpy.data.objects):
        with _guarded(found):
            _see_rest(found)  # an undo step is made before an update has seen what Apply has left
    LIVE.followed.clear()


@persistent
def _after_load(*_: object) -> None:
    """Update bodies that were saved on their way, or whose targets were moved where live mode was not."""
    LIVE.forget()
    LIVE.places.clear()
    _note_replay()
    _poll_soon()


@persistent
def _before_import(imported: Any, *_: object) -> None:
    """Note what plays again where a library is reloaded or relocated.

    Blender imports to append, to link and to paste as well, a pose too: then only what is new plays.
    Before it, since after it Blender 4.5 calls nothing where a library is reloaded.
    """
    if RELOADS in imported.options:
        _note_replay()


def _note_replay() -> None:
    """Note that keys may play again in the next update; nothing tells whose a library brings along."""
    LIVE.replayed.update(body.session_uid for body in live_armatures(bpy.data.objects))


def poll() -> float | None:
    """Update bodies until they are at rest, outside the handlers; Blender calls this as a timer.

    What is written in a handler is evaluated after it. So bodies that follow other bodies, and driven bones,
    are not there in the same update; and a handler must not update the scene itself: in Blender 4.5 and 5.0
    that ends in a crash later on, if an object has been added meanwhile. Keys wait for the end of a tool that
    can still be cancelled, and for bodies to be at rest. That something waits is noted in the file: where
    this timer is lost, the next update solves at once.

    Returns:
        The pause before the next poll [s]; None where no body needs one.
    """
    if not LIVE.places:  # the first one: what was moved before the add-on was there, or elsewhere
        windows = bpy.context.window_manager.windows
        LIVE.places = {(window.scene.name, window.view_layer.name) for window in windows}
        LIVE.trigger = Trigger.USER
    scenes = [(bpy.data.scenes.get(scene), layer) for scene, layer in LIVE.places]
    found = [scene.view_layers.get(layer) for scene, layer in scenes if scene is not None]
    view_layers = [view_layer for view_layer in found if view_layer is not None]
    LIVE.polling = LIVE.watching = True
    try:
        for view_layer in view_layers:
            view_layer.update()
        LIVE.watching = False
        if LIVE.trigger is not Trigger.FRAME:
            LIVE.trigger = Trigger.FIELD if LIVE.field_is_held else _user_trigger(polls=True)
        for _ in range(MOST_POLL_ROUNDS):
            LIVE.restless = False
            for view_layer in view_layers:
                view_layer.update()
                _update_all(view_layer.depsgraph, LIVE.trigger)
                view_layer.update()
            if not LIVE.restless:
                break
    finally:
        LIVE.polling = LIVE.watching = False
    lives = [body for view_layer in view_layers for body in live_armatures(view_layer.objects)]
    pause = min((pause for body in lives if (pause := _pause(body)) is not None), default=None)
    if pause != STEP_PAUSE:
        LIVE.field_is_held = False  # or it is held still: dragged on, it is noticed again
    if pause is None:
        LIVE.places.clear()
    return pause


def _pause(armature_object: Object) -> float | None:
    """The pause before a body needs another poll [s]; None where it needs none."""
    underway, settled = following.is_underway(armature_object), following.is_settled(armature_object)
    tool, ending = LIVE.trigger in TOOLS, LIVE.trigger is Trigger.ENDING
    moves = (tool and (following.is_restless(armature_object) or not settled)) or (ending and underway)
    if moves and not problem_of(armature_object):
        return STEP_PAUSE
    return TOOL_PAUSE if tool and (underway or following.owes_keys(armature_object)) else None


def _poll_soon() -> None:
    # Without a window there are no timers: there the next update goes on.
    if not bpy.app.background and not bpy.app.timers.is_registered(poll):
        bpy.app.timers.register(poll, first_interval=0.0)


# An update of all bodies


def _update_all(depsgraph: Depsgraph, trigger: Trigger) -> None:
    # Rendering has a depsgraph of its own, and may run beside the user interface. Bodies follow after it.
    if depsgraph.mode != 'VIEWPORT' or bpy.app.is_job_running('RENDER'):
        return
    scene: Any = depsgraph.scene
    view_layer: Any = depsgraph.view_layer
    if depsgraph.id_type_updated('ARMATURE'):
        _follow_bones(view_layer, is_new_frame=trigger is Trigger.FRAME)
    lives = list(live_armatures(view_layer.objects))
    scene_changed = depsgraph.id_type_updated('SCENE') or depsgraph.id_type_updated('COLLECTION')
    changed = _changed_blocks(depsgraph) if lives else set[int]()
    restless = owing = False
    for armature_object in lives:
        data: Any = armature_object.data
        own_changed = not changed.isdisjoint((armature_object.session_uid, data.session_uid))
        look_closely = scene_changed or own_changed or bool(problem_of(armature_object))
        moved = _follow(armature_object, depsgraph, trigger, look_closely)
        underway = following.is_underway(armature_object)
        # Who is on the way is polled in any case, after a while: in between the window is drawn.
        if not underway:
            restless |= (moved and len(lives) > 1) or following.is_restless(armature_object)
        owing |= trigger is not Trigger.FRAME and (underway or following.owes_keys(armature_object))
    if LIVE.polling:
        LIVE.restless |= restless
    elif restless or owing:
        LIVE.trigger = trigger
        LIVE.places.add((scene.name, view_layer.name))
        _poll_soon()


def _follow_bones(view_layer: ViewLayer, *, is_new_frame: bool) -> None:
    """Follow bones that may have been renamed, also those that are targets, and rest poses that have changed.

    With each new frame Blender tells of armatures that have drivers: then names are looked through only where
    a bone has another one than the last time.
    """
    names: dict[int, tuple[str, ...]] = {}
    for found in armatures_in(view_layer.objects):
        data: Any = found.data
        names[found.session_uid] = tuple(data.bones.keys())
    if is_new_frame and names == LIVE.names:
        return
    for found in armatures_in(view_layer.objects):
        if found.session_uid not in LIVE.paused:  # a bake plays back, and renames nothing
            with _guarded(found):
                follow_names(found)
                _see_rest(found)
    if names.keys().isdisjoint(LIVE.paused):
        LIVE.names = names


def _see_rest(armature_object: Object) -> None:
    """Let keys of targets, and limits of bones, go along with a rest pose or an object that was applied."""
    if armature_object.session_uid in LIVE.paused:
        return
    keep_keyed_targets(armature_object)
    if notes := follow_rests(armature_object):
        settings_of(armature_object).last_message = translated(sentences(*notes))
        redraw_viewports()


def _follow(armature_object: Object, depsgraph: Depsgraph, trigger: Trigger, look_closely: bool) -> bool:
    """Let one body follow, and note what keeps it from that; whether it has moved."""
    moved = False
    with _guarded(armature_object):
        following.bring_along(armature_object)
        moved = following.follow(armature_object, depsgraph, trigger, look_closely=look_closely) is not None
        _note_problem(armature_object, "")
    return moved


@contextmanager
def _guarded(armature_object: Object) -> Iterator[None]:
    """Note what is wrong with one armature: the others follow all the same."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  Blender calls us, at every update: said once, and tried again
        _note_problem(armature_object, _problem_text(armature_object, error))


def _note_problem(armature_object: Object, problem: str) -> None:
    if armature_object.is_editable and settings_of(armature_object).live_problem != problem:
        settings_of(armature_object).live_problem = problem
        redraw_viewports()  # there may be nothing else to draw


def redraw_viewports() -> None:
    """Have all 3D viewports drawn again."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == 'VIEW_3D':
                area.tag_redraw()


def _problem_text(armature_object: Object, error: Exception) -> str:
    """What keeps a body from following, in words; an unexpected error also goes to the console.

    Once for its kind and place, for its text may be another one at each update.
    """
    if isinstance(error, IKError):
        return translated(error.message)
    known = problem_of(armature_object)
    place = traceback.extract_tb(error.__traceback__)[-1]
    file = place.filename.replace("\\", "/").rpartition("/")[2]
    end = "\0"
    text = Message(
        "unexpected error ({type} in {file}, line {line}: {error}); the console tells more",
        type=type(error).__name__,
        file=file,
        line=place.lineno,
        error=end,
    )
    text = translated(text)
    if known.startswith(text.partition(end)[0]):
        return known
    logger.error("%r does not follow", armature_object.name, exc_info=error)
    return text.replace(end, str(error))


# What the user does


def _user_trigger(*, polls: bool) -> Trigger:
    """What the user is about; `polls`: a timer will poll again."""
    if tool_is_running():
        return Trigger.GESTURE
    return Trigger.ENDING if polls else Trigger.USER


def tool_is_running() -> bool:
    """Whether a tool moves things under the mouse; while an animation plays each frame is final."""
    windows: Any = bpy.context.window_manager.windows
    return not _is_playing() and any(
        operator.bl_idname.startswith(GESTURES) for window in windows for operator in window.modal_operators
    )


def _is_playing() -> bool:
    return any(window.screen.is_animation_playing for window in bpy.context.window_manager.windows)


def is_called_by_blender(handler: FrameType) -> bool:
    """Whether no script waits for what a handler does, given its frame: then no Python is below it."""
    return handler.f_back is None


def field_is_edited(depsgraph: Depsgraph) -> bool:
    """Whether the user has just changed something with a button, as a number field that is dragged.

    No operator runs while a field is dragged, and Blender calls nothing when it is let go. What can be known
    is the property of the button that is under the mouse or is held by it, and of which data-block that is.
    """
    # Without anybody live this is not looked for: it takes longer than all the rest.
    view_layer: Any = depsgraph.view_layer
    if bpy.app.background or _is_playing() or next(live_armatures(view_layer.objects), None) is None:
        return False
    changed = _changed_blocks(depsgraph)
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            for region in area.regions:
                with bpy.context.temp_override(window=window, area=area, region=region):
                    shown: Any = bpy.context.property  # data-block, path, index; in one region at most
                if shown is not None and isinstance(shown[0], ID) and shown[0].session_uid in changed:
                    return True
    return False


def _changed_blocks(depsgraph: Depsgraph) -> set[int]:
    """Session uids of what has changed in an update."""
    updates: Any = depsgraph.updates
    return {update.id.original.session_uid for update in updates}


_add, _remove = handlers_factory(
    ("depsgraph_update_post", _after_update),
    ("frame_change_post", _after_frame_change),
    ("undo_pre", _before_undo),
    ("redo_pre", _before_undo),
    ("undo_post", _after_undo),
    ("redo_post", _after_undo),
    ("load_post", _after_load),
    ("blend_import_pre", _before_import),
)


def register() -> None:
    """Add the handlers; files that are loaded leave them in place."""
    _add()
    _poll_soon()  # not here: while an extension is being enabled there is no context


def unregister() -> None:
    """Take the handlers away, and forget everything."""
    _remove()
    if bpy.app.timers.is_registered(poll):
        bpy.app.timers.unregister(poll)
    LIVE.forget()
    LIVE.places.clear()
