# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest keys of a bake: its curves given to the core, and what Blender plays measured against them.

What is reduced is the bake as Blender plays it with a key in each frame, between frames as well. The bones of
the effectors stay within the deviations, by both ends and by orientation.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from ...core.amounts import angle_text
from ...core.arrays import BoolArray, FloatArray
from ...core.keys import BezierCurve, JointCurves, halves, reduce_keys
from ...core.messages import Message, both
from ...core.model.rotation import rotation_angle
from ...core.model.skeleton import Pose
from ..animation.fcurves import Channel, ChannelKeys, bone_path, own_curves, read_curve, rotation_channel
from ..animation.layers import with_whole_quaternions
from ..armature.armature import Armature
from ..armature.restoring import go_to_frame
from ..rig.rig import Rig
from ..units import length_text
from .destinations import Destination
from .frames import frame_times

TIGHTER: Final = 0.9
"""Part of the tolerance [1] that is aimed at again where Blender plays more than it."""
TRIES: Final = 4
"""Most reductions of one bake; more than one where constraints or drivers move bones on."""


@dataclass(frozen=True, eq=False)
class Deviation:
    """By how much bones of effectors are elsewhere than with a key in each frame, as Blender plays it."""

    distances: FloatArray
    """At the frames and in the middle between each two, (2 F - 1,) [m], the largest of all bones."""
    angles: FloatArray
    """Likewise, (2 F - 1,) [rad]."""

    def note(self, before: int, after: int, frames: FloatArray) -> str:
        """Say how many keys are left, and how far off bones are at most, and when."""
        grid, worst = halves(frames), list[str]()
        for amounts, text in ((self.distances, length_text), (self.angles, angle_text)):
            row = int(amounts.argmax())
            worst.append(
                Message("{amount} (frame {frame:g})", amount=text(float(amounts[row])), frame=grid[row])
            )
        return Message(
            "{before} keys reduced to {after}; bones of effectors deviate by up to {amounts}",
            before=before,
            after=after,
            amounts=both(worst),
        )


