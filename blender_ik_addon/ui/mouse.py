# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a mouse leads in space, what is under it, and how a drag is locked; mathematics and text alone.

A view is its perspective matrix P (4, 4) and the size of its region [pixels]: a point x of the world is seen
at ½ (1 + P x / w) of the region, and is behind the eye where w <= 0.

The keys of a drag are those of Blender's own G: X, Y, Z for an axis of the world, with Shift for the plane
across it, the same key again for the bone's own, and once more for none; digits, minus, point and backspace
for a length, Tab for the next one.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.arrays import FloatArray
from ..core.messages import Message

ORTHOGRAPHIC: Final = 1e-12
"""Length of the last row of a view's projection [1/m] below which it has no perspective: it is 0 then."""
INSIDE: Final = 1e-3
"""How much farther away the end of a bone is than its middle [pixels], of bones that meet under the mouse."""
PARALLEL: Final = 0.05
"""Sine of the angle between the line of sight and an axis [1], from which a mouse says how far along it."""
SLOW: Final = 0.1
"""How much of its way the mouse counts while Shift is held [1]."""
AXES: Final = {'X': 0, 'Y': 1, 'Z': 2}

LOCKS: Final = {
    (False, False): Message("along global {axis}"),
    (False, True): Message("along local {axis}"),
    (True, False): Message("locking global {axis}"),
    (True, True): Message("locking local {axis}"),
}
"""What an `AxisLock` is in words, by its plane and whether it is local."""

_DIGITS: Final = ('ZERO', 'ONE', 'TWO', 'THREE', 'FOUR', 'FIVE', 'SIX', 'SEVEN', 'EIGHT', 'NINE')

TYPED: Final = {
    'PERIOD': ".",
    'NUMPAD_PERIOD': ".",
    'MINUS': "-",
    'NUMPAD_MINUS': "-",
    **{key: str(digit) for digit, name in enumerate(_DIGITS) for key in (name, f'NUMPAD_{digit}')},
}
"""Characters of a number by Blender's names of the keys."""


def mouse_in(region: Any, event: Any) -> FloatArray:
    """Where the mouse is in a region, (2,) [pixels]."""
    return np.array([event.mouse_x - region.x, event.mouse_y - region.y], dtype=np.float64)


def is_dragged(context: Any, event: Any) -> bool:
    """Whether the mouse has gone so far since it was pressed that this is no click."""
    way = (event.mouse_x - event.mouse_prev_press_x, event.mouse_y - event.mouse_prev_press_y)
    inputs, scale = context.preferences.inputs, context.preferences.system.ui_scale
    return max(map(abs, way)) >= inputs.drag_threshold_mouse * scale


