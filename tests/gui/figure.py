# SPDX-License-Identifier: GPL-3.0-or-later
"""A figure in a Blender window, and what a test can ask of it: Rigify's basic human in Pose Mode."""

import atexit
import os
import signal
import sys
import unittest
from pathlib import Path
from typing import Any

from .window import Window, missing_programs

ROOT = Path(__file__).resolve().parents[2]

HALF_MILLIMETRE = 0.0005

DOWN_PIXELS = 300
"""How far the sidebar is scrolled to the buttons of the effector that is shown."""

MOST_TURNS = 200
"""Turns of Blender's main loop in which a drag, or a body that is live, comes to rest."""

TEST_SECONDS = 1800
"""[s] A test that goes on for so long hangs. The processor draws, and may have other work."""

TOLD_CHARACTERS = 2000
"""How much is told of what Blender has printed."""

MODULE = "bl_ext.user_default.poise"
"""Name of the installed extension."""

IN_VIEW = (
    f"MODULE = {MODULE!r}"
    + """
import math
import sys
from mathutils import Euler, Vector
from bpy_extras.view3d_utils import location_3d_to_region_2d
window = bpy.context.window_manager.windows[0]
area = next(area for area in window.screen.areas if area.type == 'VIEW_3D')
region = next(region for region in area.regions if region.type == 'WINDOW')
sidebar = next(region for region in area.regions if region.type == 'UI')
in_view = dict(window=window, area=area, region=region)
view = area.spaces.active.region_3d

def figure():
    return bpy.data.objects["metarig"]

def posed():
    bpy.context.view_layer.update()
    return figure().evaluated_get(bpy.context.evaluated_depsgraph_get())

def place(bone):
    return list(posed().matrix_world @ posed().pose.bones[bone].head)

def target(name):
    return figure().poise.effectors[name].target

def away(name):
    return (target(name).matrix_world.translation - Vector(place(figure().poise.effectors[name].bone))).length

def pixel(point):
    seen = location_3d_to_region_2d(region, view, Vector(point))
    return [region.x + seen.x, region.y + seen.y]

def on_bone(bone, part=0.2):
    own = posed().pose.bones[bone]
    return pixel(posed().matrix_world @ own.head.lerp(own.tail, part))

def outline(name):
    # A pixel on what is drawn of a target's empty.
    own = target(name)
    size = own.empty_display_size
    corner = Vector((size, size, size)) if own.empty_display_type == 'CUBE' else Vector((0.0, size, 0.0))
    return pixel(own.matrix_world @ corner)

def on_ring(name, turn, effector="foot.L"):
    # A pixel on the ring of an angle of a foot, so far round from its X axis [rad].
    effectors, feet = (sys.modules[f"{MODULE}.{part}"] for part in ("scene.effectors.effectors", "ui.feet"))
    row = figure().poise.effectors.find(effector)
    rings, length = effectors.foot_rings(figure(), row, bpy.context.evaluated_depsgraph_get())
    radius = length * (feet.LARGE if name in feet.COLOURS else feet.SMALL)
    part = Vector((radius * math.cos(turn), radius * math.sin(turn), 0.0, 1.0))
    return pixel(Vector([Vector(row).dot(part) for row in rings[name]][:3]))

def bits():
    names = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle", "scale")
    return [[v.hex() for v in getattr(bone, name)] for bone in figure().pose.bones for name in names]

def underway():
    following = sys.modules[f"{MODULE}.scene.live.following"]
    return following.is_underway(figure())

def running():
    return [operator.bl_idname for operator in window.modal_operators]

def select_bones(*names):
    for bone in figure().pose.bones:
        (bone if hasattr(bone, "select") else bone.bone).select = bone.name in names
    figure().data.bones.active = figure().data.bones[names[0]]

def take(name):
    # A target is made the only selected object, in Object Mode.
    with bpy.context.temp_override(**in_view):
        if bpy.context.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        bpy.ops.object.select_all(action='DESELECT')
    target(name).select_set(True)
    bpy.context.view_layer.objects.active = target(name)
"""
)
"""Names for what is in the window; also after another file has been opened."""

FIGURE = (
    IN_VIEW
    + """
for item in list(bpy.data.objects):
    bpy.data.objects.remove(item)
area.spaces.active.show_region_ui = False
bpy.ops.preferences.addon_enable(module="rigify")
with bpy.context.temp_override(**in_view):
    bpy.ops.object.armature_basic_human_metarig_add()
    bpy.ops.object.mode_set(mode='POSE')
    bpy.ops.pose.select_all(action='DESELECT')
    bpy.ops.wm.tool_set_by_id(name="poise.drag_tool", space_type='VIEW_3D')
view.view_perspective = 'ORTHO'
view.view_rotation = Euler((math.radians(80.0), 0.0, math.radians(25.0))).to_quaternion()
view.view_location, view.view_distance = (0.0, 0.0, 0.95), 4.0
bpy.context.scene.frame_set(1)
bpy.ops.ed.undo_push(message="Figure")
"""
)
"""Makes the figure anew."""

