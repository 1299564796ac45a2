# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar tab Poise in the 3D viewport, the live button in its header, and the pie menu at the mouse."""

import re
import textwrap
from typing import Any, Final, Literal, cast

import bpy
from bl_operators.presets import AddPresetBase
from bl_ui.utils import PresetPanel
from bpy.types import Context, Menu, Object, Operator, Panel, UILayout, UIList, VIEW3D_HT_header

from ..core.amounts import angle_text, number_of_bones
from ..core.messages import Joined, Message, counted, in_a_row
from ..core.problem.options import USED_BY
from ..scene import posing
from ..scene.effectors.effectors import label_of, lacks_target, possible_states, present_state
from ..scene.effectors.feet import is_rolling
from ..scene.kinds.kinds import KINDS, asked_of
from ..scene.live.handlers import live_armatures, problem_of
from ..scene.properties.settings import (
    FOOT_POINTS,
    FURTHER_BONES,
    STATE_ITEMS,
    POISE_PG_armature,
    POISE_PG_effector,
    method_settings,
    settings_of,
)
from ..scene.rig.reports import MOST_SHOWN, SETTLING
from ..scene.translations import in_all_languages, translated
from ..scene.units import length_text, litres
from .acting import active_bone, context_armature, flag, require_armature, shown_entry
from .operators import draw_bake_options
from .overlay import draw_switches, overlay_of

CHARACTER_WIDTH = 6.5
"""About how wide a letter of Blender's interface is at scale 1 [pixel]; labels do not wrap by themselves."""
BESIDE_WORDS = 88.0
"""How much of the sidebar tabs, margins, a box and a sign take at scale 1 [pixel]."""
FEWEST_CHARACTERS = 12
"""How many letters a line has at least, however narrow the sidebar is: it is cut then."""
NARROW = 250.0
"""Width of the sidebar at scale 1 [pixel] below which buttons stand one below the other, fields have their
names inside, and a line of a list has the name alone: names need the room."""
MESSAGE_LINES = 3
"""Lines of the box for the last report: nothing below moves when another one is longer."""
REASON_LINES = 2
"""Lines of the box for the active effector, likewise."""
NARROW_LINES = 2
"""Further lines of both where the sidebar is narrow."""
PRIORITY_WIDTH = 1.8
"""Width of the cell for a priority [widths of a button]."""
ERROR_WIDTH = 2.8
"""Width of the cell for a miss [widths of a button], so that names begin to be cut at the same length."""
START: Final = Message("Press Set Up Character, or select bones in Pose Mode and press +.")
NEXT: Final = Message("Move targets, then press Solve, or switch Live on.")
RECORDED: Final = Message("Targets follow the clip. Lock contacts or correct targets, then press Bake.")
"""What the box for reports says before there is one."""
UNSURE = 0.5
"""Confidence [1] below which a row of the table of roles has a warning sign."""
STATES: dict[str, Any] = {item[0]: item for item in STATE_ITEMS}
"""States of effectors, with their names and icons."""

Icon = Literal['NONE', 'BLANK1', 'ARMATURE_DATA', 'CHECKMARK', 'DOT', 'ERROR', 'INFO', 'TIME']


# What is said


def fitting_characters(width: float, scale: float) -> int:
    """How many letters fit into a line of a sidebar of a width [pixel] at an interface scale [1]."""
    return max(FEWEST_CHARACTERS, int((width / scale - BESIDE_WORDS) / CHARACTER_WIDTH))


def without_brackets(text: str) -> str:
    """A text without what is in brackets: reasons, of which the list of effectors shows one at a time."""
    while (shorter := re.sub(r"\([^()]*(\)|$)", "", text)) != text:
        text = shorter
    return re.sub(r" (?=[,;.])", "", " ".join(text.split()))


def lacks_bone(item: POISE_PG_effector) -> bool:
    """Whether the bone of an effector is not chosen, or is there no longer under this name."""
    armature: Any = item.id_data
    return item.bone not in armature.data.bones


def is_incomplete(item: POISE_PG_effector) -> bool:
    """Whether an effector lacks bone or target."""
    return lacks_bone(item) or lacks_target(item)


def errors_of(data: POISE_PG_armature, item: POISE_PG_effector) -> tuple[tuple[str, bool], ...]:
    """The errors of the last solve as the panel shows them, and whether they are misses."""
    if is_incomplete(item) or present_state(cast(Object, item.id_data), item) == 'FOLLOW':
        return ()  # what was measured is so no longer; what follows misses nothing
    length, angle = KINDS[item.kind].tolerances(data.tolerance_position, data.tolerance_rotation)
    length, angle = max(length, item.softness_position), max(angle, item.softness_rotation)
    rows = (
        (item.error_position, length + data.last_deviation, length_text),
        (item.error_rotation, angle + data.last_deviation_angle, angle_text),
    )
    return tuple(
        (Message("unknown") if error >= MOST_SHOWN else text_of(error), error > tolerance)
        for error, tolerance, text_of in rows
        if error >= 0.0
    )


