# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of effectors: for each the goal in the world, the tasks in armature space, and the errors.

A goal is where the targets of an effector lead in world space, over some frames. Where the influence is
below 1 it lies on the way there from where the bone is in the pose that was read: places and lengths by lerp,
orientations and directions by slerp. Errors are measured against the same goals, in Blender's matrices.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from ...core import (
    AimAt,
    Balance,
    IKError,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    ReachPoint,
    Side,
    Skeleton,
    StayNear,
    Task,
)
from ...core.arrays import FloatArray
from ...core.model.rotation import (
    continuous_euler,
    euler_from_matrix_near,
    matrix_from_euler,
    matrix_from_quat,
    rotation_angle,
    rotvec_from_matrix,
)
from ...core.tasks.poles import STRAIGHT
from ..armature.armature import NO_SCALE
from .effectors import Effector, orientations
from .frame_data import (
    FrameData,
    across,
    angle_between,
    mixed,
    normals,
    points_of,
    size,
    swung,
    turned,
)

Errors = tuple[FloatArray | None, FloatArray | None]
"""Distances (F,) [m] and angles (F,) [rad], or None where a kind has no such error."""


@dataclass(eq=False)
class Goal(ABC):
    """What one effector asks for over some frames; a class for each kind."""

    effector: Effector
    frames: FrameData
    """What it is found from."""
    targets: FloatArray
    """world_from_target, (F, k, 4, 4) [m]; k is 1 but for ONE_OF."""
    part: FloatArray
    """Influence, (F, 1) [1]."""
    length: FloatArray
    """Distance or height, (F,) [m]."""

    @abstractmethod
    def __post_init__(self) -> None:
        """Find where the effector leads in the world."""

    @property
    def whole(self) -> bool:
        """Whether the effector takes part fully in all frames."""
        return bool((self.part == 1.0).all())

    @property
    def common(self) -> dict[str, Any]:
        """Fields that the tasks of all kinds have from their effector."""
        effector = self.effector
        return {"priority": effector.priority, "weight": effector.weight, "name": effector.name}

    @abstractmethod
    def tasks(self) -> tuple[Task, ...]:
        """Tasks for the solver, in armature space."""

    @abstractmethod
    def errors(self, now: FrameData) -> Errors:
        """How far bones are off that are where `now` says."""

    def point(self, frames: FrameData) -> FloatArray:
        """The point of the bone, (F, 3) [m]."""
        return points_of(frames.bone(self.effector.bone), self.effector.point)

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """Where in the first frame the effector leads a point from a place (3,) [m]; None for nowhere."""
        del here
        return None

    def met(self, now: FrameData) -> "Goal":
        """Return itself; of several goals of which one is enough, the one met best in the first frame."""
        del now
        return self

    @staticmethod
    def chain(effector: Effector, skeleton: Skeleton) -> list[int]:
        """Joints that may move for an effector: its bone, and as many above it as its chain is deep."""
        return _chain_of(skeleton, effector.bone, effector.chain_depth)


def _chain_of(skeleton: Skeleton, bone: str, depth: int) -> list[int]:
    """A bone and those above it: `depth` in all, or up to the root for 0."""
    ancestors = skeleton.ancestors(skeleton.index(bone))
    return ancestors[:depth] if depth else ancestors


