# SPDX-License-Identifier: GPL-3.0-or-later
"""What bodies can do and like to do: limits, stiffness and preferred angles of joints by their roles.

A range is told in the words of anatomy, as movements of a bone from its rest pose: a turn about the left,
the up or the forward axis of the figure, a swing of a limb from rest to another direction, the bend of an
elbow or a knee from straight, a twist about the bone. Each movement by itself is a path of rotations
R(t) = exp([a] t); written as Euler angles of the joint, the paths span a box, and that box is its limits.
Where an axis of the joint is the axis of a movement, the box has the movement's range itself; where bones are
rolled otherwise it is the smallest box that holds the movement.

Elbows and knees are bent by b at rest, and bend further about the axis that was recognised: with angles
counted from rest they go from -b, straight, on. One that is inverted at rest must first go the other way, so
its range does not contain 0. An axis is taken for the joint's own where it is near to it (`SNAP`): then the
limits are exactly those of a hinge.

All ranges are our own rough estimates of healthy adults in round figures, no model of any person; what few
bones of a rig do for many vertebrae they share. Stiffness and preferred angles are those with which
`scripts/motion` comes nearest to recorded motion. Animals get the bends of their knees and elbows, stiffness,
and no ranges of people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, frozen
from .errors import IKError
from .roles import Bend, Body, Character, Figure, Limb, LimbKind, Role, Side
from .rotation import EULER_ORDERS, continuous_euler, euler_from_matrix, matrix_from_rotvec
from .skeleton import Skeleton

SNAP: Final = float(np.radians(20.0))
"""Angle [rad] up to which the axis of a hinge is taken for an axis of its joint: of an arm that is nearly
straight the plane is hardly known, and riggers roll bones so that they bend about one of their axes."""

SLACK: Final = float(np.radians(5.0))
"""How far joints give way in directions in which they should not move [rad]: bones meet at odd angles."""

HINGE_SLACK: Final = float(np.radians(2.0))
"""The same of elbows and knees [rad]: with the forearm twisted what is across may be backward."""

FOREARM_TWIST, SHIN_TWIST = float(np.radians(80.0)), float(np.radians(5.0))
"""How far they turn about themselves, either way [rad]."""

ARM_TWIST: Final = float(np.radians(75.0))
"""How far upper arms turn about themselves, either way [rad]."""

ARM_TWIST_UNKNOWN: Final = float(np.radians(120.0))
"""The same where the elbow is straight at rest: which way it really bends from there is then not known, in a
T pose with palms down ahead and with palms up upward, and the upper arm must make up for it."""

STEP: Final = float(np.radians(10.0))
"""Largest step along a movement [rad]; from step to step the angles that go on are taken."""

COMFORTABLE: Final = float(np.radians(80.0))
"""Middle Euler angle [rad] beyond which an order is avoided: at 90 degrees it has no inverse."""

WIDEST: Final = float(np.radians(175.0))
"""Angle [rad] from which on a channel is not limited: its bounds would say nothing of a body."""

EXACT: Final = 1e-12
"""Rounding of angles that are computed from the same numbers [rad]."""

LOCKING: Final = 10.0
"""What gimbal lock inside a box adds to its size [rad] where orders are compared; boxes differ by less."""

GAIN: Final = 0.02
"""How much smaller a box must be for an order that is liked less [rad]: left and right should be the same."""

ELBOW_BEND, KNEE_BEND = float(np.radians(150.0)), float(np.radians(155.0))
"""Largest bends from straight [rad], where flesh meets flesh."""

ANIMAL_BEND: Final = float(np.radians(165.0))
"""That of an animal's elbows and knees [rad]."""

ELBOW_PREFERS, KNEE_PREFERS = float(np.radians(20.0)), float(np.radians(10.0))
"""Slight bends from straight that limbs prefer [rad]: they then know which way to bend, and stand softly."""

ARM_OUT, ARM_FORWARD = float(np.radians(45.0)), float(np.radians(20.0))
"""Where upper arms like to be: off the body to the side, and to the front, from hanging down [rad]."""

ARM_SPREAD: Final = float(np.radians(60.0))
"""Angle [rad] between upper arm and down at rest above which it had rather hang, as in a T pose."""

TRUNK_RANGES: Final = ((-30.0, 75.0), (-40.0, 40.0), (-36.0, 36.0))
NECK_RANGES: Final = ((-60.0, 48.0), (-75.0, 75.0), (-45.0, 45.0))
"""Back and forward, turning, leaning [deg], for all joints of the part together."""

