# SPDX-License-Identifier: GPL-3.0-or-later
"""What was recognised of a character, as plain data: a role for each joint, limbs, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from ...arrays import BoolArray, FloatArray, freeze
from ...errors import IKError
from ...model.skeleton import Skeleton


class Role(StrEnum):
    """What a joint is in a body; a joint begins where its bone is hinged: the hand at the wrist."""

    HIPS = "hips"
    SPINE = "spine"
    CHEST = "chest"
    NECK = "neck"
    HEAD = "head"
    JAW = "jaw"
    EYE = "eye"
    HEAD_PART = "head part"
    SHOULDER = "shoulder"
    UPPER_ARM = "upper arm"
    LOWER_ARM = "lower arm"
    HAND = "hand"
    FINGER = "finger"
    PELVIS = "pelvis"
    UPPER_LEG = "upper leg"
    LOWER_LEG = "lower leg"
    ANKLE = "ankle"
    FOOT = "foot"
    TOE = "toe"
    TAIL = "tail"
    WING = "wing"
    FIN = "fin"


class Side(StrEnum):
    """Which side of the figure, as the figure itself would say."""

    LEFT = "L"
    RIGHT = "R"
    CENTRE = "C"

    @property
    def other(self) -> Side:
        """The opposite side; the centre is its own."""
        return {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}.get(self, self)


class LimbKind(StrEnum):
    """What a chain of joints is; the trunk goes from the hips to the chest, the head begins with the neck."""

    TRUNK = "trunk"
    HEAD = "head"
    ARM = "arm"
    LEG = "leg"
    FRONT_LEG = "front leg"
    WING = "wing"
    FIN = "fin"
    TAIL = "tail"
    FINGER = "finger"
    TOE = "toe"


class Body(StrEnum):
    """What kind of figure it is."""

    BIPED = "biped"
    QUADRUPED = "quadruped"
    BIRD = "bird"
    MANY_LEGGED = "many-legged"
    SNAKE = "snake"
    FISH = "fish"
    UNKNOWN = "unknown"


PARTS: Final[dict[LimbKind, tuple[Role, ...]]] = {
    LimbKind.TRUNK: (Role.HIPS, Role.SPINE, Role.CHEST),
    LimbKind.HEAD: (Role.NECK, Role.HEAD),
    LimbKind.ARM: (Role.SHOULDER, Role.UPPER_ARM, Role.LOWER_ARM, Role.HAND, Role.HAND),
    LimbKind.LEG: (Role.PELVIS, Role.UPPER_LEG, Role.LOWER_LEG, Role.ANKLE, Role.FOOT),
    LimbKind.FRONT_LEG: (Role.SHOULDER, Role.UPPER_LEG, Role.LOWER_LEG, Role.ANKLE, Role.FOOT),
    LimbKind.WING: (Role.SHOULDER, Role.WING),
    LimbKind.FIN: (Role.SHOULDER, Role.FIN),
    LimbKind.TAIL: (Role.TAIL,),
}
"""Roles of the joints of a limb, from its root. Arms and legs of all kinds have the same five slots."""

UPPER, LOWER = (Role.UPPER_ARM, Role.UPPER_LEG), (Role.LOWER_ARM, Role.LOWER_LEG)
ENDS: Final = (Role.HAND, Role.FOOT)
"""Parts of arms and legs; the lower one begins at the elbow or knee."""


class Bend(StrEnum):
    """How an elbow or a knee is bent at rest: inverted is the way in which such a joint does not bend.

    One that is straight does not say which way it bends, and *none* is that of a limb without such a joint.
    """

    NONE = "none"
    BENT = "bent"
    STRAIGHT = "straight"
    INVERTED = "inverted"


@dataclass(frozen=True)
class Hints:
    """What the scene may know beside the skeleton; all of it may be missing."""

    tails: FloatArray | None = None
    """Ends of the bones in armature space, (n, 3) [m]."""
    deform: BoolArray | None = None
    """Which bones move a mesh, (n,)."""
    driven: frozenset[str] = frozenset()
    """Bones that constraints or drivers decide."""
    collections: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Bone -> names of the bone collections that it is in."""

    def __post_init__(self) -> None:
        freeze(self, "tails")
        freeze(self, "deform", dtype=np.bool_)

    def check(self, skeleton: Skeleton) -> None:
        """Refuse hints that are not about this skeleton (IKError), or not finite."""
        n = len(skeleton)
        for name, array, shape in (("tails", self.tails, (n, 3)), ("deform", self.deform, (n,))):
            if array is not None and array.shape != shape:
                raise IKError(
                    "Hints.{name} has shape {shape}; {n} joints need {wanted}",
                    name=name,
                    shape=array.shape,
                    n=n,
                    wanted=shape,
                )
        if self.tails is not None and not np.isfinite(self.tails).all():
            raise IKError("Hints.tails has a value that is not finite")


