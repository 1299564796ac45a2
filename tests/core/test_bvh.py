# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH files as skeletons and poses, and what the motion report tells from them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import human, motion, recordings
from benchmarks.bvh import BvhError, guess_unit, parse_bvh, read_bvh
from blender_ik_addon.core import Pose, forward_kinematics
from tests.core.in_turn import in_turn

TEXT = """\
HIERARCHY
ROOT Hips
{
  OFFSET 1.0 20.0 -3.0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Left Thigh
  {
    OFFSET 2.0 -1.0 0.5
    CHANNELS 3 Zrotation Xrotation Yrotation
    JOINT Shin
    {
      OFFSET 0.0 -8.0 0.25
      CHANNELS 1 Xrotation
      End Site
      {
        OFFSET 0.0 -9.0 1.5
      }
    }
  }
  JOINT Spine
  {
    OFFSET 0.0 6.0 0.0
    CHANNELS 3 Yrotation Xrotation Zrotation
    End Site
    {
      OFFSET 0.0 5.0 0.0
    }
  }
}
MOTION
Frames: 3
Frame Time: 0.04
0 0 0 0 0 0 0 0 0 0 0 0 0
1.5 22.0 -2.0 10 20 30 40 50 60 70 80 -90 100
-4.0 19.0 7.0 -170 85 95 15 -120 33 -5 -40 170 12.5
"""

UNIT = 0.02


def turn(axis: str, degrees: float) -> np.ndarray:
    """Elementary rotation, (3, 3)."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return {
        "X": np.array([[1, 0, 0], [0, c, -s], [0, s, c]]),
        "Y": np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]),
        "Z": np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]),
    }[axis]


def place(text: str, frame: int) -> dict[str, np.ndarray]:
    """Places of all joints of TEXT in a frame, from the file's numbers alone and in its unit."""
    values = iter(text.split("Frame Time: 0.04\n")[1].splitlines()[frame].split())
    places: dict[str, np.ndarray] = {}
    stack: list[tuple[np.ndarray, np.ndarray]] = [(np.eye(3), np.zeros(3))]  # rotation, place
    name, offset = "", np.zeros(3)
    for line in text.split("MOTION")[0].splitlines():
        words = line.split()
        if words[0] in ("ROOT", "JOINT", "End"):
            name = "end of " + name if words[0] == "End" else " ".join(words[1:])
        elif words[0] == "OFFSET":
            offset = np.array(words[1:], dtype=float)
            if name.startswith("end"):
                places[name] = stack[-1][1] + stack[-1][0] @ offset
                stack.append(stack[-1])
        elif words[0] == "CHANNELS":
            rotation, moved = stack[-1][0], np.array(offset)
            local = np.eye(3)
            for channel in words[2:]:
                value = float(next(values))
                if channel.endswith("position"):
                    moved["XYZ".index(channel[0])] = value
                else:
                    local = local @ turn(channel[0], value)
            stack.append((rotation @ local, stack[-1][1] + rotation @ moved))
            places[name] = stack[-1][1]
        elif words[0] == "}":
            stack.pop()
    return places


def test_places_are_those_of_the_file():
    clip = parse_bvh(TEXT, metres_per_unit=UNIT)
    posed = forward_kinematics(clip.skeleton, clip.pose)
    assert clip.skeleton.names == ("Hips", "Left Thigh", "Shin", "Spine")
    for frame in range(3):
        wanted = place(TEXT, frame)
        for joint, name in enumerate(clip.skeleton.names):
            assert np.allclose(posed.matrices[frame, joint, :3, 3], UNIT * wanted[name], rtol=0, atol=1e-12)
        for name, end in clip.ends.items():
            matrix = posed.matrices[frame, clip.skeleton.index(name)]
            assert np.allclose(
                matrix[:3, :3] @ end + matrix[:3, 3], UNIT * wanted["end of " + name], rtol=0, atol=1e-12
            )


def test_what_a_file_says_of_its_channels_is_kept():
    clip = parse_bvh(TEXT, metres_per_unit=UNIT)
    assert len(clip) == 3
    assert clip.frame_time == 0.04
    assert clip.skeleton.free.tolist() == [
        [True] * 6,
        [False] * 3 + [True] * 3,
        [False] * 3 + [True, False, False],
        [False] * 3 + [True] * 3,
    ]
    assert len(clip.every(2)) == 2
    assert clip.every(2).frame_time == 0.08
    assert np.array_equal(clip.every(2).pose.channels[1], clip.pose.channels[2])


def test_lines_may_end_as_in_windows_and_tabs_may_separate():
    other = parse_bvh(TEXT.replace(" ", "\t").replace("Left\tThigh", "Left Thigh").replace("\n", "\r\n"))
    assert np.array_equal(other.pose.channels, parse_bvh(TEXT).pose.channels)


