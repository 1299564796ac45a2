# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting a character up, and what belongs to it: roles, limits, presets, mirroring."""

from collections.abc import Callable
from typing import Any, ClassVar

import bpy
from bpy.props import StringProperty
from bpy.types import Context, Object

from ..core.errors import IKError
from ..scene import posing
from ..scene.properties.naming import note_name
from ..scene.properties.overrides import only_own
from ..scene.properties.settings import settings_of
from ..scene.reports import counted
from .acting import ArmatureOperator, active_bone, choice, flag, selected_bones


class POISE_OT_setup_character(ArmatureOperator, label="Set Up Character"):
    """Create targets, limits and priorities for hips, feet, hands and head"""

    use_table: flag(
        "Use Table", "Use the table of roles if there is one; recognise the bones again otherwise"
    )
    poles: flag("Poles", "Also create targets that elbows and knees bend towards", False)
    limits: flag("Limits", "Read limits from the rig; bones without any get those of a human or animal body")
    controls: flag(
        "Switch Controls", "Switch the limbs of a control rig to the controls that get targets (FK)"
    )

    def act(self, context: Context, armature: Object) -> None:
        parts = {name: getattr(self, name) for name in ("use_table", "poles", "limits", "controls")}
        report = posing.setup_character(armature, **parts)
        settings_of(armature).last_message = report.summary()
        settings_of(armature).last_reached = report.ready
        self.tell(report.summary(), not report.ready)


class POISE_OT_recognise_roles(ArmatureOperator, label="Recognise Roles"):
    """Fill the table of roles from the bones' names and places; changes in it are lost"""

    def act(self, context: Context, armature: Object) -> None:
        character = posing.recognise_roles(armature)
        self.tell(f"{counted(len(character.choices), 'bone')} with a role, {len(character.left_out)} without")


class POISE_OT_edit_roles(ArmatureOperator, label="Edit Roles"):
    """Add the active bone to the table of roles, or remove the active row"""

    action: choice(
        "What to do with the table",
        ('ADD', "Add", "Add a row for the active bone"),
        ('REMOVE', "Remove", "Remove the active row"),
    )

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


class POISE_OT_read_limits(ArmatureOperator, label="Read Limits"):
    """Read IK limits, IK stiffness and Limit Rotation constraints of all bones, for editing"""

    def act(self, context: Context, armature: Object) -> None:
        found = posing.read_limits(armature)
        self.tell(found.summary(), found.notes)


def _own_limits(armature: Object, bones: list[str]) -> None:
    for bone in bones:
        posing.own_limits(armature, bone)


class _BoneEntries(ArmatureOperator):
    """Adds or removes entries of the selected bones; not registered itself."""

    acts: ClassVar[dict[str, Callable[[Object, list[str]], object]]]
    """What each action does with some bones."""
    action: Any

    def act(self, context: Context, armature: Object) -> None:
        bones = selected_bones(context)
        if not bones:
            raise IKError("select bones in Pose Mode")
        self.acts[self.action](armature, bones)


class POISE_OT_edit_limits(_BoneEntries, label="Edit Limits"):
    """Edit the limits of the selected bones, go back to those of the rig, or prefer the present pose"""

    acts: ClassVar = {'OWN': _own_limits, 'RIG': posing.remove_limits, 'PREFER': posing.prefer_present_pose}

    action: choice(
        "What to do with the limits of the selected bones",
        ('OWN', "Own", "Copy the limits of the bone, for editing"),
        ('RIG', "From Rig", "Remove the entry: the bone's IK limits are used again"),
        ('PREFER', "Prefer Pose", "Make the present angles the preferred angles"),
    )


class POISE_OT_edit_masses(_BoneEntries, label="Edit Masses"):
    """Set the masses of the selected bones by hand, or use their share of the body again"""

    acts: ClassVar = {'OWN': posing.own_masses, 'REMOVE': posing.remove_masses}

    action: choice(
        "What to do with the masses of the selected bones",
        ('OWN', "Own", "Copy the present mass of the bone, for editing"),
        ('REMOVE', "Remove", "Remove the entry: the bone has its share of the body's mass"),
    )


class POISE_OT_measure_meshes(ArmatureOperator, label="Measure Meshes"):
    """Measure the meshes that the bones carry; masses of bones then follow from their volumes"""

    def act(self, context: Context, armature: Object) -> None:
        report = posing.measure_meshes(armature)
        self.tell(report.summary(), report.notes)


class POISE_OT_save_preset(ArmatureOperator, label="Save Preset"):
    """Save effectors, limits, stiffness and solver settings as a preset, by the roles of the bones"""

    bl_options = {'REGISTER'}  # it changes nothing in Blender

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    def invoke(self, context: Context, event: Any) -> set[str]:
        return context.window_manager.invoke_props_dialog(self)  # pyright: ignore[reportReturnType]

    def act(self, context: Context, armature: Object) -> None:
        report = posing.save_preset(armature, posing.preset_path(self.name))
        self.tell(f"Saved {report.summary()}")


class POISE_OT_load_preset(ArmatureOperator, label="Load Preset"):
    """Set the armature up from a preset; the report names bones that are missing"""

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    def act(self, context: Context, armature: Object) -> None:
        report = posing.load_preset(armature, posing.preset_path(self.name))
        self.tell(f"Loaded {report.summary()}", report.missing or report.notes)


class POISE_OT_mirror(ArmatureOperator, label="Mirror"):
    """Mirror pose, targets, limits and effector settings to the other side"""

    direction: choice(
        "From which side to which",
        ('FLIP', "Flip", "Exchange both sides"),
        ('LEFT_TO_RIGHT', "Left to Right", "Make the right side like the left"),
        ('RIGHT_TO_LEFT', "Right to Left", "Make the left side like the right"),
        name="Direction",
    )
    settings: flag("Settings", "Settings of effectors")
    targets: flag("Targets", "Places and rotations of targets")
    limits: flag("Limits", "Limits, stiffness, preferred angles")
    pose: flag("Pose", "Location and rotation of bones")

    def act(self, context: Context, armature: Object) -> None:
        parts = {name: getattr(self, name) for name in ("settings", "targets", "limits", "pose")}
        report = posing.mirror(armature, self.direction, **parts)
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
