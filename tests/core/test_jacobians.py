# SPDX-License-Identifier: GPL-3.0-or-later
"""Every task's Jacobian and curvature against central differences."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon import core
from blender_ik_addon.core import (
    AimAt,
    Balance,
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
    StayNear,
    Task,
    forward_kinematics,
)
from blender_ik_addon.core.methods.loop import StackedProblem
from blender_ik_addon.core.model.kinematics import orthogonalized
from blender_ik_addon.core.model.mechanism import Mechanism, PosedMechanism
from blender_ik_addon.core.problem.system import System, assemble
from blender_ik_addon.core.tasks.aims import ALONG_BONE
from blender_ik_addon.core.tasks.base import ORIGIN
from blender_ik_addon.core.tasks.frames import ReachCarried
from tests.core.builders import Array, chain, random_pose, random_rotations, tree
from tests.core.strategies import ORDER_NAMES, rotation_about

STEP = 1e-5
"""[rad, m] Central differences: truncation about STEP^2, rounding about 1e-16 / STEP, both near 1e-11."""

RELATIVE = 1e-6
"""Largest error of a row of the Jacobian as part of its largest element [1]."""

ANGLES = {"met": 0.0, "nearly met": 1e-7, "off": 0.8, "far off": 2.5, "almost a half turn": np.pi - 1e-3}
"""Errors of orientation [rad]; at the half turn itself the residual jumps and has no derivative."""

Maker = Callable[[np.random.Generator, Skeleton, Pose, str], Task]
"""From a pose (no frames) and a joint to a task of it."""


def orientation(skeleton: Skeleton, pose: Pose, joint: str) -> Array:
    """Rotation of a joint without scale and mirroring, (3, 3)."""
    linear = forward_kinematics(skeleton, pose).matrices[skeleton.index(joint), :3, :3]
    axes = orthogonalized(linear, normalize=True)
    return axes * np.sign(np.linalg.det(axes))


def point(rng: np.random.Generator, joint: str, **fields: object) -> ReachPoint:
    return ReachPoint(joint=joint, target=rng.normal(size=3), weight=rng.uniform(0.5, 2.0), **fields)  # type: ignore[arg-type]


def carried(rng: np.random.Generator, skeleton: Skeleton, joint: str, **fields: object) -> ReachCarried:
    """A place that the root carries, or the last joint that of the root."""
    return ReachCarried(
        joint=joint,
        target=rng.normal(size=3),
        carrier=0 if skeleton.index(joint) else len(skeleton) - 1,
        carrier_from=rng.normal(size=3),
        weight=rng.uniform(0.5, 2.0),
        **fields,  # type: ignore[arg-type]
    )


def turned(angle: float, axes: tuple[bool, bool, bool] = (True, True, True)) -> Maker:
    """An orientation that is missed by an angle about a random axis."""

    def make(rng: np.random.Generator, skeleton: Skeleton, pose: Pose, joint: str) -> Task:
        axis = rng.normal(size=3)
        away = rotation_about(axis / np.linalg.norm(axis), angle)
        target = orientation(skeleton, pose, joint) @ away
        return MatchOrientation(joint=joint, target=target, axes=axes, weight=rng.uniform(0.5, 2.0))

    return make


def frame(
    rng: np.random.Generator, skeleton: Skeleton, pose: Pose, joint: str, angle: float, **fields: object
) -> ReachFrame:
    """A frame that is turned from that of the joint by an angle, somewhere else."""
    target = np.eye(4)
    target[:3, :3] = turned(angle)(rng, skeleton, pose, joint).aim
    target[:3, 3] = rng.normal(size=3)
    return ReachFrame(joint, target, weight=rng.uniform(0.5, 2.0), **fields)  # type: ignore[arg-type]


def aimed(angle: float, distance: float = 1.3, point: Array = ORIGIN, axis: Array = ALONG_BONE) -> Maker:
    """An aim at a point in a direction that is off by an angle about a random axis."""

    def make(rng: np.random.Generator, skeleton: Skeleton, pose: Pose, joint: str) -> Task:
        aim = AimAt(joint=joint, target=np.zeros(3), weight=rng.uniform(0.5, 2.0), point=point, axis=axis)
        posed = forward_kinematics(skeleton, pose)
        ray = posed.matrices[skeleton.index(joint), :3, :3] @ aim.axis
        ray /= np.linalg.norm(ray)
        across = np.cross(ray, rng.normal(size=3))
        off = rotation_about(across / np.linalg.norm(across), angle) @ ray
        return replace(aim, target=posed.point(joint, aim.point) + distance * off)

    return make


def plane(rng: np.random.Generator, joint: str, **fields: object) -> OnPlane:
    return OnPlane(
        joint=joint,
        origin=rng.normal(size=3),
        normal=rng.normal(size=3),
        weight=rng.uniform(0.5, 2.0),
        **fields,  # type: ignore[arg-type]
    )


def limb(skeleton: Skeleton, joint: str) -> tuple[int, int, int]:
    """Root, middle joint and tip of a limb with a joint in it, or the longest that there is."""
    chain = skeleton.ancestors(skeleton.index(joint))[::-1]
    if len(chain) < 3:
        chain = skeleton.ancestors(int(skeleton.depths.argmax()))[::-1]
    return chain[0], chain[len(chain) // 2], chain[-1]


def pole(angle: float) -> Maker:
    """A pole that is an angle away from where a limb bends to, about its axis."""

    def make(rng: np.random.Generator, skeleton: Skeleton, pose: Pose, joint: str) -> Task:
        root, middle, tip = limb(skeleton, joint)
        posed = forward_kinematics(skeleton, pose)
        axis = posed.point(tip) - posed.point(root)
        axis /= np.linalg.norm(axis)
        away = rotation_about(axis, angle) @ (posed.point(middle) - posed.point(root))
        target = posed.point(root) + 2.0 * away + rng.normal() * axis
        return PointPole(root=root, joint=middle, tip=tip, target=target, weight=rng.uniform(0.5, 2.0))

    return make


def masses(rng: np.random.Generator, skeleton: Skeleton, joint: str, **fields: object) -> Balance:
    """A mass on the joint and on about half of the others."""
    mass = rng.uniform(0.0, 1.0, len(skeleton)) * rng.integers(0, 2, len(skeleton))
    mass[skeleton.index(joint)] += 0.5
    return Balance(masses=mass, target=rng.normal(size=3), weight=rng.uniform(0.5, 2.0), **fields)  # type: ignore[arg-type]


CASES: dict[type[Task], dict[str, Maker]] = {
    Balance: {
        "joints": lambda rng, skeleton, pose, joint: masses(rng, skeleton, joint),
        "centres and axes": lambda rng, skeleton, pose, joint: masses(
            rng,
            skeleton,
            joint,
            centres=rng.normal(size=(len(skeleton), 3)),
            axes=(True, True, True),
            armature_from_axes=random_rotations(rng, 1)[0],
        ),
    },
    KeepDistance: {
        "from a place": lambda rng, skeleton, pose, joint: KeepDistance(
            joint=joint, target=rng.normal(size=3), distance=0.4, point=rng.normal(size=3), weight=1.7
        ),
        "at a place": lambda rng, skeleton, pose, joint: KeepDistance(
            joint=joint, target=rng.normal(size=3), distance=0.0, point=rng.normal(size=3)
        ),
        "at another joint": lambda rng, skeleton, pose, joint: KeepDistance(
            joint=joint, other=0 if skeleton.index(joint) else len(skeleton) - 1, distance=0.0
        ),
        "from another joint": lambda rng, skeleton, pose, joint: KeepDistance(
            joint=joint,
            other=0 if skeleton.index(joint) else len(skeleton) - 1,
            target=rng.normal(size=3),
            distance=0.4,
            weight=0.6,
        ),
    },
    PointPole: {name: pole(angle) for name, angle in ANGLES.items()},
    AimAt: {
        **{name: aimed(angle) for name, angle in ANGLES.items() if angle < 3.0},
        "just inside the series": aimed(0.314),
        "almost behind": aimed(np.pi - 0.1),
        "point and axis": aimed(1.1, point=np.array([0.3, -0.2, 0.5]), axis=np.array([1.0, 2.0, -1.0])),
        "next to the target": aimed(1.1, distance=0.05, point=np.array([0.3, -0.2, 0.5])),
    },
    OnPlane: {
        "origin": lambda rng, skeleton, pose, joint: plane(rng, joint),
        "point and offset": lambda rng, skeleton, pose, joint: plane(
            rng, joint, point=rng.normal(size=3), offset=0.4
        ),
        # The slack is a channel too.
        "one side": lambda rng, skeleton, pose, joint: plane(
            rng, joint, point=rng.normal(size=3), side="ABOVE"
        ),
    },
    OneOf: {
        "two places": lambda rng, skeleton, pose, joint: OneOf(
            alternatives=(point(rng, joint), point(rng, skeleton.names[0], point=rng.normal(size=3))),
            weight=0.6,
        ),
        "an aim and an orientation": lambda rng, skeleton, pose, joint: OneOf(
            alternatives=(aimed(0.7)(rng, skeleton, pose, joint), turned(0.8)(rng, skeleton, pose, joint))
        ),
    },
    ReachCarried: {
        "origin": lambda rng, skeleton, pose, joint: carried(rng, skeleton, joint),
        "points": lambda rng, skeleton, pose, joint: carried(
            rng, skeleton, joint, point=rng.normal(size=3), carrier_point=rng.normal(size=3)
        ),
        "one turned axis": lambda rng, skeleton, pose, joint: carried(
            rng, skeleton, joint, axes=(False, True, False), armature_from_axes=random_rotations(rng, 1)[0]
        ),
    },
    ReachFrame: {
        "met": lambda rng, skeleton, pose, joint: frame(rng, skeleton, pose, joint, 0.0),
        "off": lambda rng, skeleton, pose, joint: frame(rng, skeleton, pose, joint, 0.8),
        "point": lambda rng, skeleton, pose, joint: frame(
            rng, skeleton, pose, joint, 2.5, point=rng.normal(size=3)
        ),
    },
    ReachPoint: {
        "origin": lambda rng, skeleton, pose, joint: point(rng, joint),
        "offset point": lambda rng, skeleton, pose, joint: point(rng, joint, point=rng.normal(size=3)),
        "two axes": lambda rng, skeleton, pose, joint: point(
            rng, joint, point=rng.normal(size=3), axes=(True, False, True)
        ),
        "one turned axis": lambda rng, skeleton, pose, joint: point(
            rng, joint, axes=(False, True, False), armature_from_axes=random_rotations(rng, 1)[0]
        ),
    },
    MatchOrientation: {
        **{name: turned(angle) for name, angle in ANGLES.items()},
        **{f"one axis {name}": turned(angle, (False, True, False)) for name, angle in ANGLES.items()},
        "two axes off": turned(0.8, (True, True, False)),
    },
    StayNear: {
        "all": lambda rng, skeleton, pose, joint: StayNear(channels=rng.normal(size=(len(skeleton), 6))),
        "some": lambda rng, skeleton, pose, joint: StayNear(
            channels=rng.normal(size=(len(skeleton), 6)),
            over=(joint, 0),
            axes=(True, False, True, False, True, True),
            weight=0.7,
        ),
    },
}
"""Every kind of task there is, and what makes a difference in it."""

EACH_CASE = [(kind, name) for kind, makers in CASES.items() for name in makers]

TREES: dict[str, Callable[[np.random.Generator], Skeleton]] = {
    # Random trees have all six orders, zero-length bones and sliding joints.
    "tree": lambda rng: tree(rng, 10, deep=True),
    "two roots, all settings": lambda rng: tree(rng, 14, roots=2, settings=True, deep=True, sliding=0.5),
    "nothing inherits rotation": lambda rng: tree(rng, 6, deep=True, inherit_rotation=False, sliding=0.6),
}
each_tree = pytest.mark.parametrize("kind_of_tree", TREES)


def posed_tree(rng: np.random.Generator, kind_of_tree: str) -> tuple[Skeleton, Pose, str]:
    """A tree, a pose with even scales, and its deepest joint."""
    skeleton = TREES[kind_of_tree](rng)
    n = len(skeleton)
    pose = random_pose(rng, skeleton, angle=2.0)
    pose = Pose(pose.channels, np.repeat(rng.uniform(0.7, 1.4, (n, 1)), 3, axis=1))
    return skeleton, pose, skeleton.names[int(skeleton.depths.argmax())]


def assembled(skeleton: Skeleton, pose: Pose, tasks: Sequence[Task]) -> tuple[System, Array]:
    """The system and the values (1, nv) of a pose without frames."""
    batch = Pose(pose.channels[None], pose.scale[None])
    if not any(task.joints(skeleton) for task in tasks):
        # `StayNear` without joints is about those that other tasks involve: here is one, with next to no say.
        deepest = int(skeleton.depths.argmax())
        other = StayNear(channels=pose.channels, over=(deepest,), weight=1e-6, priority=tasks[-1].priority)
        tasks = [*tasks, other]
    system = assemble(Problem(skeleton, tuple(tasks)), batch)
    return system, system.mechanism.values(batch)


def placed(system: System, values: Array) -> PosedMechanism:
    """Channels (F, nv) as they are; `System.place` puts slacks at their best."""
    return system.mechanism.place(values)


def nudged(values: Array, directions: Array) -> Array:
    """Values a step forward along each direction (k, nv), then a step back, (2k, nv)."""
    return np.concatenate([values + STEP * directions, values - STEP * directions])


def difference(ahead_and_back: Array) -> Array:
    """Derivative along each direction, (2k, ...) -> (k, ...)."""
    ahead, back = np.split(ahead_and_back, 2)
    return (ahead - back) / (2.0 * STEP)


def assert_rows_agree(got: Array, wanted: Array) -> None:
    """Rows (m, k) within RELATIVE of their largest element."""
    assert got.shape == wanted.shape
    size = np.abs(wanted).max(axis=-1, keepdims=True)
    assert_allclose(
        got / np.where(size > 0.0, size, 1.0), wanted / np.where(size > 0.0, size, 1.0), atol=RELATIVE, rtol=0
    )


def assert_jacobian(system: System, values: Array, directions: Array | None = None) -> None:
    """The Jacobian along all channels or some directions (k, nv)."""
    along = np.eye(system.size) if directions is None else directions
    jacobian = system.jacobian(placed(system, values))
    residual = system.residual(placed(system, nudged(values, along)))
    assert_rows_agree(jacobian[0] @ along.T, difference(residual).T)


def assert_hessian(curvature: Array, expected: Array, scale: float) -> None:
    assert_allclose(curvature, curvature.T, atol=1e-12 * scale)
    assert_allclose(curvature, expected, atol=RELATIVE * scale, rtol=0)


def gradients(system: System, posed: PosedMechanism, forces: Array | None = None) -> Array:
    """Σ Jᵀ r, or Σ Jᵀ μ, (F, nv)."""
    jacobian = system.jacobian(posed)
    forces = system.residual(posed) if forces is None else forces
    return np.einsum("fmv,fm->fv", jacobian, np.broadcast_to(forces, jacobian.shape[:2]))


# ----------------------------------------------------------------------------------------------------------
# The list


def subclasses(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_task_of_the_core_is_in_the_list() -> None:
    for module in pkgutil.iter_modules(core.__path__):
        importlib.import_module(f"{core.__name__}.{module.name}")
    found = {
        kind
        for kind in subclasses(Task)
        if kind.__module__.startswith(core.__name__) and hasattr(kind, "angular")
    }
    assert found == set(CASES)


# ----------------------------------------------------------------------------------------------------------
# Derivatives of each task


PLACED = [(*case, list(TREES)[number % len(TREES)]) for number, case in enumerate(EACH_CASE)]
PLACED += [(kind, next(iter(makers)), each) for kind, makers in CASES.items() for each in TREES]
"""Each case on a tree, and the first of each kind on all of them."""


@pytest.mark.parametrize(("kind", "name", "kind_of_tree"), dict.fromkeys(PLACED))
def test_jacobian_and_curvature(kind: type[Task], name: str, kind_of_tree: str) -> None:
    """Of one task above another of its kind: one look a step ahead and back tells of both derivatives."""
    rng = np.random.default_rng(20240229)
    skeleton, pose, joint = posed_tree(rng, kind_of_tree)
    first, second = (CASES[kind][name](rng, skeleton, pose, joint) for _ in range(2))
    object.__setattr__(second, "priority", 1)
    system, values = assembled(skeleton, pose, [first, second])
    posed = placed(system, values)
    residual, jacobian = system.residual(posed), system.jacobian(posed)
    ahead_and_back = placed(system, nudged(values, np.eye(system.size)))
    assert_rows_agree(jacobian[0], difference(system.residual(ahead_and_back)).T)

    # What the Hessian of Σ ½ |r|² has beyond Gauss and Newton's.
    hessian = difference(gradients(system, ahead_and_back))
    gauss_newton = jacobian[0].T @ jacobian[0]
    scale = max(1.0, float(np.abs(hessian).max()))
    assert_hessian(system.curvature(posed, residual)[0], hessian - gauss_newton, scale)

    multipliers = rng.normal(size=residual.shape)
    expected = difference(gradients(system, ahead_and_back, multipliers))
    scale = max(1.0, float(np.abs(expected).max()))
    assert_hessian(system.curvature(posed, multipliers)[0], expected, scale)


AIMED = [(kind, name) for kind, name in EACH_CASE if kind is not OneOf and name not in ANGLES]
"""Those with a target of their own, but for how far it is."""


@pytest.mark.parametrize(
    ("kind", "name"), [*AIMED, (AimAt, "off"), (PointPole, "off"), (MatchOrientation, "off")]
)
def test_frames_are_each_by_themselves_and_a_moved_target_is_as_given(kind: type[Task], name: str) -> None:
    rng = np.random.default_rng(20240229)
    skeleton, pose, joint = posed_tree(rng, "two roots, all settings")
    first, second = (CASES[kind][name](rng, skeleton, pose, joint) for _ in range(2))
    # Constants of the mechanism differ by frame too.
    channels = np.stack([pose.channels, random_pose(rng, skeleton).channels])
    poses = Pose(channels, np.stack([pose.scale, np.ones_like(pose.scale)]))
    anchor = point(rng, joint)  # for what is about the joints of other tasks
    for task, other in zip(first.parts, second.parts, strict=True):
        moved = task.moved(other.aim)
        field = next(name for name in task.varying if getattr(task, name) is task.aim)
        both = replace(task, **{field: np.stack([task.aim, moved.aim])})
        together = assemble(Problem(skeleton, (both, anchor)), poses)
        posed = together.place(together.mechanism.values(poses))
        for frame, alone in enumerate((task, moved)):
            given, values = assembled(skeleton, poses[frame], [alone, anchor])
            aimed = assembled(skeleton, poses[frame], [task, anchor])[0].aimed([alone.aim, anchor.aim])
            for system in (given, aimed):
                there = system.place(values)
                for found, wanted in (
                    (together.residual(posed), system.residual(there)),
                    (together.jacobian(posed), system.jacobian(there)),
                    (together.errors(posed), system.errors(there)),
                ):
                    assert_allclose(found[frame], wanted[0], atol=1e-11)


# ----------------------------------------------------------------------------------------------------------
# Jacobians of several tasks


@pytest.mark.parametrize("order", ORDER_NAMES)
def test_jacobian_in_each_order_also_at_gimbal_lock(order: str, rng: np.random.Generator) -> None:
    skeleton = chain(3, orders=order, free=True)
    for angle in (0.3, 0.5 * np.pi):
        channels = rng.uniform(-1.0, 1.0, (3, 6))
        channels[:, 3 + "XYZ".index(order[1])] = angle
        pose = Pose.from_channels(channels)
        tasks = [turned(0.8)(rng, skeleton, pose, "joint.2"), point(rng, "joint.2", point=rng.normal(size=3))]
        assert_jacobian(*assembled(skeleton, pose, tasks))


def test_jacobian_of_hundreds_of_joints(rng: np.random.Generator) -> None:
    skeleton = tree(rng, 250, deep=True, settings=True, sliding=0.1)
    pose = random_pose(rng, skeleton, angle=0.5, offset=0.1)
    joints = [skeleton.names[int(joint)] for joint in np.argsort(skeleton.depths)[-3:]]
    tasks: list[Task] = [point(rng, joint) for joint in joints]
    tasks.append(turned(0.8)(rng, skeleton, pose, joints[-1]))
    system, values = assembled(skeleton, pose, tasks)
    some = np.eye(system.size)[rng.integers(0, system.size, 6)]
    mixed = rng.normal(size=(3, system.size)) / np.sqrt(system.size)
    assert_jacobian(system, values, np.concatenate([some, mixed]))


def test_a_frame_whose_target_is_nan_asks_for_nothing(rng: np.random.Generator) -> None:
    skeleton = tree(rng, 10, deep=True, settings=True)
    poses = random_pose(rng, skeleton, frames=(4,))
    given = np.array([False, True, True, False])
    tasks: list[Task] = [
        ReachPoint(joint="joint.9", target=rng.normal(size=(4, 3)), axes=(True, True, False)),
        MatchOrientation(joint="joint.7", target=random_rotations(rng, 4), priority=1),
        StayNear(channels=rng.normal(size=(4, 10, 6)), weight=0.2, over=("joint.5",)),
        AimAt(joint="joint.9", target=rng.normal(size=(4, 3)), priority=1),
        OnPlane(joint="joint.8", origin=rng.normal(size=3), normal=rng.normal(size=(4, 3))),
        KeepDistance(joint="joint.6", target=rng.normal(size=3), distance=rng.uniform(0.5, 1.0, 4)),
        ReachPoint(joint="joint.8", target=rng.normal(size=3)),
    ]
    lacking = [
        replace(task, **{name: np.where(given.reshape(4, *[1] * (field.ndim - 1)), field, np.nan)})
        for task in tasks[:-1]
        for name in task.varying
        if len(field := np.atleast_1d(getattr(task, name))) == 4
    ]
    whole, some = (assemble(Problem(skeleton, (*each, tasks[-1])), poses) for each in (tasks[:-1], lacking))
    posed = some.place(some.mechanism.values(poses))
    present = np.ones((4, 7), dtype=np.bool_)
    present[~given, :6] = False
    rows = present[:, some.task_of_row]
    assert_allclose(some.errors(posed), np.where(present, whole.errors(posed), 0.0))
    assert_allclose(some.residual(posed), np.where(rows, whole.residual(posed), 0.0))
    assert_allclose(some.jacobian(posed), rows[..., None] * whole.jacobian(posed))
    # Frame 0 has none before it: what is linear does not depend on what stands for its target.
    assert_array_equal(some.select(np.array([0, 2])).given, present[[0, 2]])


# ----------------------------------------------------------------------------------------------------------
# Curvature of all tasks at once


def met_orientation(axes: tuple[bool, bool, bool] = (True, True, True)) -> Maker:
    return turned(0.0, axes)


BENT: dict[str, Maker] = {
    **CASES[ReachPoint],
    "aim": CASES[AimAt]["point and axis"],
    "plane": CASES[OnPlane]["point and offset"],
    "one of two": CASES[OneOf]["two places"],
    "orientation": met_orientation(),
    "orientation about one axis": met_orientation((False, True, False)),
    "channels": CASES[StayNear]["some"],
}
"""Tasks whose curvature under multipliers is exact."""


def bent_system(rng: np.random.Generator, kind_of_tree: str) -> tuple[System, Array]:
    """All of those on two joints and two levels, and the values (1, nv)."""
    skeleton, pose, deepest = posed_tree(rng, kind_of_tree)
    joints = deepest, skeleton.names[int(rng.integers(len(skeleton)))]
    tasks = [make(rng, skeleton, pose, joint) for make in BENT.values() for joint in joints]
    for number, task in enumerate(tasks):
        object.__setattr__(task, "priority", number % 2)
    return assembled(skeleton, pose, tasks)


@each_tree
def test_curvature_of_a_stacked_problem_is_in_its_units(kind_of_tree: str, rng: np.random.Generator) -> None:
    """Lengths over the reach, channels by stiffness, weights by the heaviest task."""
    system, values = bent_system(rng, kind_of_tree)
    system.stiffness = rng.uniform(0.0, 0.9, system.size)
    stacked = StackedProblem(system)
    values[:, ~system.own] = 0.0
    at = stacked.evaluate(values[0])
    forces = rng.normal(size=at.residual.shape)
    directions = rng.normal(size=(5, system.size)) * system.own  # of u; slacks stay where they are 0
    around = [stacked.evaluate(each) for each in nudged(values, directions / stacked.weight)]
    expected = difference(np.stack([forces @ stacked.jacobian(each) for each in around]))
    got = directions @ stacked.curvature(at, forces)
    assert_allclose(got, expected, atol=RELATIVE * max(1.0, float(np.abs(expected).max())))
    residuals = np.stack([each.residual for each in around])
    assert_rows_agree(stacked.jacobian(at) @ directions.T, difference(residuals).T)


# ----------------------------------------------------------------------------------------------------------
# What is kept with a skeleton


def test_a_pose_that_differs_in_what_is_held_is_folded_anew(rng: np.random.Generator) -> None:
    """What was folded last is kept with the skeleton and must be used for nothing else."""
    skeleton = tree(rng, 8, deep=True, settings=True)
    task = point(rng, "joint.7", point=rng.normal(size=3))
    poses = [random_pose(rng, skeleton) for _ in range(2)]
    batches = [pose[None] for pose in poses]
    batches.append(Pose(batches[0].channels, 1.2 * batches[0].scale))
    batches.append(Pose(np.repeat(batches[1].channels, 3, axis=0), np.repeat(batches[1].scale, 3, axis=0)))
    mixed = np.concatenate([batch.channels for batch in batches[:2]])
    batches.append(Pose.from_channels(mixed))
    for batch in (*batches, *batches[::-1], batches[2], batches[0]):  # the last two differ in scale only
        mechanism = Mechanism.of(skeleton, batch, [7])
        system = assemble(Problem(skeleton, (task,)), batch)
        assert system.mechanism is mechanism
        posed = system.place(mechanism.values(batch))
        places = forward_kinematics(skeleton, batch).point("joint.7", task.point)
        away = np.linalg.norm(places - task.target, axis=-1)
        assert_allclose(system.errors(posed)[:, 0], away, atol=1e-12)
