# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiments of the papers: their key figures, through the functions that write docs/measured/papers.md."""

import dataclasses
import json
from math import inf

import numpy as np
import pytest

from benchmarks.papers import buss, chung_choi, joint_limits, ki_sheen, page, soch_lorencz
from benchmarks.papers.findings import Chapter, Check, Finding
from benchmarks.papers.linkages import Linkage, follow
from tests.core.in_turn import in_turn

# ---------------------------------------------------------------- linkages


def tips_by_hand(angles, parents, effectors):
    """Of links of length 1, as the papers write it: sums of cosines and sines of summed angles."""
    world, ends = np.zeros(len(parents)), np.zeros((len(parents), 2))
    for link, parent in enumerate(parents):
        world[link] = angles[link] + (world[parent] if parent >= 0 else 0.0)
        ends[link] = ends[parent] * (parent >= 0) + (np.cos(world[link]), np.sin(world[link]))
    return ends[list(effectors)]


def test_planar_tree_is_that_of_the_formulas():
    linkage = ki_sheen.eleven((8, 5, 10, 1))
    angles = np.random.default_rng(1).uniform(-3.0, 3.0, (2, 11))
    expected = [tips_by_hand(values, ki_sheen.ELEVEN, (8, 5, 10, 1)) for values in angles]
    np.testing.assert_allclose(linkage.at(angles).tips, expected, atol=1e-12)


