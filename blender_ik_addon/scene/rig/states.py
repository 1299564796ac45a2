# SPDX-License-Identifier: GPL-3.0-or-later
"""What states of effectors mean over time: where bones are held, and what is noted when a solve has ended.

A bone that follows is held weakly where it was before the targets of others were moved, and its target comes
to the bone when it rests. If it were held where its target is each solve would let it creep on: the pose is
what the last one has left, held from there. So the place from before stays noted as long as nothing else
changes; then one more solve moves nothing. In a bake, which moves no target, the target says the place.

A target that others have moved is Reach from then on (`effectors.present_state`). That is written when a
solve has ended well.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from bpy.types import Depsgraph, Object

from ...core.arrays import FloatArray
from ..armature.armature import world_from_armature
from ..effectors.effectors import is_taken, target_of
from ..effectors.transforms import place_target
from ..kinds.kinds import Effector
from ..properties.settings import settings_of
from .live_state import digest, digest_of_aims, raw_channels


def held_from_now(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> tuple[Effector, ...]:
    """Return effectors with what follows held where its bone is now; where it was if nothing has changed.

    A pinned bone of which nobody has noted where it is held is held where it is, too.
    """
    same = _left(armature_object, effectors, depsgraph) == settings_of(armature_object).followed
    return tuple(
        replace(effector, pin=_bone_now(armature_object, effector, depsgraph))
        if effector.state != 'REACH' and (effector.pin is None or (effector.follows and not same))
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
    return tuple(np.array(posed.pose.bones[effector.bone].matrix).ravel().tolist())


def _left(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> str:
    """What is noted of targets and pose when a solve has ended, in hexadecimal digits."""
    aims = digest_of_aims(armature_object, effectors, depsgraph)
    return digest(aims, raw_channels(armature_object).tobytes()).hex()


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
) -> None:
    """Note what a solve has come to, and bring targets of what follows to their bones.

    Args:
        armature_object: The armature object, posed.
        effectors: Those that were solved for.
        depsgraph: As the targets were read; the pose may be newer.
        bones: armature_from_joint as posed, (n, 4, 4) [m].
        names: Names of the joints, (n,).
    """
    note_held(armature_object, effectors)
    matrix, _ = world_from_armature(armature_object.evaluated_get(depsgraph))
    for effector in effectors:
        if effector.follows:
            bring_handle(armature_object, effector, matrix @ bones[names.index(effector.bone)])
    settings_of(armature_object).followed = _left(armature_object, effectors, depsgraph)


def bring_handle(armature_object: Object, effector: Effector, world_from_bone: FloatArray) -> None:
    """Bring the target of what follows to its bone (4, 4) [m], where nobody else says where it is."""
    entry = settings_of(armature_object).effectors[effector.index]
    if target_of(entry) is not None and not is_taken(armature_object, entry):
        place_target(armature_object, entry, world_from_bone)
