# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators on effectors: each gathers, calls `posing`, and reports."""

import bpy
from bpy.props import EnumProperty, IntProperty, StringProperty
from bpy.types import Context, Object

from ..core.errors import IKError
from ..scene import posing
from ..scene.effectors.effectors import all_targets, lacks_target, target_of
from ..scene.properties.effector_properties import KIND_ITEMS
from ..scene.properties.settings import settings_of
from ..scene.reports import counted, sentences
from .acting import (
    ArmatureOperator,
    EffectorOperator,
    choice,
    context_armature,
    flag,
    obstacle_to,
    require_armature,
    select_only,
    selected_bones,
    show_effector,
    shown_effector,
)


class POISE_OT_add_effector(ArmatureOperator):
    """Add an effector to every selected bone, or to the active bone outside Pose Mode"""

    bl_label = "Add Effector"

    bone: StringProperty(
        name="Bone",
        description="The bone to add an effector to; empty for the selected bones",
        options={'SKIP_SAVE'},
    )
    kind: EnumProperty(
        name="Kind", description="What the bone does with its target", items=KIND_ITEMS, default='BOTH'
    )
    make_targets: flag(
        "Make Targets",
        "Make an empty as the target, where the bone does not have to move: usually at its place",
    )

    def act(self, context: Context, armature: Object) -> None:
        names = [self.bone] if self.bone else selected_bones(context)
        if not names:
            raise IKError("select the bones to add effectors to, in Pose Mode")
        for name in names:
            index = posing.add_effector(armature, name, kind=self.kind, make_target=self.make_targets)
            self.changed += 1
            show_effector(context, armature, index)


class POISE_OT_remove_effector(EffectorOperator):
    """Remove the active effector from the list; its target stays in the scene"""

    bl_label = "Remove Effector"

    def act(self, context: Context, armature: Object) -> None:
        index = shown_effector(context, armature)
        posing.remove_effector(armature, index)
        show_effector(context, armature, max(0, min(index, len(settings_of(armature).effectors) - 1)))
        if context_armature(context) != armature:  # the active object is no target any more
            select_only(context, armature)


class POISE_OT_move_effector(EffectorOperator):
    """Move the active effector up or down in the list; its place does not change its priority"""

    bl_label = "Move Effector"

    direction: choice(
        "Where to move the effector in the list",
        ('UP', "Up", "One place up"),
        ('DOWN', "Down", "One place down"),
        name="Direction",
    )

    def act(self, context: Context, armature: Object) -> set[str] | None:
        index = shown_effector(context, armature)
        place = index + (-1 if self.direction == 'UP' else 1)
        if not 0 <= place < len(settings_of(armature).effectors):
            return {'CANCELLED'}  # it is at the end of the list already
        posing.move_effector(armature, index, place)
        show_effector(context, armature, place)


class POISE_OT_select_target(EffectorOperator):
    """Select the target of the active effector, in Object Mode, ready to be moved"""

    bl_label = "Select Target"

    def act(self, context: Context, armature: Object) -> None:
        index, effectors = shown_effector(context, armature), settings_of(armature).effectors
        target = target_of(effectors[index]) if index < len(effectors) else None
        if target is None:
            raise IKError("The active effector has no target to be selected")
        if not target.visible_get(view_layer=context.view_layer):
            raise IKError(f"The target {target.name!r} is hidden: show it first (Alt H)")
        if armature.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        settings_of(armature).active_effector = index
        select_only(context, target)


class POISE_OT_make_targets(EffectorOperator):
    """Make an empty for every effector without a target, usually at the present place of its bone"""

    bl_label = "Make Targets"

    @classmethod
    def obstacle(cls, context: Context) -> str:
        if obstacle := super().obstacle(context):
            return obstacle
        lacking = any(map(lacks_target, settings_of(require_armature(context)).effectors))
        return "" if lacking else "Every effector has a target"

    def act(self, context: Context, armature: Object) -> None:
        for index in [i for i, e in enumerate(settings_of(armature).effectors) if lacks_target(e)]:
            posing.make_target(armature, index)
            self.changed += 1
        self.tell(f"{counted(self.changed, 'target')} created")


class POISE_OT_attach_targets(EffectorOperator):
    """Parent free targets to the armature, so that moving the armature moves the whole character"""

    bl_label = "Attach Targets"

    @classmethod
    def obstacle(cls, context: Context) -> str:
        if obstacle := super().obstacle(context):
            return obstacle
        behind = posing.staying_behind(require_armature(context))
        return "" if behind else "Every target goes where the armature goes, or where its own parent goes"

    def act(self, context: Context, armature: Object) -> set[str] | None:
        report = posing.attach_targets(armature)
        self.tell(report.summary(), report.notes)
        return {'FINISHED'} if report.attached else {'CANCELLED'}


