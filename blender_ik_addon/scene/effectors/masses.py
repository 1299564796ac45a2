# SPDX-License-Identifier: GPL-3.0-or-later
"""Masses of bones: as parts of a body, or as set by hand in `Object.poise.masses`.

A bone with an entry has the mass of the entry [kg]. Other bones have a share of the body's mass: by their
role if the table of roles is that of a human, by their length, or by the volume of the meshes that they
carry, as last measured; a solve does not read the vertices. Setting the mass of one bone changes no other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from bpy.types import Object

from ...core.character.anthropometry import body_masses
from ...core.character.volumes import bone_volumes
from ...core.errors import IKError
from ...core.model.skeleton import Skeleton
from ..armature.armature import check_armature, read_armature, world_from_armature
from ..armature.role_table import table_of
from ..properties.joint_properties import POISE_PG_mass
from ..properties.naming import note_name
from ..properties.overrides import refilled, remove_entries
from ..properties.settings import settings_of
from ..reports import counted, listed
from .frame_data import Body
from .skins import read_skin


@dataclass(frozen=True)
class MassReport:
    """Report of masses that were set."""

    bones: tuple[str, ...]
    """Bones whose mass was set."""
    total: float
    """Of all bones [kg]."""

    def summary(self) -> str:
        """Return how many bones have which weight together, for the status bar."""
        return f"masses of {counted(len(self.bones), 'bone')} set, {self.total:.3g} kg in total"


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
        said = (
            f"{counted(len(self.meshes), 'mesh', 'meshes')} of {1e3 * self.volume:.3g} litres "
            f"shared among {counted(self.bones, 'bone')}"
        )
        return "; ".join((said, *self.notes))


def measure_meshes(armature_object: Object) -> MeshReport:
    """Measure the meshes that go with an armature; bones then weigh by their volumes.

    Raises:
        IKError: The armature cannot be posed, has no mesh, or its meshes have no weights or no volume;
            nothing is changed then.
    """
    check_armature(armature_object)
    skeleton = read_armature(armature_object).skeleton
    bound = read_skin(armature_object, skeleton)
    try:
        made = bone_volumes(bound.skin, bound.armature_from_joint, skeleton.parents)
    except IKError as error:
        raise IKError(
            f"the meshes of {armature_object.name!r} ({listed(bound.meshes)}) cannot be weighed: {error}"
        ) from error
    notes = list(bound.notes)
    if made.unweighted:
        notes.append(
            "1 vertex goes with no bone and weighs nothing"
            if made.unweighted == 1
            else f"{made.unweighted} vertices go with no bone and weigh nothing"
        )
    if made.holes:
        notes.append(f"there are holes ({counted(made.holes, 'edge')} with one face): measured as if closed")
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
            f"the bones of {armature_object.name!r} have no mass that could be balanced: set some in the "
            "sidebar, tab Poise, Masses"
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


def own_masses(armature_object: Object, bones: Iterable[str]) -> MassReport:
    """Make entries for bones with their present masses, for editing.

    Raises:
        IKError: The armature cannot be posed, or has no such bone.
    """
    check_armature(armature_object)
    skeleton = read_armature(armature_object).skeleton
    body = _body(armature_object, skeleton)
    wanted = {name: float(body.masses[skeleton.index(name)]) for name in bones}
    set_bone_masses(armature_object, wanted)
    return MassReport(tuple(wanted), float(_body(armature_object, skeleton).masses.sum()))


def remove_masses(armature_object: Object, bones: Iterable[str] | None = None) -> int:
    """Remove the entries of bones, or all; returns how many there were.

    Raises:
        IKError: The armature cannot be posed, or an entry of a library override belongs to the library;
            nothing is changed then.
    """
    check_armature(armature_object)
    masses = settings_of(armature_object).masses
    chosen = None if bones is None else set(bones)
    rows = [row for row, entry in enumerate(masses) if chosen is None or entry.name in chosen]
    remove_entries(armature_object, "masses", rows, "mass", "type another mass")
    return len(rows)


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
