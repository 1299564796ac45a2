# SPDX-License-Identifier: GPL-3.0-or-later
"""Live mode under the mouse: targets are moved, and whatever else happens to a file meanwhile."""

import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager

from .figure import HALF_MILLIMETRE, SET_UP, WATCH, InWindow, distance

PLAYED_SECONDS = 300.0
"""After which playback is given up [s]."""

OUT_OF_REACH = (85.0, 60.0)
"""By how much the target of a hand is dragged to where no arm gets it [pixels]: 0.67 m."""

STEPS = 30
"""Steps of the mouse on the way there: 2.2 cm each."""

LARGEST_TURN = 15.0
"""By how much a bone may turn between two updates on that way [degrees]; the spine turns by 10."""
FIELD_WAY = 8
"""By how much a number field is dragged to where no arm gets [pixels]: the field says how far that is."""

LARGEST_TURN_AT_REST = 6.0
"""The same once the tool has ended, on the way to the strict answer [degrees]."""


class Live(InWindow):
    """The figure is set up and live."""

    def setUp(self) -> None:
        super().setUp()
        self.run_in_blender(SET_UP + "figure().poise.live = True\nbpy.ops.ed.undo_push(message='Live')")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note in `turned` how far bones turn in each update."""
        self.run_in_blender(WATCH)
        try:
            yield
        finally:
            self.window.run("bpy.app.handlers.depsgraph_update_post.remove(watch)")

    def assert_reached(self, name: str = "hand.L") -> None:
        """The bone is where its target is, by Blender's matrices."""
        self.assertLess(self.value(f"away({name!r})"), HALF_MILLIMETRE)

    def test_the_hand_follows_its_target_under_the_mouse(self) -> None:
        was = self.value("place('hand.L')")
        self.grab_target("hand.L", (-40.0, 60.0))
        self.assert_reached()
        self.window.click()
        self.assertEqual(self.value("running()"), [])
        self.assert_reached()
        moved = self.value(f"(Vector(place('hand.L')) - Vector({was})).length")
        self.assertGreater(moved, 0.1)

    def drag_out_of_reach(self) -> None:
        """Drag the target of a hand far away, with G and the mouse, in steps as a hand makes them."""
        self.run_in_blender("take('hand.L')")
        x, y = self.value("pixel(target('hand.L').matrix_world.translation)")
        self.window.move((x, y))
        self.window.key("g")
        self.window.drag((x, y), (x + OUT_OF_REACH[0], y + OUT_OF_REACH[1]), steps=STEPS)
        self.window.settle(10)
        self.assertEqual(self.value("running()"), ["TRANSFORM_OT_translate"])
        self.assertGreater(self.value("away('hand.L')"), 0.05)

    def test_out_of_reach_the_body_follows_without_jumps_and_then_is_as_solved(self) -> None:
        with self.watched():
            self.drag_out_of_reach()
            self.assertLess(self.value("max(turned)"), LARGEST_TURN)
            self.assertGreater(self.value("sum(turned)"), 30.0)
            self.run_in_blender("turned.clear()")
            self.window.click()
            self.wait_while("underway()")
            self.assertLess(self.value("max(turned, default=0.0)"), LARGEST_TURN_AT_REST)
        misses = "[[e.error_position, e.error_rotation] for e in figure().poise.effectors]"
        live, away = self.value(misses), self.value("away('hand.L')")
        self.run_in_blender("with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.solve_pose()")
        self.assertAlmostEqual(self.value("away('hand.L')"), away, delta=HALF_MILLIMETRE)
        for (position, rotation), (strict, strict_rotation) in zip(live, self.value(misses), strict=True):
            self.assertAlmostEqual(position, strict, delta=HALF_MILLIMETRE)
            self.assertAlmostEqual(rotation, strict_rotation, delta=0.002)

    def test_escape_puts_back_every_bit_out_of_reach_too(self) -> None:
        before, there = self.value("bits()"), self.value("list(target('hand.L').location)")
        self.drag_out_of_reach()
        self.assertNotEqual(self.value("bits()"), before)
        self.window.key("Escape")
        self.window.settle(20)
        self.assertEqual(self.value("list(target('hand.L').location)"), there)
        self.assertEqual(self.value("bits()"), before)

    def field(self) -> tuple[float, float]:
        """The middle of the number field for how far left the selected object is, in the sidebar."""
        self.run_in_blender("area.spaces.active.show_region_ui = True")
        self.run_in_blender("sidebar.active_panel_category = 'Item'")
        self.window.settle()
        x, y, width, height = self.value("[sidebar.x, sidebar.y, sidebar.width, sidebar.height]")
        found = []
        for down in range(10, height, 7):
            place = (x + 0.45 * width, y + height - down)
            self.window.move(place)
            self.window.run(
                "with bpy.context.temp_override(window=window, area=area, region=sidebar):\n"
                "    under = bpy.context.property"
            )
            if self.value("under and [under[1], under[2]]") == ["location", 0]:
                found.append(place)
            elif found:
                break
        self.assertTrue(found, "the sidebar has no field for the location")
        return found[len(found) // 2]

    def drag_field(self, place: tuple[float, float]) -> None:
        """Drag a number field, finely, and do not let go."""
        self.window.move(place)
        self.window.press()
        self.window.key("shift", how="keydown")
        self.window.drag(place, (place[0] + FIELD_WAY, place[1]), steps=FIELD_WAY)
        self.window.key("shift", how="keyup")
        self.assertEqual(self.value("running()"), [])

    def test_a_number_field_out_of_reach_is_dragged_without_jumps(self) -> None:
        self.run_in_blender("take('hand.L')")
        field = self.field()
        before, there = self.value("bits()"), self.value("list(target('hand.L').location)")
        with self.watched():
            self.drag_field(field)
            self.assertGreater(self.value("away('hand.L')"), 0.05)
            self.assertGreater(self.value("sum(turned)"), 30.0)
            self.assertLess(self.value("max(turned)"), LARGEST_TURN)
            self.window.key("Escape")
            self.window.release()
            self.assertEqual(self.value("list(target('hand.L').location)"), there)
            self.assertEqual(self.value("bits()"), before)
            self.run_in_blender("turned.clear()")
            self.drag_field(field)
            self.window.release()
            self.wait_while("underway()")
            self.assertLess(self.value("max(turned)"), LARGEST_TURN)
        away = self.value("away('hand.L')")
        self.assertGreater(away, 0.05)
        self.run_in_blender("with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.solve_pose()")
        self.assertAlmostEqual(self.value("away('hand.L')"), away, delta=HALF_MILLIMETRE)

    def test_escape_late_in_the_drag_of_a_number_field_puts_back_every_bit(self) -> None:
        """Long after the body has come to rest: it was solved for the place before."""
        self.run_in_blender("take('hand.L')")
        field = self.field()
        before, there = self.value("bits()"), self.value("list(target('hand.L').location)")
        self.run_in_blender("stood = bits()")
        self.drag_field(field)
        self.wait_while("bits() == stood")  # a busy machine takes the mouse's way later
        self.wait_while("underway()")
        self.assertEqual(self.value("underway()"), False)
        self.assertNotEqual(self.value("bits()"), before)
        self.window.settle(20)
        self.window.key("Escape")
        self.window.release()
        self.assertEqual(self.value("list(target('hand.L').location)"), there)
        self.assertEqual(self.value("bits()"), before)

    def test_the_whole_character_goes_with_its_object_and_comes_back(self) -> None:
        places = "[list(posed().matrix_world @ b.head) for b in posed().pose.bones]"
        before, was, there = self.value("bits()"), self.value(places), self.value("list(figure().location)")
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.ops.object.mode_set(mode='OBJECT')\n"
            "    bpy.ops.object.select_all(action='DESELECT')\n"
            "figure().select_set(True)\n"
            "bpy.context.view_layer.objects.active = figure()\n"
            "bpy.ops.ed.undo_push(message='Selected')"
        )
        x, y = self.value("pixel(figure().matrix_world.translation + Vector((0.0, 0.0, 0.5)))")
        for key, offset in (("g", (-90.0, 40.0)), ("r", (60.0, -160.0))):
            self.window.move((x + 100.0, y))
            self.window.key(key)
            self.window.drag((x + 100.0, y), (x + 100.0 + offset[0], y + offset[1]))
            self.window.click()
            self.assertEqual(self.value("running()"), [])
            self.window.settle(20)
            self.assertLess(
                self.value("max(away(e.name) for e in figure().poise.effectors)"), HALF_MILLIMETRE
            )
        moved = self.value("[list(row) for row in figure().matrix_world]")
        turn = self.value("math.degrees(figure().matrix_world.to_quaternion().angle)")
        self.assertGreater(turn, 10.0)
        self.assertGreater(distance(self.value("list(figure().location)"), there), 0.1)
        for old, new in zip(was, self.value(places), strict=True):
            carried = [sum(row[k] * old[k] for k in range(3)) + row[3] for row in moved[:3]]
            self.assertLess(distance(carried, new), HALF_MILLIMETRE)
        for _ in range(2):
            self.window.key("ctrl+z")
            self.window.settle(20)
        self.assertEqual(self.value("list(figure().location)"), there)
        self.assertEqual(self.value("bits()"), before)
        for old, new in zip(was, self.value(places), strict=True):
            self.assertLess(distance(old, new), HALF_MILLIMETRE)

    def test_escape_puts_target_and_body_back(self) -> None:
        before, there = self.value("bits()"), self.value("list(target('hand.L').location)")
        self.grab_target("hand.L", (-40.0, 60.0))
        self.assertNotEqual(self.value("bits()"), before)
        self.window.key("Escape")
        self.assertEqual(self.value("list(target('hand.L').location)"), there)
        self.assertEqual(self.value("bits()"), before)

    def test_undo_and_redo_take_the_body_along(self) -> None:
        before = self.value("bits()")
        self.grab_target("hand.R", (30.0, 50.0))
        self.window.click()
        after = self.value("bits()")
        self.assertNotEqual(after, before)
        self.window.key("ctrl+z")
        self.assertEqual(self.value("bits()"), before)
        self.window.key("ctrl+shift+z")
        self.assertEqual(self.value("bits()"), after)
        self.assert_reached("hand.R")

    def test_with_auto_key_a_body_settles_without_a_jump_and_undo_brings_back_the_pose_before(self) -> None:
        """The key of a target that is let go counted as movement: the body sprang, and undo missed by 19°."""
        self.run_in_blender(
            "edit, tools = bpy.context.preferences.edit, bpy.context.scene.tool_settings\n"
            "available, edit.use_keyframe_insert_available = edit.use_keyframe_insert_available, False\n"
            "tools.use_keyframe_insert_auto = True"
        )
        self.addCleanup(
            self.window.run,
            "bpy.context.scene.tool_settings.use_keyframe_insert_auto = False\n"
            "bpy.context.preferences.edit.use_keyframe_insert_available = available",
        )
        matrices = "[v for b in posed().pose.bones for row in b.matrix for v in row]"
        self.grab_target("hand.L", (-40.0, 60.0))
        self.window.click()
        self.wait_while("underway()")
        before = self.value(matrices)
        with self.watched():
            self.grab_target("hand.R", (-150.0, 60.0))
            self.run_in_blender("turned.clear()")
            self.window.click()
            self.wait_while("underway()")
            self.assertLess(self.value("max(turned, default=0.0)"), LARGEST_TURN_AT_REST)
        self.assertGreater(self.value("len(figure().animation_data.action.layers)"), 0)
        self.window.move(tuple(self.value("on_bone('spine')")))
        self.window.key("ctrl+z")
        self.window.settle(20)
        for was, now in zip(before, self.value(matrices), strict=True):
            self.assertAlmostEqual(now, was, delta=HALF_MILLIMETRE)

    def test_playback_takes_the_body_along(self) -> None:
        self.run_in_blender(
            "take('hand.L')\n"
            "own = target('hand.L')\n"
            "for frame, height in ((1, 0.0), (12, 0.25), (24, 0.0)):\n"
            "    own.location.z += height - (own.location.z - place('hand.L')[2])\n"
            "    own.keyframe_insert('location', frame=frame)\n"
            "bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 24\n"
            "bpy.context.scene.frame_set(1)\n"
        )
        self.window.move(tuple(self.value("on_bone('spine')")))
        self.window.key("space")
        playing = "bpy.context.screen.is_animation_playing"
        self.assertTrue(self.value(playing))
        seen: dict[int, list[float]] = {}
        until = time.monotonic() + PLAYED_SECONDS
        while len(seen) < 8 and time.monotonic() < until:
            frame, height, miss = self.value(
                "[bpy.context.scene.frame_current, place('hand.L')[2], away('hand.L')]"
            )
            seen[frame] = [height, miss]
        self.window.key("space")
        self.assertFalse(self.value(playing))
        self.assertGreaterEqual(len(seen), 8)
        self.assertLess(max(miss for _height, miss in seen.values()), HALF_MILLIMETRE)
        heights = [height for height, _miss in seen.values()]
        self.assertGreater(max(heights) - min(heights), 0.05)


if __name__ == "__main__":
    unittest.main()