def without_armature(active: Object | None) -> str:
    """What the panel says where no armature is active: how to come by one."""
    instanced = None if active is None else active.instance_collection
    is_linked = instanced is not None and instanced.library is not None
    if is_linked and any(obj.type == 'ARMATURE' for obj in instanced.all_objects):
        return Message(
            "{name} is linked from another file: make a library override of it (Object > Library Override), "
            "then click its armature.",
            name=instanced.name,
        )
    return Message("Click the armature of a character to select it.")


def state_of(armature: Object) -> tuple[str, Icon]:
    """What the panel says below its buttons, and with which sign; no text for nothing."""
    settings = settings_of(armature)
    if settings.live and (problem := problem_of(armature)):
        return Message("Live waits: {problem}", problem=problem), 'ERROR'
    lacking = [
        Message("{effector} has no bone", effector=label_of(entry))
        if lacks_bone(entry)
        else Message("{effector} has no target", effector=label_of(entry))
        for entry in settings.effectors
        if entry.enabled and is_incomplete(entry)
    ]
    if lacking:
        return Message("{names}: choose one, or disable the effector", names=in_a_row(lacking)), 'ERROR'
    if settings.last_message.startswith(in_all_languages(SETTLING)):
        return settings.last_message, 'TIME'
    return without_brackets(settings.last_message), 'CHECKMARK' if settings.last_reached else 'ERROR'


# How it is drawn


def is_narrow(context: Context) -> bool:
    """Whether the sidebar is so narrow that names get the room of what is beside them."""
    return context.region.width / context.preferences.system.ui_scale < NARROW


def draw_words(layout: UILayout, context: Context, text: str, icon: Icon = 'NONE') -> None:
    """Draw sentences as lines that fit the sidebar."""
    column = layout.column(align=True)
    fitting = fitting_characters(context.region.width, context.preferences.system.ui_scale)
    for line in textwrap.wrap(translated(text), fitting):
        column.label(text=line, icon=icon, translate=False)
        icon = 'BLANK1' if icon != 'NONE' else 'NONE'


def draw_report(layout: UILayout, context: Context, text: str, icon: Icon, lines: int) -> None:
    """Draw a box of so many lines, whatever the text; its sign is a button that tells all of it."""
    lines += NARROW_LINES if is_narrow(context) else 0
    text = translated(text)
    row = layout.box().row(align=True)
    sign: Any = row.column().operator("poise.show_report", text="", icon=icon, emboss=False)
    sign.text = text
    column = row.column(align=True)
    fitting = fitting_characters(context.region.width, context.preferences.system.ui_scale)
    shown = textwrap.wrap(text, fitting, max_lines=lines, placeholder=" …")
    for line in (*shown, *[""] * (lines - len(shown))):
        column.label(text=line, translate=False)


def said_of(settings: POISE_PG_armature, effector: POISE_PG_effector) -> str:
    """What an effector lacks, or by how much it was missed in the last solve, and why."""
    errors, owner = errors_of(settings, effector), cast(Object, effector.id_data)
    if errors:
        far = any(missed for _, missed in errors) or effector.kind == 'STAY'
        off = Message("on target")
        if far:
            amounts = [text for text, missed in errors if missed] or [text for text, _ in errors]
            off = Message("{amounts} off", amounts=Joined(", ", amounts))
    elif (state := present_state(owner, effector)) in {'FOLLOW', 'OFF'}:
        off = translated(Message(STATES[state][1])).lower()
    elif lacks_bone(effector):
        off = Message("no bone (renamed?): choose one")
    elif lacks_target(effector):
        off = Message("no target (deleted?): press Make Targets, or choose one")
    else:
        off = Message("not solved yet")
    return Joined(": ", [part for part in (effector.name, off, effector.why if errors else "") if part])


def draw_axes(
    layout: UILayout, effector: POISE_PG_effector, name: str, heading: str, axes: str = "XYZ"
) -> None:
    """Draw axes side by side; a vector by itself would be drawn one above the other."""
    row = layout.row(heading=heading, align=True)
    for index, axis in enumerate(axes):
        row.prop(effector, name, index=index, text=axis, toggle=True)


