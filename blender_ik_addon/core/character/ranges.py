# SPDX-License-Identifier: GPL-3.0-or-later
"""What bodies can do and prefer: limits, stiffness and preferred angles of joints by their roles.

A range is given as anatomy does, as movements of a bone from its rest pose: a turn about the left, the up or
the forward axis of the figure, a swing of a limb from rest to another direction, the bend of an elbow or a
knee from straight, a twist about the bone. Limits are the box of Euler angles that holds them
(`limit_boxes`).

Elbows and knees are bent by b at rest, and bend further about the axis that was recognised: with angles
counted from rest they go from -b, straight, on. One that is inverted at rest must first go the other way, so
its range does not contain 0.

Ranges are published ones of healthy people, in round figures: about the mean and two standard deviations of
[BooneAzen1979] where they measured a joint, 109 men and boys from 18 months to 54 years, so that few people
can do more; the spine by [AAOS1965], the neck by [AmaGuides], knees and hips that somebody else bends, and
the turn of a bent knee, by [Kapandji1987], the collarbone by [Neumann2010]. Where a rig has one joint for
several of a body, its range is theirs together.

Stiffness and preferred angles come from recorded motion, see `preferences`; animals have the same stiffness
and prefer their rest pose.

None of these was read in the original. What is said of [BooneAzen1979] was compared with what others print of
it: arms, forearms and wrists with [NorkinWhite2016, table A.1]; bending, stretching and closing hips, knees,
and the ankle in the air with [Kosmahl1999]. [AAOS1965], [AmaGuides] and [Neumann2010] were compared with
lists that others teach from. A figure of which no second account was found says *unverified*.

**Animals.** The bends of elbow, stifle, carpus and hock of quadrupeds and the swings of humerus and femur are
those of dogs [Jaegger2002] (elbow 36 to 165 degrees between the bones, carpus 32 to 196, stifle 42 to 162,
hock 39 to 164, shoulder 57 to 165 with the scapula, hip 50 to 162 with the pelvis, of 16 sedated Labradors;
compared with what others print of it), wider by what other animals do and scapula and pelvis add. Hock and
carpus bend against stifle and elbow, so a leg folds like a Z. Birds have the same hind legs: the joint that
shows is the hock. Trunks, necks, tails and fins are in round figures, wide enough for nearly all of the
animations by hand of a fox, a horse, a bird and a shark (Mesh2Motion, CC0). They keep one joint from turning
for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..errors import IKError
from ..messages import Message
from ..model.rotation import EULER_ORDERS
from ..model.skeleton import JointLimits, Skeleton
from .anatomy import anatomical_joints
from .digits import Digit, digits
from .limit_boxes import SLACK, SNAP, Movement, best_box, middle_of, moves_about, path_angles, snapped
from .preferences import natural_angles, recorded_stiffness
from .recorded import RECORDED
from .roles import Bend, Body, Character, Limb, LimbKind, Role, Side
from .roles.character import LOWER, UPPER
from .roles.structure import TINY, norm, unit

FOREARM_TWIST, SHIN_TWIST = float(np.radians(80.0)), float(np.radians(30.0))
"""How far they turn about themselves, either way [rad]: forearms 76 and 82 degrees [BooneAzen1979], shins
with the knee bent 30 inwards and 40 outwards [Kapandji1987; unverified]; stiffness keeps a straight knee."""

ARM_TWIST, ARM_TWIST_UNKNOWN = float(np.radians(85.0)), float(np.radians(120.0))
"""How far upper arms turn about themselves, either way [rad]: 69 inwards and 104 outwards [BooneAzen1979],
and an arm may be anywhere between them at rest. Where the elbow is straight at rest it is not known which way
it bends (in a T pose with palms down ahead, with palms up upward), and the upper arm must make up for it."""

THIGH_TWIST: Final = float(np.radians(45.0)), float(np.radians(60.0))
"""The same of thighs, in and out: 45 degrees [AAOS1965], 47 ± 6 [BooneAzen1979; unverified]. Inwards only the
mean: the same channel swings a bent thigh across the body."""

ARM_ENDS: Final = (
    ("out", "up", 78.0),
    ("out", "down", 88.0),
    ("out", "forward", 135.0),
    ("out", "back", 40.0),
    ("down", "forward", 60.0),
    ("forward", "up", 75.0),
    ("down", "back", 60.0),
)
"""Directions to which upper arms swing: at so many degrees from the first towards the second. Raised sideways
184 ± 7 and to the front 167 ± 5, of which the collarbone has its part, back 62 ± 10 [BooneAzen1979]; level
across the chest 135 [AAOS1965]."""

LEG_ENDS: Final = (
    ("down", "forward", 140.0),
    ("down", "back", 30.0),
    ("down", "out", 60.0),
    ("down", "in", 35.0),
)
"""The same of thighs: 122 ± 6, with the knee pulled up 145 [Kapandji1987; unverified], 10 ± 7 and 30
[AAOS1965], 46 ± 9 (unverified, 45 by [AAOS1965]) and 27 ± 4 [BooneAzen1979]."""

WRIST_RANGES: Final = (75.0, 25.0)
"""Bends of the wrist, either way, and its twist [deg]: 76 ± 6 and 75 ± 6 [BooneAzen1979]. Where the palm
faces is not asked, so it bends as far to the side, which is 22 and 36 in a body; the twist is what rigs leave
to it of the forearm's."""

