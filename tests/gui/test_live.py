# SPDX-License-Identifier: GPL-3.0-or-later
"""Live mode under the mouse: targets are moved, and whatever else happens to a file meanwhile."""

import time
import unittest

from .figure import HALF_MILLIMETRE, IN_VIEW, MODULE, SET_UP, InWindow

PLAYED_SECONDS = 60.0
"""After which playback is given up [s]."""


class Live(InWindow):
    """The figure is set up and live."""

    def setUp(self) -> None:
        super().setUp()
        self.run_in_blender(SET_UP + "figure().poise.live = True\nbpy.ops.ed.undo_push(message='Live')")

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

    def test_a_saved_file_is_live_again_when_it_is_opened(self) -> None:
        self.grab_target("hand.L", (-30.0, 40.0))
        self.window.click()
        path = str(self.window.folder / "shot.blend")
        self.window.run(f"bpy.ops.wm.save_as_mainfile(filepath={path!r})")
        self.window.run(f"bpy.ops.wm.open_mainfile(filepath={path!r})")
        self.window.settle(8)
        self.window.run(IN_VIEW)
        self.assertTrue(self.value("figure().poise.live"))
        self.assert_reached()
        self.grab_target("hand.L", (20.0, 20.0))
        self.assert_reached()
        self.window.click()
        self.assert_reached()

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

    def test_the_extension_is_disabled_while_live_and_enabled_again(self) -> None:
        self.grab_target("hand.L", (-20.0, 30.0))
        self.window.click()
        self.run_in_blender("own = target('hand.L')")
        self.run_in_blender(f"bpy.ops.preferences.addon_disable(module={MODULE!r})")
        was = self.value("place('hand.L')")
        self.run_in_blender("own.location.z += 0.1")
        self.assertEqual(self.value("place('hand.L')"), was)
        self.run_in_blender(f"bpy.ops.preferences.addon_enable(module={MODULE!r})")
        self.assertTrue(self.value("figure().poise.live"))
        self.grab_target("hand.L", (-20.0, 10.0))
        self.assert_reached()
        self.window.click()
        self.assert_reached()


if __name__ == "__main__":
    unittest.main()