@dataclass(frozen=True)
class View:
    """How a region shows the world."""

    perspective: FloatArray
    """P, (4, 4)."""
    size: tuple[int, int]
    """Width and height of the region [pixels]."""

    @classmethod
    def of(cls, region: Any, region_data: Any) -> "View":
        """The view of a 3D viewport."""
        return cls(np.array(region_data.perspective_matrix), (region.width, region.height))

    def pixels(self, places: FloatArray) -> FloatArray:
        """Where places (k, 3) are seen, (k, 2) [pixels]; nan behind the eye."""
        clip = np.concatenate([places, np.ones((len(places), 1))], axis=1) @ self.perspective.T
        w = np.where(clip[:, 3] > 0.0, clip[:, 3], np.nan)
        return 0.5 * (1.0 + clip[:, :2] / w[:, None]) * np.array(self.size)

    def sight(self, pixel: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """A point on the line of sight through a pixel [m], and its direction, of length 1, (3,) each."""
        x, y = 2.0 * np.array(pixel) / np.array(self.size) - 1.0
        ends = np.array([[x, y, -1.0, 1.0], [x, y, 1.0, 1.0]]) @ np.linalg.inv(self.perspective).T
        near, far = ends[:, :3] / ends[:, 3:]
        return near, (far - near) / np.linalg.norm(far - near)

    def at_depth_of(self, pixel: npt.ArrayLike, place: FloatArray) -> FloatArray:
        """The place on the line of sight through a pixel that is as deep as another place, (3,) [m]."""
        near, sight = self.sight(pixel)
        # Depth is w in perspective and z where the view is orthographic: along the normal of the view plane.
        normal = self.perspective[3, :3]
        if np.linalg.norm(normal) < ORTHOGRAPHIC:
            normal = self.perspective[2, :3]
        return near + sight * (normal @ (place - near)) / (normal @ sight)

    def on_plane(self, pixel: npt.ArrayLike, place: FloatArray, normal: FloatArray) -> FloatArray | None:
        """Where the line of sight meets a plane through a place, (3,) [m]; None where it runs along it."""
        near, sight = self.sight(pixel)
        slope = float(normal @ sight)
        return None if abs(slope) < PARALLEL else near + sight * (normal @ (place - near)) / slope

    def along(self, pixel: npt.ArrayLike, place: FloatArray, axis: FloatArray) -> float | None:
        """How far along an axis (3,) of length 1 from a place the mouse is [m]; None where it cannot tell."""
        near, sight = self.sight(pixel)
        across = np.cross(axis, sight)
        square = float(across @ across)
        return None if square < PARALLEL**2 else float(np.cross(near - place, sight) @ across / square)


def nearest_segment(
    mouse: npt.ArrayLike, starts: FloatArray, ends: FloatArray, radius: float
) -> tuple[int, float] | None:
    """The segment that is nearest to the mouse, and the part of its way [1] at which it is; None if none is.

    Starts and ends are (k, 2) [pixels], nan for what is not seen; a segment may be so far away [pixels].
    """
    if not len(starts):
        return None
    ways = ends - starts
    squares = np.einsum("kx,kx->k", ways, ways)
    parts = np.einsum("kx,kx->k", np.array(mouse) - starts, ways) / np.where(squares > 0.0, squares, 1.0)
    parts = np.clip(parts, 0.0, 1.0)
    distances = np.linalg.norm(starts + parts[:, None] * ways - np.array(mouse), axis=1)
    # Of bones that meet under the mouse the one is meant whose inside is there, not the end of its parent.
    ranked = distances + INSIDE * np.abs(parts - 0.5)
    ranked = np.where(np.isnan(ranked), np.inf, ranked)
    best = int(ranked.argmin())
    return (best, float(parts[best])) if ranked[best] <= radius else None


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
        """The lock after a key: the world's axis, then the bone's own, then none."""
        if (self.letter, self.plane) != (letter, plane):
            return AxisLock(letter, plane)
        return AxisLock() if self.local else replace(self, local=True)

    @property
    def text(self) -> str:
        """What it is, in words; empty for none."""
        return LOCKS[self.plane, self.local].filled(axis=self.letter) if self.letter else ""

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
        """How far the mouse takes a point from its start, (3,) [m]; None where it cannot tell.

        The mouse was pressed at the first of two pixels and is at the second.
        """
        if not self.letter:
            then, now = (view.at_depth_of(pixel, start) for pixel in pixels)
            return now - then
        axis = self.axes(world_from_bone)[:, AXES[self.letter]]
        if self.plane:
            then, now = (view.on_plane(pixel, start, axis) for pixel in pixels)
            return None if then is None or now is None else now - then
        before, after = (view.along(pixel, start, axis) for pixel in pixels)
        return None if before is None or after is None else (after - before) * axis


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
        """The numbers after a key, with so many lengths; None where the key means nothing here."""
        place = min(self.place, count - 1)
        text, character = self.texts[place], TYPED.get(key, "")
        if key in {'TAB', 'BACK_SPACE'} and not self.typed:
            return None
        if key == 'TAB':
            return replace(self, place=(place + 1) % count)
        if key == 'BACK_SPACE':
            text = text[:-1]
        elif character == "-":  # as in Blender it changes the sign, wherever it is typed
            text = text[1:] if text.startswith("-") else f"-{text}"
        elif not character:
            return None
        elif character != "." or "." not in text:
            text += character
        return Numbers((*self.texts[:place], text, *self.texts[place + 1 :]), place)

    def offset(self, lock: AxisLock, world_from_bone: FloatArray) -> FloatArray:
        """How far these take a point, (3,) [m]."""
        lengths = np.zeros(3)
        for axis, text in zip(lock.components, self.texts, strict=False):
            if text.strip("-."):  # else nothing, or a lone sign or point
                lengths[axis] = float(text)
        return lock.axes(world_from_bone) @ lengths

    def text(self, lock: AxisLock) -> str:
        """What has been typed, with a sign behind what is being typed."""
        place = min(self.place, len(lock.components) - 1)
        parts = [
            f"{'XYZ'[axis]} {text or '0'}{'|' if number == place else ''}"
            for number, (axis, text) in enumerate(zip(lock.components, self.texts, strict=False))
        ]
        return "  ".join(parts)


def stepped(offset: FloatArray, axes: FloatArray, step: float) -> FloatArray:
    """An offset (3,) whose parts along axes (3, 3), columns, are whole steps [m]."""
    return axes @ (step * np.round(axes.T @ offset / step))
