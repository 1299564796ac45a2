# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake costs and how exact it is, against Blender's IK constraints with nla.bake: scripts/bench-bake.

Which character and which motion is told on the page, `pages/bake.md`.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np
from mathutils import Vector

from benchmarks.page import arguments, measured, publish
from benchmarks.rigs import FloatArray, add_on, empty_file
from benchmarks.timing import timed
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.rig.rig import Rig

PAGE: Final = Path("docs/measured/bake.md")
FRAMES: Final = 250
VERTICES: Final = 120_000
LENGTHS: Final = (0.5, 1.0, 2.0, 4.0)
"""Lengths of the bakes of which growth is shown, by that of the others."""
SPACING: Final = 5  # Frames from key to key of a target
PERIOD: Final = 60  # Frames of one swing
SWINGS: Final[dict[str, Callable[[float], tuple[float, float, float]]]] = {
    "hips": lambda s: (0.03 * np.sin(s), 0.03 * np.cos(s / 2), -0.06 + 0.03 * np.sin(s / 3)),
    "foot.L": lambda s: (0.0, 0.02 * np.sin(s), 0.02 + 0.02 * np.sin(s + 1)),
    "foot.R": lambda s: (0.0, 0.02 * np.sin(s), 0.02 + 0.02 * np.sin(s + 4)),
    "hand.L": lambda s: (-0.06, -0.12 + 0.06 * np.sin(s / 2), 0.08 * np.sin(s)),
    "hand.R": lambda s: (0.06, -0.12 + 0.06 * np.sin(s / 2), 0.08 * np.sin(s + 2)),
    "chest": lambda s: (0.06, -0.12 + 0.06 * np.sin(s / 2), 0.08 * np.sin(s + 2)),
}
"""How far targets are from where they were set up, by 2π of a swing [m]."""
ENDS: Final = {name: name for name in ("hand.L", "hand.R", "foot.L", "foot.R")} | {"spine.006": "head"}
"""Bones with an IK constraint -> their targets."""
CHAIN: Final = 3  # Bones of an IK constraint
NEAR: Final = 3  # Bones that move a vertex


@dataclass
class Row:
    """One bake."""

    solver: str
    vertices: int
    frames: int
    time: float  # Of one frame [s]
    distances: FloatArray  # Of what both are asked for, (F, E) [m]
    angles: FloatArray  # (F, E) [rad]
    memory: float = np.nan  # Largest so far of the process [bytes]
    ratio: float = np.nan  # Of its time to that of Blender's


def character(frames: int, vertices: int) -> Any:
    """Rigify's human, set up, with targets that move, and a mesh that it moves."""
    empty_file()
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, frames
    bpy.ops.object.armature_human_metarig_add()
    figure: Any = bpy.context.object
    posing.setup_character(figure)
    bpy.context.view_layer.update()
    for entry in figure.poise.effectors:
        if (swing := SWINGS.get(entry.name)) is None:
            continue
        place = entry.target.location.copy()
        for frame in range(1, frames + 1, SPACING):
            entry.target.location = place + Vector(swing(2.0 * np.pi * frame / PERIOD))
            entry.target.keyframe_insert("location", frame=frame)
    if vertices:
        skin(figure, vertices)
    return figure


def skin(figure: Any, vertices: int) -> None:
    """Let a figure move a sheet of so many vertices, each by the bones nearest to it."""
    side = int(np.ceil(np.sqrt(vertices)))
    x, z = np.meshgrid(np.linspace(-0.6, 0.6, side), np.linspace(0.0, 1.8, side))
    places = np.stack([x.ravel(), np.zeros(side * side), z.ravel()], axis=1)
    number = np.arange(side * side).reshape(side, side)
    faces = np.stack([number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]], axis=-1)
    mesh: Any = bpy.data.meshes.new("skin")
    mesh.from_pydata(places.tolist(), [], faces.reshape(-1, 4).tolist())
    thing: Any = bpy.data.objects.new("skin", mesh)
    bpy.context.scene.collection.objects.link(thing)
    bones = [bone for bone in figure.data.bones if bone.use_deform]
    heads = np.array([bone.head_local for bone in bones])
    near = np.stack([((heads - place) ** 2).sum(axis=1).argsort()[:NEAR] for place in places])
    for bone, group in enumerate(thing.vertex_groups.new(name=bone.name) for bone in bones):
        for rank in range(NEAR):
            if len(own := np.flatnonzero(near[:, rank] == bone)):
                group.add(own.tolist(), 1.0 / (rank + 1), 'REPLACE')
    thing.modifiers.new("skin", 'ARMATURE').object = figure


