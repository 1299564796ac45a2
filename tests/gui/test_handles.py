# SPDX-License-Identifier: GPL-3.0-or-later
"""Handles: the points of effectors are clicked and dragged with the mouse, in Object and in Pose Mode."""

import unittest

from .figure import HALF_MILLIMETRE, IN_VIEW, MODULE, SET_UP, InWindow, distance

HANDLES = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "hips")
"""Effectors whose handles are clicked."""

FROM_PRESS = 8.0
"""How far the mouse may be from where it was pressed before a drag begins [pixels]: a step and Blender's own
threshold."""

BESIDE = 60.0
"""From where the mouse comes to a handle [pixels]."""

OBJECT_MODE = "with bpy.context.temp_override(**in_view):\n    bpy.ops.object.mode_set(mode='OBJECT')\n"

SELECT = """
with bpy.context.temp_override(**in_view):
    bpy.ops.wm.tool_set_by_id(name="builtin.select_box", space_type='VIEW_3D')
"""

TWO = """
other = figure().copy()
bpy.context.scene.collection.objects.link(other)
other.name = 'other'
for entry in other.poise.effectors:
    if entry.target:
        entry.target = entry.target.copy()
        bpy.context.scene.collection.objects.link(entry.target)
bpy.context.view_layer.update()
moved = [other, *(e.target for e in other.poise.effectors if e.target and e.target.parent != other)]
for thing in moved:
    thing.location.x += 0.8
view.view_location.x, view.view_distance = 0.4, 5.0
bpy.ops.ed.undo_push(message='Two')

def make_active(name):
    with bpy.context.temp_override(**in_view):
        bpy.ops.object.select_all(action='DESELECT')
    bpy.data.objects[name].select_set(True)
    bpy.context.view_layer.objects.active = bpy.data.objects[name]

def target_of(name):
    return bpy.data.objects[name].poise.effectors['hand.L'].target

def bits_of(name):
    bones = bpy.data.objects[name].pose.bones
    return [[v.hex() for v in (*bone.location, *bone.rotation_quaternion)] for bone in bones]

def places_of(name):
    entries = bpy.data.objects[name].poise.effectors
    return [list(entry.target.matrix_world.translation) for entry in entries if entry.target]

def handle_at(place):
    with bpy.context.temp_override(**in_view):
        mouse = (place[0] - region.x, place[1] - region.y)
        return sys.modules[f"{MODULE}.ui.handles"].handle_at(bpy.context, mouse)
"""
"""Another character beside the first one, with targets of its own."""


