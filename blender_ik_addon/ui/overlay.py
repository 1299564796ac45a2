# SPDX-License-Identifier: GPL-3.0-or-later
"""Drawing over the figure: `scene.live.overlay_geometry` says what, preferences say in which colours.

Three steps, each done again only where what it depends on has changed; a redraw draws buffers.

- Marks: what is there in the world. They depend on the scene.
- `_Inked`: marks with colours and sizes, as arrays. They depend on the preferences as well.
- `_Seen`: points and labels in the pixels of a view. They depend on the view as well.

Nothing of this is there in background mode but the switches, which belong to the scene.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import bpy
import gpu
import numpy as np
from bpy.app.handlers import persistent
from bpy.props import PointerProperty
from bpy.types import Context, Panel, PropertyGroup, Scene, SpaceView3D

from ..core.arrays import FloatArray, IntArray
from ..scene.effectors.effectors import present_state
from ..scene.live.dragging import Drag
from ..scene.live.overlay_geometry import Line, Marks, Point, Wanted, drag_marks, marks_of, rig_to_mark
from ..scene.properties.app_handlers import handlers_factory
from ..scene.properties.declared import whole
from ..scene.properties.settings import settings_of
from ..scene.rig.rig import Rig
from .acting import active_bone, context_armature, flag
from .batches import Batch
from .labels import Box, Labels, arrange, boxes, is_seen
from .mouse import View
from .preferences import look

logger = logging.getLogger(__name__)

CORNERS: Final = {'PIN': 4, 'LOOSE_PIN': 4}
"""Corners of the points of a role; the others are round."""
ROUND: Final = 20
"""Corners of a round point."""
CORNERED: Final = 1.4
"""Size of points with corners against that of round ones [1]."""
COLOURS: Final = ('reached', 'missed', 'pin', 'limit', 'balance', 'text')
"""Names of the preferences."""
SHADE: Final = (0.0, 0.0, 0.0, 0.6)
"""Colour behind texts: dark enough for the light theme, whose viewport is of a middle grey."""
MARGIN: Final = 8.0
"""Between texts and what is beside the view [pixels]."""
NAVIGATION: Final = 1.35
"""Width and height of the view's axes at its upper right corner against their size in the preferences [1]."""
NAVIGATION_BUTTONS: Final = (46.0, 130.0)
"""Width and height of the column of buttons below them at scale 1 [pixels]."""
CHANGES: Final = ("depsgraph_update_post", "undo_post", "redo_post", "load_post")
"""Handlers after which anything may be another."""


class POISE_PG_overlay(PropertyGroup):
    """What is drawn over figures, by scene."""

    show: flag("Poise", "Draw targets, pins, limits and balance over the figure")
    targets: flag("Targets", "Lines from bones to their targets, pins, and by how much targets are missed")
    priorities: flag("Priorities", "Priority of each effector")
    limits: flag("Limits", "Joints that stand on a limit")
    balance: flag(
        "Balance",
        "Centre of mass and what the body stands on, also where no effector asks for balance",
        False,
    )
    trails: flag("Trails", "Where hands, feet, hips and head are at the frames round the present one", False)
    ghosts: flag("Ghosts", "The body at the key poses round the present frame", False)
    before: whole("Before", default=15, min=0, soft_max=100)("Frames before the present one")
    after: whole("After", default=15, min=0, soft_max=100)("Frames after the present one")
    most_ghosts: whole("Key Poses", default=3, min=1, soft_max=12)(
        "How many key poses at most are shown as ghosts on each side of the present frame"
    )


def overlay_of(scene: Scene) -> POISE_PG_overlay:
    """Give `scene.poise_overlay` with its type, which Blender's stubs cannot know."""
    return scene.poise_overlay  # pyright: ignore[reportAttributeAccessIssue]


def draw_switches(layout: Any, scene: Scene) -> None:
    """Draw one switch for each kind of mark."""
    settings = overlay_of(scene)
    grid = layout.grid_flow(columns=2, even_columns=True)
    grid.active = settings.show
    for name in ("targets", "priorities", "limits", "balance", "trails", "ghosts"):
        grid.prop(settings, name)
    frames = layout.column()
    frames.active = settings.show and (settings.trails or settings.ghosts)
    row = frames.row(align=True)
    for name in ("before", "after"):
        row.prop(settings, name)
    if settings.ghosts:
        frames.prop(settings, "most_ghosts")


class POISE_PT_overlay(Panel):
    """The switches, in the popover of the viewport's overlays."""

    bl_space_type = 'VIEW_3D'
    bl_region_type = 'HEADER'
    bl_parent_id = "VIEW3D_PT_overlay"
    bl_label = "Poise"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context_armature(context) is not None

    def draw(self, context: Context) -> None:
        layout: Any = self.layout
        layout.prop(overlay_of(context.scene), "show", text="Show")
        draw_switches(layout, context.scene)


