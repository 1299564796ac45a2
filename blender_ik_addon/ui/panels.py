# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; a panel that is drawn has a region and a scene.
# pyright: reportOptionalMemberAccess=false
"""The sidebar tab Poise in the 3D viewport, and the live button in its header."""

import textwrap
from typing import TYPE_CHECKING, Any, Literal

import bpy
from bpy.types import Context, Object, Panel, Scene, UILayout, UIList, VIEW3D_HT_header

from ..core.problem.options import USED_BY
from ..scene import posing
from ..scene.effectors.effectors import label_of, lacks_target
from ..scene.kinds.kinds import KINDS, asked_of
from ..scene.live.handlers import live_armatures, problem_of
from ..scene.properties.effector_properties import FURTHER_BONES, POISE_PG_effector
from ..scene.properties.settings import POISE_PG_armature, method_settings, settings_of
from ..scene.reports import SETTLING, angle_text, in_a_row, length_text
from ..scene.rig.reports import MOST_SHOWN
from .acting import context_armature, require_armature
from .overlay import draw_switches, overlay_of
from .shown import shown_effector

CHARACTER_WIDTH = 6.5
"""About how wide a letter of Blender's interface is at scale 1 [pixel]; labels do not wrap by themselves."""

BESIDE_WORDS = 88.0
"""How much of the sidebar tabs, margins, a box and a sign take at scale 1 [pixel]."""

FEWEST_CHARACTERS = 12
"""How many letters a line has at least, however narrow the sidebar is: it is cut then."""

NARROW = 250.0
"""Width of the sidebar at scale 1 [pixel] below which the list has no amounts: names need the room."""

ERROR_WIDTH = 2.4
"""Width of the cell for a miss [widths of a button], so that names begin to be cut at the same length."""

UNKNOWN = "unknown"
"""What stands for an error that is not a number."""

Icon = Literal['NONE', 'BLANK1', 'ARMATURE_DATA', 'CHECKMARK', 'DOT', 'ERROR', 'INFO', 'TIME']


def fitting_characters(width: float, scale: float) -> int:
    """Give how many letters fit into a line of a sidebar of a width [pixel] at an interface scale [1]."""
    return max(FEWEST_CHARACTERS, int((width / scale - BESIDE_WORDS) / CHARACTER_WIDTH))


def draw_words(layout: UILayout, context: Context, text: str, icon: Icon = 'NONE') -> None:
    """Draw sentences as lines that fit the sidebar."""
    column = layout.column(align=True)
    fitting = fitting_characters(context.region.width, context.preferences.system.ui_scale)
    for line in textwrap.wrap(text, fitting):
        column.label(text=line, icon=icon)
        icon = 'BLANK1' if icon != 'NONE' else 'NONE'


def without_brackets(text: str) -> str:
    """Leave out what is in brackets: reasons, of which the list of effectors tells one at a time."""
    kept: list[str] = []
    depth = 0
    for letter in text:
        depth += letter == "("
        if not depth:
            kept.append(letter)
        depth -= letter == ")" and depth > 0
    return " ".join("".join(kept).split()).replace(" ,", ",").replace(" ;", ";").replace(" .", ".")


def draw_axes(
    layout: UILayout, effector: POISE_PG_effector, property_name: str, heading: str, axes: str = "XYZ"
) -> None:
    """Draw axes side by side; a vector by itself would be drawn one above the other."""
    row = layout.row(heading=heading, align=True)
    for index, axis in enumerate(axes):
        row.prop(effector, property_name, index=index, text=axis, toggle=True)


def errors_of(data: POISE_PG_armature, item: POISE_PG_effector) -> tuple[tuple[str, bool], ...]:
    """Give the errors of the last solve as the panel shows them, and whether they are misses."""
    if lacks_bone(item) or lacks_target(item):
        return ()  # what was measured is so no longer
    found: list[tuple[str, bool]] = []
    length, angle = KINDS[item.kind].tolerances(data.tolerance_position, data.tolerance_rotation)
    for error, tolerance, text_of in (
        (item.error_position, max(length, item.softness_position), length_text),
        (item.error_rotation, max(angle, item.softness_rotation), angle_text),
    ):
        if error >= 0.0:
            found.append((UNKNOWN if error >= MOST_SHOWN else text_of(error), error > tolerance))
    return tuple(found)


def draw_errors(row: UILayout, errors: tuple[tuple[str, bool], ...], narrow: bool) -> None:
    """Draw the miss of a line in red, or a tick: names need the room; all of it is told below the list."""
    missed = [text for text, is_miss in errors if is_miss]
    if errors and not missed:
        row.label(text="", icon='CHECKMARK')
    elif missed and narrow:
        cell = row.row(align=True)
        cell.alert = True
        cell.label(text="", icon='X')
    for text in missed[:1] if not narrow else ():
        cell = row.row(align=True)
        cell.alignment = 'RIGHT'
        cell.ui_units_x = ERROR_WIDTH
        cell.alert = True
        cell.label(text=text)


