# SPDX-License-Identifier: GPL-3.0-or-later
"""Masses of bones: as parts of a body, or as set by hand in `Object.poise.masses`.

A bone with an entry has the mass of the entry [kg]. Other bones have a share of the body's mass: by their
role if the table of roles is that of a human, by their length, or by the volume of the meshes that they
carry, as last measured; a solve does not read the vertices. Setting the mass of one bone changes no other.

A mesh goes with bones by an Armature modifier, by being parented to the armature with weights, or as a whole
by being parented to one bone. It is read as it is at rest, which asks nothing of Blender but its data. Where
modifiers make faces, a mirror for one, the mesh is read as it is shown, with the bones where they are.

What cannot be posed, weighed or removed is refused by an `IKError`, and nothing is changed then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core.amounts import number_of_bones
from ...core.arrays import FloatArray
from ...core.character.anthropometry import body_masses
from ...core.character.volumes import Skin, bone_volumes
from ...core.errors import IKError
from ...core.messages import Joined, Message, counted, listed
from ...core.model.skeleton import Skeleton
from ..armature.armature import check_armature, read_armature, world_from_armature
from ..armature.role_table import table_of
from ..kinds.frame_data import Body, points_of
from ..properties.naming import bone_names, note_name
from ..properties.overrides import refilled, remove_entries
from ..properties.settings import POISE_PG_mass, settings_of
from ..units import litres


@dataclass(frozen=True)
class MeshReport:
    """Report of measured meshes."""

    bones: int
    """How many bones carry a part of a mesh."""
    meshes: tuple[str, ...]
    """Names of the objects."""
    volume: float
    """[m³]"""
    notes: tuple[str, ...]
    """What was left out or is uncertain, one sentence each."""

    def summary(self) -> str:
        """Return what was measured, for the status bar."""
        shared = counted(
            len(self.meshes),
            "{count} mesh of {volume:.3g} litres shared among {bones}",
            "{count} meshes of {volume:.3g} litres shared among {bones}",
            volume=litres(self.volume),
            bones=number_of_bones(self.bones),
        )
        return Joined("; ", (shared, *self.notes))


def measure_meshes(armature_object: Object) -> MeshReport:
    """Measure the meshes that go with an armature; bones then weigh by their volumes."""
    check_armature(armature_object)
    skeleton = read_armature(armature_object).skeleton
    bound = read_skin(armature_object, skeleton)
    try:
        made = bone_volumes(bound.skin, bound.armature_from_joint, skeleton.parents)
    except IKError as error:
        raise IKError(
            "the meshes of {armature!r} ({meshes}) cannot be weighed: {error}",
            armature=armature_object.name,
            meshes=listed(bound.meshes),
            error=error.message,
        ) from error
    notes = list(bound.notes)
    if made.unweighted:
        notes.append(
            counted(
                made.unweighted,
                "{count} vertex goes with no bone and weighs nothing",
                "{count} vertices go with no bone and weigh nothing",
            )
        )
    if made.holes:
        notes.append(
            counted(
                made.holes,
                "there are holes ({count} edge with one face): measured as if closed",
                "there are holes ({count} edges with one face): measured as if closed",
            )
        )
    scale = world_from_armature(armature_object)[1]
    settings = settings_of(armature_object)
    joints = np.flatnonzero(made.shares)
    for joint, entry in zip(joints, refilled(settings.mesh_masses, len(joints)), strict=True):
        note_name(armature_object, skeleton.names[joint])
        entry.name = skeleton.names[joint]
        entry.share = float(made.shares[joint])
        entry.centre = made.centres[joint].tolist()
    settings.mesh_volume = made.total * scale**3
    settings.mass_source = 'MESHES'
    return MeshReport(int((made.shares > 0.0).sum()), bound.meshes, settings.mesh_volume, tuple(notes))


def body_of(armature_object: Object, skeleton: Skeleton) -> Body:
    """Return what the bones of a skeleton weigh, and where (IKError: no bone has any mass)."""
    body = _body(armature_object, skeleton)
    if not (np.isfinite(body.masses).all() and body.masses.sum() > 0.0):
        raise IKError(
            "the bones of {armature!r} have no mass that could be balanced: set some in the "
            "sidebar, tab Poise, Masses",
            armature=armature_object.name,
        )
    return body


def _body(armature_object: Object, skeleton: Skeleton) -> Body:
    data: Any = armature_object.data
    bones = [data.bones[name] for name in skeleton.names]
    lengths = np.array([bone.length for bone in bones])
    settings = settings_of(armature_object)
    rows = table_of(armature_object) if settings.mass_source != 'LENGTHS' else ()
    found = body_masses(skeleton.names, lengths, np.array([bone.use_deform for bone in bones]), rows)
    masses = settings.body_mass * found.shares
    centres = np.zeros((len(lengths), 3))
    centres[:, 1] = found.centres * lengths
    if settings.mass_source == 'MESHES':
        shares, measured = np.zeros(len(lengths)), np.zeros((len(lengths), 3))
        joints = {name: joint for joint, name in enumerate(skeleton.names)}
        for entry in settings.mesh_masses:
            if (joint := joints.get(entry.name)) is not None:
                shares[joint], measured[joint] = entry.share, entry.centre
        if shares.any():  # none of them may be there any more
            masses = settings.body_mass * shares / shares.sum()
            centres = np.where(shares[:, None] > 0.0, measured, centres)
    entries = mass_entries(armature_object)
    for joint, name in enumerate(skeleton.names):
        if name in entries:
            masses[joint] = entries[name].mass
    return Body(masses, centres)


def mass_entries(armature_object: Object) -> dict[str, POISE_PG_mass]:
    """Return the masses that are set, by the names of their bones."""
    return {entry.name: entry for entry in settings_of(armature_object).masses}


def own_masses(armature_object: Object, bones: Iterable[str]) -> None:
    """Make entries for bones with their present masses, for editing."""
    check_armature(armature_object)
    skeleton = read_armature(armature_object).skeleton
    body = _body(armature_object, skeleton)
    set_bone_masses(
        armature_object, {name: float(body.masses[skeleton.index(name)]) for name in bone_names(bones)}
    )


def remove_masses(armature_object: Object, bones: Iterable[str] | None = None) -> int:
    """Remove the entries of bones, or all; returns how many there were."""
    check_armature(armature_object)
    return remove_entries(armature_object, "masses", bones, Message("mass"), Message("type another mass"))


def set_bone_masses(armature_object: Object, masses: Mapping[str, float]) -> None:
    """Write masses [kg] into the entries of bones, new ones where there are none."""
    collection = settings_of(armature_object).masses
    for name, mass in masses.items():
        entry: Any = mass_entries(armature_object).get(name)
        if entry is None:
            note_name(armature_object, name)
            entry = collection.add()
            entry.name = name
        entry.mass = mass


# Meshes

MAKING: Final = frozenset(
    {'ARRAY', 'BOOLEAN', 'MASK', 'MIRROR', 'NODES', 'REMESH', 'SCREW', 'SKIN', 'SOLIDIFY'}
)
"""Modifiers that add or take away so much of a mesh that its volume is another; others only refine it."""


@dataclass(frozen=True)
class BoundSkin:
    """The meshes that an armature carries."""

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
        if hidden:
            raise IKError(
                "no mesh of the scene goes with {armature!r}: {mesh!r} is not rendered, switch that on",
                armature=armature_object.name,
                mesh=hidden[0].name,
            )
        raise IKError(
            "no mesh of the scene goes with {armature!r}: bind one to it (Object > Parent > Armature "
            "Deform), or weigh by role or by length",
            armature=armature_object.name,
        )
    modifiers = (modifier for thing in objects for modifier in thing.modifiers)
    making = {m.type for m in modifiers if m.type in MAKING and m.show_viewport}
    depsgraph = bpy.context.evaluated_depsgraph_get()
    posed: Any = armature_object.evaluated_get(depsgraph)
    bones = [posed.data.bones[name] for name in skeleton.names]
    rest = np.array([bone.matrix_local for bone in bones])
    shown = np.array([posed.pose.bones[name].matrix for name in skeleton.names])
    deforming = {bone.name: joint for joint, bone in enumerate(bones) if bone.use_deform}
    armature_from_world = np.linalg.inv(np.array(posed.matrix_world))
    pieces: list[Skin] = []
    for thing in objects:
        evaluated: Any = thing.evaluated_get(depsgraph)
        armature_from_mesh = armature_from_world @ np.array(evaluated.matrix_world)
        carrier = None
        if thing.parent_type == 'BONE' and not _is_deformed(thing, armature_object):
            carrier = skeleton.index(thing.parent_bone) if thing.parent_bone in skeleton.names else None
        if carrier is not None and not making:
            armature_from_mesh = rest[carrier] @ np.linalg.inv(shown[carrier]) @ armature_from_mesh
        try:
            mesh = evaluated.to_mesh() if making else thing.data
            pieces.append(_piece(thing, mesh, armature_from_mesh, deforming, carrier))
        finally:
            evaluated.to_mesh_clear()
    starts = np.cumsum([0, *(len(piece.vertices) for piece in pieces)])
    skin = Skin(
        np.concatenate([piece.vertices for piece in pieces]),
        np.concatenate([piece.triangles + start for piece, start in zip(pieces, starts, strict=False)]),
        np.concatenate([piece.vertex + start for piece, start in zip(pieces, starts, strict=False)]),
        np.concatenate([piece.joint for piece in pieces]),
        np.concatenate([piece.weight for piece in pieces]),
    )
    kinds = ", ".join(sorted(kind.title() for kind in making))
    notes = (
        (Message("measured in the present pose, because modifiers make faces ({kinds})", kinds=kinds),)
        if making
        else ()
    )
    return BoundSkin(skin, shown if making else rest, tuple(thing.name for thing in objects), notes)


def _is_deformed(thing: Any, armature_object: Object) -> bool:
    return any(m.type == 'ARMATURE' and m.object == armature_object for m in thing.modifiers)


def _bound(armature_object: Object, *, rendered: bool = True) -> list[Any]:
    """Objects with meshes that go with the armature, by their names."""
    found = [
        thing
        for thing in bpy.context.scene.objects
        if thing.type == 'MESH'
        and thing.hide_render is not rendered
        and (
            (thing.parent == armature_object and thing.parent_type in {'ARMATURE', 'BONE'})
            or _is_deformed(thing, armature_object)
        )
    ]
    return sorted(found, key=lambda thing: thing.name)


def _piece(
    thing: Any, mesh: Any, armature_from_mesh: FloatArray, deforming: dict[str, int], carrier: int | None
) -> Skin:
    """Read one mesh in armature space; all of it goes with the carrier, if there is one."""
    places = np.empty((len(mesh.vertices), 3), dtype=np.float32)
    mesh.vertices.foreach_get("co", places.reshape(-1))
    mesh.calc_loop_triangles()
    triangles = np.empty((len(mesh.loop_triangles), 3), dtype=np.int32)
    mesh.loop_triangles.foreach_get("vertices", triangles.reshape(-1))
    if carrier is not None:
        rows = [(row, carrier, 1.0) for row in range(len(places))]
    else:
        groups = thing.vertex_groups
        joints = {group.index: deforming[group.name] for group in groups if group.name in deforming}
        rows = [
            (row, joints[element.group], element.weight)
            for row, point in enumerate(mesh.vertices)
            for element in point.groups
            if element.group in joints and element.weight > 0.0
        ]
    vertex, joint, weight = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    vertices = points_of(armature_from_mesh, places.astype(np.float64))
    return Skin(vertices, triangles.astype(np.int64), vertex.astype(np.int64), joint.astype(np.int64), weight)