FOOT_RANGES: Final = ((-40.0, 55.0), (-30.0, 30.0), (-30.0, 30.0))
TOE_RANGES: Final = ((-60.0, 30.0), (-10.0, 10.0), (-10.0, 10.0))
"""Toes up and down, turned in and out, tilted [deg]."""

ACROSS: Final = 0.9
"""Stiffness [1] of elbows and knees against all but their bend."""


@dataclass(frozen=True)
class JointDefaults:
    """What is assumed of one joint."""

    joint: int
    """Index in the skeleton."""
    order: int
    """Euler order, an index into `EULER_ORDERS`, in which the angles below are meant."""
    lower: FloatArray
    """Lower limits, (3,) [rad]; -inf where there is none."""
    upper: FloatArray
    """Upper limits, (3,) [rad]; inf where there is none."""
    stiffness: FloatArray
    """(3,) in [0, 1)."""
    preferred: FloatArray
    """Preferred angles, (3,) [rad]."""
    why: str
    """Where it comes from, for people."""

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "stiffness", "preferred"):
            object.__setattr__(self, name, frozen(getattr(self, name)))


@dataclass(frozen=True)
class Movement:
    """Turns from the rest pose about one axis."""

    axis: FloatArray
    """Unit vector in the joint's frame, (3,)."""
    start: float
    """[rad], at most `end`."""
    end: float
    """[rad]"""


@dataclass(frozen=True)
class _Joint:
    """A joint while its defaults are made."""

    index: int
    rest: FloatArray
    """Rotation of its frame at rest in armature space, (3, 3)."""
    along: FloatArray
    """Unit vector along the bone in armature space, (3,)."""
    orders: tuple[int, ...]
    """Orders to choose from, the one that is liked best first."""

    def own(self, vector: FloatArray) -> FloatArray:
        """A vector of armature space in the joint's frame."""
        return self.rest.T @ vector

    def twist(self) -> int:
        """Channel that is nearest to twisting the bone."""
        return int(np.argmax(np.abs(self.own(self.along))))

    def may_twist_far(self) -> bool:
        """Whether there is an order without gimbal lock where the bone is twisted by a right angle."""
        return any(_middle(order) != self.twist() for order in self.orders)

    def nearest(self, vector: FloatArray) -> int:
        """Channel that is nearest to turning about an axis of armature space."""
        return int(np.argmax(np.abs(self.own(vector))))


def joint_defaults(
    skeleton: Skeleton, character: Character, *, any_order: BoolArray | None = None
) -> Mapping[int, JointDefaults]:
    """Make limits, stiffness and preferred angles for joints whose role says something.

    Args:
        skeleton: Its rest pose and its rotation orders count, nothing else.
        character: What was recognised of it.
        any_order: Joints that are not bound to their order, (n,), those of bones in quaternion mode. They get
            one in which the box is a good one and gimbal lock is far from it. By default all are bound.

    Raises:
        IKError: The character is that of another skeleton, or `any_order` has another length.
    """
    n = len(skeleton)
    free_order = np.zeros(n, dtype=np.bool_) if any_order is None else any_order
    if free_order.shape != (n,):
        raise IKError(f"any_order has shape {free_order.shape}; {n} joints need {(n,)}")
    for choice in character.choices:
        if choice.joint >= n or skeleton.names[choice.joint] != choice.name:
            raise IKError(f"the character has a bone {choice.name!r} that is not in this skeleton")
    maker = _Maker(skeleton, character, free_order)
    found: dict[int, JointDefaults] = {}
    for number in range(len(character.figures)):
        for defaults in maker.figure(number):
            found.setdefault(defaults.joint, defaults)
    return found


