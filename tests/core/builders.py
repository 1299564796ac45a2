# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons made in code, and random poses of them. Bones lie along +y of their joints, as in Blender."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blender_ik_addon.core import Pose, Skeleton
from blender_ik_addon.core.model.skeleton import INHERIT_SCALE
from tests.core.strategies import ORDER_NAMES

Array = npt.NDArray[np.float64]

HANDS_AND_FEET = ("hand.L", "hand.R", "foot.L", "foot.R")

# Name, parent, place in armature space [m]. z is up, the figure looks along -y and its left is +x. Elbows and
# knees are bent a little at rest, as those of a rig are.
CENTRE = (
    ("hips", None, (0.0, 0.0, 1.0)),
    ("spine", "hips", (0.0, 0.0, 1.12)),
    ("chest", "spine", (0.0, -0.01, 1.28)),
    ("neck", "chest", (0.0, 0.02, 1.48)),
    ("head", "neck", (0.0, 0.0, 1.58)),
)
LEFT = (
    ("shoulder", "chest", (0.03, 0.0, 1.43)),
    ("upper_arm", "shoulder", (0.16, 0.01, 1.42)),
    ("forearm", "upper_arm", (0.42, 0.04, 1.40)),
    ("hand", "forearm", (0.67, 0.0, 1.38)),
    ("thigh", "hips", (0.1, 0.0, 0.95)),
    ("shin", "thigh", (0.11, -0.03, 0.52)),
    ("foot", "shin", (0.11, 0.02, 0.08)),
    ("toe", "foot", (0.12, -0.12, 0.02)),
)


def chain(n: int, *, length: float = 1.0, **build: Any) -> Skeleton:
    """n ball joints `joint.0`, ... along +y from the origin, `length` [m] apart; see `tip` for its end."""
    offsets = np.zeros((n, 3))
    offsets[1:, 1] = length
    return Skeleton.build([f"joint.{i}" for i in range(n)], range(-1, n - 1), offsets=offsets, **build)


def tip(length: float = 1.0) -> Array:
    """End of a bone in the axes of its joint, (3,) [m]."""
    return np.array([0.0, length, 0.0])


def planar(n: int, *, length: float = 1.0, **build: Any) -> Skeleton:
    """The chain with hinges about z: it stays in the xy plane."""
    return chain(n, length=length, free=[False] * 5 + [True], **build)


def planar_pose(*angles: float) -> Pose:
    """A pose of that chain by its angles [rad]."""
    channels = np.zeros((len(angles), 6))
    channels[:, 5] = angles
    return Pose.from_channels(channels)


def random_rotations(rng: np.random.Generator, n: int) -> Array:
    """Uniform rotation matrices (n, 3, 3)."""
    square, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    return square * np.sign(np.linalg.det(square))[:, None, None]


def tree(
    rng: np.random.Generator,
    n: int,
    *,
    roots: int = 1,
    settings: bool = False,
    sliding: float = 0.2,
    deep: bool = False,
    **build: Any,
) -> Skeleton:
    """A random forest in which nothing is aligned with anything: rest rotations, all six orders, channels.

    Args:
        rng: Source of random numbers.
        n: Number of joints `joint.0`, ...
        roots: How many of the first joints have no parent.
        settings: Whether inherit_rotation, inherit_scale and local_location are random too.
        sliding: Share of translation channels that are free.
        deep: Parents are near, so that the tree is about n / 2 deep rather than log n.
        build: Fields of `Skeleton.build`, instead of random ones.
    """
    parents = [-1] * roots
    parents += [int(rng.integers(max(i - 2, 0) if deep else 0, i)) for i in range(roots, n)]
    rest = np.tile(np.eye(4), (n, 1, 1))
    rest[:, :3, :3] = random_rotations(rng, n)
    rest[:, :3, 3] = rng.normal(size=(n, 3)) * 0.5
    rest[rng.random(n) < 0.1, :3, 3] = 0.0  # zero-length bones
    free = np.concatenate([rng.random((n, 3)) < sliding, rng.random((n, 3)) < 0.8], axis=1)
    given: dict[str, Any] = {
        "rest": rest,
        "orders": [ORDER_NAMES[i] for i in rng.integers(0, 6, n)],
        "free": free,
    }
    if settings:
        given |= {
            "inherit_rotation": rng.random(n) < 0.7,
            "inherit_scale": [INHERIT_SCALE[i] for i in rng.integers(0, len(INHERIT_SCALE), n)],
            "local_location": rng.random(n) < 0.7,
        }
    return Skeleton.build([f"joint.{i}" for i in range(n)], parents, **(given | build))


