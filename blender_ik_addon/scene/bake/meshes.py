# SPDX-License-Identifier: GPL-3.0-or-later
"""Meshes that follow bones are left out of the scene's evaluation while frames are played.

To deform the skin of a character takes many times as long as to pose its bones, and bones do not depend on
it. Where something that is evaluated does, as a target on a vertex group, Blender evaluates the mesh all the
same. Left as they are: what an effector is about, what is edited or painted, and what keeps a state from
frame to frame.
"""

from dataclasses import dataclass
from typing import Any, Final

import bpy
from bpy.types import Object, ViewLayer

from ...core.messages import Message
from ..armature.restoring import block_with_uid
from ..effectors.effectors import targets_of
from ..properties.settings import armatures_in

HIDDEN: Final = Message("Meshes that follow bones are hidden meanwhile")
"""What is said while some are."""

FEWEST_FRAMES: Final = 10
"""Frames below which it does not pay [1]: to build the scene without the meshes, and with them again, takes
about as long as to evaluate it a few times."""

SIMULATIONS: Final = frozenset(
    {'CLOTH', 'COLLISION', 'DYNAMIC_PAINT', 'FLUID', 'OCEAN', 'PARTICLE_SYSTEM', 'SOFT_BODY'}
)
"""Modifiers that keep a state from frame to frame, or take part in that of others."""

SHAPES: Final = frozenset({'MESH', 'CURVE', 'SURFACE', 'FONT', 'LATTICE', 'GREASEPENCIL'})
"""Types of objects that are deformed."""


@dataclass(frozen=True)
class MeshesLeftOut:
    """Meshes that are not evaluated for now."""

    selected: dict[int, bool]
    """Session uids of the objects -> whether they were selected, which ends when an object is hidden."""

    @property
    def remark(self) -> str:
        """What is said while they are left out; nothing if there are none."""
        return HIDDEN if self.selected else ""

    @classmethod
    def of(cls, view_layer: ViewLayer, frames: int) -> "MeshesLeftOut":
        """Leave out what follows bones in a view layer, if so many frames are to be played that it pays."""
        found: list[Any] = []
        if frames >= FEWEST_FRAMES:
            asked: set[Any] = {target for obj in armatures_in(bpy.data.objects) for target in targets_of(obj)}
            asked.add(view_layer.objects.active)
            found = [obj for obj in view_layer.objects if obj and obj not in asked and _may_be_left_out(obj)]
        selected = {obj.session_uid: obj.select_get(view_layer=view_layer) for obj in found}
        for obj in found:
            obj.hide_viewport = True
        return cls(selected)

    def show(self) -> None:
        """Have them evaluated again, and selected as before; what was deleted meanwhile does not matter."""
        view_layer = bpy.context.view_layer
        objects: list[Any] = [block_with_uid(bpy.data.objects, uid) for uid in self.selected]
        for obj in filter(None, objects):
            obj.hide_viewport = False
        for obj in filter(None, objects):
            if self.selected[obj.session_uid] and view_layer.objects.get(obj.name) == obj:
                obj.select_set(True, view_layer=view_layer)


def _may_be_left_out(obj: Object) -> bool:
    """Whether an object follows bones, and can be hidden and shown again without a trace."""
    deforms: Any = [modifier for modifier in obj.modifiers if modifier.show_viewport]
    kinds = {modifier.type for modifier in deforms}
    follows = 'ARMATURE' in kinds or obj.parent_type == 'ARMATURE'
    if obj.type not in SHAPES or obj.hide_viewport or not follows:
        return False
    return (
        not (kinds & SIMULATIONS or obj.rigid_body is not None) and obj.mode == 'OBJECT' and obj.is_editable
    )