class _Maker:
    """Makes the defaults of one character."""

    def __init__(self, skeleton: Skeleton, character: Character, any_order: BoolArray) -> None:
        self._skeleton, self._character, self._any_order = skeleton, character, any_order
        self._places = skeleton.armature_from_joint_rest[:, :3, 3]

    def figure(self, number: int) -> Iterator[JointDefaults]:
        """Give those of one figure, joint by joint."""
        figure = self._character.figures[number]
        human = figure.body is Body.BIPED
        limbs = [limb for limb in self._character.limbs if limb.figure == number]
        for limb in limbs:
            if limb.kind in (LimbKind.ARM, LimbKind.LEG, LimbKind.FRONT_LEG):
                yield from self._limb(limb, figure, human)
        yield from self._trunk(limbs, figure, human)

    # Trunk

    def _trunk(self, limbs: Sequence[Limb], figure: Figure, human: bool) -> Iterator[JointDefaults]:
        for kind, ranges, stiffness in (
            (LimbKind.TRUNK, TRUNK_RANGES, 0.9),
            (LimbKind.HEAD, NECK_RANGES, 0.5),
        ):
            chains = [limb for limb in limbs if limb.kind is kind]
            for chain in chains:
                joints = [
                    (joint, role)
                    for joint, role in zip(chain.joints, chain.roles, strict=True)
                    if role is not Role.HIPS
                ]
                for place, (joint, role) in enumerate(joints):
                    after = joints[place + 1][0] if place + 1 < len(joints) else None
                    made = self._joint(joint, after, figure.up)
                    moves = _turns(made, figure, ranges, 1.0 / len(joints)) if human else []
                    stiff = np.full(3, stiffness)
                    yield self._defaults(made, role, human, moves, stiff)
        for limb in limbs:
            if limb.kind is LimbKind.TAIL:
                for joint in limb.joints:
                    made = self._joint(joint, None, figure.up)
                    yield self._defaults(made, Role.TAIL, human, [], np.full(3, 0.3))

    # Limbs

    def _limb(self, limb: Limb, figure: Figure, human: bool) -> Iterator[JointDefaults]:
        is_arm = limb.kind is LimbKind.ARM
        for place, (joint, role) in enumerate(zip(limb.joints, limb.roles, strict=True)):
            after = limb.joints[place + 1] if place + 1 < len(limb.joints) else None
            made = self._joint(joint, after, figure.forward)
            if role in (Role.UPPER_ARM, Role.UPPER_LEG):
                yield self._ball(made, role, limb, figure, human)
            elif role in (Role.LOWER_ARM, Role.LOWER_LEG):
                yield self._hinge(made, role, limb, human, first=limb.roles.index(role) == place)
            elif role is Role.SHOULDER:
                moves = _shoulder(made, limb, figure) if human and is_arm else []
                yield self._defaults(made, role, human, moves, np.full(3, 0.9))
            elif role is Role.PELVIS:
                moves = [Movement(axis, -SLACK, SLACK) for axis in np.eye(3)] if human else []
                yield self._defaults(made, role, human, moves, np.full(3, 0.99))
            elif role is Role.HAND:
                moves = _wrist(made) if human else []
                yield self._defaults(made, role, human, moves, np.full(3, 0.5))
            elif role in (Role.FOOT, Role.ANKLE, Role.TOE):
                stiff = np.full(3, 0.8)
                stiff[made.nearest(figure.left)] = 0.5
                ranges = TOE_RANGES if role is Role.TOE else FOOT_RANGES
                moves = _turns(made, figure, ranges, 1.0) if human else []
                yield self._defaults(made, role, human, moves, stiff)

    def _ball(self, made: _Joint, role: Role, limb: Limb, figure: Figure, human: bool) -> JointDefaults:
        """Shoulder and hip joints: directions to which the limb can swing, and its twist."""
        stiffness, preferred = np.zeros(3), None
        moves: list[Movement] = []
        if human and limb.side is not Side.CENTRE:
            out = figure.left if limb.side is Side.LEFT else -figure.left
            down, forward = -figure.up, figure.forward
            if role is Role.UPPER_ARM:
                ends = (
                    _between(out, figure.up, 78.0),
                    _between(out, down, 88.0),
                    _between(out, forward, 125.0),
                    _between(out, -forward, 35.0),
                    _between(down, forward, 60.0),
                    _between(down, -forward, 40.0),
                )
                twist = ARM_TWIST
                if limb.bend is Bend.STRAIGHT and made.may_twist_far():
                    twist = ARM_TWIST_UNKNOWN
                if np.arccos(np.clip(made.along @ down, -1.0, 1.0)) > ARM_SPREAD:
                    wanted = np.cos(ARM_FORWARD) * (np.sin(ARM_OUT) * out + np.cos(ARM_OUT) * down)
                    preferred = _swing(made, wanted + np.sin(ARM_FORWARD) * forward)
            else:
                ends = (
                    _between(down, forward, 120.0),
                    _between(down, -forward, 25.0),
                    _between(down, out, 60.0),
                    _between(down, -out, 35.0),
                )
                twist = np.radians(42.0)
            moves = [move for end in ends if (move := _swing(made, end)) is not None]
            moves.append(Movement(_snapped(made.own(made.along)), -twist, twist))
        return self._defaults(made, role, human, moves, stiffness, preferred)

    def _hinge(self, made: _Joint, role: Role, limb: Limb, human: bool, *, first: bool) -> JointDefaults:
        """Elbows and knees; bones in the middle of the same part are stiff."""
        is_arm = role is Role.LOWER_ARM
        stiffness = np.full(3, ACROSS)
        if limb.bend_axis is None or not first:
            return self._defaults(made, role, human, [], stiffness)
        axis = _snapped(made.own(limb.bend_axis))
        channel = int(np.argmax(np.abs(axis)))
        at_rest = -limb.bend_angle if limb.bend is Bend.INVERTED else limb.bend_angle
        largest = (ELBOW_BEND if is_arm else KNEE_BEND) if human else ANIMAL_BEND
        bend = Movement(axis, -at_rest, max(largest - at_rest, SLACK - at_rest))
        slight = (ELBOW_PREFERS if is_arm else KNEE_PREFERS) - at_rest
        prefers = Movement(axis, 0.0, slight) if slight > 0.0 else None
        twist = made.twist()
        stiffness[np.abs(axis) > np.sin(SNAP)] = 0.0
        moves = [bend]
        if human:
            most = FOREARM_TWIST if is_arm else SHIN_TWIST
            moves.append(Movement(_snapped(made.own(made.along)), -most, most))
            stiffness[twist] = min(stiffness[twist], 0.5) if is_arm else stiffness[twist]
        # Twist of the bone first, the hinge last: then the hinge is that of the joint above, as in a body.
        if len(made.orders) > 1 and channel != twist:
            liked = "XYZ"[twist] + "XYZ"[3 - twist - channel] + "XYZ"[channel]
            first_choice = EULER_ORDERS.index(liked)
            orders = (first_choice, *(order for order in made.orders if order != first_choice))
            made = _Joint(made.index, made.rest, made.along, orders)
        return self._defaults(made, role, human, moves, stiffness, prefers, hinge=axis)

    # What they share

    def _joint(self, index: int, after: int | None, otherwise: FloatArray) -> _Joint:
        """A joint, its bone pointing to the one after it, or along its own y, or where it had best."""
        rest = np.array(self._skeleton.armature_from_joint_rest[index, :3, :3])
        along = rest[:, 1] if after is None else self._places[after] - self._places[index]
        length = float(np.linalg.norm(along))
        along = along / length if length > 1e-9 else otherwise
        orders = tuple(range(6)) if self._any_order[index] else (int(self._skeleton.orders[index]),)
        return _Joint(index, rest, along, orders)

    def _defaults(
        self,
        made: _Joint,
        role: Role,
        human: bool,
        moves: Sequence[Movement],
        stiffness: FloatArray,
        preferred: Movement | None = None,
        hinge: FloatArray | None = None,
    ) -> JointDefaults:
        order, lower, upper = _best_box(made.orders, moves, hinge)
        angles = np.zeros(3) if preferred is None else path_angles(preferred, [order])[-1, 0]
        return JointDefaults(
            joint=made.index,
            order=order,
            lower=lower,
            upper=upper,
            stiffness=stiffness,
            preferred=np.clip(angles, lower, upper),
            why=f"{'human' if human else 'animal'}: {role}",
        )