@dataclass(frozen=True)
class _Inked:
    """Marks with colours and sizes."""

    marks: Marks = field(default_factory=Marks)
    key: tuple[Any, ...] = ()
    """What they depend on beside the marks."""
    lines: Batch | None = None
    points: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))
    """(p, 3) [m]."""
    effectors: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Places in the list of the effectors for which points stand; -1 for none, (p,)."""
    point_of: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Which point each corner of the triangles is of, (c,)."""
    corners: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    """Of the triangles, from the middle of their point, (c, 2) [pixels]."""
    colours: FloatArray = field(default_factory=lambda: np.zeros((0, 4)))
    """Of the points, (p, 4)."""
    labels: Labels | None = None
    label_places: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))
    """What labels belong to, (k, 3) [m]."""


@dataclass(frozen=True)
class _Seen:
    """What is drawn in the pixels of a view."""

    key: tuple[Any, ...] = ()
    """What it depends on beside the marks."""
    handles: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    """Where the points are seen, (p, 2) [pixels]; nan behind the eye."""
    batches: tuple[Batch, ...] = ()


@dataclass
class _Drawing:
    """What can be thrown away at any time."""

    handles: list[Any] = field(default_factory=list)
    key: tuple[Any, ...] | None = None
    """For which object, frame and switches the marks are; None where something has changed."""
    marks: Marks = field(default_factory=Marks)
    rig: tuple[tuple[Any, ...], Rig | None] | None = None
    """The figure and the states of its effectors, and what its marks are of; None where that may be another.
    It is the same in all frames."""
    drag: Drag | None = None
    """The drag that is going on."""
    inked: _Inked | None = None
    seen: dict[int, _Seen] = field(default_factory=dict)
    """By the part of the window that is the view."""


_drawing = _Drawing()


def show_drag(drag: Drag | None) -> None:
    """Draw a drag as long as it goes on; None when it has ended."""
    _drawing.drag, _drawing.key = drag, None


@persistent
def _changed(*_arguments: Any) -> None:
    """Anything may have changed: all is read anew when it is next drawn."""
    _drawing.key = _drawing.rig = None


@persistent
def _new_frame(*_arguments: Any) -> None:
    """Something may have moved: marks are computed anew when they are next drawn."""
    _drawing.key = None


def marks_in(context: Context) -> Marks:
    """Return the marks for what is shown now, from the last time if nothing has changed."""
    settings = overlay_of(context.scene)
    armature = context_armature(context)
    space: Any = context.space_data
    if not settings.show or not space.overlay.show_overlays or armature is None:
        return Marks()
    active = active_bone(context) if armature.mode == 'POSE' else ""
    wanted = Wanted(settings.targets, settings.priorities, settings.limits, settings.balance, active)
    key = (armature.session_uid, context.scene.frame_current_final, wanted)
    if key != _drawing.key:
        _drawing.key, _drawing.marks = key, Marks()
        marks = Marks()
        if _drawing.drag is not None:
            marks, wanted = drag_marks(_drawing.drag), replace(wanted, targets=False, priorities=False)
        if _drawing.drag is None or settings.limits or settings.balance:
            depsgraph = context.evaluated_depsgraph_get()
            # Where a target goes back to its keys its bone may follow again.
            states = [present_state(armature, entry) for entry in settings_of(armature).effectors]
            whose = (armature.session_uid, *states)
            if _drawing.rig is None or _drawing.rig[0] != whose:
                _drawing.rig = whose, rig_to_mark(armature, depsgraph)
            if (rig := _drawing.rig[1]) is not None:
                marks += marks_of(armature, depsgraph, wanted, rig)
        _drawing.marks = marks
    return _drawing.marks


def _inked_in(context: Context) -> _Inked:
    """Return what is drawn now with its colours and sizes."""
    marks, look_now, system = marks_in(context), look(context), context.preferences.system
    if not marks:
        return _Inked()
    sizes = (look_now.line_width, look_now.point_size, look_now.text_size)
    colours = [tuple(getattr(look_now, name)) for name in COLOURS]
    key = (sizes, colours, system.pixel_size, system.ui_scale)
    before = _drawing.inked
    if before is None or before.marks is not marks or before.key != key:
        _drawing.inked, _drawing.seen = None, {}
        before = _ink(marks, key, look_now, system, None if before is None else before.labels)
        _drawing.inked = before
    return before


