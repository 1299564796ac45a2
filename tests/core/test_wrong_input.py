# SPDX-License-Identifier: GPL-3.0-or-later
"""Input that is wrong is refused in words, and what is only degenerate is solved."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    METHODS,
    AimAt,
    Balance,
    Follower,
    IKError,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    StayNear,
    Task,
    Tracker,
    diagnose,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
    target_path,
)
from blender_ik_addon.core.character import recognise
from blender_ik_addon.core.motion import Track, find_contacts, spans
from blender_ik_addon.core.problem.options import Redundancy

NAMES, PARENTS = ["a", "b", "c"], [None, "a", "b"]
OFFSETS = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.1, 1.0]])


def limb(free: Any = None, **others: Any) -> Skeleton:
    return Skeleton.build(NAMES, PARENTS, offsets=OFFSETS, free=free, **others)


def reach(target: Any = (0.5, 0.5, 1.0), **others: Any) -> ReachPoint:
    return ReachPoint(**{"joint": "c", "target": target, **others})


def every_kind(place: Any = (0.5, 0.5, 1.0), distance: float = 3.0) -> dict[str, Task]:
    """A task of each kind about the tip of the limb."""
    place = np.asarray(place, dtype=np.float64)
    return {
        "point": reach(place),
        "orientation": MatchOrientation(joint="c", target=np.diag([1.0, -1.0, -1.0])),
        "aim": AimAt(joint="c", target=place),
        "plane": OnPlane(joint="c", origin=place, normal=np.array([0.0, 0.0, 1.0])),
        "floor": OnPlane(joint="c", origin=place, normal=np.array([0.0, 0.0, 1.0]), side="ABOVE"),
        "pole": PointPole(root="a", joint="b", tip="c", target=place),
        "distance": KeepDistance(joint="c", distance=distance),
        "distance of two": KeepDistance(joint="c", other="a", distance=distance),
        "balance": Balance(masses=np.ones(3), target=place),
        "stay near": StayNear(channels=np.full((3, 6), distance), over=("c",)),
        "one of": OneOf(alternatives=(reach(place), reach(-place))),
    }


def each_or_all(kinds: dict[str, Task], method: str) -> list[tuple[Task, ...]]:
    """What a method solves: each kind by itself by the usual one, all of them at once by the others."""
    return [(task,) for task in kinds.values()] if method == "PRIORITY" else [tuple(kinds.values())]


def rest(skeleton: Skeleton) -> Pose:
    return Pose.rest(skeleton)


def follower() -> Follower:
    return Follower(Problem(ARM, (reach(),)), rest(ARM), SolverOptions())


def settled() -> Follower:
    """One whose targets are those of the update before."""
    body = follower()
    body.arrive([OFFSETS[1]])
    return body


# What is refused

NOTHING: Any = None
NUMBER: Any = 3
HALF: Any = 0.5
EMPTY: Any = {}
ARM = limb()
HUGE = np.array([1e200, 0.0, 0.0])
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "priority nan": (lambda: reach(priority=np.nan), "position of c: priority.*whole number.*nan"),
    "priority infinite": (lambda: reach(priority=np.inf), "position of c: priority.*whole number.*inf"),
    "priority in words": (lambda: reach(priority="high"), "position of c: priority.*'high'"),
    "weight in words": (lambda: reach(weight="much"), "position of c: weight.*'much'"),
    "no weight": (lambda: reach(weight=None), "position of c: weight.*None"),
    "weight too large": (lambda: reach(weight=1e200), "position of c: weight.*1e\\+15.*1e\\+200"),
    "iterations nan": (lambda: SolverOptions(max_iterations=np.nan), "max_iterations.*whole number.*nan"),  # pyright: ignore[reportArgumentType]
    "iterations in words": (lambda: SolverOptions(max_iterations="60"), "max_iterations.*'60'"),  # pyright: ignore[reportArgumentType]
    "restarts infinite": (lambda: SolverOptions(restarts=np.inf), "restarts.*whole number.*inf"),  # pyright: ignore[reportArgumentType]
    "tolerance in words": (lambda: SolverOptions(tolerance_position="1 mm"), "tolerance_position.*'1 mm'"),  # pyright: ignore[reportArgumentType]
    "clamp in words": (lambda: SolverOptions(clamp_distance="1"), "clamp_distance.*'1'"),  # pyright: ignore[reportArgumentType]
    "target in words": (lambda: reach("there"), "position of c: target: .*not an array of numbers.*there"),
    "target of uneven rows": (lambda: reach([[1, 2, 3], [1]]), "position of c: target: .*not an array"),
    "channels of uneven rows": (lambda: StayNear(channels=[[1], [1, 2]]), "stay near: channels: .*not an"),  # pyright: ignore[reportArgumentType]
    "distance in words": (lambda: KeepDistance(joint="c", distance="far"), "distance of c: distance: .*far"),  # pyright: ignore[reportArgumentType]
    "target without frames": (lambda: reach(np.zeros((0, 3))), "position of c: target .*no frames"),
    "turn without frames": (
        lambda: MatchOrientation(joint="c", target=np.zeros((0, 3, 3))),
        "orientation of c: target .*no frames",
    ),
    "offset in words": (
        lambda: OnPlane(joint="c", origin=np.zeros(3), normal=np.ones(3), offset="high"),  # pyright: ignore[reportArgumentType]
        "plane of c: offset.*'high'",
    ),
    "margin in words": (
        lambda: OneOf(alternatives=(reach(), reach()), margin="wide"),  # pyright: ignore[reportArgumentType]
        "margin.*'wide'",
    ),
    "a name as task": (lambda: Problem(ARM, ("c",)), "str is no task"),  # pyright: ignore[reportArgumentType]
    "no joint": (lambda: Problem(ARM, (reach(joint=None),)), "name or its index, got None"),
    "half a joint": (lambda: Problem(ARM, (reach(joint=1.5),)), "name or its index, got 1.5"),
    "names that are numbers": (
        lambda: Skeleton.build([1, 2], [None, None], offsets=np.zeros((2, 3))),  # pyright: ignore[reportArgumentType]
        "joint names are a list of texts, got 1",
    ),
    "no parents": (
        lambda: Skeleton.build(NAMES, None, offsets=OFFSETS),  # pyright: ignore[reportArgumentType]
        "parents are one for each joint.*got None",
    ),
    "a number as pose": (lambda: forward_kinematics(ARM, 3), "a Pose is needed, got 3"),  # pyright: ignore[reportArgumentType]
    "a number as targets": (
        lambda: Tracker(Problem(ARM, (reach(),)), rest(ARM)).solve(3),  # pyright: ignore[reportArgumentType]
        "targets are given by the names of their tasks.*got 3",
    ),
    "a number as weights": (
        lambda: Tracker(Problem(ARM, (reach(),)), rest(ARM)).solve(weights=3),  # pyright: ignore[reportArgumentType]
        "weights are given by the names.*got 3",
    ),
    "a task as problem of a sequence": (lambda: solve_sequence(reach(), rest(ARM)[None]), "takes a Problem"),  # pyright: ignore[reportArgumentType]
    "an array as poses": (
        lambda: solve_sequence(Problem(ARM, (reach(),)), np.zeros((2, 3, 6))),  # pyright: ignore[reportArgumentType]
        "a sequence takes a Problem and a Pose",
    ),
    "poses to return to": (
        lambda: follower().return_to([OFFSETS[1]], Pose.rest(ARM, (2,))),
        "a follower starts from one",
    ),
    "large channels to be preferred": (
        lambda: Problem(ARM, (reach(),), np.full((3, 6), 1e200)),
        "joint 'a': a preferred channel is.*1e.200",
    ),
    "a pose of others to return to": (
        lambda: follower().return_to(
            [OFFSETS[1]], Pose.rest(Skeleton.build(["a"], [None], offsets=[[0, 0, 0]]))
        ),
        "a pose of 3 joints is wanted, got 1",
    ),
    "points of a path nan": (lambda: target_path(OFFSETS[1], OFFSETS[2], np.nan), "points of a path.*nan"),  # pyright: ignore[reportArgumentType]
    "offsets of uneven rows": (
        lambda: Skeleton.build(["a"], [None], offsets=[[0, 0], [1]]),
        "offsets: .*not an",
    ),  # pyright: ignore[reportArgumentType]
    "limits in words": (lambda: limb(lower="low"), "lower: .*not an array of numbers"),
    "channels in words": (lambda: Pose.from_channels("rest"), "not an array of numbers"),
    # Numbers whose squares are none any more
    "place": (lambda: reach(HUGE), "position of c: target has the number 1e\\+200, .*1e\\+15"),
    "point": (lambda: reach(point=HUGE), "position of c: point has the number 1e\\+200"),
    "aim": (lambda: AimAt(joint="c", target=HUGE), "aim of c: target has the number 1e\\+200"),
    "pole": (lambda: every_kind(HUGE)["pole"], "1e\\+200"),
    "plane": (lambda: OnPlane(joint="c", origin=HUGE, normal=np.ones(3)), "plane of c: origin has .*1e"),
    "distance": (lambda: KeepDistance(joint="c", distance=1e200), "distance of c: distance has .*1e\\+200"),
    "balance": (lambda: Balance(masses=np.ones(3), target=HUGE), "balance: target has the number 1e\\+200"),
    "masses": (lambda: Balance(masses=np.full(3, 1e308), target=np.zeros(3)), "balance: masses has"),
    "stored pose": (lambda: StayNear(channels=np.full((3, 6), 1e200)), "stay near: channels has .*1e\\+200"),
    "tracked": (lambda: Tracker(Problem(ARM, (reach(),)), rest(ARM)).solve([HUGE]), "target has .*1e\\+200"),
    "pose": (lambda: Pose.from_channels(np.full((3, 6), 1e200)), "a pose has the number 1e\\+200"),
    "scale": (lambda: Pose(np.zeros((3, 6)), np.full((3, 3), 1e200)), "a pose has the number 1e\\+200"),
    "scales": (
        lambda: solve(Problem(ARM, (reach(),)), Pose(np.zeros((3, 6)), np.full((3, 3), 1e15))),
        "joint 'b' has the number 1e\\+.*scale",
    ),
    "bones": (lambda: Skeleton.build(NAMES, PARENTS, offsets=OFFSETS * 1e200), "rest matrix.*1e.*'b', 'c'"),
    "limits": (lambda: limb(upper=1e200), "upper.*1e\\+15.*inf stands for no limit.*'a'"),
    "preferred": (lambda: limb(preferred=1e200), "preferred.*1e\\+15.*'a'"),
}


REFUSED |= {
    f"axes {axes}": (lambda axes=axes: reach(axes=axes), "position of c: .*axes")
    for axes in ([1.0, 0.5, 0.0], "xyz", None, 3, (2, 0, 0), (True, False), ((True,), (), ()))
}
REFUSED |= {
    "name of a task": (lambda: reach(name=NUMBER), "name of a task"),
    "preference in a list": (lambda: reach(preference=[]), "position of c: preference"),
    "preference in words": (lambda: reach(preference="yes"), "position of c: preference"),
    "no alternatives": (lambda: OneOf(NOTHING), "list of tasks.*None"),
    "alternatives that are none": (lambda: OneOf((NUMBER, NUMBER)), "are tasks.*3"),
    "an alternative alone": (lambda: OneOf(cast(Any, reach())), "list of tasks.*ReachPoint"),
    "no names": (lambda: Skeleton.build(NOTHING, PARENTS, offsets=OFFSETS), "joint names.*None"),
    "no parents": (lambda: Skeleton.build(NAMES, NOTHING, offsets=OFFSETS), "parents.*None"),
    "half a parent": (
        lambda: Skeleton.build(NAMES, [None, HALF, 1], offsets=OFFSETS),
        "parent of joint 'b'.*0.5",
    ),
    "orders": (lambda: limb(orders=3), "rotation orders.*3"),
    "scale modes": (lambda: limb(inherit_scale=3), "scale modes.*3"),
    "ragged channels": (
        lambda: limb(free=[[True] * 6, [True] * 5, [True] * 6]),
        "free: .*truth values",
    ),
    "up infinite": (lambda: limb(up=(0.0, 0.0, np.inf)), "up is not finite"),
    "up in two parts": (lambda: limb(up=cast(Any, ((0.0,), (0.0, 1.0)))), "up: .*array of numbers"),
    "path in words": (lambda: target_path("here", (0.0, 0.0, 1.0), 3), "start of a path: .*here"),
    "path with a ragged end": (
        lambda: target_path(OFFSETS[0], cast(Any, (0.0, 0.0, [1.0])), 3),
        "target of a path",
    ),
    "diagnosis of a number": (lambda: diagnose(Problem(ARM, (reach(),)), NUMBER), "diagnosis.*Pose.*3"),
    "diagnosis of no problem": (lambda: diagnose(cast(Any, ARM), rest(ARM)), "diagnosis.*Problem"),
    "kinematics of a number": (lambda: forward_kinematics(NUMBER, rest(ARM)), "Skeleton.*3"),
    "options in a mapping": (
        lambda: solve(Problem(ARM, (reach(),)), rest(ARM), cast(Any, {"gamma": 1.0})),
        "SolverOptions.*gamma",
    ),
    "options of a follower": (
        lambda: Follower(Problem(ARM, (reach(),)), rest(ARM), EMPTY),
        "SolverOptions",
    ),
    "options of a tracker": (
        lambda: Tracker(Problem(ARM, (reach(),)), rest(ARM), EMPTY),
        "SolverOptions",
    ),
    "method in a list": (lambda: SolverOptions(method=cast(Any, ["DLS"])), "method is text.*DLS"),
    "track of nothing": (lambda: Track("foot", NOTHING, NOTHING, NOTHING), "Track.places is an array.*None"),
    "no tracks": (lambda: find_contacts(NOTHING, [0.0, 1.0], 1.0), "tracks are a list.*None"),
    "tracks that are none": (lambda: find_contacts([NUMBER], [0.0, 1.0], 1.0), "in tracks.*3"),
    "spans of a number": (lambda: spans(NUMBER), "frames that are on"),
    "spans of rows": (lambda: spans([[True], [False]]), "frames that are on"),
    "a character of a number": (lambda: recognise(NUMBER), "Skeleton.*3"),
    "a character by other hints": (lambda: recognise(ARM, EMPTY), "hints are Hints"),
    "callback": (lambda: solve(Problem(ARM, (reach(),)), rest(ARM), callback=NUMBER), "callback.*3"),
    "progress": (
        lambda: solve_sequence(Problem(ARM, (reach(),)), Pose.rest(ARM, (2,)), progress=NUMBER),
        "progress.*3",
    ),
}

TEXT: Any = "no"
LETTERS: Any = "abc"
THING: Any = object


def tracker() -> Tracker:
    return Tracker(Problem(ARM, (reach(),)), rest(ARM))


REFUSED |= {
    f"{field} {value!r:.30}": (
        lambda field=field, value=value: limb(**{field: value}),
        f"^{field}.*truth values",
    )
    for field in ("free", "inherit_rotation", "local_location")
    for value in (TEXT, [TEXT] * 3, HALF, np.nan, THING, 1j)
}
REFUSED |= {
    f"switch {field}": (lambda field=field: SolverOptions(**{field: TEXT}), f"{field} is True or False.*no")
    for field in ("clamp_after_jump", "alternate_jacobian", "constant_damping")
}
REFUSED |= {
    f"over {value!r:.30}": (
        lambda value=value: StayNear(channels=np.zeros((3, 6)), over=value),
        "stay near: over is a list of joints",
    )
    for value in cast("list[Any]", ["c", 3, [None], [HALF], [["c"]]])
}
REFUSED |= {
    f"axes of a pose {axes!r:.30}": (
        lambda axes=axes: StayNear(channels=np.zeros((3, 6)), axes=axes),
        "stay near: .*6 axes",
    )
    for axes in cast("list[Any]", ["xyzxyz", None, 3, [HALF] * 6, [TEXT] * 6])
}
REFUSED |= {
    f"{update} {targets!r:.30}": (
        lambda update=update, targets=targets: getattr(follower(), update)(targets),
        message,
    )
    for update, targets, message in (
        *(
            (update, targets, f"targets are one for each task.*{targets}")
            for update in ("begin", "follow", "arrive")
            for targets in (None, 3, "a")
        ),
        ("begin", [], "0 targets for 1 tasks"),
        ("begin", [None], "position of c: target"),
        ("begin", ["there"], "position of c: target: .*there"),
        ("begin", [THING], "position of c: target"),
    )
}
REFUSED |= {
    f"most turn {turn!r}": (
        lambda turn=turn: follower().follow([OFFSETS[1]], most_turn=turn),
        "most_turn must be",
    )
    for turn in cast("list[Any]", [None, "far", np.nan, 0.0, -1.0])
}
REFUSED |= {
    "no targets after some": (lambda: settled().arrive([]), "0 targets for 1 tasks"),
    "number as targets after some": (lambda: settled().arrive(NUMBER), "targets are one for each task.*3"),
    "heading of nothing": (lambda: follower().heading(NOTHING), "a follower takes a Problem and a Pose"),
    "heading of poses": (lambda: follower().heading(Pose.rest(ARM, (2,))), "a follower starts from one"),
    "heading of others": (
        lambda: follower().heading(Pose.from_channels(np.zeros((1, 6)))),
        "a pose of 3 joints is wanted, got 1",
    ),
    "names in a text": (lambda: Skeleton.build(LETTERS, PARENTS, offsets=OFFSETS), "joint names.*'abc'"),
    "names in lists": (
        lambda: Skeleton.build(cast(Any, [["a"]]), [None], offsets=OFFSETS[:1]),
        "joint names.*'a'",
    ),
    "names of a plain skeleton": (lambda: replace(ARM, names=NOTHING), "joint names.*None"),
    "a text as names of a plain skeleton": (lambda: replace(ARM, names=LETTERS), "joint names.*'abc'"),
    "half a parent of a plain skeleton": (
        lambda: replace(ARM, parents=cast(Any, [-1, 0.5, 1])),
        "Skeleton.parents: .*whole numbers",
    ),
    "orders that are no texts": (lambda: limb(orders=[0, 1, 2]), "rotation orders.*0"),
    "orders in lists": (lambda: limb(orders=[["XYZ"]] * 3), "rotation orders.*XYZ"),
    "scale modes that are no texts": (lambda: limb(inherit_scale=[0, 1, 2]), "scale modes.*0"),
    "scale modes in lists": (lambda: limb(inherit_scale=[["FULL"]] * 3), "scale modes.*FULL"),
    "a text as scale modes": (lambda: limb(inherit_scale="FULL"), "scale modes are.*FULL"),
    "True as a joint": (lambda: Problem(ARM, (reach(joint=True),)), "name or its index, got True"),
    "numbers in texts": (lambda: reach(["1", "2", "3"]), "position of c: target: .*not an array of numbers"),
    "no channels": (lambda: Pose(NOTHING, NOTHING), "Pose.channels: .*None"),
    "no channels alone": (lambda: Pose.from_channels(NOTHING), "Pose.channels: .*None"),
    "no scale": (lambda: Pose(np.zeros((3, 6)), NOTHING), "Pose.scale: .*None"),
    "rest of a text": (lambda: Pose.rest(LETTERS), "a Skeleton is needed, got 'abc'"),
    "other channels that are none": (lambda: rest(ARM).with_channels(NOTHING), "not an array of numbers"),
    "arc in words": (lambda: target_path(OFFSETS[1], OFFSETS[2], 3, arc=TEXT), "arc of a path.*'no'"),
    "no arc": (lambda: target_path(OFFSETS[1], OFFSETS[2], 3, arc=NOTHING), "arc of a path.*None"),
    "callback of a tracker": (lambda: tracker().solve(callback=NUMBER), "callback is a function.*3"),
    "far in words": (lambda: tracker().solve(far=TEXT), "far is True or False.*no"),
    "weights that are zero": (lambda: tracker().solve(weights=cast(Any, 0)), "weights are given by"),
    "frames in words": (lambda: reach().only_in([TEXT, TEXT]), "position of c: frames: .*truth values"),
    "contacts in words": (lambda: spans([TEXT, TEXT]), "frames that are on: .*truth values"),
    "no list in a number of numpy": (lambda: limb(orders=np.array(2.0)), "rotation orders.*2"),
    "no parents in a number of numpy": (
        lambda: Skeleton.build(NAMES, cast(Any, np.array(2.0)), offsets=OFFSETS),
        "parents are one for each joint",
    ),
    "axes in a number of numpy": (lambda: reach(axes=np.array(1.0)), "position of c: .*axes"),
    "other channels of other frames": (
        lambda: Pose.rest(ARM, 2).with_channels(np.zeros((3, 3, 6))),
        "channels of shape \\(3, 3, 6\\) do not go with those of shape \\(2, 3, 6\\)",
    ),
    "other channels in a row": (lambda: rest(ARM).with_channels(np.zeros(6)), "channels of shape"),
    "method in an array": (lambda: SolverOptions(method=cast(Any, np.zeros(2))), "method is text"),
    "redundancy in an array": (
        lambda: SolverOptions(redundancy=cast(Any, np.zeros(2))),
        "redundancy is text",
    ),
    "clamp in an array": (lambda: SolverOptions(clamp_distance=cast(Any, np.ones(2))), "clamp_distance must"),
    "angle in an array": (lambda: SolverOptions(max_angle=cast(Any, np.ones(1))), "max_angle must be"),
    "weight in an array": (lambda: reach(weight=np.ones(1)), "position of c: weight must be"),
    "priority in an array": (lambda: reach(priority=np.array(1)), "position of c: priority must be"),
    "name in an array": (lambda: reach(name=np.zeros(2)), "name of a task is text"),
    "name of a distance in an array": (
        lambda: KeepDistance(joint="c", distance=1.0, name=cast(Any, np.zeros(2))),
        "name of a task is text",
    ),
    "side in an array": (
        lambda: OnPlane(joint="c", origin=np.zeros(3), normal=np.ones(3), side=cast(Any, np.zeros(2))),
        "plane of c: side is text",
    ),
    "no targets of alternatives": (
        lambda: OneOf((reach(), reach())).moved(NOTHING),
        "one of .*: targets are one for each alternative.*None",
    ),
    "cyclic in a list": (
        lambda: solve_sequence(
            Problem(ARM, (reach(),)), Pose.rest(ARM, (2,)), cyclic=cast(Any, np.array([1, 0]))
        ),
        "cyclic must be True, False or None",
    ),
}


def test_truth_values_may_be_numbers() -> None:
    """Of numpy, and 0 and 1."""
    for on, free in ((True, 1), (np.True_, np.int64(1)), (1.0, [[1, 1, 1, 1.0, 1, 1]])):
        skeleton = limb(free=free, inherit_rotation=on, local_location=[on] * 3)
        assert skeleton.free.all() and skeleton.inherit_rotation.all() and skeleton.local_location.all()
    assert SolverOptions(clamp_after_jump=cast(Any, np.True_)).clamp_after_jump
    over = StayNear(channels=np.zeros((3, 6)), over=cast(Any, np.array([1, 2])))
    assert over.joints(ARM) == [1, 2]
    assert Pose.rest(ARM, cast(Any, 2.0)).frames == (2,)


def test_numbers_may_be_of_any_type() -> None:
    """They failed deep in a solve."""
    quarter: Any = Fraction(1, 4)
    options = SolverOptions(max_angle=quarter, smoothness=quarter, null_space_gain=cast(Any, np.True_))
    assert (options.max_angle, options.smoothness, options.null_space_gain) == (0.25, 0.25, 1.0)
    assert type(options.max_angle) is float
    assert SolverOptions(clamp_distance=quarter).clamp_distance == 0.25
    assert SolverOptions(clamp_distance=np.inf).clamp_distance == np.inf
    assert follower().follow([OFFSETS[1]], most_turn=quarter).iterations > 0
    floor = OnPlane(joint="c", origin=np.zeros(3), normal=OFFSETS[1], offset=quarter)
    assert solve(Problem(ARM, (floor,)), rest(ARM)).errors[0].error < 1.0


def test_axes_may_be_numbers_that_are_truth_values() -> None:
    """They were taken for indices."""
    first = solve(Problem(ARM, (reach(axes=(1, 0, 1)),)), rest(ARM))
    assert_allclose(
        first.pose.channels, solve(Problem(ARM, (reach(axes=(True, False, True)),)), rest(ARM)).pose.channels
    )


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_words(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(IKError, match=message):
        make()


# What is degenerate, and solved


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_is_free_targets_are_missed_and_the_pose_stays(method: str) -> None:
    skeleton, kinds = limb(free=False), every_kind()
    # A pose that may not change has nothing that is to stay, and the tip is above the floor.
    met = [kinds["stay near"], kinds["floor"]]
    for tasks in each_or_all(kinds, method):
        solution = solve(Problem(skeleton, tasks), rest(skeleton), method=method, restarts=2)
        assert solution.pose == rest(skeleton), tasks
        assert [error.reached for error in solution.errors] == [task in met for task in tasks]
    problem, frames = Problem(skeleton, [reach(), *met]), Pose.rest(skeleton, (2,))
    assert solve_sequence(problem, frames, method=method).pose == frames
    assert solve_each(problem, frames, method=method).pose == frames


@pytest.mark.parametrize(
    ("method", "redundancy"), [("PRIORITY", "preferred"), *((m, "start") for m in METHODS)]
)
def test_a_pose_to_stay_near_over_a_locked_joint_asks_for_nothing(
    method: str, redundancy: Redundancy
) -> None:
    free = np.zeros((3, 6), dtype=np.bool_)
    free[0, 3:] = True
    locked = StayNear(channels=np.ones((3, 6)), over=("c",))
    turn = MatchOrientation(joint="a", target=np.eye(3))
    far = reach((5.0, 5.0, 5.0), name="far")
    cases = (
        (locked, replace(far, priority=1)),
        (turn, replace(locked, priority=1), reach(priority=2, name="low")),
        (far, locked),
    )
    skeleton = limb(free=free)
    # Others than the usual one know no levels: of these the second has all that there is.
    for number, tasks in enumerate(cases if method == "PRIORITY" else cases[1:2]):
        problem = Problem(skeleton, tasks)
        options = SolverOptions(method=method, redundancy=redundancy, max_iterations=5, restarts=2)
        one = solve(problem, rest(skeleton), options)
        many = solve_sequence(problem, Pose.rest(skeleton, (2,)), options)
        stays = [error for error in one.errors if error.name == "stay near"]
        assert [error.error for error in stays] == [0.0], number
        assert many.errors[0, [task is not turn and "stay" in task.label for task in tasks]] == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_two_effectors_on_one_bone_with_the_same_target_are_solved(method: str) -> None:
    names = list("abcd")
    skeleton = Skeleton.build(names, [None, *names[:3]], offsets=[[0, 0, 0], *[[0, 0, 1]] * 3])
    target = np.array([1.0, 0.5, 1.5])
    twins = tuple(ReachPoint(joint="d", target=target) for _ in range(2))
    start = Pose.from_channels(np.full((4, 6), 0.1) * [0, 0, 0, 1, 1, 1])
    solution = solve(Problem(skeleton, twins), start, method=method, max_iterations=500)
    assert solution.reached
    assert_allclose(forward_kinematics(skeleton, solution.pose).point("d"), target, atol=1e-3)


def test_poses_are_equal_when_their_numbers_are() -> None:
    skeleton = limb()
    assert rest(skeleton) == Pose.rest(skeleton)
    assert rest(skeleton) != Pose.from_channels(np.full((3, 6), 0.1))
    assert rest(skeleton) != Pose.rest(skeleton, (1,))
    assert rest(skeleton) != "rest"


# Joints that are scaled to nothing


@pytest.mark.parametrize(
    ("modes", "flat", "free"),
    [
        (("NONE_LEGACY", "FIX_SHEAR", "FULL", "NONE"), ("b", [0.0, 0.0, 1.0]), ()),
        (("FULL", "NONE", "NONE_LEGACY", "AVERAGE"), ("b", [0.0, 1.0, 1.0]), ("b",)),
        (("NONE", "FIX_SHEAR", "ALIGNED", "ALIGNED"), ("a", [0.0, 0.0, 1.0]), ("a",)),
        (("FULL", "NONE", "AVERAGE", "FULL"), ("a", [1.0, 1.0, 0.0]), ("a",)),
    ],
)
def test_errors_are_those_of_forward_kinematics_below_flat_joints(
    modes: tuple[str, ...], flat: tuple[str, list[float]], free: tuple[str, ...]
) -> None:
    """What a bone takes over of a parent without volume must not be rounding."""
    random = np.random.default_rng(3)
    names = list("abcd")
    turns = np.zeros((4, 6), dtype=np.bool_)
    turns[[names.index(name) for name in free], 3:] = True
    scale = np.ones((4, 3))
    scale[names.index(flat[0])] = flat[1]
    for _ in range(10):
        offsets, target = random.normal(size=(4, 3)), random.normal(size=3)
        skeleton = Skeleton.build(
            names, [None, *names[:3]], offsets=offsets, free=turns, inherit_scale=list(modes)
        )
        channels = np.concatenate([np.zeros((4, 3)), 0.5 * random.normal(size=(4, 3))], axis=1)
        problem = Problem(skeleton, (ReachPoint(joint="d", target=target),))
        solution = solve(problem, Pose(channels, scale), max_iterations=1, restarts=0)
        place = forward_kinematics(skeleton, solution.pose).point("d")
        assert_allclose(solution.errors[0].error, np.linalg.norm(place - target), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_joint_that_is_scaled_to_nothing_has_no_orientation_that_could_be_met(method: str) -> None:
    scale = np.ones((3, 3))
    scale[2] = [1.0, 0.0, 1.0]
    for task in (MatchOrientation(joint="c", target=np.eye(3)), AimAt(joint="c", target=np.ones(3))):
        skeleton = limb()
        both = Problem(skeleton, (task, reach()))
        solution = solve(both, Pose(np.zeros((3, 6)), scale), method=method, max_iterations=100)
        assert [error.reached for error in solution.errors] == [False, True], solution.message
        assert solution.errors[0].error == np.inf
        poses = Pose(np.zeros((2, 3, 6)), np.stack([np.ones((3, 3)), scale]))
        motion = solve_sequence(Problem(skeleton, (task,)), poses, method=method, max_iterations=5)
        assert np.isfinite(motion.errors[0, 0]) and motion.errors[1, 0] == np.inf
        assert not motion.reached
