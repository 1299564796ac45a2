# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether anything has changed of what a solve depends on: as digests to be noted, or compared as it is."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import OneOf, SolverOptions, Task
from ..animation.fcurves import rotation_channel
from ..armature.armature import world_from_armature
from ..effectors.effectors import read_amounts, world_from_targets
from ..kinds.kinds import Effector
from ..properties.settings import settings_of
from .live_state import FIRST, Digest, RawChannels, digest
from .rig import Rig, solver_options

_JOINT_SETTINGS: Final = (
    ("use_limit", 3, np.bool_),
    ("lower", 3, np.float32),
    ("upper", 3, np.float32),
    ("stiffness", 3, np.float32),
    ("preferred", 3, np.float32),
    ("order", 1, np.int32),
    ("is_held", 1, np.bool_),
    ("may_move", 1, np.bool_),
)
"""Properties of entries for bones that count in a solve."""


# Read from Blender


def read_settings(armature_object: Object) -> tuple[object, ...]:
    """Settings that a rig is read by. Blender tells no handler when a script has changed them."""
    settings = settings_of(armature_object)
    joints: Any = settings.joints
    entries: list[bytes] = []
    for name, width, kind in _JOINT_SETTINGS:
        buffer: Any = np.empty(len(joints) * width, dtype=kind)
        joints.foreach_get(name, buffer)
        entries.append(buffer.tobytes())
    masses = [(entry.name, entry.mass) for entry in settings.masses]
    masses += [(entry.name, entry.share, *entry.centre) for entry in settings.mesh_masses]
    names = [joint.name for joint in joints]
    weighed = settings.body_mass, settings.mass_source, masses
    return settings.method, settings.move_root, weighed, names, entries


def digest_of_aims(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> Digest:
    """Digest of targets, object and settings; names do not matter."""
    matrix, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
    influences, lengths = read_amounts(armature_object, effectors, depsgraph)
    targets = world_from_targets(armature_object, effectors, depsgraph)
    nameless = [replace(e, name="", target="", target_bone="") for e in effectors]
    # A pose does not depend on how smooth motions are, nor on what is reported of them.
    options = solver_options(armature_object, scale)
    options = replace(options, smoothness=SolverOptions.smoothness, pop_angle=SolverOptions.pop_angle)
    text = repr((nameless, options, settings_of(armature_object).move_root))
    return digest(text, *(array.tobytes() for array in (matrix, influences, lengths, targets)))


def parts_of_bones(armature_object: Object, rig: Rig, channels: RawChannels) -> Iterator[bytes | str]:
    """What bones are and what of their pose is not solved; of those that have a part in the solve.

    Orders of rotation are not in it: those of bones in quaternion mode follow the pose.
    """
    armature, skeleton = rig.armature, rig.armature.skeleton
    yield repr((skeleton.names, armature.rotation_modes, sorted(armature.driven_by), rig.prefers))
    for name in ("parents", "rest", "free", "lower", "upper", "stiffness", "preferred"):
        yield getattr(skeleton, name).tobytes()
    for name in ("inherit_rotation", "inherit_scale", "local_location"):
        yield getattr(skeleton, name).tobytes()
    yield armature.written.tobytes()
    if rig.body is not None:
        yield rig.body.masses.tobytes()
        yield rig.body.centres.tobytes()
    pose: Any = armature_object.pose
    rows = {bone.name: row for row, bone in enumerate(pose.bones)}
    everywhere = rig.body is not None  # then all bones have weight
    for name in skeleton.names if everywhere else rig.chains:
        if name in armature.driven_by:  # it is read where Blender has evaluated it
            continue
        joint = skeleton.index(name)
        attribute, width = rotation_channel(armature.rotation_modes[joint])
        first = FIRST[attribute]
        own = channels[rows[name]]
        held = ~armature.written[joint]
        yield own[:3][held[:3]].tobytes()
        yield own[first : first + width][held[-width:]].tobytes()
        yield own[FIRST["scale"] :].tobytes()


# Compared


def same(first: Any, second: Any) -> bool:
    """Whether values, arrays or dataclasses of such are equal; fields that do not take part do not matter."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    if hasattr(first, "__dataclass_fields__"):
        names = [field.name for field in fields(first) if field.compare]
        return all(same(getattr(first, name), getattr(second, name)) for name in names)
    return bool(first == second)


def same_but_for_aim(one: Task, other: Task) -> bool:
    """Whether two tasks differ in nothing but what `Task.moved` changes."""
    if type(one) is not type(other):
        return False
    if isinstance(one, OneOf) and isinstance(other, OneOf):
        if len(one.alternatives) != len(other.alternatives):
            return False
        if not all(map(same_but_for_aim, one.alternatives, other.alternatives)):
            return False
    return all(
        same(getattr(one, field.name), getattr(other, field.name))
        for field in fields(one)
        if field.name != one.target_field
    )