WATCH = """
turned, posed_before = [], {}

def watch(*_):
    # After Poise, which was here before: what an update has made of the pose.
    for bone in figure().pose.bones:
        now = bone.matrix_basis.to_quaternion()
        was = posed_before.setdefault(bone.name, now)
        posed_before[bone.name] = now
        turned.append(math.degrees(2.0 * math.acos(min(1.0, abs(was.dot(now))))))

bpy.app.handlers.depsgraph_update_post.append(watch)
"""
"""Notes by how much bones turn from one update to the next, in `turned` [degrees]."""

SET_UP = """
with bpy.context.temp_override(**in_view):
    bpy.ops.poise.setup_character()
"""


SLIDING = """
bpy.context.scene.frame_end = 24
for bone in figure().pose.bones:
    bone.rotation_mode = 'XYZ'
for frame, way in ((1, 0.0), (24, 0.1)):
    figure().pose.bones["spine"].location = (way, 0.0, 0.0)
    figure().pose.bones["spine"].keyframe_insert("location", frame=frame)
for frame, part in ((8, 0.0), (11, 1.0), (15, 1.0), (18, 0.0)):
    for name, angle in (("thigh.L", -50.0), ("shin.L", 70.0)):
        figure().pose.bones[name].rotation_euler.x = math.radians(angle * part)
        figure().pose.bones[name].keyframe_insert("rotation_euler", frame=frame)

def feet(name):
    found = []
    for frame in range(1, 25):
        bpy.context.scene.frame_set(frame)
        found.append(place(name))
    return found
"""
"""An animation of the figure in which its feet slide aside; the left one is lifted once."""


_opened: list[Window] = []
"""The Blender that was started last, if any."""

ROW_PIXELS = 9
"""Between the rows of the sidebar at which a button is looked for: less than half of the height of one."""

_found: dict[tuple[str, str], tuple[float, float]] = {}
"""Where buttons were found: what they do -> place in the window."""


def extension() -> Path:
    """The built zip."""
    built = sorted((ROOT / "dist").glob("poise-*.zip"))
    if not built and "POISE_ZIP" not in os.environ:
        raise FileNotFoundError("dist/ has no poise-*.zip: run scripts/build first, or set POISE_ZIP")
    return Path(os.environ["POISE_ZIP"]) if "POISE_ZIP" in os.environ else built[-1]


def window() -> Window:
    """One Blender for all tests, in which the built extension is installed.

    Where that has ended there is a new one: a crash is one failure, not one of each test after it.
    """
    if _opened and not _opened[-1].is_gone:
        return _opened[-1]
    close_window()
    opened = Window(extension())
    _opened.append(opened)
    atexit.register(opened.close)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that it is closed then, too
    return opened


def close_window() -> None:
    """End it: the next test has a new one, with everything as somebody finds it who has just installed it."""
    while _opened:
        _opened.pop().close()


def too_late(*_: object) -> None:
    """Let a test that hangs fail where it waits, and the next one begin."""
    raise TimeoutError(f"the test goes on for more than {TEST_SECONDS} s")


def distance(first: list[float], second: list[float]) -> float:
    """Between two places [m]."""
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5


def button(
    window: Window, operator: str, parts: tuple[float, ...] = (0.25, 0.65), given: str = ""
) -> tuple[float, float]:
    """Where a button of the sidebar is, found by asking Blender what is under the mouse.

    Args:
        window: The window.
        operator: What the button does.
        parts: At which parts of the sidebar's width to look [1].
        given: The first options that it has, as Python: "state='OFF'".

    Raises:
        AssertionError: There is none.
    """
    under = (
        "bpy.context.window_manager.clipboard = ''\n"
        "with bpy.context.temp_override(window=window, area=area, region=sidebar):\n"
        "    if bpy.ops.ui.copy_python_command_button.poll():\n"
        "        bpy.ops.ui.copy_python_command_button()\n"
    )
    command = f"bpy.ops.{operator}({given}"

    def is_at(place: tuple[float, float]) -> bool:
        window.point(place)
        return window.run(under, "bpy.context.window_manager.clipboard").startswith(command)

    def first_row(place: tuple[float, float]) -> tuple[float, float]:
        while is_at(above := (place[0], place[1] + ROW_PIXELS)):
            place = above
        return place

    key = (operator, given)
    if key in _found and is_at(_found[key]):  # mostly it is where it was
        _found[key] = first_row(_found[key])
        return _found[key]
    x, y, width, height = window.run(value="[sidebar.x, sidebar.y, sidebar.width, sidebar.height]")
    for down in range(10, height, 2 * ROW_PIXELS):
        for part in parts:
            place = (x + part * width, y + height - down)
            if is_at(place):
                _found[key] = first_row(place)
                return _found[key]
    raise AssertionError(f"there is no button for {operator} in the sidebar")


