# SPDX-License-Identifier: GPL-3.0-or-later
"""What each kind of effector asks for: its goal in the world, its tasks in armature space, its errors.

A goal is where the target leads in world space, over some frames. Where the influence s is below 1 it lies on
the way there from where the bone is in the pose that was read: places and lengths by lerp, orientations and
directions by slerp. Errors are measured against the same goals in the matrices that Blender shows.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from ...core.arrays import FloatArray, IntArray
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
    Goal,
    Posed,
    Space,
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


class Kind(ABC):
    """What effectors of one kind ask for."""

    @abstractmethod
    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Where an effector leads, the `number`th of those of the frame data."""

    @abstractmethod
    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """The same for the solver."""

    @abstractmethod
    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """How far off it is."""

    def chain(self, effector: Effector, skeleton: Skeleton) -> list[int]:
        """Joints that may move for an effector: its bone, and as many above it as its chain is deep."""
        return chain_of(skeleton, effector.bone, effector.chain_depth)


def chain_of(skeleton: Skeleton, bone: str, depth: int) -> list[int]:
    """A bone and those above it: `depth` in all, or up to the root for 0."""
    ancestors = skeleton.ancestors(skeleton.index(bone))
    return ancestors[:depth] if depth else ancestors


def _common(effector: Effector) -> dict[str, Any]:
    """Fields that the tasks of all kinds have from their effector."""
    return {"priority": effector.priority, "weight": effector.weight, "name": effector.name}


class Place(Kind):
    """The point of the bone is at the place of the target, the bone turned as the target is, or both."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Place and orientation of the target."""
        matrices = frame_data.world_from_target[:, number]
        place = matrices[:, :3, 3] if effector.position else None
        rotation = orientations(matrices) if effector.orientation else None
        if rotation is not None and np.isnan(rotation).any():
            if effector.pin is not None:
                raise IKError(
                    f"effector {effector.name!r}: pinned, its bone had no orientation. Pin it again"
                )
            raise IKError(
                f"effector {effector.name!r}: its target {effector.target!r} is scaled to nothing, so it "
                "has no orientation. Reset its scale (Alt S), or use the kind Position"
            )
        if frame_data.whole(number):
            return Goal(place=place, rotation=rotation)
        start, part = frame_data.bone(effector.bone), frame_data.part(number)
        if place is not None:
            place = mixed(points_of(start, effector.point), place, part)
        if rotation is not None:
            rotation = turned(orientations(start), rotation, part)
        return Goal(place=place, rotation=rotation)

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """That for the place, then that for the orientation."""
        tasks: list[Task] = []
        if goal.place is not None:
            tasks.append(
                ReachPoint(
                    joint=effector.bone,
                    target=space.place(goal.place),
                    point=np.array(effector.point),
                    axes=effector.position_axes,
                    armature_from_axes=space.armature_from_axes,
                    softness=space.length(effector.softness_position),
                    **_common(effector),
                )
            )
        if goal.rotation is not None:
            tasks.append(
                MatchOrientation(
                    joint=effector.bone,
                    target=space.armature_from_axes @ goal.rotation,
                    axes=effector.orientation_axes,
                    softness=effector.softness_rotation,
                    **_common(effector),
                )
            )
        return tuple(tasks)

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Distance along the axes that matter, angle about those; inf where the bone has no orientation."""
        bones = posed.bone(effector.bone)
        distances = angles = None
        if goal.place is not None:
            away = (points_of(bones, effector.point) - goal.place) * effector.position_axes
            distances = size(away)
        if goal.rotation is not None:
            turns = np.swapaxes(goal.rotation, -1, -2) @ orientations(bones)
            known = np.logical_and.reduce(np.isfinite(turns), axis=(-2, -1))
            vectors = rotvec_from_matrix(np.where(known[..., None, None], turns, np.eye(3)))
            angles = np.where(known, size(vectors * effector.orientation_axes), np.inf)
        return distances, angles


class Aim(Kind):
    """A ray from the point of the bone along one of its axes passes through the target."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The place at which to point."""
        place = frame_data.world_from_target[:, number, :3, 3]
        if frame_data.whole(number):
            return Goal(place=place)
        start = frame_data.bone(effector.bone)
        origin = points_of(start, effector.point)
        return Goal(
            place=origin + swung(start[:, :3, :3] @ effector.axis, place - origin, frame_data.part(number))
        )

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One `AimAt`."""
        return (
            AimAt(
                joint=effector.bone,
                target=space.place(goal.place),
                axis=np.array(effector.axis),
                point=np.array(effector.point),
                softness=effector.softness_rotation,
                **_common(effector),
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Angle between ray and target; inf where the bone has no such axis."""
        assert goal.place is not None
        bones = posed.bone(effector.bone)
        rays = bones[:, :3, :3] @ effector.axis
        angles = angle_between(rays, goal.place - points_of(bones, effector.point))
        return None, np.where(size(rays) > NO_SCALE, angles, np.inf)


