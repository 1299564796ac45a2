# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinematics of the joints that a solve moves, as a function of the free channels, with two derivatives.

Rest matrices, fixed channels and scales are constant during a solve. `Mechanism` multiplies these constants
out and keeps the joints that move. With G = [R | x] the rigid frame of a kept joint, p its kept parent and t
its translation

    R_j = R_p Q_j R(angles_j),      x_j = x_p + R_p (d_j + D_j t_j),

and every other joint is G_anchor K with a constant matrix K. A joint that does not inherit rotation has its
R_p replaced by the identity. Each free channel is a screw (omega, v): a point p it carries moves with
v + omega × p [Buss2009 §2: `v × (s − p)` for a rotation, `v` for a translation].

Channels are numbered from the root outward, and within a joint from the one applied last (outermost) to the
one applied first: of two channels that move a point the first carries the axis of the second. The second
derivatives are therefore ∂²p/∂q_i∂q_j = omega_i × ∂p/∂q_j for i <= j, and under forces f_e on points p_e

    Σ_e f_e · ∂²p_e/∂q_i∂q_j = omega_i · Σ_e ∂p_e/∂q_j × f_e:

for whatever channel j moves, a channel i above it moves as well, so the sum over points is the same for all
i, and what is left is one product of matrices however many points there are.

All arrays have the frame axis first; constants have 1 there when they are the same in all frames. Of many
frames the matrices of a `PosedMechanism` are stored with the frame axis last as well, so that the product of
matrices of a joint is a few operations on all frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, alike, fault, frozen, usable
from ..errors import IKError
from .kinematics import orthogonalized, parent_transform
from .rotation import EULER_ORDERS, FEW, EulerElements, matrix_from_euler, skew
from .skeleton import CHANNELS, Pose, Skeleton

SHEAR_TOLERANCE: Final = 5e-4
"""Largest deviation of BᵀB from a multiple of the identity [1] for B to count as rotation and even scale.
Rest matrices of Blender are off by up to 1e-4 where a bone points against its parent."""

LIFTED: Final = 1e-6
"""Start value of slack variables [1], which are no channels of a pose (`problem.system`): above 0, as it is
not known whether their inequalities hold."""

ARMATURE: Final = 0
"""Slot of the armature's own frame; kept joint k has slot k + 1."""


@dataclass(frozen=True)
class _Level:
    """Kept joints at the same depth, placed at once."""

    joints: slice
    """Which of the kept joints they are."""
    slots: slice
    parents: slice | IntArray
    turners: IntArray | None
    """Slots whose rotation they take; None for their parents'."""