class Place(Goal):
    """The point of the bone is at the place of the target, the bone is turned as the target is, or both."""

    place: FloatArray
    """Where the point should be, (F, 3) [m]."""
    rotation: FloatArray
    """How the bone should be turned, (F, 3, 3); only where the effector asks for it."""

    def __post_init__(self) -> None:
        effector, target = self.effector, self.targets[:, 0]
        self.place = target[:, :3, 3]
        if effector.orientation:
            self.rotation = orientations(target)
            if np.isnan(self.rotation).any():
                raise IKError(
                    f"effector {effector.name!r}: pinned, its bone had no orientation. Pin it again"
                    if effector.pin is not None
                    else f"effector {effector.name!r}: its target {effector.target!r} is scaled to nothing, "
                    "so it has no orientation. Reset its scale (Alt S), or use the kind Position"
                )
        if not self.whole:
            self.place = mixed(self.point(self.frames), self.place, self.part)
            if effector.orientation:
                start = orientations(self.frames.bone(effector.bone))
                self.rotation = turned(start, self.rotation, self.part)

    def tasks(self) -> tuple[Task, ...]:
        """That for the place, then that for the orientation."""
        effector, frames = self.effector, self.frames
        tasks: list[Task] = []
        if effector.position:
            tasks.append(
                ReachPoint(
                    joint=effector.bone,
                    target=frames.to_armature(self.place),
                    point=np.array(effector.point),
                    axes=effector.position_axes,
                    armature_from_axes=frames.armature_from_axes,
                    softness=frames.armature_length(effector.softness_position),
                    **self.common,
                )
            )
        if effector.orientation:
            tasks.append(
                MatchOrientation(
                    joint=effector.bone,
                    target=frames.armature_from_axes @ self.rotation,
                    axes=effector.orientation_axes,
                    softness=effector.softness_rotation,
                    **self.common,
                )
            )
        return tuple(tasks)

    def errors(self, now: FrameData) -> Errors:
        """Distance along the axes that matter, angle about those; inf where the bone has no orientation."""
        effector = self.effector
        distances = angles = None
        if effector.position:
            distances = size((self.point(now) - self.place) * effector.position_axes)
        if effector.orientation:
            turns = np.swapaxes(self.rotation, -1, -2) @ orientations(now.bone(effector.bone))
            known = np.logical_and.reduce(np.isfinite(turns), axis=(-2, -1))
            vectors = rotvec_from_matrix(np.where(known[..., None, None], turns, np.eye(3)))
            angles = np.where(known, size(vectors * effector.orientation_axes), np.inf)
        return distances, angles

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the place along the axes that matter."""
        return np.where(self.effector.position_axes, self.place[0], here) if self.effector.position else None


class Aim(Goal):
    """A ray from the point of the bone along one of its axes passes through the target."""

    place: FloatArray
    """At which to point, (F, 3) [m]."""

    def __post_init__(self) -> None:
        self.place = self.targets[:, 0, :3, 3]
        if not self.whole:
            origin, rays = self.point(self.frames), self._rays(self.frames)
            self.place = origin + swung(rays, self.place - origin, self.part)

    def _rays(self, frames: FrameData) -> FloatArray:
        """Directions of the ray, (F, 3), with the scale of the bone."""
        return frames.bone(self.effector.bone)[:, :3, :3] @ self.effector.axis

    def tasks(self) -> tuple[Task, ...]:
        """One `AimAt`."""
        effector = self.effector
        return (
            AimAt(
                joint=effector.bone,
                target=self.frames.to_armature(self.place),
                axis=np.array(effector.axis),
                point=np.array(effector.point),
                softness=effector.softness_rotation,
                **self.common,
            ),
        )

    def errors(self, now: FrameData) -> Errors:
        """Angle between ray and target; inf where the bone has no such axis."""
        rays = self._rays(now)
        angles = angle_between(rays, self.place - self.point(now))
        return None, np.where(size(rays) > NO_SCALE, angles, np.inf)

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the place at which to point."""
        return self.place[0]


