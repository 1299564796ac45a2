# SPDX-License-Identifier: GPL-3.0-or-later
"""The use cases of operators, command line and scripts; nothing else is called from outside.

A solve reads all that it needs, solves without a call into Blender, then writes. A bake reads the targets and
the fixed channels of all frames, solves the sequence, writes the keys in bulk, and then plays them back to
measure, in Blender's own matrices, how far every effector is from its target. Both solve, write and measure
again while constraints or drivers move bones of the chains (`driven_bones.Passes`).

Everywhere `armature_object` is an armature object with effectors; its targets are read from `depsgraph`, by
default that of the context.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Unpack

import bpy
from bpy.types import Depsgraph, Object

from ..core import Diagnosis, IKError, Status, solve
from ..core.explain.diagnosis import diagnose as diagnosis_of
from ..core.messages import Joined, Message, counted, in_a_row
from ..core.solve.sequence import SequenceJob
from .armature.armature import updated
from .armature.limits import RigLimits, own_limits, read_limits, remove_limits
from .armature.poses import note_posed, write_pose
from .armature.restoring import PoseSnapshot, set_up_restored_on_error, undone_on_error
from .armature.role_table import recognise_roles
from .bake.frames import bake_range, contact_borders
from .bake.job import BakeJob, measure
from .bake.options import BakeChoices, BakeOptions
from .bake.together import BakeJobs
from .character.feet import roll_feet
from .character.mirror import MirrorReport, mirror
from .character.preferring import pose_naturally, prefer_present_pose
from .character.preset_files import preset_names, preset_path
from .character.presets import PresetReport, load_preset, save_preset
from .character.setup import SetupReport, bend_limbs, setup_character
from .effectors.effectors import check_present, label_of, present_state
from .effectors.entries import (
    add_choice,
    add_effector,
    add_floor,
    keep_orientation,
    make_target,
    move_effector,
    pin,
    remove_choice,
    remove_effector,
    set_state,
    store_pose,
    unpin,
)
from .effectors.masses import MeshReport, measure_meshes, own_masses, remove_masses
from .effectors.transforms import AttachReport, attach_targets, staying_behind
from .kinds.frame_data import orientations
from .kinds.kinds import Rank
from .live.driven_bones import Passes
from .live.following import follow_until_rest, held
from .live.machine import Trigger
from .matching.contacts import ContactReport, ContactsJob, find_contacts, lock_contacts
from .matching.corrections import correct, corrections_on, remove_corrections, switch_corrections
from .matching.grip import hold_prop
from .matching.recording import TargetsJob, clip_range, targets_from_animation
from .matching.snapping import MatchReport, key_targets, snap_targets
from .properties.settings import check_editable, settings_of
from .rig.keying import key_pose
from .rig.noted import end_solve, held_from_now
from .rig.reports import (
    BakeReport,
    EffectorError,
    Measured,
    Report,
    all_reached,
    effector_errors,
    show,
    solver_reasons,
)
from .rig.rig import Rig
from .translations import translated

MARKED: Final = "Poise: "
"""How the names of timeline markers begin that `mark_frames` sets."""

__all__ = [
    "AttachReport",
    "BakeJob",
    "BakeJobs",
    "BakeOptions",
    "BakeReport",
    "ContactReport",
    "ContactsJob",
    "EffectorError",
    "MatchReport",
    "MeshReport",
    "MirrorReport",
    "PresetReport",
    "Report",
    "RigLimits",
    "SetupReport",
    "TargetsJob",
    "add_choice",
    "add_effector",
    "add_floor",
    "attach_targets",
    "bake",
    "bake_range",
    "bake_together",
    "bend_limbs",
    "clip_range",
    "contact_borders",
    "correct",
    "corrections_on",
    "diagnose",
    "find_contacts",
    "follow",
    "frames_to_look_at",
    "hold_prop",
    "keep_orientation",
    "key_pose",
    "key_targets",
    "load_preset",
    "lock_contacts",
    "make_natural",
    "make_target",
    "mark_frames",
    "measure",
    "measure_meshes",
    "mirror",
    "move_effector",
    "own_limits",
    "own_masses",
    "pin",
    "prefer_present_pose",
    "preset_names",
    "preset_path",
    "read_limits",
    "recognise_roles",
    "remove_choice",
    "remove_corrections",
    "remove_effector",
    "remove_limits",
    "remove_masses",
    "roll_feet",
    "save_preset",
    "set_state",
    "setup_character",
    "snap_targets",
    "solve_pose",
    "staying_behind",
    "store_pose",
    "switch_corrections",
    "switch_live",
    "targets_from_animation",
    "unpin",
]


def solve_pose(armature_object: Object, depsgraph: Depsgraph | None = None) -> Report:
    """Solve the present frame and write the pose.

    Raises:
        IKError: Something is missing or cannot be posed; nothing is changed then.
    """
    depsgraph = updated(depsgraph)
    rig = Rig.read(armature_object, depsgraph)
    rig = replace(rig, effectors=held_from_now(armature_object, rig.effectors, depsgraph))
    frames = rig.read_frame(armature_object, depsgraph)
    plan, options = rig.plan(frames), rig.solver_options(armature_object, frames.largest_scale)
    solution, iterations = solve(plan.problem, frames.pose[0], options), 0
    passes, within = Passes(rig, frames, slice(0, 1)), rig.tolerances(armature_object)
    with held(armature_object), undone_on_error() as undo:  # live mode would pose what is measured
        undo.callback(PoseSnapshot.take(armature_object).restore, armature_object)
        while True:
            iterations += solution.iterations
            write_pose(armature_object, rig.armature, solution.pose, plan.problem.moving_joints)
            note_posed(armature_object)
            depsgraph.update()
            shown = rig.read_raw(armature_object, depsgraph)
            [measured] = rig.measure_frames(frames, [shown], within)
            passes.note(0, shown.pose.shown)
            by_solver = Measured.solved(plan, solution.errors, frames.largest_scale)
            passes.compare([measured], by_solver.distances[None], by_solver.angles[None])
            if passes.rest(within):
                break
            passes.again(solution.pose.channels[None])
            plan = rig.plan(passes.frames)
            job = SequenceJob(plan.problem, passes.frames.pose, options, near=passes.near)
            deque(job.run(), maxlen=0)
            solution = job.solution().frame(0)
    clamped = rig.notes_on_limits(frames, solution.pose.channels[None])
    notes = (*rig.notes, *clamped, *rig.notes_on_shear(armature_object, depsgraph))
    reasons = solver_reasons(armature_object, rig, frames, plan, [error.why for error in solution.errors])
    reasons = [why or moved for why, moved in zip(reasons, passes.reasons(0, within), strict=True)]
    errors = effector_errors(armature_object, rig, measured, reasons)
    asked = sum(error.position is not None or error.rotation is not None for error in errors)
    reached = counted(
        iterations,
        "{reached} after {count} iteration",
        "{reached} after {count} iterations",
        reached=all_reached(asked),
    )
    report = Report.of(errors, solution.status, iterations, notes, reached=reached)
    if not report.reached and solution.status is Status.MAX_ITERATIONS:
        more = Message(
            "stopped after {iterations} iterations while still moving: raise Iterations",
            iterations=iterations,
        )
        report = replace(report, message=Joined("; ", (report.message, more)))
    show(armature_object, rig, report)
    names = rig.armature.skeleton.names
    if end_solve(armature_object, rig.effectors, depsgraph, shown.pose.shown, names):
        depsgraph.update()
    return report


def make_natural(armature_object: Object, bones: Iterable[str] | None = None) -> Report | None:
    """Turn bones as in a natural pose and let them prefer it, then solve: what no target holds stays so.

    Args:
        bones: Each stands for the limb that it is in; the whole body for None.

    Returns:
        Of the solve; None where no effector takes part.

    Raises:
        IKError: No natural pose is known for these bones, or as `solve_pose`; nothing is changed then.
    """
    check_present(armature_object)
    with set_up_restored_on_error(armature_object):
        turned = pose_naturally(armature_object, bones)
        if not turned:
            raise IKError(
                "no natural pose is known for these bones: it is for trunk, neck, arms and legs of people. "
                "Look at their roles in the table, and whether they may turn"
            )
        bpy.context.view_layer.update()
        if not any(entry.enabled for entry in settings_of(armature_object).effectors):
            return None
        settings, report = settings_of(armature_object), solve_pose(armature_object)
        held = [
            label_of(entry)
            for entry in settings.effectors
            if entry.part.partition(".")[0] == "hand"
            and entry.bone in turned
            and present_state(armature_object, entry) == 'REACH'
        ]
        if held:
            note = counted(
                len(held),
                "{names} holds its place: set it to Follow for an arm that hangs",
                "{names} hold their places: set them to Follow for arms that hang",
                names=in_a_row(held),
            )
            report = replace(report, notes=(*report.notes, note))
            settings.last_message = translated(report.summary())
        return report


def follow(armature_object: Object, depsgraph: Depsgraph | None = None) -> Report | None:
    """Solve the present frame and write the pose if something has moved since this was done last.

    Live mode does this whenever Blender has updated the scene. Without it scripts can do it themselves.

    Returns:
        With errors by the solver's own account: Blender shows the pose after the next update. None where
        nothing has moved.

    Raises:
        IKError: Something is missing or cannot be posed; the pose is as before then.
    """
    depsgraph = updated(depsgraph)
    return follow_until_rest(armature_object, depsgraph, Trigger.SCRIPT)


def switch_live(armature_object: Object, on: bool) -> Report | None:
    """Switch live mode on or off; if on, the body is solved at once.

    Raises:
        IKError: The armature is linked, and nothing is changed. Or something is missing or cannot be posed:
            live mode is on then, and begins when that is corrected.
    """
    check_editable(armature_object)
    if on not in (True, False):
        raise IKError("Live can be True or False, got {on!r}", on=on)
    settings_of(armature_object).live = bool(on)
    return follow(armature_object) if on else None


def diagnose(armature_object: Object, depsgraph: Depsgraph | None = None) -> Diagnosis:
    """Diagnose the present pose: rank, condition and lost directions of its effectors.

    Returns:
        With directions along world axes; the panel shows its lines.

    Raises:
        IKError: Something is missing or cannot be posed.
    """
    depsgraph = updated(depsgraph)
    rig = Rig.read(armature_object, depsgraph)
    frames = rig.read_frame(armature_object, depsgraph)
    found = diagnosis_of(rig.plan(frames).problem, frames.pose[0])
    found = found.turned(orientations(frames.world_from_armature[0]))
    levels = (replace(own, priority=Rank.level_of(own.priority)) for own in found.levels)
    found = replace(found, levels=tuple(levels))
    frame = Message("Frame {frame}", frame=bpy.context.scene.frame_current)
    settings_of(armature_object).diagnosis = translated(Joined("\n", (frame, *found.lines)))
    return found


def bake(
    armature_object: Object,
    frames: Iterable[int] | str | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[BakeChoices],
) -> BakeReport:
    """Solve frames and write them as keys into the object's own action, or where `to` says.

    Args:
        frames: Increasing whole frames, each of which is keyed by default; or a range: 'SCENE', 'PREVIEW',
            'ACTION', 'KEYS' or 'CUSTOM', by default that in the settings.
        progress: Called with the part done in [0, 1]; what it raises stops the bake.
        options: Fields of `BakeOptions`; by default they are as in the settings.

    Raises:
        IKError: Something is missing or cannot be posed, a name is taken, or keys would be
            lost; everything is as before then.
    """
    check_present(armature_object)
    return BakeJob(armature_object, frames, **_keying(frames, options)).run(progress)


def _keying(frames: Iterable[int] | str | None, options: BakeChoices) -> BakeChoices:
    """Options with which frames that are given one by one are all keyed by default."""
    if frames is None or isinstance(frames, str):
        return options
    return {"step": 1, "at_keys": False, "fewest": False, **options}


def mark_frames(armature_object: Object) -> int:
    """Set timeline markers on the frames to look at of the last bake, in place of older ones; how many."""
    scene, frames = bpy.context.scene, frames_to_look_at(armature_object)
    markers = scene.timeline_markers
    for marker in [own for own in markers if own.name.startswith(MARKED)]:
        markers.remove(marker)
    for frame, text in frames:
        markers.new(f"{MARKED}{text}", frame=round(frame))
    return len(frames)


def frames_to_look_at(armature_object: Object) -> list[tuple[float, str]]:
    """Return those of the last bake, and what is there; scripts have them in its report, too."""
    lines = settings_of(armature_object).last_frames.splitlines()
    found = [(float(frame), text) for frame, text in (line.split(" ", 1) for line in lines)]
    return [(int(frame) if frame.is_integer() else frame, text) for frame, text in found]


def bake_together(
    armature_objects: Sequence[Object],
    frames: Iterable[int] | str | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[BakeChoices],
) -> tuple[BakeReport, ...]:
    """Bake several characters, also where targets of one are bones of another; return the report of each.

    Where targets depend on each other all are baked again until none moves any more.

    Args:
        armature_objects: At least one, each once.
        frames: As of `bake`; by default the range in the settings of the first.
        progress: As of `bake`.
        options: As of `bake`, the same for all characters.

    Raises:
        IKError: As `bake`; all characters are as before then.
    """
    return BakeJobs(armature_objects, frames, **_keying(frames, options)).run(progress)