class Mechanism:
    """The kept joints of a skeleton, their constants for some frames, and their free channels.

    Slack variables are further channels, at least 0, that move nothing; they follow those of poses.
    """

    def __init__(self, skeleton: Skeleton, pose: Pose, joints: Iterable[int], slacks: int = 0) -> None:
        """Multiply out the constants of a pose.

        Args:
            pose: One leading frame axis; the free channels of the moving joints are ignored.
            joints: Indices of the joints that must be placed; they and their ancestors take part.
            slacks: Number of slack variables.

        Raises:
            IKError: A joint that should turn lies in a space that is stretched unevenly.
        """
        self.skeleton, self.slacks = skeleton, slacks
        needed: set[int] = set()
        for joint in joints:
            needed.update(skeleton.ancestors(joint))
        # Joints that are kept lie level by level, so that forward kinematics takes slices.
        levels = _kept_levels(skeleton, needed)
        involved = sorted(needed, key=lambda joint: (levels[joint], skeleton.depths[joint], joint))
        pose = _without_repeated_frames(skeleton, pose, involved)
        frames = pose.frames[0]
        fixed_channels = np.zeros_like(skeleton.free)
        fixed_channels[involved] = ~skeleton.free[involved]
        self._held = np.flatnonzero(fixed_channels)
        self._held_values, self._scale = (
            pose.channels.reshape(frames, len(self.skeleton) * CHANNELS)[:, self._held],
            pose.scale,
        )
        rotations = matrix_from_euler(pose.rotation[:, involved], skeleton.orders[involved])

        kept: list[int] = []
        parent_slot: list[int] = []
        turns_with: list[int] = []
        pre: list[FloatArray] = []
        offset: list[FloatArray] = []
        slide: list[FloatArray] = []
        fixed = np.array(pose.channels)
        # Slot of the kept joint that carries a joint, and the joint's constant matrix in its frame.
        self._anchor = np.zeros(len(skeleton), dtype=np.int64)
        self._anchor_from_joint: dict[int, FloatArray] = {}
        for joint, own in zip(involved, np.moveaxis(rotations, 1, 0), strict=True):
            parent = int(skeleton.parents[joint])
            anchor = ARMATURE if parent < 0 else int(self._anchor[parent])
            inherited = parent_transform(
                skeleton, joint, None if parent < 0 else self._anchor_from_joint[parent]
            )
            free = skeleton.free[joint]
            linear = own * pose.scale[:, joint, None, :]
            hinge = parent >= 0 and not skeleton.inherit_rotation[joint]
            if not _is_kept(skeleton, joint):
                matrix = inherited.apply(pose.translation[:, joint], linear)
                self._anchor[joint] = anchor
                self._anchor_from_joint[joint] = _spread(matrix, (frames, 4, 4))
                continue
            before = _spread(inherited.linear, (frames, 3, 3))
            scale = pose.scale[:, joint] * inherited.post_scale
            rotation, size = _similarity(before)
            if size is not None:
                inside = np.einsum("fi,ij->fij", size[:, None] * scale, np.eye(3))
            elif free[3:].any():
                carrier = skeleton.names[parent]
                raise IKError(
                    "bone {names!r} cannot turn: it inherits an uneven scale of {carrier!r}. Set Inherit "
                    "Scale of {names!r} to Aligned, Average or None, or make the scale of {carrier!r} even",
                    names=skeleton.names[joint],
                    carrier=carrier,
                )
            else:
                rotation = _spread(np.eye(3), (frames, 3, 3))
                inside = before @ linear * inherited.post_scale[..., None, :]
                fixed[:, joint, 3:] = 0.0
            kept.append(joint)
            parent_slot.append(anchor)
            turns_with.append(ARMATURE if hinge else anchor)
            pre.append(rotation)
            offset.append(_spread(inherited.origin, (frames, 3)))
            slide.append(_spread(inherited.translation, (frames, 3, 3)))
            self._anchor[joint] = len(kept)
            within = np.tile(np.eye(4), (frames, 1, 1))
            within[:, :3, :3] = inside
            self._anchor_from_joint[joint] = within

        self._check_size(involved, offset, kept)
        m = len(kept)
        self.joints: IntArray = frozen(kept, np.int64)
        """Skeleton indices of the kept joints, (m,), parents first."""
        self.parents: IntArray = frozen(parent_slot, np.int64)
        """Slot that carries each, (m,)."""
        self.turns_with: IntArray = frozen(turns_with, np.int64)
        """Slot whose rotation it takes: that of its parent, or of the armature, (m,)."""
        self.pre: FloatArray = frozen(orthogonalized(_stacked(pre, (frames, m, 3, 3)), normalize=True))
        """Q, the rotation before the joint's own, (F, m, 3, 3)."""
        self._turned = bool((self.pre != np.eye(3)).any())
        """Whether any of these turns; of figures out of motion capture none does."""
        self.slide: FloatArray = frozen(_stacked(slide, (frames, m, 3, 3)))
        """D, by which its translation becomes one in the frame of its parent, (F, m, 3, 3)."""
        fixed = fixed[:, self.joints]
        fixed[:, skeleton.free[self.joints]] = 0.0
        offsets = _stacked(offset, (frames, m, 3)) + (self.slide @ fixed[..., :3, None])[..., 0]
        self._still: FloatArray = np.tile(np.eye(4), (frames, m + 1, 1, 1))
        """parent_from_slot without the free channels, its rotation left open, (F, m + 1, 4, 4)."""
        self._still[:, 1:, :3, 3] = offsets
        self._orders = skeleton.orders[self.joints]
        self._number_channels(fixed)
        self._relate()
        self.lower: FloatArray = frozen(self.of_channels(skeleton.lower))
        self.upper: FloatArray = frozen(self.of_channels(skeleton.upper, np.inf))
        self.preferred: FloatArray = frozen(self.of_channels(skeleton.preferred, np.nan))
        self.stiffness: FloatArray = frozen(self.of_channels(skeleton.stiffness))
        """Limits, preferred values and stiffness of the free channels, (nv,)."""

    def _check_size(
        self, involved: Iterable[int], offsets: Sequence[FloatArray], kept: Sequence[int]
    ) -> None:
        """Raise `IKError`, with the joint's name, where a product of scales is too large to be solved."""
        folded = [(joint, self._anchor_from_joint[joint]) for joint in involved]
        arrays = [*folded, *zip(kept, offsets, strict=True)]
        if not arrays or usable(np.concatenate([array.ravel() for _, array in arrays])):
            return
        for joint, array in arrays:
            if not usable(array):
                raise IKError(
                    "joint {names!r} {array}: the scale of it or of its parents is too large",
                    names=self.skeleton.names[joint],
                    array=fault(array),
                )

    @classmethod
    def of(cls, skeleton: Skeleton, pose: Pose, joints: Iterable[int], slacks: int = 0) -> Mechanism:
        """The mechanism of a pose; the last one for these joints if the constants are the same.

        Raises:
            IKError: As for a new one.
        """
        key = frozenset(joints), slacks
        known: dict[object, Mechanism] = vars(skeleton).setdefault("_mechanisms", {})
        last = known.get(key)
        if isinstance(last, cls) and last._fits(pose):
            return last
        new = known[key] = cls(skeleton, pose, *key)
        return new

    def _fits(self, pose: Pose) -> bool:
        """Whether a pose (F, n, 6) has the same constants."""
        frames = pose.frames[0]
        if len(self._held_values) not in (1, frames):
            return False
        held = pose.channels.reshape(frames, len(self.skeleton) * CHANNELS)[:, self._held]
        return bool((held == self._held_values).all() and (pose.scale == self._scale).all())

    def select(self, frames: IntArray) -> Mechanism:
        """The same mechanism for some of its frames."""
        if len(self.pre) == 1:
            return self
        some = alike(self)
        some._held_values, some._scale = self._held_values[frames], self._scale[frames]
        some._anchor_from_joint = {j: matrix[frames] for j, matrix in self._anchor_from_joint.items()}
        some.pre, some.slide, some.slides = self.pre[frames], self.slide[frames], self.slides[frames]
        some._still, some._fixed = self._still[frames], self._fixed[frames]
        return some

    def _number_channels(self, fixed: FloatArray) -> None:
        """Number the free channels from the root outward, outermost first.

        The others stay as they are in `fixed`, (F, m, 6).
        """
        channels: list[tuple[int, int]] = []
        for slot, joint in enumerate(self.joints):
            order = EULER_ORDERS[int(self._orders[slot])]
            outermost_first = [3 + "XYZ".index(axis) for axis in reversed(order)]
            channels += [(slot, c) for c in (0, 1, 2, *outermost_first) if self.skeleton.free[joint, c]]
        slots = np.array([slot for slot, _ in channels], dtype=np.int64)
        numbers = np.array([channel for _, channel in channels], dtype=np.int64)
        rotates = numbers >= 3
        nv, m = len(channels), len(self.joints)
        column = np.full((m, CHANNELS), -1, dtype=np.int64)
        column[slots, numbers] = np.arange(nv)
        held = np.argwhere(column[:, 3:] < 0)
        column[held[:, 0], 3 + held[:, 1]] = nv + self.slacks + np.arange(len(held))
        self._fixed: FloatArray = fixed[:, held[:, 0], 3 + held[:, 1]]
        """Angles that stay, which follow the free channels where rotations are computed, (F, k)."""
        self._rotations = EulerElements(self._orders, column[:, 3:])
        sliding = np.flatnonzero((column[:, :3] >= 0).any(axis=1))
        self._slide_columns = np.maximum(column[sliding, :3], 0)
        """Free translations of the joints that have any, (s, 3); any channel where one is fixed."""
        self.slides: FloatArray = self.slide[:, sliding] * (column[sliding, None, :3] >= 0)
        """D of these joints, without the translations that are fixed, (F, s, 3, 3)."""
        self.carriers: IntArray = self.parents[sliding]
        """Slots in whose frames they are moved, (s,)."""
        self.sliding = _as_slice(sliding)
        """Which kept joints they are, (s,)."""
        # Where a channel's axis is in matrices (m, 3, 3), and the place of its joint in those of slots.
        axis, place = 9 * slots + numbers % 3, 16 * (slots + 1) + 3
        self.omega_in: IntArray = np.concatenate([axis + 3 * k for k in (0, 1, 2, *RIGHT)])
        """Angular velocities by channel, then their elements in the order of `RIGHT`, (9 nv,)."""
        self.axis_in: IntArray = numbers % 3 * len(self.joints) + slots
        """Where a channel's axis is in the columns of all joints, (3, m), (nv,)."""
        self.place_in: IntArray = np.concatenate([place + 4 * k for k in LEFT])
        """Places of the joints by channel, in the order of `LEFT`, (6 nv,)."""
        self.slide_channels = _as_slice(np.flatnonzero(~rotates))
        """Free channels that are translations, (k,)."""
        self.slide_in = _as_slice(np.flatnonzero(column[sliding, :3].ravel() >= 0))
        """Which of all directions of the joints that have any they are, (k,)."""
        beyond = len(self.skeleton) * CHANNELS + np.arange(self.slacks)
        own = self.joints[slots] * CHANNELS + numbers
        self.channels: IntArray = frozen(np.concatenate([own, beyond]), np.int64)
        """Index of each free channel in a pose's channels reshaped to (..., n * 6), (nv,); slacks follow."""
        self.kept_of: IntArray = frozen(np.concatenate([slots, np.full(self.slacks, -1)]), np.int64)
        """Which kept joint each free channel belongs to, -1 of slacks, (nv,)."""
        self.rotates: BoolArray = frozen(np.pad(rotates, (0, self.slacks)), np.bool_)
        """Which free channels are angles, (nv,)."""

    def _relate(self) -> None:
        """Find which channels move and turn which slots, and about which joint's origin."""
        m, nv = len(self.joints), len(self.channels)
        self.moves: BoolArray = np.zeros((m + 1, nv), dtype=np.bool_)
        """Which channels move each slot, (m + 1, nv)."""
        self.turns: BoolArray = np.zeros((m + 1, nv), dtype=np.bool_)
        """Which channels turn each slot, (m + 1, nv)."""
        hinged = bool((self.turns_with != self.parents).any())
        self.lever: IntArray = np.full((m + 1 if hinged else 0, nv), -1, dtype=np.int64)
        """Slot at whose origin a channel moves each slot, (m + 1, nv); -1: at the point itself. A channel
        above a joint that does not inherit rotation moves all below that joint as it moves the joint. Empty
        where every joint turns with its parent."""
        for slot in range(1, m + 1):
            own = self.kept_of == slot - 1
            parent, turner = self.parents[slot - 1], self.turns_with[slot - 1]
            self.moves[slot] = self.moves[parent] | own
            self.turns[slot] = self.turns[turner] | (own & self.rotates)
            if not hinged:
                continue
            self.lever[slot] = self.lever[parent]
            if turner != parent:
                # Its own translation is along axes that its parent turns, so it is carried like the parent's.
                carried = self.moves[parent] | (own & ~self.rotates)
                self.lever[slot, carried & (self.lever[parent] < 0)] = slot
        self.has_levers = bool((self.lever >= 0).any())
        """Whether there are any of those."""
        acting = self.moves.T.astype(np.float64) @ self.moves > 0.0
        if self.has_levers:
            # Channels on two sides of a joint that does not inherit rotation do not act on each other.
            acting[:] = False
            for moves, lever in zip(self.moves, self.lever, strict=True):
                acting |= moves[:, None] & moves & (lever[:, None] == lever)
        self.together: FloatArray = frozen(np.triu(acting) - 0.5 * np.diag(acting.diagonal()))
        """1 where a channel i < j moves along what j moves, 1/2 for i = j, else 0, (nv, nv)."""
        depths = np.zeros(m + 1, dtype=np.int64)
        self._levels: list[_Level] = []
        for slot in range(1, m + 1):
            depths[slot] = depths[self.parents[slot - 1]] + 1
        for depth in range(1, int(depths.max(initial=0)) + 1):
            slots = np.flatnonzero(depths == depth)
            first, end = int(slots[0]), int(slots[-1]) + 1
            parents, turners = self.parents[first - 1 : end - 1], self.turns_with[first - 1 : end - 1]
            turned = None if (parents == turners).all() else turners
            self._levels.append(
                _Level(slice(first - 1, end - 1), slice(first, end), _as_slice(parents), turned)
            )
        ancestors = np.concatenate([[ARMATURE], self.parents])
        self._doublings: list[IntArray] = []
        """Slots by whose matrices those of all slots are multiplied, so that these reach up the tree twice as
        far each time, (m + 1,) each; none where a joint turns otherwise than its parent."""
        while (ancestors != ARMATURE).any() and not any(level.turners is not None for level in self._levels):
            self._doublings.append(ancestors)
            ancestors = ancestors[ancestors]

    @property
    def size(self) -> int:
        """Number of free channels nv."""
        return len(self.channels)

    @cached_property
    def balls(self) -> tuple[IntArray, IntArray]:
        """Free channels of the joints that turn freely, x, y, z, (J, 3), and their rotation orders, (J,)."""
        columns: list[IntArray] = []
        orders: list[int] = []
        for slot, order in enumerate(self._orders):
            own = np.flatnonzero((self.kept_of == slot) & self.rotates)
            if len(own) == 3:
                columns.append(own[np.argsort(self.channels[own])])
                orders.append(int(order))
        return np.array(columns, dtype=np.int64).reshape(-1, 3), np.array(orders, dtype=np.int64)

    def values(self, pose: Pose) -> FloatArray:
        """The free channels of a pose, (..., nv); slack variables are `LIFTED`."""
        return self.of_channels(pose.channels, LIFTED)

    def with_values(self, pose: Pose, values: FloatArray) -> Pose:
        """The pose with these free channels, (..., nv), without slack variables."""
        channels = pose.channels.copy()
        count = channels.shape[-2] * CHANNELS
        known = self.channels < count
        channels.reshape(*pose.frames, count)[..., self.channels[known]] = values[..., known]
        channels.setflags(write=False)
        return pose.with_channels(channels)

    def of_channels(self, per_channel: FloatArray, missing: float = 0.0) -> FloatArray:
        """Values of the free channels out of an array for all channels, (..., n, 6) -> (..., nv).

        Those of slack variables are `missing`.
        """
        count = per_channel.shape[-2] * CHANNELS
        flat = per_channel.reshape(*per_channel.shape[:-2], count)
        known = self.channels < count
        if known.all():
            return flat[..., self.channels]
        values = np.full((*flat.shape[:-1], len(known)), missing, dtype=flat.dtype)
        values[..., known] = flat[..., self.channels[known]]
        return values

    def anchor(self, joint: int) -> int:
        """Slot of the kept joint that carries a joint."""
        return int(self._anchor[joint])

    def anchor_from_joint(self, joint: int) -> FloatArray:
        """Constant matrix of a joint in its anchor's rigid frame, (F or 1, 4, 4), scale included."""
        return self._anchor_from_joint[joint]

    def anchor_from_rotation(self, joint: int) -> FloatArray:
        """Orientation of a joint in its anchor's rigid frame without scale and mirroring, (F or 1, 3, 3).

        0 where the joint is scaled to nothing along an axis, and so has none.
        """
        linear = orthogonalized(self._anchor_from_joint[joint][:, :3, :3], normalize=True)
        volume: FloatArray = np.linalg.det(linear)  # 1, -1 mirrored, 0 scaled to nothing, but for rounding
        return linear * np.rint(volume)[:, None, None]

    def place(self, values: FloatArray) -> PosedMechanism:
        """Forward kinematics of the kept joints for the free channels (F, nv)."""
        frames = len(values)
        rows = values
        if self._fixed.shape[1]:
            fixed = self._fixed if frames == len(self._fixed) else self._fixed.repeat(frames, axis=0)
            rows = np.concatenate([values, fixed], axis=1)
        if frames <= FEW and self._doublings:
            return self._place_few(values, rows)
        rotations, axes = self._rotations.across(rows)  # (3, 3, m, F) each
        m = len(self.joints)
        matrices = np.zeros((4, 4, m + 1, frames))
        matrices.reshape(16, m + 1, frames)[::5, ARMATURE] = matrices[3, 3] = 1.0
        local = np.empty((3, 4, m, frames))
        if self._turned:
            np.einsum("fmik,kjmf->ijmf", self.pre, rotations, out=local[:, :3])
        else:
            local[:, :3] = rotations
        local[:, 3] = self._still[:, 1:, :3, 3].T
        if len(self._slide_columns):
            local[:, 3, self.sliding] += self._slid(values).T
        for level in self._levels:
            own, placed = local[:, :, level.joints], matrices[:3, :, level.slots]
            parents = matrices[:3, :, level.parents]
            np.einsum("iknf,kjnf->ijnf", parents[:, :3], own, out=placed)
            placed[:, 3] += parents[:, 3]
            if level.turners is not None:
                turners = matrices[:3, :3, level.turners]
                np.einsum("iknf,kjnf->ijnf", turners, own[:, :3], out=placed[:, :3])
        return PosedMechanism.of_many(self, values, matrices, axes)

    def _place_few(self, values: FloatArray, rows: FloatArray) -> PosedMechanism:
        """`place` for few frames, with as few numpy calls as possible."""
        rotations, axes = self._rotations.of(rows).swapaxes(0, 1)  # (F, m, 3, 3) each
        frames = len(values)
        local = self._still.copy() if frames == len(self._still) else self._still.repeat(frames, axis=0)
        if self._turned:
            np.matmul(self.pre, rotations, out=local[:, 1:, :3, :3])
        else:
            local[:, 1:, :3, :3] = rotations
        if len(self._slide_columns):
            places = local[:, 1:, :3, 3]
            places[:, self.sliding] += self._slid(values)
        for ancestors in self._doublings:
            local = local.take(ancestors, axis=1) @ local
        return PosedMechanism(self, values, local, axes)

    def _slid(self, values: FloatArray) -> FloatArray:
        """How far the joints that slide are from where they would be, (F, s, 3)."""
        return (self.slides @ values.take(self._slide_columns, axis=1)[..., None])[..., 0]


