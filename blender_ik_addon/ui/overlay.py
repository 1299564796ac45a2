# SPDX-License-Identifier: GPL-3.0-or-later
"""Drawing over the figure: `scene.live.overlay_geometry` says what, preferences say in which colours.

Marks are computed when something has changed and kept until it changes again; a view that is turned costs
the drawing alone. Nothing of this is there in background mode but the switches, which belong to the scene.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import blf
import bpy
import gpu
import numpy as np
from bpy.app.handlers import persistent
from bpy.props import PointerProperty
from bpy.types import Context, Panel, PropertyGroup, Scene, SpaceView3D
from gpu_extras.batch import batch_for_shader

from ..core.arrays import FloatArray
from ..scene.live.dragging import Drag
from ..scene.live.overlay_geometry import Line, Marks, Point, Text, Wanted, drag_marks, marks_of
from ..scene.properties.app_handlers import handlers_factory
from .acting import active_bone, context_armature, flag
from .mouse import View
from .preferences import Colour, look

logger = logging.getLogger(__name__)

Box = tuple[float, float, float, float]
"""Left, bottom, width, height [pixels]."""
CORNERS: Final = {'PIN': 4, 'LOOSE_PIN': 4}
"""Corners of the points of a role; the others are round."""
ROUND: Final = 20
"""Corners of a round point."""
IMPORTANCE: Final = ('PRIORITY', 'MISS', 'LIMIT')
"""Roles of texts; the first find room first."""
SMALL: Final = 0.85
"""Size of notes and limits against that of other texts [1]."""
SHADE: Final = (0.0, 0.0, 0.0, 0.6)
"""Colour behind texts: dark enough for the light theme, whose viewport is of a middle grey."""
PALENESS: Final = 0.35
"""How far the colours of texts go towards white [1]: the plain red of a line is too dark for thin letters."""
MARGIN: Final = 8.0
"""Between texts and what is beside the view [pixels]."""
NAVIGATION: Final = 1.35
"""Width and height of the view's axes at its upper right corner against their size in the preferences [1]."""
NAVIGATION_BUTTONS: Final = (46.0, 130.0)
"""Width and height of the column of buttons below them at scale 1 [pixels]."""
CHANGES: Final = ("depsgraph_update_post", "frame_change_post", "undo_post", "redo_post", "load_post")
"""Handlers after which marks may be others."""


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


def overlay_of(scene: Scene) -> POISE_PG_overlay:
    """Give `scene.poise_overlay` with its type, which Blender's stubs cannot know."""
    return scene.poise_overlay  # pyright: ignore[reportAttributeAccessIssue]


def draw_switches(layout: Any, scene: Scene) -> None:
    """Draw one switch for each kind of mark."""
    settings = overlay_of(scene)
    grid = layout.grid_flow(columns=2, even_columns=True)
    grid.active = settings.show
    for name in ("targets", "priorities", "limits", "balance"):
        grid.prop(settings, name)


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


@dataclass
class _Drawing:
    """What can be thrown away at any time."""

    handles: list[Any] = field(default_factory=list)
    key: tuple[Any, ...] | None = None
    """For which object, frame and switches the marks are; None where something has changed."""
    marks: Marks = field(default_factory=Marks)
    drag: Drag | None = None
    """The drag that is going on."""


_drawing = _Drawing()


def show_drag(drag: Drag | None) -> None:
    """Draw a drag as long as it goes on; None when it has ended."""
    _drawing.drag, _drawing.key = drag, None


@persistent
def _changed(*_arguments: Any) -> None:
    """Something may have moved: marks are computed anew when they are next drawn."""
    _drawing.key = None


def _marks(context: Context) -> Marks:
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
            marks += marks_of(armature, context.evaluated_depsgraph_get(), wanted)
        _drawing.marks = marks
    return _drawing.marks


def _colour(look_now: Any, mark: Line | Point) -> Colour:
    calm = {'PIN': look_now.pin, 'BALANCE': look_now.balance, 'SUPPORT': look_now.balance}
    ends = np.array([calm.get(mark.role, look_now.reached), look_now.missed])
    if mark.role == 'LIMIT':
        ends[:] = look_now.limit
    if mark.role == 'LOOSE_PIN':  # to give way is what it is for
        ends[:] = np.array(look_now.pin) * (1.0, 1.0, 1.0, 0.5)
    red, green, blue, opacity = (np.array([1.0 - mark.heat, mark.heat]) @ ends).tolist()
    return red, green, blue, opacity


def _draw(draw: Callable[[Context, Marks, Any], None]) -> None:
    """Draw the lines in the world, or points and texts over everything."""
    context = bpy.context
    try:
        if marks := _marks(context):
            draw(context, marks, look(context))
    except Exception:  # Blender calls us: at the next change it is tried again
        logger.exception("The overlay could not be drawn")
        _drawing.marks = Marks()


