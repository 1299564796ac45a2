# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of the bench as trees, targets for them, and the plain loop that is the yardstick.

A tree is made of ball joints; each is three hinges about x, y and z without offset between them, so that
R = Rx Ry Rz. The pelvis of `humanf` also has three sliders. As hinges they are what the yardstick and other
libraries see; as joints with the rotation order ZYX (the same R) they are what Poise solves.

**Yardstick**: damped least squares as one writes it first [Buss2009]. Forward kinematics by a Python loop
over the hinges, geometric Jacobian by `numpy.cross` and a mask, Δq = Jᵀ (J Jᵀ + c² I)⁻¹ e with a fixed c per
tree, no line search, stop when every effector is within 1 mm; angles clipped where there are limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import radians
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.page import stored
from benchmarks.timing import timed
from blender_ik_addon.core import ReachPoint, Skeleton
from blender_ik_addon.core.arrays import BoolArray, FloatArray

TOLERANCE: Final = 1e-3  # Distance at which the yardstick takes an effector for reached [m]
TRACK_ITERATIONS: Final = 20  # Most iterations of the yardstick in a frame that starts from the one before
POSE_ITERATIONS: Final = 300  # Most iterations of the yardstick from rest

FIRST_NUMBER: Final = 2  # With which targets of the first tree are drawn

Place = tuple[float, float, float]
PELVIS: Final = (0.0, 0.0, 0.95)


class Hinge(NamedTuple):
    """One degree of freedom."""

    name: str
    parent: int  # Index of the hinge it hangs on, -1 for the world
    offset: Place  # Where it is, in the parent's frame [m]
    axis: int  # 0 x, 1 y, 2 z of its own frame
    slides: bool  # Whether it slides [m] rather than turns [rad]


class Joint(NamedTuple):
    """Three hinges at one place; before them three sliders where it also moves."""

    name: str
    parent: str | None
    offset: Place  # Where it is, in the parent's frame [m]
    slides: bool = False


@dataclass(frozen=True)
class Tree:
    """Joints, parents first, and the points that are to reach targets."""

    name: str
    joints: tuple[Joint, ...]
    effectors: tuple[tuple[str, Place], ...]  # Joint and point in its frame [m], (E,)
    damping: float  # c of the yardstick, in the units of the residual [m]

    @property
    def hinges(self) -> list[Hinge]:
        """All degrees of freedom, parents first."""
        hinges: list[Hinge] = []
        last: dict[str | None, int] = {None: -1}
        for joint in self.joints:
            parent, offset = last[joint.parent], joint.offset
            kinds = [(f"t{axis}", True) for axis in "xyz"] * joint.slides
            kinds += [(axis, False) for axis in "xyz"]
            for kind, slides in kinds:
                hinges.append(Hinge(f"{joint.name}_{kind}", parent, offset, "xyz".index(kind[-1]), slides))
                parent, offset = len(hinges) - 1, (0.0, 0.0, 0.0)
            last[joint.name] = parent
        return hinges

    def last_hinge(self, joint: str) -> int:
        """Index of the hinge whose frame is that of a joint."""
        return next(i for i, hinge in enumerate(self.hinges) if hinge.name == f"{joint}_z")

    def skeleton(self, limit: float | None = None, *, free_root: bool = False) -> Skeleton:
        """The tree as ball joints, each angle within ± `limit` [rad] where it is given.

        Those of a joint that also slides turn freely with `free_root`.
        """
        free = np.array([[joint.slides] * 3 + [True] * 3 for joint in self.joints])
        bound = None
        if limit is not None:
            bound = np.tile([np.inf] * 3 + [limit] * 3, (len(self.joints), 1))
            bound[[free_root and joint.slides for joint in self.joints]] = np.inf
        return Skeleton.build(
            [joint.name for joint in self.joints],
            [joint.parent for joint in self.joints],
            offsets=[joint.offset for joint in self.joints],
            orders="ZYX",  # z first: R = Rx Ry Rz
            free=free,
            lower=None if bound is None else -bound,
            upper=bound,
        )

    def tasks(self, targets: FloatArray) -> tuple[ReachPoint, ...]:
        """A task for each effector, targets (E, 3) or, for a sequence, (F, E, 3) [m]."""
        return tuple(
            ReachPoint(joint=joint, point=np.array(point), target=targets[..., number, :])
            for number, (joint, point) in enumerate(self.effectors)
        )


# The trees


