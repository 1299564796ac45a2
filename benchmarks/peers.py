# SPDX-License-Identifier: GPL-3.0-or-later
"""Other libraries on the work of the bench: mink and pinocchio; `scripts/bench --peers` shows them.

Each gets the trees of `trees.py` hinge by hinge, the same targets, the same start, the tolerance and the most
iterations of the yardstick. Before anything is timed its forward kinematics must agree with the tree's own.
What a caller has to do for each frame is included: targets set, hinges handed in and out. The loops are those
of the libraries' own examples; where they leave a damping open it is the best of powers of ten here.

- **mink** (MuJoCo, one quadratic program per iteration): a `FrameTask` of position per effector, solved with
  daqp, the step taken whole.
- **pin** (pinocchio): its Jacobians, and its inverse kinematics example with them: Jᵀ (J Jᵀ + c² I)⁻¹ e in
  numpy, with whole steps and the yardstick's c. What differs from the yardstick is who places the hinges.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks import trees
from benchmarks.timing import timed
from benchmarks.trees import PlainLoop, Targets, Tree
from blender_ik_addon.core.arrays import FloatArray

CHECKED_POSES: Final = 5  # Poses in which the placing of a library is compared with the tree's own
SAME_PLACE: Final = 1e-9  # By how much it may differ [m]
MINK_DAMPING: Final = 1e-3
"""`damping` of mink's arm examples; 0.1, that of its humanoids, misses a tenth of a track in time."""


def mjcf(tree: Tree, limit: float | None = None) -> str:
    """The tree as MuJoCo reads it: a body per joint with its hinges, a site per effector, named by number.

    Bodies must have a mass, which plays no part in kinematics. `limit` [rad] to both sides of every angle.
    """
    bound = "" if limit is None else f' limited="true" range="{-limit!r} {limit!r}"'

    def numbers(values: Sequence[float]) -> str:
        return " ".join(repr(float(value)) for value in values)

    def body(joint: trees.Joint) -> Iterator[str]:
        yield f'<body name="{joint.name}" pos="{numbers(joint.offset)}">'
        yield '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        hinges = [(f"t{letter}", "slide", "") for letter in "xyz" * joint.slides]
        hinges += [(letter, "hinge", bound) for letter in "xyz"]
        for suffix, kind, limited in hinges:
            axis = numbers(np.eye(3)["xyz".index(suffix[-1])].tolist())
            yield f'<joint name="{joint.name}_{suffix}" type="{kind}" axis="{axis}"{limited}/>'
        for number, (name, point) in enumerate(tree.effectors):
            if name == joint.name:
                yield f'<site name="{number}" pos="{numbers(point)}"/>'
        yield from children(joint.name)
        yield "</body>"

    def children(parent: str | None) -> Iterator[str]:
        for joint in tree.joints:
            if joint.parent == parent:
                yield from body(joint)

    lines = ["<mujoco>", '<compiler angle="radian"/>', "<worldbody>", *children(None)]
    return "\n".join([*lines, "</worldbody>", "</mujoco>"]) + "\n"


def _within(tips: FloatArray, targets: FloatArray) -> bool:
    """Whether all effectors (E, 3) are at their targets (E, 3) [m], as the yardstick asks."""
    return bool((np.sqrt(((tips - targets) ** 2).sum(-1)) <= trees.TOLERANCE).all())


class MinkPeer:
    """mink with daqp. Sites and hinges are looked up once, as its examples do."""

    def __init__(self, tree: Tree, limit: float | None) -> None:
        self._mink: Any = importlib.import_module("mink")
        self.name = f"mink {version('mink')}"
        model = importlib.import_module("mujoco").MjModel.from_xml_string(mjcf(tree, limit))
        self._configuration = self._mink.Configuration(model)
        # MuJoCo orders the hinges depth first, the tree need not.
        self._order = np.array([model.joint(hinge.name).qposadr[0] for hinge in tree.hinges])
        self._back = np.argsort(self._order)
        numbers = [str(number) for number in range(len(tree.effectors))]
        self._sites = [model.site(number).id for number in numbers]
        costs = {"position_cost": 1.0, "orientation_cost": 0.0}
        self._tasks = [self._mink.FrameTask(number, "site", **costs) for number in numbers]
        self._limits = [] if limit is None else [self._mink.ConfigurationLimit(model)]

    def place(self, values: FloatArray) -> FloatArray:
        """Effectors (E, 3) [m] of hinges (nq,)."""
        self._configuration.update(values[self._back])
        return self._configuration.data.site_xpos[self._sites]

    def solve(self, values: FloatArray, targets: FloatArray, most: int) -> tuple[FloatArray, int]:
        """Hinges (nq,) that bring effectors to targets (E, 3) [m] from other ones, in how many iterations."""
        configuration = self._configuration
        for task, target in zip(self._tasks, targets, strict=True):
            task.set_target(self._mink.SE3.from_translation(target))
        configuration.update(values[self._back])
        iteration = 0
        while not _within(configuration.data.site_xpos[self._sites], targets) and iteration < most:
            velocity = self._mink.solve_ik(
                configuration, self._tasks, 1.0, "daqp", damping=MINK_DAMPING, limits=self._limits
            )
            configuration.integrate_inplace(velocity, 1.0)
            iteration += 1
        return configuration.q[self._order], iteration