def _is_kept(skeleton: Skeleton, joint: int) -> bool:
    """Whether a joint moves by itself, or turns otherwise than its parent."""
    hinge = skeleton.parents[joint] >= 0 and not skeleton.inherit_rotation[joint]
    return bool(skeleton.free[joint].any() or hinge)


def _kept_levels(skeleton: Skeleton, joints: Iterable[int]) -> dict[int, int]:
    """How many kept joints there are from the root to each joint, itself included."""
    levels = {-1: 0}
    for joint in sorted(joints):
        levels[joint] = levels[int(skeleton.parents[joint])] + _is_kept(skeleton, joint)
    return levels


def _as_slice(indices: IntArray) -> slice | IntArray:
    """The same indices as a slice where they follow one another, which costs no copy."""
    if not len(indices):
        return slice(0, 0)
    first = int(indices[0])
    follow = bool((indices == np.arange(first, first + len(indices))).all())
    return slice(first, first + len(indices)) if follow else indices


def _without_repeated_frames(skeleton: Skeleton, pose: Pose, joints: list[int]) -> Pose:
    """The first frame alone if fixed channels and scales are the same in all frames."""
    held: BoolArray = ~skeleton.free[joints]
    channels = pose.channels[:, joints]
    same = np.where(held, channels == channels[:1], True).all() and (pose.scale == pose.scale[:1]).all()
    return Pose(pose.channels[:1], pose.scale[:1]) if same else pose


