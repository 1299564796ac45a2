# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of effectors: a class for each, with all that tells it from the others.

An object of such a class is the goal of one effector over some frames: where its targets lead in the world.
`tasks` is that for the solver, in armature space; `errors` is how far bones are off, wherever they are. Where
the influence is below 1 the goal lies on the way there from the pose in which influences begin: places and
lengths by lerp, orientations and directions by slerp. What is missing or does not fit is refused by an
`IKError`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol

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
from ...core.arrays import FloatArray, Vector3, lengths
from ...core.character import Sole
from ...core.messages import Message
from ...core.model.rotation import (
    continuous_euler,
    euler_from_matrix_near,
    matrix_from_euler,
    matrix_from_quat,
    rotation_angle,
    rotvec_from_matrix,
)
from ...core.tasks.functions import definite
from .frame_data import (
    NO_SCALE,
    FrameData,
    across,
    angle_between,
    mixed,
    normals,
    orientations,
    points_of,
    swung,
    turned,
)

AXES: Final = MappingProxyType(
    {
        f"{sign}_{letter}": tuple(size * float(letter == other) for other in "XYZ")
        for sign, size in (("POS", 1.0), ("NEG", -1.0))
        for letter in "XYZ"
    }
)
"""Axes of a bone by their names in the panel."""

FLOOR_SHARE: Final = 0.2
"""How far a point may sink below its floor, by the user's tolerance [1]: on a person a tenth of a millimetre
is not seen, half of one is, where a sole meets the ground."""

AIM_AWAY: Final = 3.0
"""How far in front of its bone a new target to point at is, in lengths of the bone [1]."""

BENT: Final = 0.02
"""Distance of the middle joint from the axis of its limb, in lengths of the bone [1], up to which it is not
to be seen where the limb bends to."""

FOLLOW_LEVEL: Final = 10**6
"""Level of what follows, for the solver: below all that users give."""

FOLLOW_SOFTNESS: Final = 0.15
"""By how much of the reach of the skeleton a bone that follows leaves its place where joints would otherwise
turn a radian away from their preferred pose [1]."""

FOLLOW_SOFTNESS_ANGLE: Final = 0.15
"""The same of its orientation [rad]: so little that knees bend before the trunk leans far."""

Errors = tuple[FloatArray | None, FloatArray | None]
"""Distances (F,) [m] and angles (F,) [rad], or None where a kind has no such error."""


class Rank(IntEnum):
    """Order on one level of users: what is pinned, what reaches, what is dragged."""

    PINNED = 0
    REACHING = 1
    DRAGGED = 2

    def on(self, level: int) -> int:
        """Return the level for the solver."""
        return len(Rank) * level + self

    @staticmethod
    def level_of(level: int) -> int:
        """Return the level that users know of one for the solver."""
        return level // len(Rank)


class Anchor(NamedTuple):
    """Where a bone is held that is pinned or follows; what follows is taken along from there."""

    bone: tuple[float, ...]
    """armature_from_bone, row by row, (16,) [m]."""
    stance: tuple[float, ...] | None = None
    """armature_from_stance of what carried the bone then, likewise; None where nothing did."""
    carriers: int | None = None
    """Check sum of what carried it; None where nobody has noted that."""
    time: float | None = None
    """Of the key that belongs to it [frames]. Without one: in which frame it counts more than keys."""
    key: int | None = None
    """Check sum of the key of the target to which it belongs, see `keys_that_place`; None for none."""

    @property
    def keyed(self) -> bool:
        """Whether it belongs to a key of the target."""
        return self.key is not None


