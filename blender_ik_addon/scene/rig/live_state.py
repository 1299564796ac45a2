# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted in the file of a body that follows its targets: what it was solved for, and where from.

Digests say what the body was solved for. For each bone there is also noted where anybody else has left it
last: the user, the animation, a script. That is where influences below 1 begin. If they began at the present
pose, which was solved for already, each update would bring the body nearer to its targets, and the pose would
tell how often the scene was updated.

Notes are properties of the object, so that undo, redo, files and library overrides always have those that
belong to the pose.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import OneOf, Pose, SolverOptions, Task
from ...core.arrays import FloatArray
from ...core.model.rotation import euler_within, matrix_from_euler, matrix_from_quat, quat_from_matrix
from ..animation.fcurves import rotation_channel
from ..armature.armature import Armature, world_from_armature
from ..armature.pose_note import PROPERTIES, RawChannels
from ..effectors.effectors import has_own_place, read_amounts, world_from_targets
from ..kinds.kinds import Effector
from ..properties.joint_properties import POISE_PG_joint
from ..properties.settings import settings_of, solver_options

if TYPE_CHECKING:
    from .rig import Rig

Digest = bytes
"""128 bits."""

DIGEST_SIZE: Final = 16
"""[bytes]"""

NOTHING: Final[Digest] = bytes(DIGEST_SIZE)

_TYPES: Final = {'BOOLEAN': np.bool_, 'ENUM': np.int32, 'FLOAT': np.float32, 'INT': np.int32}
"""Types of properties, as Blender's buffers have them."""

_HEADER: Final = 8
"""Bytes of the digest of bone names before the pose."""

_WIDTH: Final = 10
"""Numbers of a bone: location, quaternion, scale."""


def digest(*parts: bytes | str) -> Digest:
    """Return 128 bits that differ where any of the parts does."""
    hashed = blake2b(digest_size=DIGEST_SIZE)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.digest()


def on_the_way(aims: Digest) -> Digest:
    """What is noted for a pose that is on its way to what a solve for some aims would give."""
    return digest("on the way", aims)


class LiveState(NamedTuple):
    """What the body was solved for, as digests."""

    aims: Digest
    """Of targets, object and settings."""
    bones: Digest
    """Of the bones' rest, locks and limits, and of their channels that are not solved."""
    keyed: Digest
    """The `aims` for which no key is owed."""

    @classmethod
    def of(cls, armature_object: Object) -> "LiveState":
        """Read it."""
        data = np.array(settings_of(armature_object).live_digests[:], dtype=np.int32).tobytes()
        return cls(*(data[i : i + DIGEST_SIZE] for i in range(0, len(data), DIGEST_SIZE)))

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        numbers = np.frombuffer(b"".join(self), dtype=np.int32)
        settings_of(armature_object).live_digests = tuple(numbers.tolist())


# Where others have left it


@dataclass(frozen=True)
class Origin:
    """The pose in which others than live mode have left each bone: there influences below 1 begin."""

    transforms: FloatArray
    """Location, quaternion and scale of each bone against its rest pose, (n, 10) [m, 1]."""

    @classmethod
    def of(cls, armature_object: Object, armature: Armature) -> "Origin | None":
        """Read it; None where there is none for these bones."""
        data = b64decode(settings_of(armature_object).live_origin)
        names = armature.skeleton.names
        if data[:_HEADER] != _named(names) or len(data) != _HEADER + 4 * _WIDTH * len(names):
            return None
        transforms = np.frombuffer(data, dtype="<f4", offset=_HEADER).astype(np.float64)
        return cls(transforms.reshape(-1, _WIDTH))

    def pose(self, armature: Armature, present: Pose) -> Pose:
        """The same as channels, with angles nearest to the present ones.

        Driven bones are where they are at present.
        """
        skeleton = armature.skeleton
        channels, scale = present.channels.copy(), present.scale.copy()
        own = np.array([name not in armature.driven_by for name in skeleton.names])
        channels[own, :3] = self.transforms[own, :3]
        rotation = matrix_from_quat(self.transforms[own, 3:7])
        lower, upper = skeleton.lower[own, 3:], skeleton.upper[own, 3:]
        channels[own, 3:] = euler_within(rotation, skeleton.orders[own], lower, upper, channels[own, 3:])
        scale[own] = self.transforms[own, 7:]
        return Pose(channels, scale)


def renew_origin(armature_object: Object, armature: Armature, present: Pose, moved: frozenset[str]) -> None:
    """Note where bones are that others have moved, or all where nothing was noted."""
    skeleton = armature.skeleton
    rotation = matrix_from_euler(present.rotation, skeleton.orders)
    now = np.concatenate([present.channels[:, :3], quat_from_matrix(rotation), present.scale], axis=1)
    before = Origin.of(armature_object, armature)
    if before is not None:
        kept = np.array([name not in moved for name in skeleton.names])
        now[kept] = before.transforms[kept]
    data = _named(skeleton.names) + now.astype("<f4").tobytes()
    settings_of(armature_object).live_origin = b64encode(data).decode()


