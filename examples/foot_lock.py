# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded clip is corrected without Blender: feet are locked to the floor, a hand is led to another place.

    python -m examples.foot_lock clip.bvh corrected.bvh --scale 0.01 --hand 0.1 0 0.2 --at 1.5

Feet and hands have targets, the recorded pose of each frame is the preferred pose: what no target changes
stays as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from blender_ik_addon.core import (
    MatchOrientation,
    Problem,
    ReachFrame,
    SequenceSolution,
    Task,
    forward_kinematics,
    solve_each,
)
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.character import Hints, LimbKind, Role, Side, recognise
from blender_ik_addon.core.io import Clip, read_bvh, write_bvh
from blender_ik_addon.core.motion import find_contacts, leg_length, limb_tracks, locked

EASE = 0.3
"""How long a correction takes to come and to go [s]."""


def corrected(clip: Clip, hand: Sequence[float] = (0, 0, 0), at: float = 0.0) -> SequenceSolution:
    """The clip with its feet locked and its right hand led elsewhere for a moment.

    Args:
        clip: As recorded, in metres.
        hand: Which way the hand is moved, (3,) [m].
        at: When it is moved by all of that [s].
    """
    character = recognise(clip.skeleton, Hints(tails=clip.tails))
    tracks = limb_tracks(clip.skeleton, clip.pose, character, clip.tails)
    up, length = character.figures[0].up, leg_length(clip.skeleton, character)
    contacts = find_contacts(tracks, clip.times, length, up=up)
    right = character.limbs_of(LimbKind.ARM, Side.RIGHT)[0].effector
    from_peak = np.clip(np.abs(clip.times - at) / EASE, 0.0, 1.0)
    correction = (1.0 - from_peak) ** 2 * (1.0 + 2.0 * from_peak)  # 1 at the peak, eased to 0
    tasks: list[Task] = []
    for track, on in zip(tracks, contacts, strict=True):
        held = locked(track, on, clip.times)
        matrices = np.tile(np.eye(4), (len(clip.times), 1, 1))
        matrices[:, :3, :3], matrices[:, :3, 3] = held.turns, held.places
        if track.name == clip.skeleton.names[right]:
            matrices[:, :3, 3] += correction[:, None] * hand
        tasks.append(ReachFrame(track.name, matrices, name=track.name))
    heads = character.joints_of(Role.HEAD)
    tasks += [MatchOrientation(head, recorded_turns(clip, head), priority=1) for head in heads]
    # Targets ease in and out: what follows them is as smooth as the recording, frame by frame.
    return solve_each(Problem(clip.skeleton, tasks, preferred=clip.pose), clip.pose)


def recorded_turns(clip: Clip, joint: int) -> FloatArray:
    """Recorded orientations of a joint, (F, 3, 3)."""
    return forward_kinematics(clip.skeleton, clip.pose).matrices[:, joint, :3, :3]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read a clip, correct it, write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clip", help="BVH file")
    parser.add_argument("output", help="BVH file that is written")
    parser.add_argument("--scale", type=float, default=0.01, help="length of the file's unit [m]")
    parser.add_argument("--hand", type=float, nargs=3, default=(0.0, 0.0, 0.0), help="correction [m]")
    parser.add_argument("--at", type=float, default=0.0, help="when it is whole [s]")
    options = parser.parse_args(arguments)
    clip = read_bvh(options.clip, scale=options.scale)
    solution = corrected(clip, options.hand, options.at)
    missed = sum(not frame.reached for frame in (solution.frame(i) for i in range(len(solution))))
    write_bvh(
        options.output, Clip(clip.skeleton, solution.pose, clip.frame_time, clip.ends), scale=options.scale
    )
    print(f"{len(solution)} frames written to {options.output}, in {missed} of them a target is missed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
