# SPDX-License-Identifier: GPL-3.0-or-later
"""A standing figure of 18 joints, which other examples use: z is up, it looks along -y, its left is +x."""

import numpy as np
from poise_ik import Skeleton

CENTRE = {
    "hips": (None, (0.0, 0.0, 0.95)),
    "spine": ("hips", (0.0, 0.0, 1.07)),
    "chest": ("spine", (0.0, -0.01, 1.23)),
    "neck": ("chest", (0.0, 0.02, 1.43)),
    "head": ("neck", (0.0, 0.0, 1.53)),
}
LEFT = {
    "upper_arm": ("chest", (0.16, 0.01, 1.38)),
    "forearm": ("upper_arm", (0.42, 0.04, 1.36)),
    "hand": ("forearm", (0.67, 0.0, 1.34)),
    "thigh": ("hips", (0.1, 0.0, 0.9)),
    "shin": ("thigh", (0.11, -0.03, 0.48)),
    "foot": ("shin", (0.11, 0.02, 0.06)),
    "toe": ("foot", (0.12, -0.12, 0.01)),
}
"""Parent and place [m] of each joint; the right side is the mirror image."""


def figure(size: float = 1.0) -> Skeleton:
    """The figure with limits: hips move, knees are hinges that bend one way, the trunk is stiffer than limbs.

    Args:
        size: Of the figure, 1 for 1.7 m.
    """
    names, parents, places = [], [], []
    for name, (parent, place) in CENTRE.items():
        names.append(name)
        parents.append(parent)
        places.append(place)
    for side, sign in ((".L", 1.0), (".R", -1.0)):
        for name, (parent, (x, y, z)) in LEFT.items():
            names.append(name + side)
            parents.append(parent if parent in CENTRE else parent + side)
            places.append((sign * x, y, z))
    where = dict(zip(names, size * np.array(places), strict=True))
    offsets = [where[name] - (where[up] if up else 0.0) for name, up in zip(names, parents, strict=True)]
    free = {name: [True] * 3 for name in names} | {"hips": True}
    lower: dict[str, list[float]] = {"spine": [-0.5] * 3, "chest": [-0.5] * 3, "neck": [-0.6] * 3}
    upper: dict[str, list[float]] = {"spine": [0.5] * 3, "chest": [0.5] * 3, "neck": [0.6] * 3}
    for side in (".L", ".R"):
        free |= {"shin" + side: [True, False, False], "toe" + side: False}
        lower |= {"shin" + side: [0.0, 0.0, 0.0], "foot" + side: [-0.7] * 3, "hand" + side: [-1.2] * 3}
        upper |= {"shin" + side: [2.5, 0.0, 0.0], "foot" + side: [0.7] * 3, "hand" + side: [1.2] * 3}
    stiffness = {"hips": 0.95, "spine": 0.8, "chest": 0.8, "neck": 0.5}
    return Skeleton.build(
        names, parents, offsets=offsets, free=free, lower=lower, upper=upper, stiffness=stiffness
    )
