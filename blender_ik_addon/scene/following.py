# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows its targets: what has moved since it was solved for, and one solve if anything has.

What was solved for is noted in the file, in `Object.poise.live_memory`, as digests: of the targets, the
object and the settings; of the pose as it was left; of the bones themselves; of what was keyed. So undo,
redo, files and library overrides always have the note that belongs to the pose, and whether there is anything
to do follows from the file alone. What is kept in `_KNOWN` only saves time and may be dropped at any moment.

A solve gives the same as `posing.solve_pose` would from the present pose. Nobody but the targets, the object,
the settings and what holds the bones makes it start: a bone that is posed by hand stays until one of these
changes. A new frame does too where the animation has moved the bones.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ..core import OnPlane, Problem, Solution, SolverOptions, StayNear, Task
from ..core.arrays import FloatArray
from ..core.tracking import Tracker
from .animation import rotation_channel
from .armature import check_armature, evaluated_matrices, world_from_armature, write_pose
from .effectors import Effector, read_amounts, read_effectors, reasons, world_from_targets
from .goals import Plan
from .keying import auto_key, auto_keying, uses_operators
from .properties import NOT_MEASURED, settings_of
from .reports import EffectorError, Report, all_reached, measured_status
from .restoring import PoseSnapshot
from .rig import Reading, Rig, solver_options

Digest = tuple[int, int, int, int]
"""128 bits."""

NOTHING: Final[Digest] = (0, 0, 0, 0)

SAME_PLACE: Final = 1e-5
"""Difference between matrices of a bone that constraints or drivers decide, against its parent [m, 1], up to
which it has not moved: ten times what single precision leaves of it when the whole body moves. What moves in
answer to a solve makes for another one, until it stands still."""

SHOWN_DIGITS: Final = 1e-6
"""Change of an error [m, rad] that the panel would not show."""

_AIMS: Final = {OnPlane: "origin", StayNear: "channels"}
"""What `Task.moved` changes, where it is not called target."""

_CHANNELS: Final = (
    ("location", 3),
    ("rotation_euler", 3),
    ("rotation_quaternion", 4),
    ("rotation_axis_angle", 4),
    ("scale", 3),
)
_FIRST: Final = dict(zip((name for name, _ in _CHANNELS), (0, 3, 6, 10, 14), strict=True))
"""Column in which each property begins."""


class Occasion(Enum):
    """What may have moved the targets."""

    SCRIPT = "SCRIPT"
    """A script asks; nothing is keyed."""
    USER = "USER"
    """The user; auto-key is honoured."""
    GESTURE = "GESTURE"
    """The user, with a tool that is still running: it may be cancelled, so keys wait for its end."""
    FRAME = "FRAME"
    """A new frame; nothing is keyed."""


# What is noted in the file


@dataclass(frozen=True)
class _Memory:
    """What the body was solved for, as digests."""

    aims: Digest = NOTHING
    """Of targets, object and settings."""
    posed: Digest = NOTHING
    """Of the channels of all bones, as they were left."""
    bones: Digest = NOTHING
    """Of the bones' rest, locks and limits, and of their channels that are not solved."""
    keyed: Digest = NOTHING
    """The `aims` for which no key is owed."""

    @classmethod
    def of(cls, armature_object: Object) -> "_Memory":
        numbers = settings_of(armature_object).live_memory[:]
        parts = [(numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]) for i in range(0, 16, 4)]
        return cls(*parts)

    def store(self, armature_object: Object) -> None:
        settings_of(armature_object).live_memory = (*self.aims, *self.posed, *self.bones, *self.keyed)


def forget_solved(armature_object: Object) -> None:
    """Let the next look at an armature object find that all has moved."""
    _Memory().store(armature_object)


def _digest(*parts: bytes | str) -> Digest:
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    numbers = np.frombuffer(hashed.digest(), dtype=np.int32).tolist()
    return numbers[0], numbers[1], numbers[2], numbers[3]


# What is kept to save time