def _draw_batch(shader_name: str, kind: Any, content: dict[str, Any], **uniforms: Any) -> None:
    if not content["pos"]:
        return
    shader = gpu.shader.from_builtin(shader_name)
    batch = batch_for_shader(shader, kind, content)
    gpu.state.blend_set('ALPHA')
    shader.bind()
    for name, value in uniforms.items():
        shader.uniform_float(name, value)
    batch.draw(shader)
    gpu.state.blend_set('NONE')


def _lines(context: Context, marks: Marks, look_now: Any) -> None:
    gpu.state.depth_test_set('NONE')
    places = [place for line in marks.lines for place in (line.start, line.end)]
    colours = [_colour(look_now, line) for line in marks.lines for _ in range(2)]
    width = look_now.line_width * context.preferences.system.pixel_size
    size = context.region.width, context.region.height
    content = {"pos": places, "color": colours}
    _draw_batch('POLYLINE_FLAT_COLOR', 'LINES', content, viewportSize=size, lineWidth=width)


def _points_and_texts(context: Context, marks: Marks, look_now: Any) -> None:
    view, scale = View.of(context.region, context.region_data), context.preferences.system.ui_scale
    if marks.points:
        _points(marks.points, view, look_now, 0.5 * look_now.point_size * scale)
    if marks.texts:
        _texts(context, marks.texts, view, look_now, scale)


def _points(points: Sequence[Point], view: View, look_now: Any, radius: float) -> None:
    places: list[tuple[float, float, float]] = []
    colours: list[Colour] = []
    for point, centre in zip(points, view.pixels(np.array([point.place for point in points])), strict=True):
        if np.isnan(centre).any():
            continue
        count = CORNERS.get(point.role, ROUND)
        own = radius * (1.4 if count < ROUND else 1.0)
        around = np.arange(count + 1) * (2.0 * np.pi / count)
        ring = centre + own * np.stack([np.cos(around), np.sin(around)], axis=1)
        corners = np.stack([np.broadcast_to(centre, (count, 2)), ring[:-1], ring[1:]], axis=1)
        places += [(x, y, 0.0) for x, y in corners.reshape(-1, 2).tolist()]
        colours += [_colour(look_now, point)] * (3 * count)
    _draw_batch('FLAT_COLOR', 'TRIS', {"pos": places, "color": colours})


def _texts(context: Context, texts: Sequence[Text], view: View, look_now: Any, scale: float) -> None:
    borders = _borders(context)
    places = view.pixels(np.array([text.place for text in texts]))
    shown = [pair for pair in zip(texts, places, strict=True) if is_seen(pair[1], view.size, borders[1])]
    shown.sort(key=lambda pair: IMPORTANCE.index(pair[0].role))
    if not shown:
        return
    beside = 0.5 * look_now.point_size + 6.0
    line_height = 1.25 * look_now.text_size * scale
    best, sizes = [], []
    for text, place in shown:
        widths = [_width(line, size * scale) for line, size in _lines_of(text, look_now)]
        sizes.append((max(widths) + 4.0, line_height * len(widths)))
        up = 4.0 if text.role == 'PRIORITY' else -0.5 * look_now.text_size
        best.append(place + np.array([beside, up]) * scale - (0.0, line_height * (len(widths) - 1)))
    covered = _navigation(context, borders[1] + MARGIN)
    corners = arrange(np.array(best), np.array(sizes), borders, covered)
    plain = [text.role != 'PRIORITY' for text, _place in shown]
    _shade(corners[plain], np.array(sizes)[plain], 0.2 * line_height)
    blf.enable(0, blf.SHADOW)
    blf.shadow(0, 5, 0.0, 0.0, 0.0, 0.9)
    for (text, _place), (x, y) in zip(shown, corners.tolist(), strict=True):
        colour = {'MISS': look_now.missed, 'LIMIT': look_now.limit}.get(text.role, look_now.text)
        red, green, blue = (part + PALENESS * (1.0 - part) for part in colour[:3])
        blf.color(0, red, green, blue, colour[3])
        for row, (line, size) in enumerate(reversed(_lines_of(text, look_now))):
            blf.size(0, size * scale)
            blf.position(0, x, y + row * line_height, 0.0)
            blf.draw(0, line)
    blf.disable(0, blf.SHADOW)


