# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's scenario on some of its frames: a character steps up to a table and reaches for a cup."""

from dataclasses import replace

import bpy
import numpy as np
import pytest

from examples import table_reach

FRAMES = (1, 20, 42, 59, 76, 98, 114, 140, 160, 178, 204, 250)
"""Of the 250: rest, lift-off and landing, swing, and the reach."""
STRETCHED = (1, 98, 140, 160, 178)


@pytest.fixture(scope="module")
def near(addon: None) -> table_reach.Result:
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    _, results = table_reach.run(FRAMES, methods=("PRIORITY",))
    return results["PRIORITY"]


def test_priority_brings_every_effector_to_its_target(near: table_reach.Result) -> None:
    measured = near.measured
    assert measured.names == ("foot.L", "foot.R", "hips", "hand.L", "hand.R", "head")
    assert np.isnan(measured.distances[:, -1]).all()  # of the head only the orientation is asked for
    assert measured.distances[:, :-1].max() < 1e-3
    assert measured.angles.max() < np.radians(0.1)
    assert measured.foot_shift() < 1e-4
    assert table_reach.failures(near, far=False) == []


def test_what_the_report_says_is_what_blender_shows(near: table_reach.Result) -> None:
    # Single precision: a matrix knows places 2 m from the origin to some 1e-7 m.
    assert near.report.frames == near.measured.frames
    assert near.report.names == near.measured.names
    np.testing.assert_allclose(near.report.position_errors, near.measured.distances, rtol=0.0, atol=2e-6)
    np.testing.assert_allclose(near.report.rotation_errors, near.measured.angles, rtol=0.0, atol=1e-5)


def test_the_figure_walks_as_people_do(near: table_reach.Result) -> None:
    measured = near.measured

    def places(bone: str) -> np.ndarray:
        return measured.world_from_bone[:, measured.bones.index(bone), :3, 3]

    assert places("spine")[-1, 1] < places("spine")[0, 1] - 1.0  # a metre forward, which is -y
    for side in "LR":
        hip, knee, ankle = places(f"thigh.{side}"), places(f"shin.{side}"), places(f"foot.{side}")
        assert (knee[:, 1] < (hip + ankle)[:, 1] / 2.0).all()  # knees bend forward
        assert (ankle[:, 2] > ankle[0, 2] - 2e-3).all()  # no foot goes through the floor


def test_a_reach_for_too_much_does_not_move_the_feet() -> None:
    _, results = table_reach.run(STRETCHED, far=True, methods=("PRIORITY",))
    assert table_reach.failures(results["PRIORITY"], far=True) == []


def test_each_method_gets_an_action_of_its_own_and_the_first_one_stays() -> None:
    figure, results = table_reach.run((1, 2), methods=("PRIORITY", "DLS"))
    assert list(results) == ["PRIORITY", "DLS"]
    assert figure.animation_data.action.name == "Figure PRIORITY"
    assert {action.name for action in bpy.data.actions} >= {"Figure PRIORITY", "Figure DLS"}


def test_the_progress_line_is_quiet_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = table_reach.ProgressBar("PRIORITY")
    for part in range(751):
        bar(part / 750)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11
    assert lines[-1].endswith("100 %")


def test_a_miss_is_found(near: table_reach.Result) -> None:
    distances, angles = near.measured.distances.copy(), near.measured.angles.copy()
    distances[3, 4], angles[5, 5] = 0.002, np.nan
    missed = replace(near, measured=replace(near.measured, distances=distances, angles=angles))
    sentences = table_reach.failures(missed, far=False)
    assert len(sentences) == 2
    assert "hand.R" in sentences[0]
    assert "head" in sentences[1]
