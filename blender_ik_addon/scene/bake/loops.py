# SPDX-License-Identifier: GPL-3.0-or-later
"""Loops: the last frame of a bake is its first one again, a period later, and F-curves repeat the keys.

Where the targets go on with each round, as in a walk, the motion is a loop as seen from what travels along
with them at constant speed. It is solved there; the travel is added to the location of the bones that no
other bone carries, whose F-curves repeat with an offset.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from bpy.types import Object

from ...core import IKError, Pose, forward_kinematics
from ...core.amounts import angle_text
from ...core.arrays import BoolArray, FloatArray
from ...core.messages import Message, both, in_a_row
from ...core.model.rotation import rotation_angle
from ..animation.fcurves import Channel, ChannelKeys, has_keys_outside, other_modifiers, own_curves
from ..kinds.frame_data import FrameData, orientations
from ..kinds.kinds import asked_of
from ..rig.reports import Tolerances
from ..rig.rig import Rig
from ..units import length_text
from .options import BakeOptions
from .replaced_keys import solved_joints

FEWEST_FRAMES: Final = 3
"""Frames of a loop at least, its end among them."""

CLOSES: Final = Message("the loop closes with the targets and settings of frame {first:g}")
"""Why a target is missed in the last frame."""

SHARED: Final = 0.5
"""Part of the distances between the ends of the targets [1] that is left at most where they travel."""

SAME_VALUE: Final = 1e-5
"""Difference of values [m, rad, 1] at the ends up to which a curve repeats without an offset."""


def check_loop(
    armature_object: Object,
    options: BakeOptions,
    frames: Sequence[float],
    channels: Iterable[Channel],
    span: Sequence[float],
) -> None:
    """Refuse what cannot be a loop.

    Args:
        channels: Those that may get keys.
        span: The first and the last frame of the keys.

    Raises:
        IKError: There are too few frames, the bake is blended with other motion, or F-curves have keys
            outside of the range, or modifiers that keep them from being repeated.
    """
    if len(frames) < FEWEST_FRAMES:
        raise IKError(
            "a loop needs at least {fewest} frames, got {count}: choose a longer range",
            fewest=FEWEST_FRAMES,
            count=len(frames),
        )
    if options.ease_in or options.ease_out:
        raise IKError("a loop cannot be eased in or out: set Ease In and Ease Out to 0, or switch Loop off")
    if options.strip and options.blend != 'REPLACE':
        raise IKError("a loop in a strip needs the blend Replace: what plays below is no loop")
    curves = own_curves(armature_object, options.strip)
    own = {channel: curves[channel] for channel in channels if channel in curves}
    outside = [f"{path}[{index}]" for (path, index), curve in own.items() if has_keys_outside(curve, *span)]
    if outside:
        raise IKError(
            "a loop repeats all keys of a curve, and there are some outside of frames {first:g} to "
            "{last:g}: {names}. Delete them, or choose the range Action",
            first=span[0],
            last=span[1],
            names=in_a_row(outside),
        )
    modified = [f"{path}[{index}]" for (path, index), curve in own.items() if other_modifiers(curve)]
    if modified:
        raise IKError(
            "a loop needs Cycles as the only modifier of its F-curves: remove others of {names}",
            names=in_a_row(modified),
        )


@dataclass(frozen=True, eq=False)
class Loop:
    """How the own frames of a bake are a loop."""

    shares: FloatArray
    """Part of the period that has gone by in each frame [1], (F,)."""
    base: FloatArray
    """Armature_from_parent of the bones that no other bone carries, (F, 4, 4) [m]."""
    travel: FloatArray
    """By how much the targets go on in each round, in the axes of that parent, (3,)."""
    tops: tuple[int, ...]
    """Joints that carry the travel."""
    offsets: FloatArray
    """By how much their translations go on in each round, (k, 3)."""
    notes: tuple[str, ...]
    """What is to be said, one sentence each."""

    @classmethod
    def of(cls, rig: Rig, frames: FrameData, numbers: Sequence[float], within: Tolerances) -> "Loop":
        """Find how far targets travel, and say where their ends are apart.

        Args:
            numbers: Their numbers, (F,).
            within: Distances and angles that do not count, of the effectors.
        """
        times = np.array(numbers, dtype=np.float64)
        tops = _tops(rig, frames)
        base = np.tile(np.eye(4), (len(frames), 1, 1))
        if tops and (parent := int(frames.skeleton.parents[tops[0]])) >= 0:
            base = np.linalg.inv(frames.world_from_armature) @ frames.world_from_joint[:, parent]
        world = (frames.world_from_armature @ base)[[0, -1]]
        rows = np.cumsum([0, *(len(effector.targets) for effector in rig.effectors)])[:-1]
        ends = np.linalg.inv(world)[:, None] @ frames.world_from_target[[0, -1]]
        ways = (ends[1] - ends[0])[rows, :3, 3]  # (E, 3)
        rotations = orientations(ends[:, rows])
        turns = rotation_angle(np.swapaxes(rotations[0], -1, -2) @ rotations[1])  # (E,)
        placed, turned = _what_counts(rig, frames)
        travel = np.zeros(3)
        scale = float(np.cbrt(abs(np.linalg.det(world[0, :3, :3]))))
        carried = placed & np.array([effector.position for effector in rig.effectors])
        if tops and carried.any():
            shared = np.median(ways[carried], axis=0)
            left = np.linalg.norm(ways[carried] - shared)
            if left < SHARED * np.linalg.norm(ways[carried]):
                travel = shared
        if scale * np.linalg.norm(travel) <= within.positions.min():
            travel = np.zeros(3)
        notes = list[str]()
        if travel.any():
            notes.append(
                Message(
                    "the loop travels by {amount} each round",
                    amount=length_text(scale * float(np.linalg.norm(travel))),
                )
            )
        distances = np.where(placed, scale * np.linalg.norm(ways - travel, axis=1), 0.0)
        texts = [
            f"{text(float(amounts[worst]))} ({rig.effectors[worst].name})"
            for amounts, limits, text in (
                (distances, within.positions, length_text),
                (np.where(turned, turns, 0.0), within.rotations, angle_text),
            )
            if amounts[worst := int((amounts / limits).argmax())] > limits[worst]
        ]
        if texts:
            notes.append(
                Message(
                    "from frame {last:g} back to {first:g} targets jump by up to {amounts}: the loop closes "
                    "with those of frame {first:g}",
                    last=numbers[-1],
                    first=numbers[0],
                    amounts=both(texts),
                )
            )
        if changes := _changes(rig, frames):
            notes.append(
                Message(
                    "from frame {last:g} back to {first:g} settings of effectors jump: {changes}. The loop "
                    "closes with those of frame {first:g}",
                    last=numbers[-1],
                    first=numbers[0],
                    changes=in_a_row(changes),
                )
            )
        shares = (times - times[0]) / (times[-1] - times[0])
        return cls(shares, base, travel, tops, _reach(frames, tops, base[0]) @ travel, tuple(notes))

    def closed(self, frames: FrameData) -> FrameData:
        """All frames as seen from what travels along: with targets that come back, and so bones."""
        if not self.travel.any():
            return frames
        moved = np.tile(np.eye(4), (len(frames), 1, 1))
        moved[:, :3, 3] = self.shares[:, None] * self.travel
        moving = self.base @ moved @ np.linalg.inv(self.base)
        recorded = None if frames.recorded is None else self._back(frames.recorded)
        there = replace(
            frames, world_from_armature=frames.world_from_armature @ moving, recorded=recorded, origin=None
        )
        closed = replace(there, origin=self.closed_pose(frames.pose)).start
        return closed if frames.origin is None else replace(closed, origin=self.closed_pose(frames.origin))

    def closed_pose(self, pose: Pose) -> Pose:
        """Poses of all frames, (F, n), whose bones that carry the travel come back."""
        return pose.with_channels(self._back(pose.channels)) if self.travel.any() else pose

    def _back(self, channels: FloatArray) -> FloatArray:
        """Channels (F, n, 6) that come back where the travel is carried."""
        found, tops = channels.copy(), list(self.tops)
        drift = channels[-1, tops, :3] - channels[0, tops, :3]
        found[:, tops, :3] -= self.shares[:, None, None] * drift
        return found

    def played(self, closed: FloatArray) -> FloatArray:
        """Channels of all frames (F, n, 6) with the travel, of those that come back.

        The last frame is the first one; whole turns that joints make on the way are kept.
        """
        found, tops = closed.copy(), list(self.tops)
        turns = np.round((closed[-1, :, 3:] - closed[0, :, 3:]) / (2.0 * np.pi))
        found[-1] = closed[0]
        found[-1, :, 3:] += 2.0 * np.pi * turns
        found[:, tops, :3] += self.shares[:, None, None] * self.offsets
        return found


def repeating(keys: Iterable[ChannelKeys]) -> list[ChannelKeys]:
    """Return keys (F,) of a loop that are repeated before and after.

    Locations that travel, and Euler angles that make whole turns, go on in each round.
    """
    found: list[ChannelKeys] = []
    for own in keys:
        way = float(own.values[-1] - own.values[0])
        goes_on = own.data_path.endswith("location") or (
            own.data_path.endswith("rotation_euler")
            and abs(way - 2.0 * np.pi * round(way / (2.0 * np.pi))) < SAME_VALUE
        )
        offset = goes_on and abs(way) > SAME_VALUE
        found.append(replace(own, repeat='REPEAT_OFFSET' if offset else 'REPEAT'))
    return found


def _changes(rig: Rig, frames: FrameData) -> list[str]:
    """Say from what to what animated settings of effectors go on from the last frame to the first."""
    found = list[str]()
    for row, effector in enumerate(rig.effectors):
        for name, values, text in (
            ("influence", frames.influences, "{:.3g}".format),
            (effector.goal.length_property, frames.lengths, length_text),
        ):
            first, last = values[[0, -1], row].tolist()
            if name and abs(last - first) > SAME_VALUE * max(abs(first), abs(last)):
                setting = Message(name.title())
                found.append(
                    Message(
                        "{setting} of {effector} from {before} to {after}",
                        setting=setting,
                        effector=effector.name,
                        before=text(last),
                        after=text(first),
                    )
                )
    return found


def _tops(rig: Rig, frames: FrameData) -> tuple[int, ...]:
    """The joints that move and that no other joint which moves carries; none where one cannot go anywhere."""
    skeleton, moving = frames.skeleton, solved_joints(rig, frames)
    tops = tuple(j for j in sorted(moving) if not moving & set(skeleton.ancestors(j)) - {j})
    return tops if all(rig.armature.written[joint, :3].all() for joint in tops) else ()


def _what_counts(rig: Rig, frames: FrameData) -> tuple[BoolArray, BoolArray]:
    """Whether each effector is about the place and about the orientation of a target at both ends, (E,)."""
    part: BoolArray = np.logical_and(*(frames.influences[[0, -1]] > 0.0))
    kinds = [asked_of(effector) for effector in rig.effectors]
    counts = [
        (followed and (kind.position or not kind.pinnable), followed and kind.orientation)
        for own, kind in zip(rig.effectors, kinds, strict=True)
        for aims in [not own.follows and bool(own.anchors or own.target)]
        for followed in [aims and not kind.of_surroundings]
    ]
    placed, turned = np.array(counts, dtype=np.bool_).T
    return placed & part, turned & part


def _reach(frames: FrameData, tops: Sequence[int], base: FloatArray) -> FloatArray:
    """By how much each translation of joints changes to move them along the axes of a base, (k, 3, 3)."""
    found = np.zeros((len(tops), 3, 3))
    start = forward_kinematics(frames.skeleton, frames.pose[0]).matrices
    for row, joint in enumerate(tops):
        for axis in range(3):
            channels = frames.pose.channels[0].copy()
            channels[joint, axis] += 1.0
            moved = forward_kinematics(frames.skeleton, frames.pose[0].with_channels(channels)).matrices
            found[row, :, axis] = (moved - start)[joint, :3, 3]
    return np.linalg.inv(found) @ base[:3, :3]