class KeyReduction:
    """The curves of a bake with a key in each frame, to be reduced."""

    def __init__(
        self,
        armature_object: Object,
        rig: Rig,
        keys: Sequence[ChannelKeys],
        pose: Pose,
        frames: Sequence[float],
        deviation: tuple[float, float],
        scale: float,
        to: Destination,
    ) -> None:
        """Read the curves that were written.

        Args:
            keys: Those that were written.
            pose: Of all bones in these frames, (F, n, 6).
            deviation: Largest distance [m] and angle [rad] in the world.
            scale: World metres to one armature unit.
            to: Where the curves are.
        """
        self._frames, self._scale, self._deviation = np.array(frames, dtype=np.float64), scale, deviation
        self._skeleton, self._keys, self._to = rig.armature.skeleton, {own.channel: own for own in keys}, to
        if to.multiplies:
            for own in keys:
                for channel in with_whole_quaternions([own.channel]):
                    self._keys.setdefault(channel, replace(own, array_index=channel[1]))
        self._times = frame_times(self._frames)
        """At which keys are, (F,)."""
        self._pose = Pose(halves(pose.channels), halves(pose.scale))
        dense, curves = self._read(armature_object), list[JointCurves]()
        self._order = list[Channel]()
        for joint, mode, path, count in _properties(rig.armature, self._keys):
            own = [dense.get((path, index)) for index in range(count)]
            curves.append(self._joint_curves(joint, mode, path, own))
            self._order += [(path, index) for index in range(count) if own[index] is not None]
        self._curves = curves
        self.dense = sum(len(curve.keys) for curve in dense.values())
        """How many keys there are."""
        bones = armature_object.data.bones  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        names = dict.fromkeys(own.bone for own in rig.effectors if own.bone in self._skeleton.names)
        ends = [
            (self._skeleton.index(name), end * bones[name].length) for name in names for end in (0.0, 1.0)
        ]
        self._joints = np.array([joint for joint, _ in ends], dtype=np.int64)
        self._points = np.array([(0.0, length, 0.0) for _, length in ends]).reshape(-1, 3)
        self._aim = np.array(deviation)
        self._dense: tuple[FloatArray, FloatArray] | None = None
        """Where Blender shows ends of bones with a key in each frame, (2 F - 1, k, 3) [m], and their axes."""

    def _read(self, armature_object: Object) -> Mapping[Channel, BezierCurve]:
        """The curves with a key in each frame, by channel."""
        curves, found = own_curves(armature_object, self._to.strip), dict[Channel, BezierCurve]()
        first, last = float(self._times[0]), float(self._times[-1])
        for channel in self._keys:
            if channel in curves:
                found[channel] = read_curve(curves[channel], first, last)
        return found

    def _joint_curves(
        self, joint: int, mode: str, path: str, own: Sequence[BezierCurve | None]
    ) -> JointCurves:
        """The curves of a property; components without one are constant."""
        grid, count = halves(self._times), len(own)
        values, slopes = np.zeros((len(grid), count)), np.zeros((len(self._times), count))
        if count == 3:
            values[:] = (
                self._pose.translation[:, joint] if mode == "LOCATION" else self._pose.rotation[:, joint]
            )
        for index, curve in enumerate(own):
            if curve is not None:
                values[:, index] = curve.evaluate(grid)
                slopes[:, index] = curve.slopes if len(curve.keys) > 1 else 0.0
        below, keyed = None, tuple(curve is not None for curve in own)
        if self._to.below:
            below = np.zeros_like(values)
            for index in np.flatnonzero(keyed).tolist():
                below[:, index] = self._to.below[path, index]
        return JointCurves(joint, mode, values, slopes, keyed, below, self._to.multiplies)

    def reduce(self, required: BoolArray) -> Generator[float, None, tuple[ChannelKeys, ...]]:
        """Find few keys; gives the part done and returns them.

        Args:
            required: Frames at which every curve has a key, (F,).
        """
        distance, angle = self._aim.tolist()
        found = yield from reduce_keys(
            self._skeleton,
            self._pose,
            self._curves,
            self._times,
            joints=self._joints.tolist(),
            points=self._points,
            distance=distance / self._scale,
            angle=angle,
            required=required,
        )
        return tuple(
            replace(self._keys[channel], curve=curve)
            for channel, curve in zip(self._order, found.curves, strict=True)
        )

    def measure(self, armature_object: Object, rig: Rig) -> Generator[float, None, Deviation]:
        """Play frames and the middles between them; gives the part done and returns the deviations.

        They are those from what was played the first time, with a key in each frame: bones that get no keys
        may move between frames as no key tells.
        """
        scene, depsgraph, grid = bpy.context.scene, bpy.context.view_layer.depsgraph, halves(self._frames)
        places, axes = (
            np.zeros((len(grid), len(self._joints), 3)),
            np.zeros((len(grid), len(self._joints), 3, 3)),
        )
        for row, time in enumerate(grid.tolist()):
            go_to_frame(scene, time)
            shown = rig.shown(armature_object, depsgraph)[self._joints]
            places[row] = (shown[:, :3, :3] @ self._points[..., None])[..., 0] + shown[:, :3, 3]
            axes[row] = shown[:, :3, :3] / np.linalg.norm(shown[:, :3, :3], axis=-2, keepdims=True)
            yield (row + 1) / len(grid)
        if self._dense is None:
            self._dense = places, axes
        distances = self._scale * np.linalg.norm(places - self._dense[0], axis=-1)
        angles = rotation_angle(np.swapaxes(self._dense[1], -1, -2) @ axes)
        return Deviation(distances.max(axis=1, initial=0.0), angles.max(axis=1, initial=0.0))

    def exceeds(self, deviation: Deviation) -> bool:
        """Whether what Blender plays is beyond the tolerances; the next reduction aims at less then."""
        found = np.array([deviation.distances.max(), deviation.angles.max()])
        part = found / np.array(self._deviation)
        self._aim = self._aim * np.minimum(1.0, TIGHTER / np.maximum(part, TIGHTER))
        return bool((part > 1.0).any())


def _properties(
    armature: Armature, keys: Mapping[Channel, ChannelKeys]
) -> Iterator[tuple[int, str, str, int]]:
    """Give joint, mode, data path and number of components of each property with keys."""
    paths = {path for path, _ in keys}
    for joint, (name, mode) in enumerate(zip(armature.skeleton.names, armature.rotation_modes, strict=True)):
        attribute, count = rotation_channel(mode)
        for kind, property_name, width in (("LOCATION", "location", 3), (mode, attribute, count)):
            path = bone_path(name, property_name)
            if path in paths:
                yield joint, kind, path, width
