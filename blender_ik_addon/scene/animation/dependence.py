# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a target depends on the armature that follows it: then no pose could ever reach it."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from bpy.types import ID, Object

from ...core.errors import IKError
from .fcurves import animated_channels, driven_channels

_USES_GEOMETRY: Final = frozenset({'CLAMP_TO', 'FOLLOW_PATH', 'GEOMETRY_ATTRIBUTE', 'SHRINKWRAP'})
"""Types of constraints that look at the shape of their target, not only at its place."""

_PLACING: Final = ("location", "rotation", "scale", "delta_", "constraints[")
"""How paths of channels begin that move an object; those of its bones and of add-ons begin otherwise."""

_CUSTOM_PROPERTY: Final = re.compile(r'(.*\["[^"]+"\])(?:\[\d+\])?', re.DOTALL)
"""Paths of custom properties of objects, bones and modifiers; a component may follow."""


class _Use(NamedTuple):
    """What a data-block needs."""

    how: str
    used: ID
    shape: bool = False
    """Whether the shape of that counts, or only its place."""
    posed: bool = True
    """Whether the bones of an armature object count, or only where the object is."""


def check_independence(label: str, target: Object, armature_object: Object) -> None:
    """Refuse a target that moves when the armature that follows it is posed.

    Raises:
        IKError: It does; the message tells by which links.
    """
    if target == armature_object:
        raise IKError(
            f"effector {label!r}: its target is the armature {target.name!r} itself. "
            "Choose another object, or make an empty"
        )
    links = dependence(target, armature_object)
    if links:
        raise IKError(
            f"effector {label!r}: its target {target.name!r} depends on the armature that follows it "
            f"({', '.join(links)}). Break that link (Alt P clears a parent), or choose another target"
        )


def dependence(target: Object, armature_object: Object) -> tuple[str, ...]:
    """Return the links by which a target depends on an armature object, in words; empty if it does not.

    Followed are parents, constraints, drivers, and modifiers where the shape of a mesh decides. What one bone
    of another armature depends on is held against all of its bones. A child of the armature object itself
    does not depend on its pose, as long as nothing that moves the object does.
    """
    seen: set[tuple[ID, bool, bool]] = set()

    def search(block: ID, shape: bool, posed: bool) -> tuple[str, ...]:
        if (block, shape, posed) in seen:
            return ()
        seen.add((block, shape, posed))
        for use in _uses(block, shape) if posed else _uses_of_place(block):
            link = f"{use.how} {use.used.name!r}"
            own = use.used == armature_object
            if own and use.posed:
                return (link,)
            further = search(use.used, use.shape, not own)
            if further:
                return (link, *further)
        return ()

    return search(target, False, True)


def place_depends_on(armature_object: Object, block: ID) -> bool:
    """Whether something decides where an armature object is; a child of the object would lead in a circle."""
    seen: set[ID] = set()

    def search(uses: Iterable[_Use]) -> bool:
        for use in uses:
            if use.used == block:
                return True
            if use.used not in seen:
                seen.add(use.used)
                if search(_uses(use.used, use.shape)):
                    return True
        return False

    return search(_uses_of_place(armature_object))


def _uses(block: ID, shape: bool) -> Iterator[_Use]:
    """Give what a data-block needs.

    Args:
        block: The data-block.
        shape: Whether its shape counts, or only its place.
    """
    yield from _driving(block)
    if not isinstance(block, Object):
        return
    yield from _parent(block, shape)
    yield from _constraining(block, _constraints(block))
    if shape:
        for modifier in block.modifiers:
            for name, prop in modifier.bl_rna.properties.items():
                used = getattr(modifier, name) if prop.type == 'POINTER' else None
                if isinstance(used, Object):
                    yield _Use(f"deformed ({modifier.type}) by", used, True)
        for data in (block.data, getattr(block.data, "shape_keys", None)):
            if data is not None:
                yield _Use("of the shape", data)


def _uses_of_place(block: ID) -> Iterator[_Use]:
    """Give what decides where an armature object is, whatever its bones do."""
    yield from _driving(block, _PLACING)
    if isinstance(block, Object):
        yield from _parent(block, False)
        if len(block.constraints):  # what may switch them takes long to be found among many keys
            yield from _constraining(block, _constraints(block, of_bones=False))


def _driving(block: ID, beginnings: tuple[str, ...] = ("",)) -> Iterator[_Use]:
    """Give what drivers of channels read whose paths begin in some way."""
    animation = getattr(block, "animation_data", None)
    for curve in animation.drivers if animation is not None else ():
        if curve.mute or curve.driver is None or not curve.data_path.startswith(beginnings):
            continue
        for variable in curve.driver.variables:
            for used in variable.targets:
                plain = variable.type == 'SINGLE_PROP' and _is_plain(used.id, used.data_path)
                if used.id is not None and not plain:
                    yield _Use("driven by", used.id)


def _is_plain(block: Any, path: str) -> bool:
    """Whether a path leads to a number that is only kept with a data-block: a slider, which no pose moves."""
    found = _CUSTOM_PROPERTY.fullmatch(path)
    animation = getattr(block, "animation_data", None)
    drivers = animation.drivers if animation is not None else ()
    return found is not None and all(curve.data_path != found[1] for curve in drivers)


def _parent(block: Object, shape: bool) -> Iterator[_Use]:
    """Give the parent of an object; the kind Armature of parents deforms shapes."""
    if block.parent is None:
        return
    on_shape = block.parent_type in {'VERTEX', 'VERTEX_3'} or block.parent.type == 'CURVE'
    bone = f"bone {block.parent_bone!r} of " if block.parent_type == 'BONE' else ""
    posed = block.parent_type not in {'OBJECT', 'ARMATURE'} or (block.parent_type == 'ARMATURE' and shape)
    yield _Use(f"parented to {bone}".rstrip(), block.parent, on_shape, posed)


def _constraining(block: Object, constraints: Iterable[Any]) -> Iterator[_Use]:
    """Give the targets of constraints of an object or its bones."""
    for constraint in constraints:
        on_shape = constraint.type in _USES_GEOMETRY or bool(getattr(constraint, "subtarget", ""))
        several = [used.target for used in getattr(constraint, "targets", ())]
        for used in (getattr(constraint, "target", None), getattr(constraint, "pole_target", None), *several):
            # A bone that follows another bone of its own armature leads nowhere else.
            if used is not None and used != block:
                yield _Use(f"constrained ({constraint.type}) to", used, on_shape)


def _constraints(obj: Object, *, of_bones: bool = True) -> Iterator[Any]:
    """Give the constraints of an object, and of its bones, that act or may act at another frame."""
    switched = {path for path, _ in animated_channels(obj) | driven_channels(obj) if "constraints[" in path}
    pose_bones: Any = () if obj.pose is None or not of_bones else obj.pose.bones
    for owner in (obj, *pose_bones):
        for constraint in owner.constraints:
            if (not constraint.mute and constraint.influence > 0.0) or any(
                f"{constraint.path_from_id()}.{channel}" in switched
                for channel in ("influence", "mute", "enabled")
            ):
                yield constraint
