# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones dragged with the mouse: what follows, what holds, and how one changes one's mind."""

import unittest

from .figure import HALF_MILLIMETRE, SET_UP, InWindow, distance

CONFIRMED = """
Drag, confirmed = sys.modules[f"{MODULE}.scene.live.dragging"].Drag, []
own_confirm = Drag.confirm

def confirm(drag):
    confirmed.append(drag.report.settled)
    return own_confirm(drag)

Drag.confirm = confirm
"""
"""Notes in `confirmed` of each drag whether its pose stood still when it was confirmed, or it jumps then."""


class Drag(InWindow):
    """With the drag tool, or the shortcut."""

    def test_a_dragged_bone_follows_the_mouse_and_feet_stay(self) -> None:
        feet = {bone: self.value(f"place({bone!r})") for bone in ("foot.L", "foot.R")}
        end = self.drag_bone("hand.L", (-40.0, 90.0))
        self.let_go()
        self.assertEqual(self.value("running()"), [])
        self.assertLess(distance(self.value("on_bone('hand.L')"), list(end)), 1.5)
        for bone, was in feet.items():
            self.assertLess(distance(self.value(f"place({bone!r})"), was), HALF_MILLIMETRE)

    def test_in_pose_mode_with_two_figures_the_bone_under_the_mouse_is_dragged_whose_it_may_be(self) -> None:
        """Those of the figure that is not active could not be dragged, and nothing said so."""
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.ops.object.mode_set(mode='OBJECT')\n"
            "    bpy.ops.object.armature_basic_human_metarig_add()\n"
            "    other = bpy.context.object\n"
            "    other.location.x = 0.9\n"
            "    figure().select_set(True)\n"
            "    bpy.context.view_layer.objects.active = figure()\n"
            "    bpy.ops.object.mode_set(mode='POSE')\n"
            "    bpy.ops.pose.select_all(action='DESELECT')\n"
            "    bpy.ops.wm.tool_set_by_id(name='poise.drag_tool', space_type='VIEW_3D')\n"
            "bpy.ops.ed.undo_push(message='Two figures')\n"
            "def on_other():\n"
            "    bpy.context.view_layer.update()\n"
            "    hand = other.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones['hand.R']\n"
            "    return pixel(other.matrix_world @ hand.head.lerp(hand.tail, 0.2))"
        )
        before, (x, y) = self.value("bits()"), self.value("on_other()")
        self.window.move((x, y))
        self.window.press()
        self.window.drag((x, y), (x + 30.0, y + 50.0))
        self.window.settle()
        self.assertEqual(self.value("running()"), ["POISE_OT_drag"])
        self.let_go()
        self.assertLess(distance(self.value("on_other()"), [x + 30.0, y + 50.0]), 1.5)
        self.assertEqual(self.value("bits()"), before)
        self.drag_bone("hand.L", (-30.0, 50.0))
        self.let_go()
        self.assertLess(distance(self.value("on_other()"), [x + 30.0, y + 50.0]), 1.5)

    def test_a_body_that_lags_comes_after_when_the_mouse_lets_go(self) -> None:
        x, y = self.value("on_bone('hand.L')")
        self.run_in_blender(CONFIRMED)
        try:
            self.window.move((x, y))
            self.window.press()
            self.window.drag((x, y), (x + 60.0, y + 20.0))
            self.window.drag((x + 60.0, y + 20.0), (x - 260.0, y + 120.0), steps=1)
            self.let_go()
            self.assertEqual(self.value("running()"), [])
            self.assertEqual(self.value("confirmed"), [True])
        finally:
            self.window.run("Drag.confirm = own_confirm")

    def test_escape_and_right_mouse_put_back_every_bit(self) -> None:
        for cancel in (lambda: self.window.key("Escape"), lambda: self.window.click(button=3)):
            before = self.value("bits()")
            self.drag_bone("hand.R", (-60.0, 100.0))
            self.assertNotEqual(self.value("bits()"), before)
            cancel()
            self.window.settle()
            self.let_go()
            self.assertEqual(self.value("running()"), [])
            self.assertEqual(self.value("bits()"), before)

    def test_one_step_undoes_a_drag_and_redoes_it(self) -> None:
        before = self.value("bits()")
        self.drag_bone("spine", (20.0, -60.0))
        self.let_go()
        after = self.value("bits()")
        self.assertNotEqual(after, before)
        self.window.key("ctrl+z")
        self.assertEqual(self.value("bits()"), before)
        self.window.key("ctrl+shift+z")
        self.assertEqual(self.value("bits()"), after)

    def test_ctrl_z_in_the_middle_of_a_drag_is_neither_undo_nor_an_axis(self) -> None:
        end = self.drag_bone("hand.L", (-30.0, 50.0))
        self.window.key("ctrl+z")
        self.assertEqual(self.value("running()"), ["POISE_OT_drag"])
        self.assertLess(distance(self.value("on_bone('hand.L')"), list(end)), 1.5)
        self.let_go()

    def test_a_bone_is_pinned_while_h_is_held(self) -> None:
        end = self.drag_bone("hand.L", (-30.0, 50.0))
        self.window.key("h", how="keydown")
        head = self.value("on_bone('spine.006', 0.5)")
        self.window.move((head[0], head[1]))
        self.window.key("h", how="keyup")
        was = self.value("place('spine.006')")
        waited = self.value("on_bone('hand.L')")
        self.assertLess(distance(waited, list(end)), 1.5)
        self.window.drag((head[0], head[1]), (head[0] - 30.0, head[1] + 20.0))
        self.let_go()
        self.assertLess(distance(self.value("place('spine.006')"), was), HALF_MILLIMETRE)

    def test_a_click_selects_and_moves_nothing(self) -> None:
        before = self.value("bits()")
        x, y = self.value("on_bone('forearm.L', 0.5)")
        self.window.move((x, y))
        self.window.press()
        self.let_go()
        self.assertEqual(self.value("bits()"), before)
        selected = "[b.name for b in figure().pose.bones if (b if hasattr(b, 'select') else b.bone).select]"
        self.assertEqual(self.value(selected), ["forearm.L"])

    def test_a_pinned_foot_holds_while_the_hips_are_dragged_far(self) -> None:
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.ops.poise.add_effector(bone='foot.L', make_targets=False)\n"
            "    bpy.ops.poise.pin(action='PIN')\n"
        )
        was = self.value("place('foot.L')")
        self.drag_bone("spine", (35.0, -70.0))
        self.assertLess(distance(self.value("place('foot.L')"), was), HALF_MILLIMETRE)
        self.let_go()
        self.assertLess(distance(self.value("place('foot.L')"), was), HALF_MILLIMETRE)
        self.assertTrue(self.value("figure().poise.effectors['foot.L'].pinned"))

    def test_after_set_up_the_tool_drags_the_body_by_its_handles_too_and_their_targets_come_along(
        self,
    ) -> None:
        self.run_in_blender(SET_UP + "figure().poise.live = True\nbpy.ops.ed.undo_push(message='Live')")
        before = self.value("bits()")
        for name in ("hand.L", "hips"):
            x, y = self.value(f"pixel(place(figure().poise.effectors[{name!r}].bone))")
            self.window.point((x + 60.0, y))
            self.window.move((x, y))
            self.window.settle(2)
            self.window.press()
            self.window.drag((x, y), (x - 15.0, y - 25.0))
            self.window.settle()
            self.assertEqual(self.value("running()"), ["POISE_OT_drag"])
            self.let_go()
            self.wait_while("underway()")
            self.assertLess(self.value(f"away({name!r})"), HALF_MILLIMETRE)
            self.assertLess(self.value("away('head')"), HALF_MILLIMETRE)
            now = self.value(f"pixel(place(figure().poise.effectors[{name!r}].bone))")
            self.assertLess(distance(now, [x - 15.0, y - 25.0]), 1.5)
            self.window.key("ctrl+z")
            self.wait_while("underway()")
            self.assertEqual(self.value("bits()"), before)
            self.assertLess(self.value("away('head')"), HALF_MILLIMETRE)
        # A click chooses the handle, as with any other tool.
        self.window.click(tuple(self.value("pixel(place('hand.R'))")))
        shown = self.value("figure().poise.effectors[bpy.context.scene.poise_shown].name")
        self.assertEqual(shown, "hand.R")
        # A target that is not at its bone is a handle.
        self.run_in_blender("figure().poise.live = False\ntarget('hand.R').location.x -= 0.5")
        x, y = self.value("pixel(target('hand.R').matrix_world.translation)")
        self.window.move((x, y))
        self.window.settle(2)
        self.window.press()
        self.window.drag((x, y), (x - 15.0, y - 25.0))
        self.assertIn("POISE_OT_move_handle", self.value("running()"))
        self.let_go()

    def test_the_shortcut_drags_the_active_bone_until_a_click(self) -> None:
        self.run_in_blender("select_bones('hand.R')")
        x, y = self.value("on_bone('hand.R', 0.0)")  # by its head, as there is none under the mouse
        self.window.move((x, y))
        self.window.key("shift+v")
        self.assertEqual(self.value("running()"), ["POISE_OT_drag"])
        self.window.drag((x, y), (x - 30.0, y + 40.0))
        self.window.click()
        self.let_go()
        self.assertEqual(self.value("running()"), [])
        self.assertLess(distance(self.value("on_bone('hand.R', 0.0)"), [x - 30.0, y + 40.0]), 1.5)


if __name__ == "__main__":
    unittest.main()
