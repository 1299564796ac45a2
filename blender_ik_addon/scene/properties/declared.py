# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties as Poise declares them: `name: type = text("Name")("Description")` in a class of `Declared`.

Ranges and the like stand beside the name. Each property has a description, and is kept in library overrides.
"""

from collections.abc import Callable
from typing import Any, Final

from bpy import props

from ...core.errors import check_known

Flags3 = tuple[bool, bool, bool]

OVERRIDE: Final[set[Any]] = {'LIBRARY_OVERRIDABLE'}


class Declared:
    """A property group whose properties are declared as the fields of a dataclass are.

    Blender wants them as annotations, where a type checker wants types: they go there when the class is made.
    """

    def __init_subclass__(cls) -> None:
        """Hand the declarations to Blender."""
        declarations = {name: cls.__dict__[name] for name in cls.__annotations__}
        for name in declarations:
            delattr(cls, name)
        cls.__annotations__ = declarations


def again(group: type[Declared], name: str, **settings: Any) -> Any:
    """Return what a group declares of a property, for an operator that begins with its value."""
    declared = group.__annotations__[name]
    return declared.function(**{**declared.keywords, "override": set()} | settings)


def check_item(group: type[Declared], name: str, given: object) -> None:
    """Refuse what the menu of a group's property does not have (IKError: what there is)."""
    menu = group.__annotations__[name].keywords
    check_known(menu["name"], given, [item[0] for item in menu["items"]])


def _kept(make: Callable[..., Any], **always: Any) -> Callable[..., Callable[[str], Any]]:
    """Return what declares properties of one type."""

    def declare(name: str, **settings: Any) -> Callable[[str], Any]:
        return lambda text: make(name=name, description=text, **({"override": OVERRIDE} | always | settings))

    return declare


text = _kept(props.StringProperty)
flag = _kept(props.BoolProperty)
whole = _kept(props.IntProperty)
wholes = _kept(props.IntVectorProperty)
number = _kept(props.FloatProperty)
numbers = _kept(props.FloatVectorProperty)
enum = _kept(props.EnumProperty)
link = _kept(props.PointerProperty)
entries = _kept(props.CollectionProperty, override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'})
length = _kept(props.FloatProperty, subtype='DISTANCE', unit='LENGTH')
angle = _kept(props.FloatProperty, subtype='ANGLE', unit='ROTATION')
offset = _kept(props.FloatVectorProperty, size=3, subtype='TRANSLATION', unit='LENGTH')
angles = _kept(props.FloatVectorProperty, size=3, subtype='EULER', unit='ROTATION')
axes = _kept(props.BoolVectorProperty, size=3, subtype='XYZ')
