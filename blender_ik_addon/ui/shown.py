# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; poll and Blender see to it that it does not.
# pyright: reportOptionalMemberAccess=false
"""Which effector is shown: list and viewport choose the same one.

Where the active object is the target of an effector, that effector is shown, else the one last chosen in the
list. Nothing is noted when the selection changes: it is looked up whenever it is asked for, so undo and files
cannot bring the two apart. Choosing another effector in the list while a target is the active object selects
the other's target instead.
"""

from collections.abc import Iterator
from typing import Any

import bpy
from bpy.props import IntProperty
from bpy.types import Context, Object, Scene

from ..core.errors import IKError
from ..scene.effectors.effectors import target_of
from ..scene.properties.effector_properties import POISE_PG_effector
from ..scene.properties.settings import settings_of
from .acting import EffectorOperator, context_armature, refuse, require_armature


def shown_effector(context: Context, armature: Object) -> int:
    """Give the index of the effector that is shown; there may be none at it."""
    settings = settings_of(armature)
    active = context.active_object
    chosen = settings.active_effector
    if active is None or active == armature:
        return chosen
    following = [index for index, entry in enumerate(settings.effectors) if active in _targets(entry)]
    return chosen if chosen in following or not following else following[0]


def show_effector(context: Context, armature: Object, index: int) -> None:
    """Choose the effector that is shown; where a target is the active object, its target becomes that."""
    settings = settings_of(armature)
    was = shown_effector(context, armature)
    settings.active_effector = index
    if shown_effector(context, armature) == index or index >= len(settings.effectors):
        return
    target = target_of(settings.effectors[index])
    view_layer = context.view_layer
    visible = target is not None and target.visible_get(view_layer=view_layer)
    select_only(context, target if target is not None and visible else armature)
    if shown_effector(context, armature) != index:  # the armature is out of sight as well
        settings.active_effector = was


def keep_armature(context: Context, armature: Object) -> None:
    """Make the armature active when the active object is no target any more: the panel stays with it."""
    if context_armature(context) != armature:
        select_only(context, armature)


def select_only(context: Context, obj: Object) -> None:
    """Select an object and no other, and make it active."""
    for other in context.view_layer.objects:
        if other is not None and other != obj and other.select_get():
            other.select_set(False)
    if context.view_layer.objects.get(obj.name) == obj:
        obj.select_set(True)
        context.view_layer.objects.active = obj


def _targets(entry: POISE_PG_effector) -> Iterator[Object | None]:
    """Give the targets of an effector."""
    yield from (held.target for held in (entry, *entry.others))


class POISE_OT_select_target(EffectorOperator):
    """Select the target of the active effector, in Object Mode, ready to be moved"""

    bl_idname = "poise.select_target"
    bl_label = "Select Target"

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        index = shown_effector(context, armature)
        try:
            target = _visible_target(context, armature, index)
        except IKError as error:
            return refuse(self, error)
        if armature.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        settings_of(armature).active_effector = index
        select_only(context, target)
        return {'FINISHED'}


def _visible_target(context: Context, armature: Object, index: int) -> Object:
    """Give the target of an effector.

    Raises:
        IKError: There is none, or it cannot be seen.
    """
    effectors = settings_of(armature).effectors
    target = target_of(effectors[index]) if index < len(effectors) else None
    if target is None:
        raise IKError("The active effector has no target to be selected")
    if not target.visible_get(view_layer=context.view_layer):
        raise IKError(f"The target {target.name!r} is hidden: show it first (Alt H)")
    return target


def _get(scene: Any) -> int:
    """Answer the list in the panel."""
    armature = context_armature(bpy.context)
    return 0 if armature is None else shown_effector(bpy.context, armature)


def _set(scene: Any, index: int) -> None:
    """Take what was clicked in the list of the panel."""
    armature = context_armature(bpy.context)
    if armature is not None:
        show_effector(bpy.context, armature, index)


_register, _unregister = bpy.utils.register_classes_factory((POISE_OT_select_target,))


def register() -> None:
    """Add the operator, and what the list in the panel takes for its active row.

    It is no property of the armature object: one that is computed would be stored in library overrides.
    """
    _register()
    Scene.poise_shown = IntProperty(  # pyright: ignore[reportAttributeAccessIssue]
        name="Active Effector",
        description="The effector whose fields are shown: that of the active object, where it is a target",
        get=_get,
        set=_set,
        options={'SKIP_SAVE'},
    )


def unregister() -> None:
    """Take both away."""
    del Scene.poise_shown  # pyright: ignore[reportAttributeAccessIssue]
    _unregister()
