# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigify's basic human with a skin, for pictures and for the files that the tutorials begin with."""

from __future__ import annotations

from typing import Any, Final

import bpy  # first: bmesh comes with it

import bmesh  # isort: skip
from mathutils import Matrix

from .scenario import body_parts

VOXEL: Final = 0.014
"""Of the skin [m]."""
SKIN: Final = (0.80, 0.62, 0.50)
"""Colour of the skin, red, green, blue [1]."""
GROUND: Final = (0.62, 0.66, 0.70)
"""Colour of the ground."""


def skinned_figure() -> Any:
    """Rigify's basic human with a skin, alone on a ground."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    bpy.ops.preferences.addon_enable(module="rigify")
    bpy.ops.object.armature_basic_human_metarig_add()
    figure = bpy.context.view_layer.objects.active
    give_skin(figure)
    bpy.ops.mesh.primitive_plane_add(size=30.0)
    bpy.context.object.data.materials.append(coloured("ground", GROUND))
    bpy.context.view_layer.objects.active = figure
    return figure


def give_skin(figure: Any) -> None:
    """Give the figure one skin, weighted by Blender; nothing but both is selected then."""
    shape = bmesh.new()
    for part in body_parts(figure):
        world_from_bone = figure.data.bones[part.bone].matrix_local
        ball = bmesh.new()
        for centre, radius in zip(part.centres_bone, part.radii, strict=True):
            place = world_from_bone @ Matrix.Translation(centre)
            bmesh.ops.create_icosphere(ball, subdivisions=3, radius=float(radius), matrix=place)
        hull = bmesh.ops.convex_hull(ball, input=list(ball.verts), use_existing_faces=False)
        inside = {item for key in ("geom_interior", "geom_unused") for item in hull[key]}
        lost: list[Any] = [item for item in inside if isinstance(item, bmesh.types.BMVert)]
        bmesh.ops.delete(ball, geom=lost, context='VERTS')
        piece = bpy.data.meshes.new("piece")
        ball.to_mesh(piece)
        ball.free()
        shape.from_mesh(piece)
        bpy.data.meshes.remove(piece)
    mesh: Any = bpy.data.meshes.new("skin")
    shape.to_mesh(mesh)
    shape.free()
    skin: Any = bpy.data.objects.new("skin", mesh)
    bpy.context.scene.collection.objects.link(skin)
    remesh = skin.modifiers.new("one", 'REMESH')
    remesh.mode, remesh.voxel_size, remesh.use_smooth_shade = 'VOXEL', VOXEL, True
    smooth = skin.modifiers.new("smooth", 'SMOOTH')
    smooth.iterations = 6
    whole = bpy.data.meshes.new_from_object(skin.evaluated_get(bpy.context.evaluated_depsgraph_get()))
    skin.modifiers.clear()
    skin.data = whole
    whole.shade_smooth()
    for bone in figure.data.bones:
        bone.use_deform = not bone.name.startswith(("breast", "pelvis", "heel"))
    bpy.ops.object.select_all(action='DESELECT')
    for thing in (figure, skin):
        thing.select_set(True)
    bpy.context.view_layer.objects.active = figure
    bpy.ops.object.parent_set(type='ARMATURE_AUTO')
    whole.materials.append(coloured("skin", SKIN))


def coloured(name: str, colour: tuple[float, float, float]) -> Any:
    """A new material of one colour, red, green, blue [1]."""
    material: Any = bpy.data.materials.new(name)
    if material.node_tree is None:  # always there from Blender 5.0 on
        material.use_nodes = True
    material.diffuse_color = (*colour, 1.0)
    surface = material.node_tree.nodes["Principled BSDF"]
    surface.inputs["Base Color"].default_value = (*colour, 1.0)
    surface.inputs["Roughness"].default_value = 0.7
    return material