@dataclass(frozen=True)
class Effector:
    """One enabled effector, as plain data. What can be animated is read frame by frame."""

    index: int
    """Place in the list of the armature object."""
    name: str
    """Its name in messages: its own, or that of its bone."""
    bone: str
    kind: str
    """A name in `KINDS`."""
    target: str
    """Name of the target object, for messages; empty where none is followed."""
    target_bone: str
    """The bone of the target object that is followed; empty for the object itself."""
    priority: int
    weight: float
    point: Vector3
    """Point of the bone in its own axes [m], before the bone's scale."""
    position_axes: tuple[bool, bool, bool]
    """World axes; for STAY those along which bones are located."""
    orientation_axes: tuple[bool, bool, bool]
    """The target's axes; for STAY those about which bones turn."""
    axis: Vector3 = (0.0, 1.0, 0.0)
    """AIM: direction of the ray in the bone's own axes."""
    chain_depth: int = 0
    """How many bones up from its own may move for it; 0 for all."""
    other_bone: str = ""
    """DISTANCE: from which the distance is kept in place of a target; empty for the target."""
    other_point: Vector3 = (0.0, 0.0, 0.0)
    """Point of that bone in its own axes [m]."""
    root_bone: str = ""
    """POLE: with which the limb begins."""
    tip_bone: str = ""
    """POLE: at whose head it ends."""
    is_support: bool = False
    """Whether the body stands on it."""
    softness_position: float = 0.0
    """By about how much its place may be missed, in the world [m]; 0: exactly met."""
    softness_rotation: float = 0.0
    """By about how much its orientation or direction may be missed [rad]; 0: exactly met."""
    stay: str = 'REST'
    """STAY: near which pose, one of `properties.STAY_ITEMS`."""
    whole_body: bool = False
    """STAY: whether all bones stay, or only its own and those below."""
    stored: tuple[tuple[str, Vector3, tuple[float, ...]], ...] = ()
    """STAY: the stored pose: bones, their locations along their own axes [m] and their quaternions."""
    choice: str = 'POSITION'
    """ONE_OF: the kind of goal that each target gives."""
    others: tuple[str, ...] = ()
    """ONE_OF: names of the further targets, for messages, in their order."""
    sole: Sole | None = None
    """BOTH: where the bone touches the floor, if it is a foot that rolls."""
    toe_bone: str = ""
    """BOTH: which bone bends with such a foot; empty for none."""
    toe_from_foot: tuple[float, ...] = ()
    """foot_from_toe of the bones at rest, row by row, (16,) [m]; empty without such a bone."""
    state: str = 'REACH'
    """'PIN', 'REACH' or 'FOLLOW'."""
    anchors: tuple[Anchor, ...] = ()
    """PIN, FOLLOW: where the bone is held, one for all frames or one of each key in the order of time; none
    where it is to be where its target is."""

    @property
    def follows(self) -> bool:
        """Whether its bone only goes along: it is held weakly, and nothing is missed."""
        return self.state == 'FOLLOW'

    @property
    def goal(self) -> "type[Goal]":
        """The class of its kind."""
        return KINDS[self.kind]

    @property
    def position(self) -> bool:
        """As of its kind."""
        return self.goal.position

    @property
    def orientation(self) -> bool:
        """As of its kind."""
        return self.goal.orientation

    @property
    def turns_only(self) -> bool:
        """As of its kind."""
        return self.goal.turns_only

    @property
    def comes_along(self) -> bool:
        """Whether its target goes where the bone is."""
        return self.follows or self.turns_only

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of all targets, for messages; an empty one where none is followed. Toes have their own."""
        return (self.target, *self.others, *[self.target] * bool(self.toe_bone))

    @property
    def bones(self) -> list[str]:
        """The bones that decide whether it is met."""
        bones = self.bone, self.other_bone, self.root_bone, self.tip_bone, self.toe_bone
        return [bone for bone in bones if bone]

    def chain(self, skeleton: Skeleton) -> list[int]:
        """Joints that may move for it."""
        return self.goal.chain(self, skeleton)


class Bones(Protocol):
    """Bones of an armature object as they are shown, for the place of a new target."""

    def shown(self, name: str) -> FloatArray:
        """world_from_bone, (4, 4) [m]."""
        ...

    def rest(self, name: str) -> FloatArray:
        """armature_from_bone at rest, (4, 4) [m]."""
        ...

    def length(self, name: str) -> float:
        """Length of a bone before its scale [m]."""
        ...

    def ground(self) -> FloatArray:
        """Below the centre of mass, at the height of the object, (3,) [m]."""
        ...


@dataclass(eq=False)
class Goal(ABC):
    """What one effector asks for over some frames; a class for each kind."""

    item: ClassVar[tuple[str, str, str, int]]
    """Name, sentence and icon in the menu, and the number in files, which never changes."""
    choice_item: ClassVar[tuple[str, int] | None] = None
    """Sentence and number where it is asked for of one of several targets; None where it cannot be."""
    fields: ClassVar[tuple[str, ...]] = ()
    """Properties that the panel shows below the target."""
    more: ClassVar[tuple[str, ...]] = ("chain_depth", "point")
    """Properties that the panel shows under *More*."""
    headings: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"position_axes": "Position", "orientation_axes": "Orientation"}
    )
    """What axes are called in the panel."""
    length_property: ClassVar[str] = ""
    """The property with its length, which can be animated; empty for none."""
    miss: ClassVar[Message] = Message("{effector} by {amount}")
    """What is written after the amount of a miss."""
    placed: ClassVar[bool] = False
    turned: ClassVar[bool] = False
    """Whether it is missed by a length, by an angle, and may be soft in it."""
    position: ClassVar[bool] = False
    orientation: ClassVar[bool] = False
    """Whether the bone's point goes to its target's place, the bone takes its target's orientation."""
    turns_only: ClassVar[bool] = False
    """Whether that orientation is all: the target may be anywhere, so it comes along with the bone."""
    pinnable: ClassVar[bool] = False
    """Whether it can hold a bone where it is."""
    supports: ClassVar[bool] = False
    """Whether a body can stand on it."""
    weighs: ClassVar[bool] = False
    """Whether it needs the masses of bones."""
    several: ClassVar[bool] = False
    """Whether it has several targets, of which one is enough."""
    is_ground: ClassVar[bool] = False
    """Whether a new target is level, and not turned as the bone is."""
    of_surroundings: ClassVar[bool] = False
    """Whether its target is rather part of the surroundings: the ground, an object to keep away from."""
    display: ClassVar[str] = 'ARROWS'
    """Shape of new targets; arrows show orientations."""

    effector: Effector
    frames: FrameData
    """What it is found from."""
    rows: slice
    """Which targets of `frames` are its own, k; one, but for ONE_OF and feet with toes."""
    part: FloatArray
    """Influence, (F, 1) [1]."""
    length: FloatArray
    """Distance or height, (F,) [m]."""

    @abstractmethod
    def __post_init__(self) -> None:
        """Find where the effector leads in the world."""

    @abstractmethod
    def tasks(self) -> tuple[Task, ...]:
        """Tasks for the solver, in armature space."""

    @abstractmethod
    def errors(self, now: FrameData) -> Errors:
        """How far bones are off that are where `now` says."""

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """Where in the first frame the effector leads a point from a place (3,) [m]; None for nowhere."""
        del here
        return None

    def met(self, now: FrameData) -> "Goal":
        """Return itself; of several goals of which one is enough, the one met best in the first frame."""
        del now
        return self

    def taken(self, now: FrameData) -> list[str]:
        """Return the target that is taken in each frame, of several; empty where there is one, (F,)."""
        return [""] * len(now)

    @staticmethod
    def chain(effector: Effector, skeleton: Skeleton) -> list[int]:
        """Joints that may move for an effector: its bone, and as many above it as its chain is deep."""
        return _chain_of(skeleton, effector.bone, effector.chain_depth)

    @classmethod
    def target_use(cls, entry: Any) -> str:
        """Whether an entry needs a target: 'NEEDED', 'OPTIONAL' or 'NONE'."""
        if not cls.pinnable:
            return 'NEEDED'
        return {'PIN': 'NONE', 'FOLLOW': 'OPTIONAL'}.get(entry.state, 'NEEDED')

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """Fields of an effector that only this kind has, from an entry of the list whose bone is there."""
        del label, entry
        return {}

    @classmethod
    def begin(cls, entry: Any, last: int, length: float) -> None:
        """Set up a new entry, with the lowest priority so far and the length of its bone in the world [m]."""
        del entry, last, length

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """Where a new target goes, (3,) [m], so that nothing is asked for: mostly the point of the bone."""
        return points_of(bones.shown(entry.bone), entry.point)

    @classmethod
    def tolerances(cls, position: float, rotation: float) -> tuple[float, float]:
        """What counts as reached, of the user's tolerances [m] and [rad]."""
        return position, rotation

    @property
    def targets(self) -> FloatArray:
        """world_from_target, (F, k, 4, 4) [m]."""
        return self.frames.world_from_target[:, self.rows]

    @property
    def rotations(self) -> FloatArray:
        """Their rotations in the world, (F, k, 3, 3)."""
        return self.frames.target_rotations[:, self.rows]

    @property
    def whole(self) -> bool:
        """Whether the effector takes part fully in all frames."""
        return bool((self.part == 1.0).all())

    def point(self, frames: FrameData) -> FloatArray:
        """The point of the bone, (F, 3) [m]."""
        return points_of(frames.bone(self.effector.bone), self.effector.point)

    def _task(self, kind: Callable[..., Task], angular: bool | None, **fields: Any) -> Task:
        """A task with what all tasks have from their effector, soft by an angle or a length or not at all.

        What follows is below all levels, and soft.
        """
        effector = self.effector
        level = (Rank.PINNED if effector.state == 'PIN' else Rank.REACHING).on(effector.priority)
        length = effector.softness_position / self.frames.largest_scale
        angle = effector.softness_rotation
        if effector.follows:
            level = FOLLOW_LEVEL
            fields["preference"] = True
            length, angle = FOLLOW_SOFTNESS * self.frames.skeleton.reach, FOLLOW_SOFTNESS_ANGLE
        if angular is not None:
            fields["softness"] = angle if angular else length
        return kind(priority=level, weight=effector.weight, name=effector.name, **fields)

    def _point_task(self, kind: Callable[..., Task], angular: bool, **fields: Any) -> Task:
        """A task about the point of the bone."""
        point = np.array(self.effector.point)
        return self._task(kind, angular, joint=self.effector.bone, point=point, **fields)


