# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial *Fix a recorded clip*, click by click, in the clip that scripts/samples makes."""

import time
import unittest
from collections.abc import Iterable

from .figure import IN_VIEW, MOST_TURNS, ROW_PIXELS, InNewWindow, button, distance
from .test_tutorials import FIGURE_OF_SAMPLES, SAMPLES, TENTH_MILLIMETRE

MILLIMETRE, CENTIMETRE = 1e-3, 1e-2
"""[m]"""

SLID, PASSED = 0.05, 0.13
"""As recorded: how far feet slide at least, and how far the knuckles are from the middle of the cup [m]."""

BESIDE = 0.07
"""How far the knuckles are from it at most when the hand is at the cup, which has a radius of 36 mm [m]."""

TO_RECORDED_PIXELS = 142.0
"""From where the button Bake is found down to the header of Recorded Motion in a new Blender [pixels]."""

LEFT, RIGHT, EYE = 0.25, 0.65, 0.74
"""Where the buttons of a row are, by the width of the sidebar; the eye is beside Correct [1]."""

BAKE_ABOVE_PIXELS = 160
"""How far above the end of the sidebar the button Bake is seen when there is a report of a bake [pixels]."""

ALL_DOWN = 1000
"""More than the sidebar can be scrolled [pixels]."""

FRAMES = 250
"""Of the clip."""

ALL = range(1, FRAMES + 1)
"""[frames]"""

AT_CUP = range(178, 205)
"""Frames in which the hand is to stay at the cup."""

EASE = 30
"""Frames in which the hand leaves its recorded path, and as many in which it comes back."""

POLL_SECONDS = 0.2
"""From one look whether a bake is done to the next [s]."""

MOST_CLICKS = 5
"""Of steps 1 to 3, as the page counts them."""

CLIP = """
view.view_perspective = 'ORTHO'
bpy.context.preferences.view.smooth_view = 0
bpy.context.preferences.system.viewport_aa = 'OFF'  # half as long to draw
view.view_rotation = Euler((math.radians(82.0), 0.0, math.radians(58.0))).to_quaternion()
view.view_location, view.view_distance = (0.3, -1.45, 1.1), 2.4
SEEN = ("spine", "foot.L", "foot.R", "toe.L", "toe.R", "hand.L", "hand.R", "spine.006")

def places():
    own = figure().evaluated_get(bpy.context.evaluated_depsgraph_get())
    seen = {name: list(own.matrix_world @ own.pose.bones[name].head) for name in SEEN}
    return seen | {"knuckles.R": list(own.matrix_world @ own.pose.bones["hand.R"].tail)}

def planted():
    feet = (figure().poise.effectors[name] for name in ("foot.L", "foot.R"))
    return {foot.name: foot.contact and foot.contact_toe for foot in feet}

def field_under_mouse():
    # The path of the property in whose field the mouse is.
    bpy.context.window_manager.clipboard = ""
    with bpy.context.temp_override(window=window, area=area, region=sidebar):
        if bpy.ops.ui.copy_data_path_button.poll():
            bpy.ops.ui.copy_data_path_button()
    return bpy.context.window_manager.clipboard

def groups_of_keys(name):
    # Of the curves of a target.
    (layer,) = target(name).animation_data.action.layers
    (bag,) = layer.strips[0].channelbags
    return {curve.group.name for curve in bag.fcurves if curve.group}
"""
"""The walker at the table, from the side and before him, and what is asked of him."""

Motion = list[dict[str, list[float]]]
"""Places of joints in each frame [m]."""


def apart(first: Motion, second: Motion, bones: Iterable[str], frames: Iterable[int]) -> float:
    """How far joints are at most from where they are in another motion [m]."""
    return max(distance(first[f - 1][bone], second[f - 1][bone]) for f in frames for bone in bones)


def slide(motion: Motion, foot: str, planted: list[dict[str, bool]]) -> float:
    """How far a foot is at most from where it was planted [m]."""
    most, first = 0.0, None
    for places, rests in zip(motion, planted, strict=True):
        first = (first or places[foot]) if rests[foot] else None
        if first:
            most = max(most, distance(places[foot], first))
    return most