class PinocchioPeer:
    """Places and Jacobians by pinocchio, the step by numpy; angles clipped where there are limits."""

    def __init__(self, tree: Tree, limit: float | None) -> None:
        pin: Any = importlib.import_module("pinocchio")
        if not hasattr(pin, "JointModelRX"):
            raise ImportError("another package has the same module name")
        self._pin, self.name = pin, f"pin {version('pin')}"

        def at(place: trees.Place) -> Any:
            return pin.SE3(np.eye(3), np.array(place))

        model = self._model = pin.Model()
        hinges, made = tree.hinges, [0]  # 0 is the world, hinge i is number i + 1
        for hinge in hinges:
            kind = getattr(pin, f"JointModel{'RP'[hinge.slides]}{'XYZ'[hinge.axis]}")()
            made.append(model.addJoint(made[hinge.parent + 1], kind, at(hinge.offset), hinge.name))
        self._frames: list[int] = []
        for number, (joint, point) in enumerate(tree.effectors):
            parent = made[tree.last_hinge(joint) + 1]
            frame = pin.Frame(str(number), parent, at(point), pin.FrameType.OP_FRAME)
            self._frames.append(model.addFrame(frame))
        self._data = model.createData()
        self._limit = PlainLoop(tree, limit).limit
        self._damping = tree.damping**2 * np.eye(3 * len(tree.effectors))
        self._jacobian = np.empty((3 * len(tree.effectors), len(hinges)))

    def _tips(self) -> FloatArray:
        return np.array([self._data.oMf[frame].translation for frame in self._frames])

    def place(self, values: FloatArray) -> FloatArray:
        """See `MinkPeer`."""
        self._pin.framesForwardKinematics(self._model, self._data, values)
        return self._tips()

    def solve(self, values: FloatArray, targets: FloatArray, most: int) -> tuple[FloatArray, int]:
        """See `MinkPeer`."""
        pin, model, data, J = self._pin, self._model, self._data, self._jacobian
        for iteration in range(most + 1):
            pin.computeJointJacobians(model, data, values)
            pin.updateFramePlacements(model, data)
            tips = self._tips()
            if _within(tips, targets) or iteration == most:
                return values, iteration
            for number, frame in enumerate(self._frames):
                whole = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
                J[3 * number : 3 * number + 3] = whole[:3]
            values = values + J.T @ np.linalg.solve(J @ J.T + self._damping, (targets - tips).ravel())
            values = np.clip(values, -self._limit, self._limit)
        raise AssertionError("the loop returns")


PEERS: Final = {"mink": MinkPeer, "pin": PinocchioPeer}


def figures_of_all(
    tree: Tree, targets: Targets, *, warm: bool, limit: float | None = None
) -> Iterator[tuple[str, SimpleNamespace | str]]:
    """Figures of every library with its name, each frame from the one before (`warm`) or from zero.

    These are the median time for a frame (seconds), the part of the reachable frames with every effector
    within the tolerance by the tree's own placing (reached), the most by which an angle is over its limit
    (over_limit) [rad] and the iterations of each frame. Of a library that is not there it is told why.

    Raises:
        RuntimeError: A library places the effectors of the tree elsewhere.
    """
    loop, rng = PlainLoop(tree), np.random.default_rng(11)
    most = trees.TRACK_ITERATIONS if warm else trees.POSE_ITERATIONS
    for name, make in PEERS.items():
        try:
            peer = make(tree, limit)
        except ImportError as error:
            yield (name, f"not installed ({error}): see requirements/peers.txt")
            continue
        poses = rng.uniform(-1.0, 1.0, (CHECKED_POSES, loop.size))
        difference = max(float(np.abs(peer.place(row) - loop.place(row)[2]).max()) for row in poses)
        if not difference <= SAME_PLACE:
            raise RuntimeError(f"{peer.name} places the effectors of {tree.name} {difference:.1e} m off")
        zero = values = np.zeros(loop.size)
        found, times, iterations = [], [], []
        for places in targets.positions:
            (values, count), seconds = timed(peer.solve, values if warm else zero, places, most)
            times.append(seconds)
            found.append(values)
            iterations.append(count)
        tips = [loop.place(row)[2] for row in found]
        reached = np.array([_within(*both) for both in zip(tips, targets.positions, strict=True)])
        yield (
            peer.name,
            SimpleNamespace(
                seconds=float(np.median(times)),
                reached=float(reached[targets.reachable].mean()),
                over_limit=max(0.0, float((np.abs(found) - loop.limit).max())),
                iterations=iterations,
            ),
        )
