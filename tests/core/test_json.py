# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON: what is read equals what was written, of every kind; bad text is refused with its place."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from blender_ik_addon.core import (
    AimAt,
    Balance,
    IKError,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    Pose,
    Problem,
    ReachFrame,
    ReachPoint,
    Skeleton,
    Solution,
    SolverOptions,
    StayNear,
    Task,
    solve,
    tasks,
)
from blender_ik_addon.core.io import from_json, read_json, to_json, write_json
from blender_ik_addon.core.io.json_text import TASKS
from blender_ik_addon.core.messages import Message
from blender_ik_addon.core.tasks.frames import ReachCarried

from .builders import Array, chain, random_pose, tree
from .strategies import directions, floats, rotations, vectors

JOINTS = 4
NAMES = [f"joint.{i}" for i in range(JOINTS)]

numbers = st.one_of(floats(-1e6, 1e6), st.sampled_from([0.1, -0.0, 1e-300, 1e15, np.pi, 1 / 3]))
places = vectors(-3.0, 3.0)


def moving(values: st.SearchStrategy[Array]) -> st.SearchStrategy[Array]:
    """The same for one frame or three, in one of which there may be no target."""

    def lost(three: list[Array], frame: int) -> Array:
        frames = np.stack(three)
        if frame < len(three):
            frames[frame] = np.nan
        return frames

    return st.one_of(values, st.builds(lost, st.lists(values, min_size=3, max_size=3), st.integers(0, 3)))


def of(kind: type[Task], *given: Any, **named: Any) -> st.SearchStrategy[Task]:
    common = {
        "priority": st.integers(0, 9),
        "weight": floats(0.0, 10.0),
        "softness": floats(0.0, 0.1),
        "name": st.sampled_from(["", "hand", "Fuß\u2028\"☃\"\\\n"]),
    }
    return st.builds(kind, *given, **(common | named))


joints = st.one_of(st.sampled_from(NAMES), st.integers(0, JOINTS - 1))
switches = st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(any)
channels = vectors(-1.0, 1.0, JOINTS * 6).map(lambda row: row.reshape(JOINTS, 6))


def frames(turn: Array, place: Array) -> Array:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = turn, place
    return matrix


POINT = of(ReachPoint, joints, moving(places), point=places, axes=switches, armature_from_axes=rotations())
PLANE = of(
    OnPlane,
    joints,
    places,
    directions().map(lambda way: 3.7 * way),
    point=places,
    offset=numbers,
    side=st.sampled_from(["ON", "ABOVE"]),
)
EXAMPLES: dict[type[Task], st.SearchStrategy[Task]] = {
    AimAt: of(AimAt, joints, moving(places), axis=directions(), point=places),
    Balance: of(
        Balance,
        vectors(0.1, 9.0, JOINTS),
        moving(places),
        centres=st.sampled_from([np.zeros((0, 3)), np.full((JOINTS, 3), 0.3)]),
        axes=st.one_of(st.none(), switches),
    ),
    KeepDistance: st.one_of(
        of(KeepDistance, st.just(0), floats(0.0, 9.0), point=places, other=st.just(NAMES[2]), target=places),
        of(KeepDistance, joints, floats(0.0, 9.0), target=moving(places)),
    ),
    MatchOrientation: of(MatchOrientation, joints, moving(rotations()), axes=switches),
    OneOf: of(OneOf, st.lists(st.one_of(of(ReachPoint, joints, places), PLANE), min_size=2, max_size=3)),
    OnPlane: PLANE,
    PointPole: of(PointPole, st.just(0), st.just(NAMES[1]), st.just(2), moving(places)),
    ReachCarried: st.builds(
        ReachCarried, st.just(NAMES[3]), places, carrier=st.just(1), carrier_point=places, carrier_from=places
    ),
    ReachFrame: of(ReachFrame, joints, moving(st.builds(frames, rotations(), places)), point=places),
    ReachPoint: POINT,
    StayNear: of(
        StayNear,
        moving(channels),
        over=st.one_of(st.none(), st.tuples(joints, joints)),
        axes=st.tuples(*[st.booleans()] * 6),
        preference=st.booleans(),
    ),
}