class Pole(Kind):
    """The middle joint of a limb is on that side of its axis where the target is."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The place to bend to."""
        place = frame_data.world_from_target[:, number, :3, 3]
        if frame_data.whole(number):
            return Goal(place=place)
        root, middle, tip = (frame_data.bone(name)[:, :3, 3] for name in _limb_of(effector))
        bend, towards = across(middle - root, tip - root), across(place - root, tip - root)
        return Goal(place=place - towards + swung(bend, towards, frame_data.part(number)))

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One `PointPole`."""
        return (
            PointPole(
                root=effector.root_bone,
                joint=effector.bone,
                tip=effector.tip_bone,
                target=space.place(goal.place),
                softness=effector.softness_rotation,
                **_common(effector),
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Angle by which the limb would have to swing, less where it is nearly straight, as for the task."""
        assert goal.place is not None
        root, middle, tip = (posed.bone(name)[:, :3, 3] for name in _limb_of(effector))
        bend, towards = across(middle - root, tip - root), across(goal.place - root, tip - root)
        rest = posed.skeleton.armature_from_joint_rest[:, :3, 3]
        joints = [posed.skeleton.index(name) for name in _limb_of(effector)[:2]]
        length = np.linalg.norm(np.subtract(*rest[joints])) * posed.scale
        bent = size(bend) / np.sqrt(size(bend) ** 2 + (STRAIGHT * length) ** 2)
        return None, 2.0 * np.arcsin(bent * np.sin(0.5 * angle_between(bend, towards)))


def _limb_of(effector: Effector) -> tuple[str, str, str]:
    return effector.root_bone, effector.bone, effector.tip_bone


class Plane(Kind):
    """The point of the bone is on the XY plane of the target, or never below it."""

    side: ClassVar[Side] = Side.ON

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """A point of the plane, at the height that is wanted, and its normal."""
        matrices = frame_data.world_from_target[:, number]
        normal = normals(matrices)
        if np.isnan(normal).any():
            raise IKError(
                f"effector {effector.name!r}: its target {effector.target!r} is scaled to nothing along X or "
                "Y, so it has no plane. Reset its scale (Alt S), or choose another target"
            )
        place = matrices[:, :3, 3] + frame_data.lengths[:, number, None] * normal
        if not frame_data.whole(number):
            point = points_of(frame_data.bone(effector.bone), effector.point)
            height = np.einsum("fx,fx->f", normal, point - place)
            if self.side is Side.ABOVE:
                height = np.minimum(height, 0.0)
            place = place + (1.0 - frame_data.part(number)) * height[:, None] * normal
        return Goal(place=place, normal=normal)

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One `OnPlane`."""
        return (
            OnPlane(
                joint=effector.bone,
                origin=space.place(goal.place),
                normal=space.direction(goal.normal),
                point=np.array(effector.point),
                side=self.side,
                softness=space.length(effector.softness_position),
                **_common(effector),
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Distance from the plane, or how far below it."""
        assert goal.place is not None and goal.normal is not None
        away = points_of(posed.bone(effector.bone), effector.point) - goal.place
        height = np.einsum("fx,fx->f", goal.normal, away)
        return np.maximum(-height, 0.0) if self.side is Side.ABOVE else np.abs(height), None


class Floor(Plane):
    """The point of the bone is on the plane or on the side to which its normal points."""

    side: ClassVar[Side] = Side.ABOVE


