# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts of effectors as keys: when a bone is planted, in the action of the armature object."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.arrays import BoolArray
from ..animation.fcurves import ChannelKeys, is_locked, own_channelbag, own_curves, read_keys, write_keys
from ..properties.settings import effector_path, settings_of

CONTACTS: Final = "Contacts"
"""Name of the group of F-curves."""

PROPERTIES: Final = ("contact", "contact_toe")
"""Which say whether the points of a track are planted."""


def contact_borders(armature_object: Object) -> set[int]:
    """Return the whole frames at which contacts begin or end: keys of targets there say when they rest."""
    curves, borders = own_curves(armature_object), set[int]()
    for row in range(len(settings_of(armature_object).effectors)):
        for name in PROPERTIES:
            curve = curves.get((effector_path(row, name), 0))
            if curve is not None:
                borders |= {round(frame) for frame in read_keys(curve, "co")["co"][:, 0].tolist()}
    return borders


def key_contacts(armature_object: Object, row: int, frames: Sequence[int], on: BoolArray) -> None:
    """Key the contacts of an effector: at the first frame, and wherever they begin or end."""
    for name, planted in zip(PROPERTIES, on.T, strict=False):
        path = effector_path(row, name)
        curve = own_curves(armature_object).get((path, 0))
        if curve is not None:
            if is_locked(curve):
                raise IKError(
                    "{value} of {armature!r} is keyed in a locked F-curve: unlock it in the Graph Editor",
                    value=name.replace('_', ' '),
                    armature=armature_object.name,
                )
            own_channelbag(armature_object).fcurves.remove(curve)
        borders = [0, *(1 + np.flatnonzero(planted[1:] != planted[:-1])).tolist()]
        times = np.array([frames[border] for border in borders], dtype=np.float64)
        keys = ChannelKeys(path, 0, planted[borders].astype(np.float64), CONTACTS)
        write_keys(armature_object, times, [keys], interpolation="CONSTANT")
