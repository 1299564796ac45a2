# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that get another name: what Poise holds of them goes along, as Blender's own constraints do.

Blender tells nobody that a bone was renamed. So each bone that is named anywhere carries the name by which it
is known, `PoseBone.poise_name`; that goes along with the bone, through renaming, undo and files. Where a name
is not there any more, the bone that carries it has got another.
"""

from collections.abc import Iterator
from typing import Any

from bpy.props import StringProperty
from bpy.types import Object, PoseBone

from .effector_properties import FURTHER_BONES, OVERRIDE
from .properties import settings_of


def follow_names(armature_object: Object) -> None:
    """Let what is held of bones go by their present names, and note these."""
    if not armature_object.is_editable:
        return
    places: dict[int, tuple[Object, list[tuple[Any, str]]]] = {}
    for owner, key, of in _places(armature_object):
        if getattr(owner, key):
            places.setdefault(of.session_uid, (of, []))[1].append((owner, key))
    for of, own in places.values():
        _follow(of, own)


def _follow(of: Object, places: list[tuple[Any, str]]) -> None:
    """Let places, owner and property, name the bones of an armature object by their present names."""
    bones: Any = () if of.pose is None else of.pose.bones
    used, present = {getattr(owner, key) for owner, key in places}, {bone.name for bone in bones}
    renamed: dict[str, str] = {}
    if missing := used - present:
        for bone in bones:
            if bone.poise_name in missing:
                # Copies of a bone carry the name too: then nobody knows which is meant.
                renamed[bone.poise_name] = "" if bone.poise_name in renamed else bone.name
        for owner, key in places:
            if new := renamed.get(getattr(owner, key)):
                setattr(owner, key, new)
    if of.is_editable:
        for name in {renamed.get(name, name) for name in used} & present:
            if bones[name].poise_name != name:
                bones[name].poise_name = name


def _places(armature_object: Object) -> Iterator[tuple[Any, str, Object]]:
    """Where bones are named: owner, property, and whose bone it is."""
    settings = settings_of(armature_object)
    for entry in settings.effectors:
        for key in ("bone", *FURTHER_BONES):
            yield entry, key, armature_object
        for owner in (entry, *entry.others):
            if owner.target is not None and owner.target.type == 'ARMATURE':
                yield owner, "target_bone", owner.target
        for stored in entry.stored:
            yield stored, "name", armature_object
    for row in settings.roles:
        yield row, "bone", armature_object
        yield row, "name", armature_object
    for collection in (settings.joints, settings.masses, settings.mesh_masses):
        for own in collection:
            yield own, "name", armature_object


def register() -> None:
    """Add `PoseBone.poise_name`."""
    PoseBone.poise_name = StringProperty(  # pyright: ignore[reportAttributeAccessIssue]
        name="Known as",
        description="Name by which Poise knows this bone: where it changes, effectors and limits follow",
        override=OVERRIDE,
        options={'HIDDEN'},
    )


def unregister() -> None:
    """Take it away; what files hold of it stays in the files."""
    del PoseBone.poise_name  # pyright: ignore[reportAttributeAccessIssue]
