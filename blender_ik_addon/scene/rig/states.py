# SPDX-License-Identifier: GPL-3.0-or-later
"""What states of effectors mean over time: where bones are held, and what is noted when a solve has ended.

A bone that follows is held weakly where it was before the targets of others were moved, and its target comes
to the bone when it rests. If it were held where its target is each solve would let it creep on: the pose is
what the last one has left, held from there. So the place from before stays noted as long as nothing else
changes; then one more solve moves nothing. In a bake, which moves no target, the target says the place.

A target that others have moved is Reach from then on (`effectors.present_state`). That is written when a
solve has ended well.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core.arrays import FloatArray
from ..animation.fcurves import is_moved
from ..armature.armature import world_from_armature
from ..armature.pose_note import PoseNote, pose_sums, raw_channels
from ..effectors.effectors import is_led, read_amounts, read_effectors, target_of, world_from_targets
from ..effectors.feet import unrolled
from ..effectors.transforms import place_target
from ..kinds.frame_data import orientations
from ..kinds.kinds import Effector
from ..properties.settings import settings_of
from .live_state import DIGEST_SIZE, digest

SAME_AIMS: Final = 1e-4
"""Difference of an entry of a target's matrix [1, m], of its size and 1, that is rounding: far from the
world's origin single precision has no more."""


def held_from_now(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph, *, goes_on: bool = False
) -> tuple[Effector, ...]:
    """Return effectors with what follows held where its bone is now; where it was if nothing has changed.

    A pinned bone of which nobody has noted where it is held is held where it is, too.

    Args:
        goes_on: Whether what has changed since the last solve belongs to what that was for: what follows
            stays held where it was before.
    """
    if all(effector.state == 'REACH' for effector in effectors):
        return tuple(effectors)
    note = PoseNote.of(armature_object)
    same = goes_on or (
        not note.differs(pose_sums(raw_channels(armature_object))).any()
        and _is_same(_solved_for(armature_object, effectors, depsgraph), note.solved_for)
    )
    return tuple(
        replace(effector, pin=_bone_now(armature_object, effector, depsgraph))
        if effector.state != 'REACH' and (effector.pin is None or (effector.follows and not same))
        else effector
        for effector in effectors
    )