class Handles(InWindow):
    """The figure is set up and live; handles are seen where bones and targets are. No tool drags bones."""

    def setUp(self) -> None:
        super().setUp()
        self.run_in_blender(
            SELECT + SET_UP + "figure().poise.live = True\nbpy.ops.ed.undo_push(message='Live')"
        )

    def handle(self, name: str) -> tuple[float, float]:
        """The pixel at which the handle of an effector is drawn."""
        x, y = self.value(f"pixel(target({name!r}).matrix_world.translation)")
        return x, y

    def chosen(self) -> str:
        """The active effector of the list."""
        return self.value("figure().poise.effectors[bpy.context.scene.poise_shown].name")

    def click_all(self) -> None:
        for name in HANDLES:
            self.window.click(self.handle(name))
            self.assertEqual(self.chosen(), name)

    def test_a_click_chooses_the_effector_in_both_modes(self) -> None:
        self.click_all()
        self.assertEqual(self.value("bpy.context.mode"), "POSE")
        self.run_in_blender(OBJECT_MODE)
        self.click_all()
        self.assertEqual(self.value("bpy.context.active_object == target('hips')"), True)

    def drag_handle(
        self, name: str, offset: tuple[float, float], tool: str = "POISE_OT_move_handle"
    ) -> tuple[float, float]:
        """Press a handle and drag it, without letting go; where the mouse is then."""
        x, y = self.handle(name)
        # A mouse that is there already does not move, and a click may just have ended.
        self.window.point((x + BESIDE, y))
        self.window.move((x, y))
        self.window.settle(2)
        self.window.press()
        end = (x + offset[0], y + offset[1])
        self.window.drag((x, y), end)
        self.window.settle()
        self.assertIn(tool, self.value("running()"))
        return end

    def let_go_of_handle(self) -> None:
        self.window.release()
        self.wait_while("running() or underway()")
        self.assertEqual(self.value("running()"), [])

    def test_a_dragged_handle_moves_its_target_and_the_body_in_both_modes(self) -> None:
        for prepare in ("", OBJECT_MODE):
            self.run_in_blender(prepare)
            mode = self.value("bpy.context.mode")
            end = self.drag_handle("hand.L", (-30.0, 40.0))
            self.let_go_of_handle()
            self.assertLess(distance(list(self.handle("hand.L")), list(end)), FROM_PRESS)
            self.assertLess(self.value("away('hand.L')"), HALF_MILLIMETRE)
            self.assertEqual(self.value("bpy.context.mode"), mode)
            self.assertEqual(self.chosen(), "hand.L")
            self.window.key("ctrl+z")
            self.window.settle()

    def test_the_handle_of_a_hand_with_several_targets_is_the_one_that_it_has_taken(self) -> None:
        """It was the first one, wherever that was: the taken one could be neither clicked nor moved there."""
        self.run_in_blender(
            "entry = figure().poise.effectors['hand.R']\n"
            "rail = bpy.data.objects.new('rail', None)\n"
            "bpy.context.scene.collection.objects.link(rail)\n"
            "rail.location = entry.target.matrix_world.translation\n"
            "entry.target.location.z += 0.9\n"
            "entry.kind, entry.choice = 'ONE_OF', 'POSITION'\n"
            "entry.others.add().target = rail\n"
            "bpy.ops.ed.undo_push(message='One Of')"
        )
        self.wait_while("underway()")
        self.assertEqual(self.value("figure().poise.effectors['hand.R'].taken"), "rail")
        x, y = self.value("pixel(bpy.data.objects['rail'].matrix_world.translation)")
        self.window.click((x, y))
        self.assertEqual(self.chosen(), "hand.R")
        self.assertEqual(self.value("bpy.data.objects['rail'].select_get()"), True)
        self.assertEqual(self.value("target('hand.R').select_get()"), False)
        before = self.value("list(target('hand.R').matrix_world.translation)")
        self.window.point((x + BESIDE, y))
        self.window.move((x, y))
        self.window.settle(2)
        self.window.press()
        end = (x + 30.0, y + 40.0)
        self.window.drag((x, y), end)
        self.let_go_of_handle()
        rail = self.value("list(bpy.data.objects['rail'].matrix_world.translation)")
        seen = self.value("list(pixel(bpy.data.objects['rail'].matrix_world.translation))")
        self.assertLess(distance(seen, list(end)), FROM_PRESS)
        hand = self.value("list(posed().matrix_world @ posed().pose.bones['hand.R'].head)")
        self.assertLess(distance(hand, rail), HALF_MILLIMETRE)
        self.assertEqual(self.value("list(target('hand.R').matrix_world.translation)"), before)

    def test_a_handle_whose_orientation_alone_counts_turns_with_the_mouse(self) -> None:
        self.assertEqual(self.value("figure().poise.effectors['head'].kind"), "ORIENTATION")
        face = "list(posed().pose.bones['spine.006'].matrix.to_quaternion() @ Vector((0.0, 0.0, 1.0)))"
        there = "list(target('head').matrix_world.translation)"
        for prepare in ("", OBJECT_MODE):
            self.run_in_blender(prepare)
            before, place, mode = self.value(f"[{face}, {there}, bpy.context.mode]")
            self.drag_handle("head", (40.0, 0.0), tool="POISE_OT_trackball_handle")
            self.let_go_of_handle()
            self.assertGreater(distance(self.value(face), before), 0.1)
            # It is not moved, but goes along with its bone, the place of which does not count.
            self.assertLess(self.value("away('head')"), HALF_MILLIMETRE)
            self.assertEqual(self.value("[bpy.context.mode, running()]"), [mode, []])
            self.window.key("ctrl+z")
            self.window.settle()
            self.assertLess(distance(self.value(face), before), 1e-4)
            self.assertLess(distance(self.value(there), place), HALF_MILLIMETRE)
        # Chosen with one that goes to a place, both are moved.
        self.window.click(self.handle("hand.L"))
        self.window.key("shift", how="keydown")
        self.window.click(self.handle("head"))
        self.window.key("shift", how="keyup")
        place = self.value(there)
        self.drag_handle("head", (0.0, 30.0))
        self.let_go_of_handle()
        self.assertGreater(distance(self.value(there), place), 0.05)

    def test_a_hidden_target_is_moved_by_its_handle_and_stays_hidden_in_both_modes(self) -> None:
        self.run_in_blender("target('hand.L').hide_set(True)")
        for prepare in ("", OBJECT_MODE, ""):  # in Object Mode once more: the hidden target is active then
            self.run_in_blender(prepare)
            before = self.value("list(target('hand.L').location)")
            self.drag_handle("hand.L", (-30.0, 40.0))
            self.let_go_of_handle()
            self.assertGreater(distance(self.value("list(target('hand.L').location)"), before), 0.02)
            self.assertLess(self.value("away('hand.L')"), HALF_MILLIMETRE)
            self.assertTrue(self.value("target('hand.L').hide_get()"))

    def test_one_step_undoes_it_and_escape_puts_back_every_bit(self) -> None:
        bits, there = self.value("bits()"), self.value("list(target('hand.L').location)")
        self.drag_handle("hand.L", (-30.0, 60.0))
        self.assertNotEqual(self.value("bits()"), bits)
        self.window.key("Escape")
        self.window.release()
        self.wait_while("running() or underway()")
        self.assertEqual(self.value("list(target('hand.L').location)"), there)
        self.assertEqual(self.value("bits()"), bits)
        self.assertEqual(self.value("bpy.context.mode"), "POSE")
        self.drag_handle("hand.L", (-30.0, 60.0))
        self.let_go_of_handle()
        after = self.value("bits()")
        self.assertNotEqual(after, bits)
        self.window.key("ctrl+z")
        self.window.settle()
        self.assertEqual(self.value("bits()"), bits)
        self.assertEqual(self.value("list(target('hand.L').location)"), there)
        self.window.key("ctrl+shift+z")
        self.window.settle()
        self.assertLess(self.value("away('hand.L')"), HALF_MILLIMETRE)
        self.assertNotEqual(self.value("list(target('hand.L').location)"), there)
        self.assertEqual(self.value("bpy.context.mode"), "POSE")

    def test_undo_takes_targets_along_that_followed_after_the_step_was_noted(self) -> None:
        """Live goes on when the mouse has let go, and Blender would leave these targets as they are then."""
        states = "[[e.state, list(e.target.matrix_basis.translation)] for e in figure().poise.effectors]"
        for prepare in ("", OBJECT_MODE):
            self.run_in_blender(prepare)
            self.window.click(self.handle("hand.R"))
            self.wait_while("running() or underway()")
            bits, before = self.value("bits()"), self.value(states)
            self.drag_handle("hand.L", (-60.0, 90.0))
            self.let_go_of_handle()
            after = self.value(states)
            self.assertGreater(
                max(distance(a[1], b[1]) for a, b in zip(before, after, strict=True) if a[0] == "FOLLOW"),
                0.02,
            )
            self.window.key("ctrl+z")
            self.window.settle()
            self.assertEqual(self.value(states), before)
            self.assertEqual(self.value("bits()"), bits)
            self.window.key("ctrl+shift+z")
            self.window.settle()
            self.wait_while("running() or underway()")
            self.assertEqual([state for state, _ in self.value(states)], [state for state, _ in before])
            self.assertLess(self.value("away('hand.L')"), HALF_MILLIMETRE)
            self.window.key("ctrl+z")
            self.window.settle()

    def test_a_double_click_pins_and_frees_and_shift_adds_handles_that_are_moved_together(self) -> None:
        # On a busy machine the two clicks may be handled far apart.
        self.run_in_blender("bpy.context.preferences.inputs.mouse_double_click_time = 1000")
        # What one has reported is shown in the status bar at the next one.
        for state in ("PIN", "REACH", "PIN", "REACH"):
            self.window.move(self.handle("hand.L"))
            self.window.settle(2)
            self.window.double_click()
            self.assertEqual(self.value("figure().poise.effectors['hand.L'].state"), state)
        self.window.click(self.handle("hand.L"))
        self.window.key("shift", how="keydown")
        self.window.click(self.handle("hand.R"))
        self.window.key("shift", how="keyup")
        was = [
            self.value(f"list(target({name!r}).matrix_world.translation)") for name in ("hand.L", "hand.R")
        ]
        self.drag_handle("hand.R", (0.0, 30.0))
        self.let_go_of_handle()
        for name, before in zip(("hand.L", "hand.R"), was, strict=True):
            now = self.value(f"list(target({name!r}).matrix_world.translation)")
            self.assertGreater(distance(now, before), 0.05)
            self.assertLess(self.value(f"away({name!r})"), HALF_MILLIMETRE)

    def test_keys_over_a_handle_move_it_by_numbers_and_turn_it(self) -> None:
        was = self.value("list(target('hand.L').matrix_world.translation)")
        self.window.move(self.handle("hand.L"))
        self.window.settle(2)
        for key in ("g", "z", "0", "period", "1", "Return"):
            self.window.key(key)
        self.wait_while("running() or underway()")
        now = self.value("list(target('hand.L').matrix_world.translation)")
        self.assertAlmostEqual(now[2] - was[2], 0.1, places=5)
        turned = self.value("list(target('hand.L').rotation_euler)")
        self.window.move(self.handle("hand.L"))
        self.window.settle(2)
        for key in ("r", "z", "3", "0", "Return"):
            self.window.key(key)
        self.wait_while("running() or underway()")
        self.assertNotEqual(self.value("list(target('hand.L').rotation_euler)"), turned)
        self.assertEqual(self.value("bpy.context.mode"), "POSE")

    def test_another_file_may_be_opened_while_a_handle_is_dragged(self) -> None:
        path = str(self.window.folder / "handles.blend")
        there = self.value("list(target('hand.L').location)")
        self.window.run(f"bpy.ops.wm.save_as_mainfile(filepath={path!r})")
        for prepare in ("", OBJECT_MODE):
            self.run_in_blender(prepare)
            self.drag_handle("hand.L", (-30.0, 40.0))
            self.window.run(f"bpy.ops.wm.open_mainfile(filepath={path!r})")
            self.window.settle(6)
            self.window.release()
            self.window.settle(4)
            self.run_in_blender(IN_VIEW)
            self.assertEqual(self.value("running()"), [])
            self.assertEqual(self.value("list(target('hand.L').location)"), there)
            self.drag_handle("hand.L", (-30.0, 40.0))  # and all goes on as before
            self.let_go_of_handle()
            self.assertLess(self.value("away('hand.L')"), HALF_MILLIMETRE)
            self.window.key("ctrl+z")
            self.window.settle()

    def test_of_two_characters_the_active_one_has_handles_and_the_other_stays(self) -> None:
        self.run_in_blender(OBJECT_MODE + TWO)
        names = {"metarig": "other", "other": "metarig"}
        for name, another in names.items():
            self.run_in_blender(f"make_active({name!r})")
            self.window.settle(4)
            before = self.value(f"[bits_of({another!r}), places_of({another!r})]")
            own = self.value(f"list(target_of({name!r}).matrix_world.translation)")
            x, y = self.value(f"pixel(target_of({name!r}).matrix_world.translation)")
            # There is no handle where the other one has its hand.
            hand = f"pixel(target_of({another!r}).matrix_world.translation)"
            self.assertEqual(self.value(f"handle_at({hand})"), -1)
            self.window.move((x, y))
            self.window.settle(2)
            self.window.press()
            self.window.drag((x, y), (x - 25.0, y + 30.0))
            self.window.settle()
            self.assertIn("POISE_OT_move_handle", self.value("running()"))
            self.let_go_of_handle()
            now = self.value(f"list(target_of({name!r}).matrix_world.translation)")
            self.assertGreater(distance(now, own), 0.05)
            self.assertEqual(self.value(f"[bits_of({another!r}), places_of({another!r})]"), before)

    def test_a_redraw_draws_what_is_there_and_fills_no_buffers(self) -> None:
        state = f"sys.modules['{MODULE}.ui.overlay']._drawing"
        self.run_in_blender(f"area.tag_redraw()\nfilled = ({state}.inked, list({state}.seen.values())[0])")
        same = f"[{state}.inked is filled[0], list({state}.seen.values())[0] is filled[1]]"
        for _ in range(3):
            self.run_in_blender("area.tag_redraw()")
        self.assertEqual(self.value(same), [True, True])
        # Another view moves points and labels; colours, lines and words are what they were.
        self.run_in_blender("view.view_distance = 3.5")
        self.assertEqual(self.value(same), [True, False])
        self.run_in_blender("target('hand.L').location.z += 0.05")
        self.assertEqual(self.value(same), [False, False])


if __name__ == "__main__":
    unittest.main()