COLLAR_RANGES: Final = ((-10.0, 45.0), (-30.0, 30.0), (-30.0, 30.0))
"""Of a collarbone up and down, ahead and back, its roll [deg] [Neumann2010]: 35 to 45 up, 10 down, 15 to 30
ahead and back."""

ELBOW_BEND, KNEE_BEND, ANIMAL_BEND = (float(angle) for angle in np.radians([155.0, 160.0, 165.0]))
"""Largest bends from straight [rad]: elbows 143 ± 6, knees that nobody pushes 143 ± 5 [BooneAzen1979], and
160 when sat upon [Kapandji1987; unverified, others have 170]; elbows and knees of animals."""

SLIGHT: Final = float(np.radians(10.0))
"""Bend from straight that elbows and knees of animals prefer [rad]: they then know which way to bend."""

TRUNK_RANGES: Final = ((-30.0, 85.0), (-45.0, 45.0), (-40.0, 40.0))
NECK_RANGES: Final = ((-70.0, 60.0), (-80.0, 80.0), (-50.0, 50.0))
"""Back and forward, turning, leaning [deg], for all joints of the part together: trunks 25, 80, 45 and 35
[AAOS1965], and 5 more but for turning; necks 75, 60, 80 and 45 [AmaGuides], leaning 5 more."""

UNEVEN: Final = 1.5
"""How much more than its equal share of a range one joint of trunk or neck may take [1]: vertebrae do not
share evenly, and boxes cannot hold a sum."""

TRUNK: Final = {LimbKind.TRUNK: TRUNK_RANGES, LimbKind.HEAD: NECK_RANGES}
"""Ranges of all joints of a limb together [deg]."""

ALIGNED: Final = 1e-6
"""Sine of the angle between two directions [1] below which a swing from one to the other has no axis."""

FOOT_RANGES: Final = ((-50.0, 65.0), (-35.0, 35.0), (-45.0, 45.0))
"""Up and down, turned in and out, tilted [deg]. Up 13 ± 4 in the air [BooneAzen1979] and 39 when a body leans
over it with a bent knee, of 20 people whose mean is known within 3 [Baumbach2014], which makes it 52 with two
standard deviations; down 56 ± 6, tilted 37 ± 5 and 21 ± 5 [BooneAzen1979; unverified, 50, 35 and 15 by
[AAOS1965]]; the joints of the midfoot, which rigs have not, included."""

STIFF, TAIL = 0.99, 0.3
"""Stiffness [1] of what bodies have no joint for, and of tails, of which there is no recording."""

ACROSS: Final = 0.9
"""Stiffness [1] of fingers and toes against all but their bend."""


# Animals

Ranges = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
"""Turns from rest about the figure's left, up and forward axis [deg]."""

