# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar, the pie menu and the extension itself, as somebody finds them who has just installed it."""

import tomllib
import unittest

from .figure import (
    DOWN_PIXELS,
    HALF_MILLIMETRE,
    MODULE,
    ROOT,
    SET_UP,
    SLIDING,
    InNewWindow,
    InWindow,
    button,
    distance,
)

LINE_PIXELS = 21.0
"""From one line of a list in the sidebar to the next [pixels]."""

FIRST_LINE_PIXELS = 11.0
"""From where its first button is found down to its first line [pixels]."""


HEADER_PIXELS = (26.0, 26.2)
"""From the first button of the list up to the header of its panel, and from there to the next [pixels]."""

BAKE, RECORDED = 1, 2
"""Numbers of the panels Bake, which is open, and Recorded Motion, counted from that of the list."""

NARROW_PIXELS = 190
"""Width of a sidebar in which buttons stand one below the other [pixels]."""


TOOLTIPS = """
from types import SimpleNamespace

def shortcut(operator, menu=''):
    # Its item in the keymap of the present mode, as the user has it.
    keymaps = bpy.context.window_manager.keyconfigs.user.keymaps
    items = keymaps['Pose' if bpy.context.mode == 'POSE' else 'Object Mode'].keymap_items
    return next(i for i in items if i.idname == operator and (not menu or i.properties.name == menu))

def pie():
    return shortcut('wm.call_menu_pie', 'POISE_MT_pie')

def keys_in_tooltips(before):
    # Operators whose tooltips name keys after some words, and these keys.
    operators, found = sys.modules[f'{MODULE}.ui.operators'], {}
    for cls in operators.CLASSES:
        if hasattr(cls, 'description') and callable(cls.description):
            with bpy.context.temp_override(**in_view):
                text = cls.description(bpy.context, SimpleNamespace(state='PIN', text='', frame=0.0))
            _, there, keys = text.partition(before)
            if there:
                found[cls.bl_idname] = keys
    return found
"""
"""What tooltips say of keys, and what the keymap has."""

IN_PIE = {"poise.solve_pose", "poise.key_pose", "poise.bake"}
"""Operators of the pie menu that have no key of their own."""


