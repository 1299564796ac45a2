# SPDX-License-Identifier: GPL-3.0-or-later
"""Set Up Character on many rigs, and what follows when hands are moved: scripts/setup.

What is done is told on the page, `pages/setup.md`. Exits with 1 if a rig is not set up as wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from types import SimpleNamespace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

import blender_ik_addon
from benchmarks.page import arguments, measured, publish, said_of
from benchmarks.rigs import EVERY_RIG, FloatArray, ends, every_rig
from benchmarks.timing import timed
from blender_ik_addon.core import IKError
from blender_ik_addon.core.character.roles import Role
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.role_table import read_character
from blender_ik_addon.scene.rig.reports import Report

WANTED, SMALL = 1.0, 200  # Longest processor time [s] for a rig of so many bones or fewer
MOVED: Final = 0.05  # How far hands are moved [m], on a figure of `HEIGHT`
HEIGHT: Final = 1.75  # [m]
REACHING: Final = ("hand", "front foot", "wing", "head", "tail", "fin", "foot")
"""Parts that are moved: the first of these that there is."""

TRUNKS: Final = ("head", "tail", "fin")  # Of these, those that go aside rather than towards the body
SHORT: Final = 0.25  # Largest way of such a one, by the length of its chain [1]: it may be one short bone
WITHIN: Final = 0.98  # How far from the root of its limb a target may be, by the length of the limb [1]
COLLAPSED: Final = 0.01  # Length of a limb, by that at rest [1], below which its bones are all in one place


class Row(SimpleNamespace):
    """One rig, as far as it was set up."""

    rig: str
    bones = targets = limits = held = 0
    seen = levels = moved = reached = problem = ""
    """Kinds of its figures, targets of each priority, what was moved, what was reached, what went wrong."""
    seconds = copies = stirred = 0.0
    """Processor time [s], the same in times that Blender's own copy of the rig takes [1], and how far a solve
    right after the set-up moves any bone, in sizes of the figure [1]."""
    at_rest = False
    """Whether the pose was cleared, because the file's own puts the bones of a limb in one place."""
    misses: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def good(self) -> bool:
        """Whether all is as wanted; a rig in which nobody sees a body has nothing to be set up."""
        slow = self.bones <= SMALL and self.seconds >= WANTED
        controlled = self.rig.startswith("generated")
        return not (self.problem or (self.misses and not controlled) or slow)


def copied(armature_object: Object) -> Any:
    """A copy of a rig, shown by Blender."""
    copy: Any = armature_object.copy()
    data: Any = armature_object.data
    copy.data = data.copy()
    bpy.context.scene.collection.objects.link(copy)
    bpy.context.view_layer.update()
    return copy


def copy_time(armature_object: Object) -> float:
    """Processor time that Blender takes to copy the rig and show the copy [s], the fastest of five."""
    times: list[float] = []
    for _ in range(5):
        copy, seconds = timed(copied, armature_object)
        times.append(seconds)
        bpy.data.armatures.remove(copy.data)
    return min(times)


def set_up(rig: str, armature_object: Object | str | None) -> Row:
    """Set a rig up, solve, move hands, solve; or say why it cannot be read."""
    if not isinstance(armature_object, Object):
        return Row(rig=rig, problem=str(armature_object))
    bones: Any = armature_object.pose.bones
    row = Row(rig=rig, bones=len(bones), at_rest=straightened(armature_object))
    bpy.context.view_layer.update()
    copying = copy_time(armature_object)
    try:
        report, row.seconds = timed(posing.setup_character, armature_object)
        row.copies = row.seconds / copying
        settings: Any = armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]
        priorities = [entry.priority for entry in settings.effectors]
        row.seen, row.targets = ", ".join(report.bodies) or "none", len(priorities)
        row.levels = " ".join(f"{level}: {priorities.count(level)}" for level in sorted(set(priorities)))
        row.limits, row.held = len(report.limits_read) + len(report.limits_assumed), len(report.held)
        row.notes = list(report.notes)
        if not priorities:
            return row
        before = ends(armature_object)
        first = posing.solve_pose(armature_object)
        moved = float(np.abs(ends(armature_object) - before).max())
        row.stirred = moved / (max(armature_object.dimensions[:]) or 1.0)
        row.moved = move_hands(armature_object) + ", from rest" * row.at_rest
        then = posing.solve_pose(armature_object)
    except IKError as error:
        row.problem = str(error)
        return row
    row.reached = f"{sum(effector.reached for effector in then.effectors)} of {len(then.effectors)}"
    row.misses = [*misses(first, "at once"), *misses(then, "moved")]
    return row


