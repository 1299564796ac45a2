# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of bones whose rest pose changes: *Apply Pose as Rest Pose*.

Limits and preferred angles count from the rest pose. With each entry the rest matrices are noted from which
it counts, of its bone and of the parent. Where a turn R of a bone has become its rest, what was turned by M
is turned by R⁻¹ M now. So are the preferred angles. A box of Euler angles has in general no other one that is
the same: it is shifted by the angles of R, so that the pose that was applied stays where it was inside. Where
R is about the last axis of the order, as of elbows and knees, that is the same range; else about the same.

Other changes leave the numbers as they are: what is done in Edit Mode, and bones of another length, or
elsewhere on their parent. *Apply Rotation* turns all bones as one, and gives those without a parent another
rest. A Limit Rotation constraint that has the limits of its
bone too does not go along either.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.errors import IKError
from ...core.messages import Message, listed
from ...core.model.rotation import euler_within, matrix_from_euler, order_index, rotvec_from_matrix
from ..properties.overrides import names_of_library
from ..properties.settings import POISE_PG_joint
from ..translations import in_all_languages, translated
from .limits import SAME_REST, joint_entries, keeps_inside, limits_of, rest_of, store_limits

MOVED: Final = Message("moved with the rest pose")
"""What the source of limits says besides."""


def follow_rests(armature_object: Object) -> tuple[Message, ...]:
    """Let limits and preferred angles go along with rest poses that have changed, and note these.

    Returns:
        What the user should know of that, one sentence each.
    """
    data: Any = armature_object.data
    pose: Any = armature_object.pose
    if pose is None or not armature_object.is_editable:
        return ()
    theirs = names_of_library(armature_object, "joints")
    moved: list[str] = []
    kept: list[str] = []
    for name, entry in joint_entries(armature_object).items():
        noted, now = tuple(entry.noted_rest), rest_of(armature_object, name)
        if data.is_editmode or not any(now):  # numbers count from what is there afterwards
            now = (0.0,) * len(noted)
        if noted == now or name not in pose.bones:
            continue
        if name in theirs and not any(noted):  # where its file notes that, limits move there alone
            continue
        entry.noted_rest = now
        turn = _applied(noted, now) if any(noted) and any(now) else None
        if turn is None:
            continue
        try:
            names = moved if _turn(armature_object, entry, turn) else kept
        except IKError:  # its limits are refused where they are needed
            continue
        names += [name] if any(entry.use_limit) else []
    notes = (
        (moved, Message("limits moved with the rest pose: {bones}", bones=listed(moved))),
        (
            kept,
            Message(
                "limits that keep their numbers, because a Limit Rotation constraint has the same: {bones}",
                bones=listed(kept),
            ),
        ),
    )
    return tuple(note for names, note in notes if names)


def _applied(noted: tuple[float, ...], now: tuple[float, ...]) -> FloatArray | None:
    """The turn (3, 3) of a bone that has become its rest, by `rest_of`; None where it was another change."""
    before, after = np.reshape(noted, (2, 4, 4)), np.reshape(now, (2, 4, 4))

    def on_parent(rests: FloatArray) -> FloatArray:
        return np.array([*(rests[0, :3, 3] - rests[1, :3, 3]) @ rests[1, :3, :3], *rests[:, 3, 3]])

    def local(rests: FloatArray) -> FloatArray:
        return rests[1, :3, :3].T @ rests[0, :3, :3]

    size, size_now = (float(rests[:, 3, 3].sum()) for rests in (before, after))  # scaled poses too
    turn, near = local(before).T @ local(after), SAME_REST * size
    is_other = np.abs(on_parent(after) * (size / size_now) - on_parent(before)).max() > near
    return None if is_other or np.linalg.norm(rotvec_from_matrix(turn)) <= SAME_REST else turn


def _turn(armature_object: Object, entry: POISE_PG_joint, turn: FloatArray) -> bool:
    """Let an entry count from a rest that is turned by (3, 3); whether it does (IKError: as `limits_of`)."""
    pose: Any = armature_object.pose
    bone = pose.bones[entry.name]
    holding = [each for each in bone.constraints if not each.mute and each.influence > 0.0]
    if any(keeps_inside(bone, each, entry) for each in holding):
        return False
    own = limits_of(bone, entry)
    order = order_index("XYZ") if own.order is None else own.order
    shift = euler_within(turn, order, own.lower, own.upper, np.zeros(3))
    lower, upper = own.lower - shift, own.upper - shift
    wanted = turn.T @ matrix_from_euler(own.preferred, order)
    preferred = np.clip(euler_within(wanted, order, lower, upper, own.preferred - shift), lower, upper)
    source = entry.source
    if not any(remark in source for remark in in_all_languages(MOVED)):
        source = ", ".join(filter(None, (source, translated(MOVED))))
    limits = replace(own, lower=lower, upper=upper, preferred=preferred, order=order)
    store_limits(armature_object, entry.name, limits, source)
    return True
