# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of the settings in files: what an older Poise has stored is converted when a file is read.

An armature object has the number of its settings' version; it is written when the file is saved. Files of
Poise 0.1.0 have none, which is 0. `STEPS[n]` converts version n to the next one. A step reads what the file
holds of properties that are not stored any more, which Blender keeps, and removes it: so it does nothing
where there is nothing to convert, as in settings that were made since the file was read.
"""

import logging
from collections.abc import Callable
from typing import Final

import bpy
from bpy.app.handlers import persistent
from bpy.types import Object

from ..compat import stored_values
from .app_handlers import handlers_factory
from .settings import armatures_in, settings_of

OLD_SWITCHES = ("enabled", "pinned")
OLD_RANGE = "use_scene_range"
OLD_STEP = "bake_step"


def _states_and_ranges(armature_object: Object) -> None:
    """From 0: *Enabled* and *Pinned* become a state, *Scene Frame Range* a range of a bake."""
    settings = stored_values(settings_of(armature_object))
    if OLD_RANGE in settings:
        if not settings[OLD_RANGE]:
            settings_of(armature_object).bake_range = 'CUSTOM'
        del settings[OLD_RANGE]
    for entry in settings_of(armature_object).effectors:
        stored = stored_values(entry)
        if not any(name in stored for name in OLD_SWITCHES):
            continue
        if stored.get("pinned", False):
            entry.state = 'PIN'
        if not stored.get("enabled", True):
            entry.enabled = False
        for name in OLD_SWITCHES:
            if name in stored:
                del stored[name]


def _step_with_subframes(armature_object: Object) -> None:
    """From 1: the step of a bake is no whole number any more."""
    stored = stored_values(settings_of(armature_object))
    if isinstance(stored.get(OLD_STEP), int):
        settings_of(armature_object).bake_step = float(stored[OLD_STEP])


STEPS: Final[tuple[Callable[[Object], None], ...]] = (_states_and_ranges, _step_with_subframes)
VERSION: Final = len(STEPS)
"""Of the settings as they are now."""


def convert(armature_object: Object) -> None:
    """Bring the settings of an armature object to the present version."""
    version: int = settings_of(armature_object).version
    if version > VERSION:
        logging.getLogger(__name__).warning(
            "%r has settings of version %d, saved by a newer Poise; this one knows version %d and leaves "
            "what it does not know as it is",
            *(armature_object.name, version, VERSION),
        )
    for step in STEPS[version:]:
        step(armature_object)
    # An override takes its version from its library: what it has from there is converted with each load.
    own = armature_object.library is None and armature_object.override_library is None
    if own and version < VERSION:
        settings_of(armature_object).version = VERSION


@persistent
def _convert_all(*_: object) -> None:
    """Convert all armatures: of a file that was read, linked or appended from, or is about to be saved.

    The last for those that were read while the add-on was off.
    """
    for candidate in armatures_in(bpy.data.objects):
        if candidate.is_property_set("poise"):
            convert(candidate)


_add, _remove = handlers_factory(
    ("load_post", _convert_all), ("blend_import_post", _convert_all), ("save_pre", _convert_all)
)


def register() -> None:
    """Add the handlers, and convert what is open where the add-on has just been enabled."""
    _add()
    if not bpy.app.background:  # not here: while an extension is being enabled there is no context
        bpy.app.timers.register(_convert_all, first_interval=0.0)


def unregister() -> None:
    """Take the handlers away."""
    _remove()
    if bpy.app.timers.is_registered(_convert_all):
        bpy.app.timers.unregister(_convert_all)
