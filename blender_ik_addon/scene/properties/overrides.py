# SPDX-License-Identifier: GPL-3.0-or-later
"""Library overrides: what Poise adds is kept when the file is saved; what the library has cannot be removed.

Blender saves of an override how it differs from the linked object. From 5.0 on it compares the properties of
add-ons only where both sides have them: without a single one in the linked object all would be saved as
"another Poise", which is refused on loading, and effectors and limits would be gone. Reading a property of
a group is what makes Blender create it; in a linked object it lasts until the file is closed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import bpy
from bpy.app.handlers import persistent
from bpy.types import ID, Object

from ...core.errors import IKError
from ...core.messages import Message, listed
from .app_handlers import handlers_factory
from .naming import bone_names
from .settings import armatures_in, settings_of


def library_of(block: ID | None) -> str:
    """Return the file that a data-block is linked from, for messages."""
    library = None if block is None else block.library
    return Message("its file") if library is None else library.filepath


def prepare_override(armature_object: Object) -> None:
    """Let Blender compare the settings of an override with those of its linked object."""
    override = armature_object.override_library
    if override is not None and isinstance(override.reference, Object):
        _ = settings_of(override.reference).live


def names_of_library(armature_object: Object, name: str) -> frozenset[str]:
    """Return the names of the entries of a list of the settings that an override has from its library."""
    override = armature_object.override_library
    if override is None or not isinstance(override.reference, Object):
        return frozenset()
    return frozenset(entry.name for entry in getattr(settings_of(override.reference), name))


def remove_entries(
    armature_object: Object, name: str, bones: Iterable[str] | None, what: str, instead: str
) -> int:
    """Remove the entries of bones, or all, from a list of the settings; return how many there were.

    Args:
        name: Of the list, whose entries are called as their bones are.
        bones: Whose entries; None for all.
        what: What an entry says of a bone.
        instead: What the user can do where it cannot be removed.

    Raises:
        IKError: An entry of a library override belongs to the library; nothing is changed then.
    """
    entries: Any = getattr(settings_of(armature_object), name)
    wanted = None if bones is None else bone_names(bones)
    rows = [row for row, entry in enumerate(entries) if wanted is None or entry.name in wanted]
    known = names_of_library(armature_object, name)
    if theirs := [entries[row].name for row in rows if entries[row].name in known]:
        raise _belongs_to_library(
            Message("the entry for the {what} of {names}", what=what, names=listed(theirs)), instead
        )
    for row in reversed(rows):
        entries.remove(row)
    return len(rows)


@contextmanager
def only_own(label: str, instead: str) -> Iterator[None]:
    """Raise an `IKError` where Blender refuses to remove or move what belongs to the library."""
    try:
        yield
    except TypeError as error:  # all that Blender says is that the list does not support it
        raise _belongs_to_library(label, instead) from error


def _belongs_to_library(label: str, instead: str) -> IKError:
    return IKError(
        "{entry} belongs to the library, it cannot be removed or moved here: {instead} instead",
        entry=label,
        instead=instead,
    )


def refilled(entries: Any, count: int) -> list[Any]:
    """Empty a list of the settings, and return so many entries of it to be filled.

    Those that belong to the library stay: they are filled first, and what is left of them says nothing.
    """
    entries.clear()
    while len(entries) < count:
        entries.add()
    for entry in entries[count:]:
        for prop in entry.bl_rna.properties:
            if not prop.is_readonly:
                entry.property_unset(prop.identifier)
    return entries[:count]


@persistent
def _prepare_all(*_: object) -> None:
    """Do so for all armatures of the file: before it is saved, and as soon as it is loaded."""
    for candidate in armatures_in(bpy.data.objects):
        prepare_override(candidate)


register, unregister = handlers_factory(("save_pre", _prepare_all), ("load_post", _prepare_all))