@dataclass
class _Known:
    """What was prepared for an armature object; plain data."""

    rig: Rig
    tracked: "_Tracked | None" = None
    driven: FloatArray | None = None
    """Matrices of bones that something else decides, against their parents, in the last solve, (k, 4, 4)."""
    resting: "_Resting | None" = None
    """How it was before the tool was started that is running now."""


@dataclass(frozen=True)
class _Resting:
    """A pose and what was solved for then.

    A tool that is cancelled puts targets back: then the pose is put back too, bit by bit, and not solved for
    again.
    """

    aims: Digest
    pose: PoseSnapshot
    report: tuple[str, bool]
    """Message, and whether all was reached."""
    errors: tuple[tuple[float, float, str], ...]
    """What the panel shows of each entry."""

    @classmethod
    def of(cls, armature_object: Object, aims: Digest, bones: Sequence[str]) -> "_Resting":
        settings = settings_of(armature_object)
        return cls(
            aims,
            PoseSnapshot.take(armature_object, bones),
            (settings.last_message, settings.last_reached),
            tuple((entry.error_position, entry.error_rotation, entry.why) for entry in settings.effectors),
        )

    def restore(self, armature_object: Object) -> None:
        """Put pose and panel back."""
        self.pose.restore(armature_object)
        settings = settings_of(armature_object)
        settings.last_message, settings.last_reached = self.report
        for entry, errors in zip(settings.effectors, self.errors, strict=True):
            entry.error_position, entry.error_rotation, entry.why = errors


@dataclass(frozen=True)
class _Tracked:
    """A problem that has been solved, to be gone on with."""

    tracker: Tracker
    tasks: tuple[Task, ...]
    """Those with a weight, each of one frame."""
    plan: Plan
    options: SolverOptions
    joints: tuple[int, ...]
    """Those that move."""
    posed: Digest = NOTHING
    """Of the pose that was written last."""

    def fits(self, plan: Plan, tasks: Sequence[Task], options: SolverOptions, reading: Reading) -> bool:
        """Whether another problem differs in nothing but where targets are."""
        free, pose = plan.skeleton.free, self.tracker.pose
        return (
            plan.skeleton is self.plan.skeleton
            and options == self.options
            and len(tasks) == len(self.tasks)
            and all(_same_but_for_aim(one, other) for one, other in zip(tasks, self.tasks, strict=True))
            and np.array_equal(pose.channels[~free], reading.pose.channels[~free])
            and np.array_equal(pose.scale, reading.pose.scale)
        )


_KNOWN: dict[int, _Known] = {}
"""By the session uid of the armature object."""

_HELD: set[int] = set()
"""Session uids of armature objects that a running job poses itself."""


def forget() -> None:
    """Drop all that is kept to save time."""
    _KNOWN.clear()


@contextmanager
def held(armature_object: Object) -> Iterator[None]:
    """Let an armature object not follow: for as long as a bake plays its keys back."""
    uid = armature_object.session_uid
    _HELD.add(uid)
    try:
        yield
    finally:
        _HELD.discard(uid)


# Following


def follow(
    armature_object: Object,
    depsgraph: Depsgraph,
    occasion: Occasion = Occasion.SCRIPT,
    *,
    look_closely: bool = True,
    in_handler: bool = False,
) -> Report | None:
    """Solve and write the pose if something has moved since the last time; None if nothing has.

    Args:
        armature_object: The original armature object.
        depsgraph: Up to date.
        occasion: What may have moved the targets.
        look_closely: Whether bones, locks, limits or what is in the scene may have changed. Without it they
            are looked at only where the pose has changed.
        in_handler: Whether Blender's handler of an update asks; what must not be done there is left owed.

    Raises:
        IKError: Something is missing or cannot be posed; the pose is as before then.
    """
    uid = armature_object.session_uid
    if uid in _HELD:
        return None
    check_armature(armature_object)
    with held(armature_object):  # what is written here may call Blender's handlers, and those this again
        return _follow_if_moved(armature_object, depsgraph, occasion, look_closely, in_handler)