Ends = tuple[tuple[str, str, float], ...]
"""Directions to which the upper bone of a limb swings: at so many degrees from the first to the second."""


def _even(left: float, up: float, forward: float) -> Ranges:
    return (-left, left), (-up, up), (-forward, forward)


@dataclass(frozen=True)
class AnimalRanges:
    """Ranges of one kind of body."""

    shared: Mapping[LimbKind, Ranges] = field(default_factory=dict[LimbKind, Ranges])
    """Of all joints of a trunk or a neck together."""
    each: Mapping[LimbKind, Ranges] = field(default_factory=dict[LimbKind, Ranges])
    """Of every joint of a limb."""
    swings: Mapping[LimbKind, Ends] = field(default_factory=dict[LimbKind, Ends])
    """Of the upper bones of legs."""
    folds: Mapping[LimbKind, tuple[float, float]] = field(default_factory=dict[LimbKind, tuple[float, float]])
    """Bends of the joint below elbow or knee from straight, against these [deg]."""
    girdles: Mapping[LimbKind, Ranges] = field(default_factory=dict[LimbKind, Ranges])
    """Of what carries a limb: scapulas, bones of the pelvis."""
    spread: float = 0.0
    """How far legs that spread to the sides swing from rest, up and down, to and fro [deg]."""


ANIMAL_TWIST: Final = 45.0
"""How far the upper bone of an animal's leg turns about itself, either way [deg]."""

ACROSS_FOLD: Final = 15.0
"""How far hocks and carpuses give way across their bend, either way [deg]: carpuses 7 and 12 [Jaegger2002;
unverified]."""

_TAIL: Final = {LimbKind.TAIL: _even(60.0, 50.0, 30.0)}
_HIND: Final = (
    ("down", "forward", 120.0),
    ("down", "back", 70.0),
    ("down", "out", 60.0),
    ("down", "in", 35.0),
)
_FRONT: Final = (
    ("down", "forward", 70.0),
    ("down", "back", 120.0),
    ("down", "out", 50.0),
    ("down", "in", 35.0),
)
_HOCK, _CARPUS = (0.0, 150.0), (-30.0, 150.0)
_PELVIS, _SCAPULA = _even(20.0, 10.0, 10.0), _even(35.0, 20.0, 20.0)

ANIMALS: Final[Mapping[Body, AnimalRanges]] = {
    Body.QUADRUPED: AnimalRanges(
        shared={
            LimbKind.TRUNK: ((-80.0, 100.0), (-90.0, 90.0), (-50.0, 50.0)),
            LimbKind.HEAD: ((-110.0, 130.0), (-140.0, 140.0), (-90.0, 90.0)),
        },
        each=_TAIL,
        swings={LimbKind.LEG: _HIND, LimbKind.FRONT_LEG: _FRONT},
        folds={LimbKind.LEG: _HOCK, LimbKind.FRONT_LEG: _CARPUS},
        girdles={LimbKind.LEG: _PELVIS, LimbKind.FRONT_LEG: _SCAPULA},
    ),
    Body.BIRD: AnimalRanges(
        shared={
            LimbKind.TRUNK: ((-30.0, 40.0), (-30.0, 30.0), (-25.0, 25.0)),
            LimbKind.HEAD: ((-140.0, 160.0), (-170.0, 170.0), (-90.0, 90.0)),
        },
        each=_TAIL,
        swings={LimbKind.LEG: _HIND},
        folds={LimbKind.LEG: _HOCK},
        girdles={LimbKind.LEG: _PELVIS},
    ),
    Body.MANY_LEGGED: AnimalRanges(
        shared={
            LimbKind.TRUNK: ((-50.0, 60.0), (-50.0, 50.0), (-25.0, 25.0)),
            LimbKind.HEAD: _even(50.0, 60.0, 30.0),
        },
        each=_TAIL,
        spread=70.0,
    ),
    Body.SNAKE: AnimalRanges(
        each=dict.fromkeys((LimbKind.TRUNK, LimbKind.HEAD, LimbKind.TAIL), _even(50.0, 70.0, 20.0))
    ),
    Body.FISH: AnimalRanges(
        shared={LimbKind.TRUNK: _even(50.0, 90.0, 40.0), LimbKind.HEAD: _even(50.0, 70.0, 40.0)},
        each={LimbKind.TAIL: _even(40.0, 50.0, 25.0), LimbKind.FIN: _even(60.0, 60.0, 60.0)},
    ),
}
"""Of others nothing is known. Wings are left as they are: which way they fold is not recognised."""


