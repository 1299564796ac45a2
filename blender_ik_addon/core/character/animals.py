# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the joints of animals turn, by the kind of body; of people see `human`.

Legs of quadrupeds: the bends of elbow, stifle, carpus and hock and the swings of humerus and femur are those
of dogs [Jaegger2002] (elbow 36 to 165 degrees between the bones, carpus 32 to 196, stifle 42 to 162, hock 39
to 164, shoulder 57 to 165 with the scapula, hip 50 to 162 with the pelvis, of 16 sedated Labradors;
compared with what others print of it), wider by what other animals do and scapula and pelvis add. Hock and
carpus bend against stifle and elbow, so a leg folds like a Z. Birds have the same hind legs: the joint that
shows is the hock.

Trunks, necks, tails and fins are in round figures, wide enough for nearly all of the animations by hand of a
fox, a horse, a bird and a shark (Mesh2Motion, CC0). They keep one joint from turning for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .roles import Body, LimbKind

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


TWIST: Final = 45.0
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