def _follow_if_moved(
    armature_object: Object, depsgraph: Depsgraph, occasion: Occasion, look_closely: bool, in_handler: bool
) -> Report | None:
    effectors = read_effectors(armature_object)
    aims = _aims(armature_object, effectors, depsgraph)
    channels = _raw_channels(armature_object)
    posed = _digest(channels.tobytes())
    memory, known = _Memory.of(armature_object), _KNOWN.get(armature_object.session_uid)
    report = None
    driven_moved = known is not None and _driven_moved(armature_object, known, depsgraph)
    if known is None or look_closely or driven_moved or (aims, posed) != (memory.aims, memory.posed):
        known = _read(armature_object, known, depsgraph)
        bones = _digest(*_bones(armature_object, known.rig, channels))
        replayed = occasion is Occasion.FRAME and posed != memory.posed
        if replayed or driven_moved or (aims, bones) != (memory.aims, memory.bones):
            if occasion is Occasion.GESTURE and known.resting is None and memory.aims != NOTHING:
                known.resting = _Resting.of(armature_object, memory.aims, known.rig.chains)
            report = _bring(armature_object, known, depsgraph, aims, posed)
            posed = _digest(_raw_channels(armature_object).tobytes())
        fresh = memory.aims == NOTHING
        memory = _Memory(aims, posed, bones, keyed=aims if fresh else memory.keyed)
        memory.store(armature_object)
    if memory.keyed != aims:
        _settle_keys(armature_object, known, memory, occasion, in_handler)
    if occasion is not Occasion.GESTURE:
        known.resting = None
    return report


def _bring(
    armature_object: Object, known: _Known, depsgraph: Depsgraph, aims: Digest, posed: Digest
) -> Report | None:
    """Bring the body to its targets; None where it is put back to where it was."""
    if known.resting is not None and known.resting.aims == aims:
        known.resting.restore(armature_object)
        return None
    return _solve(armature_object, known, depsgraph, posed)


def _solve(armature_object: Object, known: _Known, depsgraph: Depsgraph, posed: Digest) -> Report:
    rig = known.rig
    known.driven = _driven(armature_object, rig, depsgraph) if _driven_joints(rig) else None
    reading = rig.read_frame(armature_object, depsgraph)
    plan = rig.plan([reading])
    weighty = [task for task in plan.tasks if task.weight > 0.0]
    tasks = tuple(task if task.frames is None else task.at_frame(0) for task in weighty)
    options = rig.solver_options(armature_object, reading.scale)
    tracked = known.tracked
    if tracked is None or tracked.posed != posed or not tracked.fits(plan, tasks, options, reading):
        problem = Problem(plan.skeleton, tasks)
        tracker = Tracker(problem, reading.pose, options)
        tracked = _Tracked(tracker, tasks, plan, options, tuple(problem.moving_joints))
    known.tracked = None  # until all has gone well
    solution = tracked.tracker.solve([_aim(task) for task in tasks])
    write_pose(armature_object, rig.armature, solution.pose, tracked.joints)
    known.tracked = replace(tracked, posed=_digest(_raw_channels(armature_object).tobytes()))
    report = _report(armature_object, rig, plan, reading, solution)
    _show(armature_object, rig, report)
    return report


def is_answered(armature_object: Object) -> bool:
    """Whether bones of the chains are decided by something that may answer to a solve."""
    known = _KNOWN.get(armature_object.session_uid)
    return known is not None and known.driven is not None


# Keys


def owes_keys(armature_object: Object) -> bool:
    """Whether something was solved that auto-key has not keyed yet."""
    memory = _Memory.of(armature_object)
    return memory.keyed != memory.aims and auto_keying()


def key_owed(armature_object: Object) -> None:
    """Key what auto-key owes.

    Raises:
        IKError: It cannot be keyed.
    """
    memory, known = _Memory.of(armature_object), _KNOWN.get(armature_object.session_uid)
    if known is not None:
        _settle_keys(armature_object, known, memory, Occasion.USER, False)