# Defaults


@dataclass(frozen=True)
class JointDefaults(JointLimits):
    """What is assumed of one joint; preferred are angles of a natural pose."""

    order: int
    joint: int
    """Index in the skeleton."""
    is_hinge: bool
    """Whether it is an elbow or a knee, or a joint of a finger or a toe."""
    why: str
    """Where it comes from, for people."""


def joint_defaults(
    skeleton: Skeleton, character: Character, *, any_order: BoolArray | None = None
) -> Mapping[int, JointDefaults]:
    """Make limits, stiffness and preferred angles for joints whose role says something.

    Args:
        skeleton: Its rest pose and its rotation orders count, nothing else.
        any_order: Joints that are not bound to their order, (n,), those of bones in quaternion mode. They get
            one in which the box is a good one and gimbal lock is far from it. By default all are bound.

    Raises:
        IKError: The character is that of another skeleton, or `any_order` has another length.
    """
    n = len(skeleton)
    free_order = np.zeros(n, dtype=np.bool_) if any_order is None else any_order
    if free_order.shape != (n,):
        raise IKError(
            "any_order has shape {shape}; {n} joints need {value}", shape=free_order.shape, n=n, value=(n,)
        )
    for choice in character.choices:
        if choice.joint >= n or skeleton.names[choice.joint] != choice.name:
            raise IKError(
                "the character has a bone {choice!r} that is not in this skeleton", choice=choice.name
            )
    makers = (_Maker(skeleton, character, number, free_order) for number in range(len(character.figures)))
    return {defaults.joint: defaults for maker in makers for defaults in maker.make()}


@dataclass(frozen=True)
class _Joint:
    """A joint while its limits are made."""

    index: int
    role: Role
    rest: FloatArray
    """Rotation of its frame at rest in armature space, (3, 3)."""
    along: FloatArray
    """Unit vector along the bone in armature space, (3,)."""
    orders: tuple[int, ...]
    """Euler orders to choose from, the preferred one first."""

    def own(self, vector: FloatArray) -> FloatArray:
        """A vector of armature space in the joint's frame."""
        return self.rest.T @ vector

    def twist_axis(self) -> FloatArray:
        """The bone's own axis in the joint's frame, (3,), or the axis of the joint that is near to it."""
        return snapped(self.own(self.along))

    def nearest(self, vector: FloatArray) -> int:
        """Channel that is nearest to turning about an axis of armature space."""
        return int(np.argmax(np.abs(self.own(vector))))