def _chain_of(skeleton: Skeleton, bone: str, depth: int) -> list[int]:
    """A bone and those above it: `depth` in all, or up to the root for 0."""
    ancestors = skeleton.ancestors(skeleton.index(bone))
    return ancestors[:depth] if depth else ancestors


class Both(Goal):
    """The point of the bone is at the place of the target, and the bone is turned as the target is."""

    item = (
        "Position and Orientation",
        "The bone takes the place and the orientation of the target",
        'CON_TRANSLIKE',
        2,
    )
    more = ("chain_depth", "point", "position_axes", "orientation_axes")
    placed = turned = position = orientation = pinnable = supports = True
    place: FloatArray
    """Where the point should be, (F, 3) [m]."""
    rotation: FloatArray
    """How the bone should be turned, (F, 3, 3); only where the effector asks for it."""
    toe: FloatArray
    """How the toes of a foot that rolls should be turned, (F, 3, 3); only where it has any."""

    def __post_init__(self) -> None:
        effector = self.effector
        self.place = self.targets[:, 0, :3, 3]
        if self.orientation:
            self.rotation = self.rotations[:, 0]
            if np.isnan(self.rotation).any():
                raise IKError(
                    Message(
                        "effector {effector!r}: pinned, its bone had no orientation. Pin it again",
                        effector=effector.name,
                    )
                    if effector.anchors
                    else Message(
                        "effector {effector!r}: its target {target!r} is scaled to nothing, so it has no "
                        "orientation. Reset its scale (Alt S), or use the kind Position",
                        effector=effector.name,
                        target=effector.target,
                    )
                )
        if effector.toe_bone:
            self.toe = self.rotations[:, 1]
        if not self.whole:
            start = self.frames.start
            self.place = mixed(self.point(start), self.place, self.part)
            if self.orientation:
                begun = orientations(start.bone(effector.bone))
                self.rotation = turned(begun, self.rotation, self.part)
            if effector.toe_bone:
                self.toe = turned(orientations(start.bone(effector.toe_bone)), self.toe, self.part)

    def tasks(self) -> tuple[Task, ...]:
        """That for the place, then that for the orientation, then that for the toes of a foot that rolls."""
        effector, frames = self.effector, self.frames
        tasks: list[Task] = []
        if self.position:
            target, axes = frames.to_armature(self.place), frames.armature_from_axes
            own = {"axes": effector.position_axes, "armature_from_axes": axes}
            tasks.append(self._point_task(ReachPoint, False, target=target, **own))
        if self.orientation:
            target, axes = frames.armature_from_axes @ self.rotation, effector.orientation_axes
            tasks.append(self._task(MatchOrientation, True, joint=effector.bone, target=target, axes=axes))
        if effector.toe_bone:
            target = frames.armature_from_axes @ self.toe
            tasks.append(self._task(MatchOrientation, True, joint=effector.toe_bone, target=target))
        return tuple(tasks)

    def errors(self, now: FrameData) -> Errors:
        """Distance along the axes that matter, angle about those; inf where the bone has no orientation."""
        effector = self.effector
        distances = angles = None
        if self.position:
            distances = lengths((self.point(now) - self.place) * effector.position_axes)
        if self.orientation:
            angles = _turn_between(self.rotation, now.bone(effector.bone), effector.orientation_axes)
        if angles is not None and effector.toe_bone:
            angles = np.maximum(angles, _turn_between(self.toe, now.bone(effector.toe_bone), (True,) * 3))
        return distances, angles

    @staticmethod
    def chain(effector: Effector, skeleton: Skeleton) -> list[int]:
        """Joints that may move for an effector; the toes of a foot that rolls as well."""
        own = _chain_of(skeleton, effector.bone, effector.chain_depth)
        return [*own, skeleton.index(effector.toe_bone)] if effector.toe_bone else own

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the place along the axes that matter."""
        return np.where(self.effector.position_axes, self.place[0], here) if self.position else None

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """Nothing more; some axes must be on."""
        for kind in (Message("position"), Message("orientation")):
            if getattr(cls, kind) and not any(getattr(entry, f"{kind}_axes")):
                raise IKError(
                    "effector {label!r}: all its {kind} axes are off. Switch one on, or change its kind",
                    label=label,
                    kind=kind,
                )
        return {}


def _turn_between(wanted: FloatArray, matrices: FloatArray, axes: Sequence[bool]) -> FloatArray:
    """Angles about some axes from orientations (F, 3, 3) to those of matrices, (F,); inf for none [rad]."""
    turns = np.swapaxes(wanted, -1, -2) @ orientations(matrices)
    known = np.logical_and.reduce(np.isfinite(turns), axis=(-2, -1))
    vectors = rotvec_from_matrix(np.where(known[..., None, None], turns, np.eye(3)))
    return np.where(known, lengths(vectors * np.asarray(axes)), np.inf)


class Position(Both):
    """The point of the bone is at the place of the target."""

    item = ("Position", "The point of the bone reaches the place of the target", 'CON_LOCLIKE', 0)
    choice_item = ("The point of the bone reaches the place of one of the targets", 0)
    more = ("chain_depth", "point", "position_axes")
    display = 'SPHERE'
    turned = orientation = False


class Orientation(Both):
    """The bone is turned as the target is."""

    item = ("Orientation", "The bone turns the way the target is turned", 'CON_ROTLIKE', 1)
    choice_item = ("The bone turns the way one of the targets is turned", 1)
    more = ("chain_depth", "orientation_axes")
    placed = position = supports = False
    turns_only = True


class _Towards(Goal):
    """Something of the bone is turned towards the place of the target."""

    turned = True
    place: FloatArray
    """(F, 3) [m]."""

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the place."""
        return self.place[0]