def _ink(marks: Marks, key: tuple[Any, ...], look_now: Any, system: Any, labels: Labels | None) -> _Inked:
    lines = None
    if marks.lines:
        ends = np.array([(line.start, line.end) for line in marks.lines]).reshape(-1, 3)
        colours = np.repeat(_colours(marks.lines, look_now), 2, axis=0)
        width = look_now.line_width * system.pixel_size
        lines = Batch.filled('POLYLINE_FLAT_COLOR', 'LINES', {"pos": ends, "color": colours}, lineWidth=width)
    shapes = {
        count: 0.5 * look_now.point_size * system.ui_scale * size * _fan(count)
        for count, size in ((ROUND, 1.0), *((own, CORNERED) for own in CORNERS.values()))
    }
    drawn = [shapes[CORNERS.get(point.role, ROUND)] for point in marks.points]
    texts = marks.texts
    labels = Labels.drawn(texts, look_now, system.ui_scale, labels) if texts else None
    return _Inked(
        marks,
        key,
        lines,
        np.array([point.place for point in marks.points]).reshape(-1, 3),
        np.array([point.effector for point in marks.points], dtype=np.int64),
        np.repeat(np.arange(len(drawn)), [len(shape) for shape in drawn]),
        np.concatenate([np.zeros((0, 2)), *drawn]),
        _colours(marks.points, look_now),
        labels,
        np.array([texts[row].place for row in labels.order] if labels else []).reshape(-1, 3),
    )


def _fan(count: int) -> FloatArray:
    """Corners of the triangles of a regular shape of radius 1 about 0, (3 count, 2)."""
    around = np.arange(count + 1) * (2.0 * np.pi / count)
    ring = np.stack([np.cos(around), np.sin(around)], axis=1)
    return np.stack([np.zeros((count, 2)), ring[:-1], ring[1:]], axis=1).reshape(-1, 2)


def _colours(marks: Sequence[Line | Point], look_now: Any) -> FloatArray:
    """Colours of marks, (k, 4): of their role where all is well, red where it is not."""
    loose = np.array(look_now.pin) * (1.0, 1.0, 1.0, 0.5)  # to give way is what it is for
    reached, missed = np.array(look_now.reached), np.array(look_now.missed)
    ends = {
        'PIN': (look_now.pin, missed),
        'BALANCE': (look_now.balance, missed),
        'SUPPORT': (look_now.balance, missed),
        'LIMIT': (look_now.limit, look_now.limit),
        'LOOSE_PIN': (loose, loose),
    }
    both = np.array([ends.get(mark.role, (reached, missed)) for mark in marks]).reshape(-1, 2, 4)
    heats = np.array([mark.heat for mark in marks])[:, None]
    return (1.0 - heats) * both[:, 0] + heats * both[:, 1]


def _seen_in(context: Context) -> _Seen:
    """Return what is drawn now in the pixels of a view."""
    inked = _inked_in(context)
    if not len(inked.points) and inked.labels is None:
        return _Seen()
    view, borders, top = View.of(context.region, context.region_data), _borders(context), _top(context)
    covered = _navigation(context, borders[1] + MARGIN, top)
    part = context.region.as_pointer()
    key = (view.perspective.tobytes(), view.size, borders, top, *covered)
    seen = _drawing.seen.get(part)
    if seen is None or seen.key != key:
        handles, batches = view.pixels(inked.points), list[Batch]()
        corners = handles[inked.point_of] + inked.corners
        ahead = np.isfinite(corners).all(axis=1)
        if ahead.any():
            content = {"pos": _flat(corners[ahead]), "color": inked.colours[inked.point_of[ahead]]}
            batches.append(Batch.filled('FLAT_COLOR', 'TRIS', content))
        if inked.labels is not None:
            batches += _labels(inked.labels, view.pixels(inked.label_places), view, borders, covered, top)
        seen = _drawing.seen[part] = _Seen(key, handles, tuple(batches))
    return seen


def _labels(
    labels: Labels,
    places: FloatArray,
    view: View,
    borders: tuple[float, float],
    covered: Sequence[Box],
    top: float,
) -> list[Batch]:
    """Buffers of labels beside places (k, 2) [pixels], and of what is behind them."""
    rows = is_seen(places, view.size, borders[1])
    if not rows.any():
        return []
    sizes = labels.sizes[rows]
    corners = arrange(places[rows] + labels.offsets[rows], sizes, borders, covered, (MARGIN, top - MARGIN))
    dark = labels.plain[rows]
    batches: list[Batch] = []
    if dark.any():
        content = {"pos": boxes(corners[dark], sizes[dark], 0.2 * labels.line_height)}
        batches.append(Batch.filled('UNIFORM_COLOR', 'TRIS', content, color=SHADE))
    pos, parts = labels.on_texture(rows, corners)
    content = {"pos": pos, "texCoord": parts}
    batches.append(Batch.filled('IMAGE', 'TRIS', content, texture=labels.texture))
    return batches


def _flat(places: FloatArray) -> FloatArray:
    """Places in the pixels of a view, (k, 3) of (k, 2)."""
    return np.pad(places, ((0, 0), (0, 1)))


