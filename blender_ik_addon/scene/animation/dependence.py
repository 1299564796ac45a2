# SPDX-License-Identifier: GPL-3.0-or-later
"""What places of targets and armatures depend on.

No pose reaches a target that depends on the armature; what depends on something missing is elsewhere.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from bpy.types import ID, Object

from ...core.errors import IKError
from ...core.messages import Joined, Message
from ..properties.overrides import library_of
from .fcurves import acting

_USES_GEOMETRY: Final = frozenset({'CLAMP_TO', 'FOLLOW_PATH', 'GEOMETRY_ATTRIBUTE', 'SHRINKWRAP'})
"""Types of constraints that use the shape of their target, not only its place."""

_PLACING: Final = ("location", "rotation", "scale", "delta_", "constraints[")
"""How the paths of channels begin that move an object, and not its bones."""

_CUSTOM_PROPERTY: Final = re.compile(r'(.*\["[^"]+"\])(?:\[\d+\])?', re.DOTALL)
"""Paths of custom properties of objects, bones and modifiers; a component may follow."""


class _Use(NamedTuple):
    """A data-block that is used."""

    how: str
    used: ID
    shape: bool = False
    """Whether its shape counts, or only its place."""
    posed: bool = True
    """Whether all that it consists of counts, such as bones, or only where the object is."""


def check_independence(label: str, target: Object, armature_object: Object) -> None:
    """Refuse a target that moves when the armature that follows it is posed (IKError: by which links).

    Also one that depends on what is missing from its library, and is elsewhere when that is relinked.
    """
    if target == armature_object:
        raise IKError(
            "effector {label!r}: its target is the armature {target!r} itself. Choose another object, or "
            "make an empty",
            label=label,
            target=target.name,
        )
    if links := dependence(target, armature_object):
        raise IKError(
            "effector {label!r}: its target {target!r} depends on the armature that follows it "
            "({names}). Break that link (Alt P clears a parent), or choose another target",
            label=label,
            target=target.name,
            names=Joined(", ", links),
        )
    _check_links(Message("effector {effector!r}: its target", effector=label), _Use("", target))


def check_place(armature_object: Object) -> None:
    """Refuse an armature object whose place depends on what is missing from its library (IKError)."""
    _check_links(Message("armature"), _Use("", armature_object, posed=False))


def _check_links(role: str, use: _Use) -> None:
    if found := _search(use, lambda further: _missing(further) is not None):
        links, lost = found
        raise IKError(
            "{role} {obj!r} depends on what is missing from {where} ({names}). Relink it",
            role=role,
            obj=use.used.name,
            where=library_of(_missing(lost)),
            names=Joined(", ", links),
        )


def _missing(use: _Use) -> ID | None:
    """What is missing from its library of what is used: the data-block, or its data where that counts."""
    blocks = (use.used, getattr(use.used, "data", None) if use.posed or use.shape else None)
    return next((block for block in blocks if block is not None and block.is_missing), None)


def dependence(target: Object, armature_object: Object) -> tuple[str, ...]:
    """Return the links by which a target depends on the pose of an armature object, in words; or none.

    Parents, constraints and drivers are followed, and modifiers where the shape of a mesh counts. What one
    bone of another armature depends on counts for all of its bones. A child of the armature object itself
    does not depend on its pose, unless something that moves the object does.
    """
    return _links(_Use("", target), armature_object, posed=True)


def place_depends_on(armature_object: Object, block: ID) -> bool:
    """Whether the place of an armature object depends on a data-block, which cannot be its child then."""
    return bool(_links(_Use("", armature_object, posed=False), block, posed=False))


def _links(start: _Use, block: ID, *, posed: bool) -> tuple[str, ...]:
    """Return the links from a use to one of a data-block; with `posed` its place alone does not count."""
    found = _search(start, lambda use: use.used == block and (use.posed or not posed))
    return () if found is None else found[0]


def _search(start: _Use, wanted: Callable[[_Use], bool]) -> tuple[tuple[str, ...], _Use] | None:
    """Return the links from a use to the first one that is wanted, and that; None if there is none."""
    seen: set[tuple[ID, bool, bool]] = set()

    def search(use: _Use) -> tuple[tuple[str, ...], _Use] | None:
        if use[1:] in seen:
            return None
        seen.add(use[1:])
        for further in _uses(use):
            link = Message("{how} {name!r}", how=further.how, name=further.used.name)
            if wanted(further):
                return (link,), further
            if rest := search(further):
                return (link, *rest[0]), rest[1]
        return None

    return search(start)


def _uses(use: _Use) -> Iterator[_Use]:
    """Give what a data-block uses, as far as that counts."""
    block, shape = use.used, use.shape
    whole = use.posed or shape
    yield from _drivers(block, ("",) if whole else _PLACING)
    if not isinstance(block, Object):
        return
    if block.parent is not None:
        on_shape = block.parent_type in {'VERTEX', 'VERTEX_3'} or block.parent.type == 'CURVE'
        how = (
            Message("parented to bone {parent_bone!r} of", parent_bone=block.parent_bone)
            if block.parent_type == 'BONE'
            else Message("parented to")
        )
        # The kind Armature of parents deforms shapes.
        posed = block.parent_type != 'OBJECT' and (block.parent_type != 'ARMATURE' or shape)
        yield _Use(how, block.parent, on_shape, posed)
    yield from _constraint_targets(block, of_bones=whole)
    if shape:
        for modifier in block.modifiers:
            for name, prop in modifier.bl_rna.properties.items():
                used = getattr(modifier, name) if prop.type == 'POINTER' else None
                if isinstance(used, Object):
                    yield _Use(Message("deformed ({type}) by", type=modifier.type), used, True)
        for data in (block.data, getattr(block.data, "shape_keys", None)):
            if data is not None:
                yield _Use(Message("of the shape"), data)


def _drivers(block: ID, beginnings: tuple[str, ...]) -> Iterator[_Use]:
    """Give what the drivers of channels read whose paths have one of some beginnings."""
    animation = getattr(block, "animation_data", None)
    for curve in animation.drivers if animation is not None else ():
        if curve.mute or curve.driver is None or not curve.data_path.startswith(beginnings):
            continue
        for variable in curve.driver.variables:
            for used in variable.targets:
                plain = variable.type == 'SINGLE_PROP' and _is_plain(used.id, used.data_path)
                if used.id is not None and not plain:
                    yield _Use(Message("driven by"), used.id)


def _is_plain(block: Any, path: str) -> bool:
    """Whether a path leads to a custom property without a driver: a slider, which no pose moves."""
    found = _CUSTOM_PROPERTY.fullmatch(path)
    animation = getattr(block, "animation_data", None)
    drivers = animation.drivers if animation is not None else ()
    return found is not None and all(curve.data_path != found[1] for curve in drivers)


def _constraint_targets(obj: Object, *, of_bones: bool) -> Iterator[_Use]:
    """Give the targets of constraints of an object and its bones that act, or may act at another frame."""
    bones: Any = () if obj.pose is None or not of_bones else obj.pose.bones
    for _owner, constraint in acting(obj, (obj, *bones)):
        on_shape = constraint.type in _USES_GEOMETRY or bool(getattr(constraint, "subtarget", ""))
        targets = [getattr(constraint, "target", None), getattr(constraint, "pole_target", None)]
        for used in (*targets, *(each.target for each in getattr(constraint, "targets", ()))):
            # A constraint between bones of one armature leads to no other object.
            if used is not None and used != obj:
                yield _Use(Message("constrained ({type}) to", type=constraint.type), used, on_shape)