class Panel(InWindow):
    """Clicks on buttons, and keys."""

    def test_the_built_zip_is_what_runs_here(self) -> None:
        version = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))["version"]
        self.window.run(f"import sys, tomllib, pathlib\nours = sys.modules[{MODULE!r}]\n")
        self.assertTrue(self.value("ours.__file__").startswith(str(self.window.folder)))
        installed = (
            "tomllib.loads((pathlib.Path(ours.__file__).parent / 'blender_manifest.toml').read_text())"
        )
        self.assertEqual(self.value(f"{installed}['version']"), version)

    def test_a_click_sets_the_character_up_and_one_undo_takes_it_away(self) -> None:
        self.open_sidebar()
        self.click("poise.setup_character")
        effectors = self.value("[[e.name, e.bone, e.priority] for e in figure().poise.effectors]")
        self.assertEqual(
            {name: bone for name, bone, _level in effectors},
            {
                "hips": "spine",
                "chest": "spine.003",
                "foot.L": "foot.L",
                "foot.R": "foot.R",
                "hand.L": "hand.L",
                "hand.R": "hand.R",
                "head": "spine.006",
            },
        )
        levels = {name: level for name, _bone, level in effectors}
        self.assertLess(levels["foot.L"], levels["hand.L"])
        self.assertLess(levels["hand.L"], levels["head"])
        self.assertLess(self.value("max(away(e.name) for e in figure().poise.effectors)"), 1e-5)
        roles = self.value("[[r.bone, r.role] for r in figure().poise.roles]")
        self.assertIn(["spine", "HIPS"], [[bone, role.upper()] for bone, role in roles])
        self.assertGreater(len(roles), 20)
        self.window.move(tuple(self.value("on_bone('spine')")))
        self.window.key("ctrl+z")
        self.assertEqual(self.value("len(figure().poise.effectors)"), 0)
        self.assertEqual(self.value("[o.type for o in bpy.data.objects]"), ["ARMATURE"])

    def test_live_and_solve_by_click(self) -> None:
        self.run_in_blender(SET_UP)
        self.open_sidebar()
        self.run_in_blender("target('hand.R').location.z += 0.15")
        self.assertGreater(self.value("away('hand.R')"), 0.1)
        self.click("poise.solve_pose")
        self.assertLess(self.value("away('hand.R')"), 0.0005)
        self.click("poise.live")
        self.assertTrue(self.value("figure().poise.live"))
        self.run_in_blender("target('hand.R').location.z -= 0.1")
        self.assertLess(self.value("away('hand.R')"), 0.0005)

    def test_a_job_that_is_refused_on_its_way_is_told_without_a_traceback(self) -> None:
        """That the test ends without one is seen in `tearDown`; what is wrong stands in the status bar."""
        self.run_in_blender(
            SLIDING + SET_UP + "for entry in figure().poise.effectors:\n    entry.state = 'OFF'"
        )
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.ops.object.mode_set(mode='OBJECT')\n"
            "    bpy.ops.poise.targets_from_animation('INVOKE_DEFAULT')"
        )
        self.wait_while("running()")
        self.assertEqual(self.value("running()"), [])

    def test_a_target_that_is_clicked_has_its_effector_chosen(self) -> None:
        self.run_in_blender(SET_UP)
        self.open_sidebar()
        self.run_in_blender("take('hips')")
        shown = "figure().poise.effectors[bpy.context.scene.poise_shown].name"
        active = "bpy.context.active_object.name"
        selected = "[o.name for o in bpy.context.selected_objects]"
        self.assertEqual(self.value(shown), "hips")
        # In the viewport, by the mouse; the bones must not be nearer to it.
        self.run_in_blender("target('hand.R').location.x -= 0.25")
        self.window.click(tuple(self.value("outline('hand.R')")))
        self.assertEqual(self.value(active), self.value("target('hand.R').name"))
        self.assertEqual(self.value(shown), "hand.R")
        # In the list, by the mouse: its lines are beside the buttons, from the first one down.
        x, y = button(self.window, "poise.add_effector", parts=(0.87,))
        line = self.value("figure().poise.effectors.find('foot.L')")
        self.window.click((x - 100.0, y - FIRST_LINE_PIXELS - LINE_PIXELS * line))
        self.assertEqual(self.value(shown), "foot.L")
        self.assertEqual(self.value(selected), [self.value("target('foot.L').name")])
        # From Pose Mode, by the button.
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.context.view_layer.objects.active = figure()\n"
            "    bpy.ops.object.mode_set(mode='POSE')\n"
            "bpy.context.scene.poise_shown = figure().poise.effectors.find('head')\n"
        )
        self.window.click(button(self.window, "poise.select_target", parts=(0.87,)))
        self.assertEqual(self.value("bpy.context.mode"), "OBJECT")
        self.assertEqual(self.value(selected), [self.value("target('head').name")])
        self.assertEqual(self.value(shown), "head")

    def test_the_name_of_a_preset_is_typed_at_once(self) -> None:
        self.run_in_blender(SET_UP)
        self.window.move(self.value("on_bone('spine.003')"))
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.save_preset('INVOKE_DEFAULT')"
        )
        self.window.settle(8)
        for key in ("h", "e", "r", "o", "Return", "Return"):
            self.window.key(key)
        self.assertEqual(self.value("sys.modules[f'{MODULE}.scene.posing'].preset_names()"), ["hero"])

    def test_one_click_keys_a_pose_of_the_targets(self) -> None:
        self.run_in_blender(SET_UP)
        self.open_sidebar()
        self.run_in_blender("target('hand.R').location.z -= 0.2\ntarget('hips').location.z -= 0.1")
        self.click("poise.key_targets")
        keyed = "[e.name for e in figure().poise.effectors if e.target.animation_data]"
        names = self.value("[e.name for e in figure().poise.effectors]")
        self.assertEqual(self.value(keyed), names)

    def test_one_click_releases_a_limb_without_a_jump_and_one_lets_it_reach_again(self) -> None:
        self.run_in_blender(SET_UP)
        self.open_sidebar()
        self.click("poise.live")
        self.run_in_blender("take('hand.L')")
        places = "{b.name: list(posed().matrix_world @ b.tail) for b in posed().pose.bones}"
        entry = "figure().poise.effectors['hand.L']"
        state = f"{entry}.state if {entry}.enabled else 'OFF'"
        before = self.value(places)
        self.click_state("OFF")
        self.wait_while("underway()")
        self.assertEqual(self.value(state), "OFF")
        after = self.value(places)
        self.assertLess(max(distance(before[name], after[name]) for name in before), HALF_MILLIMETRE)
        # Released, the hand goes along with the hips, away from where its target was.
        self.run_in_blender("target('hips').location.z -= 0.25")
        self.wait_while("underway()")
        before = self.value(places)
        self.assertGreater(distance(before["hand.L"], after["hand.L"]), 0.1)
        self.click_state("REACH")
        self.wait_while("underway()")
        self.assertEqual(self.value(state), "REACH")
        self.assertLess(self.value("away('hand.L')"), HALF_MILLIMETRE)

    def test_one_click_snaps_all_targets_to_their_bones(self) -> None:
        self.run_in_blender(SET_UP)
        self.open_sidebar()
        self.run_in_blender(
            "arm = figure().pose.bones['upper_arm.R']\n"
            "arm.rotation_mode = 'XYZ'\n"
            "arm.rotation_euler = (0.6, 0.0, 0.3)\n"
        )
        self.assertGreater(self.value("away('hand.R')"), 0.1)
        before = self.value("place('hand.R')")
        self.click("poise.snap_targets")
        self.assertLess(self.value("max(away(e.name) for e in figure().poise.effectors)"), HALF_MILLIMETRE)
        self.assertLess(distance(self.value("place('hand.R')"), before), 1e-6)

    def test_a_pie_opens_at_the_mouse_and_pins(self) -> None:
        self.run_in_blender(SET_UP + "select_bones('hand.L', 'foot.R')")
        x, y = self.value("on_bone('spine')")
        self.window.move((x, y))
        self.window.key("v", how="keydown")
        self.window.drag((x, y), (x - 120.0, y), steps=4)
        self.window.settle(6)
        self.window.key("v", how="keyup")
        self.window.settle(6)
        pinned = "[e.name for e in figure().poise.effectors if e.pinned]"
        self.assertEqual(self.value(pinned), ["foot.L", "foot.R", "hand.L"])

    def test_shortcuts_are_in_the_keymap_and_go_with_the_extension(self) -> None:
        ours = (
            "[[m.name, k.idname] for m in bpy.context.window_manager.keyconfigs.addon.keymaps "
            "for k in m.keymap_items if k.idname.startswith('poise.') or "
            "(k.idname == 'wm.call_menu_pie' and k.properties.name.startswith('POISE_'))]"
        )
        tool = ["3D View Tool: Pose, Drag with Body"]  # this keymap is Blender's of our tool
        found = [entry for entry in self.value(ours) if entry[0] not in tool]
        self.assertEqual(len(found), 9)
        self.run_in_blender(f"bpy.ops.preferences.addon_disable(module={MODULE!r})")
        self.assertEqual([entry for entry in self.value(ours) if entry[0] not in tool], [])
        self.run_in_blender(f"bpy.ops.preferences.addon_enable(module={MODULE!r})")
        self.assertEqual([entry for entry in self.value(ours) if entry[0] not in tool], found)

    def test_tooltips_name_the_keys_that_the_keymap_has(self) -> None:
        self.run_in_blender(SET_UP + TOOLTIPS)
        for prepare in ("", "with bpy.context.temp_override(**in_view):\n    bpy.ops.object.mode_set()"):
            self.run_in_blender(prepare)
            pie, state = self.value("[pie().to_string(), shortcut('poise.set_state').to_string()]")
            self.assertEqual(self.value("keys_in_tooltips('Pie menu: ')"), dict.fromkeys(IN_PIE, pie))
            self.assertEqual(self.value("keys_in_tooltips('Next state: ')"), {"poise.set_state": state})
            # They go along with what the user changes, and are gone with what he switches off.
            self.run_in_blender("pie().type = 'B'")
            now = self.value("[pie().to_string(), keys_in_tooltips('Pie menu: ')]")
            self.assertNotEqual(now[0], pie)
            self.assertEqual(now[1], dict.fromkeys(IN_PIE, now[0]))
            self.run_in_blender("pie().active = False")
            self.assertEqual(self.value("keys_in_tooltips('Pie menu: ')"), {})
            self.run_in_blender("pie().type, pie().active = 'V', True")


