# SPDX-License-Identifier: GPL-3.0-or-later
"""Driven bones: those that constraints or drivers pose, and not their own channels.

A constraint that is off now, but whose influence is animated or driven, counts as on.
"""

import re
from typing import Any, Final

from bpy.types import Object, PoseBone
from bpy.utils import unescape_identifier

from ...core.messages import Message
from ..animation.fcurves import animated_channels, driven_channels
from .limits import joint_entries, keeps_inside

_BONE_PATH: Final = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]\.(.+)')
_TRANSFORM: Final = re.compile(r"(location|rotation_\w+|scale)$")
_CONSTRAINT: Final = re.compile(r'constraints\["((?:[^"\\]|\\.)*)"\]\.(influence|mute|enabled)$')

_TURNING_IN_SPACE: Final = frozenset({'COPY_ROTATION', 'COPY_TRANSFORMS'})
"""Types of constraints that turn a bone in a space of the user's choice."""

_TURNING: Final = frozenset({'TRACK_TO', 'DAMPED_TRACK', 'ARMATURE'})
"""Types that turn a bone in the space of the armature, more or less."""


def driven_bones(armature_object: Object) -> dict[str, str]:
    """Return the bones that constraints or drivers pose -> which of them does, in words."""
    if armature_object.pose is None:
        return {}
    driven: dict[str, str] = {}
    switched: set[tuple[str, str]] = set()  # bone and constraint that is switched on and off
    drivers = driven_channels(armature_object)
    for path, index in sorted(drivers | animated_channels(armature_object)):
        if (match := _BONE_PATH.match(path)) is None:
            continue
        bone, channel = unescape_identifier(match[1]), match[2]
        if (constraint := _CONSTRAINT.match(channel)) is not None:
            switched.add((bone, unescape_identifier(constraint[1])))
        elif (path, index) in drivers and _TRANSFORM.match(channel):
            driven[bone] = Message("a driver")
    entries = joint_entries(armature_object)
    for bone in armature_object.pose.bones:
        for constraint in bone.constraints:
            if keeps_inside(bone, constraint, entries.get(bone.name)):
                continue  # what is solved stays inside, so it changes nothing
            acts = not constraint.mute and constraint.influence > 0.0
            if constraint.is_valid and (acts or (bone.name, constraint.name) in switched):
                for affected in _affected_bones(bone, constraint):
                    driven.setdefault(affected, Message("a constraint ({type})", type=constraint.type))
    return {bone.name: driven[bone.name] for bone in armature_object.pose.bones if bone.name in driven}


def steady_bones(armature_object: Object) -> frozenset[str]:
    """Return the bones that constraints keep turned the same way in armature space, as parents turn.

    Other driven bones are taken to turn with their parents until it is known what they do.
    """
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    return frozenset(
        bone.name
        for bone in bones
        if any(_keeps_turned(bone, constraint, armature_object) for constraint in bone.constraints)
    )


def _keeps_turned(bone: PoseBone, constraint: Any, armature_object: Object) -> bool:
    """Return whether a constraint turns its bone with something that hardly turns itself.

    That is anything outside of the body, and bones above the bone's parent: a head that stays upright by
    the torso (Rigify) turns with that, and not with the spine between them.
    """
    if constraint.type not in _TURNING | _TURNING_IN_SPACE:
        return False
    if not constraint.is_valid or constraint.mute or constraint.influence < 0.5:
        return False
    own = [constraint, *getattr(constraint, "targets", ())]
    inside = [target.subtarget for target in own if getattr(target, "target", None) == armature_object]
    if inside and not {ancestor.name for ancestor in bone.parent_recursive[1:]}.issuperset(inside):
        return False  # it moves itself
    if constraint.type in _TURNING:
        return True
    whole = all(getattr(constraint, f"use_{axis}", True) for axis in "xyz")
    return (
        constraint.owner_space in {'WORLD', 'POSE', 'CUSTOM'} and constraint.mix_mode == 'REPLACE' and whole
    )


def _affected_bones(bone: PoseBone, constraint: Any) -> list[str]:
    """Return the bones that a constraint moves: its own and, for both kinds of IK, the chain above it."""
    if constraint.type not in {'IK', 'SPLINE_IK'}:
        return [bone.name]
    tip = bone if constraint.type == 'SPLINE_IK' or constraint.use_tail else bone.parent
    chain = [] if tip is None else [tip.name, *(ancestor.name for ancestor in tip.parent_recursive)]
    return [bone.name, *(chain[: constraint.chain_count] if constraint.chain_count else chain)]