def _settle_keys(
    armature_object: Object, known: _Known, memory: _Memory, occasion: Occasion, in_handler: bool
) -> None:
    """Key what has moved, now or after the tool that is running; or owe nothing."""
    if occasion in (Occasion.USER, Occasion.GESTURE) and auto_keying():
        if occasion is Occasion.GESTURE or (in_handler and uses_operators()):
            return
        skeleton = known.rig.armature.skeleton
        if known.tracked is not None:
            joints = known.tracked.joints
        else:
            joints = [j for name in known.rig.chains if skeleton.free[j := skeleton.index(name)].any()]
        auto_key(armature_object, known.rig.armature, [skeleton.names[joint] for joint in joints])
    replace(memory, keyed=memory.aims).store(armature_object)


# What there is to look at


def _read(armature_object: Object, known: _Known | None, depsgraph: Depsgraph) -> _Known:
    """Read the armature; what was prepared is kept if it is still the same."""
    rig = Rig.read(armature_object, depsgraph)
    if known is not None and same_rig(known.rig, rig):
        return known
    resting = None if known is None or known.rig.chains != rig.chains else known.resting
    known = _Known(rig, resting=resting)
    known.driven = _driven(armature_object, rig, depsgraph) if _driven_joints(rig) else None
    _KNOWN[armature_object.session_uid] = known
    return known


def same_rig(first: Rig, second: Rig) -> bool:
    """Whether two rigs are equal, arrays and all."""
    return _same(first, second)