def lacks_bone(item: POISE_PG_effector) -> bool:
    """Whether the bone of an effector is not chosen, or is there no longer under this name."""
    armature: Any = item.id_data
    return item.bone not in armature.data.bones


def state_of(armature: Object) -> tuple[str, Icon]:
    """Give what the panel says below its buttons, and with which sign; no text for nothing."""
    settings = settings_of(armature)
    if settings.live and (problem := problem_of(armature)):
        return f"Live waits: {problem}", 'ERROR'
    lacking = [
        f"{label_of(entry, index)} has no {'bone' if lacks_bone(entry) else 'target'}"
        for index, entry in enumerate(settings.effectors)
        if entry.enabled and (lacks_bone(entry) or lacks_target(entry))
    ]
    if lacking:
        return f"{in_a_row(lacking)}: choose one, or disable the effector", 'ERROR'
    if settings.last_message.startswith(SETTLING):
        return settings.last_message, 'TIME'
    return without_brackets(settings.last_message), 'CHECKMARK' if settings.last_reached else 'ERROR'


class POISE_UL_effectors(UIList):
    """One effector a line: kind, name and priority, then what it misses, and whether it is used."""

    def draw_item(
        self,
        context: Context,
        layout: UILayout,
        data: POISE_PG_armature,
        item: POISE_PG_effector,
        icon: int,
        active_data: Scene,
        active_property: str,
    ) -> None:
        """Draw one line; what is incomplete has a warning sign."""
        row = layout.row(align=True)
        row.active = item.enabled
        narrow = context.region.width / context.preferences.system.ui_scale < NARROW
        if lacks_bone(item) or lacks_target(item):
            row.label(text="", icon='ERROR')
        elif not narrow:
            row.label(text="", icon_value=UILayout.enum_item_icon(item, "kind", item.kind))
        row.prop(item, "name", text="", emboss=False)
        if item.pinned and KINDS[item.kind].pinnable:
            row.label(text="", icon='PINNED')
        if item.taken and KINDS[item.kind].several:
            row.label(text=item.taken)
        draw_errors(row, errors_of(data, item), narrow)
        level = row.row(align=True)
        level.alignment = 'RIGHT'
        level.ui_units_x = 0.9
        level.label(text=str(item.priority))
        row.prop(item, "enabled", text="")


def fields_of(layout: UILayout) -> UILayout:
    """Return a column of fields, each with its name to the left and no dot for keys."""
    column = layout.column()
    column.use_property_split = True
    column.use_property_decorate = False
    return column


def draw_choices(layout: UILayout, effector: POISE_PG_effector) -> None:
    """Draw the targets of an effector one below the other, with buttons to add and remove them."""
    column = layout.column(align=True)
    for number, entry in enumerate([effector, *effector.others]):
        row = column.row(align=True)
        row.prop(entry, "target", text="Target" if number == 0 else "or")
        if len(effector.others):
            row.operator("poise.remove_choice", text="", icon='REMOVE').number = number
        if entry.target and entry.target.type == 'ARMATURE':
            column.prop_search(entry, "target_bone", entry.target.data, "bones")
    column.operator("poise.add_choice", text="Add Target", icon='ADD')
    if effector.taken:
        layout.label(text=f"Took {effector.taken}", icon='CHECKMARK')


class _SidebarPanel(Panel):
    """Where the panels are; not registered itself."""

    bl_space_type = 'VIEW_3D'
    bl_region_type = 'UI'
    bl_category = "Poise"

    if TYPE_CHECKING:
        layout: UILayout


class POISE_PT_main(_SidebarPanel):
    """Buttons and the last report."""

    bl_label = "Poise"

    def draw(self, context: Context) -> None:
        """Draw the buttons, and the report of the last solve or bake."""
        layout = self.layout
        armature = context_armature(context)
        if armature is None:
            draw_words(layout, context, "Click the armature of a character to select it.", 'ARMATURE_DATA')
            return
        settings = settings_of(armature)
        layout.label(text=armature.name, icon='ARMATURE_DATA')
        row = layout.row()
        row.scale_y = 1.0 if settings.effectors else 1.5
        row.operator("poise.setup_character", icon='OUTLINER_OB_ARMATURE')
        column = layout.column(align=True)
        row = column.row(align=True)
        row.scale_y = 1.5
        text = "Live is On" if settings.live else "Live"
        row.operator("poise.live", text=text, icon='REC', depress=settings.live)
        row = column.row(align=True)
        row.scale_y = 1.5
        row.operator("poise.solve_pose", text="Solve", icon='CON_KINEMATIC')
        row.operator("poise.bake", icon='KEY_HLT')
        row = column.row(align=True)
        row.operator("poise.drag", icon='VIEW_PAN')
        row.operator("poise.key_pose", icon='KEYINGSET')
        text, icon = state_of(armature)
        if text:
            draw_words(layout.box(), context, text, icon)


