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
from .chains import NO_BEND, ROLES_OF_KIND, BendReading, Slot, read_bend
from .character import Bend, Body, LimbKind, Side
from .limbs import GROUNDED, Found, tip_of
from .structure import ON_PLANE, TINY, Mirror, Tree
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
    sides: list[Side] = []
    distances = np.zeros(len(tree.readings)) if mirror is None else mirror.distances(tree.places)
    for reading, distance in zip(tree.readings, distances.tolist(), strict=True):
        if reading.side is not None:
            sides.append(reading.side)
        elif abs(distance) <= ON_PLANE * tree.size:
            sides.append(Side.CENTRE)
        else:
            sides.append(Side.LEFT if distance > 0.0 else Side.RIGHT)
    return sides


def find_up(tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None) -> FloatArray:
    """Up: against the legs, else from hips to head, else the armature's z axis; in the plane."""
    vectors: list[FloatArray] = []
    for limb in limbs:
        if limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG):
            first = limb.chain.first(Slot.UPPER)
            start = tree.places[limb.root if first is None else first]
            vectors.append(start - tree.places[effector_of(tree, limb, animal=trunk.lying)])
    total = np.sum(vectors, axis=0) if vectors else np.zeros(3)
    if np.linalg.norm(total) <= TINY and not trunk.lying and len(trunk.path) > 1:
        total = tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
    for candidate in (total, np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])):
        flat = candidate - (0.0 if mirror is None else (candidate @ mirror.normal) * mirror.normal)
        if np.linalg.norm(flat) > 0.1 * np.linalg.norm(candidate) + TINY:
            flat /= np.linalg.norm(flat)
            axis = np.eye(3)[int(np.argmax(np.abs(flat)))] * np.sign(flat[int(np.argmax(np.abs(flat)))])
            square = mirror is None or abs(float(axis @ mirror.normal)) < 1.0 - UPRIGHT
            return axis if square and float(flat @ axis) > UPRIGHT else flat
    return np.array([0.0, 0.0, 1.0])


def find_forward(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None, up: FloatArray
) -> tuple[FloatArray, bool, bool]:
    """The way the figure faces, whether there is a reason for it, whether names of sides agree with it."""
    faces = np.zeros(3)
    for limb in limbs:
        end = limb.chain.first(Slot.END)
        if limb.kind is LimbKind.LEG and end is not None:
            faces += tip_of(tree, limb) - tree.places[end]
    if trunk.lying or np.linalg.norm(faces - (faces @ up) * up) <= 0.02 * tree.size:
        if len(trunk.path) > 1:
            faces = faces + tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
        for head in trunk.heads:
            tips = tree.branch(head)
            faces = faces + 2.0 * (tree.tails[tips].mean(0) - tree.places[head])
    flat = faces - (faces @ up) * up
    if mirror is not None:
        flat = flat - (flat @ mirror.normal) * mirror.normal
        across = np.cross(mirror.normal, up)
        across /= max(float(np.linalg.norm(across)), TINY)
        shown = float(flat @ across)
        if mirror.named:
            return across, True, shown >= -0.05 * tree.size
        if abs(shown) > 0.01 * tree.size:
            return across * np.sign(shown), True, True
        knees = _knees(tree, limbs)
        if abs(float(knees @ across)) > 0.002 * tree.size:
            return across * np.sign(float(knees @ across)), True, True
        return across * (1.0 if float(across[1]) < 0.0 else -1.0), False, True  # Blender's front is -y
    if np.linalg.norm(flat) > 0.01 * tree.size:
        return flat / np.linalg.norm(flat), True, True
    for axis in (np.array([0.0, -1.0, 0.0]), np.array([1.0, 0.0, 0.0])):
        flat = axis - (axis @ up) * up
        if np.linalg.norm(flat) > 0.5:
            return flat / np.linalg.norm(flat), False, True
    raise AssertionError  # one of two perpendicular axes is across any direction