class POISE_OT_add_choice(EffectorOperator):
    """Add the selected objects as further targets to take one of; an empty if none is selected"""

    bl_label = "Add Target to Choose From"

    def act(self, context: Context, armature: Object) -> None:
        effectors, index = settings_of(armature).effectors, shown_effector(context, armature)
        known = set() if index >= len(effectors) else set(all_targets(effectors[index]))
        wanted = [chosen for chosen in context.selected_objects if chosen not in {armature, *known}]
        for target in wanted or [None]:
            posing.add_choice(armature, index, target)


class POISE_OT_remove_choice(EffectorOperator):
    """Remove a target from those to choose from; the object stays in the scene"""

    bl_label = "Remove Target to Choose From"

    number: IntProperty(name="Number", description="Which target, 0 the first", default=0, min=0)

    def act(self, context: Context, armature: Object) -> None:
        posing.remove_choice(armature, shown_effector(context, armature), self.number)


class POISE_OT_pin(EffectorOperator):
    """Pin the bone of the active effector where it is now, or release it"""

    bl_label = "Pin"

    action: choice(
        "What to do",
        ('TOGGLE', "Toggle", "Release the bone if it is pinned, pin it otherwise"),
        ('PIN', "Pin", "Pin the bone where it is now"),
        ('UNPIN', "Unpin", "Release the bone"),
    )

    def act(self, context: Context, armature: Object) -> None:
        effectors, index = settings_of(armature).effectors, shown_effector(context, armature)
        pinned = index < len(effectors) and effectors[index].pinned
        release = self.action == 'UNPIN' or (self.action == 'TOGGLE' and pinned)
        (posing.unpin if release else posing.pin)(armature, index)


class POISE_OT_store_pose(EffectorOperator):
    """Store the present pose as the pose that the bones of the active effector stay near"""

    bl_label = "Store Pose"

    def act(self, context: Context, armature: Object) -> None:
        count = posing.store_pose(armature, shown_effector(context, armature))
        self.tell(f"Stored the pose of {counted(count, 'bone')}")


class POISE_OT_solve_pose(EffectorOperator):
    """Move the skeleton so that every enabled effector reaches its target"""

    bl_label = "Solve Pose"

    def act(self, context: Context, armature: Object) -> set[str]:
        return self.answer(posing.solve_pose(armature, context.evaluated_depsgraph_get()))


class POISE_OT_key_pose(EffectorOperator):
    """Key the present pose of the bones that Poise solves"""

    bl_label = "Key Pose"

    def act(self, context: Context, armature: Object) -> set[str] | None:
        keyed = posing.key_pose(armature, context.evaluated_depsgraph_get())
        if not keyed.count:
            self.tell(sentences("nothing was keyed", *(keyed.notes or ("no bone is solved",))), warning=True)
            return {'CANCELLED'}
        done = f"keyed {counted(keyed.count, 'bone')} on frame {context.scene.frame_current}"
        self.tell(sentences(done, *keyed.notes), keyed.notes)


class POISE_OT_live(ArmatureOperator):
    """Keep solving while targets move"""

    bl_label = "Live"

    action: choice(
        "What to do",
        ('TOGGLE', "Toggle", "Switch live mode off if it is on, on otherwise"),
        ('ON', "On", "Keep solving while targets move"),
        ('OFF', "Off", "Stop solving"),
    )

    @classmethod
    def obstacle(cls, context: Context) -> str:
        armature = context_armature(context)
        if armature is None or not armature.is_editable:
            return obstacle_to(context)
        settings = settings_of(armature)
        # In any mode: it begins to follow as soon as it can, and can always be switched off.
        return "" if settings.effectors or settings.live else "Add an effector first"

    def act(self, context: Context, armature: Object) -> set[str] | None:
        was = settings_of(armature).live
        self.changed = 1  # if it fails it is on, and the panel says what is missing
        report = posing.switch_live(armature, not was if self.action == 'TOGGLE' else self.action == 'ON')
        return None if report is None else self.answer(report)


class POISE_OT_diagnose(EffectorOperator):
    """Report what the present pose allows the effectors: lost directions, and effectors that share bones"""

    bl_label = "Diagnose Pose"

    def act(self, context: Context, armature: Object) -> None:
        self.tell(posing.diagnose(armature, context.evaluated_depsgraph_get()).lines[0])


CLASSES = (
    POISE_OT_add_effector,
    POISE_OT_remove_effector,
    POISE_OT_move_effector,
    POISE_OT_select_target,
    POISE_OT_make_targets,
    POISE_OT_attach_targets,
    POISE_OT_add_choice,
    POISE_OT_remove_choice,
    POISE_OT_pin,
    POISE_OT_store_pose,
    POISE_OT_solve_pose,
    POISE_OT_key_pose,
    POISE_OT_live,
    POISE_OT_diagnose,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
