# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; poll and Blender see to it that it does not.
# pyright: reportOptionalMemberAccess=false
"""Which armature an operator acts on, what keeps it from that, and how it reports."""

from typing import Any, ClassVar

from bpy.types import Context, Object, Operator

from ..core.errors import IKError
from ..scene import posing
from ..scene.properties.settings import settings_of


def context_armature(context: Context) -> Object | None:
    """Give the armature object that panel and operators act on.

    It is the active object, or the armature that follows the active object, so that Solve Pose can be pressed
    after an empty was moved.
    """
    active = context.active_object
    if active is None or active.type == 'ARMATURE':
        return active
    if active.users > 1:  # one user is its collection; a target has the effector as well
        for candidate in context.view_layer.objects:
            # The list has None for an object that has just been deleted.
            if candidate is not None and candidate.type == 'ARMATURE':
                effectors = settings_of(candidate).effectors
                if any(
                    effector.target == active or any(other.target == active for other in effector.others)
                    for effector in effectors
                ):
                    return candidate
    return None


def require_armature(context: Context) -> Object:
    """Give the armature that `poll` has found."""
    armature = context_armature(context)
    if armature is None:
        raise IKError("There is no armature here: select one, or the target of one of its effectors")
    return armature


def obstacle_to(context: Context, *, needs_effectors: bool = True) -> str:
    """Say in words what keeps the operators from acting on the armature; empty if nothing does."""
    armature = context_armature(context)
    if armature is None:
        return "Select an armature, or the target of one of its effectors"
    if not armature.is_editable:
        return "The armature is linked from another file: make a library override of it"
    if armature.mode == 'EDIT':
        return "Leave Edit Mode: bones have no pose there"
    if needs_effectors and not settings_of(armature).effectors:
        return "Add an effector first"
    return ""


def possible(operator: type[Operator], obstacle: str) -> bool:
    """Answer a poll, with the obstacle as the reason that the greyed-out button shows."""
    operator.poll_message_set(obstacle)
    return not obstacle


class ArmatureOperator(Operator):
    """An operator on an armature: `act` does the work, wrong input is told; not registered itself."""

    bl_options = {'REGISTER', 'UNDO'}
    needs_effectors: ClassVar = False
    changed: int = 0
    """How much `act` has done: if it fails after that, what is done stays and can be undone."""

    @classmethod
    def obstacle(cls, context: Context) -> str:
        """Say in words what keeps the operator from acting; empty if nothing does."""
        return obstacle_to(context, needs_effectors=cls.needs_effectors)

    @classmethod
    def poll(cls, context: Context) -> bool:
        return possible(cls, cls.obstacle(context))

    def execute(self, context: Context) -> set[str]:
        try:
            return self.act(context, require_armature(context)) or {'FINISHED'}
        except IKError as error:
            refused = refuse(self, error)
            return {'FINISHED'} if self.changed else refused

    def act(self, context: Context, armature: Object) -> set[str] | None:
        """Do the work and report it; returns what Blender is told, finished by default.

        Raises:
            IKError: Something is missing or cannot be done.
        """
        raise NotImplementedError

    def tell(self, text: str, warning: object = False) -> None:
        """Report what was done, as a warning if there is something to look at."""
        self.report({'WARNING'} if warning else {'INFO'}, text)


class EffectorOperator(ArmatureOperator):
    """An operator on an armature with an effector; not registered itself."""

    needs_effectors: ClassVar = True


def answer(operator: Operator, report: posing.Report | posing.BakeReport) -> set[str]:
    """Tell how it went; a target that was not reached is a warning, not a failure."""
    operator.report({'INFO'} if report.reached else {'WARNING'}, report.summary())
    return {'FINISHED'}


def refuse(operator: Operator, error: Exception) -> set[str]:
    """Tell what was wrong with the input."""
    text = str(error)
    operator.report({'ERROR'}, text[:1].upper() + text[1:])
    return {'CANCELLED'}


def active_bone(context: Context) -> str:
    """Give the name of the active bone of the armature; empty without one."""
    data: Any = require_armature(context).data
    return data.bones.active.name if data.bones.active else ""


def selected_bones(context: Context) -> list[str]:
    """Give the names of the selected pose bones; the active one outside Pose Mode."""
    selected = context.selected_pose_bones_from_active_object or ()
    return [bone.name for bone in selected] or [name for name in (active_bone(context),) if name]