class Aim(_Towards):
    """A ray from the point of the bone along one of its axes passes through the target."""

    item = ("Aim", "An axis of the bone points at the target", 'CON_TRACKTO', 3)
    choice_item = ("An axis of the bone points at one of the targets", 2)
    fields = ("axis",)
    display = 'PLAIN_AXES'
    miss = Message("{effector} by {amount} off its aim")

    def __post_init__(self) -> None:
        self.place = self.targets[:, 0, :3, 3]
        if not self.whole:
            start = self.frames.start
            origin = self.point(start)
            self.place = origin + swung(self._rays(start), self.place - origin, self.part)

    def _rays(self, frames: FrameData) -> FloatArray:
        """Directions of the ray, (F, 3), with the scale of the bone."""
        return frames.bone(self.effector.bone)[:, :3, :3] @ self.effector.axis

    def tasks(self) -> tuple[Task, ...]:
        """One `AimAt`."""
        target, axis = self.frames.to_armature(self.place), np.array(self.effector.axis)
        return (self._point_task(AimAt, True, target=target, axis=axis),)

    def errors(self, now: FrameData) -> Errors:
        """Angle between ray and target; inf where the bone has no such axis."""
        rays = self._rays(now)
        angles = angle_between(rays, self.place - self.point(now))
        return None, np.where(lengths(rays) > NO_SCALE, angles, np.inf)

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """Its axis."""
        return {"axis": AXES[entry.axis]}

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """In front of the point."""
        matrix = bones.shown(entry.bone)
        away = matrix[:3, :3] @ AXES[entry.axis] * (AIM_AWAY * bones.length(entry.bone))
        return points_of(matrix, entry.point) + away


