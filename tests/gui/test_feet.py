# SPDX-License-Identifier: GPL-3.0-or-later
"""Rings about a foot are dragged with the mouse."""

import unittest
from math import degrees

from .figure import SET_UP, InWindow
from .test_handles import OBJECT_MODE

STEPS = 6
"""Of a drag."""

NEAR = """
view.view_location, view.view_distance = (0.1, -0.04, 0.12), 0.5
with bpy.context.temp_override(**in_view):
    bpy.ops.poise.roll_feet()
figure().poise.active_effector = figure().poise.effectors.find('foot.L')
figure().poise.live = True
for entry in figure().poise.effectors:
    entry.target.hide_set(True)
bpy.ops.ed.undo_push(message='Feet')

def foot():
    return figure().poise.effectors['foot.L']

def free_turn(name):
    # So far round a ring that it can be pressed there: away from the other rings and from handles.
    names = ("roll", "bank", "pivot_heel", "pivot_ball", "pivot_toe")
    turns = [math.radians(degrees) for degrees in range(0, 360, 10)]
    others = [Vector(on_ring(other, turn)) for other in names if other != name for turn in turns]
    others += [Vector(pixel(place(bone))) for bone in ("foot.L", "foot.R")]
    return max(turns, key=lambda turn: min((Vector(on_ring(name, turn)) - at).length for at in others))

def angles():
    return [getattr(foot(), name) for name in ("roll", "bank", "pivot_heel", "pivot_ball", "pivot_toe")]
"""
"""The left foot rolls, is seen from near, and is the active effector; the body is live."""


class Feet(InWindow):
    """A foot that rolls, seen from near."""

    def setUp(self) -> None:
        super().setUp()
        self.run_in_blender(SET_UP)
        self.run_in_blender(NEAR)
        self.window.settle(4)

    def turn(self, name: str, angle: float) -> None:
        """Press a ring and drag it round by an angle [rad], without letting go."""
        start = self.value(f"free_turn({name!r})")
        way = [self.value(f"on_ring({name!r}, {start + angle * step / STEPS})") for step in range(STEPS + 1)]
        self.window.move(way[0])
        self.window.settle(2)
        self.window.press()
        for place in way[1:]:
            self.window.move(place)
        self.window.settle()
        self.assertIn("POISE_OT_roll_foot", self.value("running()"))

    def let_go_of_ring(self) -> None:
        self.window.release()
        self.wait_while("running() or underway()")
        self.assertEqual(self.value("running()"), [])

    def test_each_ring_sets_its_own_angle_and_the_foot_follows_in_both_modes(self) -> None:
        rings = ("roll", "bank", "pivot_heel", "pivot_ball", "pivot_toe")
        # Undo goes back to the mode of the step before.
        object_mode = OBJECT_MODE + "bpy.ops.ed.undo_push(message='Object Mode')"
        for prepare, turned in (("", rings), (object_mode, rings[:1])):
            self.run_in_blender(prepare)
            mode = self.value("bpy.context.mode")
            for row, name in enumerate(turned):
                before, heel = self.value("[angles(), place('shin.L')]")
                self.turn(name, 0.4)
                self.let_go_of_ring()
                after, now = self.value("[angles(), place('shin.L')]")
                self.assertAlmostEqual(degrees(after[row] - before[row]), degrees(0.4), delta=6.0, msg=name)
                self.assertEqual(after[:row] + after[row + 1 :], before[:row] + before[row + 1 :])
                self.assertEqual(self.value("bpy.context.mode"), mode)
                self.assertNotEqual(now, heel, name)
                self.window.key("ctrl+z")
                self.window.settle()
                self.assertEqual(self.value("angles()"), before)

    def test_escape_puts_back_every_bit_and_undo_takes_one_step(self) -> None:
        bits, before = self.value("bits()"), self.value("angles()")
        self.turn("roll", 0.6)
        self.assertNotEqual(self.value("bits()"), bits)
        self.window.key("Escape")
        self.window.release()
        self.wait_while("running() or underway()")
        self.assertEqual(self.value("angles()"), before)
        self.assertEqual(self.value("bits()"), bits)
        self.turn("roll", 0.6)
        self.let_go_of_ring()
        self.assertNotEqual(self.value("bits()"), bits)
        self.window.key("ctrl+z")
        self.window.settle()
        self.assertEqual(self.value("angles()"), before)
        self.assertEqual(self.value("bits()"), bits)

    def test_numbers_set_it_and_auto_key_keys_that_angle(self) -> None:
        self.run_in_blender(
            "bpy.context.scene.tool_settings.use_keyframe_insert_auto = True\n"
            "bpy.context.preferences.edit.use_keyframe_insert_available = False"
        )
        self.turn("roll", 0.1)
        for key in ("3", "0"):
            self.window.key(key)
        self.window.release()
        self.window.key("Return")
        self.wait_while("running() or underway()")
        self.run_in_blender(
            "bpy.context.scene.tool_settings.use_keyframe_insert_auto = False\n"
            "bpy.context.preferences.edit.use_keyframe_insert_available = True"
        )
        self.assertAlmostEqual(degrees(self.value("foot().roll")), 30.0, places=3)
        keyed = self.value(
            "[c.data_path for c in figure().animation_data.action.layers[0].strips[0].channelbags[0].fcurves"
            " if c.data_path.startswith('poise')]"
        )
        self.assertEqual(len(keyed), 1)
        self.assertTrue(keyed[0].endswith(".roll"))


if __name__ == "__main__":
    unittest.main()
