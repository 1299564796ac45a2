# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of hinges as the papers draw them, on the core's own skeletons and kinematics.

Each joint turns about one axis; its angles and the places at zero are what a paper gives. As a `Skeleton` it
is a joint with one free rotation, z of its own, so that places, Jacobians and second derivatives are those of
the core and nothing is written twice. A planar tree has all its axes along z, and two rows for each effector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from blender_ik_addon.core import Pose, Skeleton
from blender_ik_addon.core.arrays import FloatArray, IntArray
from blender_ik_addon.core.model.mechanism import Mechanism
from blender_ik_addon.core.model.posed import PosedMechanism

PARALLEL: Final = 1e-9
"""Sine of the angle between two axes [1] below which they count as the same."""


class Linkage:
    """A tree of hinges with effectors."""

    def __init__(
        self,
        parents: Sequence[int],
        places: npt.ArrayLike,
        effectors: Sequence[tuple[int, npt.ArrayLike]],
        axes: npt.ArrayLike | None = None,
    ) -> None:
        """Build the skeleton.

        Args:
            parents: Index of each joint's parent, -1 for none, (n,); parents come first.
            places: Where each joint is when all angles are zero, (n, 2) or (n, 3), any unit of length.
            effectors: Joint that carries each, and its place when all angles are zero.
            axes: About which each turns when all angles are zero, (n, 3), of length 1; all z when None.
        """
        places = np.asarray(places, dtype=np.float64)
        self.dimensions = places.shape[1]
        """2 in the plane, 3 in space."""
        self.parents = tuple(parents)
        """Index of each joint's parent, -1 for none, (n,)."""
        axes = np.tile([0.0, 0.0, 1.0], (len(places), 1)) if axes is None else np.asarray(axes, np.float64)
        world = np.tile(np.eye(4), (len(places), 1, 1))
        world[:, :3, :3] = [_turned_to(axis) for axis in axes]
        world[:, : self.dimensions, 3] = places
        rest = [
            matrix if parent < 0 else np.linalg.inv(world[parent]) @ matrix
            for parent, matrix in zip(parents, world, strict=True)
        ]
        self.skeleton = Skeleton.build(
            [f"joint {i + 1}" for i in range(len(places))],
            list(parents),
            rest=rest,
            free=[[False, False, False, False, False, True]],
        )
        self.carriers = tuple(joint for joint, _ in effectors)
        """Joint that carries each effector, (E,)."""
        tips = np.zeros((len(effectors), 4))
        tips[:, 3] = 1.0
        tips[:, : self.dimensions] = np.array([np.asarray(place) for _, place in effectors])
        self._points = np.array(
            [(np.linalg.inv(world[j]) @ tip)[:3] for j, tip in zip(self.carriers, tips, strict=True)]
        )
        self._mechanism = Mechanism.of(
            self.skeleton, Pose.rest(self.skeleton, (1,)), range(len(self.skeleton))
        )
        self.anchors: IntArray = np.array([self._mechanism.anchor(joint) for joint in self.carriers])
        """Slot of the mechanism that carries each effector, (E,)."""
        self.columns: IntArray = np.argsort(self._mechanism.channels // 6)
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
        linkage = cls(parents, starts, [(link, ends[link]) for link in effectors])
        linkage.lengths = tuple(lengths)
        return linkage

    lengths: tuple[float, ...] = ()
    """Of the links, where it was built from them."""

    def __len__(self) -> int:
        return len(self.parents)

    def at(self, angles: npt.ArrayLike) -> PlacedLinkage:
        """The linkage with its joints at some angles, (n,) or (F, n) [rad]."""
        values = np.atleast_2d(np.asarray(angles, dtype=np.float64))
        ordered = np.empty_like(values)
        ordered[:, self.columns] = values
        return PlacedLinkage(self, self._mechanism.place(ordered))

    @property
    def points(self) -> FloatArray:
        """Effectors in the frames that carry them, (1, E, 3)."""
        return self._points[None]


class PlacedLinkage:
    """A linkage on which forward kinematics has been run."""

    def __init__(self, linkage: Linkage, posed: PosedMechanism) -> None:
        self._linkage, self._posed = linkage, posed

    @cached_property
    def _space_points(self) -> FloatArray:
        return self._posed.points(self._linkage.anchors, self._linkage.points)  # (F, E, 3)

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
        linkage = self._linkage
        return self._space_jacobian[:, :, : linkage.dimensions][..., linkage.columns]

    @property
    def stacked(self) -> FloatArray:
        """The same as one matrix, (F, E · D, n)."""
        return self.jacobian.reshape(len(self.jacobian), -1, len(self._linkage))

    def bend(self, forces: FloatArray) -> FloatArray:
        """Σ_e force_e · ∂²tip_e/∂θ∂θ for forces (F, E, D), (F, n, n)."""
        full = np.zeros_like(self._space_points)
        full[..., : self._linkage.dimensions] = forces
        matrix = self._posed.bend(full, self._space_jacobian).matrix()
        columns = self._linkage.columns
        return matrix[:, columns][:, :, columns]

    @property
    def joints(self) -> FloatArray:
        """Where the joints are, (F, n, D)."""
        slots = self._linkage.columns + 1  # one channel for each kept joint, in the same order
        return self._posed.matrices[:, slots][..., : self._linkage.dimensions, 3]

    def links(self, frame: int = 0) -> list[FloatArray]:
        """A frame as lines, (2, D) each: every joint to its children, every effector to what carries it."""
        joints, tips = self.joints[frame], self.tips[frame]
        lines = [
            np.array([joints[parent], joints[child]])
            for child, parent in enumerate(self._linkage.parents)
            if parent >= 0
        ]
        carriers = self._linkage.carriers
        return lines + [np.array([joints[joint], tip]) for joint, tip in zip(carriers, tips, strict=True)]


Rule = Callable[[PlacedLinkage, FloatArray, FloatArray], FloatArray]
"""Gives the change of the angles (n,) for the linkage where it is, the errors of its effectors, target −
current, (E, D), and its angles (n,)."""


@dataclass(frozen=True)
class Walk:
    """A linkage that follows targets, one step of a rule for each; the start comes first."""

    linkage: Linkage
    angles: FloatArray
    """(S + 1, n) [rad]."""
    targets: FloatArray
    """(S, E, D)."""

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
        angles.append(angles[-1] + rule(placed, goals - placed.tips[0], angles[-1]))
    return Walk(linkage, np.array(angles), targets)


def _turned_to(axis: FloatArray) -> FloatArray:
    """A rotation (3, 3) that brings z to an axis."""
    across = np.array([-axis[1], axis[0], 0.0])  # z × axis
    size = float(np.linalg.norm(across))
    if size < PARALLEL:
        return np.diag([1.0, np.sign(axis[2]), np.sign(axis[2])])
    first = across / size
    return np.stack([first, np.cross(axis, first), axis], axis=1)