def _draw(draw: Callable[[Context], None]) -> None:
    """Draw the lines in the world, or points and labels over everything."""
    try:
        draw(bpy.context)
    except Exception:  # Blender calls us: at the next change it is tried again
        logger.exception("The overlay could not be drawn")
        _drawing.marks = Marks()


def _lines(context: Context) -> None:
    if (lines := _inked_in(context).lines) is not None:
        gpu.state.depth_test_set('NONE')
        lines.draw((context.region.width, context.region.height))


def _points_and_labels(context: Context) -> None:
    for batch in _seen_in(context).batches:
        batch.draw((context.region.width, context.region.height))


def handles_in(context: Context) -> tuple[FloatArray, IntArray]:
    """Where the points of effectors are seen, (k, 2) [pixels], and which effectors these are, (k,)."""
    inked, seen = _inked_in(context), _seen_in(context)
    rows = inked.effectors >= 0
    return seen.handles[rows], inked.effectors[rows]


def draw_rings(
    context: Context, centres: FloatArray, colours: Sequence[Sequence[float]], radius: float
) -> None:
    """Draw rings about places (k, 2) in colours (k, 4), all in the pixels of the view; not about nan."""
    ahead = np.isfinite(centres).all(axis=1)
    if not ahead.any():
        return
    edges = radius * _fan(ROUND).reshape(ROUND, 3, 2)[:, 1:]
    ends = centres[ahead, None, None] + edges  # (k, ROUND, 2, 2)
    width = look(context).line_width * context.preferences.system.pixel_size
    content = {
        "pos": _flat(ends.reshape(-1, 2)),
        "color": np.repeat(np.array(colours)[ahead], 2 * ROUND, axis=0),
    }
    rings = Batch.filled('POLYLINE_FLAT_COLOR', 'LINES', content, lineWidth=width)
    rings.draw((context.region.width, context.region.height))


def _borders(context: Context) -> tuple[float, float]:
    """Between toolbar and sidebar, which may lie over the view [pixels]."""
    region = context.region
    left, right = 0.0, float(region.width)
    for other in context.area.regions:
        if other.width <= 1 or other.type not in {'TOOLS', 'UI'} or other.x >= region.x + region.width:
            continue
        if other.alignment == 'RIGHT':
            right = min(right, float(other.x - region.x))
        elif other.alignment == 'LEFT':
            left = max(left, float(other.x + other.width - region.x))
    return left + MARGIN, right - MARGIN


def _top(context: Context) -> float:
    """Height up to which the view is seen below the headers, which may lie over it [pixels]."""
    region = context.region
    headers = [other for other in context.area.regions if other.alignment == 'TOP' and other.height > 1]
    return min([float(region.height), *(float(header.y - region.y) for header in headers)])


def _navigation(context: Context, right: float, top: float) -> list[Box]:
    """What Blender's own axes and buttons cover at the upper right corner, which is there [pixels]."""
    space, view = context.space_data, context.preferences.view
    if not (space.show_gizmo and space.show_gizmo_navigate):
        return []
    scale = context.preferences.system.ui_scale
    axes = NAVIGATION * view.gizmo_size_navigate_v3d * scale if view.mini_axis_type == 'GIZMO' else 0.0
    covered = [(right - axes, top - axes, axes, axes)]
    if view.show_navigate_ui:
        width, height = (scale * size for size in NAVIGATION_BUTTONS)
        covered.append((right - width, top - axes - height, width, height))
    return covered


CLASSES = (POISE_PG_overlay, POISE_PT_overlay)

_add, _remove = handlers_factory(*((name, _changed) for name in CHANGES), ("frame_change_post", _new_frame))
_register_classes, _unregister_classes = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    """Add the switches, and where there are windows what draws."""
    _register_classes()
    Scene.poise_overlay = PointerProperty(  # pyright: ignore[reportAttributeAccessIssue]
        name="Poise Overlay", description="What is drawn over figures", type=POISE_PG_overlay
    )
    if bpy.app.background:
        return
    add = SpaceView3D.draw_handler_add
    _drawing.handles = [
        add(_draw, (_lines,), 'WINDOW', 'POST_VIEW'),
        add(_draw, (_points_and_labels,), 'WINDOW', 'POST_PIXEL'),
    ]
    _add()


def unregister() -> None:
    """Take it all away."""
    for handle in _drawing.handles:
        SpaceView3D.draw_handler_remove(handle, 'WINDOW')
    _drawing.handles, _drawing.marks, _drawing.drag, _drawing.key = [], Marks(), None, None
    _drawing.inked, _drawing.seen, _drawing.rig = None, {}, None
    _remove()
    del Scene.poise_overlay  # pyright: ignore[reportAttributeAccessIssue]
    _unregister_classes()