def _spread(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """An array for all frames; numpy's own function takes long also where there is nothing to do."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _stacked(arrays: list[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """One array (F, ...) for each kept joint, (F, m, ...), also when there are none."""
    return np.stack(arrays, axis=1) if arrays else np.zeros(shape)


def _similarity(linear: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Rotations, but for rounding, (F, 3, 3) and sizes (F,) with product `linear`; no sizes where sheared."""
    determinant = np.linalg.det(linear)
    size = np.cbrt(determinant)
    unit = linear / np.where(size == 0.0, 1.0, size)[:, None, None]
    off = np.abs(np.swapaxes(unit, -1, -2) @ unit - np.eye(3)).max((1, 2))
    if (off > SHEAR_TOLERANCE).any() or (size == 0.0).any():
        return linear, None
    return unit, size


LEFT: Final = frozen([1, 2, 0, 2, 0, 1], np.int64)
RIGHT: Final = frozen([2, 0, 1, 1, 2, 0], np.int64)
"""Elements of whose products the first three less the others are a cross product."""
_MOVED: Final = frozen(np.concatenate([-skew(np.eye(3)), np.zeros((3, 3, 3))], axis=-1).reshape(3, 18))
_MOVED_BY_V: Final = frozen(np.concatenate([np.zeros((3, 3)), np.eye(3)], axis=1).ravel())
"""A point p moves by ω × p + v, which is (ω, v) times the matrix (3, 6) with the elements p @ _MOVED +
_MOVED_BY_V."""


@dataclass(frozen=True)
class Hessian:
    """A Hessian Σ_k μ_k ∂²r_k/∂q∂q = S + Sᵀ, S_ij = w_ij omega_i · moment_j + Σ leftᵀ right."""

    omega: FloatArray
    """Angular velocity by each channel, (F, 3, nv)."""
    together: FloatArray
    """w, 1 where a channel i < j is above j, 1/2 for i = j, else 0, (nv, nv)."""
    moment: FloatArray
    """Σ_e ∂p_e/∂q_j × f_e, (F, 3, nv)."""
    products: tuple[tuple[FloatArray, FloatArray], ...] = ()
    """Left and right factors, (F, k, nv) each."""

    def __add__(self, other: Hessian) -> Hessian:
        """Of the same mechanism."""
        return Hessian(self.omega, self.together, self.moment + other.moment, self.products + other.products)

    def matrix(self) -> FloatArray:
        """The matrix, (F, nv, nv)."""
        half = self.omega.swapaxes(1, 2) @ self.moment
        half *= self.together
        if self.products:
            left, right = (np.concatenate(factors, axis=1) for factors in zip(*self.products, strict=True))
            half += left.swapaxes(1, 2) @ right
        return half + half.swapaxes(1, 2)


def summed(hessians: Iterable[Hessian | None]) -> Hessian | None:
    """Sum of Hessians of one mechanism; None stands for 0."""
    total: Hessian | None = None
    for each in hessians:
        total = each if total is None else total if each is None else total + each
    return total


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cross product along the last axis; `numpy.cross` costs several times as much on small arrays."""
    products = a.take(LEFT, axis=-1) * b.take(RIGHT, axis=-1)
    return products[..., :3] - products[..., 3:]


@dataclass(frozen=True)
class PosedMechanism:
    """A mechanism on which forward kinematics has been run."""

    mechanism: Mechanism
    values: FloatArray
    """The free channels, (F, nv) [m, rad]."""
    matrices: FloatArray
    """armature_from_slot, rigid, (F, m + 1, 4, 4) [m]."""
    axes: FloatArray
    """Axes of the Euler channels in the joint's own frame, in columns, (F, m, 3, 3)."""

    across: tuple[FloatArray, FloatArray] | None = None
    """The same two with the frames last, (4, 4, m + 1, F) and (3, 3, m, F); None of few frames."""

    @classmethod
    def of_many(
        cls, mechanism: Mechanism, values: FloatArray, matrices: FloatArray, axes: FloatArray
    ) -> PosedMechanism:
        """That with given matrices and axes, frames last."""
        # Callers take slots of each frame, which should lie together in memory.
        of_frames = np.ascontiguousarray(matrices.transpose(3, 2, 0, 1))
        return cls(mechanism, values, of_frames, axes.transpose(3, 2, 0, 1), (matrices, axes))

    def _across(self) -> tuple[FloatArray, FloatArray]:
        """The matrices and axes with the frames last."""
        return self.across or (self.matrices.transpose(2, 3, 1, 0), self.axes.transpose(2, 3, 1, 0))

    def select(self, mechanism: Mechanism, frames: IntArray) -> PosedMechanism:
        """Some of the frames, for the mechanism of those frames."""
        values = self.values[frames]
        if self.across is None:
            return PosedMechanism(mechanism, values, self.matrices[frames], self.axes[frames])
        matrices, axes = (array.take(frames, axis=-1) for array in self.across)
        return PosedMechanism.of_many(mechanism, values, matrices, axes)

    def replaced(self, frames: IntArray, others: PosedMechanism) -> PosedMechanism:
        """The same with some frames (n,) from elsewhere."""
        values = self.values.copy()
        values[frames] = others.values
        if self.across is None:
            matrices, axes = self.matrices.copy(), self.axes.copy()
            matrices[frames], axes[frames] = others.matrices, others.axes
            return PosedMechanism(self.mechanism, values, matrices, axes)
        matrices, axes = (array.copy() for array in self.across)
        matrices[..., frames], axes[..., frames] = others._across()
        return PosedMechanism.of_many(self.mechanism, values, matrices, axes)

    @cached_property
    def twists(self) -> FloatArray:
        """Angular velocity ω and velocity v of the armature's origin by each free channel, (F, 6, nv)."""
        mechanism = self.mechanism
        frames = len(self.values)
        if self.across is None:
            m = self.axes.shape[1]
            turning = self.matrices[:, 1:, :3, :3] @ self.axes  # (F, m, 3, 3), in columns
            omega = turning.reshape(frames, 9 * m).take(mechanism.omega_in, axis=1).reshape(frames, 9, -1)
            places = self.matrices.reshape(frames, 16 * (m + 1)).take(mechanism.place_in, axis=1)
            products = places.reshape(frames, 6, -1) * omega[:, 3:]
            np.subtract(products[:, :3], products[:, 3:], out=omega[:, 3:6])
            twists = omega[:, :6]  # a view: the other rows are not needed
        else:
            # Of many frames few long operations on numbers that lie next to each other.
            matrices, axes = self.across
            turning = np.einsum("iknf,kjnf->ijnf", matrices[:3, :3, 1:], axes).reshape(3, -1, frames)
            across = np.empty((6, len(mechanism.axis_in), frames))
            turning.take(mechanism.axis_in, axis=1, out=across[:3])
            places = matrices[:3, 3].take(mechanism.kept_of[: len(mechanism.axis_in)] + 1, axis=1)
            for k, (left, right) in enumerate(((1, 2), (2, 0), (0, 1))):
                np.multiply(places[left], across[right], out=across[3 + k])
                across[3 + k] -= places[right] * across[left]
            twists = np.ascontiguousarray(across.reshape(-1, frames).T)
            twists = twists.reshape(frames, 6, -1)
        if mechanism.slides.shape[1]:
            carriers = self.matrices.take(mechanism.carriers, axis=1)[..., :3, :3]
            sliding = (carriers @ mechanism.slides).swapaxes(1, 2).reshape(frames, 3, -1)
            twists[:, :3, mechanism.slide_channels] = 0.0
            twists[:, 3:, mechanism.slide_channels] = sliding[..., mechanism.slide_in]
        if mechanism.slacks:
            twists = np.concatenate([twists, np.zeros((frames, 6, mechanism.slacks))], axis=2)
        return twists

    @property
    def omega(self) -> FloatArray:
        """Angular velocity by each free channel, (F, 3, nv)."""
        return self.twists[:, :3]

    def points(self, anchors: IntArray, points_anchor: FloatArray) -> FloatArray:
        """Points fixed to slots (E,), given in their frames, in armature space (F, E, 3).

        They are (F or 1, E, 3), or (F or 1, E, 4) with a 1 at the end of each, which is less work.
        """
        matrices = self.matrices.take(anchors, axis=1)
        if points_anchor.shape[-1] == 4:
            return (matrices @ points_anchor[..., None])[..., :3, 0]
        return (matrices[..., :3, :3] @ points_anchor[..., None])[..., 0] + matrices[..., :3, 3]

    def point_jacobian(self, anchors: IntArray, points: FloatArray) -> FloatArray:
        """∂point/∂channel of points in armature space (F, E, 3) on slots (E,): (F, E, 3, nv) [m/rad, 1]."""
        mechanism = self.mechanism
        moves = mechanism.moves.take(anchors, axis=0)[:, None, :].astype(np.float64)
        if mechanism.has_levers:
            omega, v = np.swapaxes(self.omega, -1, -2), np.swapaxes(self.twists[:, 3:], -1, -2)
            lever = mechanism.lever[anchors]  # (E, nv)
            origins = self.matrices[:, :, :3, 3][:, np.maximum(lever, 0)]  # (F, E, nv, 3)
            arms = np.where((lever >= 0)[..., None], origins, points[:, :, None, :])
            turned = cross(np.broadcast_to(omega[:, None], arms.shape), arms)
            return np.swapaxes(v[:, None] + turned, -1, -2) * moves
        frames, count = points.shape[:2]
        moved = (points @ _MOVED + _MOVED_BY_V).reshape(frames, count * 3, 6)
        jacobian = (moved @ self.twists).reshape(frames, count, 3, mechanism.size)
        jacobian *= moves
        return jacobian

    def angular_jacobian(self, anchors: IntArray) -> FloatArray:
        """Angular velocity of slots (E,) per channel, (F, E, 3, nv) [1]."""
        return self.omega[:, None] * self.mechanism.turns.take(anchors, axis=0)[:, None, :]

    def hessian(
        self,
        forces: FloatArray,
        jacobian: FloatArray,
        products: tuple[tuple[FloatArray, FloatArray], ...] = (),
    ) -> Hessian:
        """Σ_e force_e · ∂²point_e/∂q∂q for forces (F, E, 3) and the points' Jacobian (F, E, 3, nv).

        `products` are added to the same sum: pairs of factors (F, k, nv), see `Hessian`.
        """
        frames, nv = self.values.shape
        arms = skew(forces).reshape(frames, -1, 3).swapaxes(1, 2)
        moment = arms @ jacobian.reshape(frames, arms.shape[2], nv)
        return Hessian(self.omega, self.mechanism.together, moment, products)