NO_HINTS: Final = Hints()


@dataclass(frozen=True)
class Choice:
    """The role of one joint, and why."""

    joint: int
    name: str
    role: Role
    side: Side
    figure: int
    """Which figure of the armature it belongs to, counted from 0."""
    confidence: float
    """From 0 to 1: 1 a name that leaves no doubt, about 0.7 well-shaped topology, below 0.5 a guess."""
    reason: str


@dataclass(frozen=True)
class Chain:
    """Joints of a limb from its root to its tip; twist bones and the like between them are left out."""

    kind: LimbKind
    side: Side
    joints: tuple[int, ...]
    """Without digits: these are limbs of their own."""
    roles: tuple[Role, ...]
    """Of these joints."""

    def first(self, *roles: Role) -> int | None:
        """The first joint with one of some roles, None without any."""
        return next((j for j, role in zip(self.joints, self.roles, strict=True) if role in roles), None)


@dataclass(frozen=True)
class Limb(Chain):
    """A chain of joints that is posed as one."""

    figure: int
    """Which figure of the armature it belongs to, counted from 0."""
    effector: int
    """The joint that a target would hold: the hand, the foot (the paw where an animal walks on its toes)."""
    number: int
    """Counts limbs of one kind and side from front to back, 0 for the only one."""
    confidence: float
    """The least of its joints', see `Choice`."""
    bend: Bend = Bend.NONE
    """Of the elbow or knee at rest."""
    bend_angle: float = 0.0
    """By how much it is bent at rest [rad]."""
    bend_axis: FloatArray | None = None
    """Unit axis about which it bends further the right way, right-handed, in armature space, (3,)."""

    def __post_init__(self) -> None:
        freeze(self, "bend_axis")


@dataclass(frozen=True)
class LeftOut:
    """A joint without a role, and why."""

    joint: int
    name: str
    reason: str


@dataclass(frozen=True)
class Figure:
    """One body of the armature."""

    body: Body
    up: FloatArray
    """Unit vector in armature space, (3,)."""
    forward: FloatArray
    """The way it faces, unit vector in armature space, (3,)."""
    left: FloatArray
    """Towards its left, unit vector in armature space, (3,)."""
    size: float
    """Largest extent of its joints at rest [m]."""

    def __post_init__(self) -> None:
        freeze(self, "up", "forward", "left")


@dataclass(frozen=True)
class Character:
    """Everything that was recognised of an armature."""

    choices: tuple[Choice, ...]
    """A row for each joint that has a role, in the skeleton's order."""
    limbs: tuple[Limb, ...]
    left_out: tuple[LeftOut, ...]
    """A row for every other joint, in the skeleton's order."""
    figures: tuple[Figure, ...]
    """Usually one; two people in one armature are two."""
    notes: tuple[str, ...]
    """What the user should know, one sentence each."""

    def choice_of(self, joint: str | int) -> Choice | None:
        """The row of a joint given by name or index; None for one without a role or that does not exist."""
        return self._choice_of.get(joint)

    def role_of(self, joint: str | int) -> Role | None:
        """Role of a joint, see `choice_of`."""
        found = self.choice_of(joint)
        return None if found is None else found.role

    def side_of(self, joint: str | int) -> Side | None:
        """Side of a joint, see `choice_of`."""
        found = self.choice_of(joint)
        return None if found is None else found.side

    @cached_property
    def _choice_of(self) -> dict[str | int, Choice]:
        rows: dict[str | int, Choice] = {choice.joint: choice for choice in self.choices}
        return rows | {choice.name: choice for choice in self.choices}

    def joints_of(self, role: Role, side: Side | None = None, figure: int = 0) -> tuple[int, ...]:
        """Joints of a role, parents first; of all sides unless one is asked for."""
        rows = (c for c in self.choices if (c.role, c.figure) == (role, figure) and side in (None, c.side))
        return tuple(row.joint for row in rows)

    def limbs_of(self, kind: LimbKind, side: Side | None = None, figure: int = 0) -> tuple[Limb, ...]:
        """Limbs of a kind, front to back; of all sides unless one is asked for."""
        return tuple(x for x in self.limbs if (x.kind, x.figure) == (kind, figure) and side in (None, x.side))