def spatial():
    """Hinges about several axes, one of them against z, that branch after the second."""
    axes = np.array([[0.0, 0.0, -1.0], [0.6, 0.0, 0.8], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    places = np.array([[0.0, 0.1, 0.0], [0.0, 1.0, 0.2], [0.5, 1.5, 0.0], [-0.5, 1.5, 0.3]])
    return Linkage((-1, 0, 1, 1), places, [(2, (1.0, 2.0, 0.1)), (3, (-1.0, 2.0, 0.0))], axes)


def test_joints_and_effectors_are_at_zero_where_they_were_put():
    placed = spatial().at(np.zeros(4))
    np.testing.assert_allclose(placed.tips[0], [(1.0, 2.0, 0.1), (-1.0, 2.0, 0.0)], atol=1e-12)
    np.testing.assert_allclose(placed.joints[0, 3], (-0.5, 1.5, 0.3), atol=1e-12)


def test_a_hinge_turns_about_its_axis_by_the_right_hand():
    placed = spatial().at([[0.5 * np.pi, 0.0, 0.0, 0.0]])
    # About −z through (0, 0.1): (x, y) goes to (y, −x).
    np.testing.assert_allclose(placed.tips[0, 0], (1.9, 0.1 - 1.0, 0.1), atol=1e-12)


@pytest.mark.parametrize("linkage", [ki_sheen.eleven(), spatial()], ids=["planar", "spatial"])
def test_derivatives_of_a_linkage_are_central_differences(linkage):
    rng, step = np.random.default_rng(2), 1e-6
    angles = rng.uniform(-2.0, 2.0, len(linkage))
    forces = rng.normal(size=linkage.at(angles).tips.shape)
    shifts = step * np.eye(len(linkage))
    tips = (linkage.at(angles + shifts).tips - linkage.at(angles - shifts).tips) / (2.0 * step)
    np.testing.assert_allclose(linkage.at(angles).jacobian[0], np.moveaxis(tips, 0, -1), atol=1e-8)
    slopes = (linkage.at(angles + shifts).jacobian - linkage.at(angles - shifts).jacobian) / (2.0 * step)
    bend = np.einsum("ed,vedw->vw", forces[0], slopes)
    np.testing.assert_allclose(linkage.at(angles).bend(forces)[0], bend, atol=1e-7)


def test_links_end_where_the_effectors_are():
    linkage = ki_sheen.nine()
    angles = np.random.default_rng(3).uniform(-2.0, 2.0, (2, 9))
    placed = linkage.at(angles)
    for frame in (0, 1):
        lines = placed.links(frame)
        assert len(lines) == 10  # every link once, and link 3 to both of its branches
        np.testing.assert_allclose([lines[-2][1], lines[-1][1]], placed.tips[frame], atol=1e-12)
        np.testing.assert_allclose([np.linalg.norm(line[1] - line[0]) for line in lines], 1.0, atol=1e-12)


def test_a_walk_reports_distances_after_its_steps():
    linkage = Linkage.planar([1.0], (-1,), (0,))
    walked = follow(
        linkage, [0.0], np.array([[[0.0, 1.0]]]), lambda placed, error, angles: np.array([0.5 * np.pi])
    )
    assert walked.distances[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert walked.steps[0] == pytest.approx(0.5 * np.pi)


# ---------------------------------------------------------------- the papers


def assert_reproduced(finding):
    assert finding.checks
    assert finding.faults == []
    json.dumps(dataclasses.asdict(finding.checks[0]))  # as --json writes it


def test_table_1_of_ki_and_sheen_to_the_printed_digits():
    finding = ki_sheen.table_finding()
    assert_reproduced(finding)
    assert [row[0] for row in finding.table[1:]] == ["0.1", "0.25", "1.5", "10"]


def test_a_digit_that_is_printed_wrong_is_found(monkeypatch):
    figure, c, s1, s4, condition, lower, (upper, unit) = ki_sheen.PRINTED[0]
    wrong = (figure, c, s1, s4, condition, lower, (upper + 3 * unit, unit))
    monkeypatch.setattr(ki_sheen, "PRINTED", (wrong, *ki_sheen.PRINTED[1:]))
    assert len(ki_sheen.table_finding().faults) == 1


def test_several_effectors_of_ki_and_sheen():
    findings = ki_sheen.several_findings()
    assert len(findings) == 4
    for finding in findings:
        assert_reproduced(finding)


def test_damping_and_limits_of_ki_and_sheen():
    runs = {c: ki_sheen.damped_run(c) for _, c, *_ in ki_sheen.PRINTED}
    assert_reproduced(ki_sheen.damping_finding(runs))
    assert_reproduced(ki_sheen.limits_finding(runs[ki_sheen.LIMIT_DAMPING]))


def test_path_to_the_target_of_ki_and_sheen():
    straight, at_once = ki_sheen.solve_path(0.0, ki_sheen.PATH_POINTS), ki_sheen.solve_path(0.0, 0)
    assert straight.detour < at_once.detour
    assert straight.miss < 1e-6 > at_once.miss
    np.testing.assert_allclose(straight.tips[1:], straight.targets, atol=1e-6)
    way = np.concatenate([straight.tips[:1], straight.targets])
    turns = np.diff(np.arctan2(way[:, 1], way[:, 0]))
    np.testing.assert_allclose(turns, turns[0], atol=1e-9)
    along = way - way[0]
    np.testing.assert_allclose(along[:, 0] * along[-1, 1] - along[:, 1] * along[-1, 0], 0.0, atol=1e-9)


def test_brackets_of_chung_and_choi():
    linkage = chung_choi.arm()
    springs, plain = chung_choi.springs(linkage), chung_choi.plain(linkage)
    for start, (_, printed) in zip(np.radians(chung_choi.STARTS), chung_choi.PRINTED_BRACKETS, strict=True):
        assert chung_choi.bracket(plain, start) == pytest.approx(printed, abs=chung_choi.NEAR_BRACKET)
        assert abs(chung_choi.bracket(springs, start)) < chung_choi.NO_BRACKET


def test_drift_of_chung_and_choi():
    linkage = chung_choi.arm()
    control = chung_choi.plain(linkage)
    coarse, fine = (np.degrees(chung_choi.go_round(control, steps=steps)) for steps in (25, 50))
    plain = 2.0 * fine - coarse  # Euler's error goes with the step
    np.testing.assert_allclose(plain[-1] - plain[0], chung_choi.PRINTED_PLAIN, atol=chung_choi.NEAR)
    # The springs' drift is that of the Euler step: a cycle in steps ten times as long is as far as ten.
    springs = np.degrees(chung_choi.go_round(chung_choi.springs(linkage), cycles=1, steps=100))
    assert np.abs(springs[-1] - springs[0]).max() < chung_choi.SPRING_DRIFT


def test_springs_of_chung_and_choi_need_no_regularisation():
    least, along = chung_choi.stability(chung_choi.arm())
    assert (least < 0.0).all()
    assert (along > 0.05).all()


def test_stretched_chain_of_soch_and_lorencz():
    assert_reproduced(
        soch_lorencz.recovery_finding(
            soch_lorencz.walk(soch_lorencz.inversion), soch_lorencz.walk(soch_lorencz.extended())
        )
    )


def random_question(seed, pressing):
    """A step in a box so narrow that about `pressing` joints end on a limit."""
    rng = np.random.default_rng(seed)
    jacobian, error = rng.normal(size=(4, 6)), rng.normal(size=4)
    free = joint_limits.Question(jacobian, error, np.full(6, -inf), np.full(6, inf))
    wanted = np.linalg.solve(free.hessian, -free.slope)
    room = np.where(np.arange(6) < pressing, 0.5, 2.0) * np.abs(wanted) + 1e-3
    return joint_limits.Question(jacobian, error, -room, room)


@in_turn("seed", range(4))
@in_turn(
    ("way", "within"),
    [
        (joint_limits.one_at_its_limit, 1e-9),
        (joint_limits.new_variables, 1e-7),
        (joint_limits.penalty(1e9), 1e-6),
        (joint_limits.barrier(1e-10), 1e-4),
    ],
)
def test_ways_to_hold_a_limit_agree_where_one_joint_rests(way, within, seed):
    question = random_question(seed, 1)
    exact = joint_limits.exact(question)
    assert question.pressed(exact).sum() == 1
    answer = way(question).change
    assert answer is not None
    np.testing.assert_allclose(answer, exact, atol=within)


def test_optimality_of_a_bounded_step_is_measured(monkeypatch):
    asked = [random_question(seed, 3) for seed in range(4)]
    assert joint_limits.optimality(asked) < 1e-10
    monkeypatch.setattr(joint_limits, "exact", lambda question: 0.9 * question.upper)
    assert joint_limits.optimality(asked) > 1e-3


def arm_file(path, reference):
    """A file as Buss's, with one arm of two hinges that can reach its targets, for both trees."""
    nodes = [
        {"id": 0, "parent": None, "attach": [0.0, 0.0, 0.0], "axis": [0.0, 0.0, 1.0], "purpose": "hinge"},
        {"id": 1, "parent": 0, "attach": [1.0, 0.0, 0.0], "axis": [0.0, 0.0, 1.0], "purpose": "hinge"},
        {"id": 2, "parent": 1, "attach": [1.5, 0.5, 0.0], "axis": None, "purpose": "effector"},
    ]
    targets = [{"centre": [1.2, 0.6, 0.0], "amp": [0.2, 0.1, 0.0], "freq": [4, 5, 6]}]
    runs = [
        {
            "tree": tree,
            "method": "DLS lambda 0.6",
            "iters_per_step": 1,
            "warm": 5,
            "steps": 20,
            "total": reference,
        }
        for tree in ("Y", "doubleY")
    ]
    tree = {"nodes": nodes, "targets": targets}
    path.write_text(
        json.dumps({"Y": tree, "doubleY": tree, "protocol": {"reference_runs": runs}}), encoding="utf-8"
    )
    return path


def test_runs_of_buss_are_compared_with_the_file(tmp_path):
    experiment, _ = buss.load(arm_file(tmp_path / "arm.json", 1.0))
    method = next(method for method in buss.METHODS if method.name == "DLS, λ = 0.6")
    errors = buss.errors_of(experiment, method, runs=2)
    assert errors.shape == (20, 2)
    assert np.ptp(errors.sum(axis=1).reshape(-1)) > 0.0
    assert experiment.reference(method) == 1.0
    total = float(errors[:, 0].sum())
    for reference, holds in ((total, True), (1.2 * total, False)):
        again, _ = buss.load(arm_file(tmp_path / "arm.json", reference))
        check = buss.finding(again, buss.METHODS).checks[0]
        assert check.holds is holds


def test_errors_are_clamped_only_after_the_first_step(tmp_path):
    experiment, _ = buss.load(arm_file(tmp_path / "arm.json", 1.0))
    seen = []

    def rule(jacobian, errors):
        seen.append(float(np.linalg.norm(errors[0])))
        return np.zeros((len(errors), 2))

    buss.errors_of(experiment, buss.Method("still", rule, "", inf, 0.05), runs=1)
    assert seen[0] > 0.3
    np.testing.assert_allclose(seen[1:], 0.05)  # nothing came nearer


def test_a_file_that_is_not_of_buss_is_refused(tmp_path):
    path = tmp_path / "other.json"
    for content in ("{}", "no json", '{"Y": {}}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"other\.json does not hold Buss's trees"):
            buss.load(path)


# ---------------------------------------------------------------- the page


def test_verdicts_are_those_of_the_checks():
    good, bad, theirs = Check("a", True), Check("b", False), Check("c", False, required=False)
    assert Finding("t", "c", (good,)).verdict == "holds: a."
    assert Finding("t", "c", (good, bad)).verdict == "holds in part: a. **Not**: b."
    assert Finding("t", "c", (bad,)).verdict == "does **not** hold: b."
    finding = Finding("t", "c", (good, bad, theirs))
    assert not finding.holds
    assert finding.faults == ["b"]


def test_the_page_says_what_was_left_out():
    found = [
        Chapter(
            "A: b", "About.", (Finding("F", "It is.", (Check("1 is 1", True),), "Ours.", (("x",), ("1",))),)
        )
    ]
    text = page.page([*found, Chapter("B: c", page.LEFT_OUT, ())], "scripts/papers", "papers")
    assert "| A | F | yes |" in text
    assert "*Here* it holds: 1 is 1." in text
    assert "| x |\n| --- |\n| 1 |" in text
    assert "| B | left out | – |" in text
    assert "--data-buss FILE` runs this part" in text
