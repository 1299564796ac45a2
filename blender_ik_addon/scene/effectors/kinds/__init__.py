# SPDX-License-Identifier: GPL-3.0-or-later
"""What each kind of effector asks for: its goal in the world, its task in armature space, its error.

A goal is where the target leads in world space, over some frames. Where the influence s is below 1 it lies on
the way there from where the bone is in the pose that was read: places and lengths by lerp, orientations and
directions by slerp. Errors are measured against the same goals in the matrices that Blender shows.
"""

from types import MappingProxyType
from typing import Final

from .balance import OverSupport
from .base import Kind
from .choices import Choice
from .directions import Aim, Pole
from .distances import Distance, Floor, Plane
from .places import Place
from .staying import Stay, masks_of, own_bones

__all__ = ["CHOICES", "KINDS", "Kind", "OverSupport", "masks_of", "own_bones"]

CHOICES: Final = Choice({'POSITION': Place(), 'ORIENTATION': Place(), 'AIM': Aim(), 'PLANE': Plane()})
"""The kind of those that have several targets."""

# Its type is not written out: `typing` would keep these classes, and through them Blender's, until Blender
# has gone, on which the bpy module of 4.5 hangs.
KINDS: Final = MappingProxyType(
    {
        'POSITION': Place(),
        'ORIENTATION': Place(),
        'BOTH': Place(),
        'AIM': Aim(),
        'POLE': Pole(),
        'PLANE': Plane(),
        'FLOOR': Floor(),
        'DISTANCE': Distance(),
        'BALANCE': OverSupport(),
        'STAY': Stay(),
        'ONE_OF': CHOICES,
    }
)