def human_tree(*, floating: bool = False) -> Tree:
    """A figure of 1.75 m with its arms out along y: 21 joints; `floating`: and a pelvis that moves."""
    content = stored("trees")
    joints = [Joint(name, parent, tuple(offset)) for name, parent, offset in content["joints"]]
    if floating:
        for number, (name, parent, (x, y, z), _) in enumerate(joints):
            if parent is None:
                joints[number] = Joint(name, "pelvis", (x, y, z - PELVIS[2]))
        joints.insert(0, Joint("pelvis", None, PELVIS, slides=True))
    effectors = tuple((name, tuple(point)) for name, point in content["effectors"])
    return Tree("humanf" if floating else "human", tuple(joints), effectors, damping=0.1)


def trees() -> dict[str, Tree]:
    """Both trees by name."""
    return {tree.name: tree for tree in (human_tree(), human_tree(floating=True))}


# The yardstick


class PlainSolution(NamedTuple):
    """What the yardstick found: hinges (nq,) [rad] or [m]."""

    values: FloatArray
    iterations: int
    reached: bool


class PlainLoop:
    """Damped least squares in plain numpy, see the module."""

    def __init__(self, tree: Tree, limit: float | None = None) -> None:
        hinges = tree.hinges
        self.size = len(hinges)
        """Number of hinges nq."""
        self.slides = np.array([hinge.slides for hinge in hinges])
        """Which of them slide, (nq,)."""
        self.limit = np.where(self.slides, np.inf, np.inf if limit is None else limit)
        """Largest value of each, (nq,)."""
        self._damping = tree.damping
        self._parents = [hinge.parent for hinge in hinges]
        self._offsets = np.array([hinge.offset for hinge in hinges])
        self._axes = np.array([hinge.axis for hinge in hinges])
        self._units = np.eye(3)[self._axes]
        self._tips = [tree.last_hinge(joint) for joint, _ in tree.effectors]
        self._points = np.array([point for _, point in tree.effectors])
        self._mask = np.zeros((len(self._tips), self.size, 1))
        """Which hinges move which effector, (E, nq, 1)."""
        for number, hinge in enumerate(self._tips):
            while hinge >= 0:
                self._mask[number, hinge] = 1.0
                hinge = self._parents[hinge]

    def _local(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rotations (nq, 3, 3) and places (nq, 3) in the parent's frame."""
        angles = np.where(self.slides, 0.0, values)
        cosine, sine = np.cos(angles), np.sin(angles)
        rotations = np.zeros((self.size, 3, 3))
        hinge, first, second = np.arange(self.size), (self._axes + 1) % 3, (self._axes + 2) % 3
        rotations[hinge, self._axes, self._axes] = 1.0
        rotations[hinge, first, first] = rotations[hinge, second, second] = cosine
        rotations[hinge, second, first] = sine
        rotations[hinge, first, second] = -sine
        return rotations, self._offsets + self._units * np.where(self.slides, values, 0.0)[:, None]

    def place(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rotations (nq, 3, 3) and places (nq, 3) of the hinges, effectors (E, 3), all in the world."""
        local, offsets = self._local(values)
        rotations, places = np.empty((self.size, 3, 3)), np.empty((self.size, 3))
        for hinge, parent in enumerate(self._parents):
            if parent < 0:
                rotations[hinge], places[hinge] = local[hinge], offsets[hinge]
            else:
                rotations[hinge] = rotations[parent] @ local[hinge]
                places[hinge] = places[parent] + rotations[parent] @ offsets[hinge]
        tips = places[self._tips] + (rotations[self._tips] @ self._points[..., None])[..., 0]
        return rotations, places, tips

    def jacobian(self, rotations: FloatArray, places: FloatArray, tips: FloatArray) -> FloatArray:
        """Derivative of the effectors by the hinges, (3 E, nq)."""
        axes = rotations[np.arange(self.size), :, self._axes]
        columns = np.cross(axes, tips[:, None] - places)
        if self.slides.any():
            columns = np.where(self.slides[:, None], axes, columns)
        return (columns * self._mask).transpose(0, 2, 1).reshape(-1, self.size)

    def solve(self, values: FloatArray, targets: FloatArray, max_iterations: int) -> PlainSolution:
        """From hinges (nq,) to targets (E, 3) [m]."""
        for iteration in range(max_iterations + 1):
            rotations, places, tips = self.place(values)
            error = targets - tips
            reached = bool((np.sqrt((error**2).sum(-1)) <= TOLERANCE).all())
            if reached or iteration == max_iterations:
                return PlainSolution(values, iteration, reached)
            J = self.jacobian(rotations, places, tips)
            damped = J @ J.T + self._damping**2 * np.eye(len(J))
            values = values + J.T @ np.linalg.solve(damped, error.ravel())
            values = np.clip(values, -self.limit, self.limit)
        raise AssertionError("the loop returns")


def plain_solutions(
    tree: Tree, targets: FloatArray, *, warm: bool, limit: float | None = None
) -> Iterator[tuple[PlainSolution, float]]:
    """The yardstick frame by frame on targets (F, E, 3) [m], with its times [s]; from rest unless `warm`."""
    loop = PlainLoop(tree, limit)
    values = np.zeros(loop.size)
    for places in targets:
        solution, seconds = timed(loop.solve, values, places, TRACK_ITERATIONS if warm else POSE_ITERATIONS)
        yield solution, seconds
        values = solution.values if warm else values


# Targets


class Targets(NamedTuple):
    """What the effectors of a tree are to reach, frame by frame."""

    positions: FloatArray  # (F, E, 3) [m]
    reachable: BoolArray  # Where a pose is known that reaches them, (F,)


def own_targets(count: int, seed: int) -> dict[str, Targets]:
    """A track and poses drawn here for each tree, by the names of a file; each from its own generator."""
    drawn: dict[str, Targets] = {}
    for number, (name, tree) in enumerate(trees().items()):
        for kind, draw in (("track", track_targets), ("pose", pose_targets)):
            rng = np.random.default_rng([seed, FIRST_NUMBER + number, kind == "pose"])
            drawn[f"{name}_{kind}"] = Targets(draw(tree, count, rng), np.ones(count, dtype=np.bool_))
    return drawn


def stored_targets(stored: Mapping[str, Any], count: int) -> dict[str, Targets]:
    """The first frames and poses of a file."""
    return {
        name: Targets(
            np.array(entry["positions"][:count]), np.array(entry["reachable"][:count], dtype=np.bool_)
        )
        for name, entry in stored["targets"].items()
    }


def pose_targets(tree: Tree, frames: int, rng: np.random.Generator) -> FloatArray:
    """Effectors in poses drawn at random, (frames, E, 3) [m].

    Angles within ± 55°, sliders within ± 0.3 m: all can be reached, also within limits above it.
    """
    loop = PlainLoop(tree)
    extent = np.where(loop.slides, 0.3, radians(55.0))
    return np.array([loop.place(extent * rng.uniform(-1.0, 1.0, loop.size))[2] for _ in range(frames)])


def track_targets(tree: Tree, frames: int, rng: np.random.Generator) -> FloatArray:
    """Effectors on a smooth way from rest, (frames, E, 3) [m].

    Each angle is the sum of two sines of 30° at most each and of ½ to 2 turns in 250 frames.
    """
    loop = PlainLoop(tree)
    extent = np.where(loop.slides, 0.15, radians(30.0)) * rng.uniform(-1.0, 1.0, (2, loop.size))
    turns = rng.uniform(0.5, 2.0, (2, loop.size))
    times = np.arange(frames)[:, None, None] / 250.0
    values = (extent * np.sin(2.0 * np.pi * turns * times)).sum(1)
    return np.array([loop.place(row)[2] for row in values])


def motion_targets(tree: Tree, frames: int, rng: np.random.Generator) -> FloatArray:
    """Effectors in a smooth motion from rest, (frames, E, 3) [m].

    Each channel is the sum of sines of one to three turns in all, and goes as far as 54°; the
    pelvis by 0.3 m and 30°.
    """
    loop = PlainLoop(tree)
    pelvis = np.array([hinge.name.startswith("pelvis") for hinge in tree.hinges])
    extent = np.where(loop.slides, 0.3, np.where(pelvis, radians(30.0), radians(54.0)))
    turns = np.arange(1, 4)
    times = np.linspace(0.0, 2.0 * np.pi, frames)[:, None, None]
    weights, phases = rng.normal(size=(loop.size, 3)), rng.uniform(0.0, 2.0 * np.pi, (loop.size, 3))
    values = (weights * (np.sin(turns * times + phases) - np.sin(phases))).sum(axis=2)
    values *= extent / np.maximum(np.abs(values).max(axis=0), 1e-9)
    return np.array([loop.place(row)[2] for row in values])


def led_away(targets: FloatArray, effector: int, width: float) -> FloatArray:
    """Targets (frames, E, 3) of which one leaves its way in the middle for some frames, `width` to each side.

    At most it goes 0.6 times as far again from the middle of its way, as high as the ground is.
    """
    targets = targets.copy()
    frames = np.arange(len(targets))
    part = 0.6 * np.exp(-(((frames - len(targets) // 2) / width) ** 2))
    way = targets[:, effector]
    targets[:, effector] = way + part[:, None] * (way - way.mean(axis=0) * np.array([0.0, 0.0, 1.0]))
    return targets