class Pole(_Towards):
    """The middle joint of a limb is on that side of its axis where the target is."""

    item = ("Pole", "The limb bends towards the target; the bone is its middle one", 'CON_ARMATURE', 4)
    fields = ("root_bone", "tip_bone")
    more = ("chain_depth",)
    display = 'CONE'
    miss = Message("{effector} by {amount} off its bending plane")

    def __post_init__(self) -> None:
        self.place = self.targets[:, 0, :3, 3]
        if not self.whole:
            bend, towards = self._sides(self.frames.start)
            self.place = self.place - towards + swung(bend, towards, self.part)

    @property
    def _limb(self) -> tuple[str, str, str]:
        return self.effector.root_bone, self.effector.bone, self.effector.tip_bone

    def _sides(self, frames: FrameData) -> tuple[FloatArray, FloatArray]:
        """The ways from the axis of the limb to its middle and to the place, across the axis, (F, 3) [m]."""
        both, limb = self._ways(frames)
        bend, towards = across(both, limb)
        return bend, towards

    def _ways(self, frames: FrameData) -> tuple[FloatArray, FloatArray]:
        """The ways from the root to the middle and to the place, (2, F, 3), and to the tip, (F, 3) [m]."""
        root, middle, tip = (frames.bone(name)[:, :3, 3] for name in self._limb)
        return np.stack([middle - root, self.place - root]), tip - root

    def tasks(self) -> tuple[Task, ...]:
        """One `PointPole`."""
        root, joint, tip = self._limb
        target = self.frames.to_armature(self.place)
        return (self._task(PointPole, True, root=root, joint=joint, tip=tip, target=target),)

    def errors(self, now: FrameData) -> Errors:
        """Angle by which the limb would have to swing, less where that means little, as for the task."""
        both, limb = self._ways(now)
        sides = across(both, limb)
        return None, definite(both, sides).prod(axis=0) * angle_between(*sides)

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """The bones with which the limb begins and at whose head it ends; the three follow one another."""
        bones = entry.id_data.data.bones
        middle = bones[entry.bone]
        for what, name in ((Message("limb root"), entry.root_bone), (Message("limb tip"), entry.tip_bone)):
            if name and name not in bones:
                raise IKError(
                    "effector {label!r}: its {what} {bone!r} is no bone of {armature!r} (renamed?). Choose "
                    "another, or none",
                    label=label,
                    what=what,
                    bone=name,
                    armature=entry.id_data.name,
                )
        root = bones[entry.root_bone] if entry.root_bone else middle.parent
        if root is None:
            raise IKError(
                "effector {label!r}: bone {middle!r} has no parent, so it is not the middle of a limb. "
                "Choose the bone below the one with which the limb begins: the forearm, the shin",
                label=label,
                middle=middle.name,
            )
        tip = bones[entry.tip_bone] if entry.tip_bone else _child_at_tail(entry.id_data, middle)
        if tip is None:
            raise IKError(
                "effector {label!r}: bone {middle!r} has no child, so its limb has no end. Choose the bone "
                "above the last of the limb: the forearm, the shin",
                label=label,
                middle=middle.name,
            )
        if root not in middle.parent_recursive or middle not in tip.parent_recursive:
            raise IKError(
                "effector {label!r}: {root!r}, {middle!r} and {tip!r} must follow one another from the body "
                "outward, as upper arm, forearm and hand. Choose bone, limb root and limb tip so",
                label=label,
                root=root.name,
                middle=middle.name,
                tip=tip.name,
            )
        for first, second in ((root, middle), (middle, tip)):
            if (first.head_local - second.head_local).length <= NO_SCALE:
                raise IKError(
                    "effector {label!r}: {first!r} and {second!r} begin at the same place, so there is no "
                    "limb between them. Choose another limb root or limb tip",
                    label=label,
                    first=first.name,
                    second=second.name,
                )
        return {"root_bone": root.name, "tip_bone": tip.name}

    @classmethod
    def begin(cls, entry: Any, last: int, length: float) -> None:
        """Refuse a bone that is no middle of a limb."""
        cls.read(entry.name, entry)

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """Before the elbow or knee, as far as its bone is long, where the limb bends to.

        A straight limb bends to where it does in the rest pose, one that is straight there too to its bone's
        Z.
        """
        limb = cls.read(entry.name or entry.bone, entry)
        names = limb["root_bone"], entry.bone, limb["tip_bone"]
        shown, rest = ([matrix(name) for name in names] for matrix in (bones.shown, bones.rest))
        now, then = (np.array([matrix[:3, 3] for matrix in own]) for own in (shown, rest))
        own, own_rest = shown[1][:3, :3], rest[1][:3, :3]
        length = np.linalg.norm(own[:, 1]) * bones.length(entry.bone)
        for bend in (
            across(now[1] - now[0], now[2] - now[0]),
            own @ own_rest.T @ across(then[1] - then[0], then[2] - then[0]),
            across(own[:, 2], now[2] - now[0]),
        ):
            if lengths(bend) > BENT * length:
                break
        return now[1] + bend / lengths(bend) * length


