# SPDX-License-Identifier: GPL-3.0-or-later
"""What Targets from Animation, Solve, Live, Bake and a correction leave of recorded clips: scripts/recorded.

What is done is told on the page, `pages/recorded.md`. Exits with 1 if an unedited clip is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import bpy
import numpy as np

import blender_ik_addon
from benchmarks.page import arguments, measured, publish
from benchmarks.rigs import FloatArray, armatures_of, listed_files
from benchmarks.timing import timed
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing

FRAMES: Final = 24  # Most frames of a clip: the first ones
SHOWN: Final = 3  # Frames that are solved and shown live
HEIGHT: Final = 1.7
"""Lengths are told as if the largest extent of the armature were this [m]: few files say their unit."""

LENGTH, ANGLE = 1e-5, float(np.radians(0.01))  # Most that may change [m], [rad]
SHORTEST: Final = 12  # Frames that a clip must have to be corrected
MOVED: Final = 0.08  # How far a target is moved for a correction [m], on a figure of `HEIGHT`
EASE: Final = 0.25  # Ease in and out, by the frames of the clip [1]


def clips(data: Path, only: str, every: bool = False) -> Iterator[tuple[str, Any]]:
    """The first action of each file, or every one, with the armature that it is assigned to."""
    for file in listed_files(data):
        if only not in file:
            continue
        try:
            armatures = armatures_of(data / file)
        except (RuntimeError, OSError):
            continue
        if not armatures or armatures[0].animation_data is None:
            continue
        rig: Any = armatures[0]
        animation = rig.animation_data
        for action in sorted(bpy.data.actions, key=lambda action: action.name)[: None if every else 1]:
            animation.use_nla = False
            animation.action = action
            if animation.action_slot is None and len(animation.action_suitable_slots):
                animation.action_slot = animation.action_suitable_slots[0]
            if animation.action_slot is not None:
                yield f"{Path(file).stem}: {action.name}", rig


def shown(rig: Any, frames: range) -> FloatArray:
    """World matrices of all bones, (F, n, 4, 4)."""
    found: list[list[FloatArray]] = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(posed(rig))
    return np.array(found)


def posed(rig: Any) -> list[FloatArray]:
    """World matrices of all bones as they are now."""
    return [np.array(rig.matrix_world @ bone.matrix, dtype=np.float64) for bone in rig.pose.bones]


def change(first: Any, second: Any, metres: float) -> FloatArray:
    """Largest difference of matrices (..., 4, 4): of places [m] and of axes [rad], (2,)."""
    away = np.array(second) - np.array(first)
    scale = np.linalg.norm(np.array(first)[..., :3, :3], axis=-2, keepdims=True).clip(1e-9)
    turn = np.linalg.norm(away[..., :3, :3] / scale, axis=(-2, -1)) / np.sqrt(2.0)
    return np.array([metres * np.linalg.norm(away[..., :3, 3], axis=-1).max(), turn.max()])


def kept(name: str, rig: Any) -> Iterator[SimpleNamespace]:
    """What is left of a clip; nothing where it is no motion of a body."""
    try:
        clip = posing.clip_range(rig)[:FRAMES]
    except IKError:
        return
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = clip[0], clip[-1]
    before = shown(rig, clip)
    extent = float(np.ptp(before[0, :, :3, 3], axis=0).max())
    metres = HEIGHT / max(extent, 1e-9)
    row = SimpleNamespace(clip=name, frames=len(clip), problem="", corrections=[])
    try:
        report, row.seconds = timed(posing.targets_from_animation, rig, frames=clip)
        row.targets = len(report.effectors)
        row.played = change(before, shown(rig, clip), metres)
        row.solved = row.live = np.zeros(2)
        for number in np.unique(np.linspace(0, len(clip) - 1, SHOWN).astype(int)).tolist():
            scene.frame_set(clip[number])
            posing.solve_pose(rig)
            bpy.context.view_layer.update()
            row.solved = np.maximum(row.solved, change(before[number], posed(rig), metres))
            scene.frame_set(clip[number])
            posing.switch_live(rig, True)
            bpy.context.view_layer.update()
            row.live = np.maximum(row.live, change(before[number], posed(rig), metres))
            posing.switch_live(rig, False)
        row.baked = np.zeros(2)
        if len(clip) > 1:
            posing.bake(rig, clip)
            row.baked = change(before, shown(rig, clip), metres)
        if len(clip) >= SHORTEST:
            row.corrections.append(corrected(rig, clip, before, metres))
    except IKError as error:
        if "nothing" in str(error) or "no hands" in str(error) or "no part" in str(error):
            return
        row.problem = str(error)
    worst = [getattr(row, step, np.zeros(2)) for step in ("played", "solved", "live", "baked")]
    row.length, row.angle = np.max(worst, axis=0).tolist()
    worst += [own.outside for own in row.corrections]
    row.told = " | ".join(f"{1e3 * length:.5f} mm, {np.degrees(angle):.5f}°" for length, angle in worst)
    row.told += " | –" * (not row.corrections)
    row.good = not row.problem and row.length <= LENGTH and row.angle <= ANGLE
    yield row


def corrected(rig: Any, clip: range, before: FloatArray, metres: float) -> SimpleNamespace:
    """Move a hand, or what there is, up in the middle of a clip, and bake: what changes where."""
    entries, scene = rig.poise.effectors, bpy.context.scene
    able = [own for own in entries if own.state == 'REACH' and own.kind in {'POSITION', 'BOTH'}]
    entry = next((own for own in able if own.part.startswith("hand")), able[-1])
    middle, ease = clip[len(clip) // 2], EASE * len(clip)
    scene.frame_set(middle)
    target = entry.target
    place = target.matrix_world.copy()
    place.translation.z += MOVED / metres
    target.matrix_world = place
    posing.correct(rig, [list(entries).index(entry)], ease_in=ease, ease_out=ease)
    report = posing.bake(rig, clip)
    after = shown(rig, clip)
    inside = np.abs(np.array(clip) - middle) < ease
    missed = float(np.nanmax(report.position_errors[:, report.names.index(entry.name)]))
    others = [
        rig.pose.bones.find(own.bone)
        for own in able
        if own != entry and own.part.split(".")[0] in {"hand", "foot", "front foot"} and own.kind == 'BOTH'
    ]
    outside = change(before[~inside], after[~inside], metres)
    aside = change(before[:, others], after[:, others], metres) if others else np.zeros(2)
    found = SimpleNamespace(
        outside=outside,
        outside_length=outside[0],
        outside_angle=outside[1],
        others_length=aside[0],
        missed=missed * metres,
    )
    posing.remove_corrections(rig)
    return found


def main() -> int:
    """Run from the command line."""
    options = arguments(
        "scripts/recorded",
        __doc__,
        data=(..., "folder with an index.json that lists files"),
        only=("", "only files with this in their names"),
        every=(False, "every action of each file, not only the first"),
    ).parse_args()
    blender_ik_addon.register()
    try:
        rows = measured(
            (
                row
                for name, rig in clips(options.data, options.only, options.every)
                for row in kept(name, rig)
            ),
            "{row.clip}: {row.length:mm .5f} mm, {row.angle:deg .5f}° {row.problem}",
        )
    finally:
        blender_ik_addon.unregister()
    publish(
        options,
        "recorded",
        globals(),
        rows=[row for row in rows if not row.problem],
        corrections=[own for row in rows for own in row.corrections],
        problems=[row for row in rows if row.problem],
        good=sum(row.good for row in rows),
    )
    return 0 if rows and all(row.good for row in rows) else 1
