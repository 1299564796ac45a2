# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a drag may go: along an axis, in a plane, by typed numbers, in steps; mathematics and text alone.

The keys are those of Blender's own G: X, Y, Z for an axis of the world, with Shift for the plane across it,
the same key again for the bone's own, and once more for none; digits, minus, point and backspace for a
length, Tab for the next one.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ..core.arrays import FloatArray
from .picking import View

AXES: Final = {'X': 0, 'Y': 1, 'Z': 2}

_DIGITS: Final = ('ZERO', 'ONE', 'TWO', 'THREE', 'FOUR', 'FIVE', 'SIX', 'SEVEN', 'EIGHT', 'NINE')

TYPED: Final = {
    'PERIOD': ".",
    'NUMPAD_PERIOD': ".",
    'MINUS': "-",
    'NUMPAD_MINUS': "-",
    **{key: str(digit) for digit, name in enumerate(_DIGITS) for key in (name, f'NUMPAD_{digit}')},
}
"""Characters of a number by Blender's names of the keys."""


@dataclass(frozen=True)
class AxisLock:
    """Along what a drag moves."""

    letter: str = ""
    """'X', 'Y' or 'Z'; empty for the plane of the view."""
    plane: bool = False
    """Whether that axis is locked, and the plane across it free."""
    local: bool = False
    """Whether the axis is the bone's own."""

    def after(self, letter: str, plane: bool) -> "AxisLock":
        """What a key makes of it: the world's axis, then the bone's own, then none."""
        if (self.letter, self.plane) != (letter, plane):
            return AxisLock(letter, plane)
        return AxisLock() if self.local else replace(self, local=True)

    @property
    def text(self) -> str:
        """What it is, in words; empty for none."""
        if not self.letter:
            return ""
        whose = "local" if self.local else "global"
        return f"locking {whose} {self.letter}" if self.plane else f"along {whose} {self.letter}"

    @property
    def components(self) -> tuple[int, ...]:
        """The axes along which a length may be typed."""
        if not self.letter:
            return (0, 1, 2)
        axis = AXES[self.letter]
        return tuple(other for other in range(3) if other != axis) if self.plane else (axis,)

    def axes(self, world_from_bone: FloatArray) -> FloatArray:
        """The axes that it is about, as columns of length 1 in the world, (3, 3)."""
        return world_from_bone if self.local else np.eye(3)

    def offset(
        self,
        view: View,
        start: FloatArray,
        pixels: tuple[npt.ArrayLike, npt.ArrayLike],
        world_from_bone: FloatArray,
    ) -> FloatArray | None:
        """How far the mouse takes a point, (3,) [m]; None where it cannot tell.

        Args:
            view: Of the viewport.
            start: Where the point was, (3,).
            pixels: Where the mouse was pressed, and where it is now.
            world_from_bone: Axes of the bone, (3, 3).
        """
        if not self.letter:
            then, now = (view.at_depth_of(pixel, start) for pixel in pixels)
            return now - then
        axis = self.axes(world_from_bone)[:, AXES[self.letter]]
        if self.plane:
            seen = [view.on_plane(pixel, start, axis) for pixel in pixels]
            return None if seen[0] is None or seen[1] is None else seen[1] - seen[0]
        ways = [view.along(pixel, start, axis) for pixel in pixels]
        return None if ways[0] is None or ways[1] is None else (ways[1] - ways[0]) * axis


@dataclass(frozen=True)
class Numbers:
    """Lengths that are being typed, one for each axis that is free."""

    texts: tuple[str, ...] = ("", "", "")
    place: int = 0
    """Which of them is typed."""

    @property
    def typed(self) -> bool:
        """Whether there is anything."""
        return any(self.texts)

    def after(self, key: str, count: int) -> "Numbers | None":
        """What a key makes of it, with so many lengths; None where the key means nothing here."""
        place = min(self.place, count - 1)
        text = self.texts[place]
        if key == 'TAB':
            return replace(self, place=(place + 1) % count) if self.typed else None
        if key == 'BACK_SPACE':
            if not self.typed:
                return None
            text = text[:-1]
        elif key in TYPED:
            character = TYPED[key]
            if character == "-":  # as in Blender it changes the sign, wherever it is typed
                text = text[1:] if text.startswith("-") else f"-{text}"
            elif character != "." or "." not in text:
                text += character
        else:
            return None
        texts = tuple(text if number == place else other for number, other in enumerate(self.texts))
        return Numbers(texts, place)

    def offset(self, lock: AxisLock, world_from_bone: FloatArray) -> FloatArray:
        """How far these take a point, (3,) [m]."""
        lengths = np.zeros(3)
        lengths[list(lock.components)] = [_value(text) for text in self.texts[: len(lock.components)]]
        return lock.axes(world_from_bone) @ lengths

    def text(self, lock: AxisLock) -> str:
        """What has been typed, with a mark behind what is being typed."""
        place = min(self.place, len(lock.components) - 1)
        parts = [
            f"{'XYZ'[axis]} {text or '0'}{'|' if number == place else ''}"
            for number, (axis, text) in enumerate(zip(lock.components, self.texts, strict=False))
        ]
        return "  ".join(parts)


def _value(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # nothing, or a lone sign or point
        return 0.0


def stepped(offset: FloatArray, axes: FloatArray, step: float) -> FloatArray:
    """An offset (3,) whose parts along axes (3, 3), columns, are whole steps [m]."""
    return axes @ (step * np.round(axes.T @ offset / step))
