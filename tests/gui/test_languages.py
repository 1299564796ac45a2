# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface in German, in a Blender that has its own translations; the bpy modules have none."""

from .figure import SET_UP, InWindow

SOLVE = "with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.solve_pose()"

READ = """
translations, view = bpy.app.translations, bpy.context.preferences.view
ours = sys.modules[MODULE + ".scene.translations"]
messages = sys.modules[MODULE + ".core.messages"]

def speak(language):
    view.language = language
    view.use_translate_interface = view.use_translate_tooltips = view.use_translate_reports = True

def button(text):
    return translations.pgettext_iface(text, "Operator")
"""


class Languages(InWindow):
    """What Blender looks up, and what the add-on puts together."""

    def setUp(self) -> None:
        super().setUp()
        self.run_in_blender(READ)
        self.assertIn(
            "de_DE",
            self.value("list(translations.locales)"),
            "this Blender has no translations of its own: install them (datafiles/locale)",
        )

    def tearDown(self) -> None:
        self.run_in_blender("speak('en_US')")
        super().tearDown()

    def test_labels_tooltips_and_messages_are_german_where_blender_is(self) -> None:
        self.run_in_blender(SET_UP)
        self.run_in_blender("speak('de_DE')")
        self.assertEqual(self.value("button('Set Up Character')"), "Figur einrichten")
        self.assertEqual(self.value("translations.pgettext_iface('FK Moves Targets')"), "FK bewegt Ziele")
        tooltip = "Keep solving while targets move"
        self.assertEqual(
            self.value(f"translations.pgettext_tip({tooltip!r})"), "Weiter lösen, solange sich Ziele bewegen"
        )
        self.run_in_blender(SOLVE)
        self.assertIn("Ziele sind erreicht", self.value("figure().poise.last_message"))
        self.run_in_blender("speak('en_US')")
        self.assertEqual(self.value("button('Set Up Character')"), "Set Up Character")
        self.run_in_blender(SOLVE)
        self.assertIn("targets are reached", self.value("figure().poise.last_message"))

    def test_a_button_is_clicked_in_german_too(self) -> None:
        self.run_in_blender(SET_UP)
        self.run_in_blender("speak('de_DE')")
        self.open_sidebar()
        self.run_in_blender("target('hand.R').location.z += 0.15")
        self.click("poise.solve_pose")
        self.assertLess(self.value("away('hand.R')"), 0.0005)

    def test_nothing_is_left_when_the_add_on_is_gone(self) -> None:
        self.run_in_blender("speak('de_DE')")
        self.run_in_blender("ours.unregister()")
        try:
            self.assertEqual(self.value("button('Set Up Character')"), "Set Up Character")
        finally:
            self.run_in_blender("ours.register()")
        self.assertEqual(self.value("button('Set Up Character')"), "Figur einrichten")