def draw_errors(row: UILayout, errors: tuple[tuple[str, bool], ...]) -> None:
    """Draw the miss of a line in red, or a tick: names need the room; all of it stands below the list."""
    missed = [text for text, is_miss in errors if is_miss]
    if missed:
        cell = row.row(align=True)
        cell.alert = True
        cell.alignment, cell.ui_units_x = 'RIGHT', ERROR_WIDTH
        cell.label(text=translated(missed[0]), translate=False)
    elif errors:
        row.label(text="", icon='CHECKMARK')


def draw_target(row: UILayout, below: UILayout, entry: Any, text: str = "Target") -> None:
    """Draw a target, and its bone where it is an armature."""
    row.prop(entry, "target", text=text)
    if entry.target and entry.target.type == 'ARMATURE':
        below.prop_search(entry, "target_bone", entry.target.data, "bones")


def draw_choices(layout: UILayout, effector: POISE_PG_effector) -> None:
    """Draw the targets of an effector one below the other, with buttons to add and remove them."""
    column = layout.column(align=True)
    for number, entry in enumerate([effector, *effector.others]):
        row = column.row(align=True)
        draw_target(row, column, entry, "Target" if number == 0 else "or")
        if len(effector.others):
            row.operator("poise.remove_choice", text="", icon='REMOVE').number = number
    column.operator("poise.add_choice", text="Add Target", icon='ADD')
    if effector.taken:
        taken = translated(Message("Took {target}", target=effector.taken))
        layout.label(text=taken, translate=False, icon='CHECKMARK')


def draw_state(layout: Any, state: str, index: int = -1, **looks: Any) -> None:
    """Draw a button that gives an effector, or what is selected, a state."""
    _, name, _, icon, _ = STATES[state]
    # As a message: Blender's own German of the button Pin is a dot.
    own = {"text": translated(Message(name)), "icon": icon, "translate": False}
    button = layout.operator("poise.set_state", **own | looks)
    button.state, button.index = state, index


def draw_states(layout: UILayout, context: Context, armature: Object, effector: POISE_PG_effector) -> None:
    """Draw a button for each state that the effector can have, the present one pressed."""
    looks = {"text": ""} if is_narrow(context) else {}
    row, now = layout.row(align=True), present_state(armature, effector)
    index = list(settings_of(armature).effectors).index(effector)
    for state in possible_states(effector):
        draw_state(row, state, index, depress=state == now, **looks)


def fields_of(layout: UILayout) -> UILayout:
    """A column of fields, with names to the left, or inside where the sidebar is narrow; no dots for keys."""
    column = layout.column()
    column.use_property_split = not is_narrow(bpy.context)
    column.use_property_decorate = False
    return column


def draw_active_bone(layout: UILayout, context: Context, entries: Any) -> tuple[str, Any, UILayout | None]:
    """Draw the name of the active bone; return it, its entry in a list, and the row. None for no bone."""
    name = active_bone(context)
    if not name:
        draw_words(layout, context, Message("Select a bone in Pose Mode."), 'INFO')
        return "", None, None
    row = layout.row(align=True)
    row.label(text=name, icon='BONE_DATA', translate=False)
    return name, next((entry for entry in entries if entry.name == name), None), row


def draw_animated(column: UILayout, effector: POISE_PG_effector, name: str, **looks: Any) -> None:
    """Draw a field with a dot for keys."""
    row = column.row()
    row.use_property_decorate = True
    row.prop(effector, name, **looks)


def side_by_side(layout: UILayout, context: Context, count: int = 2) -> UILayout:
    """A place for buttons, so many side by side, or one where the sidebar is narrow."""
    columns = 1 if is_narrow(context) else count
    return layout.grid_flow(columns=columns, even_columns=True, row_major=True, align=True)


class POISE_UL_effectors(UIList):
    """One effector a line: kind, name, what it misses, its priority to edit, and a button for its state."""

    def draw_item(
        self, context: Context, layout: Any, data: Any, item: Any, icon: int, owner: Any, name: str
    ) -> None:
        row = layout.row(align=True)
        row.active = item.enabled
        errors = errors_of(data, item)
        narrow = is_narrow(context)
        if is_incomplete(item):
            row.label(text="", icon='ERROR')
        elif narrow and any(missed for _, missed in errors):
            sign = row.row(align=True)
            sign.alert = True
            sign.label(text="", icon='X')
        else:
            row.label(text="", icon_value=UILayout.enum_item_icon(item, "kind", item.kind))
        row.prop(item, "name", text="", emboss=False)
        if not narrow:
            if item.taken and KINDS[item.kind].several:
                row.label(text=item.taken, translate=False)
            draw_errors(row, errors)
            level = row.row(align=True)
            level.ui_units_x = PRIORITY_WIDTH
            level.prop(item, "priority", text="", emboss=False)
        icon = STATES[present_state(item.id_data, item)][3]
        button = row.operator("poise.set_state", text="", icon=icon, emboss=False)
        button.state, button.index = 'NEXT', list(data.effectors).index(item)


