# SPDX-License-Identifier: GPL-3.0-or-later
"""What is under the mouse, and where a mouse leads in space; mathematics alone, so it needs no window.

A view is its perspective matrix P (4, 4) and the size of its region [pixels]: a point x of the world is seen
at ½ (1 + P x / w) of the region, and is behind the eye where w <= 0.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.arrays import FloatArray

ORTHOGRAPHIC: Final = 1e-12
"""Length of the last row of a view's projection [1/m] below which it has no perspective: it is 0 then."""

INSIDE: Final = 1e-3
"""How much farther away the end of a bone is than its middle [pixels], of bones that meet under the mouse."""

PARALLEL: Final = 0.05
"""Sine of the angle between the line of sight and an axis [1], from which a mouse says how far along it."""


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

    def ray(self, pixel: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Two points on the line of sight through a pixel, (3,) each [m]."""
        x, y = 2.0 * np.array(pixel) / np.array(self.size) - 1.0
        ends = np.array([[x, y, -1.0, 1.0], [x, y, 1.0, 1.0]]) @ np.linalg.inv(self.perspective).T
        near, far = ends[:, :3] / ends[:, 3:]
        return near, far

    def at_depth_of(self, pixel: npt.ArrayLike, place: FloatArray) -> FloatArray:
        """The place on the line of sight through a pixel that is as deep as another place, (3,) [m]."""
        near, far = self.ray(pixel)
        # Depth is w in perspective and z where the view is orthographic: along the normal of the view plane.
        normal = self.perspective[3, :3]
        if np.linalg.norm(normal) < ORTHOGRAPHIC:
            normal = self.perspective[2, :3]
        return near + (far - near) * (normal @ (place - near)) / (normal @ (far - near))

    def on_plane(self, pixel: npt.ArrayLike, place: FloatArray, normal: FloatArray) -> FloatArray | None:
        """Where the line of sight meets a plane through a place, (3,) [m]; None where it runs along it.

        Args:
            pixel: (2,).
            place: (3,) [m].
            normal: Of the plane, of length 1, (3,).
        """
        near, far = self.ray(pixel)
        sight = (far - near) / np.linalg.norm(far - near)
        slope = float(normal @ sight)
        if abs(slope) < PARALLEL:
            return None
        return near + sight * (normal @ (place - near)) / slope

    def along(self, pixel: npt.ArrayLike, place: FloatArray, axis: FloatArray) -> float | None:
        """How far along an axis (3,) of length 1 from a place the mouse is [m]; None where it cannot tell."""
        near, far = self.ray(pixel)
        sight = (far - near) / np.linalg.norm(far - near)
        across = np.cross(axis, sight)
        square = float(across @ across)
        if square < PARALLEL**2:
            return None
        return float(np.cross(near - place, sight) @ across / square)


def nearest_segment(
    mouse: npt.ArrayLike, starts: FloatArray, ends: FloatArray, radius: float
) -> tuple[int, float] | None:
    """The segment that is nearest to the mouse, and the part of its way [1] at which it is; None if none is.

    Args:
        mouse: (2,) [pixels].
        starts: (k, 2) [pixels]; nan for what is not seen.
        ends: Likewise.
        radius: How far away a segment may be [pixels].
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
