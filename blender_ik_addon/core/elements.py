# SPDX-License-Identifier: GPL-3.0-or-later
"""Basic elements of any tree in space: what the extended Jacobian adds to the rows of the targets.

[SochLorencz2005] describe a planar chain by pairs of neighbouring segments, each by the place (x, y) of its
end in the frame in which the first angle is measured (`rules.planar_elements`), and leave space to future
work. In the plane two numbers determine the two angles. In space a pair of joints that turn freely has six,
so the end of a pair is described here by a rigid frame: its place, and its orientation times the length of
the second segment, (6,) for each pair.

That alone has a direction left where a limb is stretched: neighbours that twist about their common axis in
turn, one this way, one that way. So the first segment of each chain is an element by itself. With it the rows
have as many independent ones as there are channels in every pose outside gimbal lock: the first segment tells
its own channels, and each further one those of the next, since it has a length. In the plane, where the paper
does without, its rank is not full in every pose either (see the tests).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import FloatArray
from .posed import PosedMechanism

SHORTEST: Final = 1e-3
"""Length of a segment as a part of the longest [1] that is taken where it is shorter: joints that lie in one
place turn all the same."""


def basic_elements(posed: PosedMechanism) -> FloatArray:
    """Derivatives of the basic elements by the free channels, (F, 6 m, nv) [m] for the m joints that move.

    They are given along the armature's axes rather than the element's own, which changes no sum of squares.
    """
    mechanism = posed.mechanism
    m, nv = len(mechanism.joints), mechanism.size
    frames = len(posed.values)
    if not m:
        return np.zeros((frames, 0, nv))
    slots = np.arange(1, m + 1)
    origins = posed.matrices[:, :, :3, 3]
    # The length of a joint's segment is its distance from its parent, for a root that of its children.
    from_parent = np.linalg.norm(origins[:, slots] - origins[:, mechanism.parents], axis=-1)  # (F, m)
    below = [np.flatnonzero(mechanism.parents == slot) for slot in slots]
    lengths = np.stack(
        [
            from_parent[:, children].mean(axis=1) if len(children) else from_parent[:, joint]
            for joint, children in enumerate(below)
        ],
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
    return np.concatenate([places, turns], axis=2).reshape(frames, 6 * m, nv)