def _child_at_tail(armature_object: Any, middle: Any) -> Any:
    """Return the child that goes on from a bone: on the way to another effector, or else the nearest one."""
    if len(middle.children) < 2:
        return next(iter(middle.children), None)
    ways: set[str] = set()
    for entry in armature_object.poise.effectors:
        bone = armature_object.data.bones.get(entry.bone) if entry.enabled else None
        if bone is not None:
            ways.update({bone.name, *(above.name for above in bone.parent_recursive)})

    def far(child: Any) -> tuple[bool, float]:
        return child.name not in ways, (child.head_local - middle.tail_local).length

    return min(middle.children, key=far)


class Plane(Goal):
    """The point of the bone is on the XY plane of the target."""

    item = ("Plane", "The point of the bone lies on the XY plane of the target", 'MESH_PLANE', 5)
    choice_item = ("The point of the bone lies on the XY plane of one of the targets", 3)
    fields = ("height",)
    length_property = "height"
    display = 'SINGLE_ARROW'
    miss = Message("{effector} by {amount} off its plane")
    placed = is_ground = of_surroundings = True
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
                "effector {effector!r}: its target {target!r} is scaled to nothing along X or Y, so it has "
                "no plane. Reset its scale (Alt S), or choose another target",
                effector=self.effector.name,
                target=self.effector.target,
            )
        self.place = target[:, :3, 3] + self.length[:, None] * self.normal
        if not self.whole:
            height = self._heights(self.frames.start)
            if self.side is Side.ABOVE:
                height = np.minimum(height, 0.0)
            self.place = self.place + (1.0 - self.part) * height[:, None] * self.normal

    def _heights(self, frames: FrameData) -> FloatArray:
        """How far above the plane the point is, (F,) [m]."""
        return np.einsum("fx,fx->f", self.normal, self.point(frames) - self.place)

    def tasks(self) -> tuple[Task, ...]:
        """One `OnPlane`."""
        origin = self.frames.to_armature(self.place)
        normal = (self.frames.armature_from_axes @ self.normal[..., None])[..., 0]
        return (self._point_task(OnPlane, False, origin=origin, normal=normal, side=self.side),)

    def errors(self, now: FrameData) -> Errors:
        """Distance from the plane, or how far below it."""
        height = self._heights(now)
        return np.maximum(-height, 0.0) if self.side is Side.ABOVE else np.abs(height), None

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the plane; nowhere where the point is above it and may be."""
        height = float(self.normal[0] @ (here - self.place[0]))
        return None if self.side is Side.ABOVE and height >= 0.0 else here - height * self.normal[0]

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """Below the point, by the height."""
        return super().new_target(entry, bones) - np.array([0.0, 0.0, entry.height])


class Floor(Plane):
    """The point of the bone is on the plane or on the side to which its normal points."""

    item = ("Floor", "The point of the bone never goes below the XY plane of the target", 'CON_FLOOR', 6)
    choice_item = None
    miss = Message("{effector} by {amount} below its floor")
    supports = True
    side: ClassVar[Side] = Side.ABOVE

    @classmethod
    def tolerances(cls, position: float, rotation: float) -> tuple[float, float]:
        """What is below the ground is seen sooner than what is beside a target."""
        return FLOOR_SHARE * position, rotation


class Distance(Goal):
    """The point of the bone is so far from the target, or from a point of another bone."""

    item = (
        "Distance",
        "The point of the bone keeps its distance from the target, or from another bone",
        'CON_DISTLIMIT',
        7,
    )
    fields = ("other_bone", "other_point", "distance")
    length_property = "distance"
    display = 'SPHERE'
    miss = Message("{effector} by {amount} off its distance")
    placed = of_surroundings = True

    def __post_init__(self) -> None:
        self.length = np.maximum(self.length, 0.0)
        if not self.whole:
            start = self.frames.start
            self.length = mixed(lengths(self.point(start) - self._from(start)), self.length, self.part[:, 0])

    def _from(self, frames: FrameData) -> FloatArray:
        """From where the distance is measured, (F, 3) [m]."""
        if self.effector.other_bone:
            return points_of(frames.bone(self.effector.other_bone), self.effector.other_point)
        return self.targets[:, 0, :3, 3]

    def tasks(self) -> tuple[Task, ...]:
        """One `KeepDistance`."""
        other, point = self.effector.other_bone or None, np.array(self.effector.other_point)
        target = point if other else self.frames.to_armature(self.targets[:, 0, :3, 3])
        distance = self.length / self.frames.scale
        return (self._point_task(KeepDistance, False, distance=distance, other=other, target=target),)

    def errors(self, now: FrameData) -> Errors:
        """How much too far or too near."""
        return np.abs(lengths(self.point(now) - self._from(now)) - self.length), None

    def leads_to(self, here: FloatArray) -> FloatArray | None:
        """To the distance from the target, straight away from it or towards it; along X where it is there."""
        if self.effector.other_bone:
            return None
        place = self.targets[0, 0, :3, 3]
        far = float(lengths(here - place))
        away = (here - place) / far if far > 0.0 else np.array([1.0, 0.0, 0.0])
        return place + away * float(self.length[0])

    @staticmethod
    def chain(effector: Effector, skeleton: Skeleton) -> list[int]:
        """Those above both bones."""
        bones = [bone for bone in (effector.bone, effector.other_bone) if bone]
        return sorted({j for bone in bones for j in _chain_of(skeleton, bone, effector.chain_depth)})

    @classmethod
    def target_use(cls, entry: Any) -> str:
        """None where there is another bone."""
        return 'NONE' if entry.other_bone else 'NEEDED'

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """The other bone, if there is one."""
        other, armature_object = entry.other_bone, entry.id_data
        if other and other not in armature_object.data.bones:
            raise IKError(
                "effector {label!r}: its other bone {other!r} is no bone of {armature!r} (renamed?). "
                "Choose another, or none to keep the distance from its target",
                label=label,
                other=other,
                armature=armature_object.name,
            )
        if other == entry.bone:
            raise IKError(
                "effector {label!r} is to keep its distance from its own bone {bone!r}, which never changes. "
                "Choose another bone",
                label=label,
                bone=entry.bone,
            )
        return {"other_bone": other, "other_point": tuple(entry.other_point)}

    @classmethod
    def begin(cls, entry: Any, last: int, length: float) -> None:
        """As far as the bone is long."""
        entry.distance = length

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """Along the bone, at the distance."""
        along = bones.shown(entry.bone)[:3, 1]
        return super().new_target(entry, bones) + along / np.linalg.norm(along) * entry.distance


class OverSupport(Goal):
    """The centre of mass is over the target along the ground, or over the middle of what the body stands on.

    All bones count for the centre of mass; those move for it that other effectors reach, and its own chain.
    """

    item = (
        "Balance",
        "The centre of mass is over the target or over what the body stands on",
        'PIVOT_MEDIAN',
        8,
    )
    more = ("chain_depth", "position_axes")
    headings = MappingProxyType({"position_axes": "Ground"})
    display = 'CIRCLE'
    miss = Message("{effector} by {amount} off balance")
    placed = weighs = is_ground = of_surroundings = True
    place: FloatArray
    """Over which it should be, (F, 3) [m]; its height does not matter."""

    def __post_init__(self) -> None:
        if self.effector.target:
            self.over(self.targets[:, 0, :3, 3])

    def over(self, place: FloatArray) -> None:
        """Ask for the centre of mass over places, (F, 3) [m]."""
        self.place = place if self.whole else mixed(self.frames.start.centre, place, self.part)

    @property
    def _axes(self) -> tuple[bool, bool, bool]:
        """World axes that matter, of those along the ground."""
        return (*self.effector.position_axes[:2], False)

    def tasks(self) -> tuple[Task, ...]:
        """One `Balance`."""
        frames, body = self.frames, self.frames.body
        assert body is not None
        target, axes = frames.to_armature(self.place), frames.armature_from_axes
        own = {"masses": body.masses, "centres": body.centres, "armature_from_axes": axes}
        return (self._task(Balance, False, target=target, axes=self._axes, **own),)

    def errors(self, now: FrameData) -> Errors:
        """Distance of the centre of mass along the ground."""
        return lengths((now.centre - self.place) * self._axes), None

    @classmethod
    def target_use(cls, entry: Any) -> str:
        """Without one the centre of mass is over what the body stands on."""
        return 'OPTIONAL'

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """An axis along the ground must be on."""
        if not any(entry.position_axes[:2]):
            raise IKError(
                "effector {label!r}: its axes X and Y are both off. Switch one on, or disable it", label=label
            )
        return {}

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """On the ground below the centre of mass."""
        return bones.ground()


class Stay(Goal):
    """Bones stay near a pose, as far as what matters more allows. How far off they are is never a miss."""

    item = ("Stay Near", "Bones stay near a pose as far as higher priorities allow", 'ARMATURE_DATA', 9)
    fields = ("stay", "stay_scope")
    more = ("position_axes", "orientation_axes")
    headings = MappingProxyType({"position_axes": "Location", "orientation_axes": "Rotation"})
    pose: FloatArray
    """Its channels, (F, n, 6) [m, rad]; angles go on from those of the pose that was read."""
    channels: FloatArray
    """The same; where the influence is below 1, those on the way there."""

    def __post_init__(self) -> None:
        pose = self.frames.pose if self.frames.origin is None else self.frames.origin
        present, skeleton, part = pose.channels, self.frames.skeleton, self.part[..., None]
        if self.effector.stay == 'PRESENT':
            self.pose = self.channels = _continuous(present, skeleton)
            return
        wanted = np.zeros(present.shape[1:])
        rotation = np.tile(np.eye(3), (len(wanted), 1, 1))
        for bone, location, quaternion in self.effector.stored:
            if bone in skeleton.names:
                joint = skeleton.index(bone)
                wanted[joint, :3], rotation[joint] = location, matrix_from_quat(quaternion)
        wanted[:, 3:] = euler_from_matrix_near(rotation, skeleton.orders, present[0, :, 3:])
        self.pose = self.channels = np.broadcast_to(wanted, present.shape)
        if self.whole:
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
        return self.near(self.channels, self.effector.chain(self.frames.skeleton))

    def near(self, channels: FloatArray, joints: Sequence[int]) -> tuple[Task, ...]:
        """The task of joints to stay near channels (F, n, 6), none where none of them can move."""
        free = self.frames.skeleton.free
        able = tuple(joint for joint in joints if (free[joint] & self.mask).any())
        task = self._task(StayNear, None, channels=channels, over=able, axes=self.mask)
        return (task,) if able else ()

    def errors(self, now: FrameData) -> Errors:
        """Of the bone that is furthest off: its offset, where any is located freely, and its turn."""
        joints = self.effector.chain(now.skeleton)
        counted = now.skeleton.free[joints] & np.array(self.mask)
        located, turning = counted[:, :3], counted[:, 3:]
        is_now, then = now.pose.channels[:, joints], self.channels[:, joints]
        away = np.where(located, (is_now - then)[..., :3], 0.0)
        distances = lengths(away).max(axis=1, initial=0.0) * now.scale
        orders = now.skeleton.orders[joints]
        rotation, wanted = (matrix_from_euler(channels[..., 3:], orders) for channels in (is_now, then))
        # A bone that turns freely is off by an angle; one with an axis that does not count, by those that do.
        turns = rotation_angle(np.swapaxes(wanted, -1, -2) @ rotation)
        off = np.abs(euler_from_matrix_near(rotation, orders, then[..., 3:]) - then[..., 3:])
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

    @classmethod
    def target_use(cls, entry: Any) -> str:
        """It goes by a pose."""
        return 'NONE'

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """The pose, which must be there, and which bones stay; some axis must be on."""
        if not any((*entry.position_axes, *entry.orientation_axes)):
            raise IKError(
                "effector {label!r}: all its axes are off. Switch one on, or disable it", label=label
            )
        stored = entry.stored if entry.stay == 'STORED' else ()
        if entry.stay == 'STORED' and not len(stored):
            raise IKError(
                "effector {label!r} has no stored pose: press Store Pose, or choose another pose for it",
                label=label,
            )
        return {
            "whole_body": entry.stay_scope == 'BODY',
            "stored": tuple((bone.name, tuple(bone.location), tuple(bone.rotation)) for bone in stored),
        }

    @classmethod
    def begin(cls, entry: Any, last: int, length: float) -> None:
        """Below all others: bones stay near a pose as far as all else allows."""
        entry.priority = last + 1

    @classmethod
    def tolerances(cls, position: float, rotation: float) -> tuple[float, float]:
        """What only stays near a pose cannot miss it."""
        return np.inf, np.inf


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

    item = ("One Of", "The bone takes the best of several targets", 'PARTICLE_POINT', 10)
    several = True
    goals: tuple[Goal, ...]
    """Of the other kind, one for each target."""

    def __post_init__(self) -> None:
        effector = self.effector
        self.goals = tuple(
            KINDS[effector.choice](
                replace(effector, kind=effector.choice, target=name, others=()),
                self.frames,
                slice(self.rows.start + row, self.rows.start + row + 1),
                self.part,
                self.length,
            )
            for row, name in enumerate(effector.targets)
        )

    def tasks(self) -> tuple[Task, ...]:
        """One, of which the alternatives are called as their targets are."""
        alternatives = tuple(replace(goal.tasks()[0], name=goal.effector.target) for goal in self.goals)
        soft = alternatives[0].softness
        return (self._task(OneOf, None, alternatives=alternatives, softness=soft),)

    def errors(self, now: FrameData) -> Errors:
        """Those of the target met best."""
        distances, angles = zip(*(goal.errors(now) for goal in self.goals), strict=True)
        return (
            None if distances[0] is None else np.min(distances, axis=0),
            None if angles[0] is None else np.min(angles, axis=0),
        )

    def met(self, now: FrameData) -> Goal:
        """Return the goal whose target is met best in the first frame."""
        return self.goals[self._best(now)[0]]

    def taken(self, now: FrameData) -> list[str]:
        """Return the target that is met best in each frame in which the effector takes part, (F,)."""
        names, parts = self.effector.targets, self.part[:, 0].tolist()
        return [names[best] if part > 0.0 else "" for best, part in zip(self._best(now), parts, strict=True)]

    def _best(self, now: FrameData) -> list[int]:
        """Which goal is met best in each frame, (F,)."""
        pairs = [goal.errors(now) for goal in self.goals]
        errors = np.array([distance if angle is None else angle for distance, angle in pairs])
        return errors.argmin(axis=0).tolist()

    @classmethod
    def read(cls, label: str, entry: Any) -> dict[str, Any]:
        """What the chosen kind has; there must be a second target."""
        if not len(entry.others):
            raise IKError(
                "effector {label!r} has one target to choose from: add another in the sidebar, tab Poise, or "
                "choose another kind",
                label=label,
            )
        return KINDS[entry.choice].read(label, entry) | {"choice": entry.choice}

    @classmethod
    def new_target(cls, entry: Any, bones: Bones) -> FloatArray:
        """Where that of the chosen kind goes."""
        return KINDS[entry.choice].new_target(entry, bones)


KINDS: Final[Mapping[str, type[Goal]]] = MappingProxyType(
    {
        'POSITION': Position,
        'ORIENTATION': Orientation,
        'BOTH': Both,
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


def asked_of(entry: Any) -> type[Goal]:
    """The kind of an entry; for ONE_OF the kind of goal that each of its targets gives."""
    kind = KINDS[entry.kind]
    return KINDS[entry.choice] if kind.several else kind