def misses(figure: Any, frames: int) -> tuple[FloatArray, FloatArray]:
    """How far bones are from targets that both solvers know, in all frames as they play, (F, E) each."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    rig = Rig.read(figure, depsgraph)
    both = [row for row, e in enumerate(rig.effectors) if e.name in (*ENDS.values(), "hips")]
    found: list[Any] = []
    for frame in range(1, frames + 1):
        bpy.context.scene.frame_set(frame)
        found.append(rig.measure(figure, depsgraph, rig.read_frame(figure, depsgraph)))
    return np.array([own.distances[both] for own in found]), np.array([own.angles[both] for own in found])


def bake_constraints(figure: Any, frames: int) -> None:
    """Bake Blender's constraints with its own operator, all bones, and take them away."""
    bpy.ops.nla.bake(
        frame_start=1,
        frame_end=frames,
        only_selected=False,
        visual_keying=True,
        clear_constraints=True,
        use_current_action=False,
        bake_types={'POSE'},
    )


def constrain(figure: Any) -> None:
    """Give a figure in its rest pose IK constraints on hands, feet and head, and hips that are copied."""
    figure.animation_data_clear()
    for bone in figure.pose.bones:
        bone.matrix_basis.identity()
    targets = {entry.name: entry.target for entry in figure.poise.effectors}
    for name, target in ENDS.items():
        own = figure.pose.bones[name].constraints.new('IK')
        own.target, own.chain_count, own.use_tail = targets[target], CHAIN, False
    figure.pose.bones["spine"].constraints.new('COPY_TRANSFORMS').target = targets["hips"]
    bpy.ops.object.mode_set(mode='POSE')


def compared(frames: int, counts: Sequence[int]) -> Iterator[Row]:
    """Both bakes in one file, for each number of vertices."""
    for vertices in counts:
        figure = character(frames, vertices)
        _, seconds = timed(posing.bake, figure)
        ours = Row("Poise", vertices, frames, seconds / frames, *misses(figure, frames))
        constrain(figure)
        _, seconds = timed(bake_constraints, figure, frames)
        theirs = Row("IK and nla.bake", vertices, frames, seconds / frames, *misses(figure, frames))
        ours.ratio = ours.time / theirs.time
        yield ours
        yield theirs


def growing(lengths: Sequence[int]) -> Iterator[Row]:
    """Bakes of several lengths, the shortest first."""
    for frames in lengths:
        _, seconds = timed(posing.bake, character(frames, 0))
        most = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield Row("Poise", 0, frames, seconds / frames, np.empty(0), np.empty(0), most)


def main() -> int:
    """Measure and write."""
    options = arguments(
        "scripts/bench-bake",
        __doc__,
        PAGE,
        frames=(FRAMES, "of a bake"),
        vertices=(VERTICES, "of the mesh that the character moves"),
    ).parse_args()
    with add_on():
        told = "{row.solver}, {row.vertices} vertices, {row.frames} frames: {row.time:ms .1f} ms a frame"
        grown = measured(growing([int(part * options.frames) for part in LENGTHS]), told)
        rows = measured(compared(options.frames, (0, options.vertices)), told)
    ours = [row for row in rows if row.solver == "Poise"]
    publish(options, "bake", globals(), rows=rows, ours=ours, grown=grown, last=grown[-1], first=grown[0])
    return 0