class Distance(Kind):
    """The point of the bone is so far from the target, or from a point of another bone."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The distance, and from where."""
        place = None if effector.other_bone else frame_data.world_from_target[:, number, :3, 3]
        length = frame_data.lengths[:, number]
        if not frame_data.whole(number):
            point = points_of(frame_data.bone(effector.bone), effector.point)
            if effector.other_bone:
                start = size(point - points_of(frame_data.bone(effector.other_bone), effector.other_point))
            else:
                start = size(point - frame_data.world_from_target[:, number, :3, 3])
            length = mixed(start, length, frame_data.influences[:, number])
        return Goal(place=place, length=length)

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One `KeepDistance`."""
        assert goal.length is not None
        return (
            KeepDistance(
                joint=effector.bone,
                distance=goal.length / space.scale,
                point=np.array(effector.point),
                other=effector.other_bone or None,
                target=np.array(effector.other_point) if effector.other_bone else space.place(goal.place),
                softness=space.length(effector.softness_position),
                **_common(effector),
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """How much too far or too near."""
        point, other = points_of(posed.bone(effector.bone), effector.point), goal.place
        if effector.other_bone:
            other = points_of(posed.bone(effector.other_bone), effector.other_point)
        assert other is not None and goal.length is not None
        return np.abs(size(point - other) - goal.length), None

    def chain(self, effector: Effector, skeleton: Skeleton) -> list[int]:
        """Those above both bones."""
        joints = set(super().chain(effector, skeleton))
        if effector.other_bone:
            joints.update(chain_of(skeleton, effector.other_bone, effector.chain_depth))
        return sorted(joints)


class OverSupport(Kind):
    """The centre of mass is over the target along the ground, or over the middle of what the body stands on.

    All bones count for the centre of mass; those move for it that other effectors reach, and its own chain.
    """

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Where the centre of mass should be; its height does not matter."""
        place = frame_data.world_from_target[:, number, :3, 3]
        return Goal(place=self.blended(place, number, frame_data)) if effector.target else Goal()

    def over(self, places: Sequence[FloatArray], number: int, frame_data: FrameData) -> Goal:
        """The same over supports (F, 3) each."""
        return Goal(place=self.blended(np.mean(places, axis=0), number, frame_data))

    def blended(self, place: FloatArray, number: int, frame_data: FrameData) -> FloatArray:
        """Places (F, 3) on the way there from the present centre of mass."""
        if frame_data.whole(number):
            return place
        assert frame_data.body is not None and frame_data.world_from_joint is not None
        return mixed(frame_data.body.centre(frame_data.world_from_joint), place, frame_data.part(number))

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One `Balance`."""
        assert frame_data.body is not None
        return (
            Balance(
                masses=frame_data.body.masses,
                centres=frame_data.body.centres,
                target=space.place(goal.place),
                axes=_ground(effector),
                armature_from_axes=space.armature_from_axes,
                softness=space.length(effector.softness_position),
                **_common(effector),
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Distance of the centre of mass along the ground."""
        assert posed.body is not None and goal.place is not None
        away = posed.body.centre(posed.world_from_joint) - goal.place
        return size(away * _ground(effector)), None


def _ground(effector: Effector) -> tuple[bool, bool, bool]:
    return effector.position_axes[0], effector.position_axes[1], False


class Stay(Kind):
    """Bones stay near a pose, as far as what matters more allows. How far off they are is never a miss."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Channels of the pose; its angles are named as in the pose that was read, and go on from there."""
        present = frame_data.channels
        if effector.stay == 'PRESENT':
            return Goal(channels=_continuous(present, frame_data.skeleton))
        wanted = np.zeros(present.shape[1:])
        rotation = np.tile(np.eye(3), (len(wanted), 1, 1))
        for stored in effector.stored:
            if stored.bone in frame_data.skeleton.names:
                joint = frame_data.skeleton.index(stored.bone)
                wanted[joint, :3] = stored.location
                rotation[joint] = matrix_from_quat(stored.rotation)
        wanted[:, 3:] = euler_from_matrix_near(rotation, frame_data.skeleton.orders, present[0, :, 3:])
        part = frame_data.part(number)[..., None]
        if frame_data.whole(number):
            return Goal(channels=np.broadcast_to(wanted, present.shape))
        own = matrix_from_euler(present[..., 3:], frame_data.skeleton.orders)
        mixture = np.concatenate([mixed(present[..., :3], wanted[:, :3], part), present[..., 3:]], axis=-1)
        turns = turned(own, np.broadcast_to(rotation, own.shape), part)
        mixture[..., 3:] = euler_from_matrix_near(turns, frame_data.skeleton.orders, present[..., 3:])
        return Goal(channels=_continuous(mixture, frame_data.skeleton))

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One `StayNear`."""
        assert goal.channels is not None
        return own_bones(
            effector, goal.channels, frame_data.skeleton, self.chain(effector, frame_data.skeleton)
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Of the bone that is furthest off: its offset, where any is located freely, and its turn."""
        assert goal.channels is not None
        joints = self.chain(effector, posed.skeleton)
        counted = posed.skeleton.free[joints] & np.array(masks_of(effector))
        located, turning = counted[:, :3], counted[:, 3:]
        away = np.where(located, (posed.channels - goal.channels)[:, joints, :3], 0.0)
        distances = size(away).max(axis=1, initial=0.0) * posed.scale
        orders = posed.skeleton.orders[joints]
        now, then = posed.channels[:, joints, 3:], goal.channels[:, joints, 3:]
        rotation, wanted = matrix_from_euler(now, orders), matrix_from_euler(then, orders)
        # A bone that turns freely is off by an angle; one with an axis that does not count, by those that do.
        turns = rotation_angle(np.swapaxes(wanted, -1, -2) @ rotation)
        off = np.abs(euler_from_matrix_near(rotation, orders, then) - then)
        whole = np.logical_and.reduce(turning, axis=1)
        angles = np.where(whole, turns, np.where(turning, off, 0.0).max(axis=-1, initial=0.0))
        return (
            distances if located.any() else None,
            angles.max(axis=1, initial=0.0) if turning.any() else None,
        )

    def chain(self, effector: Effector, skeleton: Skeleton) -> list[int]:
        """The bones that stay."""
        return staying_joints(skeleton, effector.bone, effector.whole_body)