def humanoid(*, limit: float | None = None, scale: float = 1.0, **build: Any) -> Skeleton:
    """21 joints of a standing figure 1.7 m high, hips free to translate and turn.

    Args:
        limit: Box of every angle but those of the hips, either way [rad]; None for no limits.
        scale: Size of the figure [1].
        build: Fields of `Skeleton.build`.
    """
    return figure(*(name for name, _, _ in (*CENTRE, *LEFT)), limit=limit, scale=scale, **build)


def upper_body(*, limit: float | None = None, scale: float = 1.0, **build: Any) -> Skeleton:
    """The figure without shoulders and legs, 11 joints: what serves as well and costs less."""
    centre = [name for name, _, _ in CENTRE]
    return figure(*centre, "upper_arm", "forearm", "hand", limit=limit, scale=scale, **build)


def body(*, limit: float | None = None, scale: float = 1.0, **build: Any) -> Skeleton:
    """The figure without shoulders, toes and one joint of the spine: 16 joints."""
    centre, arm = ("hips", "chest", "neck", "head"), ("upper_arm", "forearm", "hand")
    return figure(*centre, *arm, "thigh", "shin", "foot", limit=limit, scale=scale, **build)


def torso(*, limit: float | None = None, scale: float = 1.0) -> Skeleton:
    """Two arms on one trunk, 8 joints: elbows are hinges, hands are fixed. For solves that take long."""
    skeleton = figure("hips", "chest", "upper_arm", "forearm", "hand", limit=limit, scale=scale)
    free = np.array(skeleton.free)
    for side in (".L", ".R"):
        free[skeleton.index("forearm" + side), 3:5] = False
        free[skeleton.index("hand" + side)] = False
    return replace(skeleton, free=free)


def figure(*kept: str, limit: float | None = None, scale: float = 1.0, **build: Any) -> Skeleton:
    """The figure with some of its joints, those of limbs on both sides: the others cost time."""
    above = {name: parent for name, parent, _ in (*CENTRE, *LEFT)}

    def parent_of(name: str, side: str) -> str | None:
        """The nearest ancestor that is kept, with its side if it is of a limb."""
        parent = above[name]
        while parent is not None and parent not in kept:
            parent = above[parent]
        return parent + side if parent in {name for name, _, _ in LEFT} else parent

    bones = [(name, parent_of(name, ""), place) for name, _, place in CENTRE if name in kept]
    for side, sign in ((".L", 1.0), (".R", -1.0)):
        for name, _, (x, y, z) in LEFT:
            if name in kept:
                bones.append((name + side, parent_of(name, side), (sign * x, y, z)))
    names = [name for name, _, _ in bones]
    places = {name: np.array(place) * scale for name, _, place in bones}
    offsets = [places[name] - (places[parent] if parent else 0.0) for name, parent, _ in bones]
    free = np.tile([False] * 3 + [True] * 3, (len(names), 1))
    free[0] = True
    upper = np.full((len(names), 6), np.inf)
    if limit is not None:
        upper[1:, 3:] = limit
    given: dict[str, Any] = {"offsets": offsets, "free": free, "lower": -upper, "upper": upper}
    return Skeleton.build(names, [parent for _, parent, _ in bones], **(given | build))


def random_pose(
    rng: np.random.Generator,
    skeleton: Skeleton,
    *,
    angle: float = 1.0,
    offset: float = 0.3,
    frames: tuple[int, ...] = (),
    only_free: bool = False,
) -> Pose:
    """Channels drawn evenly from ±angle [rad] and ±offset [m], inside the limits.

    Args:
        rng: Source of random numbers.
        skeleton: Whose pose.
        angle: Half the range of the angles.
        offset: Half the range of the translations.
        frames: Leading axes.
        only_free: Whether channels that are not free stay at 0.
    """
    half = np.array([offset] * 3 + [angle] * 3)
    channels = rng.uniform(-half, half, (*frames, len(skeleton), 6))
    channels = np.clip(channels, skeleton.lower, skeleton.upper)
    return Pose.from_channels(np.where(skeleton.free, channels, 0.0) if only_free else channels)