class POISE_UL_roles(UIList):
    """One bone a line: what it is in the body, which bone, and how certain that is."""

    def draw_item(
        self, context: Context, layout: Any, data: Any, item: Any, icon: int, owner: Any, name: str
    ) -> None:
        row = layout.row(align=True)
        role = translated(Message(UILayout.enum_item_name(item, "role", item.role)))
        side = {'LEFT': " L", 'RIGHT': " R"}.get(item.side, "")
        number = f" ({item.figure + 1})" if item.figure else ""
        sure, sign = f"{100.0 * item.confidence:.0f} %", 'ERROR' if item.confidence < UNSURE else 'NONE'
        if is_narrow(context):
            row.label(text=item.bone, icon=sign, translate=False)
            return  # its role stands below the list
        words = row.row()
        words.ui_units_x = 5.0
        words.label(text=f"{role}{side}{number}", translate=False)
        row.label(text=item.bone, icon='BONE_DATA', translate=False)
        cell = row.row()
        cell.ui_units_x = 2.0
        cell.label(text=sure, icon=sign)


# Panels


class _SidebarPanel(Panel):
    """Where the panels are; not registered itself."""

    bl_space_type = 'VIEW_3D'
    bl_region_type = 'UI'
    bl_category = "Poise"


class POISE_PT_main(_SidebarPanel):
    """Buttons and the last report."""

    bl_label = "Poise"

    def draw(self, context: Context) -> None:
        layout: Any = self.layout
        armature = context_armature(context)
        if armature is None:
            draw_words(layout, context, without_armature(context.active_object), 'ARMATURE_DATA')
            return
        settings = settings_of(armature)
        layout.label(text=armature.name, icon='ARMATURE_DATA', translate=False)
        row = layout.row()
        row.scale_y = 1.0 if settings.effectors else 1.5
        row.operator("poise.setup_character", icon='OUTLINER_OB_ARMATURE')
        column = layout.column(align=True)
        row = column.row(align=True)
        row.scale_y = 1.5
        row.operator(
            "poise.live", text="Live is On" if settings.live else "Live", icon='REC', depress=settings.live
        )
        row = side_by_side(column, context)
        row.scale_y = 1.5
        row.operator("poise.solve_pose", text="Solve", icon='CON_KINEMATIC')
        row.operator("poise.drag", icon='VIEW_PAN')
        row = side_by_side(column, context)
        row.operator("poise.key_pose", icon='KEYINGSET')
        row.operator("poise.key_targets", icon='KEY_HLT')
        row.operator("poise.snap_targets", text="Snap to Bones", icon='SNAP_ON')
        row.operator("poise.natural", icon='OUTLINER_OB_ARMATURE')
        text, icon = state_of(armature)
        if not text:
            following = NEXT if settings.recording is None else RECORDED
            text, icon = (following if settings.effectors else START), 'INFO'
        draw_report(layout, context, text, icon, MESSAGE_LINES)


