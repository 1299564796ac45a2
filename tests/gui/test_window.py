# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person does in the window: drag bones and targets, change their mind, undo, save and load.

    python -m unittest -v tests.gui.test_window

POISE_ZIP names the extension; without it the one in dist/ is taken. Every figure is read back from Blender.
"""

import os
import unittest
from pathlib import Path
from typing import Any

from .window import Window, missing_programs

ROOT = Path(__file__).resolve().parents[2]

HALF_MILLIMETRE = 0.0005

FIGURE = """
import math
from mathutils import Euler, Vector
from bpy_extras.view3d_utils import location_3d_to_region_2d
window = bpy.context.window_manager.windows[0]
area = next(area for area in window.screen.areas if area.type == 'VIEW_3D')
region = next(region for region in area.regions if region.type == 'WINDOW')
in_view = dict(window=window, area=area, region=region)
for item in list(bpy.data.objects):
    bpy.data.objects.remove(item)
bpy.ops.preferences.addon_enable(module="rigify")
with bpy.context.temp_override(**in_view):
    bpy.ops.object.armature_basic_human_metarig_add()
    bpy.ops.object.mode_set(mode='POSE')
    bpy.ops.pose.select_all(action='DESELECT')
    bpy.ops.wm.tool_set_by_id(name="poise.drag_tool", space_type='VIEW_3D')
view = area.spaces.active.region_3d
view.view_perspective = 'ORTHO'
view.view_rotation = Euler((math.radians(80.0), 0.0, math.radians(25.0))).to_quaternion()
view.view_location, view.view_distance = (0.0, 0.0, 0.95), 4.0
bpy.ops.ed.undo_push(message="Figure")

def figure():
    return bpy.data.objects["metarig"]

def posed():
    bpy.context.view_layer.update()
    return figure().evaluated_get(bpy.context.evaluated_depsgraph_get())

def place(bone):
    return list(posed().matrix_world @ posed().pose.bones[bone].head)

def pixel(point):
    seen = location_3d_to_region_2d(region, view, Vector(point))
    return [region.x + seen.x, region.y + seen.y]

def on_bone(bone, part=0.2):
    own = posed().pose.bones[bone]
    return pixel(posed().matrix_world @ own.head.lerp(own.tail, part))

def bits():
    names = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle", "scale")
    return [[v.hex() for v in getattr(bone, name)] for bone in figure().pose.bones for name in names]

def running():
    return [operator.bl_idname for operator in window.modal_operators]