@in_turn(
    ("height", "metres", "said"),
    [
        (1.75, 1.0, "metres"),
        (168.0, 0.01, "centimetres"),
        (16.5, 0.1, "decimetres"),
        (64.0, 0.0254, "inches"),
        (27.0, 0.0254 / 0.45, "CMU"),
        (1700.0, 0.001, "millimetres"),
        (43.0, 1.7 / 43.0, "1.7 m"),
    ],
)
def test_the_unit_is_the_one_in_which_the_figure_is_as_high_as_a_human(height, metres, said):
    guessed, sentence = guess_unit(height)
    assert guessed == pytest.approx(metres)
    assert said in sentence


@in_turn(
    ("old", "new", "message"),
    [
        ("HIERARCHY", "<bvh>", "line 1: a BVH file begins with HIERARCHY"),
        ("ROOT Hips", "JOINT Hips", "line 2: JOINT outside of any root"),
        ("JOINT Spine", "ROOT Spine", "ROOT inside another joint"),
        ("JOINT Spine", "JOINT Shin", "line 20: a second joint 'Shin'"),
        ("JOINT Spine", "JOINT", "a joint without a name"),
        ("JOINT Spine", "BONE Spine", "expected ROOT, JOINT, End Site.*'BONE Spine'"),
        ("OFFSET 0.0 6.0 0.0", "OFFSET 0.0 6.0", "line 22: OFFSET needs 3 finite numbers, got: 0.0 6.0"),
        ("OFFSET 0.0 6.0 0.0", "OFFSET 0.0 six 0.0", "not a number"),
        ("    OFFSET 0.0 6.0 0.0\n", "", "line 20: joint 'Spine' has no OFFSET"),
        ("CHANNELS 1 Xrotation", "CHANNELS 2 Xrotation", "CHANNELS needs their number"),
        ("CHANNELS 1 Xrotation", "CHANNELS 1 Wrotation", "unknown channel 'Wrotation'; known are Xposition"),
        ("CHANNELS 1 Xrotation", "CHANNELS 2 Xrotation Xrotation", "Xrotation stands twice"),
        ("}\nMOTION", "MOTION", "1 braces are still open"),
        ("}\nMOTION", "}\n}\nMOTION", "closes that was never opened"),
        ("Frames: 3", "Frames: many", "expected 'Frames:'"),
        ("Frames: 3", "Frames: 4", "the file says 4 frames and has 3"),
        ("Frame Time: 0.04", "Frame Time: nan", "Frame Time needs 1 finite numbers"),
        ("70 80 -90 100\n", "70 80 -90\n", "line 34: a frame needs 13 finite numbers.*got 12"),
        ("70 80 -90 100\n", "70 80 -90 x\n", "line 34: a frame has something that is not a number"),
    ],
)
def test_a_broken_file_is_told_with_its_line(old, new, message):
    assert old in TEXT
    with pytest.raises(BvhError, match=message):
        parse_bvh(TEXT.replace(old, new, 1), "broken.bvh")


@in_turn("lines", [0, 1, 5, 12, 27, 29, 30])
def test_a_file_that_ends_too_early_is_told_and_named(lines):
    with pytest.raises(BvhError, match=re.escape("short.bvh")):
        parse_bvh("\n".join(TEXT.splitlines()[:lines]), "short.bvh")


def figure_text(frames: int = 24) -> str:
    """A figure with hands that lifts an arm and a leg, elbow and knee bending as a human's do."""
    lines = ["HIERARCHY"]
    columns: list[str] = []

    def joint(name: str, offset: tuple[float, float, float], *children, keyword: str = "JOINT") -> None:
        channels = "Xposition Yposition Zposition " if keyword == "ROOT" else ""
        columns.append(name)
        count = 6 if channels else 3
        lines.extend([f"{keyword} {name}", "{", "OFFSET {} {} {}".format(*offset)])
        lines.append(f"CHANNELS {count} {channels}Zrotation Xrotation Yrotation")
        for child in children:
            joint(*child)
        if not children:
            lines.extend(["End Site", "{", "OFFSET 0 0 5", "}"])
        lines.append("}")

    def limbs(side: str, x: float) -> list[tuple]:
        leg = (f"{side}Leg", (0, -42, 0), (f"{side}Foot", (0, -40, 0)))
        return [(f"{side}UpLeg", (x, -2, 0), leg)]

    def arms(side: str, x: float) -> tuple:
        hand = (f"{side}ForeArm", (28 * x, 0, 0), (f"{side}Hand", (25 * x, 0, 0)))
        return (f"{side}Arm", (18 * x, 20, 0), hand)

    head = ("Neck", (0, 25, 0), ("Head", (0, 10, 0)))
    joint(
        "Hips",
        (0, 90, 0),
        *limbs("Left", 9.0),
        *limbs("Right", -9.0),
        ("Spine", (0, 20, 0), head, arms("Left", 1.0), arms("Right", -1.0)),
        keyword="ROOT",
    )
    lines += ["MOTION", f"Frames: {frames}", "Frame Time: 0.0333"]
    for frame in range(frames):
        phase = np.sin(np.pi * frame / (frames - 1))
        turns = {
            "LeftArm": (-60 * phase, 0, 0),  # Z, X, Y as in the file
            "LeftForeArm": (0, 0, -80 * phase),
            "LeftUpLeg": (0, -50 * phase, 0),
            "LeftLeg": (0, 70 * phase, 0),
        }
        row = [5 * phase, 90 + 3 * phase, 0.0]
        for name in columns:
            row += turns.get(name, (0, 0, 0))
        lines.append(" ".join(f"{value:.6f}" for value in row))
    return "\n".join(lines) + "\n"


