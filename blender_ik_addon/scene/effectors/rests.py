# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted of a bone in armature space, when that space changes: *Apply*, *Set Origin*.

Both give the armature object another matrix and its bones other rest matrices, so that all stays where it is
in the world. With each note of where a bone is held its rest matrix is noted, and that of another bone. If
both are elsewhere now, by one motion and one scale, then the whole armature was transformed, and what was
noted goes along: x_now = S x_noted, with S = R_now R_noted⁻¹ and R the rest matrix with axes as long as the
bone. If not, bones were edited: what is held stays where it is.

Blender gives the children of the object, as targets are, other channels then and another inverse of their
parent. A target that is where these have taken it has not been moved by anybody. One that has keys plays them
where it did: it gets the inverse that it had, moved by S, and its own channels back.
"""

from typing import Any

import numpy as np

from ...core.arrays import FloatArray
from ..armature.limits import SAME_REST, rest_rows
from ..kinds.kinds import Anchor
from ..properties.settings import POISE_PG_effector
from .stance import upright


def _rests(entry: POISE_PG_effector) -> tuple[float, ...]:
    """Rests of the bone of an entry and of another one, as `rest_rows`, (32,); empty without the bone."""
    armature: Any = entry.id_data
    bones = armature.data.bones
    own = bones.get(entry.bone)
    if own is None:
        return ()
    return rest_rows(own, bones[-1] if own == bones[0] else bones[0])


def _scaled(rest: tuple[float, ...]) -> FloatArray:
    """A rest matrix with axes as long as the bone, (4, 4) [m]."""
    found = np.array(rest).reshape(4, 4)
    found[:3, :3] *= found[3, 3]
    found[3, 3] = 1.0
    return found


def change_of_rest(entry: POISE_PG_effector) -> FloatArray | None:
    """now_from_noted of armature space since a note, (4, 4); None where the armature was not transformed."""
    noted, now = tuple(entry.noted_rest), _rests(entry)
    if noted == now or not noted[15] or not now:
        return None
    change = _scaled(now[:16]) @ np.linalg.inv(_scaled(noted[:16]))
    other = _scaled(now[16:])
    away = np.linalg.norm(other[:3, 3] - np.array(now[:16]).reshape(4, 4)[:3, 3])
    same = np.abs(change @ _scaled(noted[16:]) - other).max() <= SAME_REST * (away + now[31])
    return change if same else None


def note_rest(entry: POISE_PG_effector) -> None:
    """Note that what is noted of an entry is in armature space as it is now."""
    now = _rests(entry)
    if now and now != tuple(entry.noted_rest):
        entry.noted_rest = now


def rest_is_noted(entry: POISE_PG_effector) -> bool:
    """Whether that is so, or cannot be."""
    now = _rests(entry)
    return not now or tuple(entry.noted_rest) == now


def taken_along(anchor: Anchor, change: FloatArray | None) -> Anchor:
    """An anchor in armature space as it is now, where bones have no other scale."""
    if change is None:
        return anchor
    turn = change[:3, :3] / np.cbrt(np.linalg.det(change[:3, :3]))

    def moved(noted: FloatArray, turned: FloatArray) -> tuple[float, ...]:
        found = change @ noted
        found[:3, :3] = turned
        return tuple(found.astype(np.float32).ravel().tolist())  # as it is kept

    bone, stance = np.reshape(anchor.bone, (4, 4)), anchor.stance
    if stance is not None:  # it is turned about the vertical from how that is upright
        stood = np.reshape(stance, (4, 4))
        about = turn @ stood[:3, :3] @ upright(stood[:3, 2]).T @ turn.T
        stance = moved(stood, about @ upright(turn @ stood[:3, 2]))
    return anchor._replace(bone=moved(bone, turn @ bone[:3, :3]), stance=stance)


def placed_now(entry: POISE_PG_effector) -> FloatArray:
    """The matrix that the own channels of a target have where Poise has placed it, (4, 4)."""
    was, target = np.array(entry.placed).reshape(4, 4), entry.target
    change = change_of_rest(entry) if target is not None and was[3, 3] else None
    if target is None or change is None:
        return was
    now, inverse = np.array(target.matrix_basis), np.array(target.matrix_parent_inverse)
    held, taken = inverse @ now, change @ np.array(entry.placed_inverse).reshape(4, 4) @ was
    scale = np.cbrt(abs(np.linalg.det(inverse[:3, :3])))
    return now if np.abs(held - taken).max() <= SAME_REST * scale * (1.0 + np.abs(now).max()) else was