class _Maker:
    """Makes the defaults of one figure."""

    def __init__(self, skeleton: Skeleton, character: Character, number: int, any_order: BoolArray) -> None:
        self._skeleton, self._character, self._number = skeleton, character, number
        self._any_order = any_order
        self._rest = skeleton.armature_from_joint_rest
        self._figure = character.figures[number]
        self._human = self._figure.body is Body.BIPED
        self._animal = ANIMALS.get(self._figure.body, AnimalRanges())
        self._parts = {one.joint: one for one in anatomical_joints(skeleton, character, number)}

    def make(self) -> Iterator[JointDefaults]:
        """Give them joint by joint."""
        for limb in self._character.limbs:
            if limb.figure == self._number:
                yield from self._limb(limb)
                if limb.kind is LimbKind.TRUNK:
                    yield from self._pelvis(limb)
        for digit in digits(self._skeleton, self._character, self._number) if self._human else ():
            yield self._digit(digit)

    def _limb(self, limb: Limb) -> Iterator[JointDefaults]:
        rows = [row for row in zip(limb.joints, limb.roles, strict=True) if row[1] is not Role.HIPS]
        joints = [joint for joint, _ in rows]
        for (joint, role), after in zip(rows, [*joints[1:], None], strict=False):
            made = self._joint(joint, role, after)
            if limb.kind in TRUNK:
                share = min(1.0, UNEVEN / len(joints))
                turns = self._turns(made, TRUNK[limb.kind], share)
                yield self._defaults(made, turns if self._human else self._bends(made, limb, share))
            elif limb.kind in (LimbKind.TAIL, LimbKind.FIN):
                yield self._defaults(made, self._bends(made, limb), TAIL)
            elif role in UPPER:
                if limb.kind is LimbKind.LEG:
                    # However far a thigh is bent, to spread and to turn it are then channels of their own.
                    made = _twist_first(made, made.own(self._figure.left))
                yield self._defaults(made, self._swings(made, limb))
            elif role in LOWER:
                yield self._hinge(made, limb)
            elif limb.kind in (LimbKind.ARM, LimbKind.LEG, LimbKind.FRONT_LEG):
                stiffness = STIFF if role is Role.PELVIS else 0.0
                if self._human or role in (Role.PELVIS, Role.SHOULDER):
                    yield self._defaults(made, self._end(made, limb), stiffness)
                else:
                    yield self._fold(made, limb)

    def _pelvis(self, trunk: Limb) -> Iterator[JointDefaults]:
        """Bones between hips and legs that are in no limb, as generated rigs have: they bend the loin.

        The trunk bends forward over them as they turn back under it, and they resist as its other joints do.
        """
        limbs = {joint for limb in self._character.limbs for joint in limb.joints}
        every = self._character.joints_of(Role.PELVIS, figure=self._number)
        joints = [joint for joint in every if joint not in limbs]
        loin = next((self._parts[joint] for joint in trunk.joints if joint in self._parts), None)
        share = min(1.0, UNEVEN / (len(joints) + len(trunk.joints)))
        back = [(-high, -low) for low, high in TRUNK[LimbKind.TRUNK]]
        for joint in joints:
            made = self._joint(joint, Role.PELVIS, None)
            moves = self._turns(made, back, share) if self._human else self._bends(made, trunk, share)
            defaults = self._defaults(made, moves)
            if loin is not None:
                one = replace(loin, joint=joint, joints=loin.joints + len(joints), lever=1.0, rest=made.rest)
                resists = recorded_stiffness(one, RECORDED[loin.part], defaults.order, defaults.preferred)
                defaults = replace(defaults, stiffness=resists)
            yield defaults

    def _bends(self, made: _Joint, limb: Limb, share: float = 1.0) -> Sequence[Movement]:
        """Bends of a trunk, a neck, a tail or a fin of an animal: up and down, aside, about itself."""
        each, shared = (ranges.get(limb.kind) for ranges in (self._animal.each, self._animal.shared))
        aside = np.cross(made.along, self._figure.left)
        if norm(aside) < np.sin(SNAP):  # it points to the side, as fins do
            axes = np.eye(3)
        else:
            axes = np.stack([made.own(axis) for axis in (self._figure.left, unit(aside), made.along)])
        if each is not None:
            return moves_about(axes, each)
        return [] if shared is None else moves_about(axes, shared, share)

    def _fold(self, made: _Joint, limb: Limb) -> JointDefaults:
        """Hocks and carpuses, which bend against stifle and elbow; what is below them is free."""
        place = limb.joints.index(made.index)
        ends = self._animal.folds.get(limb.kind)
        if ends is None or limb.bend_axis is None or limb.roles[place - 1] not in LOWER:
            return self._defaults(made, [])
        above = self._rest[made.index, :3, 3] - self._rest[limb.joints[place - 1], :3, 3]
        below = made.along
        if place + 1 == len(limb.joints) and limb.effector != made.index:  # the paw, which is a toe
            below = self._rest[limb.effector, :3, 3] - self._rest[made.index, :3, 3]
        at_rest = float(np.degrees(np.arctan2(np.cross(above, below) @ -limb.bend_axis, above @ below)))
        if not ends[0] - ACROSS_FOLD <= at_rest <= ends[1]:  # as in a leg that begins at its knee
            return self._defaults(made, [])
        axis = snapped(made.own(-limb.bend_axis))
        low, high = min(ends[0] - at_rest, 0.0), ends[1] - at_rest
        across = [other for other in np.eye(3) if abs(other @ axis) < np.cos(SNAP)]
        moves = [
            *moves_about([axis], [(low, high)]),
            *moves_about(across, [(-ACROSS_FOLD, ACROSS_FOLD)] * len(across)),
        ]
        return self._defaults(made, moves, np.where(np.abs(axis) > np.sin(SNAP), 0.0, ACROSS))

    def _end(self, made: _Joint, limb: Limb) -> Sequence[Movement]:
        """Collarbones and the like, hands and feet."""
        figure = self._figure
        if not self._human:
            return self._turns(made, self._animal.girdles.get(limb.kind))
        if made.role is Role.SHOULDER:
            if limb.kind is not LimbKind.ARM:
                return []
            out = 1.0 if limb.side is Side.LEFT else -1.0  # up and down, ahead and back, its roll
            axes = made.own(-out * figure.forward), made.own(-out * figure.up), made.twist_axis()
            return moves_about(axes, COLLAR_RANGES)
        if made.role is Role.PELVIS:
            return [Movement(axis, -SLACK, SLACK) for axis in np.eye(3)]
        if made.role is Role.HAND:  # where the palm faces is not known: as far one way as the other
            most = [WRIST_RANGES[axis == made.nearest(made.along)] for axis in range(3)]
            return moves_about(np.eye(3), [(-angle, angle) for angle in most])
        return self._turns(made, FOOT_RANGES)

    def _swings(self, made: _Joint, limb: Limb) -> Sequence[Movement]:
        """Shoulder and hip joints: directions to which the limb can swing, and its twist."""
        if limb.side is Side.CENTRE:
            return []
        figure = self._figure
        if self._animal.spread:
            most, across = self._animal.spread, np.cross(made.along, figure.up)
            axes = [figure.up, unit(across)] if norm(across) > ALIGNED else []
            sweeps = moves_about([made.own(axis) for axis in axes], [(-most, most)] * len(axes))
            return [*sweeps, *moves_about([made.twist_axis()], [(-ANIMAL_TWIST, ANIMAL_TWIST)])]
        out = figure.left if limb.side is Side.LEFT else -figure.left
        ways = {"out": out, "up": figure.up, "forward": figure.forward}
        ways |= {"in": -out, "down": -figure.up, "back": -figure.forward}
        ends, (inwards, outwards) = LEG_ENDS, THIGH_TWIST
        if not self._human:
            ends = self._animal.swings.get(limb.kind, ())
            inwards = outwards = float(np.radians(ANIMAL_TWIST))
            if not ends:
                return []
        elif made.role is Role.UPPER_ARM:
            ends, inwards, outwards = ARM_ENDS, ARM_TWIST, ARM_TWIST
            channel = made.nearest(made.along)
            if limb.bend is Bend.STRAIGHT and any(middle_of(order) != channel for order in made.orders):
                # Without gimbal lock where it is twisted by a right angle.
                inwards = outwards = ARM_TWIST_UNKNOWN
        turns = ((ways[start], ways[end], np.radians(angle)) for start, end, angle in ends)
        swings = [_swing(made, np.cos(turn) * a + np.sin(turn) * b) for a, b, turn in turns]
        moves = [swing for swing in swings if swing is not None]
        axis = made.twist_axis()
        if axis @ made.own(np.cross(figure.forward, out)) < 0.0:
            inwards, outwards = outwards, inwards
        return [*moves, Movement(axis, -inwards, outwards)]

    def _hinge(self, made: _Joint, limb: Limb) -> JointDefaults:
        """Elbows and knees; bones in the middle of the same part are stiff."""
        is_arm = made.role is Role.LOWER_ARM
        if limb.bend_axis is None or limb.first(made.role) != made.index:
            return self._defaults(made, [], STIFF)
        axis = snapped(made.own(limb.bend_axis))
        at_rest = -limb.bend_angle if limb.bend is Bend.INVERTED else limb.bend_angle
        largest = (ELBOW_BEND if is_arm else KNEE_BEND) if self._human else ANIMAL_BEND
        slight = Movement(axis, 0.0, max(SLIGHT - at_rest, 0.0))
        moves = [Movement(axis, -at_rest, max(largest - at_rest, SLACK - at_rest))]
        if self._human:
            most = FOREARM_TWIST if is_arm else SHIN_TWIST
            moves.append(Movement(made.twist_axis(), -most, most))
        # The hinge is that of the joint above, as in a body.
        return self._defaults(_twist_first(made, axis), moves, hinge=axis, slight=slight)

    def _digit(self, digit: Digit) -> JointDefaults:
        """A joint of a finger or a toe."""
        role = self._character.role_of(digit.joint) or Role.FINGER
        made = replace(self._joint(digit.joint, role, None), along=digit.along)
        axes = [snapped(made.own(v)) for v in (digit.axis, np.cross(digit.axis, digit.along), digit.along)]
        stiffness = np.where(np.abs(axes[0]) > np.sin(SNAP), 0.0, ACROSS)
        return self._defaults(made, moves_about(axes, digit.ranges), stiffness, hinge=axes[0])

    # What they share

    def _joint(self, index: int, role: Role, after: int | None) -> _Joint:
        """A joint, its bone pointing to the one after it, or along its own y."""
        rest = np.array(self._rest[index, :3, :3])
        along = rest[:, 1] if after is None else self._rest[after, :3, 3] - self._rest[index, :3, 3]
        along = unit(along if norm(along) > TINY else rest[:, 1])
        own = int(self._skeleton.orders[index])
        return _Joint(index, role, rest, along, tuple(range(6)) if self._any_order[index] else (own,))

    def _turns(
        self, made: _Joint, ranges: Sequence[tuple[float, float]] | None, share: float = 1.0
    ) -> list[Movement]:
        """Turns about the figure's left, up and forward axes; positive is forward and down, left, right."""
        figure = self._figure
        axes = [made.own(axis) for axis in (figure.left, figure.up, figure.forward)]
        return [] if ranges is None else moves_about(axes, ranges, share)

    def _defaults(
        self,
        made: _Joint,
        moves: Sequence[Movement],
        stiffness: FloatArray | float = 0.0,
        *,
        hinge: FloatArray | None = None,
        slight: Movement | None = None,
    ) -> JointDefaults:
        """The defaults of a joint; a stiffness, and a slight bend, where no part is recorded for it."""
        order, lower, upper = best_box(made.orders, moves, hinge)
        angles = np.zeros(3) if slight is None else path_angles(slight, [order])[-1, 0]
        resists = np.broadcast_to(stiffness, (3,))
        known = self._parts.get(made.index)
        if known is not None and known.part in RECORDED and not np.any(resists):
            turns = RECORDED[known.part]
            angles = natural_angles(known, turns, order, lower, upper) if self._human else angles
            resists = recorded_stiffness(known, turns, order, angles)
        why = Message("human: {role}", role=made.role)
        if not self._human:
            why = Message("animal: {role}", role=made.role)
        angles = np.clip(angles, lower, upper)
        return JointDefaults(lower, upper, resists, angles, order, made.index, hinge is not None, why)


def _twist_first(made: _Joint, axis: FloatArray) -> _Joint:
    """A joint whose first order, if it has several, turns about the bone first and about an axis last."""
    channel, twist = int(np.argmax(np.abs(axis))), made.nearest(made.along)
    if len(made.orders) < 2 or channel == twist:
        return made
    order = EULER_ORDERS.index("XYZ"[twist] + "XYZ"[3 - twist - channel] + "XYZ"[channel])
    return replace(made, orders=(order, *(other for other in made.orders if other != order)))


def _swing(made: _Joint, direction: FloatArray) -> Movement | None:
    """The shortest swing of a bone to a direction (3,); None where it is there or opposite."""
    end = unit(direction)
    axis = np.cross(made.along, end)
    sine = norm(axis)
    if sine < ALIGNED:
        return None
    return Movement(made.own(axis / sine), 0.0, float(np.arctan2(sine, made.along @ end)))