def arrange(
    corners: FloatArray, sizes: FloatArray, borders: tuple[float, float], covered: Sequence[Box] = ()
) -> FloatArray:
    """Lower left corners of labels so that none overlaps another, (k, 2) [pixels].

    They are placed one after the other, the important ones first. Each is kept between the left and the right
    border and to the left of what is covered, and goes to the free height that is nearest to its own.

    Args:
        corners: Where the lower left corners would best be, (k, 2) [pixels].
        sizes: Widths and heights, (k, 2) [pixels].
        borders: Where labels may begin and must end, from left to right [pixels].
        covered: Boxes in which nothing could be read, at the right.
    """
    left, right = borders
    boxes = np.array(covered, dtype=np.float64).reshape(-1, 4)
    taken, sizes_taken = boxes[:, :2], boxes[:, 2:]
    placed = np.array(corners, dtype=np.float64)
    for label, size in enumerate(sizes):
        low = placed[label, 1]
        beside = (low < boxes[:, 1] + boxes[:, 3]) & (boxes[:, 1] < low + size[1])
        end = min(right, *boxes[beside, 0]) if beside.any() else right
        # One that is wider than the space there is begins at its left.
        placed[label, 0] = max(min(placed[label, 0], end - size[0]), left)
        placed[label, 1] = _free_height(placed[label], size, taken, sizes_taken)
        taken, sizes_taken = np.vstack([taken, placed[label]]), np.vstack([sizes_taken, size])
    return placed


def _free_height(corner: FloatArray, size: FloatArray, others: FloatArray, sizes: FloatArray) -> float:
    """The height nearest to that of a corner (2,) at which a label lies on none of the others."""
    beside = (corner[0] < others[:, 0] + sizes[:, 0]) & (others[:, 0] < corner[0] + size[0])
    low = others[beside, 1]
    high = low + sizes[beside, 1]
    # Free heights begin and end where another label ends or begins.
    heights = np.concatenate([[corner[1]], low - size[1], high])
    overlaps = (heights[:, None] < high) & (low < heights[:, None] + size[1])
    free = heights[~overlaps.any(axis=1)]  # below all others, at least
    return float(free[np.abs(free - corner[1]).argmin()])


def is_seen(place: FloatArray, size: Sequence[float], right: float) -> bool:
    """Whether a place (2,) is inside a view and to the left of the sidebar, all in pixels; nan is not."""
    # Beside the sidebar a text would belong to nothing that is seen. Comparisons with nan are false.
    return bool(0.0 <= place[0] <= min(size[0], right) and 0.0 <= place[1] <= size[1])


def _shade(corners: FloatArray, sizes: FloatArray, below: float) -> None:
    """Darken what is behind texts, which are read on anything then; corners and sizes (k, 2) [pixels]."""
    around = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    places = (corners - (3.0, below))[:, None] + around * sizes[:, None]  # (k, 6, 2)
    _draw_batch('UNIFORM_COLOR', 'TRIS', {"pos": places.reshape(-1, 2).tolist()}, color=SHADE)


def _lines_of(text: Text, look_now: Any) -> list[tuple[str, float]]:
    """The lines of a text from above, with their sizes [points]."""
    small = SMALL * look_now.text_size
    lines = [(text.text, small if text.role == 'LIMIT' else float(look_now.text_size))]
    return [*lines, (text.note, small)] if text.note else lines


def _width(line: str, size: float) -> float:
    blf.size(0, size)
    return blf.dimensions(0, line)[0]


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


def _navigation(context: Context, right: float) -> list[Box]:
    """What Blender's own axes and buttons cover at the upper right corner, which is so far right [pixels]."""
    region, space, view = context.region, context.space_data, context.preferences.view
    if not (space.show_gizmo and space.show_gizmo_navigate):
        return []
    scale = context.preferences.system.ui_scale
    # Headers lie over the view as well.
    headers = [other for other in context.area.regions if other.alignment == 'TOP' and other.height > 1]
    top = min([float(region.height), *(float(header.y - region.y) for header in headers)])
    axes = NAVIGATION * view.gizmo_size_navigate_v3d * scale if view.mini_axis_type == 'GIZMO' else 0.0
    covered = [(right - axes, top - axes, axes, axes)]
    if view.show_navigate_ui:
        width, height = (scale * size for size in NAVIGATION_BUTTONS)
        covered.append((right - width, top - axes - height, width, height))
    return covered


CLASSES = (POISE_PG_overlay, POISE_PT_overlay)

_add, _remove = handlers_factory(*((name, _changed) for name in CHANGES))
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
        add(_draw, (_points_and_texts,), 'WINDOW', 'POST_PIXEL'),
    ]
    _add()


def unregister() -> None:
    """Take it all away."""
    for handle in _drawing.handles:
        SpaceView3D.draw_handler_remove(handle, 'WINDOW')
    _drawing.handles, _drawing.marks, _drawing.drag, _drawing.key = [], Marks(), None, None
    _remove()
    del Scene.poise_overlay  # pyright: ignore[reportAttributeAccessIssue]
    _unregister_classes()
