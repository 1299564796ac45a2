# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the examples beside this do what they say; a test runs it where the library is installed.

python check_examples.py
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import bvh_to_figure
import figure
import hands_and_feet
import live_loop
import motion
import numpy as np
import planar_arm
import why_missed
from poise_ik import IKError, Pose, __version__, forward_kinematics
from poise_ik.io import Clip, read_bvh, write_bvh
from poise_ik.plot import plot_pose

MILLIMETRE = 1e-3


def planar_arms() -> None:
    """A place in reach is reached; one beyond is missed by what it lies beyond the length of the arm."""
    assert planar_arm.reach((0.7, 0.5)).reached
    far = planar_arm.reach((1.5, 0.0))
    assert not far.reached and abs(far.errors[0].error - 0.4) < MILLIMETRE


def hands_and_feets() -> None:
    """Everything is met inside the limits."""
    problem, solution = hands_and_feet.lift()
    assert solution.reached, solution
    skeleton, channels = problem.skeleton, solution.pose.channels
    assert (channels >= skeleton.lower).all() and (channels <= skeleton.upper).all()


def motions() -> None:
    """The hand is on its circle, nothing pops, and the loop closes."""
    problem, solved = motion.circle()
    assert solved.reached and not solved.branches
    assert np.abs(solved.pose.channels[0] - solved.pose.channels[-1]).max() < 1e-3
    with TemporaryDirectory() as folder:
        path = Path(folder) / "circle.bvh"
        write_bvh(path, Clip(problem.skeleton, solved.pose, 1.0 / motion.RATE), scale=0.01)
        assert len(read_bvh(path).pose) == motion.FRAMES


def live_loops() -> None:
    """Both follow, and are off where the target is out of reach."""
    for loop in (live_loop.tracked, live_loop.followed):
        _, errors = zip(*loop(), strict=True)
        assert max(errors[:20]) < MILLIMETRE and errors[-1] > 0.1


def reasons() -> None:
    """Each case is missed for its reason."""
    found = {name: why.reason.name for name, why in why_missed.reasons().items()}
    assert found == {
        "out of reach": "OUT_OF_REACH",
        "at limits": "LIMITS",
        "higher priority": "PRECEDENCE",
        "shared priority": "SHARED",
    }


def clips() -> None:
    """A clip of a smaller figure, y up as most are, moves the figure as much larger."""
    small = figure.figure(0.5)
    frames = 8
    channels = np.zeros((frames, len(small), 6))
    channels[:, 0, 1] = np.linspace(0.0, -0.1, frames)
    for side in (".L", ".R"):
        channels[:, small.index("thigh" + side), 3] = -0.3
        channels[:, small.index("shin" + side), 3] = 0.6
    channels[:, 0, 2] = -0.02
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("small.bvh", "large.bvh")]
        write_bvh(paths[0], Clip(small, Pose.from_channels(channels), 1 / 12), scale=0.01)
        bvh_to_figure.main([*paths, "--up", "Z"])
        found = read_bvh(paths[1], scale=0.01)
    feet = forward_kinematics(found.skeleton, found.pose).point("foot.L")
    assert np.allclose(feet[-1] - feet[0], [0.0, -0.2, 0.0], atol=0.01), feet[-1] - feet[0]


def pictures() -> None:
    """Without matplotlib it is said what is missing, and how to get it."""
    sys.modules["matplotlib"] = None  # pyright: ignore[reportArgumentType]
    skeleton = planar_arm.arm()
    try:
        plot_pose(skeleton, Pose.rest(skeleton))
    except IKError as error:
        assert str(error) == "pictures need matplotlib: pip install poise_ik[plot]"
    else:
        raise AssertionError("no error")
    finally:
        del sys.modules["matplotlib"]


if __name__ == "__main__":
    for example in (planar_arms, hands_and_feets, motions, live_loops, reasons, clips, pictures):
        example()
    assert not {"bpy", "blender_ik_addon"} & set(sys.modules)
    print(__version__)