# Movements


def _snapped(axis: FloatArray) -> FloatArray:
    """The axis of the joint that is near to a unit vector (3,), else the vector itself."""
    channel = int(np.argmax(np.abs(axis)))
    if np.arccos(np.clip(abs(axis[channel]), 0.0, 1.0)) <= SNAP:
        return np.eye(3)[channel] * np.sign(axis[channel])
    return axis


def _between(start: FloatArray, end: FloatArray, angle: float) -> FloatArray:
    """The direction at an angle [deg] from one unit vector towards another that is square to it, (3,)."""
    return np.cos(np.radians(angle)) * start + np.sin(np.radians(angle)) * end


def _swing(made: _Joint, direction: FloatArray) -> Movement | None:
    """The shortest swing of a bone to a direction (3,); None where it is there or opposite."""
    end = direction / np.linalg.norm(direction)
    axis = np.cross(made.along, end)
    sine = float(np.linalg.norm(axis))
    if sine < 1e-6:
        return None
    return Movement(made.own(axis / sine), 0.0, float(np.arctan2(sine, made.along @ end)))


def _turns(
    made: _Joint, figure: Figure, ranges: tuple[tuple[float, float], ...], share: float
) -> list[Movement]:
    """Turns about the left, up and forward axes of a figure; positive is forward and down, left, right."""
    axes = (figure.left, figure.up, figure.forward)
    return [
        Movement(made.own(axis), share * np.radians(low), share * np.radians(high))
        for axis, (low, high) in zip(axes, ranges, strict=True)
    ]


