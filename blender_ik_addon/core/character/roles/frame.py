# SPDX-License-Identifier: GPL-3.0-or-later
"""How a figure stands: sides, up and forward, and which of its limbs are front legs then.

Up is against the legs, without legs from hips to head, otherwise the armature's z axis, always in the mirror
plane. Forward lies in that plane across up. Names of sides give it, since left × up = forward; without them
feet, head and knees do, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .character import ENDS, LimbKind, Side
from .limbs import Found, corners, effector_of
from .shapes import GROUNDED
from .structure import ON_PLANE, TINY, Mirror, Tree, norm, unit
from .trunk import Trunk

UPRIGHT: Final = 0.94
"""Cosine [1] between what the legs say of up and an axis of the armature above which it is that axis: feet
are not straight below hips, and armatures are nearly always made upright."""


def sides_of(tree: Tree, mirror: Mirror | None) -> list[Side]:
    """Side of every joint of the skeleton: by its name, else by its place."""
    distances = np.zeros(len(tree.readings)) if mirror is None else mirror.distances(tree.places)
    places = np.where(np.abs(distances) <= ON_PLANE * tree.size, 0, np.sign(distances)).astype(np.int64)
    by_place = (Side.CENTRE, Side.LEFT, Side.RIGHT)  # 0, 1, -1
    rows = zip(tree.readings, places.tolist(), strict=True)
    return [reading.side or by_place[place] for reading, place in rows]


def _across(vector: FloatArray, *normals: FloatArray) -> FloatArray:
    """What is left of a vector (3,) across unit vectors that are square to each other."""
    for normal in normals:
        vector = vector - (vector @ normal) * normal
    return vector


def find_up(tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None) -> FloatArray:
    """Up: against the legs, else from hips to head, else the armature's z axis; in the plane."""
    total = np.zeros(3)
    for limb in limbs:
        if limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG):
            upper = limb.tip(tree) - limb.span(tree)
            total += upper - tree.places[effector_of(tree, limb, animal=trunk.lying)]
    if norm(total) <= TINY and not trunk.lying and len(trunk.path) > 1:
        total = tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
    normals = [] if mirror is None else [mirror.normal]
    flat = np.zeros(3)
    for candidate in (np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]), total):
        across = _across(candidate, *normals)
        if norm(across) > 0.1 * norm(candidate) + TINY:
            flat = unit(across)
    largest = int(np.abs(flat).argmax())
    axis = np.eye(3)[largest] * np.sign(flat[largest])
    square = all(abs(float(axis @ normal)) < 1.0 - UPRIGHT for normal in normals)
    return axis if square and float(flat @ axis) > UPRIGHT else flat


def find_forward(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None, up: FloatArray
) -> tuple[FloatArray, bool, bool]:
    """The way the figure faces, whether there is a reason for it, whether names of sides agree with it."""
    faces = np.zeros(3)
    for limb in limbs:
        end = limb.first(*ENDS)
        if limb.kind is LimbKind.LEG and end is not None:
            faces += limb.tip(tree) - tree.places[end]
    if trunk.lying or norm(_across(faces, up)) <= 0.02 * tree.size:
        if len(trunk.path) > 1:
            faces = faces + tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
        for head in trunk.heads:
            faces = faces + 2.0 * (tree.tails[tree.branch(head)].mean(0) - tree.places[head])
    if mirror is None:
        flat = _across(faces, up)
        if norm(flat) > 0.01 * tree.size:
            return unit(flat), True, True
        candidates = (_across(axis, up) for axis in (np.array([0.0, -1.0, 0.0]), np.array([1.0, 0.0, 0.0])))
        return unit(next(flat for flat in candidates if norm(flat) > 0.5)), False, True
    across = unit(np.cross(mirror.normal, up))
    shown = float(_across(_across(faces, up), mirror.normal) @ across)
    if mirror.named:
        return across, True, shown >= -0.05 * tree.size
    for ahead, least in ((shown, 0.01), (float(_knees(tree, limbs) @ across), 0.002)):
        if abs(ahead) > least * tree.size:
            return across * np.sign(ahead), True, True
    return across * (1.0 if float(across[1]) < 0.0 else -1.0), False, True  # Blender's front is -y


def _knees(tree: Tree, limbs: Sequence[Found]) -> FloatArray:
    """Which way knees point and elbows do not, summed, (3,) [m]."""
    total = np.zeros(3)
    for limb in limbs:
        found = corners(limb, tree.places, limb.tip(tree))
        if found is not None and limb.kind in (LimbKind.ARM, LimbKind.LEG):
            a, b, c = found
            off = _across(b - a, unit(c - a))
            total += off if limb.kind is LimbKind.LEG else -off
    return total


def settled_kinds(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, up: FloatArray, forward: FloatArray
) -> list[Found]:
    """Tell front legs from arms and from hind legs, where the trunk lies."""
    changed = list(limbs)
    legs = [limb for limb in limbs if limb.kind is LimbKind.LEG]
    if not legs or not trunk.lying:
        return changed
    ground = min(float(limb.tip(tree) @ up) for limb in legs)
    for row, limb in enumerate(changed):
        tip, root = float(limb.tip(tree) @ up), float(tree.places[limb.root] @ up)
        if limb.kind is LimbKind.ARM and tip - ground < GROUNDED * (root - ground):
            changed[row] = limb.retyped(LimbKind.FRONT_LEG)
    for side in (Side.LEFT, Side.RIGHT):
        kinds = [limb.kind for limb in changed if limb.side is side]
        rows = [r for r, limb in enumerate(changed) if limb.kind is LimbKind.LEG and limb.side is side]
        if len(rows) == 2 and LimbKind.FRONT_LEG not in kinds:
            front = max(
                rows, key=lambda r: (changed[r].front is True, tree.places[changed[r].root] @ forward, -r)
            )
            changed[front] = changed[front].retyped(LimbKind.FRONT_LEG)
    return changed
