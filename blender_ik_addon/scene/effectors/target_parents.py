# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that go where the armature object goes, as its children: moving it moves the whole character.

They are parented to the object and to no bone, so they do not depend on the pose that follows them. Their
channels go on meaning places in the world as long as the object stays where it was when they were attached.
"""

from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..animation.dependence import place_depends_on
from ..armature.armature import check_armature
from ..properties.settings import settings_of
from ..reports import counted, sentences
from .effectors import all_targets, what_of
from .transforms import is_moved, rides, world_matrix

WORLDLY: Final = frozenset({'PLANE', 'FLOOR', 'BALANCE', 'DISTANCE'})
"""Kinds whose targets are rather part of the surroundings: the ground, an object to keep away from."""


@dataclass(frozen=True)
class AttachReport:
    """Report of attaching targets to their armature object."""

    attached: tuple[str, ...]
    """Names of the targets."""
    notes: tuple[str, ...]
    """Which others stay as they are, and why."""

    def summary(self) -> str:
        """Return how many targets were attached, for the status bar."""
        count = len(self.attached)
        done = f"{counted(count, 'target')} attached" if count else "nothing was attached"
        return sentences(done, *self.notes)


def attach(target: Any, armature_object: Object) -> None:
    """Parent a target that has no parent to the armature object; it stays where it is in the world."""
    inverse = np.linalg.inv(world_matrix(armature_object))
    target.parent = armature_object
    target.matrix_parent_inverse = inverse.T.tolist()


def goes_along(armature_object: Object) -> bool:
    """Whether targets of an armature object go where it goes, as Set-up makes them."""
    entries = settings_of(armature_object).effectors
    return any(rides(target, armature_object) for entry in entries for target in all_targets(entry))


def staying_behind(armature_object: Object) -> tuple[Object, ...]:
    """Return the empties that stay where they are when the armature object is moved, each once.

    What has a parent, or is no empty, is taken to be where somebody wants it; so are targets of the kinds
    that are about the surroundings.
    """
    entries = settings_of(armature_object).effectors
    targets = (target for entry in entries if what_of(entry) not in WORLDLY for target in all_targets(entry))
    return tuple(dict.fromkeys(t for t in targets if t.type == 'EMPTY' and t.parent is None))


def attach_targets(armature_object: Object) -> AttachReport:
    """Parent free targets to the armature object; they stay where they are now.

    Raises:
        IKError: The armature object cannot be posed.
    """
    check_armature(armature_object)
    bpy.context.view_layer.update()
    of_others = {
        target
        for other in bpy.data.objects
        if other.type == 'ARMATURE' and other != armature_object
        for entry in settings_of(other).effectors
        for target in all_targets(entry)
    }
    attached: list[str] = []
    notes: list[str] = []
    for target in staying_behind(armature_object):
        why = ""
        if not target.is_editable:
            why = "it is linked from another file"
        elif target in of_others:
            why = "another armature follows it, too"
        elif target.constraints:
            why = "it has constraints"
        elif is_moved(target) and is_moved(armature_object):
            why = "both it and the armature are animated, so its keys would mean other places"
        elif place_depends_on(armature_object, target):
            why = "the armature goes where it goes"
        if why:
            notes.append(f"{target.name!r} stays as it is: {why}")
        else:
            attach(target, armature_object)
            attached.append(target.name)
    return AttachReport(tuple(attached), tuple(notes))