class Pole(Goal):
    """The middle joint of a limb is on that side of its axis where the target is."""

    place: FloatArray
    """To which to bend, (F, 3) [m]."""

    def __post_init__(self) -> None:
        self.place = self.targets[:, 0, :3, 3]
        if not self.whole:
            bend, towards = self._sides(self.frames)
            self.place = self.place - towards + swung(bend, towards, self.part)

    def _sides(self, frames: FrameData) -> tuple[FloatArray, FloatArray]:
        """The ways from the axis of the limb to its middle and to the place, across the axis, (F, 3) [m]."""
        effector = self.effector
        names = effector.root_bone, effector.bone, effector.tip_bone
        root, middle, tip = (frames.bone(name)[:, :3, 3] for name in names)
        return across(middle - root, tip - root), across(self.place - root, tip - root)

    def tasks(self) -> tuple[Task, ...]:
        """One `PointPole`."""
        effector = self.effector
        return (
            PointPole(
                root=effector.root_bone,
                joint=effector.bone,
                tip=effector.tip_bone,
                target=self.frames.to_armature(self.place),
                softness=effector.softness_rotation,
                **self.common,
            ),
        )

    def errors(self, now: FrameData) -> Errors:
        """Angle by which the limb would have to swing, less where it is nearly straight, as for the task."""
        bend, towards = self._sides(now)
        rest = now.skeleton.armature_from_joint_rest[:, :3, 3]
        joints = [now.skeleton.index(name) for name in (self.effector.root_bone, self.effector.bone)]
        length = np.linalg.norm(np.subtract(*rest[joints])) * now.scale
        bent = size(bend) / np.sqrt(size(bend) ** 2 + (STRAIGHT * length) ** 2)
        return None, 2.0 * np.arcsin(bent * np.sin(0.5 * angle_between(bend, towards)))

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the place to which to bend."""
        return self.place[0]


class Plane(Goal):
    """The point of the bone is on the XY plane of the target, or never below it."""

    side: ClassVar[Side] = Side.ON
    place: FloatArray
    """A point of the plane, at the height that is wanted, (F, 3) [m]."""
    normal: FloatArray
    """(F, 3) [1]."""

    def __post_init__(self) -> None:
        target = self.targets[:, 0]
        self.normal = normals(target)
        if np.isnan(self.normal).any():
            raise IKError(
                f"effector {self.effector.name!r}: its target {self.effector.target!r} is scaled to nothing "
                "along X or Y, so it has no plane. Reset its scale (Alt S), or choose another target"
            )
        self.place = target[:, :3, 3] + self.length[:, None] * self.normal
        if not self.whole:
            height = self._heights(self.frames)
            if self.side is Side.ABOVE:
                height = np.minimum(height, 0.0)
            self.place = self.place + (1.0 - self.part) * height[:, None] * self.normal

    def _heights(self, frames: FrameData) -> FloatArray:
        """How far above the plane the point is, (F,) [m]."""
        return np.einsum("fx,fx->f", self.normal, self.point(frames) - self.place)

    def tasks(self) -> tuple[Task, ...]:
        """One `OnPlane`."""
        effector, frames = self.effector, self.frames
        return (
            OnPlane(
                joint=effector.bone,
                origin=frames.to_armature(self.place),
                normal=(frames.armature_from_axes @ self.normal[..., None])[..., 0],
                point=np.array(effector.point),
                side=self.side,
                softness=frames.armature_length(effector.softness_position),
                **self.common,
            ),
        )

    def errors(self, now: FrameData) -> Errors:
        """Distance from the plane, or how far below it."""
        height = self._heights(now)
        return np.maximum(-height, 0.0) if self.side is Side.ABOVE else np.abs(height), None

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the plane; nowhere where the point is above it and may be."""
        height = float(self.normal[0] @ (here - self.place[0]))
        return None if self.side is Side.ABOVE and height >= 0.0 else here - height * self.normal[0]


class Floor(Plane):
    """The point of the bone is on the plane or on the side to which its normal points."""

    side: ClassVar[Side] = Side.ABOVE