"""


def distance(first: list[float], second: list[float]) -> float:
    """Between two places [m]."""
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5


@unittest.skipIf(missing_programs(), f"no window can be had: {', '.join(missing_programs())} not found")
class InWindow(unittest.TestCase):
    """One Blender for all; every test makes the figure anew."""

    window: Window

    @classmethod
    def setUpClass(cls) -> None:
        built = sorted((ROOT / "dist").glob("poise-*.zip"))
        if not built and "POISE_ZIP" not in os.environ:
            raise FileNotFoundError("dist/ has no poise-*.zip: run scripts/build first, or set POISE_ZIP")
        cls.window = Window(Path(os.environ["POISE_ZIP"]) if "POISE_ZIP" in os.environ else built[-1])
        cls.addClassCleanup(cls.window.close)

    def setUp(self) -> None:
        self.window.run(FIGURE)
        self.window.settle(6)

    def tearDown(self) -> None:
        # Also after a failure in the middle of a drag, which would go on into the next test.
        self.window.key("Escape")
        self.window.release()

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

    def test_a_dragged_bone_follows_the_mouse_and_feet_stay(self) -> None:
        feet = {bone: self.value(f"place({bone!r})") for bone in ("foot.L", "foot.R")}
        end = self.drag_bone("hand.L", (-40.0, 90.0))
        self.window.release()
        self.assertEqual(self.value("running()"), [])
        self.assertLess(distance(self.value("on_bone('hand.L')"), list(end)), 1.5)
        for bone, was in feet.items():
            self.assertLess(distance(self.value(f"place({bone!r})"), was), HALF_MILLIMETRE)

    def test_escape_and_right_mouse_put_back_every_bit(self) -> None:
        for cancel in (lambda: self.window.key("Escape"), lambda: self.window._send("click", 3)):
            before = self.value("bits()")
            self.drag_bone("hand.R", (-60.0, 100.0))
            self.assertNotEqual(self.value("bits()"), before)
            cancel()
            self.window.settle()
            self.window.release()
            self.assertEqual(self.value("running()"), [])
            self.assertEqual(self.value("bits()"), before)

    def test_one_step_undoes_a_drag_and_redoes_it(self) -> None:
        before = self.value("bits()")
        self.drag_bone("spine", (20.0, -60.0))
        self.window.release()
        after = self.value("bits()")
        self.assertNotEqual(after, before)
        self.window.key("ctrl+z")
        self.assertEqual(self.value("bits()"), before)
        self.window.key("ctrl+shift+z")
        self.assertEqual(self.value("bits()"), after)

    def test_a_bone_is_pinned_while_h_is_held(self) -> None:
        end = self.drag_bone("hand.L", (-30.0, 50.0))
        self.window._send("keydown", "h")
        self.window.settle(2)
        head = self.value("on_bone('spine.006', 0.5)")
        self.window.move((head[0], head[1]))
        self.window._send("keyup", "h")
        self.window.settle()
        was = self.value("place('spine.006')")
        waited = self.value("on_bone('hand.L')")
        self.assertLess(distance(waited, list(end)), 1.5)
        self.window.drag((head[0], head[1]), (head[0] - 30.0, head[1] + 20.0))
        self.window.release()
        self.assertLess(distance(self.value("place('spine.006')"), was), HALF_MILLIMETRE)

    def test_a_click_selects_and_moves_nothing(self) -> None:
        before = self.value("bits()")
        x, y = self.value("on_bone('forearm.L', 0.5)")
        self.window.move((x, y))
        self.window.press()
        self.window.release()
        self.assertEqual(self.value("bits()"), before)
        selected = "[b.name for b in figure().pose.bones if (b if hasattr(b, 'select') else b.bone).select]"
        self.assertEqual(self.value(selected), ["forearm.L"])

    def test_live_follows_a_target_under_the_mouse_and_a_saved_file(self) -> None:
        self.window.run(
            "with bpy.context.temp_override(**in_view):\n"
            "    for bone in ('foot.L', 'foot.R', 'hand.L'):\n"
            "        bpy.ops.poise.add_effector(bone=bone)\n"
            "    bpy.ops.object.mode_set(mode='OBJECT')\n"
            "    bpy.ops.object.select_all(action='DESELECT')\n"
            "target = figure().poise.effectors['hand.L'].target\n"
            "figure().poise.live = True\n"
            "target.select_set(True)\n"
            "bpy.context.view_layer.objects.active = target\n"
        )
        self.window.settle()
        away = (
            "(figure().poise.effectors['hand.L'].target.matrix_world.translation - Vector(place('hand.L')))"
        )
        x, y = self.value("pixel(target.matrix_world.translation)")
        self.window.move((x, y))
        self.window.key("g")
        self.window.drag((x, y), (x - 50.0, y + 60.0))
        self.assertLess(self.value(f"{away}.length"), HALF_MILLIMETRE)
        self.window._send("click", 1)
        self.window.settle()
        self.assertLess(self.value(f"{away}.length"), HALF_MILLIMETRE)
        path = str(self.window.folder / "shot.blend")
        self.window.run(f"bpy.ops.wm.save_as_mainfile(filepath={path!r})")
        self.window.run(f"bpy.ops.wm.open_mainfile(filepath={path!r})")
        self.window.settle(8)
        self.window.run(
            FIGURE.split("for item in")[0]
            + "view = area.spaces.active.region_3d\n"
            + "figure().poise.effectors['hand.L'].target.location.z += 0.1"
        )
        self.window.settle()
        self.assertLess(self.value(f"{away}.length"), HALF_MILLIMETRE)


if __name__ == "__main__":
    unittest.main()