def _same(first: Any, second: Any) -> bool:
    """Whether values, arrays or dataclasses of such are equal; fields that do not take part do not matter."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    if hasattr(first, "__dataclass_fields__"):
        names = [field.name for field in fields(first) if field.compare]
        return all(_same(getattr(first, name), getattr(second, name)) for name in names)
    return bool(first == second)


def _aims(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> Digest:
    """Digest of targets, object and settings; names do not matter."""
    matrix, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
    influences, lengths = read_amounts(armature_object, effectors, depsgraph)
    targets = world_from_targets(armature_object, effectors, depsgraph)
    nameless = [replace(e, name="", target="", target_bone="") for e in effectors]
    options = solver_options(armature_object, scale)
    settings = settings_of(armature_object)
    return _digest(
        repr((nameless, options, settings.move_root)),
        *(array.tobytes() for array in (matrix, influences, lengths, targets)),
    )


def _raw_channels(armature_object: Object) -> FloatArray:
    """Channels of all bones as Blender holds them, in its order, (n, 17), single precision."""
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    channels: Any = np.empty((len(bones), sum(width for _, width in _CHANNELS)), dtype=np.float32)
    for name, width in _CHANNELS:
        buffer: Any = np.empty((len(bones), width), dtype=np.float32)
        bones.foreach_get(name, buffer.reshape(-1))
        channels[:, _FIRST[name] : _FIRST[name] + width] = buffer
    return channels


def _bones(armature_object: Object, rig: Rig, channels: FloatArray) -> Iterator[bytes | str]:
    """What bones are and what of their pose is not solved; of those that have a part in the solve.

    Orders of rotation are not in it: those of bones in quaternion mode follow the pose.
    """
    armature, skeleton = rig.armature, rig.armature.skeleton
    yield repr((skeleton.names, armature.rotation_modes, sorted(armature.driven_by), rig.prefers))
    for name in ("parents", "rest", "free", "lower", "upper", "stiffness", "preferred"):
        yield getattr(skeleton, name).tobytes()
    for name in ("inherit_rotation", "inherit_scale", "local_location"):
        yield getattr(skeleton, name).tobytes()
    yield armature.written.tobytes()
    pose: Any = armature_object.pose
    rows = {bone.name: row for row, bone in enumerate(pose.bones)}
    everywhere = rig.body is not None  # then all bones have weight
    for name in skeleton.names if everywhere else rig.chains:
        joint = skeleton.index(name)
        attribute, width = rotation_channel(armature.rotation_modes[joint])
        first = _FIRST[attribute]
        own = channels[rows[name]]
        held = ~armature.written[joint]
        yield own[:3][held[:3]].tobytes()
        yield own[first : first + width][held[-width:]].tobytes()
        yield own[_FIRST["scale"] :].tobytes()


def _driven_joints(rig: Rig) -> list[int]:
    """Joints of the chains that constraints or drivers decide."""
    skeleton = rig.armature.skeleton
    return [skeleton.index(name) for name in rig.chains if name in rig.armature.driven_by]


def _driven(armature_object: Object, rig: Rig, depsgraph: Depsgraph) -> FloatArray:
    """Matrices of these against their parents, (k, 4, 4)."""
    skeleton = rig.armature.skeleton
    joints = _driven_joints(rig)
    matrices = evaluated_matrices(armature_object.evaluated_get(depsgraph), rig.armature)
    parents = [int(skeleton.parents[joint]) for joint in joints]
    above = np.array([np.eye(4) if parent < 0 else matrices[parent] for parent in parents])
    return np.linalg.pinv(above) @ matrices[joints]


def _driven_moved(armature_object: Object, known: _Known, depsgraph: Depsgraph) -> bool:
    """Whether bones that something else decides are elsewhere now."""
    if known.driven is None or not _has_bones(armature_object, known.rig):
        return False
    now = _driven(armature_object, known.rig, depsgraph)
    return bool((np.abs(now - known.driven) > SAME_PLACE).any())


def _has_bones(armature_object: Object, rig: Rig) -> bool:
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    return {bone.name for bone in bones} == set(rig.armature.skeleton.names)


# Tasks


def _aim(task: Task) -> FloatArray:
    """What `Task.moved` changes."""
    return getattr(task, _AIMS.get(type(task), "target"))


def _same_but_for_aim(one: Task, other: Task) -> bool:
    if type(one) is not type(other):
        return False
    aim = _AIMS.get(type(one), "target")
    names = [field.name for field in fields(one) if field.name != aim]
    return all(_same(getattr(one, name), getattr(other, name)) for name in names)


# What came of it


def _report(armature_object: Object, rig: Rig, plan: Plan, reading: Reading, solution: Solution) -> Report:
    """Say how far effectors are off, by the solver's own account: Blender shows the pose only afterwards."""
    distances, angles = np.full((2, len(rig.effectors)), np.nan)
    errors = iter(solution.errors)
    for row, count in enumerate(plan.counts):
        for _ in range(count):
            error = next(errors)
            if error.angular:
                angles[row] = error.error
            else:
                distances[row] = error.error * reading.scale
    within = rig.tolerances(armature_object)
    missed = within.missed(distances, angles)
    explanations = [error.why for error in solution.errors]
    whys = [""] * len(rig.effectors)
    if missed.any():
        whys = reasons(rig.effectors, reading.influences, plan.counts, explanations, reading.scale)
    effectors = tuple(
        EffectorError(
            name=effector.name,
            bone=effector.bone,
            position=None if np.isnan(distance) else float(distance),
            rotation=None if np.isnan(angle) else float(angle),
            reached=not miss,
            why=why if miss else "",
            kind=effector.kind,
            tolerance_position=tolerance[0],
            tolerance_rotation=tolerance[1],
        )
        for effector, distance, angle, miss, tolerance, why in zip(
            rig.effectors, distances, angles, missed, within.own, whys, strict=True
        )
    )
    message = within.misses_text(effectors) or all_reached(len(effectors))
    status = measured_status(solution.status, not missed.any())
    return Report(status, message, solution.iterations, effectors, rig.notes)


def _show(armature_object: Object, rig: Rig, report: Report) -> None:
    """Write errors and message where the panel shows them, as far as they have changed."""
    settings = settings_of(armature_object)
    summary = report.summary()
    if settings.last_message != summary or settings.last_reached != report.reached:
        settings.last_message, settings.last_reached = summary, report.reached
    for effector, error in zip(rig.effectors, report.effectors, strict=True):
        entry = settings.effectors[effector.index]
        for name, value in (("error_position", error.position), ("error_rotation", error.rotation)):
            shown = NOT_MEASURED if value is None else value
            if abs(getattr(entry, name) - shown) > SHOWN_DIGITS:
                setattr(entry, name, shown)
        if entry.why != error.why:
            entry.why = error.why
