# SPDX-License-Identifier: GPL-3.0-or-later
"""Masses of bones: of people by the segments of their bodies, of everything else by the volume of its bones.

The segments of people are those of [DeLeva1996, table 4], means of women and men: their parts of the whole
mass, and how far from its upper end a segment has its centre: of arms and legs between the centres of joints,
which is where rigs have theirs. The table was compared with two transcriptions by others, figure by figure;
it was not read in the original. A hand's centre is at 77 % of the way from the wrist to the knuckles and at
35 % of that to the fingertip: bones of hands end somewhere between, and half is taken. A foot's is counted
from heel to toe. A segment with several bones shares its mass among them by their lengths; one that a rig has
no bone for leaves its mass to the next one towards the trunk. Bones without a role then weigh nothing.

Of other bodies nothing is known but their bones. Those that carry a mesh weigh length³: one density, limbs of
one shape, thicker where they are longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, freeze
from ..errors import IKError
from .role_edits import RoleRow
from .roles import Role, Side

HALF: Final = 0.5
"""Part of a bone's length [1] at which its centre is where nothing better is known."""


@dataclass(frozen=True)
class _Segment:
    """A segment of a human body."""

    mass: float
    """Part of the body's mass [1]; of one side, where there are two."""
    centre: float
    """Distance of its centre from its upper end, by its length [1]."""
    roles: frozenset[Role]
    """What its bones are."""
    leaves_to: str
    """The segment that has its mass where it has no bone."""


def _segment(women: float, men: float, centre: float, roles: Sequence[Role], leaves_to: str) -> _Segment:
    """A segment from its masses in women and men [% of the body] and its centre [%]."""
    return _Segment(0.005 * (women + men), 0.01 * centre, frozenset(roles), leaves_to)


SIDED: Final[dict[str, _Segment]] = {
    "hand": _segment(0.56, 0.61, 50.0, (Role.HAND, Role.FINGER), "forearm"),
    "forearm": _segment(1.38, 1.62, 45.7, (Role.LOWER_ARM,), "upper arm"),
    "upper arm": _segment(2.55, 2.71, 57.6, (Role.UPPER_ARM,), "chest"),
    "foot": _segment(1.29, 1.37, 42.1, (Role.FOOT, Role.TOE), "shank"),
    "shank": _segment(4.81, 4.33, 43.7, (Role.LOWER_LEG, Role.ANKLE), "thigh"),
    "thigh": _segment(14.78, 14.16, 38.5, (Role.UPPER_LEG,), "hips"),
}
MIDDLE: Final[dict[str, _Segment]] = {
    "head": _segment(6.68, 6.94, 50.0, (Role.HEAD, Role.NECK), "chest"),
    # Upper and middle part of the trunk: rigs do not part them where tables do.
    "chest": _segment(15.45 + 14.65, 15.96 + 16.33, 50.0, (Role.SPINE, Role.CHEST), "hips"),
    "hips": _segment(12.47, 11.17, 50.0, (Role.HIPS,), "chest"),
}
"""Segments of each side, and of the middle."""


@dataclass(frozen=True)
class BodyMasses:
    """What the joints of a skeleton carry."""

    shares: FloatArray
    """Part of the whole mass, (n,) [1]; they add up to 1."""
    centres: FloatArray
    """Distance of each bone's centre from its joint by its length, (n,) [1]."""
    by_segments: BoolArray
    """Which bones have theirs from the tables of people, (n,)."""

    def __post_init__(self) -> None:
        freeze(self, "shares", "centres")
        freeze(self, "by_segments", dtype=np.bool_)


def body_masses(
    names: Sequence[str], lengths: FloatArray, counted: BoolArray, rows: Sequence[RoleRow] = ()
) -> BodyMasses:
    """Share the mass of a body among its bones.

    Of several figures in one skeleton people weigh alike; a skeleton with anything that is no human being is
    shared by volume as a whole.

    Args:
        names: Of the joints, (n,).
        lengths: Of their bones, (n,) [m or any].
        counted: Which of them carry a mesh, (n,); all where none does.
        rows: The table of roles, see `role_edits.rows_of`; without it volumes count.

    Raises:
        IKError: Lengths or `counted` have another shape, or lengths are negative or not finite.
    """
    n = len(names)
    if lengths.shape != (n,) or counted.shape != (n,):
        raise IKError(
            "lengths {shape} and counted {counted_shape}: {n} joints need {value} each",
            shape=lengths.shape,
            counted_shape=counted.shape,
            n=n,
            value=(n,),
        )
    if not (np.isfinite(lengths) & (lengths >= 0.0)).all():
        raise IKError("lengths of bones must be finite and at least 0")
    index = {name: joint for joint, name in enumerate(names)}
    figures: dict[int, list[RoleRow]] = {}
    for row in rows:
        if row.role is not None and row.joint in index:
            figures.setdefault(row.figure, []).append(row)
    shares, centres = np.zeros(n), np.full(n, HALF)
    human = bool(figures) and all(map(_is_human, figures.values()))
    segments = SIDED | MIDDLE
    for own in figures.values() if human else ():
        for name, side in (*product(SIDED, (Side.LEFT, Side.RIGHT)), *product(MIDDLE, (Side.CENTRE,))):
            heir = name
            while not (bones := _bones(own, index, heir, side)):  # people have some, see `_is_human`
                heir = segments[heir].leaves_to
            part = lengths[bones]
            total = float(part.sum())
            shares[bones] += segments[name].mass * (part / total if total > 0.0 else 1.0 / len(bones))
            if len(bones) == 1:
                centres[bones[0]] = segments[heir].centre
    if not human:
        shares = np.where(counted if counted.any() else True, lengths**3, 0.0)
    total = float(shares.sum())
    shares = shares / total if total > 0.0 else np.full(n, 1.0 / max(n, 1))
    return BodyMasses(shares, centres, shares > 0.0 if human else np.zeros(n, dtype=np.bool_))


def _is_human(rows: Sequence[RoleRow]) -> bool:
    """Whether a figure has two arms, two legs, a trunk, and nothing that people have not."""
    has = {(row.role, row.side) for row in rows}
    roles = {role for role, _ in has}
    limbs = product((Role.UPPER_ARM, Role.UPPER_LEG), (Side.LEFT, Side.RIGHT))
    trunk = roles & {Role.SPINE, Role.CHEST, Role.HIPS}
    return has.issuperset(limbs) and bool(trunk) and not roles & {Role.TAIL, Role.WING, Role.FIN}


def _bones(rows: Sequence[RoleRow], index: Mapping[str, int], name: str, side: Side) -> list[int]:
    """Joints of a segment, of one side if it has sides."""
    roles = (SIDED | MIDDLE)[name].roles
    return [index[row.joint] for row in rows if row.role in roles and (name in MIDDLE or row.side is side)]