class Distance(Goal):
    """The point of the bone is so far from the target, or from a point of another bone."""

    def __post_init__(self) -> None:
        if not self.whole:
            start = size(self.point(self.frames) - self._from(self.frames))
            self.length = mixed(start, self.length, self.part[:, 0])

    def _from(self, frames: FrameData) -> FloatArray:
        """From where the distance is measured, (F, 3) [m]."""
        if self.effector.other_bone:
            return points_of(frames.bone(self.effector.other_bone), self.effector.other_point)
        return self.targets[:, 0, :3, 3]

    def tasks(self) -> tuple[Task, ...]:
        """One `KeepDistance`."""
        effector, frames = self.effector, self.frames
        if effector.other_bone:
            target = np.array(effector.other_point)
        else:
            target = frames.to_armature(self.targets[:, 0, :3, 3])
        return (
            KeepDistance(
                joint=effector.bone,
                distance=self.length / frames.scale,
                point=np.array(effector.point),
                other=effector.other_bone or None,
                target=target,
                softness=frames.armature_length(effector.softness_position),
                **self.common,
            ),
        )

    def errors(self, now: FrameData) -> Errors:
        """How much too far or too near."""
        return np.abs(size(self.point(now) - self._from(now)) - self.length), None

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the distance from the target, straight away from it or towards it; along X where it is there."""
        if self.effector.other_bone:
            return None
        place = self.targets[0, 0, :3, 3]
        far = float(size(here - place))
        away = (here - place) / far if far > 0.0 else np.array([1.0, 0.0, 0.0])
        return place + away * float(self.length[0])

    @staticmethod
    def chain(effector: Effector, skeleton: Skeleton) -> list[int]:
        """Those above both bones."""
        bones = [bone for bone in (effector.bone, effector.other_bone) if bone]
        return sorted({j for bone in bones for j in _chain_of(skeleton, bone, effector.chain_depth)})


class OverSupport(Goal):
    """The centre of mass is over the target along the ground, or over the middle of what the body stands on.

    All bones count for the centre of mass; those move for it that other effectors reach, and its own chain.
    """

    place: FloatArray
    """Over which it should be, (F, 3) [m]; its height does not matter."""

    def __post_init__(self) -> None:
        if self.effector.target:
            self.over(self.targets[:, 0, :3, 3])

    def over(self, place: FloatArray) -> None:
        """Ask for the centre of mass over places, (F, 3) [m]."""
        self.place = place if self.whole else mixed(_centre(self.frames), place, self.part)

    @property
    def _axes(self) -> tuple[bool, bool, bool]:
        """World axes that matter, of those along the ground."""
        return (*self.effector.position_axes[:2], False)

    def tasks(self) -> tuple[Task, ...]:
        """One `Balance`."""
        frames = self.frames
        assert frames.body is not None
        return (
            Balance(
                masses=frames.body.masses,
                centres=frames.body.centres,
                target=frames.to_armature(self.place),
                axes=self._axes,
                armature_from_axes=frames.armature_from_axes,
                softness=frames.armature_length(self.effector.softness_position),
                **self.common,
            ),
        )

    def errors(self, now: FrameData) -> Errors:
        """Distance of the centre of mass along the ground."""
        return size((_centre(now) - self.place) * self._axes), None


def _centre(frames: FrameData) -> FloatArray:
    """Centre of mass, (F, 3) [m]."""
    assert frames.body is not None
    return frames.body.centre(frames.world_from_joint)


class Stay(Goal):
    """Bones stay near a pose, as far as what matters more allows. How far off they are is never a miss."""

    channels: FloatArray
    """Of the pose, (F, n, 6) [m, rad]; its angles go on from those of the pose that was read."""

    def __post_init__(self) -> None:
        present, skeleton, part = self.frames.channels, self.frames.skeleton, self.part[..., None]
        if self.effector.stay == 'PRESENT':
            self.channels = _continuous(present, skeleton)
            return
        wanted = np.zeros(present.shape[1:])
        rotation = np.tile(np.eye(3), (len(wanted), 1, 1))
        for bone, location, quaternion in self.effector.stored:
            if bone in skeleton.names:
                joint = skeleton.index(bone)
                wanted[joint, :3], rotation[joint] = location, matrix_from_quat(quaternion)
        if self.whole:
            wanted[:, 3:] = euler_from_matrix_near(rotation, skeleton.orders, present[0, :, 3:])
            self.channels = np.broadcast_to(wanted, present.shape)
            return
        own = matrix_from_euler(present[..., 3:], skeleton.orders)
        turns = turned(own, np.broadcast_to(rotation, own.shape), part)
        angles = euler_from_matrix_near(turns, skeleton.orders, present[..., 3:])
        places = mixed(present[..., :3], wanted[:, :3], part)
        self.channels = _continuous(np.concatenate([places, angles], axis=-1), skeleton)

    @property
    def mask(self) -> tuple[bool, ...]:
        """Which of the six channels count."""
        return (*self.effector.position_axes, *self.effector.orientation_axes)

    def tasks(self) -> tuple[Task, ...]:
        """One `StayNear`."""
        return self.near(self.channels, self.chain(self.effector, self.frames.skeleton))

    def near(self, channels: FloatArray, joints: Sequence[int]) -> tuple[Task, ...]:
        """The task of joints to stay near channels (F, n, 6), none where none of them can move."""
        free = self.frames.skeleton.free
        able = tuple(joint for joint in joints if (free[joint] & self.mask).any())
        return (StayNear(channels=channels, over=able, axes=self.mask, **self.common),) if able else ()

    def errors(self, now: FrameData) -> Errors:
        """Of the bone that is furthest off: its offset, where any is located freely, and its turn."""
        joints = self.chain(self.effector, now.skeleton)
        counted = now.skeleton.free[joints] & np.array(self.mask)
        located, turning = counted[:, :3], counted[:, 3:]
        away = np.where(located, (now.channels - self.channels)[:, joints, :3], 0.0)
        distances = size(away).max(axis=1, initial=0.0) * now.scale
        orders, then = now.skeleton.orders[joints], self.channels[:, joints, 3:]
        rotation, wanted = (
            matrix_from_euler(now.channels[:, joints, 3:], orders),
            matrix_from_euler(then, orders),
        )
        # A bone that turns freely is off by an angle; one with an axis that does not count, by those that do.
        turns = rotation_angle(np.swapaxes(wanted, -1, -2) @ rotation)
        off = np.abs(euler_from_matrix_near(rotation, orders, then) - then)
        whole = np.logical_and.reduce(turning, axis=1)
        angles = np.where(whole, turns, np.where(turning, off, 0.0).max(axis=-1, initial=0.0))
        return (
            distances if located.any() else None,
            angles.max(axis=1, initial=0.0) if turning.any() else None,
        )

    @staticmethod
    def chain(effector: Effector, skeleton: Skeleton) -> list[int]:
        """The bones that stay."""
        return staying_joints(skeleton, effector.bone, effector.whole_body)


def staying_joints(skeleton: Skeleton, bone: str, whole_body: bool) -> list[int]:
    """Return the joints of a bone and of those below it, or all."""
    own = skeleton.index(bone)
    return [joint for joint in range(len(skeleton)) if whole_body or own in skeleton.ancestors(joint)]


def _continuous(channels: FloatArray, skeleton: Skeleton) -> FloatArray:
    """The same poses (F, n, 6) with angles that go on from frame to frame."""
    angles = continuous_euler(channels[..., 3:], skeleton.orders)
    return np.concatenate([channels[..., :3], angles], axis=-1)


class Choice(Goal):
    """What another kind asks for, of one of several targets; how well is measured at the one met best."""

    goals: tuple[Goal, ...]
    """Of the other kind, one for each target."""

    def __post_init__(self) -> None:
        effector = self.effector
        self.goals = tuple(
            KINDS[effector.choice](
                replace(effector, kind=effector.choice, target=name, others=()),
                self.frames,
                self.targets[:, [row]],
                self.part,
                self.length,
            )
            for row, name in enumerate(effector.targets)
        )

    def tasks(self) -> tuple[Task, ...]:
        """One, of which the alternatives are called as their targets are."""
        alternatives = tuple(replace(goal.tasks()[0], name=goal.effector.target) for goal in self.goals)
        return (OneOf(alternatives=alternatives, softness=alternatives[0].softness, **self.common),)

    def errors(self, now: FrameData) -> Errors:
        """Those of the target met best."""
        distances, angles = zip(*(goal.errors(now) for goal in self.goals), strict=True)
        return (
            None if distances[0] is None else np.min(distances, axis=0),
            None if angles[0] is None else np.min(angles, axis=0),
        )

    def met(self, now: FrameData) -> Goal:
        """Return the goal whose target is met best in the first frame."""
        pairs = [goal.errors(now) for goal in self.goals]
        errors = [distance if angle is None else angle for distance, angle in pairs]
        return self.goals[int(np.array(errors)[:, 0].argmin())]


# Its type is not written out: `typing` would keep these classes, and through them Blender's, until Blender
# has gone, on which the bpy module of 4.5 hangs.
KINDS: Final = MappingProxyType(
    {
        'POSITION': Place,
        'ORIENTATION': Place,
        'BOTH': Place,
        'AIM': Aim,
        'POLE': Pole,
        'PLANE': Plane,
        'FLOOR': Floor,
        'DISTANCE': Distance,
        'BALANCE': OverSupport,
        'STAY': Stay,
        'ONE_OF': Choice,
    }
)
