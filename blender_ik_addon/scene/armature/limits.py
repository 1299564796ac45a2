# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits, stiffness and preferred angles of bones: where they are kept, and which of them a rig has itself.

Poise's own entries in `Object.poise.joints` come first; a bone without one has its IK limits. Limits are on
the rotation channels of the bone. A bone in quaternion or axis-angle mode has no Euler angles: its limits are
in one Euler order, which does not depend on the pose.

A Limit Rotation constraint that is read into an entry (`read_limits`) changes nothing any more, because what
is solved stays inside: its bone does not count as driven by it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from bpy.types import Constraint, Object, PoseBone

from ...core.amounts import number_of_bones
from ...core.arrays import BoolArray, FloatArray
from ...core.character.limit_boxes import COMFORTABLE
from ...core.errors import IKError
from ...core.messages import Message, both, in_a_row, sentences
from ...core.model.rotation import EULER_ORDERS, order_index
from ...core.model.skeleton import JointLimits
from ..properties.naming import bone_names, note_name, pose_bone
from ..properties.overrides import remove_entries
from ..properties.settings import STIFFEST, POISE_PG_joint, check_editable, settings_of
from ..translations import translated
from .rotation_modes import unset_in

SAME_LIMIT: Final = 1e-5
"""Difference [rad] up to which limits are the same: Blender stores them in single precision."""

SAME_REST: Final = 1e-3
"""Part of a length [1], and turn [rad], up to which rests are the same: single precision far from the origin
is less."""

ALIGNED: Final = float(np.cos(np.radians(20.0)))
"""Cosine [1] between axes of two bones from which they count as the same."""

FAR: Final = 2.0 * np.pi
"""What is written for the missing limit where a channel has only one [rad]: a turn that no bone makes."""

REPORTED: Final = np.radians(0.05)
"""How far beyond a limit a pose is reported [rad]; less would be told as 0.0°."""

LIKED: Final = ("XYZ", "ZYX", "YZX", "YXZ", "XZY", "ZXY")
"""Orders for bones without one, the preferred first: y, the bone's own axis, is in the middle."""


@dataclass(frozen=True)
class BoneLimits(JointLimits):
    """What an entry says of one bone, as plain data."""

    is_held: bool = False
    """Whether the bone is not solved."""
    may_move: bool = False
    """Whether its location may change although it has a parent."""

    @property
    def limited(self) -> BoolArray:
        """Which channels have a limit, (3,)."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)


def joint_entries(armature_object: Object) -> dict[str, POISE_PG_joint]:
    """Return Poise's entries by bone; of two for one bone the first."""
    entries: dict[str, POISE_PG_joint] = {}
    settings: Any = getattr(armature_object, "poise", None)  # not there while the add-on is being disabled
    for entry in () if settings is None else settings.joints:
        entries.setdefault(entry.name, entry)
    return entries


def limits_of(bone: PoseBone, entry: POISE_PG_joint | None) -> BoneLimits:
    """Return the limits of its entry, else a bone's IK limits and stiffness (IKError: they are not valid)."""
    if entry is None:
        return _ik_limits(bone)
    used = np.array(entry.use_limit)
    lower, upper, preferred = (np.array(getattr(entry, name)) for name in ("lower", "upper", "preferred"))
    numbers = np.concatenate([lower[used], upper[used], preferred, np.array(entry.stiffness)])
    if not np.isfinite(numbers).all():
        raise IKError(
            "bone {bone!r}: a limit or preferred angle is not a number: set it in the sidebar", bone=bone.name
        )
    if (lower[used] > upper[used]).any():
        axis = "XYZ"[int(np.flatnonzero(used & (lower > upper))[0])]
        raise IKError(
            "bone {bone!r}: its lower limit about {axis} is above the upper one. Exchange them in the "
            "sidebar, tab Poise",
            bone=bone.name,
            axis=axis,
        )
    limits = np.where(used, lower, -np.inf), np.where(used, upper, np.inf)
    # A bone with Euler angles of its own is limited in those.
    chosen = entry.order != 'AUTO' and bone.rotation_mode not in EULER_ORDERS
    return BoneLimits(
        *limits,
        stiffness=np.minimum(np.array(entry.stiffness), STIFFEST),
        preferred=np.clip(preferred, *limits),
        order=order_index(entry.order) if chosen else _order_for(bone, *limits),
        is_held=entry.is_held,
        may_move=entry.may_move,
    )


