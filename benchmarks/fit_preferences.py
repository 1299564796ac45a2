# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit how the parts of people are turned in recorded motion, for core/character/recorded.py.

    .venv/blender-5.2/bin/python -m benchmarks fit_preferences --data DIR [--write]

Every clip of a human figure in the folder (`scripts/natural` reads the same) is told in axes of the body
(`core/character/anatomy.py`), whatever its rig. For each part the mean of its turns is fitted, by averaging
rotations, and the deviations about the three axes of the bone from it. All sources count alike, in each all
clips, and in each all frames. Left and right are pooled, and what is in the middle is as often mirrored. A
part that a clip never turns is not animated there, and is left out of it.

Of how people stand at ease, which is a part of the mean, the frames tell in which somebody does: knees are
nearly straight, and thighs and upper arms hang. The part is that by which the mean turns of all parts are
nearest to those of these frames, by least squares.
With --write the module is written, else printed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.page import arguments, progress
from benchmarks.recordings import Recording, clips
from benchmarks.rigs import add_on
from blender_ik_addon.core import Skeleton
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.character import recorded
from blender_ik_addon.core.character.anatomy import MIRROR, anatomical_joints
from blender_ik_addon.core.character.preferences import natural_angles, recorded_stiffness
from blender_ik_addon.core.character.recorded import Turns
from blender_ik_addon.core.character.roles import Role
from blender_ik_addon.core.model.rotation import matrix_from_rotvec, rotvec_from_matrix

FRAMES: Final = 20  # Most frames of a clip

SOURCES: Final = {
    "bvh/animated_drawings/fair": "FAIR",
    "bvh/deepmimic": "DeepMimic",
    "rigs/kaykit": "KayKit",
    "rigs/mesh2motion": "Mesh2Motion",
    "": "CMU",
}
"""How names of files begin -> who made the motion; the first that fits. One recording of CMU came on three
ways, so all of them are one source."""

MIDDLE: Final = (Role.CHEST, Role.HEAD)  # Parts without a side

AT_REST: Final = (Role.HAND, Role.FOOT)
"""Parts that prefer to be as at rest, with deviations from the mean of each clip: where palms face at rest is
not known, so that a mean over rigs tells nothing of the next; nor do all rigs stand on flat feet."""

HINGES: Final = (Role.LOWER_ARM, Role.LOWER_LEG)
"""Parts whose mean is a bend alone: the rest of it is how rigs have laid their hinges."""

FOREARM_TWIST: Final = 20.0
"""Deviation of forearms about themselves [deg], which is not fitted: people turn them by 80 degrees either
way, but most rigs leave that to the wrist. They are as loose as shoulders."""

STILL: Final = 1.0  # Deviation below which a clip does not turn a part [deg]

LEAST: Final = 5.0  # Least deviation [deg]: bones meet at odd angles, about as much as limits give way

STANDING: Final = 30.0
"""Bend of knees, and swing of thighs and upper arms from straight down, up to which somebody stands [deg]:
from 25 to 35 the part of the mean is 0.38 to 0.44."""

ROUNDS: Final = 10  # Steps to the mean of rotations, each of which gains a digit or more


def source_of(name: str) -> str:
    """Who made the motion in a file, by its path in the folder of data."""
    return next(source for begin, source in SOURCES.items() if name.startswith(begin))


def turns_of(recording: Recording) -> Mapping[Role, list[FloatArray]]:
    """Turns of the parts of a figure in a clip, from the pose that all rigs share, (F, 3, 3) of each side."""
    skeleton, matrices = recording.skeleton, recording.matrices
    rotations = matrices[..., :3, :3] / np.linalg.norm(matrices[..., :3, :3], axis=-2, keepdims=True)
    rest = skeleton.armature_from_joint_rest
    joints = {one.joint: one for one in anatomical_joints(skeleton, recording.character, 0)}
    found: defaultdict[Role, list[FloatArray]] = defaultdict(list)
    for last in joints.values():
        if last.place + 1 < last.joints or not recording.solved[last.joint]:
            continue
        first = last
        while first.place:
            first = joints[first.above]
        below = rotations[:, last.joint] @ last.rest.T @ last.axes
        above = rotations[:, first.above] @ rest[first.above, :3, :3].T @ first.axes_above
        turns = np.swapaxes(above, -1, -2) @ below
        found[last.part].append(MIRROR @ turns @ MIRROR if last.right else turns)
        if last.part in MIDDLE:
            found[last.part].append(MIRROR @ turns @ MIRROR)
    return found


