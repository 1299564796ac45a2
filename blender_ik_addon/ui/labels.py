# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of labels so that none overlaps another; mathematics alone.

Labels are placed one after the other, the important ones first. Each is kept between the left and the right
border and to the left of what is covered, and goes to the free height that is nearest to where it would like
to be.
"""

from collections.abc import Sequence

import numpy as np

from ..core.arrays import FloatArray

Box = tuple[float, float, float, float]
"""Left, bottom, width, height [pixels]."""


def arrange(
    corners: FloatArray, sizes: FloatArray, borders: tuple[float, float], covered: Sequence[Box] = ()
) -> FloatArray:
    """Return the lower left corners of labels, (k, 2) [pixels].

    Args:
        corners: Where the lower left corners would best be, (k, 2) [pixels].
        sizes: Widths and heights, (k, 2) [pixels].
        borders: Where labels may begin and must end, from left to right [pixels].
        covered: Boxes in which nothing could be read, at the right.
    """
    left, right = borders
    boxes = np.array(covered, dtype=np.float64).reshape(-1, 4)
    taken, sizes_taken = boxes[:, :2], boxes[:, 2:]
    placed = np.array(corners, dtype=np.float64)
    for label, size in enumerate(sizes):
        low = placed[label, 1]
        beside = (low < boxes[:, 1] + boxes[:, 3]) & (boxes[:, 1] < low + size[1])
        end = min(right, *boxes[beside, 0]) if beside.any() else right
        # One that is wider than the space there is begins at its left.
        placed[label, 0] = max(min(placed[label, 0], end - size[0]), left)
        placed[label, 1] = _free_height(placed[label], size, taken, sizes_taken)
        taken, sizes_taken = np.vstack([taken, placed[label]]), np.vstack([sizes_taken, size])
    return placed


def _free_height(corner: FloatArray, size: FloatArray, others: FloatArray, sizes: FloatArray) -> float:
    """The height nearest to that of a corner (2,) at which a label lies on none of the others."""
    beside = (corner[0] < others[:, 0] + sizes[:, 0]) & (others[:, 0] < corner[0] + size[0])
    low = others[beside, 1]
    high = low + sizes[beside, 1]
    # Free heights begin and end where another label ends or begins.
    heights = np.concatenate([[corner[1]], low - size[1], high])
    overlaps = (heights[:, None] < high) & (low < heights[:, None] + size[1])
    free = heights[~overlaps.any(axis=1)]  # below all others, at least
    return float(free[np.abs(free - corner[1]).argmin()])