_IK_LIMITS: Final = tuple(f"{name}_{axis}" for name in ("use_ik_limit", "ik_stiffness") for axis in "xyz")


def limits_of_all(armature_object: Object, bones: Iterable[PoseBone]) -> list[BoneLimits]:
    """Return those of all bones, in this order; in bulk, as most have none (IKError: as `limits_of`)."""
    pose: Any = armature_object.pose
    entries, loose = joint_entries(armature_object), unset_in(pose.bones, _IK_LIMITS)
    return [
        _no_limits(bone.rotation_mode)
        if bone.name in loose and bone.name not in entries
        else limits_of(bone, entries.get(bone.name))
        for bone in bones
    ]


@lru_cache
def _no_limits(rotation_mode: str) -> BoneLimits:
    order = order_index(rotation_mode) if rotation_mode in EULER_ORDERS else None
    return BoneLimits(np.full(3, -np.inf), np.full(3, np.inf), np.zeros(3), np.zeros(3), order)


def _ik_limits(bone: PoseBone) -> BoneLimits:
    """Return the limits and the stiffness of Blender's IK."""
    lower, upper = _limits_in(bone, "use_ik_limit_{}", "ik_min_{}", "ik_max_{}")
    stiffness = np.array([min(getattr(bone, f"ik_stiffness_{letter}"), STIFFEST) for letter in "xyz"])
    return BoneLimits(lower, upper, stiffness, np.zeros(3), _order_for(bone, lower, upper))


def _limits_in(owner: Any, used: str, low: str, high: str) -> tuple[FloatArray, FloatArray]:
    """Return the limits (3,), (3,) [rad] in properties that are named by their axes."""
    lower, upper = np.full(3, -np.inf), np.full(3, np.inf)
    for axis, letter in enumerate("xyz"):
        if getattr(owner, used.format(letter)):
            lower[axis], upper[axis] = (getattr(owner, name.format(letter)) for name in (low, high))
    return lower, upper


def _order_for(bone: PoseBone, lower: FloatArray, upper: FloatArray) -> int | None:
    """Return the order of limits: that of the bone, or one that keeps them away from gimbal lock.

    None where nothing is limited: then any order will do.
    """
    if bone.rotation_mode in EULER_ORDERS:
        return order_index(bone.rotation_mode)
    if not (np.isfinite(lower) | np.isfinite(upper)).any():
        return None
    reach = np.minimum(np.maximum(np.abs(lower), np.abs(upper)), np.pi)
    locked = np.array(bone.lock_rotation) | [bone.lock_ik_x, bone.lock_ik_y, bone.lock_ik_z]
    reach = np.where(locked, 0.0, reach)
    comfortable = (order for order in LIKED if reach["XYZ".index(order[1])] <= COMFORTABLE)
    middle = "XYZ"[int(np.argmin(reach))]
    return order_index(next(comfortable, next(order for order in LIKED if order[1] == middle)))


def turned_limits(limits: BoneLimits, target_from_source: FloatArray) -> BoneLimits | None:
    """Return limits of a bone for one with other axes; None where the axes are askew.

    Args:
        limits: For the source.
        target_from_source: Turns of the source as turns of the target, (3, 3): its columns are the axes of
            the source along those of the target. With a mirror between them it is minus a reflection.
    """
    rows = np.argmax(np.abs(target_from_source), axis=0)  # target channel of each source channel
    along = target_from_source[rows, range(3)]
    if sorted(rows.tolist()) != [0, 1, 2] or np.abs(along).min() < ALIGNED:
        return None
    lower, upper, stiffness, preferred = np.empty((4, 3))
    lower[rows] = np.where(along < 0.0, -limits.upper, limits.lower)
    upper[rows] = np.where(along < 0.0, -limits.lower, limits.upper)
    stiffness[rows], preferred[rows] = limits.stiffness, np.sign(along) * limits.preferred
    order = limits.order
    if order is not None:
        order = order_index("".join("XYZ"[rows["XYZ".index(letter)]] for letter in EULER_ORDERS[order]))
    return BoneLimits(lower, upper, stiffness, preferred, order, limits.is_held, limits.may_move)


