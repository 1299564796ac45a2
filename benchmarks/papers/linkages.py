# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of hinges as the papers draw them, on the core's own skeletons and kinematics.

Each joint turns about one axis; its angles and the places at zero are what a paper gives. As a `Skeleton` it
is a joint with one free rotation, z of its own, so that places, Jacobians and second derivatives are those of
the core. A planar tree has all its axes along z, and two rows for each effector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from blender_ik_addon.core import Pose, Skeleton
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.model.mechanism import Mechanism, PosedMechanism


class Linkage:
    """A tree of hinges with effectors.

    Args:
        parents: Index of each joint's parent, -1 for none, (n,); parents come first.
        places: Where each joint is when all angles are zero, (n, 2) or (n, 3), any unit of length.
        effectors: Joint that carries each, and its place when all angles are zero.
        axes: About which each turns when all angles are zero, (n, 3), of length 1; all z when None.
    """

    def __init__(
        self,
        parents: Sequence[int],
        places: npt.ArrayLike,
        effectors: Sequence[tuple[int, npt.ArrayLike]],
        axes: npt.ArrayLike | None = None,
    ) -> None:
        places = np.asarray(places, dtype=np.float64)
        count, self.dimensions = places.shape
        self.parents, self.carriers = tuple(parents), tuple(joint for joint, _ in effectors)
        world = np.tile(np.eye(4), (count, 1, 1))
        if axes is not None:
            world[:, :3, :3] = [_turned_to(axis) for axis in np.asarray(axes, np.float64)]
        world[:, : self.dimensions, 3] = places
        rest = [w if p < 0 else np.linalg.inv(world[p]) @ w for p, w in zip(parents, world, strict=True)]
        free = [[False, False, False, False, False, True]]
        names = [f"joint {i + 1}" for i in range(count)]
        self.skeleton = Skeleton.build(names, list(parents), rest=rest, free=free)
        tips = np.tile([0.0, 0.0, 0.0, 1.0], (len(effectors), 1))
        tips[:, : self.dimensions] = [np.asarray(place) for _, place in effectors]
        self.points = np.array(
            [np.linalg.inv(world[j]) @ t for j, t in zip(self.carriers, tips, strict=True)]
        )
        self.mechanism = Mechanism.of(self.skeleton, Pose.rest(self.skeleton, (1,)), range(count))
        self.anchors = np.array([self.mechanism.anchor(joint) for joint in self.carriers])
        self.columns = np.argsort(self.mechanism.channels // 6)
        """Where each joint's angle is among the mechanism's channels, (n,)."""

    @classmethod
    def planar(
        cls,
        lengths: Sequence[float],
        parents: Sequence[int],
        effectors: Sequence[int],
        base: tuple[float, float] = (0.0, 0.0),
    ) -> Linkage:
        """Links that all lie along x when the angles, relative ones, are zero.

        Args:
            lengths: Of each link, (n,).
            parents: Link at whose end each begins, -1 for the base, (n,).
            effectors: Links whose ends these are.
            base: Where links without a parent begin.
        """
        starts, ends = np.zeros((len(lengths), 2)), np.zeros((len(lengths), 2))
        for link, (length, parent) in enumerate(zip(lengths, parents, strict=True)):
            starts[link] = base if parent < 0 else ends[parent]
            ends[link] = starts[link] + (length, 0.0)
        return cls(parents, starts, [(link, ends[link]) for link in effectors])

    @classmethod
    def of_nodes(cls, nodes: Sequence[Mapping[str, Any]]) -> Linkage:
        """One of Buss's trees: hinges about any axis, given in the world at rest, and effectors."""
        hinges = [node for node in nodes if node["purpose"] == "hinge"]
        number = {node["id"]: i for i, node in enumerate(hinges)}
        tips = [(number[node["parent"]], node["attach"]) for node in nodes if node["purpose"] == "effector"]
        parents = [-1 if node["parent"] is None else number[node["parent"]] for node in hinges]
        return cls(parents, [node["attach"] for node in hinges], tips, [node["axis"] for node in hinges])

    def __len__(self) -> int:
        return len(self.parents)

    def at(self, angles: npt.ArrayLike) -> PlacedLinkage:
        """The linkage with its joints at some angles, (n,) or (F, n) [rad]."""
        values = np.atleast_2d(np.asarray(angles, dtype=np.float64))
        ordered = np.empty_like(values)
        ordered[:, self.columns] = values
        return PlacedLinkage(self, self.mechanism.place(ordered))


class PlacedLinkage:
    """A linkage on which forward kinematics has been run."""

    def __init__(self, linkage: Linkage, posed: PosedMechanism) -> None:
        self._linkage, self._posed = linkage, posed
        self._space_points = posed.points(linkage.anchors, linkage.points[None, :, :3])  # (F, E, 3)

    @property
    def tips(self) -> FloatArray:
        """Effectors, (F, E, D)."""
        return self._space_points[..., : self._linkage.dimensions]

    @cached_property
    def _space_jacobian(self) -> FloatArray:
        return self._posed.point_jacobian(self._linkage.anchors, self._space_points)  # (F, E, 3, n)

    @cached_property
    def jacobian(self) -> FloatArray:
        """Their derivative by the angles, (F, E, D, n)."""
        return self._space_jacobian[:, :, : self._linkage.dimensions][..., self._linkage.columns]

    @property
    def stacked(self) -> FloatArray:
        """The same as one matrix, (F, E · D, n)."""
        return self.jacobian.reshape(len(self.jacobian), -1, len(self._linkage))

    def hessian(self, forces: FloatArray) -> FloatArray:
        """Σ_e force_e · ∂²tip_e/∂θ∂θ for forces (F, E, D), (F, n, n)."""
        full = np.zeros_like(self._space_points)
        full[..., : self._linkage.dimensions] = forces
        matrix = self._posed.hessian(full, self._space_jacobian).matrix()
        return matrix[:, self._linkage.columns][:, :, self._linkage.columns]

    def links(self, frame: int = 0) -> list[FloatArray]:
        """A frame as lines, (2, D) each: every joint to its children, every effector to what carries it."""
        slots = self._linkage.columns + 1  # one channel for each kept joint, in the same order
        joints = self._posed.matrices[frame, slots][:, : self._linkage.dimensions, 3]
        bones = [(parent, child) for child, parent in enumerate(self._linkage.parents) if parent >= 0]
        tips = zip(self._linkage.carriers, self.tips[frame], strict=True)
        return [joints[list(ends)] for ends in bones] + [np.array([joints[j], tip]) for j, tip in tips]


Rule = Callable[[PlacedLinkage, FloatArray, FloatArray], FloatArray]
"""Gives the change of the angles (n,) for the linkage where it is, the errors of its effectors, target −
current, (E · D,), and its angles (n,)."""


@dataclass(frozen=True)
class Walk:
    """A linkage that follows targets (S, E, D) with angles (S + 1, n) [rad], the start first."""

    linkage: Linkage
    angles: FloatArray
    targets: FloatArray

    @cached_property
    def placed(self) -> PlacedLinkage:
        """The linkage at all of them."""
        return self.linkage.at(self.angles)

    @property
    def distances(self) -> FloatArray:
        """Of the effectors from their targets after each step, (S, E)."""
        return np.linalg.norm(self.targets - self.placed.tips[1:], axis=-1)

    @property
    def steps(self) -> FloatArray:
        """Largest change of an angle in each step, (S,) [rad]."""
        return np.abs(np.diff(self.angles, axis=0)).max(axis=1)


def follow(linkage: Linkage, start: npt.ArrayLike, targets: FloatArray, rule: Rule) -> Walk:
    """Follow targets (S, E, D) from angles (n,), each with one step."""
    angles = [np.asarray(start, dtype=np.float64)]
    for goals in targets:
        placed = linkage.at(angles[-1])
        angles.append(angles[-1] + rule(placed, (goals - placed.tips[0]).ravel(), angles[-1]))
    return Walk(linkage, np.array(angles), targets)


def _turned_to(axis: FloatArray) -> FloatArray:
    """A rotation (3, 3) that brings z to an axis."""
    across = np.array([-axis[1], axis[0], 0.0])  # z × axis
    size = float(np.linalg.norm(across))
    if size < 1e-9:
        return np.diag([1.0, np.sign(axis[2]), np.sign(axis[2])])
    first = across / size
    return np.stack([first, np.cross(axis, first), axis], axis=1)