def _named(names: Sequence[str]) -> bytes:
    return blake2b("\0".join(names).encode(), digest_size=_HEADER).digest()


# What a solve depends on


def read_settings(armature_object: Object) -> tuple[object, ...]:
    """Settings that a rig is read by. Blender tells no handler when a script has changed them."""
    settings = settings_of(armature_object)
    masses = [(entry.name, entry.mass) for entry in settings.masses]
    masses += [(entry.name, entry.share, *entry.centre) for entry in settings.mesh_masses]
    weighed = settings.body_mass, settings.mass_source, masses
    names = [joint.name for joint in settings.joints]
    return settings.method, settings.move_root, weighed, names, list(_values_of(settings.joints))


def _values_of(entries: Any) -> Iterator[bytes]:
    """The values of all entries of a list, property by property; without texts, which count in no solve."""
    for prop in POISE_PG_joint.bl_rna.properties:
        if prop.type in _TYPES:
            width = max(1, getattr(prop, "array_length", 0))
            buffer: Any = np.empty(len(entries) * width, dtype=_TYPES[prop.type])
            entries.foreach_get(prop.identifier, buffer)
            yield buffer.tobytes()


def digest_of_aims(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> Digest:
    """Digest of targets, object and settings; names do not matter, nor where bones are that only follow.

    Of targets that only their own channels move these are taken: so a place that was just written counts at
    once, before Blender has evaluated it.
    """
    matrix, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
    influences, lengths = read_amounts(armature_object, effectors, depsgraph)
    entries = settings_of(armature_object).effectors
    own: list[float] = []
    others: list[Effector] = []
    for effector in (e for e in effectors if not e.follows):
        entry: Any = entries[effector.index]
        if (
            effector.pin is None
            and effector.target
            and not effector.others
            and has_own_place(armature_object, entry)
            and effector.sole is None  # where it is rolled to hangs on floors as well
        ):
            target = entry.target
            own += [*np.array(target.matrix_basis).flat, *np.array(target.matrix_parent_inverse).flat]
            own.append(float(target.parent is None))
        else:
            others.append(effector)
    targets = world_from_targets(armature_object, others, depsgraph)
    nameless = [
        replace(e, name="", target="", target_bone="", pin=None if e.follows else e.pin) for e in effectors
    ]
    # A pose does not depend on how smooth motions are, nor on what is reported of them.
    options = solver_options(armature_object, scale)
    options = replace(options, smoothness=SolverOptions.smoothness, pop_angle=SolverOptions.pop_angle)
    text = repr((nameless, options, settings_of(armature_object).move_root))
    return digest(text, *(array.tobytes() for array in (matrix, influences, lengths, targets, np.array(own))))


def parts_of_bones(armature_object: Object, rig: "Rig", channels: RawChannels) -> Iterator[bytes | str]:
    """What bones are and what of their pose is not solved; of those that have a part in the solve.

    Orders of rotation are not in it: those of bones in quaternion mode follow the pose.
    """
    armature, skeleton = rig.armature, rig.armature.skeleton
    yield repr((skeleton.names, armature.rotation_modes, sorted(armature.driven_by), rig.prefers))
    yield armature.written.tobytes()
    for owner in (skeleton, rig.body) if rig.body else (skeleton,):
        for field in fields(owner):
            if isinstance(value := getattr(owner, field.name), np.ndarray) and field.name != "orders":
                yield value.tobytes()
    pose: Any = armature_object.pose
    rows = {bone.name: row for row, bone in enumerate(pose.bones)}
    everywhere = rig.body is not None  # then all bones have weight
    for name in skeleton.names if everywhere else rig.chains:
        if name in armature.driven_by:  # it is read where Blender has evaluated it
            continue
        joint = skeleton.index(name)
        attribute, width = rotation_channel(armature.rotation_modes[joint])
        own, held = channels[rows[name]], ~armature.written[joint]
        yield own[PROPERTIES["location"]][held[:3]].tobytes()
        yield own[PROPERTIES[attribute]][held[-width:]].tobytes()
        yield own[PROPERTIES["scale"]].tobytes()


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
        pairs = zip_longest(one.alternatives, other.alternatives)
        if not all(same_but_for_aim(*pair) for pair in pairs):
            return False
    return all(
        same(getattr(one, field.name), getattr(other, field.name))
        for field in fields(one)
        if field.name != one.target_field
    )