def test_parts_of_the_body_are_found_by_name_and_missing_ones_named():
    clip = parse_bvh(figure_text())
    roles, names = human.roles_of(clip), clip.skeleton.names
    assert roles.hands is not None
    parts = (roles.feet, roles.knees, roles.elbows, roles.hands)
    assert [tuple(names[joint] for joint in pair) for pair in parts] == [
        (f"Left{part}", f"Right{part}") for part in ("Foot", "Leg", "ForeArm", "Hand")
    ]
    assert names[roles.head] == "Head"
    with pytest.raises(human.RoleError, match="no elbow among Hips"):
        human.roles_of(parse_bvh(figure_text().replace("ForeArm", "Spoke")))


def test_other_axes_leave_every_joint_where_it_is_and_bend_as_a_human_does():
    clip = parse_bvh(figure_text())
    roles = human.roles_of(clip)
    figure = human.human_preferences(clip, roles)
    same = figure.skeleton.armature_from_joint_rest[:, :3, 3]
    assert np.allclose(same, clip.skeleton.armature_from_joint_rest[:, :3, 3], rtol=0, atol=1e-12)
    bent = np.zeros((len(clip.skeleton), 6))
    bent[[*roles.elbows, *roles.knees], 3] = np.radians(60.0)
    posed = forward_kinematics(figure.skeleton, Pose.from_channels(bent)).matrices[:, :3, 3]
    assert roles.hands is not None
    moved = posed - same
    assert (moved[list(roles.hands), 2] > 0.1).all()  # the figure looks along +z
    assert (moved[list(roles.feet), 2] < -0.1).all()
    assert np.allclose(moved[[*roles.hands, *roles.feet], 1] >= -1e-9, True)
    lower = figure.skeleton.lower[[*roles.elbows, *roles.knees], 3]
    assert np.allclose(lower, 0.0, atol=1e-9)


def test_a_motion_is_followed_and_the_report_says_so(tmp_path: Path):
    (tmp_path / "a_walk.bvh").write_text(figure_text(), encoding="utf-8")
    (tmp_path / "pose.bvh").write_text(figure_text(2), encoding="utf-8")
    (tmp_path / "index.json").write_text(json.dumps([{"file": "x/pose.bvh", "note": "kick"}]))
    (source,) = recordings.find_clips(tmp_path)
    assert (source.kind, source.name) == ("walk", "a_walk.bvh")
    row = recordings.measure(source, recordings.read(source, 6))
    assert row.frames == 6
    assert row.missed == 0
    assert row.worst_place < 0.2
    assert row.worst_turn < 0.1
    assert row.knees < 2.0
    assert row.largest_step < 3.0 * row.recorded_step
    assert row.jumps == 0
    assert row.pops == 0
    assert row.clip in motion.markdown([row], [], {"frames of a comparison": 0}, "scripts/motion", None)


def test_steps_are_turns_in_the_parent():
    clip = parse_bvh(TEXT.replace("0 0 0 0 0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 5 0 0 0 0 0 0"))
    steps = recordings.joint_steps(clip.skeleton, forward_kinematics(clip.skeleton, clip.pose).matrices)
    spine = turn("Y", 80) @ turn("X", -90) @ turn("Z", 100)
    assert steps.shape == (2, 4)
    assert steps[0, 2] == pytest.approx(70.0)
    assert steps[0, 3] == pytest.approx(np.degrees(np.arccos((np.trace(spine) - 1) / 2)))


def test_a_joint_jumps_when_it_turns_far_and_nothing_recorded_does():
    theirs = np.array([[2.0, 1.0], [20.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    ours = np.array([[2.0, 26.0], [2.0, 50.0], [20.0, 1.0], [1.0, 170.0]])
    assert recordings.jumps_of(ours, theirs) == [1, 4]


def test_a_file_is_read_from_disk(tmp_path: Path):
    (tmp_path / "clip.bvh").write_text(TEXT, encoding="utf-8")
    assert read_bvh(tmp_path / "clip.bvh").skeleton.names == parse_bvh(TEXT).skeleton.names
