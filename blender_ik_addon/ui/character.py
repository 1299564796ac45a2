# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""Setting a character up, and what belongs to it: roles, limits, presets, mirroring."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty
from bpy.types import Context, Object

from ..core.errors import IKError
from ..scene import posing
from ..scene.properties.naming import note_name
from ..scene.properties.overrides import only_own
from ..scene.properties.settings import settings_of
from ..scene.reports import counted
from .acting import ArmatureOperator, active_bone, selected_bones


class POISE_OT_setup_character(ArmatureOperator):
    """Create targets, limits and priorities for hips, feet, hands and head"""

    bl_idname = "poise.setup_character"
    bl_label = "Set Up Character"

    use_table: BoolProperty(
        name="Use Table",
        description="Use the table of roles if there is one; recognise the bones again otherwise",
        default=True,
    )
    poles: BoolProperty(
        name="Poles",
        description="Also create targets that elbows and knees bend towards",
        default=False,
    )
    limits: BoolProperty(
        name="Limits",
        description="Read limits from the rig; bones without any get those of a human or animal body",
        default=True,
    )
    controls: BoolProperty(
        name="Switch Controls",
        description="Switch the limbs of a control rig to the controls that get targets (FK)",
        default=True,
    )

    if TYPE_CHECKING:
        use_table: bool
        poles: bool
        limits: bool
        controls: bool

    def act(self, context: Context, armature: Object) -> None:
        report = posing.setup_character(
            armature,
            use_table=self.use_table,
            poles=self.poles,
            limits=self.limits,
            controls=self.controls,
        )
        settings_of(armature).last_message = report.summary()
        settings_of(armature).last_reached = report.ready
        self.tell(report.summary(), not report.ready)


class POISE_OT_recognise_roles(ArmatureOperator):
    """Fill the table of roles from the bones' names and places; changes in it are lost"""

    bl_idname = "poise.recognise_roles"
    bl_label = "Recognise Roles"

    def act(self, context: Context, armature: Object) -> None:
        character = posing.recognise_roles(armature)
        self.tell(f"{counted(len(character.choices), 'bone')} with a role, {len(character.left_out)} without")


class POISE_OT_edit_roles(ArmatureOperator):
    """Add the active bone to the table of roles, or remove the active row"""

    bl_idname = "poise.edit_roles"
    bl_label = "Edit Roles"

    action: EnumProperty(
        name="Action",
        description="What to do with the table",
        items=(
            ('ADD', "Add", "Add a row for the active bone"),
            ('REMOVE', "Remove", "Remove the active row"),
        ),
        default='ADD',
    )

    if TYPE_CHECKING:
        action: Literal['ADD', 'REMOVE']

    def act(self, context: Context, armature: Object) -> None:
        settings = settings_of(armature)
        if self.action == 'ADD':
            bone = active_bone(context)
            if not bone:
                raise IKError("make the bone active that gets a role, in Pose Mode")
            note_name(armature, bone)
            row: Any = settings.roles.add()
            row.bone, row.reason = bone, "chosen by hand"
            settings.active_role = len(settings.roles) - 1
        elif settings.active_role < len(settings.roles):
            with only_own("this row of the table", "choose the role None for it"):
                settings.roles.remove(settings.active_role)
            settings.active_role = max(0, min(settings.active_role, len(settings.roles) - 1))


class POISE_OT_read_limits(ArmatureOperator):
    """Read IK limits, IK stiffness and Limit Rotation constraints of all bones, for editing"""

    bl_idname = "poise.read_limits"
    bl_label = "Read Limits"

    def act(self, context: Context, armature: Object) -> None:
        found = posing.read_limits(armature)
        self.tell(found.summary(), found.notes)


def _own_limits(armature: Object, bones: list[str]) -> None:
    """Give bones limits of their own."""
    for bone in bones:
        posing.own_limits(armature, bone)


class _BoneEntries(ArmatureOperator):
    """Adds or removes entries of the selected bones; not registered itself."""

    acts: ClassVar[dict[str, Callable[[Object, list[str]], object]]]
    """What each action does with some bones."""

    if TYPE_CHECKING:
        action: str

    def act(self, context: Context, armature: Object) -> None:
        bones = selected_bones(context)
        if not bones:
            raise IKError("select bones in Pose Mode")
        self.acts[self.action](armature, bones)