def _knees(tree: Tree, limbs: Sequence[Found]) -> FloatArray:
    """Which way knees point and elbows do not, summed, (3,) [m]."""
    total = np.zeros(3)
    for limb in limbs:
        corners = _corners(tree, limb)
        if corners is not None and limb.kind in (LimbKind.ARM, LimbKind.LEG):
            a, b, c = corners
            off = b - a - ((b - a) @ (c - a)) / max(float((c - a) @ (c - a)), TINY) * (c - a)
            total += off if limb.kind is LimbKind.LEG else -off
    return total


def settled_kinds(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, up: FloatArray, forward: FloatArray
) -> list[Found]:
    """Tell front legs from arms and from hind legs."""
    changed = list(limbs)
    legs = [limb for limb in limbs if limb.kind is LimbKind.LEG]
    if legs and trunk.lying:
        ground = min(float(tip_of(tree, limb) @ up) for limb in legs)
        for row, limb in enumerate(changed):
            if limb.kind is LimbKind.ARM:
                tip, root = float(tip_of(tree, limb) @ up), float(tree.places[limb.root] @ up)
                if tip - ground < GROUNDED * (root - ground):
                    changed[row] = replace(limb, kind=LimbKind.FRONT_LEG)
    for side in (Side.LEFT, Side.RIGHT):
        rows = [r for r, limb in enumerate(changed) if limb.kind is LimbKind.LEG and limb.side is side]
        if (
            len(rows) == 2
            and trunk.lying
            and not any(limb.kind is LimbKind.FRONT_LEG and limb.side is side for limb in changed)
        ):
            ahead = [float(tree.places[changed[r].root] @ forward) for r in rows]
            named = [changed[r].front for r in rows]
            front = rows[named.index(True)] if True in named else rows[int(np.argmax(ahead))]
            changed[front] = replace(changed[front], kind=LimbKind.FRONT_LEG)
    return changed


def effector_of(tree: Tree, limb: Found, *, animal: bool) -> int:
    """The joint that a target holds; see `Limb.effector`."""
    end = limb.chain.first(Slot.END)
    if end is None or limb.kind not in ROLES_OF_KIND:
        return limb.chain.joints[-1]
    if not animal or limb.kind is LimbKind.ARM or limb.chain.first(Slot.ANKLE) is not None:
        return end
    first = limb.chain.first(Slot.UPPER)
    root, tip = tree.places[limb.root if first is None else first], tip_of(tree, limb)
    length = float(np.linalg.norm(tip - root))
    below = tree.main_path(end)[1:]
    down = (tip - root) / max(length, TINY)
    if below and float((tip - tree.places[end]) @ down) > PAW * length:
        return below[0]  # walks on its toes
    return end


def _corners(tree: Tree, limb: Found) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Places of the upper joint, the elbow or knee, and the end of the lower part."""
    upper, lower = limb.chain.first(Slot.UPPER), limb.chain.first(Slot.LOWER)
    if upper is None or lower is None or limb.kind not in ROLES_OF_KIND:
        return None
    after = [
        joint
        for joint, slot in zip(limb.chain.joints, limb.chain.slots, strict=True)
        if slot in (Slot.ANKLE, Slot.END)
    ]
    end = tree.places[after[0]] if after else tip_of(tree, limb)
    return tree.places[upper], tree.places[lower], end


def bend_of(tree: Tree, limb: Found, up: FloatArray, forward: FloatArray, body: Body) -> BendReading:
    """How the elbow or knee of a limb is bent at rest."""
    corners = _corners(tree, limb)
    if corners is None:
        return NO_BEND
    points: FloatArray | None = None
    if limb.kind is LimbKind.LEG:
        # Legs that spread to the sides, a spider's, have their knees up.
        spread = corners[2] - corners[0]
        down = -float(spread @ up) / max(float(np.linalg.norm(spread)), TINY)
        points = forward if down > SPREAD else up
    elif limb.kind in (LimbKind.ARM, LimbKind.FRONT_LEG):
        points = -forward
    bend = read_bend(*corners, points)
    if bend.state is Bend.INVERTED and body is Body.BIRD:
        # Some rigs begin a bird's leg at its knee, inside the body: the joint that shows is the ankle.
        return read_bend(*corners, None)
    return bend
