# SPDX-License-Identifier: GPL-3.0-or-later
"""Basic elements of [SochLorencz2005]: pairs of neighbouring segments, in the plane and in space.

In the plane a pair is described by the place (x, y) of its end in the frame in which its first angle is
measured: two numbers determine the two angles. The paper leaves space to future work. There a pair of joints
that turn freely has six angles, so the end of a pair is described here by a rigid frame: its place, and its
orientation times the length of the second segment, (6,) for each pair. That alone has a direction left where
a limb is stretched: neighbours that twist about their common axis in turn, one this way, one that way. So the
first segment of each chain is an element by itself. With it the rows have as many independent ones as there
are channels in every pose outside gimbal lock: the first segment tells its own channels, and each further one
those of the next, since it has a length. In the plane, where the paper does without, its rank is not full in
every pose either (see the tests).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import IKError
from ..model.mechanism import PosedMechanism

SHORTEST: Final = 1e-3
"""Length of a segment as a part of the longest [1] that is taken where it is shorter: joints that lie in one
place turn all the same."""


def planar_elements(lengths: FloatArray, angles: FloatArray) -> FloatArray:
    """Rows of the basic elements of a planar chain as printed [SochLorencz2005 eq. 9].

    Element i is the segments i and i + 1; the place of its end is
    (l_i cos q_i + l_{i+1} cos(q_i + q_{i+1}), l_i sin q_i + l_{i+1} sin(q_i + q_{i+1})).

    Args:
        lengths: (n,).
        angles: Of each segment to the one before, (..., n) [rad].

    Returns:
        Their derivatives, (..., 2(n−1), n): first x of every element, then y.
    """
    lengths, angles = np.asarray(lengths, dtype=np.float64), np.asarray(angles, dtype=np.float64)
    n = int(angles.shape[-1])
    if lengths.shape != (n,):
        raise IKError(f"lengths have shape {lengths.shape}, the chain has {n} angles")
    first, both = angles[..., :-1], angles[..., :-1] + angles[..., 1:]
    second_x, second_y = -lengths[1:] * np.sin(both), lengths[1:] * np.cos(both)
    rows = np.zeros((*angles.shape[:-1], 2, n - 1, n))
    i = np.arange(n - 1)
    rows[..., 0, i, i] = -lengths[:-1] * np.sin(first) + second_x
    rows[..., 0, i, i + 1] = second_x
    rows[..., 1, i, i] = lengths[:-1] * np.cos(first) + second_y
    rows[..., 1, i, i + 1] = second_y
    return rows.reshape(*angles.shape[:-1], 2 * (n - 1), n)


def basic_elements(posed: PosedMechanism) -> FloatArray:
    """Derivatives of the basic elements by the free channels, (F, 6 m, nv) [m] for the m joints that move.

    They are given along the armature's axes rather than the element's own, which changes no sum of squares.
    """
    mechanism = posed.mechanism
    m, nv = len(mechanism.joints), mechanism.size
    if not m:
        return np.zeros((len(posed.values), 0, nv))
    slots = np.arange(1, m + 1)
    origins = posed.matrices[:, :, :3, 3]
    # The length of a joint's segment is its distance from its parent, for a root that of its children.
    lengths = np.linalg.norm(origins[:, slots] - origins[:, mechanism.parents], axis=-1)  # (F, m)
    below = [np.flatnonzero(mechanism.parents == slot) for slot in slots]
    lengths = np.stack(
        [lengths[:, children if len(children) else [i]].mean(axis=1) for i, children in enumerate(below)],
        axis=1,
    )
    lengths = np.maximum(lengths, SHORTEST * lengths.max(axis=1, keepdims=True))
    # Bones lie along y of their joints, as in Blender.
    ends = origins[:, slots] + lengths[..., None] * posed.matrices[:, slots][..., :3, 1]
    own = mechanism.kept_of == np.arange(m)[:, None]  # (m, nv)
    of_parent = mechanism.kept_of == mechanism.parents[:, None] - 1
    pair = (own | of_parent)[:, None, :]
    places = posed.point_jacobian(slots, ends) * pair  # (F, m, 3, nv)
    turns = posed.angular_jacobian(slots) * pair * lengths[..., None, None]
    return np.concatenate([places, turns], axis=2).reshape(len(origins), 6 * m, nv)
