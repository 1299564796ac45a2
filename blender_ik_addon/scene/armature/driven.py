# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bones of an armature something else decides than their own channels: constraints and drivers.

Such a bone cannot be solved for: Blender overrides what is written into its channels. A constraint that is
off now, but whose influence is animated or driven, counts as on.
"""

import re
from typing import TYPE_CHECKING, Any, Final

import bpy

from ..animation.fcurves import animated_channels, driven_channels
from .limits import joint_entries, keeps_inside

if TYPE_CHECKING:
    from bpy.types import Constraint, Object, PoseBone

_BONE_PATH: Final = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]\.(.+)')
_HELD_IN_SPACE: Final = frozenset({'COPY_ROTATION', 'COPY_TRANSFORMS'})
"""Types of constraints that turn a bone in a space of the user's choice."""
_HELD: Final = frozenset({'TRACK_TO', 'DAMPED_TRACK', 'ARMATURE'})
"""Types that hold the orientation of a bone against something outside of it, more or less."""

_TRANSFORM: Final = re.compile(r"(location|rotation_\w+|scale)$")
_CONSTRAINT: Final = re.compile(r'constraints\["((?:[^"\\]|\\.)*)"\]\.(influence|mute|enabled)$')


def driven_bones(armature_object: "Object") -> dict[str, str]:
    """Return the bones that constraints or drivers decide -> what decides each, in words."""
    if armature_object.pose is None:
        return {}
    driven: dict[str, str] = {}
    switched: set[tuple[str, str]] = set()  # bone and constraint that is switched on and off
    drivers = {path for path, _ in driven_channels(armature_object)}
    for path in sorted(drivers | {path for path, _ in animated_channels(armature_object)}):
        match = _BONE_PATH.match(path)
        if match is None:
            continue
        bone, channel = bpy.utils.unescape_identifier(match[1]), match[2]
        if (constraint := _CONSTRAINT.match(channel)) is not None:
            switched.add((bone, bpy.utils.unescape_identifier(constraint[1])))
        elif path in drivers and _TRANSFORM.match(channel):
            driven.setdefault(bone, "a driver")
    bones: Any = armature_object.pose.bones
    entries = joint_entries(armature_object)
    for bone in bones:
        for constraint in bone.constraints:
            if keeps_inside(bone, constraint, entries.get(bone.name)):
                continue  # what is solved keeps inside, so it changes nothing
            if _decides(constraint, (bone.name, constraint.name) in switched):
                for affected in _affected_bones(bone, constraint):
                    driven.setdefault(affected, f"a constraint ({constraint.type})")
    return {bone.name: driven[bone.name] for bone in bones if bone.name in driven}


def steady_bones(armature_object: "Object") -> frozenset[str]:
    """Return the bones that constraints keep turned the same way in armature space, as parents turn.

    The others that something decides turn with their parents, as far as can be known before it is seen.
    """
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    return frozenset(
        bone.name
        for bone in bones
        if any(_holds(bone, constraint, armature_object) for constraint in bone.constraints)
    )


def _holds(bone: "PoseBone", constraint: Any, armature_object: "Object") -> bool:
    """Return whether a constraint holds the orientation of its bone against what hardly turns.

    That is what lies outside of the body, and what the bone hangs on further up: a head that stays upright
    by the torso (Rigify) turns with that, and not with the spine between them.
    """
    if not constraint.is_valid or constraint.mute or constraint.influence < 0.5:
        return False
    own = [constraint, *getattr(constraint, "targets", ())]
    inside = [target.subtarget for target in own if getattr(target, "target", None) == armature_object]
    if inside:
        further_up = {ancestor.name for ancestor in bone.parent_recursive[1:]}
        if not further_up.issuperset(inside):  # it moves itself
            return False
    if constraint.type in _HELD_IN_SPACE:
        axes = [getattr(constraint, f"use_{axis}", True) for axis in "xyz"]
        return (
            constraint.owner_space in {'WORLD', 'POSE', 'CUSTOM'}
            and constraint.mix_mode == 'REPLACE'
            and all(axes)
        )
    return constraint.type in _HELD


def _decides(constraint: "Constraint", switched: bool) -> bool:
    """Return whether a constraint moves its bone, now or at a time when it is switched on."""
    return constraint.is_valid and (switched or (not constraint.mute and constraint.influence > 0.0))


def _affected_bones(bone: "PoseBone", constraint: Any) -> list[str]:
    """Return the bones that a constraint moves: its own and, for both kinds of IK, the chain above it."""
    if constraint.type not in {'IK', 'SPLINE_IK'}:
        return [bone.name]
    tip = bone if constraint.type == 'SPLINE_IK' or constraint.use_tail else bone.parent
    chain = [] if tip is None else [tip.name, *(ancestor.name for ancestor in tip.parent_recursive)]
    return [bone.name, *(chain[: constraint.chain_count] if constraint.chain_count else chain)]
