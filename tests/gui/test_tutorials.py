# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorials, click by click, from the files that scripts/samples makes: what a page says is done here."""

import unittest

from .figure import DOWN_PIXELS, IN_VIEW, ROOT, InNewWindow, button, distance
from .test_panel import BAKE, HEADER_PIXELS, RECORDED

SAMPLES = ROOT / "dist" / "samples"

FIGURE_OF_SAMPLES = """
def figure():
    return bpy.data.objects["Figure"]

def placed(name):
    return list(target(name).matrix_world.translation)

def every(frames, value):
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(value())
    return found
"""

HEADER_BELOW_PIXELS = 31.0
"""From where the buttons below the list is found down to the header of the effector's part [pixels]."""

TENTH_MILLIMETRE = 1e-4
"""[m]"""

FROM_DRAG = 0.09
"""How far a handle stays behind the mouse: by the pixels after which a press is a drag, in two views [m]."""


class Tutorials(InNewWindow):
    """Each begins with its own file."""

    def open(self, sample: str) -> None:
        """Open a file of the tutorials, with the sidebar and a view that shows the figure beside it."""
        path = SAMPLES / f"{sample}.blend"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not there: run scripts/samples --out dist/samples first")
        self.window.run(f"bpy.ops.wm.open_mainfile(filepath={str(path)!r}, load_ui=False)")
        self.window.settle(6)
        self.run_in_blender(
            IN_VIEW + FIGURE_OF_SAMPLES + "view.view_perspective = 'ORTHO'\n"
            "bpy.context.preferences.view.smooth_view = 0\n"
            "bpy.context.preferences.keymap.active_keyconfig = 'Blender'\n"
            "view.view_location, view.view_distance = (0.30, 0.12, 0.85), 3.6\n"
        )
        self.open_sidebar()

    def look_from(self, key: str) -> None:
        """Turn the view with a key of the number pad, pressed over it."""
        x, y = self.value("[region.x + 60, region.y + region.height - 150]")
        self.window.move((x, y))
        self.window.key(key)
        self.window.settle(4)

    def seen(self, name: str) -> tuple[float, float]:
        """Where a target is seen."""
        x, y = self.value(f"pixel(target({name!r}).matrix_world.translation)")
        return x, y

    def drag_handle(self, name: str, place: tuple[float, float, float]) -> None:
        """Drag a handle to where a place is seen."""
        start, (x, y) = self.seen(name), self.value(f"pixel({place})")
        self.window.move(start)
        self.window.settle(4)
        self.window.press()
        self.window.drag(start, (x, y))
        self.window.release()
        self.rest()

    def rest(self) -> None:
        """Wait until tool and body have come to rest."""
        self.wait_while("running() or underway()")

    def turn(self, name: str, degrees: str) -> None:
        """Turn a target about X, with the mouse over its handle: R, X, the angle, Enter."""
        self.window.move(self.seen(name))
        self.window.settle(4)
        for key in ("r", "x", *("minus" if sign == "-" else sign for sign in degrees), "Return"):
            self.window.key(key)
        self.rest()

    def go_to(self, frame: int) -> None:
        """Go to a frame."""
        self.run_in_blender(f"bpy.context.scene.frame_set({frame})")
        self.rest()

    def open_part_of_effector(self) -> None:
        """Open the part with the name of the active effector, below the list."""
        self.scroll_sidebar(DOWN_PIXELS)
        x, y = button(self.window, "poise.roll_feet")
        self.window.click((x, y - HEADER_BELOW_PIXELS))
        self.window.settle(40)

    def headers(self) -> list[tuple[float, float]]:
        """Where the headers of the list, Bake and Recorded Motion are once those above each are closed."""
        x, y = button(self.window, "poise.add_effector", parts=(0.87,))
        first, others = HEADER_PIXELS
        return [(x - 150.0, y + first - number * others) for number in (0, BAKE, RECORDED)]

    def click_header(self, place: tuple[float, float]) -> None:
        """Open or close a part of the panel."""
        self.window.click(place)
        self.window.settle(40)

    def test_pose_and_animate_a_pick_up(self) -> None:
        self.open("pick-up")
        # 2. Set up
        self.click("poise.setup_character")
        self.click("poise.live")
        self.assertTrue(self.value("figure().poise.live"))
        feet = self.value("[place('foot.L'), place('foot.R')]")
        # 3. Stand: frame 1
        self.look_from("KP_1")
        for side, name in ((1, "hand.L"), (-1, "hand.R")):
            self.drag_handle(name, (side * 0.27, 0.0, 1.06))
            self.assertLess(self.value(f"away({name!r})"), TENTH_MILLIMETRE)
        for name in ("hand.R", "hand.L"):
            self.window.click(self.seen(name))
            self.assertEqual(self.value("figure().poise.effectors[bpy.context.scene.poise_shown].name"), name)
            if name == "hand.R":
                self.open_part_of_effector()
            self.click("poise.keep_orientation")
            self.assertEqual(self.value(f"figure().poise.effectors[{name!r}].kind"), "BOTH")
        self.open_part_of_effector()  # which closes it again
        self.scroll_sidebar(0)
        self.click("poise.key_targets")
        # 4. At the box: frame 18
        self.go_to(18)
        for side, name in ((1, "hand.L"), (-1, "hand.R")):
            self.look_from("KP_1")
            self.drag_handle(name, (side * 0.21, 0.0, 0.26))
            self.look_from("KP_3")
            self.drag_handle(name, (0.0, -0.42, 0.26))
        self.look_from("KP_1")
        for name in ("hand.L", "hand.R"):
            self.turn(name, "-35")
        self.turn("head", "20")
        self.click("poise.key_targets")
        hands = self.value("[placed('hand.L'), placed('hand.R')]")
        for hand, side in zip(hands, (1, -1), strict=True):
            self.assertLess(distance(hand, [side * 0.21, -0.42, 0.26]), FROM_DRAG)
        self.assertLess(self.value("max(away(name) for name in ('hand.L', 'hand.R'))"), TENTH_MILLIMETRE)
        # 5. Take it
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.ops.object.select_all(action='DESELECT')\n"
            "box = bpy.data.objects['Box']\n"
            "for thing in (box, target('hand.L'), target('hand.R')):\n"
            "    thing.select_set(True)\n"
            "bpy.context.view_layer.objects.active = target('hand.R')\n"
        )
        self.scroll_sidebar(0)
        listed, bake, recorded = self.headers()
        for header in (listed, bake, recorded):
            self.click_header(header)
        self.click("poise.hold_prop")
        self.go_to(22)
        self.run_in_blender("box.keyframe_insert('location')")
        # 6. Lift it: frame 44
        self.go_to(44)
        self.run_in_blender("box.location = (0.0, -0.42, 1.05)\nbox.keyframe_insert('location')")
        self.rest()
        self.turn("head", "-20")
        self.click("poise.key_targets")
        # 7. Bake
        self.click("poise.live")
        self.assertFalse(self.value("figure().poise.live"))
        self.click_header(bake)
        self.click("poise.bake")
        self.window.settle()
        self.wait_while("running()")
        self.assertIn("72 frames", self.value("figure().poise.last_bake"))
        self.assertIn("targets are reached", self.value("figure().poise.last_bake"))
        for bone, first in zip(("foot.L", "foot.R"), feet, strict=True):
            way = self.value(f"every(range(1, 73), lambda: place({bone!r}))")
            self.assertLess(max(distance(place, first) for place in way), TENTH_MILLIMETRE)
        held = self.value(
            "every(range(22, 45), lambda: list(box.matrix_world.inverted() @ Vector(place('hand.L'))))"
        )
        self.assertLess(max(distance(place, held[0]) for place in held), TENTH_MILLIMETRE)
        self.assertGreater(self.value("every([22, 44], lambda: place('hand.L')[2])[1]"), 0.95)


if __name__ == "__main__":
    unittest.main()