def same(first: Any, second: Any) -> None:
    """Equal in all fields, to the last bit of each number and its sign; messages by their English text."""
    if isinstance(first, Message):
        first = str(first)
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype and first.shape == second.shape
        assert first.tobytes() == second.tobytes() or np.isnan(first).any()
        assert_array_equal(first, second)
    elif hasattr(first, "__dataclass_fields__"):
        for field in fields(first):
            same(getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            same(one, other)
    else:
        assert first == second or first != first


def test_every_kind_of_task_has_a_place_in_files():
    def below(kind: type[Task]) -> set[type[Task]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    own = {kind for kind in below(Task) if kind.__module__.startswith(tasks.__name__)}
    assert own - {Task, tasks.JointTask, tasks.AxisTask} == set(TASKS) == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@settings(max_examples=5)
@given(data=st.data())
def test_a_problem_is_read_as_it_was_written(kind: type[Task], data: st.DataObject):
    task = data.draw(EXAMPLES[kind])
    problem = Problem(chain(JOINTS), task, data.draw(st.one_of(st.none(), channels)))
    again = from_json(to_json(problem), Problem)
    same(problem, again)
    # By its values, arrays included, whatever a dataclass would make of them.
    assert again.tasks == problem.tasks and len({task, *again.tasks}) == 1
    assert to_json(again) == to_json(problem)


def test_poses_and_skeletons_are_read_as_they_were_written(rng: np.random.Generator):
    skeleton = tree(rng, 9, roots=2, settings=True, lower={"joint.3": -1 / 3}, upper={"joint.3": 0.1})
    preferred = np.array(skeleton.preferred)
    preferred[2] = np.nan
    skeleton = replace(skeleton, preferred=preferred, up=np.array([0.6, 0.0, 0.8]))
    same(skeleton, from_json(to_json(skeleton), Skeleton))
    for count in ((), (3,), (0,), (2, 3)):
        pose = random_pose(rng, skeleton, frames=count)
        pose = Pose(pose.channels, rng.uniform(0.5, 2.0, pose.scale.shape))
        same(pose, from_json(to_json(pose), Pose))
    nobody = Skeleton.build([], [], offsets=np.zeros((0, 3)))
    same(nobody, from_json(to_json(nobody), Skeleton))
    options = SolverOptions(method="DLS", clamp_distance=np.inf, restarts=3)
    same(options, from_json(to_json(options), SolverOptions))


def test_solutions_keep_their_reasons(tmp_path: Path):
    arm = chain(3, lower=-0.5, upper=0.5)
    goals = [
        ReachPoint("joint.2", [0.0, 1.0, 0.5]),
        ReachPoint("joint.2", [9.0, 0.0, 0.0], priority=1),
        MatchOrientation("joint.1", np.eye(3), priority=2),
    ]
    solution = solve(Problem(arm, goals), Pose.rest(arm), restarts=2)
    assert not solution.reached
    write_json(tmp_path / "solution.json", solution, indent=1)
    again = read_json(tmp_path / "solution.json", Solution)
    same(solution, again)
    assert again == solution
    assert [error.note for error in again.errors] == [error.note for error in solution.errors]


def test_what_is_read_is_solved_to_the_same_bits(rng: np.random.Generator):
    arm = chain(4)
    problem = Problem(arm, [ReachPoint("joint.3", rng.normal(size=3)), AimAt("joint.1", rng.normal(size=3))])
    again = from_json(to_json(problem), Problem)
    solutions = [solve(each, Pose.rest(arm), restarts=1, max_iterations=5) for each in (problem, again)]
    assert to_json(solutions[0]) == to_json(solutions[1])


def test_it_is_json_and_what_has_a_default_may_be_left_out():
    text = to_json(Pose.rest(chain(1)))
    assert json.loads(text, parse_constant=pytest.fail)["format"] == "poise_ik"
    skeleton = json.loads(to_json(chain(2)))
    written = {
        "format": "poise_ik",
        "version": 1,
        "kind": "Problem",
        "skeleton": {name: skeleton[name] for name in skeleton if name not in ("format", "version", "up")},
        "tasks": [{"kind": "ReachPoint", "joint": "joint.1", "target": [0, 0.5, 0]}],
    }
    same(from_json(json.dumps(written)), Problem(chain(2), ReachPoint("joint.1", [0, 0.5, 0])))


def wrong(change: Any) -> str:
    """What is said of a problem after a change."""
    written = json.loads(to_json(Problem(chain(2), ReachPoint("joint.1", [0.0, 0.5, 0.0]))))
    change(written)
    with pytest.raises(IKError) as error:
        from_json(json.dumps(written))
    return str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("format",), "poise", 'expected an object with "format": "poise_ik"'),
        (("version",), 2, "version: this library reads versions from 1 to 1, got 2"),
        (("version",), True, "version: this library reads versions from 1 to 1, got true"),
        (
            ("kind",),
            "Puzzle",
            'kind: expected Skeleton or Pose or Problem or Solution or SolverOptions, got "Pu',
        ),
        (("tasks",), {}, "tasks: expected a list, got {}"),
        (("tasks", 0), 5, "tasks[0]: expected an object, AimAt or "),
        (("tasks", 0, "kind"), "Reach", "tasks[0].kind: expected AimAt or "),
        (("tasks", 0, "joint"), "elbow", "there is no joint 'elbow'; there are: joint.0, joint.1"),
        (("tasks", 0, "joint"), 1.5, "tasks[0].joint: expected a name or a whole number, got 1.5"),
        (("tasks", 0, "weight"), "much", 'tasks[0].weight: expected a number, got "much"'),
        (("tasks", 0, "weight"), -1, "tasks[0]: position of joint.1: weight must be finite and not negative"),
        (("tasks", 0, "axes"), [True], "tasks[0].axes: expected a list of 3, got [true]"),
        (("tasks", 0, "axes", 1), 1, "tasks[0].axes[1]: expected true or false, got 1"),
        (("tasks", 0, "target"), [0, 0], "tasks[0]: position of joint.1: target has shape (2,), wanted (3,)"),
        (("tasks", 0, "target"), [0, None, 0], "tasks[0].target[1]: expected a number, got null"),
        (("tasks", 0, "target"), [[0, 0, 0], [0]], "tasks[0].target: its rows have different lengths"),
        (("tasks", 0, "target"), [0, 10**400, 0], "tasks[0].target[1]: expected a number, got 1000"),
        (("tasks", 0, "colour"), "red", "tasks[0]: a ReachPoint has no 'colour'; it has joint, target,"),
        (("skeleton", "parents"), [-1, 0.5], "skeleton.parents: expected lists of whole numbers"),
        (("skeleton", "free"), 1, "skeleton.free: expected lists of true or false"),
        (("skeleton", "names"), ["a", 1], "skeleton.names[1]: expected a text, got 1"),
        (("skeleton", "lower"), {"shape": [2]}, "skeleton.lower: expected lists of numbers, or"),
    ],
)
def test_wrong_fields_are_refused_with_their_place(path: tuple[Any, ...], value: Any, told: str):
    def change(written: Any) -> None:
        for key in path[:-1]:
            written = written[key]
        written[path[-1]] = value

    assert told in wrong(change)