@dataclass(frozen=True)
class RigLimits:
    """Report of reading limits from a rig."""

    bones: tuple[str, ...]
    """Bones that have limits or stiffness themselves, and now an entry."""
    notes: tuple[str, ...]
    """What could not be read, one sentence each."""

    def summary(self) -> str:
        """Return how many bones were read, for the status bar."""
        read = Message("read the limits of {bones}", bones=number_of_bones(len(self.bones)))
        return sentences(
            read if self.bones else Message("no bone of the rig has limits of its own"), *self.notes
        )


def read_limits(armature_object: Object, bones: Iterable[str] | None = None) -> RigLimits:
    """Read IK limits, IK stiffness and Limit Rotation constraints into entries, in place of what is there.

    All bones are read by default; those that have none of these keep the entries that they have.

    Raises:
        IKError: A bone is not there.
    """
    check_editable(armature_object)
    pose: Any = armature_object.pose
    done: list[str] = []
    notes: list[str] = []
    for name in [bone.name for bone in pose.bones] if bones is None else bone_names(bones):
        limits, source, unread = _rig_limits(pose_bone(armature_object, name))
        notes += unread
        if source:
            if (known := joint_entries(armature_object).get(name)) is not None:
                limits = replace(limits, is_held=known.is_held, may_move=known.may_move)
            store_limits(armature_object, name, limits, source)
            done.append(name)
    return RigLimits(tuple(done), tuple(dict.fromkeys(notes)))


def _rig_limits(bone: PoseBone) -> tuple[BoneLimits, str, list[str]]:
    """Return the limits of a bone itself, their source (empty if it has none), and what is not read."""
    ik = _ik_limits(bone)
    sources = {Message("IK limits"): None} if ik.limited.any() or ik.stiffness.any() else {}
    lower, upper, order = ik.lower, ik.upper, ik.order
    notes: list[str] = []
    for constraint in bone.constraints:
        if constraint.type != 'LIMIT_ROTATION' or constraint.mute or constraint.influence <= 0.0:
            continue
        where = Message(
            "bone {bone!r}: the constraint {constraint!r}", bone=bone.name, constraint=constraint.name
        )
        if constraint.owner_space != 'LOCAL':
            notes.append(Message("{where} limits in another space than Local and was not read", where=where))
            continue
        theirs = constraint_order(bone, constraint)
        if bone.rotation_mode in EULER_ORDERS and theirs != bone.rotation_mode:
            notes.append(
                Message(
                    "{where} limits {order} angles and was not read, because the bone is keyed in "
                    "{rotation_mode}: give both the same order",
                    where=where,
                    order=theirs,
                    rotation_mode=bone.rotation_mode,
                )
            )
            continue
        low, high = _limits_in(constraint, *_CONSTRAINT)
        if (np.maximum(lower, low) > np.minimum(upper, high)).any():
            notes.append(Message("{where} excludes the IK limits: only the constraint was read", where=where))
            lower, upper = low, high
        lower, upper, order = np.maximum(lower, low), np.minimum(upper, high), order_index(theirs)
        sources[Message("Limit Rotation")] = None
    found = BoneLimits(lower, upper, ik.stiffness, np.clip(np.zeros(3), lower, upper), order)
    return found, both(sources) if sources else "", notes


_CONSTRAINT: Final = ("use_limit_{}", "min_{}", "max_{}")


def constraint_order(bone: PoseBone, constraint: Any) -> str:
    """Return the Euler order in which a Limit Rotation constraint limits."""
    if constraint.euler_order != 'AUTO':
        return constraint.euler_order
    return bone.rotation_mode if bone.rotation_mode in EULER_ORDERS else "XYZ"