def _shoulder(made: _Joint, limb: Limb, figure: Figure) -> list[Movement]:
    """A collarbone: up and down, to the front and back, and its roll."""
    out = 1.0 if limb.side is Side.LEFT else -1.0
    raising = -out * figure.forward  # turns the left, (3,), up for the left shoulder
    ahead = -out * figure.up
    return [
        Movement(made.own(raising), np.radians(-10.0), np.radians(35.0)),
        Movement(made.own(ahead), np.radians(-20.0), np.radians(25.0)),
        Movement(_snapped(made.own(made.along)), np.radians(-15.0), np.radians(15.0)),
    ]


def _wrist(made: _Joint) -> list[Movement]:
    """A hand: where the palm faces is not known, so that it bends as far one way as the other."""
    twist = made.twist()
    moves = [
        Movement(np.eye(3)[axis], -np.radians(70.0), np.radians(70.0)) for axis in range(3) if axis != twist
    ]
    return [*moves, Movement(np.eye(3)[twist], -np.radians(25.0), np.radians(25.0))]


# Boxes


def path_angles(move: Movement, orders: Sequence[int]) -> FloatArray:
    """Euler angles along a movement in some orders, beginning with those of its start, (k, orders, 3) [rad].

    They are those that go on from the rest pose, whose angles are 0.
    """
    halves: list[FloatArray] = []
    rows = np.array(orders, dtype=np.int64)
    for end in (move.start, move.end):
        count = max(2, int(np.ceil(abs(end) / STEP)) + 1)
        turns = np.linspace(0.0, end, count)
        matrices = matrix_from_rotvec(turns[:, None] * move.axis)[:, None]
        matrices = np.broadcast_to(matrices, (count, len(rows), 3, 3))
        angles = continuous_euler(euler_from_matrix(matrices, rows), rows)
        angles = _before_lock(angles, move.axis, rows)
        # A range that begins beyond rest has no samples before its beginning.
        halves.append(angles[(turns >= move.start - EXACT) & (turns <= move.end + EXACT)])
    return np.concatenate([halves[0][::-1], halves[1]])


def _before_lock(angles: FloatArray, axis: FloatArray, orders: IntArray) -> FloatArray:
    """Paths (k, m, 3) that stand still where they come near gimbal lock and first and last angle run away.

    A path about the middle axis itself goes through it unharmed.
    """
    middle = np.array([_middle(int(order)) for order in orders])
    columns = np.arange(len(orders))
    near = np.abs(angles[:, columns, middle]) > COMFORTABLE  # (k, m)
    near &= np.abs(axis[middle]) < np.cos(SLACK)
    passed = np.logical_or.accumulate(near, axis=0)
    last = np.where(passed.any(0), np.argmax(passed, axis=0) - 1, len(angles) - 1)
    steps = np.minimum(np.arange(len(angles))[:, None], np.maximum(last, 0))  # (k, m)
    return angles[steps, columns]


def _middle(order: int) -> int:
    """Channel of the middle angle of an order."""
    return "XYZ".index(EULER_ORDERS[order][1])


def _best_box(
    orders: Sequence[int], moves: Sequence[Movement], hinge: FloatArray | None
) -> tuple[int, FloatArray, FloatArray]:
    """The order of those given whose box is smallest, and that box; the first of those about as good."""
    if not moves:
        return orders[0], np.full(3, -np.inf), np.full(3, np.inf)
    paths = [path_angles(move, orders) for move in moves]
    angles: FloatArray = np.concatenate(paths)  # (k, orders, 3)
    lower: FloatArray = angles.min(0)
    upper: FloatArray = angles.max(0)
    if hinge is not None:  # only the bend, which comes first, says how far it bends: twisting begins at rest
        bends = np.abs(hinge) > np.sin(SNAP)
        lower[:, bends], upper[:, bends] = paths[0].min(0)[:, bends], paths[0].max(0)[:, bends]
    # A hinge does not give way where it bends: there its end is where it is straight.
    gives = np.ones(3, dtype=np.bool_) if hinge is None else np.abs(hinge) <= np.sin(SNAP)
    slack = SLACK if hinge is None else HINGE_SLACK
    lower = np.where(gives, np.minimum(lower, -slack), lower)
    upper = np.where(gives, np.maximum(upper, slack), upper)
    best, least = 0, np.inf
    for row, order in enumerate(orders):
        middle = _middle(order)
        locked = max(-lower[row, middle], upper[row, middle]) > COMFORTABLE
        cost = float((upper[row] - lower[row]).sum()) + LOCKING * locked
        if cost < least - GAIN:
            best, least = row, cost
    low, high = lower[best], upper[best]
    return orders[best], np.where(low < -WIDEST, -np.inf, low), np.where(high > WIDEST, np.inf, high)