def test_what_is_missing_is_named():
    assert wrong(lambda all_of_it: all_of_it.pop("tasks")) == "a Problem needs 'tasks'"
    assert "skeleton: a Skeleton needs 'rest'" in wrong(lambda it: it["skeleton"].pop("rest"))


def test_what_is_no_json_is_refused(tmp_path: Path):
    for text, told in (
        ("{\n]", "line 2, column 1: this is not JSON"),
        ("[" * 100_000, "this is not JSON"),
        ("[]", 'expected an object with "format"'),
    ):
        with pytest.raises(IKError, match=r"JSON|object") as error:
            from_json(text)
        assert told in str(error.value)
    (tmp_path / "bad.json").write_bytes(b"\xff{")
    with pytest.raises(IKError, match=r"bad\.json is no text in UTF-8"):
        read_json(tmp_path / "bad.json")
    with pytest.raises(IKError, match=r"none\.json cannot be read: No such file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(IKError, match=r"cannot be written"):
        write_json(tmp_path / "no" / "folder.json", Pose.rest(chain(1)))
    with pytest.raises(IKError, match="JSON is written of Skeleton, Pose"):
        to_json(ReachPoint("a", [0, 0, 0]))  # pyright: ignore[reportArgumentType]
    with pytest.raises(IKError, match="kind: expected Pose, got \"Skeleton\""):
        from_json(to_json(chain(1)), Pose)