def keeps_inside(bone: PoseBone, constraint: Constraint, entry: POISE_PG_joint | None) -> bool:
    """Return whether a constraint never changes a bone that stays inside the limits of its entry."""
    if entry is None or constraint.type != 'LIMIT_ROTATION':
        return False
    theirs: Any = constraint
    own = limits_of(bone, entry)
    same_order = own.order is None or EULER_ORDERS[own.order] == constraint_order(bone, theirs)
    lower, upper = _limits_in(theirs, *_CONSTRAINT)
    inside = (own.lower >= lower - SAME_LIMIT).all() and (own.upper <= upper + SAME_LIMIT).all()
    return bool(theirs.owner_space == 'LOCAL' and same_order and inside)


def store_limits(
    armature_object: Object, bone_name: str, limits: BoneLimits, source: str | None = None
) -> POISE_PG_joint:
    """Write limits into the entry of a bone, a new one where there is none, and their source if it is new."""
    entries = settings_of(armature_object).joints
    if (entry := joint_entries(armature_object).get(bone_name)) is None:
        note_name(armature_object, bone_name)
        entry = entries.add()
        entry.name = bone_name
        entry.noted_rest = rest_of(armature_object, bone_name)
    used = limits.limited
    entry.use_limit = used.tolist()
    for name, turn in (("lower", -1.0), ("upper", 1.0)):
        values = getattr(limits, name)
        setattr(
            entry, name, np.where(np.isfinite(values), values, turn * np.where(used, FAR, np.pi)).tolist()
        )
    entry.stiffness = np.minimum(limits.stiffness, STIFFEST).tolist()
    entry.preferred = limits.preferred.tolist()
    entry.order = 'AUTO' if limits.order is None else EULER_ORDERS[limits.order]
    entry.is_held, entry.may_move = limits.is_held, limits.may_move
    entry.source = entry.source if source is None else translated(source)
    return entry


def rest_of(armature_object: Object, bone_name: str) -> tuple[float, ...]:
    """Return the rests of a bone and its parent, as `rest_rows`.

    Zeros, (32,), where angles count from no parent, or there is no such bone.
    """
    data: Any = armature_object.data
    bone = data.bones.get(bone_name)
    if bone is None or bone.parent is None or not bone.use_inherit_rotation:
        return (0.0,) * 32
    return rest_rows(bone, bone.parent)


def rest_rows(*bones: Any) -> tuple[float, ...]:
    """Return the rest matrices of bones, row by row, with the length of the bone as last number of each."""
    return sum(((*sum(map(tuple, bone.matrix_local), ())[:15], bone.length) for bone in bones), ())


def own_limits(armature_object: Object, bone_name: str) -> POISE_PG_joint:
    """Return the entry of a bone among the limits, for editing; a new one copies the limits that it has.

    Raises:
        IKError: The armature is linked, or has no such bone.
    """
    check_editable(armature_object)
    bone = pose_bone(armature_object, bone_name)
    if (entry := joint_entries(armature_object).get(bone_name)) is not None:
        return entry
    limits, source, _ = _rig_limits(bone)
    return store_limits(armature_object, bone_name, limits, source or Message("by hand"))


def remove_limits(armature_object: Object, bones: Iterable[str] | None = None) -> int:
    """Remove entries, by default all, so that the bones' own limits are used again; return how many.

    Raises:
        IKError: The armature is linked, or an entry belongs to the library of an override; nothing is changed
            then.
    """
    check_editable(armature_object)
    return remove_entries(
        armature_object, "joints", bones, Message("limits"), Message("switch its limits off")
    )


def clamped(names: Sequence[str], amounts: FloatArray) -> tuple[str, ...]:
    """Say by how much (F, n, 3) [rad] bones were turned to their limits, worst first; or nothing."""
    beyond = amounts.max(axis=0)
    rows = [row for row in np.argsort(-beyond.max(axis=1)).tolist() if beyond[row].max() > REPORTED]
    if not rows:
        return ()
    parts = [
        Message(
            "{bone} {axis} by {angle:.1f}°",
            bone=names[row],
            axis="XYZ"[int(np.argmax(beyond[row]))],
            angle=np.degrees(beyond[row].max()),
        )
        for row in rows
    ]
    return (Message("clamped to joint limits: {names}", names=in_a_row(parts, 4)),)