class RecordedMotion(InNewWindow):
    """Clicks in a part of the panel that is closed at first."""

    def open_recorded(self) -> tuple[list[tuple[float, float]], int]:
        """Open what is about recorded motion, and close list and bake; return headers and clicks."""
        self.open_sidebar()
        x, y = button(self.window, "poise.add_effector", parts=(0.87,))
        first, others = HEADER_PIXELS
        headers = [(x - 150.0, y + first - n * others) for n in (0, BAKE, RECORDED)]
        for place in headers:
            self.window.click(place)
            self.window.settle(40)
        return headers, len(headers)

    def test_in_a_narrow_sidebar_each_button_has_a_row(self) -> None:
        self.open_recorded()
        pair = ("poise.find_contacts", "poise.lock_contacts")
        rows = [button(self.window, operator)[1] for operator in pair]
        self.assertEqual(*rows)
        x, y, width, height = self.value("[sidebar.x, sidebar.y, sidebar.width, sidebar.height]")
        self.window.move((x, y + height / 2))
        self.window.press()
        self.window.drag((x, y + height / 2), (x + width - NARROW_PIXELS, y + height / 2))
        self.window.release()
        self.window.settle()
        self.assertLess(self.value("sidebar.width"), width)
        self.scroll_sidebar(DOWN_PIXELS)
        rows = [button(self.window, operator)[1] for operator in pair]
        self.assertGreater(*rows)

    def test_feet_that_slide_are_locked_in_few_clicks(self) -> None:
        self.run_in_blender(SLIDING)
        before = self.value("feet('foot.R')")
        self.assertGreater(distance(before[0], before[-1]), 0.09)
        lifted = self.value("feet('foot.L')[12]")
        (_header, bake, _recorded), clicks = self.open_recorded()
        for operator in ("poise.targets_from_animation", "poise.lock_contacts"):
            self.click(operator)
            self.window.settle()
            self.wait_while("running()")
            clicks += 1
        self.window.click(bake)
        self.window.settle(40)
        self.click("poise.bake")
        self.window.settle()
        self.wait_while("running()")
        clicks += 2
        self.assertLessEqual(clicks, 8)
        after = self.value("feet('foot.R')")
        self.assertLess(max(distance(place, after[0]) for place in after), 0.001)
        self.assertLess(distance(self.value("feet('foot.L')[12]"), lifted), 0.06)
        # The clip is kept: one undo takes the bake away, and the targets stay.
        self.assertEqual(self.value("figure().poise.recording.name"), "metarig Recording")
        self.window.move(tuple(self.value("on_bone('spine')")))
        self.window.key("ctrl+z")
        self.assertGreater(distance(*self.value("[feet('foot.R')[0], feet('foot.R')[-1]]")), 0.09)
        self.assertGreater(self.value("len(figure().poise.effectors)"), 0)


if __name__ == "__main__":
    unittest.main()
