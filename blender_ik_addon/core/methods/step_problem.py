# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of each method: its rule on the linear model at a pose, inside limits, with its null space.

The rules (`step_rules`) know matrices and errors. Here they get those of a stacked problem, in scaled units,
where the springs' K is the identity and their energy is half the square of the posture residual.

**The null space** takes a motion z towards the preferred pose, −α times the posture residual: in
PSEUDO_INVERSE and DLS as Liégeois' gradient; in SPRINGS by settling, Newton's step for their energy; in
EXTENDED_JACOBIAN as wanted displacements of the elements, and in BOUNDED as d = [e; c z]. All of it is
projected onto what the targets' rows leave free, so that at rest the targets are met exactly.

**Strength in proportion to the error** [Sugihara2011]: the damping λ, unless it is to be constant as in
[Buss2009], and the weight w of the elements, which damps likewise.

**Basic elements in space.** [SochLorencz2005] describe a planar chain by pairs of neighbouring segments, each
by the place (x, y) of its end in the frame in which the first angle is measured
(`step_rules.planar_elements`), and leave space to future work. In the plane two numbers determine the two
angles. In space a pair of joints that turn freely has six, so the end of a pair is described here by a rigid
frame: its place, and its orientation times the length of the second segment, (6,) for each pair. That alone
has a direction left where a limb is stretched: neighbours that twist about their common axis in turn, one
this way, one that way. So the first segment of each chain is an element by itself. With it the rows have as
many independent ones as there are channels in every pose outside gimbal lock: the first segment tells its own
channels, and each further one those of the next, since it has a length. In the plane, where the paper does
without, its rank is not full in every pose either (see the tests).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..model.posed import PosedMechanism
from ..problem.options import SolverOptions
from .inverses import damped_inverse, null_space_projection
from .stacked import Evaluation, StackedProblem
from .step_rules import (
    bounded_least_squares_step,
    damped_step,
    extended_jacobian_step,
    pseudo_inverse_step,
    selectively_damped_step,
    springs_step,
    transpose_step,
)

FLOOR: Final = 1e-8
"""Least part [1] of the strengths that is left where the error is nothing: rows that depend on each other
still do."""

FORCE_DAMPING: Final = 1e-3
"""λ of the springs' forces [1], in scaled units, so that they stay moderate at singular poses."""

SHORTEST: Final = 1e-3
"""Length of a segment as a part of the longest [1] that is taken where it is shorter: joints that lie in one
place turn all the same."""


@dataclass(frozen=True)
class StepProblem:
    """A linear model of the residual, and what a step may do, all in scaled units."""

    stacked: StackedProblem
    at: Evaluation
    options: SolverOptions
    whole_jacobian: FloatArray
    """By all channels, (m, nv)."""
    whole_error: FloatArray
    """Before any channel has moved, (m,)."""
    whole_posture: FloatArray
    """Posture residual, 0 where there is none, (nv,)."""
    lower: FloatArray
    """Bounds of the change, (nv,)."""
    upper: FloatArray
    radius: float
    """Largest change."""
    gain: float
    """α of the null space."""
    effector_rows: tuple[int, ...]
    """Rows of what SDLS takes for an effector."""
    held: BoolArray
    """Active set: channels that were stopped at a limit, (nv,)."""
    fixed: FloatArray
    """Change of the held channels, (nv,)."""

    def holding(self, leaves: BoolArray, change: FloatArray) -> StepProblem:
        """A copy with more channels held after a change (nv,)."""
        held = self.held | leaves
        return replace(self, held=held, fixed=np.where(held, np.where(leaves, change, self.fixed), 0.0))

    @property
    def jacobian(self) -> FloatArray:
        """By the channels that are left, (m, nv)."""
        return np.where(self.held, 0.0, self.whole_jacobian)

    @property
    def error(self) -> FloatArray:
        """Error that the held channels leave, (m,)."""
        return self.whole_error - self.whole_jacobian @ self.fixed

    @property
    def posture(self) -> FloatArray:
        """Posture residual of the channels that are left, (nv,)."""
        return np.where(self.held, 0.0, self.whole_posture)

    @property
    def null_motion(self) -> FloatArray:
        """z, the motion that the null space is to take, (nv,)."""
        return -self.gain * self.posture

    @property
    def error_share(self) -> float:
        """Factor of strengths that are in proportion to the error [1]."""
        return min(self.at.error, 1.0) + FLOOR

    @property
    def damping(self) -> float:
        """λ [1]."""
        return self.options.damping * (1.0 if self.options.constant_damping else self.error_share)


def _transpose(problem: StepProblem) -> FloatArray:
    return transpose_step(problem.jacobian, problem.error)


def _pseudo_inverse(problem: StepProblem) -> FloatArray:
    return pseudo_inverse_step(problem.jacobian, problem.error, problem.null_motion)


def _damped(problem: StepProblem) -> FloatArray:
    jacobian = problem.jacobian
    change = damped_step(jacobian, problem.error, problem.damping)
    if not problem.null_motion.any():
        return change
    return change + null_space_projection(jacobian) @ problem.null_motion


def _selectively_damped(problem: StepProblem) -> FloatArray:
    return selectively_damped_step(
        problem.jacobian, problem.error, problem.effector_rows, gamma_max=problem.radius
    )


def _springs(problem: StepProblem) -> FloatArray:
    jacobian, posture, held = problem.jacobian, problem.posture, problem.held
    forces = damped_inverse(jacobian, FORCE_DAMPING).T @ posture
    bend = problem.stacked.curvature(problem.at, forces)
    bend = np.where(held[:, None] | held, 0.0, bend)
    change, _ = springs_step(
        jacobian,
        problem.error,
        np.ones_like(posture),
        posture,
        bend,
        settling=problem.gain,
        damping=problem.damping,
    )
    return change


def _extended_jacobian(problem: StepProblem) -> FloatArray:
    stacked, jacobian = problem.stacked, problem.jacobian
    of_all = basic_elements(problem.at.posed)[0] / (stacked.length * stacked.weight)
    elements = np.where(problem.held, 0.0, of_all)
    wanted = pseudo_inverse_step(jacobian, np.zeros_like(problem.error), problem.null_motion)
    # What the channels that are held do to the elements is done already.
    displacement = elements @ wanted - of_all @ problem.fixed
    weight = problem.options.element_weight * problem.error_share
    return extended_jacobian_step(jacobian, problem.error, elements, displacement, weight=weight)


def _bounded(problem: StepProblem) -> FloatArray:
    """Twice: what the limits hold in the first step takes no part in the null space of the second."""
    jacobian, error, wanted = problem.jacobian, problem.error, problem.null_motion
    lower, upper, damping = problem.lower, problem.upper, problem.damping
    change = bounded_least_squares_step(jacobian, error, lower, upper, damping)
    if not wanted.any():
        return change
    free = (change > lower) & (change < upper)
    null = null_space_projection(np.where(free, jacobian, 0.0)) @ np.where(free, wanted, 0.0)
    # |J dq − e|² + c²|dq − z|² is the same rule about z.
    about = error - jacobian @ null
    return null + bounded_least_squares_step(jacobian, about, lower - null, upper - null, damping)


STEPS: Final[dict[str, Callable[[StepProblem], FloatArray]]] = {
    "DLS": _damped,
    "SDLS": _selectively_damped,
    "PSEUDO_INVERSE": _pseudo_inverse,
    "TRANSPOSE": _transpose,
    "SPRINGS": _springs,
    "EXTENDED_JACOBIAN": _extended_jacobian,
    "BOUNDED": _bounded,
}
"""The change du (nv,) of each method, before limits and clamps."""


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