class _Part(_SidebarPanel):
    """A part of the main panel that is only there with an armature; not registered itself."""

    def __init_subclass__(
        cls, *, label: str, order: int, closed: bool = True, parent: str = "POISE_PT_main"
    ) -> None:
        """Parts stand in the order of work; most are closed at first."""
        cls.bl_label, cls.bl_order, cls.bl_parent_id = label, order, parent
        if closed:
            cls.bl_options = {'DEFAULT_CLOSED'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context_armature(context) is not None

    def draw(self, context: Context) -> None:
        armature, layout = require_armature(context), self.layout
        assert layout is not None
        self.show(context, layout, armature, settings_of(armature))

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        """Draw the part for an armature."""
        raise NotImplementedError


class POISE_PT_effectors(_Part, label="Effectors", order=0, closed=False):
    """The list of effectors, and the fields of the active one."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        row = layout.row()
        row.template_list(
            "POISE_UL_effectors", "", settings, "effectors", context.scene, "poise_shown", rows=7
        )
        buttons = row.column(align=True)
        buttons.operator("poise.add_effector", text="", icon='ADD')
        buttons.operator("poise.remove_effector", text="", icon='REMOVE')
        buttons.separator()
        buttons.operator("poise.move_effector", text="", icon='TRIA_UP').direction = 'UP'
        buttons.operator("poise.move_effector", text="", icon='TRIA_DOWN').direction = 'DOWN'
        buttons.separator()
        buttons.operator("poise.select_target", text="", icon='RESTRICT_SELECT_OFF')
        buttons.operator("poise.select_targets", text="", icon='SELECT_SET')
        effector = shown_entry(context, armature)
        if effector is not None:
            draw_states(layout, context, armature, effector)
            draw_report(layout, context, said_of(settings, effector), 'INFO', REASON_LINES)
        row = side_by_side(layout, context)
        if any(entry.part for entry in settings.effectors):
            bent = any(entry.kind == 'POLE' for entry in settings.effectors if entry.part)
            row.operator("poise.bend_limbs", text="Elbows, Knees", icon='CON_ARMATURE', depress=bent)
        if settings.effectors and all(entry.kind != 'FLOOR' for entry in settings.effectors):
            row.operator("poise.add_floor", icon='MESH_PLANE')
        if any(entry.is_support for entry in settings.effectors):
            rolls = any(map(is_rolling, settings.effectors))
            row.operator("poise.roll_feet", icon='MOD_SIMPLEDEFORM', depress=rolls)
        if effector is not None and is_rolling(effector):
            self.draw_foot(layout, effector)
        if any(map(lacks_target, settings.effectors)):
            layout.operator("poise.make_targets", icon='EMPTY_AXIS')
        moving = context.active_object == armature and armature.mode == 'OBJECT'
        if moving and posing.staying_behind(armature):
            layout.operator("poise.attach_targets", icon='LINKED')
        if effector is not None:
            header, body = layout.panel("POISE_effector", default_closed=True)
            kind = Message(KINDS[effector.kind].item[0])
            header.label(text=translated(Joined(": ", (effector.name, kind))), translate=False)
            if body is not None:
                self.draw_effector(body, armature, effector)

    def draw_foot(self, layout: UILayout, effector: POISE_PG_effector) -> None:
        """Draw how the foot of an effector is rolled."""
        column = fields_of(layout)
        for name in ("roll", "bank"):
            draw_animated(column, effector, name)
        pivots = column.column(align=True)
        for name, text in (("pivot_heel", "Pivot Heel"), ("pivot_ball", "Ball"), ("pivot_toe", "Toe")):
            draw_animated(pivots, effector, name, text=text)

    def draw_effector(self, layout: UILayout, armature: Object, effector: POISE_PG_effector) -> None:
        """Draw the fields that this kind of effector has."""
        column = fields_of(layout)
        kind = column.row()
        kind.use_property_split = False
        kind.prop(effector, "kind", text="")  # its names are long: they get the whole width
        column.prop_search(effector, "bone", armature.data, "bones")
        self.draw_own(column, armature, effector)
        column.prop(effector, "priority")
        draw_animated(column, effector, "influence")
        if effector.kind in {'POSITION', 'BOTH'}:
            keeps = effector.kind == 'BOTH'
            layout.operator("poise.keep_orientation", icon='ORIENTATION_GIMBAL', depress=keeps)
        if effector.state in {'FOLLOW', 'OFF'}:
            layout.operator("poise.natural", text="Let Hang", icon='SORT_ASC').which = 'ACTIVE'
        header, body = layout.panel("POISE_effector_more", default_closed=True)
        header.label(text="More")
        if body is not None:
            self.draw_more(body, effector)

    def draw_own(self, column: UILayout, armature: Object, effector: POISE_PG_effector) -> None:
        """Draw what the effector goes by, and the fields of its kind alone."""
        kind, own = asked_of(effector), KINDS[effector.kind]
        if own.several:
            column.prop(effector, "choice")
            draw_choices(column, effector)
        elif own.target_use(effector) != 'NONE':
            draw_target(column, column, effector)
        for name in kind.fields:
            if name == kind.length_property:
                if name == own.length_property:  # of several targets none is at a height
                    draw_animated(column, effector, name)
            elif name in FURTHER_BONES:
                column.prop_search(effector, name, armature.data, "bones")
            elif name != "other_point" or effector.other_bone:
                column.prop(effector, name)
        if effector.kind == 'STAY':
            column.operator("poise.store_pose", icon='POSE_HLT')

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
        if is_rolling(effector):
            armature: Any = effector.id_data
            column.prop_search(effector, "toe_bone", armature.data, "bones")
            for name in FOOT_POINTS:
                column.prop(effector, name)


class POISE_PT_character(_Part, label="Roles", order=5):
    """The table of roles, used by Set Up Character."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        if not settings.roles:
            layout.operator("poise.recognise_roles", icon='FILE_REFRESH')
            return
        row = layout.row()
        row.template_list("POISE_UL_roles", "", settings, "roles", settings, "active_role", rows=5)
        buttons = row.column(align=True)
        buttons.operator("poise.edit_roles", text="", icon='ADD').action = 'ADD'
        buttons.operator("poise.edit_roles", text="", icon='REMOVE').action = 'REMOVE'
        buttons.separator()
        buttons.operator("poise.recognise_roles", text="", icon='FILE_REFRESH')
        if settings.active_role < len(settings.roles):
            role = settings.roles[settings.active_role]
            column = fields_of(layout)
            column.prop(role, "role")
            column.prop(role, "side")
            column.prop_search(role, "bone", armature.data, "bones")
            if role.reason:
                draw_words(column, context, role.reason, 'INFO')


class POISE_PT_limits(_Part, label="Limits", order=6):
    """Limits, stiffness and preferred angles of the active bone."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        layout.row(align=True).operator("poise.read_limits", icon='IMPORT')
        name, entry, row = draw_active_bone(layout, context, settings.joints)
        if row is None:
            return
        layout.operator("poise.edit_limits", text="Prefer Pose").action = 'PREFER'
        action, text = ('OWN', "Edit") if entry is None else ('RIG', "From Rig")
        row.operator("poise.edit_limits", text=text).action = action
        if entry is None:
            return
        if entry.source:
            layout.label(text=translated(Message("From: {source}", source=entry.source)), translate=False)
        pose: Any = armature.pose
        if pose.bones[name].rotation_mode in {'QUATERNION', 'AXIS_ANGLE'}:
            layout.prop(entry, "order")
        for axis, letter in enumerate("XYZ"):
            box = layout.column(align=True)
            row = box.row(align=True)
            row.prop(entry, "use_limit", index=axis, text=letter, toggle=True)
            ends = row.row(align=True)
            ends.active = entry.use_limit[axis]
            ends.alert = entry.use_limit[axis] and entry.lower[axis] > entry.upper[axis]
            ends.prop(entry, "lower", index=axis, text="")
            ends.prop(entry, "upper", index=axis, text="")
            box.prop(entry, "stiffness", index=axis, text="Stiffness", slider=True)
            box.prop(entry, "preferred", index=axis, text="Preferred Angle")
        row = side_by_side(layout, context)
        row.prop(entry, "is_held")
        row.prop(entry, "may_move")


class POISE_PT_masses(_Part, label="Masses", order=0, parent="POISE_PT_advanced"):
    """Masses of the body and of the active bone, for effectors of the kind Balance."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        column = fields_of(layout)
        column.prop(settings, "mass_source")
        if settings.mass_source == 'MESHES':
            column.operator("poise.measure_meshes", icon='MESH_DATA')
            if settings.mesh_masses:
                bones = number_of_bones(len(settings.mesh_masses))
                measured = Message(
                    "{volume:.3g} litres, {bones}", volume=litres(settings.mesh_volume), bones=bones
                )
                column.label(text=translated(measured), icon='INFO', translate=False)
            else:
                column.label(text="Not measured yet: bones weigh by role", icon='ERROR')
        column.prop(settings, "body_mass")
        _, entry, row = draw_active_bone(layout, context, settings.masses)
        if row is None:
            return
        if entry is None:
            row.operator("poise.edit_masses", text="Edit").action = 'OWN'
        else:
            row.prop(entry, "mass", text="")
            row.operator("poise.edit_masses", text="", icon='X').action = 'REMOVE'


class POISE_PT_solver(_Part, label="Solver", order=2, parent="POISE_PT_advanced"):
    """Tolerances, iterations and smoothness, and last the method with its own settings."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        layout = fields_of(layout)
        layout.prop(settings, "move_root")
        layout.prop(settings, "fk_moves_targets")
        column = layout.column(align=True)
        column.prop(settings, "tolerance_position", text="Tolerance")
        column.prop(settings, "tolerance_rotation", text="Angle")
        layout.prop(settings, "iterations")
        if settings.method in USED_BY["smoothness"]:
            layout.prop(settings, "smoothness")
        layout.prop(settings, "method")
        column = layout.column(align=True)
        for name in method_settings(settings.method):
            column.prop(settings, name)


FRAMES_SHOWN: Final = 5
"""How many frames to look at have a button; all get markers."""

SUBFOLDER: Final = "poise/bake"
"""Where Blender keeps them, below its folder of presets."""

HIDDEN: Final = {'HIDDEN', 'SKIP_SAVE'}

LEFT_OUT: Final = frozenset({"bake_start", "bake_end"})
"""Options that belong to a shot."""

OPTIONS: Final = tuple(
    name for name in POISE_PG_armature.__annotations__ if name.startswith("bake_") and name not in LEFT_OUT
)
"""Settings that a preset holds."""


# Presets hold the settings from which the button, scripts and the command line take what is not given. The
# options of the operator are no part of them: these are forgotten after each bake, on purpose.


class POISE_PT_bake_presets(PresetPanel, Panel):
    """Presets of the options of a bake"""

    bl_label = "Bake Presets"
    preset_subdir = SUBFOLDER
    preset_operator = "script.execute_preset"
    preset_add_operator = "poise.add_bake_preset"


class POISE_OT_add_bake_preset(AddPresetBase, Operator):
    """Add the options of the bake as a preset, or remove one"""

    bl_idname = "poise.add_bake_preset"
    bl_label = "Add Bake Preset"
    # Blender declares both without a tooltip.
    remove_name: flag("Remove by Name", "Remove the preset of this name", default=False, options=HIDDEN)
    remove_active: flag("Remove Active", "Remove the preset that is shown", default=False, options=HIDDEN)
    preset_menu = "POISE_PT_bake_presets"
    preset_subdir = SUBFOLDER
    preset_defines = ("settings = bpy.context.object.poise",)
    preset_values = tuple(f"settings.{name}" for name in (*OPTIONS, "pop_angle", "smoothness"))


class POISE_PT_bake(_Part, label="Bake", order=1, closed=False):
    """Bake, its range, its options with presets, and the report of the last bake."""

    def draw_header_preset(self, context: Context) -> None:
        """Draw the button of the presets, where the active object is the one that has the settings."""
        active = context.active_object
        if active is not None and active.type == 'ARMATURE':
            POISE_PT_bake_presets.draw_panel_header(self.layout)

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        row = layout.row()
        row.scale_y = 1.5
        row.operator("poise.bake", icon='KEY_HLT')
        self.show_range(fields_of(layout), context, settings)
        header, options = layout.panel("POISE_bake_options", default_closed=True)
        header.label(text="Options")
        if options is not None:
            fields = fields_of(options)
            draw_bake_options(fields, settings, "bake_", "bake_name")
            fields.prop(settings, "pop_angle")
        if settings.last_bake:
            text = Message("Last bake: {report}", report=settings.last_bake)
            draw_report(layout, context, text, 'INFO', MESSAGE_LINES)
        found = posing.frames_to_look_at(armature)
        for frame, text in found[:FRAMES_SHOWN]:
            text = translated(Message("Frame {frame}: {what}", frame=frame, what=text))
            row = layout.operator("poise.show_frame", text=text, icon='TIME', translate=False)
            row.frame = frame
        more = len({frame for frame, _ in found[FRAMES_SHOWN:]})
        if more:
            text = counted(more, "and at {count} more frame", "and at {count} more frames")
            draw_words(layout, context, text, 'BLANK1')
        if found:
            layout.operator("poise.mark_frames", icon='MARKER_HLT')

    def show_range(self, layout: UILayout, context: Context, settings: POISE_PG_armature) -> None:
        """Draw which frames are baked."""
        layout.prop(settings, "bake_range")
        owner, names = {
            'SCENE': (context.scene, ("frame_start", "frame_end")),
            'PREVIEW': (context.scene, ("frame_preview_start", "frame_preview_end")),
            'CUSTOM': (settings, ("bake_start", "bake_end")),
        }.get(settings.bake_range, (None, ()))
        column = layout.column(align=True)
        column.active = settings.bake_range == 'CUSTOM'
        for name, label in zip(names, ("Frame Start", "End"), strict=False):
            column.prop(owner, name, text=label)


class POISE_PT_recorded(_Part, label="Recorded Motion", order=2):
    """Targets from an animation, and corrections of them."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        layout.operator("poise.targets_from_animation", icon='ANIM_DATA')
        if settings.recording is not None:
            fields_of(layout).prop(settings, "recording")
        row = layout.row(align=True)
        row.operator("poise.correct", icon='MOD_SIMPLEDEFORM')
        on = posing.corrections_on(armature)
        if on is not None:
            icon = 'HIDE_OFF' if on else 'HIDE_ON'
            row.operator("poise.corrections", text="", icon=icon, depress=on).action = 'TOGGLE'
            row.operator("poise.corrections", text="", icon='X').action = 'REMOVE'
        row = side_by_side(layout, context)
        row.prop(settings, "ease_in")
        row.prop(settings, "ease_out")
        layout.row().prop(settings, "ease_unit", expand=True)
        row = side_by_side(layout, context)
        row.operator("poise.find_contacts", icon='VIEWZOOM')
        row.operator("poise.lock_contacts", icon='LOCKED')
        effector = shown_entry(context, armature)
        if effector is not None and KINDS[effector.kind].pinnable:
            column = fields_of(layout)
            column.prop(effector, "contact")
            column.prop(effector, "contact_toe")
            column.prop(effector, "contact_object")
        layout.operator("poise.hold_prop", icon='CON_CHILDOF')


class POISE_PT_diagnosis(_Part, label="Diagnosis", order=1, parent="POISE_PT_advanced"):
    """Diagnosis of the present pose, each sentence with a sign of its own."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        layout.operator("poise.diagnose", icon='VIEWZOOM')
        if settings.diagnosis:
            box = layout.box()
            for line in settings.diagnosis.split("\n"):
                draw_words(box, context, line, 'DOT')


class POISE_PT_marks(_Part, label="Overlay", order=4):
    """What is drawn over the figure, as in the popover of the viewport's overlays."""

    def draw_header(self, context: Context) -> None:
        layout: Any = self.layout
        layout.prop(overlay_of(context.scene), "show", text="")

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        draw_switches(layout, context.scene)


class POISE_PT_sharing(_Part, label="Presets and Mirror", order=3):
    """Presets and mirroring."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        row = side_by_side(layout, context)
        row.menu("POISE_MT_presets", icon='PRESET')
        row.operator("poise.save_preset", text="Save", icon='ADD')
        row = side_by_side(layout, context, 3)
        for direction, text in (('FLIP', "Flip"), ('LEFT_TO_RIGHT', "L to R"), ('RIGHT_TO_LEFT', "R to L")):
            row.operator("poise.mirror", text=text, icon='MOD_MIRROR').direction = direction


class POISE_PT_advanced(_Part, label="Advanced", order=9):
    """What is seldom needed: masses, diagnosis and the solver, in panels of their own."""

    def show(self, context: Context, layout: UILayout, armature: Object, settings: POISE_PG_armature) -> None:
        """It has nothing of its own."""


class POISE_MT_presets(Menu):
    """The presets that there are."""

    bl_label = "Load Preset"

    def draw(self, context: Context) -> None:
        layout: Any = self.layout
        names = posing.preset_names()
        for name in names:
            layout.operator("poise.load_preset", text=name, translate=False).name = name
        if not names:
            layout.label(text="No presets saved yet")


class POISE_MT_pie(Menu):
    """Buttons for posing, at the mouse"""

    bl_label = "Poise"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context_armature(context) is not None  # else the key is left to others

    def draw(self, context: Context) -> None:
        # Most used first: left, right, below, above, corners.
        pie: Any = self.layout.menu_pie()
        settings = settings_of(require_armature(context))
        draw_state(pie, 'PIN')
        pie.operator("poise.live", text="Live Off" if settings.live else "Live On", icon='REC')
        pie.operator("poise.solve_pose", icon='CON_KINEMATIC')
        pie.operator("poise.drag", icon='VIEW_PAN')
        pie.operator("poise.key_pose", icon='KEYINGSET')
        pie.operator("poise.bake", icon='KEY_HLT')
        states = pie.box().row(align=True)
        for state in ('REACH', 'FOLLOW', 'OFF'):
            draw_state(states, state)
        pie.prop(overlay_of(context.scene), "show", text="Overlay", icon='OVERLAY')


CLASSES = (
    POISE_OT_add_bake_preset,
    POISE_PT_bake_presets,
    POISE_UL_effectors,
    POISE_UL_roles,
    POISE_PT_main,
    POISE_PT_effectors,
    POISE_PT_bake,
    POISE_PT_recorded,
    POISE_MT_presets,
    POISE_PT_sharing,
    POISE_PT_marks,
    POISE_PT_character,
    POISE_PT_limits,
    POISE_PT_advanced,
    POISE_PT_masses,
    POISE_PT_diagnosis,
    POISE_PT_solver,
    POISE_MT_pie,
)

_register, _unregister = bpy.utils.register_classes_factory(CLASSES)


def draw_live(header: Any, context: Context) -> None:
    """Draw a button in the header that switches live mode off, or the names of other live armatures."""
    lives = list(live_armatures(context.view_layer.objects))
    if not lives:
        return
    row = header.layout.row(align=True)
    row.alert = any(map(problem_of, lives))
    icon = 'ERROR' if row.alert else 'REC'
    armature = context_armature(context)
    if armature is not None and settings_of(armature).live:
        row.operator("poise.live", text="Live", icon=icon, depress=True)
    else:
        text = Message("Live: {names}", names=", ".join(armature.name for armature in lives))
        row.label(text=translated(text), icon=icon, translate=False)


def register() -> None:
    """Add the panels, and the live button to the header of the viewport."""
    _register()
    VIEW3D_HT_header.append(draw_live)  # pyright: ignore[reportArgumentType]


def unregister() -> None:
    """Remove both."""
    VIEW3D_HT_header.remove(draw_live)  # pyright: ignore[reportArgumentType]
    _unregister()
