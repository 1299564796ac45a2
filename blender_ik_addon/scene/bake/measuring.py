# SPDX-License-Identifier: GPL-3.0-or-later
"""How far effectors are from their targets in frames as they play: nothing is solved or keyed."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace

import bpy
import numpy as np
from bpy.types import Object

from ...core import Status
from ...core.arrays import FloatArray, frozen
from ...core.messages import Message
from ..armature.restoring import go_to_frame, played_restored
from ..live.following import held
from ..reports import listed
from ..rig.reports import BakeReport, Measured, measured_status
from ..rig.rig import RawFrame, Rig
from ..rig.states import held_for_bake
from .frames import frames_of
from .job import AT_ONCE
from .meshes import MeshesLeftOut


def measure(
    armature_object: Object,
    frames: Iterable[int] | str | None = None,
    *,
    progress: Callable[[float], None] | None = None,
) -> BakeReport:
    """Play frames and measure how far each effector is from its target, as Blender shows them.

    Where the influence of an effector is below 1, its goal depends on the pose that was there before the
    solve, which nobody knows any more: it is not measured there, and a note says so.

    Args:
        frames: Increasing whole frames, or a range as of a bake; by default that in the settings.
        progress: Called with the part done in [0, 1]; what it raises stops the work.

    Returns:
        The report of a bake that has written nothing: its action is empty.

    Raises:
        IKError: Something is missing or cannot be read.
    """
    scene, view_layer = bpy.context.scene, bpy.context.view_layer
    depsgraph = bpy.context.evaluated_depsgraph_get()
    rig = Rig.read(armature_object, depsgraph)
    rig = replace(rig, effectors=held_for_bake(armature_object, rig.effectors, depsgraph))
    numbers = frames_of(armature_object, frames)
    within = rig.tolerances(armature_object)
    parts, influences = list[Measured](), list[FloatArray]()
    with ExitStack() as undo:
        undo.enter_context(held(armature_object))  # live mode would pose what is measured
        undo.enter_context(played_restored(armature_object))
        undo.callback(MeshesLeftOut.of(view_layer, len(numbers)).show)
        raws = list[RawFrame]()
        for row, frame in enumerate(numbers):
            go_to_frame(scene, frame)
            raws.append(rig.read_raw(armature_object, view_layer.depsgraph))
            if len(raws) == AT_ONCE or frame == numbers[-1]:
                read = rig.frames_of(raws)
                influences.append(read.influences)
                parts += rig.measure_frames(read, [raw.seen for raw in raws], within)
                raws = []
            if progress is not None:
                progress((row + 1) / len(numbers))
    influence = np.concatenate(influences)
    unknown = np.logical_and(influence < 1.0, influence > 0.0)
    distances = np.where(unknown, np.nan, np.stack([own.distances for own in parts]))
    angles = np.where(unknown, np.nan, np.stack([own.angles for own in parts]))
    names = tuple(effector.name for effector in rig.effectors)
    blended = [names[number] for number in np.flatnonzero(np.any(unknown, axis=0)).tolist()]
    missed = np.any(within.missed(distances, angles), axis=1)
    statuses = [measured_status(Status.SETTLED, not own) for own in missed.tolist()]
    return BakeReport(
        frames=numbers,
        names=names,
        position_errors=frozen(distances),
        rotation_errors=frozen(angles),
        tolerances=within,
        statuses=tuple(statuses),
        iterations=np.zeros(len(numbers), dtype=np.int64),
        reasons=("",) * len(names),
        notes=(Message("not measured where its influence is below 1: {blended}", blended=listed(blended)),)
        if blended
        else (),
        kinds=tuple(effector.kind for effector in rig.effectors),
        choices=tuple(own.taken for own in parts),
    )