@unittest.skipIf(missing_programs(), f"no window can be had: {', '.join(missing_programs())} not found")
class InWindow(unittest.TestCase):
    """Every test begins with the figure made anew, and fails if anything of ours raised an exception."""

    window: Window

    def setUp(self) -> None:
        signal.signal(signal.SIGALRM, too_late)
        signal.alarm(TEST_SECONDS)
        self.addCleanup(signal.alarm, 0)
        self.window = window()
        self.told = len(self.window.log())
        self.window.run(FIGURE)
        self.window.settle(6)

    def tearDown(self) -> None:
        if self.window.is_gone:
            return  # and the test has failed, saying so
        # Also after a failure in the middle of a drag, which would go on into the next test.
        self.window.key("Escape")
        self.window.release()
        told = self.window.log()[self.told :]
        first = "".join(told.partition("Traceback")[1:])[:TOLD_CHARACTERS]
        self.assertEqual(first, "", "something raised an exception in Blender")

    def run_in_blender(self, code: str) -> None:
        """Execute statements in Blender, and let it draw what has become of it."""
        self.window.run(code)
        self.window.settle()

    def value(self, expression: str) -> Any:
        """What an expression is in Blender."""
        return self.window.run(value=expression)

    def drag_bone(self, bone: str, offset: tuple[float, float]) -> tuple[float, float]:
        """Grab a bone with the mouse and drag it, without letting go; where the mouse is then."""
        x, y = self.value(f"on_bone({bone!r})")
        self.window.move((x, y))
        self.window.press()
        end = (x + offset[0], y + offset[1])
        self.window.drag((x, y), end)
        self.window.settle()
        self.assertEqual(self.value("running()"), ["POISE_OT_drag"])
        return end

    def let_go(self) -> None:
        """Release the mouse button, and wait until what goes on after that has come to rest."""
        self.window.release()
        self.wait_while("running()")

    def wait_while(self, expression: str) -> None:
        """Let Blender go on until an expression is false there."""
        for _ in range(MOST_TURNS):
            if not self.value(expression):
                break
            self.window.settle(1)

    def grab_target(self, name: str, offset: tuple[float, float]) -> None:
        """Move the target of an effector with G and the mouse, without confirming."""
        self.run_in_blender(f"take({name!r})")
        x, y = self.value(f"pixel(target({name!r}).matrix_world.translation)")
        self.window.move((x, y))
        self.window.key("g")
        self.window.drag((x, y), (x + offset[0], y + offset[1]))
        self.window.settle()
        self.assertEqual(self.value("running()"), ["TRANSFORM_OT_translate"])

    def open_sidebar(self) -> None:
        """Show the tab of Poise beside the view, from its top."""
        self.run_in_blender("area.spaces.active.show_region_ui = True")
        self.run_in_blender("sidebar.active_panel_category = 'Poise'")
        self.window.settle()
        self.scroll_sidebar(0)

    def scroll_sidebar(self, down: int) -> None:
        """Scroll the sidebar to so many pixels below its top."""
        self.run_in_blender(
            "with bpy.context.temp_override(window=window, area=area, region=sidebar):\n"
            "    bpy.ops.view2d.pan(deltay=10000)\n"
            f"    bpy.ops.view2d.pan(deltay=-{down})\n"
        )

    def click(self, operator: str) -> None:
        """Click on a button of the sidebar."""
        self.window.click(button(self.window, operator))

    def click_state(self, state: str) -> None:
        """Click on one of the states of the effector that is shown, which are beside each other."""
        row = (0.4, 0.8)  # Reach and Off
        self.scroll_sidebar(DOWN_PIXELS)
        self.window.click(button(self.window, "poise.set_state", parts=row, given=f"state='{state}'"))


class InNewWindow(InWindow):
    """Every test has a Blender of its own, in which parts of the panel are open and closed as at first.

    The next test has another one: here they are opened and closed as a user does.
    """

    def setUp(self) -> None:
        close_window()
        self.addCleanup(close_window)
        super().setUp()
