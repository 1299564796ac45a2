# SPDX-License-Identifier: GPL-3.0-or-later
"""How the parts of people are turned in recorded motion: made by `benchmarks/fit_preferences.py`.

    python -m benchmarks fit_preferences --data DIR --write

86 clips of 5 sources, each source with the same weight: motion capture of CMU
(mocap.cs.cmu.edu, created with funding from NSF EIA-0196217), of FAIR (Animated Drawings, MIT) and of the
clips of DeepMimic (PyBullet, zlib); animations by hand by KayKit (Kay Lousberg, CC0) and Mesh2Motion (CC0).
How forearms turn about themselves is not fitted, since most rigs leave it to the wrist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .roles import Role


@dataclass(frozen=True)
class Turns:
    """How a part is turned from the neutral pose, in axes of the bone: left, up, forward."""

    mean: tuple[float, float, float]
    """A rotation vector [deg]; on the left side."""
    deviation: tuple[float, float, float]
    """Root mean square of the turns from the mean about the three axes [deg]."""


RECORDED: Final[Mapping[Role, Turns]] = {
    Role.CHEST: Turns((11.2, 0.0, 0.0), (17.1, 11.1, 6.4)),
    Role.HEAD: Turns((-3.4, 0.0, 0.0), (16.1, 18.9, 6.9)),
    Role.SHOULDER: Turns((-1.7, -1.4, -1.6), (6.9, 9.1, 11.9)),
    Role.UPPER_ARM: Turns((-6.1, -6.2, 49.3), (30.0, 23.7, 31.2)),
    Role.LOWER_ARM: Turns((-53.0, 0.0, 0.0), (31.3, 20.0, 13.8)),
    Role.HAND: Turns((0.0, 0.0, 0.0), (7.9, 16.0, 11.7)),
    Role.UPPER_LEG: Turns((-22.5, 5.2, 7.4), (29.2, 14.7, 13.2)),
    Role.LOWER_LEG: Turns((45.3, 0.0, 0.0), (31.9, 7.1, 7.4)),
    Role.FOOT: Turns((0.0, 0.0, 0.0), (14.6, 7.8, 6.2)),
}
"""Part -> its turns: a trunk is called chest and neck and head together head; feet have their ankles'."""

EASE: Final = 0.38
"""Part of the mean turns that is left where people stand at ease [1], in 70 frames."""