def staying_joints(skeleton: Skeleton, bone: str, whole_body: bool) -> list[int]:
    """Return the joints of a bone and of those below it, or all."""
    own = skeleton.index(bone)
    return [joint for joint in range(len(skeleton)) if whole_body or own in skeleton.ancestors(joint)]


def own_bones(
    effector: Effector, channels: FloatArray, skeleton: Skeleton, joints: Sequence[int]
) -> tuple[Task, ...]:
    """Return the task of joints to stay near channels (F, n, 6), none where none of them can move."""
    able = tuple(joint for joint in joints if (skeleton.free[joint] & masks_of(effector)).any())
    if not able:
        return ()
    return (
        StayNear(
            channels=channels,
            over=able,
            axes=masks_of(effector),
            **_common(effector),
        ),
    )


def masks_of(effector: Effector) -> tuple[bool, ...]:
    """Which of the six channels count."""
    return (*effector.position_axes, *effector.orientation_axes)


def _continuous(channels: FloatArray, skeleton: Skeleton) -> FloatArray:
    """The same poses (F, n, 6) with angles that go on from frame to frame."""
    angles = continuous_euler(channels[..., 3:], skeleton.orders)
    return np.concatenate([channels[..., :3], angles], axis=-1)


class Choice(Kind):
    """What another kind asks for, of one of several targets; how well is measured at the one met best."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        """Choose between targets for some kinds, by their names."""
        self._kinds = kinds

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The goals of all its targets."""
        inner, first = _inner(effector), frame_data.further[number]
        rows = (number, *range(first, first + len(effector.others)))
        kind = self._kinds[effector.choice]
        return Goal(
            choices=tuple(kind.goal(inner, number, frame_data.with_target(number, row)) for row in rows)
        )

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One, of which the alternatives are called as their targets are."""
        inner, kind = _inner(effector), self._kinds[effector.choice]
        alternatives = tuple(
            kind.tasks(replace(inner, name=name), own, space, frame_data)[0]
            for name, own in zip((effector.target, *effector.others), goal.choices, strict=True)
        )
        return (
            OneOf(
                alternatives=alternatives,
                softness=alternatives[0].softness,
                **_common(effector),
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Those of the target met best."""
        inner, kind = _inner(effector), self._kinds[effector.choice]
        distances, angles = zip(*(kind.errors(inner, own, posed) for own in goal.choices), strict=True)
        return (
            None if distances[0] is None else np.min(distances, axis=0),
            None if angles[0] is None else np.min(angles, axis=0),
        )

    def taken(self, effector: Effector, goal: Goal, posed: Posed) -> tuple[str, ...]:
        """Which target is met best in each frame, by its name, (F,)."""
        names = (effector.target, *effector.others)
        return tuple(names[row] for row in self._best(effector, goal, posed).tolist())

    def met(self, effector: Effector, goal: Goal, posed: Posed) -> tuple[Effector, Goal]:
        """The effector and goal of another kind that are met best in the first frame; others as they are."""
        if effector.kind != 'ONE_OF':
            return effector, goal
        return _inner(effector), goal.choices[int(self._best(effector, goal, posed)[0])]

    def _best(self, effector: Effector, goal: Goal, posed: Posed) -> IntArray:
        inner, kind = _inner(effector), self._kinds[effector.choice]
        pairs = [kind.errors(inner, own, posed) for own in goal.choices]
        errors = [distance if angle is None else angle for distance, angle in pairs]
        return np.array(errors).argmin(axis=0)


def _inner(effector: Effector) -> Effector:
    """The same effector, as one of the kind that it takes its target by."""
    return replace(effector, kind=effector.choice, others=())


CHOICES: Final = Choice({'POSITION': Place(), 'ORIENTATION': Place(), 'AIM': Aim(), 'PLANE': Plane()})
"""The kind of those that have several targets."""

# Its type is not written out: `typing` would keep these classes, and through them Blender's, until Blender
# has gone, on which the bpy module of 4.5 hangs.
KINDS: Final = MappingProxyType(
    {
        'POSITION': Place(),
        'ORIENTATION': Place(),
        'BOTH': Place(),
        'AIM': Aim(),
        'POLE': Pole(),
        'PLANE': Plane(),
        'FLOOR': Floor(),
        'DISTANCE': Distance(),
        'BALANCE': OverSupport(),
        'STAY': Stay(),
        'ONE_OF': CHOICES,
    }
)
