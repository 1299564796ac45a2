# SPDX-License-Identifier: GPL-3.0-or-later
"""What operators act on, what keeps them from it, and how they report.

List and viewport choose the same effector. Where the active object is the target of an effector, that
effector is shown, else the one last chosen in the list. Nothing is noted when the selection changes: it is
looked up whenever it is asked for, so undo and files cannot bring the two apart. Choosing another effector in
the list while a target is the active object selects the other's target instead.
"""

from typing import Any, ClassVar

import bpy
from bpy.props import BoolProperty, EnumProperty, IntProperty
from bpy.types import Context, Object, Operator, Scene

from ..core.errors import IKError
from ..core.messages import Joined, Message, capitalized
from ..scene import posing
from ..scene.effectors.effectors import all_targets, target_of
from ..scene.properties.settings import POISE_PG_effector, armatures_in, settings_of
from ..scene.translations import translated
from .preferences import PIE, keys_of


def context_armature(context: Context) -> Object | None:
    """The armature object that panel and operators act on: the active one, or one that follows it."""
    active = context.active_object
    if active is not None and active.type == 'ARMATURE':
        return active
    if active is None:  # so it is in a viewport, too, where a target is active that is hidden
        active = context.view_layer.objects.active
    if active is None:
        return None
    if active.users > 1:  # one user is its collection; a target has the effector as well
        for candidate in armatures_in(context.view_layer.objects):
            effectors = settings_of(candidate).effectors
            if any(entry.target == active for own in effectors for entry in (own, *own.others)):
                return candidate
    return None


def require_armature(context: Context) -> Object:
    """The armature that `poll` has found."""
    armature = context_armature(context)
    if armature is None:
        raise IKError("There is no armature here: select one, or the target of one of its effectors")
    return armature


def active_bone(context: Context) -> str:
    """Name of the active bone of the armature; empty without one."""
    data: Any = require_armature(context).data
    return data.bones.active.name if data.bones.active else ""


def selected_bones(context: Context) -> list[str]:
    """Names of the selected pose bones; that of the active one outside Pose Mode."""
    selected = context.selected_pose_bones_from_active_object or ()
    return [bone.name for bone in selected] or [name for name in (active_bone(context),) if name]


# Operators


def flag(name: str, description: str, default: bool = True, **more: Any) -> Any:
    """A switch of an operator."""
    return BoolProperty(name=name, description=description, default=default, **more)


def choice(description: str, *items: tuple[str, str, str], name: str = "Action") -> Any:
    """A menu of an operator, of identifiers, names and tooltips; the first is the default."""
    return EnumProperty(name=name, description=description, items=items, default=items[0][0])


def refuse(operator: Operator, error: Exception) -> set[str]:
    """Report what is wrong with the input."""
    text = translated(error.message) if isinstance(error, IKError) else str(error)
    operator.report({'ERROR'}, capitalized(text))
    return {'CANCELLED'}