class POISE_OT_edit_limits(_BoneEntries):
    """Edit the limits of the selected bones, go back to those of the rig, or prefer the present pose"""

    bl_idname = "poise.edit_limits"
    bl_label = "Edit Limits"
    acts: ClassVar = {'OWN': _own_limits, 'RIG': posing.remove_limits, 'PREFER': posing.prefer_present_pose}

    action: EnumProperty(
        name="Action",
        description="What to do with the limits of the selected bones",
        items=(
            ('OWN', "Own", "Copy the limits of the bone, for editing"),
            ('RIG', "From Rig", "Remove the entry: the bone's IK limits are used again"),
            ('PREFER', "Prefer Pose", "Make the present angles the preferred angles"),
        ),
        default='OWN',
    )


class POISE_OT_edit_masses(_BoneEntries):
    """Set the masses of the selected bones by hand, or use their share of the body again"""

    bl_idname = "poise.edit_masses"
    bl_label = "Edit Masses"
    acts: ClassVar = {'OWN': posing.own_masses, 'REMOVE': posing.remove_masses}

    action: EnumProperty(
        name="Action",
        description="What to do with the masses of the selected bones",
        items=(
            ('OWN', "Own", "Copy the present mass of the bone, for editing"),
            ('REMOVE', "Remove", "Remove the entry: the bone has its share of the body's mass"),
        ),
        default='OWN',
    )


class POISE_OT_measure_meshes(ArmatureOperator):
    """Measure the meshes that the bones carry; masses of bones then follow from their volumes"""

    bl_idname = "poise.measure_meshes"
    bl_label = "Measure Meshes"

    def act(self, context: Context, armature: Object) -> None:
        report = posing.measure_meshes(armature)
        self.tell(report.summary(), report.notes)


class POISE_OT_save_preset(ArmatureOperator):
    """Save effectors, limits, stiffness and solver settings as a preset, by the roles of the bones"""

    bl_idname = "poise.save_preset"
    bl_label = "Save Preset"
    bl_options = {'REGISTER'}  # it changes nothing in Blender

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    if TYPE_CHECKING:
        name: str

    def invoke(self, context: Context, event: Any) -> set[str]:
        return context.window_manager.invoke_props_dialog(self)  # pyright: ignore[reportReturnType]

    def act(self, context: Context, armature: Object) -> None:
        report = posing.save_preset(armature, posing.preset_path(self.name))
        self.tell(f"Saved {report.summary()}")


class POISE_OT_load_preset(ArmatureOperator):
    """Set the armature up from a preset; the report names bones that are missing"""

    bl_idname = "poise.load_preset"
    bl_label = "Load Preset"

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    if TYPE_CHECKING:
        name: str

    def act(self, context: Context, armature: Object) -> None:
        report = posing.load_preset(armature, posing.preset_path(self.name))
        self.tell(f"Loaded {report.summary()}", report.missing or report.notes)


class POISE_OT_mirror(ArmatureOperator):
    """Mirror pose, targets, limits and effector settings to the other side"""

    bl_idname = "poise.mirror"
    bl_label = "Mirror"

    direction: EnumProperty(
        name="Direction",
        description="From which side to which",
        items=(
            ('FLIP', "Flip", "Exchange both sides"),
            ('LEFT_TO_RIGHT', "Left to Right", "Make the right side like the left"),
            ('RIGHT_TO_LEFT', "Right to Left", "Make the left side like the right"),
        ),
        default='FLIP',
    )
    settings: BoolProperty(name="Settings", description="Settings of effectors", default=True)
    targets: BoolProperty(name="Targets", description="Places and rotations of targets", default=True)
    limits: BoolProperty(name="Limits", description="Limits, stiffness, preferred angles", default=True)
    pose: BoolProperty(name="Pose", description="Location and rotation of bones", default=True)

    if TYPE_CHECKING:
        direction: str
        settings: bool
        targets: bool
        limits: bool
        pose: bool

    def act(self, context: Context, armature: Object) -> None:
        report = posing.mirror(
            armature,
            self.direction,
            settings=self.settings,
            targets=self.targets,
            limits=self.limits,
            pose=self.pose,
        )
        self.tell(report.summary(), report.notes)


CLASSES = (
    POISE_OT_setup_character,
    POISE_OT_recognise_roles,
    POISE_OT_edit_roles,
    POISE_OT_read_limits,
    POISE_OT_edit_limits,
    POISE_OT_edit_masses,
    POISE_OT_measure_meshes,
    POISE_OT_save_preset,
    POISE_OT_load_preset,
    POISE_OT_mirror,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
