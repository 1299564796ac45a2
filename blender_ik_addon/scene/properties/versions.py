# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of older versions of Poise: what is stored in them is converted when they are read.

Before effectors had a state they had two switches, *Enabled* and *Pinned*; before a bake had several ranges
it had the switch *Scene Frame Range*. Blender keeps what a file holds of properties that are not stored any
more: from these follow the state and the range, and then they are removed.
"""

import bpy
from bpy.app.handlers import persistent
from bpy.types import Object

from ..compat import stored_values
from .app_handlers import handlers_factory
from .settings import settings_of

OLD_SWITCHES = ("enabled", "pinned")
OLD_RANGE = "use_scene_range"


def convert(armature_object: Object) -> None:
    """Give effectors of an older file the states that do what they did there, and the bake its range."""
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


@persistent
def _convert_all(*_: object) -> None:
    """Do so for all armatures of the file, or those that were linked or appended."""
    for candidate in bpy.data.objects:
        if candidate.type == 'ARMATURE' and candidate.is_property_set("poise"):
            convert(candidate)


_add, _remove = handlers_factory(("load_post", _convert_all), ("blend_import_post", _convert_all))


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