class ArmatureOperator(Operator):
    """An operator on an armature: `act` does the work, wrong input is reported; not registered itself.

    `POISE_OT_verb_noun` is `poise.verb_noun` for Blender.
    """

    bl_options = {'REGISTER', 'UNDO'}
    needs_effectors: ClassVar = False
    in_pie: ClassVar = False
    """Whether it is in the pie menu and has no key of its own, which Blender would name in the tooltip."""
    changed: int = 0
    """How much `act` has done: if it fails after that, what is done stays and can be undone."""

    def __init_subclass__(cls, *, label: str = "") -> None:
        cls.bl_idname, cls.bl_label = cls.__name__.replace("POISE_OT_", "poise."), label

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        """The tooltip, with the keys of the pie menu where that has the operator."""
        text = Message((cls.__doc__ or "").strip())
        keys = keys_of(context, "wm.call_menu_pie", PIE) if cls.in_pie else ""
        return translated(Message("{text}.\nPie menu: {keys}", text=text, keys=keys) if keys else text)

    @classmethod
    def obstacle(cls, context: Context) -> str:
        """Say in words what keeps the operator from acting; empty if nothing does."""
        armature = context_armature(context)
        if armature is None:
            return Message("Select an armature, or the target of one of its effectors")
        if not armature.is_editable:
            return Message("The armature is linked from another file: make a library override of it")
        if armature.mode == 'EDIT':
            return Message("Leave Edit Mode: bones have no pose there")
        if cls.needs_effectors and not settings_of(armature).effectors:
            return Message("Add an effector first")
        return cls.lacks(context, armature)

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        """Say in words what else is missing for this operator."""
        return ""

    @classmethod
    def poll(cls, context: Context) -> bool:
        obstacle = cls.obstacle(context)
        cls.poll_message_set(translated(obstacle))
        return not obstacle

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        try:
            return self.close(self.act(context, armature))
        except IKError as error:
            refused = refuse(self, error)
            return {'FINISHED'} if self.changed else refused
        finally:
            armature.update_tag()  # nothing else tells Live that settings have changed

    def act(self, context: Context, armature: Object) -> Any:
        """Do the work; returns its report, or what Blender gets, or None. An IKError refuses."""
        raise NotImplementedError

    def close(self, done: Any) -> set[str]:
        """Tell what a report says, or several; return what Blender gets."""
        if done is None or isinstance(done, set):
            return done or {'FINISHED'}
        reports = done if isinstance(done, tuple) else (done,)
        text = Joined(" ", [report.summary() for report in reports])
        self.tell(text, warning=any(map(_is_to_be_looked_at, reports)))
        return {'FINISHED'}

    def tell(self, text: str, warning: object = False) -> None:
        """Report what was done, as a warning if there is something to look at."""
        self.report({'WARNING'} if warning else {'INFO'}, translated(text))


def _is_to_be_looked_at(report: Any) -> bool:
    """Whether a report is a warning: targets were missed, which is no failure, or there are notes."""
    if isinstance(report, posing.Report | posing.BakeReport):
        return not report.is_good
    return bool(report.notes)


class EffectorOperator(ArmatureOperator):
    """An operator on an armature with an effector; not registered itself."""

    needs_effectors: ClassVar = True


# The effector that is shown


def shown_effector(context: Context, armature: Object) -> int:
    """Index of the effector that is shown; there may be none at it."""
    settings, active = settings_of(armature), context.active_object
    chosen = settings.active_effector
    if active is None or active == armature:
        return chosen
    following = [index for index, entry in enumerate(settings.effectors) if active in all_targets(entry)]
    return chosen if chosen in following or not following else following[0]


def shown_entry(context: Context, armature: Object) -> POISE_PG_effector | None:
    """The effector that is shown; None for none."""
    effectors, index = settings_of(armature).effectors, shown_effector(context, armature)
    return effectors[index] if index < len(effectors) else None


def show_effector(context: Context, armature: Object, index: int) -> None:
    """Choose the effector that is shown; where a target is the active object, its target becomes that."""
    settings = settings_of(armature)
    was = shown_effector(context, armature)
    settings.active_effector = index
    if shown_effector(context, armature) == index or index >= len(settings.effectors):
        return
    target = target_of(settings.effectors[index])
    visible = target is not None and target.visible_get(view_layer=context.view_layer)
    select_only(context, target if target is not None and visible else armature)
    if shown_effector(context, armature) != index:  # the armature is out of sight as well
        settings.active_effector = was


def select_only(context: Context, obj: Object) -> None:
    """Select an object and no other, and make it active."""
    for other in context.view_layer.objects:
        if other is not None and other != obj and other.select_get():
            other.select_set(False)
    if context.view_layer.objects.get(obj.name) == obj:
        obj.select_set(True)
        context.view_layer.objects.active = obj


def _get_shown(scene: Any) -> int:
    armature = context_armature(bpy.context)
    return 0 if armature is None else shown_effector(bpy.context, armature)


def _set_shown(scene: Any, index: int) -> None:
    armature = context_armature(bpy.context)
    if armature is not None:
        show_effector(bpy.context, armature, index)


def register() -> None:
    """Add what the list in the panel takes for its active row.

    It is no property of the armature object: one that is computed would be stored in library overrides.
    """
    Scene.poise_shown = IntProperty(  # pyright: ignore[reportAttributeAccessIssue]
        name="Active Effector",
        description="The effector whose fields are shown: that of the active object, where it is a target",
        get=_get_shown,
        set=_set_shown,
        options={'SKIP_SAVE'},
    )


def unregister() -> None:
    """Take it away."""
    del Scene.poise_shown  # pyright: ignore[reportAttributeAccessIssue]