class _ArmaturePanel(_SidebarPanel):
    """A part of the main panel that is only there with an armature; not registered itself."""

    bl_parent_id = "POISE_PT_main"

    @classmethod
    def poll(cls, context: Context) -> bool:
        """Show the panel if there is an armature."""
        return context_armature(context) is not None


class POISE_PT_effectors(_ArmaturePanel):
    """The list of effectors, and the fields of the active one."""

    bl_label = "Effectors"

    def draw(self, context: Context) -> None:
        """Draw the list with its buttons, then the active effector."""
        layout = self.layout
        armature = require_armature(context)
        settings = settings_of(armature)
        row = layout.row()
        row.template_list(
            "POISE_UL_effectors", "", settings, "effectors", context.scene, "poise_shown", rows=6
        )
        buttons = row.column(align=True)
        buttons.operator("poise.add_effector", text="", icon='ADD')
        buttons.operator("poise.remove_effector", text="", icon='REMOVE')
        buttons.separator()
        buttons.operator("poise.move_effector", text="", icon='TRIA_UP').direction = 'UP'
        buttons.operator("poise.move_effector", text="", icon='TRIA_DOWN').direction = 'DOWN'
        buttons.separator()
        buttons.operator("poise.select_target", text="", icon='RESTRICT_SELECT_OFF')
        if any(map(lacks_target, settings.effectors)):
            layout.operator("poise.make_targets", icon='EMPTY_AXIS')
        moving = context.active_object == armature and armature.mode == 'OBJECT'
        if moving and posing.staying_behind(armature):
            layout.operator("poise.attach_targets", icon='LINKED')
        if not settings.effectors:
            text = "Press Set Up Character, or select bones in Pose Mode and press +."
            draw_words(layout, context, text, 'INFO')
        elif (shown := shown_effector(context, armature)) < len(settings.effectors):
            effector = settings.effectors[shown]
            if errors := errors_of(settings, effector):
                far = any(missed for _, missed in errors) or effector.kind == 'STAY'
                off = f"{', '.join(text for text, _ in errors)} off" if far else "on target"
                words = ": ".join(part for part in (effector.name, off, effector.why) if part)
                draw_words(layout.box(), context, words, 'INFO')
            self.draw_effector(layout, armature, effector)

    def draw_effector(self, layout: UILayout, armature: Object, effector: POISE_PG_effector) -> None:
        """Draw the fields that this kind of effector has."""
        column = fields_of(layout)
        kind = column.row()
        kind.use_property_split = False
        kind.prop(effector, "kind", text="")  # its names are long: they get the whole width
        column.prop_search(effector, "bone", armature.data, "bones")
        self.draw_target(column, armature, effector)
        column.prop(effector, "priority")
        row = column.row()
        row.use_property_decorate = True
        row.prop(effector, "influence")
        if KINDS[effector.kind].pinnable:
            icon = 'PINNED' if effector.pinned else 'UNPINNED'
            layout.operator("poise.pin", text="Unpin" if effector.pinned else "Pin", icon=icon)
        header, body = layout.panel("POISE_effector_more", default_closed=True)
        header.label(text="More")
        if body is not None:
            self.draw_more(body, effector)

    def draw_more(self, layout: UILayout, effector: POISE_PG_effector) -> None:
        """Draw the fields that are seldom changed."""
        kind, column = asked_of(effector), fields_of(layout)
        column.prop(effector, "weight")
        if kind.placed:
            column.prop(effector, "softness_position")
        if kind.turned:
            column.prop(effector, "softness_rotation")
        for name in kind.more:
            if name in kind.headings:
                draw_axes(column, effector, name, kind.headings[name], "XY" if kind.weighs else "XYZ")
            else:
                column.prop(effector, name)
        if KINDS[effector.kind].supports:
            column.prop(effector, "is_support")

    def draw_target(self, column: UILayout, armature: Object, effector: POISE_PG_effector) -> None:
        """Draw what the effector goes by, and the fields of its kind alone."""
        kind, own = asked_of(effector), KINDS[effector.kind]
        if own.several:
            column.prop(effector, "choice")
            draw_choices(column, effector)
        elif own.target_use(effector) != 'NONE':
            column.prop(effector, "target")
            if effector.target and effector.target.type == 'ARMATURE':
                column.prop_search(effector, "target_bone", effector.target.data, "bones")
        for name in kind.fields:
            if name == kind.length_property:
                if name == own.length_property:  # of several targets none is at a height
                    row = column.row()
                    row.use_property_decorate = True
                    row.prop(effector, name)
            elif name in FURTHER_BONES:
                column.prop_search(effector, name, armature.data, "bones")
            elif name != "other_point" or effector.other_bone:
                column.prop(effector, name)
        if effector.kind == 'STAY':
            column.operator("poise.store_pose", icon='POSE_HLT')


