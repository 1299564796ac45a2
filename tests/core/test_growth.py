# SPDX-License-Identifier: GPL-3.0-or-later
"""Growth is measured on rigs that differ in what they shall differ in; counts instead of clocks."""

import dataclasses

import numpy as np
import pytest

from benchmarks import growth
from benchmarks.growth import Case, Measure
from blender_ik_addon.core import Pose, Problem, ReachPoint, forward_kinematics, solve_sequence
from tests.core.in_turn import in_turn


def solved(bones, effectors, frames, *, preferred=True):
    skeleton, tips = growth.rig(bones, effectors, preferred=preferred)
    places = growth.targets(skeleton, tips, frames, np.random.default_rng(1))
    tasks = tuple(
        ReachPoint(joint=joint, point=point, target=places[:, number])
        for number, (joint, point) in enumerate(tips)
    )
    poses = Pose.rest(skeleton, (frames,))
    return solve_sequence(Problem(skeleton, tasks), poses, tolerance_position=growth.TOLERANCE)


@in_turn(("bones", "effectors"), [(2, 1), (10, 4), (11, 3), (130, 64), (1000, 4)])
def test_rigs_have_the_bones_asked_for_evenly(bones, effectors):
    spine, limbs = growth.limb_lengths(bones, effectors)
    assert spine + sum(limbs) == bones
    assert set(limbs) <= {spine, spine + 1}
    skeleton, tips = growth.rig(bones, effectors)
    assert len(skeleton) == bones
    assert len({joint for joint, _ in tips}) == effectors
    assert np.isin([skeleton.index(joint) for joint, _ in tips], skeleton.parents).sum() == 0


@in_turn(("bones", "effectors"), [(2, 1), (10, 1), (101, 1), (100, 4)])
def test_rigs_of_any_number_of_bones_are_two_metres_long(bones, effectors):
    skeleton, tips = growth.rig(bones, effectors)
    lengths = np.linalg.norm(skeleton.rest[:, :3, 3], axis=1)
    joint, point = tips[-1]  # on a limb that leaves from the top
    along, number = float(np.linalg.norm(point)), skeleton.index(joint)
    while number >= 0:
        along, number = along + lengths[number], skeleton.parents[number]
    assert along == pytest.approx(growth.REACH)


def test_more_effectors_than_bones_are_refused():
    with pytest.raises(ValueError, match="64 effectors need at least 65 bones, there are 64"):
        growth.rig(64, 64)


def test_without_preferred_pose_no_channel_has_one():
    assert np.isnan(growth.rig(5, 2, preferred=False)[0].preferred).all()
    assert not np.isnan(growth.rig(5, 2)[0].preferred).any()


def test_targets_start_at_rest_move_smoothly_and_do_not_depend_on_how_they_are_drawn(monkeypatch):
    skeleton, tips = growth.rig(20, 3)
    places = growth.targets(skeleton, tips, 30, np.random.default_rng(2))
    matrices = forward_kinematics(skeleton, Pose.rest(skeleton)).matrices
    rest = [
        matrices[skeleton.index(joint), :3, :3] @ point + matrices[skeleton.index(joint), :3, 3]
        for joint, point in tips
    ]
    assert np.allclose(places[0], rest, rtol=0.0, atol=1e-12)
    assert np.linalg.norm(np.diff(places, axis=0), axis=-1).max() < 0.1  # [m] in a frame
    monkeypatch.setattr(growth, "PLACED_AT_ONCE", 7)
    assert np.array_equal(places, growth.targets(skeleton, tips, 30, np.random.default_rng(2)))


@in_turn("preferred", [True, False])
def test_iterations_do_not_grow_with_bones_or_effectors(preferred):
    most = {}
    for bones, effectors in ((9, 2), (27, 2), (27, 8)):
        solution = solved(bones, effectors, 6, preferred=preferred)
        assert solution.reached
        most[bones, effectors] = int(np.median(solution.iterations))
    assert max(most.values()) <= 8, most


def test_a_further_frame_of_the_result_has_one_size():
    sizes = [growth.size_of(solved(4, 1, frames)) for frames in (4, 6, 8)]
    assert sizes[0] < sizes[1] < sizes[2]
    # Messages may differ in length, arrays do not.
    channels = 4 * 9 * 8  # bones, channels and scale, bytes
    assert (sizes[2] - sizes[0]) / 4 >= channels


def test_size_counts_what_is_shared_once():
    array = np.zeros(1000)
    pair = (array, array[10:])
    assert growth.size_of(pair) == growth.size_of((array,)) + growth.size_of((1, 2)) - growth.size_of((1,))
    assert growth.size_of("four") == growth.size_of("four" + "") > 4


def test_exponent_of_a_power_law():
    assert growth.exponent([10, 100, 1000], [2.0, 20.0, 200.0]) == pytest.approx(1.0)
    assert growth.exponent([1, 4], [3.0, 6.0]) == pytest.approx(0.5)
    assert np.isnan(growth.exponent([5], [1.0]))


def measures(series, power, working=0.0):
    case = Case(series, 10, 2, 100, True)
    for size in (100, 1000, 10_000, 100_000):
        grown = dataclasses.replace(case, **{series: size})
        yield Measure(grown, 1e-6 * size**power, working * size, 1e3, 1.0, 3.0, 5)


@in_turn(
    ("series", "power", "working", "met"),
    [
        ("bones", 1.0, 1e3, True),
        ("bones", 1.1, 0.0, False),
        ("effectors", 0.9, 0.0, True),
        ("frames", 0.0, 1.0, True),
        ("frames", 0.1, 0.0, False),
        ("frames", 0.0, 100.0, False),
    ],
)
def test_verdicts(series, power, working, met):
    (found,) = growth.growths(list(measures(series, power, working)))
    assert found.exponent == pytest.approx(power, abs=1e-9)
    assert found.memory == pytest.approx(working)
    assert found.met is met
    assert growth.sentence(found).endswith("yes" if met else "NO")


def test_cases_cover_what_is_asked_for():
    every = list(growth.cases())
    assert {case.bones for case in every if case.series == "bones"} == {10, 30, 100, 300}
    assert {case.effectors for case in every if case.series == "effectors"} == {1, 2, 4, 8, 16, 32, 64}
    assert {case.frames for case in every if case.series == "frames"} == {100, 1000, 10_000}
    assert {case.preferred for case in every} == {True, False}
    for case in every:
        growth.limb_lengths(case.bones, case.effectors)
    assert max(case.bones * case.effectors * case.frames for case in growth.cases(quick=True)) <= 20_000


def test_the_page_has_a_row_for_each_case():
    found = list(measures("frames", 0.0))
    page = growth.markdown(found, [found[0].case], {"numpy": "x"}, "a command", "images/growth.png")
    assert page.count("\n| ") == len(found) + 2
    assert "Made by `a command`." in page
    assert "Not finished in time: 10 bones, 2 effectors, 100 frames with preferred pose." in page