class FixAClip(InNewWindow):
    """The steps of the page, with frames set by a script, in a Blender that was just started."""

    def setUp(self) -> None:
        super().setUp()
        path = SAMPLES / "clip.blend"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not there: run scripts/samples --out dist/samples first")
        self.window.run(f"bpy.ops.wm.open_mainfile(filepath={str(path)!r}, load_ui=False)")
        self.window.settle(6)
        self.run_in_blender(IN_VIEW + FIGURE_OF_SAMPLES + CLIP)
        self.clicks = 0

    def at(self, place: tuple[float, float]) -> None:
        """Click somewhere, count it, and wait until what it began is done."""
        self.window.click(place)
        self.clicks += 1
        while self.value("running()"):
            time.sleep(
                POLL_SECONDS
            )  # without a drawing, which takes the processor longer than a frame of a bake
        self.window.settle()

    def press(self, operator: str, part: float = LEFT, above: int = 0, given: str = "") -> None:
        """Click on a button of the sidebar, which is scrolled to so much above its end."""
        self.scroll_sidebar(ALL_DOWN)
        if above:
            self.run_in_blender(
                "with bpy.context.temp_override(window=window, area=area, region=sidebar):\n"
                f"    bpy.ops.view2d.pan(deltay={above})"
            )
        self.at(button(self.window, f"poise.{operator}", parts=(part,), given=given))

    def write(self, name: str, part: float, text: str) -> None:
        """Click on a field of the sidebar, and type what it is to be."""
        x, y, width, height = self.value("[sidebar.x, sidebar.y, sidebar.width, sidebar.height]")
        for up in range(ROW_PIXELS, height, 2 * ROW_PIXELS):
            self.window.point((x + part * width, y + up))
            if self.value("field_under_mouse()").endswith(name):
                self.window.click()
                for key in (*text, "Return"):
                    self.window.key(key)
                return
        self.fail(f"there is no field for {name} in the sidebar")

    def go_to(self, frame: int) -> None:
        """Go to a frame."""
        self.run_in_blender(f"bpy.context.scene.frame_set({frame})")

    def motion(self) -> Motion:
        """Where joints are in each frame."""
        return self.value(f"every({ALL}, places)")

    def move_along_y(self, name: str, way: str) -> None:
        """Select a target by a click on what is drawn of it, and move it: G, Y, the way, Enter."""
        self.window.click(tuple(self.value(f"outline({name!r})")))
        self.assertTrue(self.value(f"bpy.context.selected_objects == [target({name!r})]"))
        place = f"list(target({name!r}).location)"
        before = self.value(place)
        for key in ("g", "y", *("period" if sign == "." else sign for sign in way), "Return"):
            self.window.key(key)
        # On a slow machine a click would confirm the move, in place of pressing the next button.
        for _ in range(MOST_TURNS):
            if self.value(f"not running() and {place} != {before}"):
                return
            self.window.settle(1)
        self.fail(f"the target of {name} does not move")

    def test_feet_are_locked_and_a_hand_is_at_the_cup(self) -> None:
        recorded = self.motion()
        self.go_to(1)
        # 1. Click the armature; the sidebar is opened with a key
        self.at(tuple(self.value("on_bone('spine')")))
        self.assertEqual(self.value("bpy.context.active_object.name"), "Figure")
        self.open_sidebar()
        # 2. Targets from the animation
        self.scroll_sidebar(ALL_DOWN)
        x, y = button(self.window, "poise.bake", parts=(LEFT,))
        self.at((x, y - TO_RECORDED_PIXELS))
        self.window.settle(20)
        self.press("targets_from_animation")
        names = self.value("[entry.name for entry in figure().poise.effectors if entry.state != 'FOLLOW']")
        self.assertEqual(sorted(names), ["foot.L", "foot.R", "hand.L", "hand.R", "head", "hips"])
        self.assertIsNotNone(self.value("figure().poise.recording and figure().poise.recording.name"))
        followed = self.value(f"every((1, 60, 178), lambda: max(away(name) for name in {names}))")
        self.assertLess(max(followed), TENTH_MILLIMETRE)
        played = self.value("every((60, 178), places)")
        self.assertEqual(played, [recorded[59], recorded[177]])
        # 3. Lock the feet
        self.press("lock_contacts", RIGHT)
        self.press("bake")
        self.assertLessEqual(self.clicks, MOST_CLICKS)
        locked = self.motion()
        planted = self.value(f"every({ALL}, planted)")
        for foot in ("foot.L", "foot.R"):
            self.assertGreater(sum(rests[foot] for rests in planted), FRAMES // 4)
            self.assertGreater(slide(recorded, foot, planted), SLID)
            self.assertLess(slide(locked, foot, planted), TENTH_MILLIMETRE)
        self.assertLess(apart(locked, recorded, ("hand.L", "hand.R", "spine"), ALL), MILLIMETRE)
        # 4. A hand to the cup
        self.go_to(AT_CUP[0])
        for name, part in (("ease_in", LEFT), ("ease_out", RIGHT)):
            self.write(name, part, str(EASE))
            self.assertEqual(self.value(f"figure().poise.{name}"), EASE)
        self.move_along_y("hand.R", "0.155")
        self.press("correct")
        self.go_to(AT_CUP[-1])
        self.move_along_y("hand.R", "0.147")
        self.press("correct")
        self.press("bake", above=BAKE_ABOVE_PIXELS)
        corrected = self.motion()
        self.assertLess(
            apart(corrected, [corrected[AT_CUP[0] - 1]] * FRAMES, ("hand.R",), AT_CUP), MILLIMETRE
        )
        cup = self.value("list(bpy.data.objects['Cup'].matrix_world.translation)")
        for frame in (AT_CUP[0], AT_CUP[-1]):
            self.assertGreater(distance(recorded[frame - 1]["knuckles.R"], cup), PASSED)
            self.assertLess(distance(corrected[frame - 1]["knuckles.R"], cup), BESIDE)
        others = ("hand.L", "foot.L", "foot.R", "toe.L", "toe.R")
        self.assertLess(apart(corrected, locked, others, ALL), TENTH_MILLIMETRE)
        before, after = range(1, AT_CUP[0] - EASE + 1), range(AT_CUP[-1] + EASE, FRAMES + 1)
        self.assertLess(apart(corrected, locked, ("hand.R",), (*before, *after)), TENTH_MILLIMETRE)
        self.assertLess(apart(corrected, locked, corrected[0], (*before, *after)), CENTIMETRE)
        self.assertLess(apart(corrected, locked, corrected[0], before[:-EASE]), MILLIMETRE)
        # 5. Take it back
        self.assertIn("Correction", self.value("list(groups_of_keys('hand.R'))"))
        self.press("corrections", EYE, given="action='TOGGLE'")
        self.press("bake", above=BAKE_ABOVE_PIXELS)
        self.assertLess(apart(self.motion(), locked, locked[0], ALL), TENTH_MILLIMETRE)


if __name__ == "__main__":
    unittest.main()