class POISE_PT_solver(_ArmaturePanel):
    """Settings of the solver."""

    bl_label = "Solver"
    bl_order = 3
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw the method with its own settings, iterations, tolerances and smoothness."""
        layout = fields_of(self.layout)
        settings = settings_of(require_armature(context))
        layout.prop(settings, "method")
        if names := method_settings(settings.method):
            column = layout.column(align=True)
            for name in names:
                column.prop(settings, name)
        layout.prop(settings, "iterations")
        column = layout.column(align=True)
        column.prop(settings, "tolerance_position", text="Tolerance")
        column.prop(settings, "tolerance_rotation", text="Angle")
        if settings.method in USED_BY["smoothness"]:
            layout.prop(settings, "smoothness")
        layout.prop(settings, "move_root")


class POISE_PT_bake(_ArmaturePanel):
    """Frames of a bake, and the report of the last one."""

    bl_label = "Bake Range"
    bl_order = 4
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw the frame range, the scene's where it is used, the pop angle, and the last bake's report."""
        layout = fields_of(self.layout)
        settings = settings_of(require_armature(context))
        layout.prop(settings, "use_scene_range")
        column = layout.column(align=True)
        if settings.use_scene_range:
            column.active = False
            column.prop(context.scene, "frame_start", text="Frame Start")
            column.prop(context.scene, "frame_end", text="End")
        else:
            column.prop(settings, "bake_start", text="Frame Start")
            column.prop(settings, "bake_end", text="End")
        layout.prop(settings, "pop_angle")
        if settings.last_bake:
            draw_words(layout.box(), context, f"Last bake: {settings.last_bake}", 'INFO')


class POISE_PT_diagnosis(_ArmaturePanel):
    """Diagnosis of the present pose."""

    bl_label = "Diagnosis"
    bl_order = 5
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw the button, and each sentence of the last diagnosis with a sign of its own."""
        layout = self.layout
        layout.operator("poise.diagnose", icon='VIEWZOOM')
        diagnosis = settings_of(require_armature(context)).diagnosis
        if diagnosis:
            box = layout.box()
            for line in diagnosis.split("\n"):
                draw_words(box, context, line, 'DOT')


class POISE_PT_marks(_ArmaturePanel):
    """What is drawn over the figure, as in the popover of the viewport's overlays."""

    bl_label = "Overlay"
    bl_order = 6
    bl_options = {'DEFAULT_CLOSED'}

    def draw_header(self, context: Context) -> None:
        """Draw the switch for all."""
        self.layout.prop(overlay_of(context.scene), "show", text="")

    def draw(self, context: Context) -> None:
        """Draw one switch for each kind of mark."""
        draw_switches(self.layout, context.scene)


CLASSES = (
    POISE_UL_effectors,
    POISE_PT_main,
    POISE_PT_effectors,
    POISE_PT_solver,
    POISE_PT_bake,
    POISE_PT_diagnosis,
    POISE_PT_marks,
)

_register, _unregister = bpy.utils.register_classes_factory(CLASSES)


def draw_live(header: Any, context: Context) -> None:
    """Draw a button in the header that switches live mode off, or the names of other live armatures."""
    lives = list(live_armatures(context.view_layer))
    if not lives:
        return
    row = header.layout.row(align=True)
    row.alert = any(problem_of(armature) for armature in lives)
    icon = 'ERROR' if row.alert else 'REC'
    armature = context_armature(context)
    if armature is not None and settings_of(armature).live:
        row.operator("poise.live", text="Live", icon=icon, depress=True)
    else:
        row.label(text=f"Live: {', '.join(armature.name for armature in lives)}", icon=icon)


def register() -> None:
    """Add the panels, and the live button to the header of the viewport."""
    _register()
    VIEW3D_HT_header.append(draw_live)  # pyright: ignore[reportArgumentType]


def unregister() -> None:
    """Remove both."""
    VIEW3D_HT_header.remove(draw_live)  # pyright: ignore[reportArgumentType]
    _unregister()
