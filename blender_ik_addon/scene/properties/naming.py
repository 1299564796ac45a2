# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that get another name: what Poise holds of them goes along, as Blender's own constraints do.

Blender tells nobody that a bone was renamed. So each bone that is named anywhere carries the name by which it
is known, `PoseBone.poise_name`; that goes along with the bone, through renaming, undo and files. A bone that
carries another name than its own has got a new one, if the armature has other names than were noted. If not,
it was pasted: Paste Pose copies the custom properties of bones, and flipped it copies them to the other side.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

from bpy.types import Object, PoseBone

from ...core.errors import IKError
from .declared import text
from .settings import FURTHER_BONES, settings_of

NAMES_DIGEST_SIZE: Final = 8
"""[bytes]"""


def follow_names(armature_object: Object) -> None:
    """Let what is held of bones go by their present names, and note these.

    In Edit Mode names wait until it is left: its own undo takes them back, and knows nothing of objects.
    """
    if not armature_object.is_editable:
        return
    places: dict[int, tuple[Object, list[tuple[Any, str]]]] = {}
    for owner, key, of in _places(armature_object):
        if getattr(owner, key):
            places.setdefault(of.session_uid, (of, []))[1].append((owner, key))
    for of, own in places.values():
        data: Any = of.data
        if not data.is_editmode:
            _follow(of, own)


def pose_bone(armature_object: Object, name: str) -> PoseBone:
    """Return a bone by its name, for use within one call only (IKError: there is none)."""
    pose: Any = armature_object.pose
    if pose is None or not isinstance(name, str) or name not in pose.bones:
        raise IKError(
            "{armature!r} has no bone {name!r}: choose one of its bones",
            armature=armature_object.name,
            name=name,
        )
    return pose.bones[name]


def bone_names(bones: Iterable[str]) -> list[str]:
    """Return the names that are given, each once; one alone stands for itself (IKError: it is none)."""
    names = [bones] if isinstance(bones, str) or not isinstance(bones, Iterable) else list(bones)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise IKError("bones are given by their names, got {bones!r}", bones=wrong[0])
    return list(dict.fromkeys(names))


def digest_of_names(names: Iterable[str]) -> bytes:
    """Return 64 bits that differ where bones have other names, or another order."""
    return blake2b("\0".join(names).encode(), digest_size=NAMES_DIGEST_SIZE).digest()


def note_name(armature_object: Object, bone_name: str) -> None:
    """Note the name of a bone for which an entry is about to be made; what was known by it is not meant."""
    bones: Any = {} if armature_object.pose is None else armature_object.pose.bones
    bone = bones.get(bone_name)
    if bone is None or bone.poise_name == bone_name or not armature_object.is_editable:
        return
    if bone.poise_name:  # by which others may still know it
        follow_names(armature_object)
    bone.poise_name = bone_name


def _follow(of: Object, places: list[tuple[Any, str]]) -> None:
    """Let places, owner and property, name the bones of an armature object by their present names."""
    bones: Any = () if of.pose is None else of.pose.bones
    used = {getattr(owner, key) for owner, key in places}
    known = {bone.name: bone.poise_name for bone in bones}
    names = digest_of_names(known).hex()
    same_names = names == settings_of(of).names_digest
    # Bones that were copied carry the names of those that they are copies of; so do poses that were pasted.
    copies = [
        name
        for name, of_whom in known.items()
        if name != of_whom and (same_names or known.get(of_whom) == of_whom)
    ]
    renamed = _renamed(used, {name: "" if name in copies else of_whom for name, of_whom in known.items()})
    if renamed:
        for owner, key in places:
            if new := renamed.get(getattr(owner, key)):
                setattr(owner, key, new)
    if of.is_editable:
        if not same_names:
            settings_of(of).names_digest = names
        for name in copies:
            if known[name]:
                bones[name].poise_name = ""
        for name in {renamed.get(name, name) for name in used} & known.keys():
            if known[name] != name:
                bones[name].poise_name = name


def _renamed(used: set[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return names in use -> the present names of bones that were known by them, where these are others.

    `known` is the present name of each bone -> the name by which it was known, empty for none.
    """
    carriers: dict[str, list[str]] = {}
    for name, before in known.items():
        carriers.setdefault(before, []).append(name)
    # Names may be exchanged (Flip Names): what is called so now need not be what was. Where several carry
    # a name nobody knows which is meant.
    moved = (name for name in used if known.get(name) != name)
    return {name: carriers[name][0] for name in moved if len(carriers.get(name, ())) == 1}


def _places(armature_object: Object) -> Iterator[tuple[Any, str, Object]]:
    """Where bones are named: owner, property, and whose bone it is."""
    settings = settings_of(armature_object)
    for entry in settings.effectors:
        for key in ("bone", "toe_bone", *FURTHER_BONES):
            yield entry, key, armature_object
        for owner in (entry, *entry.others):
            if owner.target is not None and owner.target.type == 'ARMATURE':
                yield owner, "target_bone", owner.target
        for stored in entry.stored:
            yield stored, "name", armature_object
    for row in settings.roles:
        yield row, "bone", armature_object
    for own in chain(settings.roles, settings.joints, settings.masses, settings.mesh_masses):
        yield own, "name", armature_object


def register() -> None:
    """Add `PoseBone.poise_name`."""
    declared = text("Known As", options={'HIDDEN'})
    PoseBone.poise_name = declared(  # pyright: ignore[reportAttributeAccessIssue]
        "Name by which Poise knows this bone: where it changes, effectors and limits follow"
    )


def unregister() -> None:
    """Take it away; what files hold of it stays in the files."""
    del PoseBone.poise_name  # pyright: ignore[reportAttributeAccessIssue]
