# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the body that get an effector: of which bone, how important, and how their targets are shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...core.character.roles import (
    Character,
    Limb,
    LimbKind,
    Role,
    Side,
)
from ...core.model.skeleton import Skeleton

COLOURS: Final = {
    Side.LEFT: (0.15, 0.45, 1.0, 1.0),
    Side.RIGHT: (1.0, 0.25, 0.2, 1.0),
    Side.CENTRE: (1.0, 0.8, 0.1, 1.0),
}
"""Of targets: blue left, red right, yellow in the middle."""


@dataclass(frozen=True)
class Shape:
    """How the target of a part of the body is shown."""

    display: str
    """Shape of the empty."""
    size: float
    """In sizes of the figure [1]."""


SHAPES: Final = {
    "hips": Shape('CIRCLE', 0.12),
    "hand": Shape('SPHERE', 0.035),
    "foot": Shape('CUBE', 0.035),
    "head": Shape('SPHERE', 0.07),
    "tail": Shape('CONE', 0.04),
    "wing": Shape('CONE', 0.05),
    "fin": Shape('CONE', 0.03),
    "elbow": Shape('PLAIN_AXES', 0.03),
    "knee": Shape('PLAIN_AXES', 0.03),
}


FOLLOWING: Final = frozenset({"head", "tail", "wing", "fin"})
"""Parts whose targets go with the hips'."""


@dataclass(frozen=True)
class Part:
    """A part of the body that gets an effector."""

    name: str
    """"hand.L", "foot.R.2" for the second right foot, "head (2)" for that of a second figure."""
    what: str
    """A key of `SHAPES`."""
    joint: int
    kind: str
    """Kind of the effector."""
    priority: int
    side: Side
    figure: int
    at_tail: bool = False
    """Whether the end of the bone is meant, where nothing hangs on it that could be held."""
    limb: Limb | None = None
    """Of a pole: what bends."""


def body_parts(skeleton: Skeleton, character: Character, *, poles: bool) -> tuple[Part, ...]:
    """Return the parts that get an effector: feet and hips first, then hands, then heads, then the rest."""
    parts: list[Part] = []
    for limb in character.limbs:
        parts += _parts_of(skeleton, character, limb, poles)
    order = {part.joint: row for row, part in reversed(list(enumerate(parts)))}
    # Two parts that hold the same bone would be the same wish twice.
    unique = [p for row, p in enumerate(parts) if p.kind == 'POLE' or order[p.joint] == row]
    return tuple(sorted(unique, key=lambda part: (part.figure, part.priority)))


def _parts_of(skeleton: Skeleton, character: Character, limb: Limb, poles: bool) -> Iterator[Part]:
    def part(what: str, kind: str, priority: int, joint: int, *, at_tail: bool = False) -> Part:
        name = what if limb.side is Side.CENTRE else f"{what}.{limb.side.value}"
        name = f"front {name}" if limb.kind is LimbKind.FRONT_LEG else name
        name += f".{limb.number + 1}" if limb.number else ""
        name += f" ({limb.figure + 1})" if limb.figure else ""
        bends = limb if kind == 'POLE' else None
        return Part(name, what, joint, kind, priority, limb.side, limb.figure, at_tail, bends)

    role = character.role_of(limb.effector)
    if limb.kind is LimbKind.TRUNK:
        if role is Role.HIPS:
            yield part("hips", 'BOTH', 0, limb.effector)
    elif limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG):
        whole = role in (Role.FOOT, Role.TOE, Role.ANKLE)
        yield part("foot", 'BOTH' if whole else 'POSITION', 0, limb.effector, at_tail=not whole)
    elif limb.kind is LimbKind.ARM:
        whole = role is Role.HAND
        yield part("hand", 'BOTH' if whole else 'POSITION', 1, limb.effector, at_tail=not whole)
    elif limb.kind is LimbKind.HEAD:
        yield part("head", 'BOTH', 2, limb.effector)
    elif limb.kind is LimbKind.WING:
        yield part("wing", 'POSITION', 1, limb.effector, at_tail=True)
    elif limb.kind in (LimbKind.TAIL, LimbKind.FIN):
        yield part(limb.kind.value, 'POSITION', 3, limb.effector, at_tail=True)
    if poles and limb.bend_axis is not None:
        middle = next(
            (
                j
                for j, r in zip(limb.joints, limb.roles, strict=True)
                if r in (Role.LOWER_ARM, Role.LOWER_LEG)
            ),
            None,
        )
        if middle is not None and skeleton.parents[middle] >= 0:
            yield part("elbow" if limb.kind is LimbKind.ARM else "knee", 'POLE', 3, middle)