def held_at_keys(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> tuple[Effector, ...]:
    """Return effectors with what follows held where its target is, if that has keys: so for a new frame."""
    entries = settings_of(armature_object).effectors
    return tuple(
        replace(effector, pin=_bone_at_target(armature_object, effector, depsgraph))
        if effector.follows and effector.target and is_moved(entries[effector.index].target, armature_object)
        else effector
        for effector in effectors
    )


def held_for_bake(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> tuple[Effector, ...]:
    """Return effectors with what follows held where its target is, which stays there in all frames."""
    at_targets = [replace(e, pin=None) if e.follows and e.target else e for e in effectors]
    return tuple(
        effector
        if effector.state == 'REACH' or effector.pin is not None or effector.target
        else replace(effector, pin=_bone_now(armature_object, effector, depsgraph))
        for effector in at_targets
    )


def _bone_now(armature_object: Object, effector: Effector, depsgraph: Depsgraph) -> tuple[float, ...]:
    """armature_from_bone of an effector's bone, row by row, (16,) [m]."""
    posed: Any = armature_object.evaluated_get(depsgraph)
    entry = settings_of(armature_object).effectors[effector.index]
    return tuple(unrolled(entry, np.array(posed.pose.bones[effector.bone].matrix)).ravel().tolist())


def _bone_at_target(armature_object: Object, effector: Effector, depsgraph: Depsgraph) -> tuple[float, ...]:
    """The same where its target is, in what the effector asks for."""
    bone = np.array(_bone_now(armature_object, effector, depsgraph), dtype=np.float32).reshape(4, 4)
    own = world_from_targets(armature_object, [replace(effector, pin=None, sole=None)], depsgraph)[0]
    target = np.linalg.inv(np.array(armature_object.evaluated_get(depsgraph).matrix_world)) @ own
    turn = orientations(target)
    if effector.goal.orientation and np.isfinite(turn).all():
        bone[:3, :3] = turn
    if effector.position:
        bone[:3, 3] = target[:3, 3] - bone[:3, :3] @ np.array(effector.point)
    return tuple(bone.ravel().tolist())


def _solved_for(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> str:
    """What is noted of targets when a solve has ended: a digest, and numbers that may be inexact.

    Targets count in armature space: where the whole character is moved nothing changes for it.
    """
    aimed = [replace(e, pin=None) if e.follows else e for e in effectors]
    matrix, _ = world_from_armature(armature_object.evaluated_get(depsgraph))
    targets = world_from_targets(armature_object, [e for e in aimed if not e.follows], depsgraph)
    influences, lengths = read_amounts(armature_object, aimed, depsgraph)
    numbers = np.concatenate([(np.linalg.inv(matrix) @ targets).ravel(), influences, lengths])
    nameless = [replace(e, name="", target="", target_bone="") for e in aimed]
    settings = settings_of(armature_object)
    own = digest(repr((nameless, settings.method, settings.move_root)))
    return f"{own.hex()}{b64encode(numbers.astype('<f4').tobytes()).decode()}"


def _is_same(now: str, before: str) -> bool:
    """Whether what is noted is the same but for rounding."""
    digits = 2 * DIGEST_SIZE
    if now[:digits] != before[:digits] or len(now) != len(before):
        return False
    numbers, others = (np.frombuffer(b64decode(text[digits:]), dtype="<f4") for text in (now, before))
    return bool((np.abs(numbers - others) <= SAME_AIMS * (1.0 + np.abs(others))).all())


def note_held(armature_object: Object, effectors: Sequence[Effector]) -> None:
    """Write where bones are held, and states that others have changed by moving targets."""
    entries = settings_of(armature_object).effectors
    for effector in effectors:
        entry = entries[effector.index]
        if effector.pin is not None and tuple(entry.pin_matrix) != effector.pin:
            entry.pin_matrix = effector.pin
        if entry.enabled and entry.state != effector.state:
            entry.state = effector.state


def end_solve(
    armature_object: Object,
    effectors: Sequence[Effector],
    depsgraph: Depsgraph,
    bones: FloatArray,
    names: Sequence[str],
) -> bool:
    """Note what a solve has come to, and bring targets of what follows to their bones; whether any moved.

    Args:
        depsgraph: As the targets were read; the pose may be newer.
        bones: armature_from_joint as posed, (n, 4, 4) [m].
    """
    note_held(armature_object, effectors)
    matrix, _ = world_from_armature(armature_object.evaluated_get(depsgraph))
    following = [effector for effector in effectors if effector.follows]
    for effector in following:
        bring_handle(armature_object, effector, matrix @ bones[names.index(effector.bone)])
    if any(effector.state != 'REACH' for effector in effectors):
        solved_for = _solved_for(armature_object, effectors, depsgraph)
        replace(PoseNote.of(armature_object), solved_for=solved_for).store(armature_object)
    return bool(following)


def bring_handle(armature_object: Object, effector: Effector, world_from_bone: FloatArray) -> None:
    """Bring the target of what follows to its bone (4, 4) [m], where nobody else says where it is."""
    entry = settings_of(armature_object).effectors[effector.index]
    if target_of(entry) is not None and not is_led(armature_object, entry):
        place_target(armature_object, entry, world_from_bone)


def bring_handles(armature_object: Object, rows: Iterable[int], depsgraph: Depsgraph) -> None:
    """Bring the targets of some effectors, as far as they follow, to their bones as these are shown.

    Where keys of bones play, targets are where the last solve has left them, and handles at the bones.
    """
    posed: Any = armature_object.evaluated_get(depsgraph)
    wanted = set(rows)
    for effector in (e for e in read_effectors(armature_object, drawing=True) if e.index in wanted):
        if effector.follows:
            bone = posed.pose.bones[effector.bone].matrix
            bring_handle(armature_object, effector, np.array(posed.matrix_world @ bone))
