# SPDX-License-Identifier: GPL-3.0-or-later
"""How the parts of people are turned in recorded motion: made by `benchmarks/fit_preferences.py`.

    python -m benchmarks fit_preferences --data DIR --write

86 clips of 5 sources, each source with the same weight: motion capture of CMU
(mocap.cs.cmu.edu, created with funding from NSF EIA-0196217), of FAIR (Animated Drawings, MIT) and of the
clips of DeepMimic (PyBullet, zlib); animations by hand by KayKit (Kay Lousberg, CC0) and Mesh2Motion (CC0).
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
    Role.CHEST: Turns((11.2, 0.0, 0.0), (16.7, 11.3, 7.0)),
    Role.HEAD: Turns((-3.3, 0.0, 0.0), (16.2, 19.5, 7.6)),
    Role.SHOULDER: Turns((-1.7, -1.2, -1.7), (7.9, 9.1, 13.2)),
    Role.UPPER_ARM: Turns((-6.1, -6.2, 49.3), (29.8, 24.0, 31.4)),
    Role.LOWER_ARM: Turns((-53.0, 0.0, 0.0), (31.1, 22.0, 20.8)),
    Role.HAND: Turns((0.0, 0.0, 0.0), (9.7, 16.4, 12.6)),
    Role.UPPER_LEG: Turns((-22.2, 5.2, 7.4), (28.7, 15.8, 13.9)),
    Role.LOWER_LEG: Turns((45.1, 0.0, 0.0), (31.8, 14.8, 13.2)),
    Role.FOOT: Turns((0.0, 0.0, 0.0), (14.8, 8.2, 6.5)),
}
"""Part -> its turns: a trunk is called chest and neck and head together head; feet have their ankles'."""