def preferring(recording: Recording, table: Mapping[Role, Turns]) -> Recording:
    """A recording whose rig has the stiffness and the preferred angles of a table."""
    skeleton = recording.skeleton
    stiffness, preferred = np.array(skeleton.stiffness), np.array(skeleton.preferred)
    for one in anatomical_joints(skeleton, recording.character, 0):
        if one.part in table and np.isfinite(preferred[one.joint]).all():
            turns, order = table[one.part], int(skeleton.orders[one.joint])
            limits = skeleton.lower[one.joint, 3:], skeleton.upper[one.joint, 3:]
            angles = natural_angles(one, turns, order, *limits)
            preferred[one.joint, 3:] = angles
            stiffness[one.joint, 3:] = recorded_stiffness(one, turns, order, angles)
    changed: Skeleton = replace(skeleton, stiffness=stiffness, preferred=preferred)
    return replace(recording, skeleton=changed)


@dataclass(frozen=True)
class Clip:
    """What the fit takes of a clip."""

    source: str
    turns: Mapping[Role, Sequence[FloatArray]]

    @property
    def at_ease(self) -> BoolArray:
        """Frames in which somebody stands at ease, (F,)."""
        hanging = (Role.UPPER_LEG, Role.LOWER_LEG, Role.UPPER_ARM)
        downs = [turn[:, 1, 1] for part in hanging for turn in self.turns.get(part, ())]  # cosines
        return np.all(np.array(downs) > np.cos(np.radians(STANDING)), axis=0)


def read(data: Path, frames: int, only: str = "") -> Iterator[tuple[Recording, Clip]]:
    """Every clip in a folder, of no more than some frames each, and what the fit takes of it."""
    for recording in clips(data, frames, only):
        yield recording, Clip(source_of(recording.file), turns_of(recording))


def folds(clips_: Sequence[Clip]) -> dict[str, dict[Role, Turns]]:
    """For each source the table that is fitted to all others."""
    return {
        source: fitted([clip for clip in clips_ if clip.source != source])
        for source in dict.fromkeys(clip.source for clip in clips_)
    }


def fitted(clips_: Iterable[Clip]) -> dict[Role, Turns]:
    """Mean and deviations of each part over some clips, [deg]."""
    by_source: defaultdict[str, list[Clip]] = defaultdict(list)
    for clip in clips_:
        by_source[clip.source].append(clip)
    table: dict[Role, Turns] = {}
    for part in (role for role in Role if role is not Role.PELVIS):
        turns: list[FloatArray] = []
        shares: list[float] = []
        for own in by_source.values():
            parts = [turn for clip in own for turn in clip.turns.get(part, ()) if _is_animated(turn)]
            if part in AT_REST:
                parts = [_from_own_mean(turn) for turn in parts]
            turns += parts
            shares += [1.0 / len(parts) for _ in parts]
        if turns:
            table[part] = _fitted(part, turns, shares)
    return table


def ease(clips_: Iterable[Clip], table: Mapping[Role, Turns]) -> tuple[float, int]:
    """The part of the mean turns of a table that is left where people stand at ease [1].

    Returns:
        It, and in how many frames they stand so.
    """
    standing: defaultdict[str, list[tuple[Clip, BoolArray]]] = defaultdict(list)
    for clip in clips_:
        if clip.turns.get(Role.LOWER_LEG) and (frames := clip.at_ease).any():
            standing[clip.source].append((clip, frames))
    left = whole = 0.0
    for part, turns in table.items():
        mean = np.radians(turns.mean)
        by_source = [
            [_along(clip.turns[part], frames, mean) for clip, frames in own if part in clip.turns]
            for own in standing.values()
        ]
        if means := [float(np.mean(own)) for own in by_source if own]:
            left, whole = left + float(np.mean(means)), whole + float(mean @ mean)
    return left / whole, sum(int(frames.sum()) for own in standing.values() for _, frames in own)


def _along(turns: Sequence[FloatArray], frames: BoolArray, mean: FloatArray) -> float:
    """How far a part is turned along a rotation vector (3,) in some frames, times its length [rad²]."""
    return float(np.mean([rotvec_from_matrix(turn[frames]) @ mean for turn in turns]))


