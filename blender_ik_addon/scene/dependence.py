# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a target depends on the armature that follows it: then no pose could ever reach it."""

from collections.abc import Iterator
from typing import Any, Final

from bpy.types import ID, Object

from ..core.errors import IKError
from .animation import animated_channels, driven_channels

_USES_GEOMETRY: Final = frozenset({'CLAMP_TO', 'FOLLOW_PATH', 'GEOMETRY_ATTRIBUTE', 'SHRINKWRAP'})
"""Types of constraints that look at the shape of their target, not only at its place."""


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
    of another armature depends on is held against all of its bones.
    """
    seen: set[tuple[ID, bool]] = set()

    def search(block: ID, shape: bool) -> tuple[str, ...]:
        if (block, shape) in seen:
            return ()
        seen.add((block, shape))
        for how, used, used_shape in _uses(block, shape):
            link = f"{how} {used.name!r}"
            if used in (armature_object, armature_object.data):
                return (link,)
            further = search(used, used_shape)
            if further:
                return (link, *further)
        return ()

    return search(target, False)


def _uses(block: ID, shape: bool) -> Iterator[tuple[str, ID, bool]]:
    """Give what a data-block needs: how, what, and whether the shape of that counts or only its place."""
    animation = getattr(block, "animation_data", None)
    for curve in animation.drivers if animation is not None else ():
        for variable in () if curve.mute or curve.driver is None else curve.driver.variables:
            yield from (("driven by", used.id, False) for used in variable.targets if used.id is not None)
    if not isinstance(block, Object):
        return
    if block.parent is not None:
        on_shape = block.parent_type in {'VERTEX', 'VERTEX_3'} or block.parent.type == 'CURVE'
        bone = f"bone {block.parent_bone!r} of " if block.parent_type == 'BONE' else ""
        yield f"parented to {bone}".rstrip(), block.parent, on_shape
    for constraint in _constraints(block):
        on_shape = constraint.type in _USES_GEOMETRY or bool(getattr(constraint, "subtarget", ""))
        several = [used.target for used in getattr(constraint, "targets", ())]
        for used in (getattr(constraint, "target", None), getattr(constraint, "pole_target", None), *several):
            # A bone that follows another bone of its own armature leads nowhere else.
            if used is not None and used != block:
                yield f"constrained ({constraint.type}) to", used, on_shape
    if shape:
        for modifier in block.modifiers:
            for name, prop in modifier.bl_rna.properties.items():
                used = getattr(modifier, name) if prop.type == 'POINTER' else None
                if isinstance(used, Object):
                    yield f"deformed ({modifier.type}) by", used, True
        for data in (block.data, getattr(block.data, "shape_keys", None)):
            if data is not None:
                yield "of the shape", data, False


def _constraints(obj: Object) -> Iterator[Any]:
    """Give the constraints of an object and its bones that act, or may act at another frame."""
    switched = {path for path, _ in animated_channels(obj) | driven_channels(obj) if "constraints[" in path}
    pose_bones: Any = () if obj.pose is None else obj.pose.bones
    for owner in (obj, *pose_bones):
        for constraint in owner.constraints:
            if (not constraint.mute and constraint.influence > 0.0) or any(
                f"{constraint.path_from_id()}.{channel}" in switched
                for channel in ("influence", "mute", "enabled")
            ):
                yield constraint