def misses(report: Report, when: str) -> list[str]:
    """What was not reached, and why."""
    return [
        f"{when}: {effector.name} by {1e3 * (effector.position or 0.0):.1f} mm, "
        f"{np.degrees(effector.rotation or 0.0):.2f}° ({effector.why})"
        for effector in report.effectors
        if not effector.reached
    ]


def straightened(armature_object: Object) -> bool:
    """Clear a pose in which a limb's bones are all in one place, so that nothing could be reached with it.

    BVH files may give each joint a place as well as a rotation; where these are 0 the figure is a heap.
    """
    rows = limbs_of(armature_object)
    data: Any = armature_object.data
    posed = {bone.name: np.array(bone.matrix)[:3, 3] for bone in armature_object.pose.bones}
    for bones in rows.values():
        rest = np.array([data.bones[name].head_local for name in bones])
        now = np.array([posed[name] for name in bones])
        lengths = [float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum()) for places in (rest, now)]
        if lengths[1] < COLLAPSED * lengths[0]:
            if armature_object.animation_data is not None:
                armature_object.animation_data.action = None
            for bone in armature_object.pose.bones:
                bone.matrix_basis.identity()
            bpy.context.view_layer.update()
            return True
    return False


def limbs_of(armature_object: Object) -> dict[str, list[str]]:
    """Names of the bones of the limb of each bone that ends one, from its root, collarbones left out."""
    try:
        skeleton = read_armature(armature_object).skeleton
    except IKError:
        return {}  # the set-up says why
    character, _ = read_character(armature_object, skeleton)
    found: dict[str, list[str]] = {}
    for limb in character.limbs:
        pairs = zip(limb.joints, limb.roles, strict=True)
        own = [skeleton.names[joint] for joint, role in pairs if role is not Role.SHOULDER]
        for number, name in enumerate(own):
            found.setdefault(name, own[: number + 1])
    return found


def move_hands(armature_object: Object) -> str:
    """Move the targets of hands, or of what stands for them, towards the middle of the body; which.

    They go no farther than where their limb reaches while its root stands still: what is out of reach says
    nothing of a set-up.
    """
    limbs = limbs_of(armature_object)
    settings: Any = armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]
    parts = [entry.part for entry in settings.effectors]
    what = next(word for word in (*REACHING, "") if any(part.startswith(word) for part in parts))
    places = ends(armature_object)
    middle, size = places.mean(axis=(0, 1)), float(np.ptp(places, axis=(0, 1)).max())
    starts = dict(zip([bone.name for bone in armature_object.pose.bones], places[:, 0], strict=True))
    for entry in [entry for entry in settings.effectors if entry.part.startswith(what)]:
        world = np.array(entry.target.matrix_world.translation)
        way = unit(middle - world)
        if what in TRUNKS:  # a straight spine is not to be pushed together
            way = 0.5 * way + 0.8 * unit(np.cross(way, np.eye(3)[np.abs(way).argmin()]))
        step = way * MOVED * size / HEIGHT
        joints = [starts[name] for name in limbs.get(entry.bone, [])]
        if joints:
            spans = np.linalg.norm(np.diff([*joints, world], axis=0), axis=1)
            length = float(spans.sum())
            if what in TRUNKS:
                step *= min(1.0, SHORT * length / max(float(np.linalg.norm(step)), 1e-9))
            away = world + step - joints[0]
            far = float(np.linalg.norm(away))
            if np.count_nonzero(spans > COLLAPSED * length) == 1:  # one bone: the target turns about it
                step = joints[0] + unit(away) * length - world
            elif far > WITHIN * length > 0.0:
                step = joints[0] + unit(away) * WITHIN * length - world
        matrix = entry.target.matrix_world.copy()
        matrix.translation = (world + step).tolist()
        entry.target.matrix_world = matrix
    bpy.context.view_layer.update()
    return what


def unit(vector: Any) -> FloatArray:
    """A vector (3,) as long as 1, or nearly none."""
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def main() -> int:
    """Run from the command line."""
    options = arguments("scripts/setup", __doc__, **EVERY_RIG).parse_args()
    blender_ik_addon.register()
    try:
        rigs = every_rig(options.data, options.only)
        rows = measured(starmap(set_up, rigs), "{row.rig}: {row.reached}{row.problem}")
    finally:
        blender_ik_addon.unregister()
    publish(
        options,
        "setup",
        globals(),
        rows=rows,
        small=[row for row in rows if row.bones <= SMALL],
        empty=sum(row.targets == 0 for row in rows),
        details=[f"{row.rig}: {text}" for row in rows for text in (*row.misses, row.problem) if text],
        notes=said_of([(row.rig, row.notes) for row in rows]),
    )
    return 0 if rows and all(row.good for row in rows) else 1