def _from_own_mean(turns: FloatArray) -> FloatArray:
    """Turns (F, 3, 3) from their mean."""
    mean, _ = _mean(turns, np.full(len(turns), 1.0 / len(turns)))
    return mean.T @ turns


def _fitted(part: Role, turns: Sequence[FloatArray], shares: Sequence[float]) -> Turns:
    """Mean and deviations of a part from its turns in some clips, (F, 3, 3) each, and the share of each."""
    counts = [len(turn) for turn in turns]
    weights = np.repeat(np.divide(shares, counts), counts)
    mean, away = _mean(np.concatenate(turns), weights / weights.sum())
    told = np.degrees(rotvec_from_matrix(mean))
    if part in AT_REST:
        told = np.zeros(3)
    elif part in HINGES or part in MIDDLE:
        told = told * [1.0, 0.0, 0.0]
    deviation = np.degrees(np.sqrt((weights / weights.sum()) @ away**2))
    if part is Role.LOWER_ARM:
        deviation[1] = FOREARM_TWIST
    deviation = np.maximum(deviation, LEAST)
    left, up, forward = (round(float(angle), 1) + 0.0 for angle in told)
    about_left, about_up, about_forward = (round(float(angle), 1) for angle in deviation)
    return Turns((left, up, forward), (about_left, about_up, about_forward))


def _mean(turns: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean of rotations (k, 3, 3), and the rotation vectors from it, (k, 3)."""
    left, _, right = np.linalg.svd(np.einsum("k,kij->ij", weights, turns))
    mean = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    for _ in range(ROUNDS):
        mean = mean @ matrix_from_rotvec(weights @ rotvec_from_matrix(mean.T @ turns))
    return mean, rotvec_from_matrix(mean.T @ turns)


def _is_animated(turns: FloatArray) -> bool:
    """Whether a clip turns a part."""
    _, away = _mean(turns, np.full(len(turns), 1.0 / len(turns)))
    return float(np.degrees(np.sqrt(np.square(away).mean()))) > STILL


HEAD: Final = '''# SPDX-License-Identifier: GPL-3.0-or-later
"""How the parts of people are turned in recorded motion: made by `benchmarks/fit_preferences.py`.

    python -m benchmarks fit_preferences --data DIR --write

{clips} clips of {count} sources, each source with the same weight: motion capture of CMU
(mocap.cs.cmu.edu, created with funding from NSF EIA-0196217), of FAIR (Animated Drawings, MIT) and of the
clips of DeepMimic (PyBullet, zlib); animations by hand by KayKit (Kay Lousberg, CC0) and Mesh2Motion (CC0).
How forearms turn about themselves is not fitted, since most rigs leave it to the wrist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .roles import Role


@dataclass(frozen=True)
class Turns:
    """How a part is turned from the neutral pose, in axes of the bone: left, up, forward."""

    mean: tuple[float, float, float]
    """A rotation vector [deg]; on the left side."""
    deviation: tuple[float, float, float]
    """Root mean square of the turns from the mean about the three axes [deg]."""


RECORDED: Final[Mapping[Role, Turns]] = {{
{rows}
}}
"""Part -> its turns: a trunk is called chest and neck and head together head; feet have their ankles\'."""

EASE: Final = {ease:.2f}
"""Part of the mean turns that is left where people stand at ease [1], in {frames} frames."""
'''


def module(table: Mapping[Role, Turns], all_clips: Sequence[Clip]) -> str:
    """The text of core/character/recorded.py."""
    rows = "\n".join(
        f"    Role.{part.name}: Turns({turns.mean}, {turns.deviation})," for part, turns in table.items()
    )
    part, frames = ease(all_clips, table)
    sources = len({clip.source for clip in all_clips})
    return HEAD.format(clips=len(all_clips), count=sources, rows=rows, ease=part, frames=frames)


def main() -> int:
    """Fit. Returns the exit code: 1 when there is no clip."""
    options = arguments(
        "python -m benchmarks fit_preferences",
        __doc__,
        data=(..., "folder with clips"),
        frames=(FRAMES, "most of a clip"),
        write=(False, "write core/character/recorded.py"),
    ).parse_args()
    with add_on():
        found = [clip for _, clip in read(options.data, options.frames)]
    if not found:
        progress(f"{options.data}: no clip of a human figure")
        return 1
    text = module(fitted(found), found)
    if options.write:
        Path(recorded.__file__).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0
