# SPDX-License-Identifier: GPL-3.0-or-later
"""How a figure stands: sides, up and forward, what that makes of its limbs, and how these are bent.

Up is against the legs, without legs from hips to head, otherwise the armature's z axis, always in the mirror
plane. Forward lies in that plane across up. Names of sides give it, since left × up = forward; without them
feet, head and knees do, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .chains import NO_BEND, BendReading, Slot, read_bend
from .character import Bend, Body, LimbKind, Side
from .limbs import GROUNDED, Found, tip_of
from .structure import ON_PLANE, TINY, Mirror, Tree, norm, unit
from .trunk import Trunk

SPREAD: Final = 0.7
"""Cosine [1] between a leg and down below which the leg spreads to the side, as a spider's, and its knee
points up."""

UPRIGHT: Final = 0.94
"""Cosine [1] between what the legs say of up and an axis of the armature above which it is that axis: feet
are not straight below hips, and armatures are nearly always made upright."""

PAW: Final = 0.12
"""Height of the foot's joint in lengths of the leg [1] above which an animal stands on its toes."""


def sides_of(tree: Tree, mirror: Mirror | None) -> list[Side]:
    """Side of every joint of the skeleton: by its name, else by its place."""
    distances = np.zeros(len(tree.readings)) if mirror is None else mirror.distances(tree.places)
    places = np.where(np.abs(distances) <= ON_PLANE * tree.size, 0, np.sign(distances)).astype(np.int64)
    by_place = (Side.CENTRE, Side.LEFT, Side.RIGHT)  # 0, 1, -1
    return [
        reading.side or by_place[place] for reading, place in zip(tree.readings, places.tolist(), strict=True)
    ]


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
            total += tree.places[limb.upper] - tree.places[effector_of(tree, limb, animal=trunk.lying)]
    if norm(total) <= TINY and not trunk.lying and len(trunk.path) > 1:
        total = tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
    normals = [] if mirror is None else [mirror.normal]
    for candidate in (total, np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])):
        flat = _across(candidate, *normals)
        if norm(flat) > 0.1 * norm(candidate) + TINY:
            flat = unit(flat)
            largest = int(np.abs(flat).argmax())
            axis = np.eye(3)[largest] * np.sign(flat[largest])
            square = all(abs(float(axis @ normal)) < 1.0 - UPRIGHT for normal in normals)
            return axis if square and float(flat @ axis) > UPRIGHT else flat
    raise AssertionError  # one of two perpendicular axes is across any direction


def find_forward(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None, up: FloatArray
) -> tuple[FloatArray, bool, bool]:
    """The way the figure faces, whether there is a reason for it, whether names of sides agree with it."""
    faces = np.zeros(3)
    for limb in limbs:
        end = limb.first(Slot.END)
        if limb.kind is LimbKind.LEG and end is not None:
            faces += tip_of(tree, limb) - tree.places[end]
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
    if abs(shown) > 0.01 * tree.size:
        return across * np.sign(shown), True, True
    shown = float(_knees(tree, limbs) @ across)
    if abs(shown) > 0.002 * tree.size:
        return across * np.sign(shown), True, True
    return across * (1.0 if float(across[1]) < 0.0 else -1.0), False, True  # Blender's front is -y


def _knees(tree: Tree, limbs: Sequence[Found]) -> FloatArray:
    """Which way knees point and elbows do not, summed, (3,) [m]."""
    total = np.zeros(3)
    for limb in limbs:
        corners = _corners(tree, limb)
        if corners is not None and limb.kind in (LimbKind.ARM, LimbKind.LEG):
            a, b, c = corners
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
    ground = min(float(tip_of(tree, limb) @ up) for limb in legs)
    for row, limb in enumerate(changed):
        tip, root = float(tip_of(tree, limb) @ up), float(tree.places[limb.root] @ up)
        if limb.kind is LimbKind.ARM and tip - ground < GROUNDED * (root - ground):
            changed[row] = replace(limb, kind=LimbKind.FRONT_LEG)
    for side in (Side.LEFT, Side.RIGHT):
        kinds = [limb.kind for limb in changed if limb.side is side]
        rows = [r for r, limb in enumerate(changed) if limb.kind is LimbKind.LEG and limb.side is side]
        if len(rows) == 2 and LimbKind.FRONT_LEG not in kinds:
            front = max(
                rows, key=lambda r: (changed[r].front is True, tree.places[changed[r].root] @ forward, -r)
            )
            changed[front] = replace(changed[front], kind=LimbKind.FRONT_LEG)
    return changed


def effector_of(tree: Tree, limb: Found, *, animal: bool) -> int:
    """The joint that a target holds; see `Limb.effector`."""
    end = limb.first(Slot.END)
    if end is None:
        return limb.joints[-1]
    leg = tip_of(tree, limb) - tree.places[limb.upper]
    below = tree.main_path(end)[1:]
    on_toes = float((tip_of(tree, limb) - tree.places[end]) @ unit(leg)) > PAW * norm(leg)
    if animal and limb.kind is not LimbKind.ARM and limb.first(Slot.ANKLE) is None and below and on_toes:
        return below[0]
    return end


def _corners(tree: Tree, limb: Found) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Places of the upper joint, the elbow or knee, and the end of the lower part."""
    lower, after = limb.first(Slot.LOWER), limb.first(Slot.ANKLE, Slot.END)
    if lower is None or limb.first(Slot.UPPER) is None:
        return None
    end = tip_of(tree, limb) if after is None else tree.places[after]
    return tree.places[limb.upper], tree.places[lower], end


def bend_of(tree: Tree, limb: Found, up: FloatArray, forward: FloatArray, body: Body) -> BendReading:
    """How the elbow or knee of a limb is bent at rest."""
    corners = _corners(tree, limb)
    if corners is None:
        return NO_BEND
    points = -forward
    if limb.kind is LimbKind.LEG:
        # Legs that spread to the sides, a spider's, have their knees up.
        down = -float(unit(corners[2] - corners[0]) @ up)
        points = forward if down > SPREAD else up
    bend = read_bend(*corners, points)
    if bend.state is Bend.INVERTED and body is Body.BIRD:
        # Some rigs begin a bird's leg at its knee, inside the body: the joint that shows is the ankle.
        return read_bend(*corners, None)
    return bend
