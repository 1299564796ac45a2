# SPDX-License-Identifier: GPL-3.0-or-later
"""The meshes that an armature carries, as one skin in armature space with weights for its bones.

A mesh goes with bones by an Armature modifier, by being parented to the armature with weights, or as a whole
by being parented to one bone. It is read as it is at rest, which asks nothing of Blender but its data. Where
modifiers make faces, a mirror for one, the mesh is read as it is shown, with the bones where they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import Skeleton
from ...core.arrays import FloatArray
from ...core.character.volumes import Skin
from ...core.errors import IKError

MAKING: Final = frozenset(
    {'ARRAY', 'BOOLEAN', 'MASK', 'MIRROR', 'NODES', 'REMESH', 'SCREW', 'SKIN', 'SOLIDIFY'}
)
"""Modifiers that add or take away so much of a mesh that its volume is another; others only refine it."""


@dataclass(frozen=True)
class BoundSkin:
    """What an armature carries."""

    skin: Skin
    """In armature space, in its own unit of length."""
    armature_from_joint: FloatArray
    """The bones in the pose in which the skin was read, (n, 4, 4)."""
    meshes: tuple[str, ...]
    """Names of the objects."""
    notes: tuple[str, ...]
    """What is worth knowing, for people."""


def read_skin(armature_object: Object, skeleton: Skeleton) -> BoundSkin:
    """Read all meshes of the scene that go with the armature and are rendered (IKError: there is none)."""
    objects = _bound(armature_object)
    if not objects:
        hidden = _bound(armature_object, rendered=False)
        raise IKError(
            f"no mesh of the scene goes with {armature_object.name!r}: "
            + (
                f"{hidden[0].name!r} is not rendered, switch that on"
                if hidden
                else "bind one to it (Object > Parent > Armature Deform), or weigh by role or by length"
            )
        )
    making = {
        modifier.type
        for thing in objects
        for modifier in thing.modifiers
        if modifier.type in MAKING and modifier.show_viewport
    }
    depsgraph = bpy.context.evaluated_depsgraph_get()
    posed: Any = armature_object.evaluated_get(depsgraph)
    data: Any = armature_object.data
    rest = np.array([data.bones[name].matrix_local for name in skeleton.names])
    shown = np.array([posed.pose.bones[name].matrix for name in skeleton.names])
    frames = shown if making else rest
    deforming = {name: joint for joint, name in enumerate(skeleton.names) if data.bones[name].use_deform}
    pieces: list[Skin] = []
    for thing in objects:
        evaluated: Any = thing.evaluated_get(depsgraph)
        armature_from_mesh = np.linalg.inv(np.array(posed.matrix_world)) @ np.array(evaluated.matrix_world)
        carrier = skeleton.index(thing.parent_bone) if _carried(thing, armature_object, skeleton) else None
        if carrier is not None and not making:
            armature_from_mesh = rest[carrier] @ np.linalg.inv(shown[carrier]) @ armature_from_mesh
        if making:
            mesh = evaluated.to_mesh()
            try:
                pieces.append(_piece(thing, mesh, armature_from_mesh, deforming, carrier))
            finally:
                evaluated.to_mesh_clear()
        else:
            pieces.append(_piece(thing, thing.data, armature_from_mesh, deforming, carrier))
    names = tuple(thing.name for thing in objects)
    notes = ()
    if making:
        kinds = ", ".join(sorted(kind.title() for kind in making))
        notes = (f"measured in the present pose, because modifiers make faces ({kinds})",)
    return BoundSkin(_joined(pieces), frames, names, notes)


def _bound(armature_object: Object, *, rendered: bool = True) -> list[Any]:
    """Objects with meshes that go with the armature, by their names."""
    found = [
        thing
        for thing in bpy.context.scene.objects
        if thing.type == 'MESH'
        and thing.hide_render is not rendered
        and (
            (thing.parent == armature_object and thing.parent_type in {'ARMATURE', 'BONE'})
            or any(m.type == 'ARMATURE' and m.object == armature_object for m in thing.modifiers)
        )
    ]
    return sorted(found, key=lambda thing: thing.name)


def _carried(thing: Any, armature_object: Object, skeleton: Skeleton) -> bool:
    """Whether a mesh goes as a whole with one bone."""
    deformed = any(m.type == 'ARMATURE' and m.object == armature_object for m in thing.modifiers)
    return thing.parent_type == 'BONE' and not deformed and thing.parent_bone in skeleton.names


def _piece(
    thing: Any, mesh: Any, armature_from_mesh: FloatArray, deforming: dict[str, int], carrier: int | None
) -> Skin:
    """Read one mesh in armature space."""
    count = len(mesh.vertices)
    places = np.empty(3 * count, dtype=np.float32)
    mesh.vertices.foreach_get("co", places)
    vertices = (
        places.reshape(-1, 3).astype(np.float64) @ armature_from_mesh[:3, :3].T + armature_from_mesh[:3, 3]
    )
    mesh.calc_loop_triangles()
    triangles = np.empty(3 * len(mesh.loop_triangles), dtype=np.int32)
    mesh.loop_triangles.foreach_get("vertices", triangles)
    if carrier is not None:
        rows = np.arange(count)
        vertex, joint, weight = rows, np.full(count, carrier), np.ones(count)
    else:
        joints = {
            group.index: deforming[group.name] for group in thing.vertex_groups if group.name in deforming
        }
        entries = [
            (row, joints[element.group], element.weight)
            for row, point in enumerate(mesh.vertices)
            for element in point.groups
            if element.group in joints and element.weight > 0.0
        ]
        table = np.array(entries, dtype=np.float64).reshape(-1, 3)
        vertex, joint, weight = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]
    return Skin(vertices, triangles.reshape(-1, 3).astype(np.int64), vertex, joint, weight)


def _joined(pieces: Sequence[Skin]) -> Skin:
    """Return several meshes as one."""
    starts = np.cumsum([0, *(len(piece.vertices) for piece in pieces)])
    pairs = list(zip(pieces, starts[:-1], strict=True))
    return Skin(
        np.concatenate([piece.vertices for piece in pieces]),
        np.concatenate([piece.triangles + start for piece, start in pairs]),
        np.concatenate([piece.vertex + start for piece, start in pairs]),
        np.concatenate([piece.joint for piece in pieces]),
        np.concatenate([piece.weight for piece in pieces]),
    )
