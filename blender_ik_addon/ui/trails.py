# SPDX-License-Identifier: GPL-3.0-or-later
"""Trails and ghosts in the viewport: drawn, sampled in idle time, clicked and dragged.

`scene.trails` says where they are. A timer samples frames that are not known yet, those nearest to the
present one first, a few at a time. One gizmo stands for all points and ghosts: Blender asks it what is under
the mouse before the click goes to anything else. Points of effectors at the present frame come first: they
are handles.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import blf
import bpy
import gpu
import numpy as np
from bpy.app.handlers import persistent
from bpy.props import IntProperty, StringProperty
from bpy.types import Context, Depsgraph, Event, Gizmo, Object, Scene, SpaceView3D

from ..core.arrays import BoolArray, FloatArray, IntArray
from ..core.errors import IKError
from ..core.messages import Message
from ..scene.live.handlers import redraw_viewports
from ..scene.properties.app_handlers import handlers_factory
from ..scene.trails.editing import AtFrame, grab
from ..scene.trails.sampling import SCENE
from ..scene.trails.trails import AT_ONCE, Tracked, Trails
from ..scene.translations import translated
from .acting import ArmatureOperator, context_armature, flag
from .batches import Batch
from .drag import DragOperator
from .handles import PointsGroup, handle_at
from .mouse import View, is_dragged, mouse_in, nearest_segment
from .overlay import draw_rings, overlay_of
from .preferences import look

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 0.4
"""How long nothing has changed before bones are evaluated at other frames [s]: Blender waits meanwhile."""
TICK_SECONDS: Final = 0.02
"""Pause between two goes [s]; drawing and events come between them."""
KEY_SIZE: Final = 2.0
"""Width of the points of keys against that of others [1]."""
FAINTEST: Final = 0.15
"""Opacity of the farthest frame against that of the nearest [1]."""
GHOST_OPACITY: Final = 0.6
"""Opacity of the nearest ghost against that of trails [1]."""
ON_EACH_OTHER: Final = 0.5
"""Distance up to which points lie on each other [pixels]."""
CLEAR: Final = 3.0
"""How far beside a ghost the mouse may be to mean it [pixels], at the resolution scale 1."""


@dataclass
class _Shown:
    """What is drawn now, as arrays."""

    tracked: tuple[Tracked, ...] = ()
    places: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))
    """Points of all trails, (k, 3) [m]."""
    of: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Which is of what in `tracked`, (k,)."""
    frames: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(k,)."""
    keyed: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Which have keys, (k,)."""
    ghosts: FloatArray = field(default_factory=lambda: np.zeros((0, 2, 3)))
    """Bones of all ghosts, heads and tails, (g, 2, 3) [m]."""
    ghost_frames: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(g,)."""
    batches: list[Batch] = field(default_factory=list)


@dataclass
class _State:
    """What can be thrown away at any time."""

    handles: list[Any] = field(default_factory=list)
    known: dict[int, Trails] = field(default_factory=dict)
    """By session uid of the armature object."""
    wanted: dict[int, tuple[range, int, int]] = field(default_factory=dict)
    """Session uid -> frames that are drawn, the present one, and how many ghosts on each side of it."""
    key: tuple[Any, ...] | None = None
    """What is drawn depends on this."""
    shown: _Shown = field(default_factory=_Shown)
    changed_at: float = 0.0
    """When the scene was changed last [s]."""
    samples: bool = False
    """Whether frames are being sampled: what is updated then is no change."""


_state = _State()


@dataclass(frozen=True)
class Under:
    """A point of a trail, or a ghost, under the mouse."""

    frame: int
    place: tuple[float, ...]
    """(3,) [m]."""
    tracked: Tracked | None = None
    """Of what the trail is; None for a ghost."""


def frames_round(scene: Scene) -> range:
    """The frames that are drawn: those round the present one, within those that play."""
    settings, now = overlay_of(scene), scene.frame_current
    first, last = scene.frame_start, scene.frame_end
    if scene.use_preview_range:
        first, last = scene.frame_preview_start, scene.frame_preview_end
    first = max(now - settings.before, min(first, now))
    return range(first, min(now + settings.after, max(last, now)) + 1)


def trails_in(context: Context) -> Trails | None:
    """What is known of the trails of the armature that is shown; None where none are to be drawn."""
    settings = overlay_of(context.scene)
    space: Any = context.space_data
    armature = context_armature(context)
    if armature is None or not space.overlay.show_overlays or armature.mode == 'EDIT':
        return None
    if not (settings.show and (settings.trails or settings.ghosts)):
        _state.known.pop(armature.session_uid, None)
        return None
    return _state.known.setdefault(armature.session_uid, Trails(armature.session_uid))


def shown_in(context: Context) -> _Shown:
    """What is drawn now; arrays and buffers are made anew where something has changed."""
    trails = trails_in(context)
    if trails is None:
        return _Shown()
    scene, settings, look_now = context.scene, overlay_of(context.scene), look(context)
    frames, now = frames_round(scene), scene.frame_current
    ghosts = settings.most_ghosts if settings.ghosts else 0
    _state.wanted[trails.uid] = (frames, now, ghosts)
    is_old = trails.is_old
    if not is_old:
        trails.note_shown(context.evaluated_depsgraph_get(), now)
    if is_old or trails.missing(frames) or trails.unsolved(frames, now, ghosts):
        _fill_soon()
    sizes = (look_now.trail_size, look_now.ghost_width, look_now.line_width)
    colours = (tuple(look_now.trail_before), tuple(look_now.trail_after))
    switches = (settings.trails, settings.ghosts, settings.most_ghosts)
    key = (
        trails.uid,
        trails.version,
        frames,
        now,
        sizes,
        colours,
        switches,
        context.preferences.system.pixel_size,
    )
    if key != _state.key:
        _state.key, _state.shown = key, _Shown()  # where this raises it is not tried at every redraw
        _state.shown = _shown(trails, frames, now, switches)
        _make_batches(_state.shown, frames, now, look_now, context.preferences.system.pixel_size)
    return _state.shown


def _shown(trails: Trails, frames: range, now: int, switches: tuple[bool, bool, int]) -> _Shown:
    shown = _Shown(trails.tracked)
    if switches[0]:
        own = trails.trails(frames[0], frames[-1])
        if own:
            shown.places = np.concatenate([trail.places for trail in own])
            shown.frames = np.concatenate([trail.frames for trail in own])
            shown.keyed = np.concatenate([trail.keyed for trail in own])
            rows = [trails.tracked.index(trail.of) for trail in own]
            shown.of = np.repeat(rows, [len(trail.frames) for trail in own])
    if switches[1]:
        ghosts = trails.ghosts(frames[0], frames[-1], now, switches[2])
        if ghosts:
            shown.ghosts = np.concatenate([ghost.bones for ghost in ghosts])
            shown.ghost_frames = np.repeat([ghost.frame for ghost in ghosts], [len(g.bones) for g in ghosts])
    return shown


def _colours(frames: IntArray, now: int, span: range, look_now: Any) -> FloatArray:
    """Colours of frames, (k, 4): by side of the present frame, and fainter the farther away they are."""
    before, after = (np.array(look_now.trail_before[:]), np.array(look_now.trail_after[:]))
    colours = np.where((frames < now)[:, None], before, after)
    farthest = max(now - span[0], span[-1] - now, 1)
    colours[:, 3] *= 1.0 - (1.0 - FAINTEST) * np.abs(frames - now) / farthest
    colours[frames == now] = (1.0, 1.0, 1.0, 1.0)
    return colours


def _make_batches(shown: _Shown, span: range, now: int, look_now: Any, pixel_size: float) -> None:
    """Fill the buffers that are drawn until something changes."""

    def add(name: str, kind: Any, places: FloatArray, colours: FloatArray, **sizes: Any) -> None:
        if len(places):
            shown.batches.append(Batch.filled(name, kind, {"pos": places, "color": colours}, **sizes))

    if len(shown.ghosts):
        colours = _colours(shown.ghost_frames, now, span, look_now) * (1.0, 1.0, 1.0, GHOST_OPACITY)
        width = look_now.ghost_width * pixel_size
        ends, shades = shown.ghosts.reshape(-1, 3), np.repeat(colours, 2, axis=0)
        add('POLYLINE_SMOOTH_COLOR', 'LINES', ends, shades, lineWidth=width)
    if not len(shown.places):
        return
    colours = _colours(shown.frames, now, span, look_now)
    on = np.flatnonzero((np.diff(shown.frames) == 1) & (np.diff(shown.of) == 0))
    ends = np.stack([on, on + 1], axis=1).ravel()
    shades = colours[ends]
    # A way belongs to the side on which it is, also where it ends at the present frame.
    here = shown.frames[ends] == now
    shades[here] = colours[ends.reshape(-1, 2)[:, ::-1].ravel()][here]
    width = look_now.line_width * pixel_size
    add('POLYLINE_SMOOTH_COLOR', 'LINES', shown.places[ends], shades, lineWidth=width)
    keyed, size = shown.keyed, look_now.trail_size * pixel_size
    keys, key_colours = shown.places[keyed], colours[keyed]
    dark = np.tile((0.0, 0.0, 0.0, 0.8), (len(keys), 1))
    add('POINT_FLAT_COLOR', 'POINTS', shown.places[~keyed], colours[~keyed], point_size=size)
    add('POINT_FLAT_COLOR', 'POINTS', keys, dark, point_size=KEY_SIZE * size + 2.0 * pixel_size)
    bright = np.maximum(key_colours, (0, 0, 0, 0.5))
    add('POINT_FLAT_COLOR', 'POINTS', keys, bright, point_size=KEY_SIZE * size)


def _draw() -> None:
    """Draw what is known, in the world."""
    context = bpy.context
    try:
        batches = shown_in(context).batches
        if batches:
            gpu.state.depth_test_set('NONE')
        for batch in batches:
            batch.draw((context.region.width, context.region.height))
    except Exception:  # Blender calls us: at the next change it is tried again
        logger.exception("Trails could not be drawn")
        _state.shown = _Shown()


# Sampling in idle time


@persistent
def _changed(scene: Scene, depsgraph: Depsgraph) -> None:
    """Note what an update has changed."""
    if _state.samples or not _state.known or scene.name == SCENE:
        return
    concerned = [trails.note(depsgraph) for trails in _state.known.values()]
    if any(concerned):
        _state.changed_at = time.monotonic()
        _fill_soon()


@persistent
def _new_frame(scene: Scene, depsgraph: Depsgraph) -> None:
    """Note what has been changed just before, which a new frame updates as well."""
    if _state.samples or scene.name == SCENE:
        return
    concerned = [trails.note(depsgraph, new_frame=True) for trails in _state.known.values()]
    if any(concerned):
        _fill_soon()


@persistent
def _forget(*_arguments: Any) -> None:
    """After undo, redo and loading all may be another."""
    _state.known.clear()
    _state.wanted.clear()
    _state.key = None


def _fill_soon() -> None:
    if not bpy.app.background and not bpy.app.timers.is_registered(_fill):
        bpy.app.timers.register(_fill, first_interval=0.0)


def is_busy() -> bool:
    """Whether a tool runs, or the animation plays."""
    windows: Any = bpy.context.window_manager.windows
    return any(len(own.modal_operators) or own.screen.is_animation_playing for own in windows)


def _fill() -> float | None:
    """Sample some frames; Blender calls this as a timer. Returns the pause before the next go [s]."""
    waits, filled = False, False
    windows = bpy.context.window_manager.windows
    if not windows:
        return None
    _state.samples = True
    try:
        with bpy.context.temp_override(window=windows[0]):
            for uid, (frames, now, ghosts) in list(_state.wanted.items()):
                trails = _state.known.get(uid)
                if trails is None:
                    continue
                was = trails.version
                trails.refresh()
                ahead = range(frames[0] - AT_ONCE, frames[-1] + AT_ONCE + 1)
                busy = is_busy() or time.monotonic() - _state.changed_at <= IDLE_SECONDS
                if trails.missing(frames):
                    if not (busy and trails.is_evaluated):  # what is evaluated waits
                        trails.fill(frames if trails.is_evaluated else ahead, now)
                elif (unsolved := trails.unsolved(frames, now, ghosts)) and not busy:
                    trails.solve(unsolved[0])
                waits |= bool(trails.missing(frames) or trails.unsolved(frames, now, ghosts))
                filled |= trails.version != was
    except Exception:  # Blender calls us: it is tried again after the next change
        logger.exception("Trails could not be sampled")
        return None
    finally:
        _state.samples = False
    if filled:
        redraw_viewports()
    return TICK_SECONDS if waits else None


# What is under the mouse


def under_mouse(context: Context, mouse: Any) -> Under | None:
    """The point of a trail or the ghost under the mouse (2,) [pixels]; None also where a handle is."""
    shown, trails = _state.shown, trails_in(context)
    if trails is None or not (len(shown.places) or len(shown.ghosts)) or handle_at(context, mouse) >= 0:
        return None
    view, scale = View.of(context.region, context.region_data), context.preferences.system.ui_scale
    mouse = np.asarray(mouse, dtype=np.float64)
    if len(shown.places):
        away = np.linalg.norm(view.pixels(shown.places) - mouse, axis=1)
        away = np.where(np.isnan(away), np.inf, away)
        # Where points lie on each other a key is meant, and then what is nearest in time.
        on_key = shown.keyed & (away <= 0.5 * KEY_SIZE * look(context).trail_size * scale)
        away[on_key] = -1.0
        near = np.flatnonzero(away <= away.min() + ON_EACH_OTHER)
        best = near[np.abs(shown.frames[near] - context.scene.frame_current).argmin()]
        if away[best] <= radius(context):
            tracked = shown.tracked[int(shown.of[best])]
            return Under(int(shown.frames[best]), tuple(shown.places[best].tolist()), tracked)
    if len(shown.ghosts):
        width = (0.5 * look(context).ghost_width + CLEAR) * scale
        starts, ends = view.pixels(shown.ghosts[:, 0]), view.pixels(shown.ghosts[:, 1])
        found = nearest_segment(mouse, starts, ends, width)
        body = trails.body_at(context.scene.frame_current)
        own = (
            None
            if body is None
            else nearest_segment(mouse, view.pixels(body[:, 0]), view.pixels(body[:, 1]), width)
        )
        if found is not None and own is None:  # the body itself is selected and dragged as without ghosts
            row, part = found
            place = (1.0 - part) * shown.ghosts[row, 0] + part * shown.ghosts[row, 1]
            return Under(int(shown.ghost_frames[row]), tuple(place.tolist()))
    return None


def radius(context: Context) -> float:
    """How far from its middle a point is still meant [pixels]."""
    look_now = look(context)
    return (
        max(0.35 * look_now.handle_size, KEY_SIZE * look_now.trail_size) * context.preferences.system.ui_scale
    )


class POISE_GT_trails(Gizmo):
    """What is under the mouse."""

    bl_idname = "POISE_GT_trails"
    under: Under | None

    def setup(self) -> None:
        """Nothing is under the mouse at first."""
        self.under = None

    def test_select(self, context: Context, location: Any) -> int:
        """Return whether a point or a ghost is under the mouse, as 0 and -1."""
        self.under = under_mouse(context, location)
        return -1 if self.under is None else 0

    def draw(self, context: Context) -> None:
        """Draw a circle about what is under the mouse, with its frame."""
        if not self.is_highlight or self.under is None:
            return
        theme: Any = context.preferences.themes[0]
        hover = (*theme.user_interface.gizmo_hi[:3], 1.0)
        [place] = View.of(context.region, context.region_data).pixels(np.array([self.under.place]))
        if np.isnan(place).any():
            return
        draw_rings(context, place[None], [hover], radius(context))
        scale = context.preferences.system.ui_scale
        blf.size(0, look(context).text_size * scale)
        blf.enable(0, blf.SHADOW)
        blf.shadow(0, 5, 0.0, 0.0, 0.0, 0.9)
        blf.color(0, hover[0], hover[1], hover[2], 1.0)
        blf.position(0, float(place[0]) + 1.4 * radius(context), float(place[1]) + radius(context), 0.0)
        blf.draw(0, str(self.under.frame))
        blf.disable(0, blf.SHADOW)


class POISE_GGT_trails(PointsGroup):
    """The trails and ghosts of the figure that is shown."""

    bl_idname = "POISE_GGT_trails"
    bl_label = "Poise Trails"
    gizmo, operator = POISE_GT_trails, "poise.trail"
    presses = tuple(('LEFTMOUSE', shift, {"whole_pose": shift}) for shift in (False, True))

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode in {'OBJECT', 'POSE'} and trails_in(context) is not None


class POISE_OT_trail(ArmatureOperator, label="Trail"):
    """Click to go to the frame of the point or ghost, drag to move the point at its frame and key it"""

    bl_options: ClassVar = {'INTERNAL', 'BLOCKING'}

    whole_pose: flag("Whole Pose", "Move the whole pose at that frame", False)

    _under: Under

    def invoke(self, context: Context, event: Event) -> set[str]:
        under = under_mouse(context, mouse_in(context.region, event))
        if under is None:
            return {'PASS_THROUGH'}
        self._under = under
        context.window_manager.modal_handler_add(self)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type in {'ESC', 'RIGHTMOUSE'}:
            return {'CANCELLED'}
        if event.type == 'LEFTMOUSE' and event.value == 'RELEASE':
            context.scene.frame_set(self._under.frame)
            bpy.ops.ed.undo_push(message=translated(Message("Go to Frame")))
            return {'FINISHED'}
        if self._under.tracked is None or not is_dragged(context, event):
            return {'RUNNING_MODAL'}
        operators: Any = bpy.ops
        own = self._under
        operators.poise.drag_trail(
            'INVOKE_DEFAULT',
            bone=own.tracked.bone,
            frame=own.frame,
            whole_pose=self.whole_pose,
            release_confirm=True,
        )
        return {'FINISHED'}


class POISE_OT_drag_trail(DragOperator, label="Drag Trail"):
    """Move a point of a trail at its frame, or the whole pose there; the body follows, and keys are set"""

    bone: StringProperty(name="Bone", description="The bone that has the trail", options={'SKIP_SAVE'})
    frame: IntProperty(name="Frame", description="The frame of the point", options={'SKIP_SAVE'})
    whole_pose: flag("Whole Pose", "Move the whole pose at that frame", False, options={'SKIP_SAVE'})

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        if context.mode in {'OBJECT', 'POSE'}:
            return ""
        return Message("Go to Object Mode or Pose Mode to drag trails")

    @property
    def shift_slows(self) -> bool:
        return not self.whole_pose  # for which Shift is held since the mouse was pressed

    def grab(
        self, context: Context, armature: Object, view: View | None = None, mouse: Any = None
    ) -> AtFrame:
        trails = Trails(armature.session_uid)
        trails.refresh()
        found = next((own for own in trails.tracked if own.bone == self.bone), None)
        if found is None:
            names = ", ".join(own.bone for own in trails.tracked) or trails.problem
            raise IKError(
                "{bone!r} of {armature!r} has no trail; those that have are: {names}",
                bone=self.bone,
                armature=armature.name,
                names=names,
            )
        return grab(armature, found, self.frame, whole=self.whole_pose)


CLASSES = (POISE_OT_trail, POISE_OT_drag_trail, POISE_GT_trails, POISE_GGT_trails)

_add, _remove = handlers_factory(
    ("depsgraph_update_post", _changed),
    ("frame_change_post", _new_frame),
    ("undo_post", _forget),
    ("redo_post", _forget),
    ("load_post", _forget),
)
_register_classes, _unregister_classes = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    """Add operators and gizmos, and where there are windows what draws."""
    _register_classes()
    if bpy.app.background:
        return
    _state.handles = [SpaceView3D.draw_handler_add(_draw, (), 'WINDOW', 'POST_VIEW')]
    _add()


def unregister() -> None:
    """Take it all away."""
    for handle in _state.handles:
        SpaceView3D.draw_handler_remove(handle, 'WINDOW')
    _state.handles = []
    _forget()
    if bpy.app.timers.is_registered(_fill):
        bpy.app.timers.unregister(_fill)
    _remove()
    _unregister_classes()
