# SPDX-License-Identifier: GPL-3.0-or-later
"""Other libraries on the work of the bench: mink, pinocchio, pybullet; `scripts/bench --peers` shows them.

Each gets the trees of `trees.py` hinge by hinge, the same targets, the same start, the tolerance and the most
iterations of the yardstick. Before anything is timed its forward kinematics must agree with the tree's own.
What a caller has to do for each frame is included: targets set, hinges handed in and out. The loops are those
of the libraries' own examples; where they leave a damping open it is the best of powers of ten here.

- **mink** (MuJoCo, one quadratic program per iteration): a `FrameTask` of position per effector, solved with
  daqp, the step taken whole; once as it comes and once with the task's `lm_damping`, which follows the error.
- **pin** (pinocchio): its Jacobians, and its inverse kinematics example with them: Jᵀ (J Jᵀ + c² I)⁻¹ e in
  numpy, with whole steps and the yardstick's c. What differs from the yardstick is who places the hinges.
- **pybullet**: `calculateInverseKinematics2`, all iterations within one call; it does not tell how many.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from xml.sax.saxutils import quoteattr

import numpy as np

from benchmarks import trees
from benchmarks.trees import PlainLoop, Targets, Tree
from blender_ik_addon.core.arrays import FloatArray, IntArray

CHECKED_POSES: Final = 5
"""Poses in which the placing of a library is compared with the tree's own."""

MINK_DAMPING: Final = 1e-3
"""`damping` of mink's arm examples; 0.1, that of its humanoids, misses a tenth of a track in time."""

MINK_LM_DAMPING: Final = 1.0
"""`lm_damping` of all of mink's examples, in the row that has it."""

PYBULLET_DAMPING: Final = 1e-3
"""`jointDamping`: with its default most frames of a track miss in time, below this nothing gets faster."""

SLIDER_RANGE: Final = 100.0
"""Range of sliders in a URDF, which must have one [m]."""

INSTALL: Final = "install requirements/peers.txt, or run scripts/bench --peers"


class MissingError(Exception):
    """A library cannot take part; the message says why and what would help."""


@dataclass(frozen=True)
class Figures:
    """How a library did on some frames."""

    name: str
    """Library, version, and settings where there are rows with others."""
    missing: str = ""
    """Why it took no part and how to change that; then there are no figures."""
    seconds: float = np.nan
    """Median time for a frame [s]."""
    reached: float = np.nan
    """Part of the reachable frames with every effector within the tolerance, by the tree's own placing."""
    over_limit: float = 0.0
    """Most by which an angle is over its limit [rad]."""
    iterations: tuple[int, ...] = ()
    """Of each frame; nothing where the library does not tell."""


class Peer(Protocol):
    """A library with a tree."""

    name: str

    def place(self, values: FloatArray) -> FloatArray:
        """Effectors (E, 3) [m] of hinges (nq,)."""
        ...

    def solve(self, values: FloatArray, targets: FloatArray, most: int) -> tuple[FloatArray, int | None]:
        """Hinges (nq,) that bring effectors to targets (E, 3) [m] from other ones, in how many iterations."""
        ...


# Models as text


def _numbers(values: Sequence[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def _unit(axis: int) -> str:
    return _numbers(np.eye(3)[axis].tolist())


def mjcf(tree: Tree, limit: float | None = None) -> str:
    """The tree as MuJoCo reads it: a body per joint with its hinges, a site per effector, named by number.

    Bodies must have a mass, which plays no part in kinematics. `limit` [rad] to both sides of every angle.
    """
    children: dict[str | None, list[trees.Joint]] = {}
    for joint in tree.joints:
        children.setdefault(joint.parent, []).append(joint)
    bound = "" if limit is None else f' limited="true" range="{_numbers([-limit, limit])}"'

    def body(joint: trees.Joint) -> Iterator[str]:
        yield f'<body name={quoteattr(joint.name)} pos="{_numbers(joint.offset)}">'
        yield '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        hinges = [(f"t{letter}", "slide", "") for letter in "xyz" * joint.slides]
        hinges += [(letter, "hinge", bound) for letter in "xyz"]
        for suffix, kind, limited in hinges:
            name, axis = quoteattr(f"{joint.name}_{suffix}"), _unit("xyz".index(suffix[-1]))
            yield f'<joint name={name} type="{kind}" axis="{axis}"{limited}/>'
        for number, (name, point) in enumerate(tree.effectors):
            if name == joint.name:
                yield f'<site name="{number}" pos="{_numbers(point)}"/>'
        for child in children.get(joint.name, []):
            yield from body(child)
        yield "</body>"

    lines = ["<mujoco>", '<compiler angle="radian"/>', "<worldbody>"]
    for root in children[None]:
        lines += body(root)
    return "\n".join([*lines, "</worldbody>", "</mujoco>"]) + "\n"


def urdf(tree: Tree) -> str:
    """The tree as URDF: a link per hinge and a fixed one per effector.

    Joints are called like the hinges, those of the effectors by number. In short lines: pybullet cuts long
    ones.
    """
    hinges = tree.hinges
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    )
    lines = ['<robot name="tree">', '<link name="world">', inertial, "</link>"]

    def link(name: str, kind: str, parent: str, offset: trees.Place, more: Sequence[str] = ()) -> None:
        lines.extend([f"<link name={quoteattr('link ' + name)}>", inertial, "</link>"])
        lines.append(f"<joint name={quoteattr(name)} type={quoteattr(kind)}>")
        lines.append(f"<parent link={quoteattr(parent)}/>")
        lines.append(f"<child link={quoteattr('link ' + name)}/>")
        lines.extend([f'<origin xyz="{_numbers(offset)}"/>', *more, "</joint>"])

    for hinge in hinges:
        parent = "world" if hinge.parent < 0 else "link " + hinges[hinge.parent].name
        more = [f'<axis xyz="{_unit(hinge.axis)}"/>']
        if hinge.slides:
            bounds = f'lower="{-SLIDER_RANGE!r}" upper="{SLIDER_RANGE!r}"'
            more.append(f'<limit {bounds} effort="1" velocity="1"/>')
        link(hinge.name, "prismatic" if hinge.slides else "continuous", parent, hinge.offset, more)
    for number, (joint, point) in enumerate(tree.effectors):
        link(str(number), "fixed", "link " + hinges[tree.last_hinge(joint)].name, point)
    return "\n".join([*lines, "</robot>"]) + "\n"


# Libraries


def _library(name: str, module: str, where: str = INSTALL) -> Any:
    """A module that may not be there; of any type, since no checker can count on it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingError(f"{name} is not installed: {where}") from error


def _version(package: str) -> str:
    return importlib.import_module("importlib.metadata").version(package)


def _within(tips: FloatArray, targets: FloatArray) -> bool:
    """Whether all effectors (E, 3) are at their targets (E, 3) [m], as the yardstick asks."""
    return bool((np.sqrt(((tips - targets) ** 2).sum(-1)) <= trees.TOLERANCE).all())


class MinkPeer:
    """mink with daqp. Sites and hinges are looked up once, as its examples do."""

    def __init__(self, tree: Tree, limit: float | None, lm_damping: float) -> None:
        self._mink = _library("mink", "mink")
        mujoco = _library("mujoco", "mujoco")
        title = f"mink {_version('mink')}"
        self.name = f"{title}, lm_damping {lm_damping:g}" if lm_damping else title
        model = mujoco.MjModel.from_xml_string(mjcf(tree, limit))
        self._configuration = self._mink.Configuration(model)
        # MuJoCo orders the hinges depth first, the tree need not.
        self._order: IntArray = np.array([model.joint(hinge.name).qposadr[0] for hinge in tree.hinges])
        self._back: IntArray = np.argsort(self._order)
        self._sites = [model.site(str(number)).id for number in range(len(tree.effectors))]
        self._tasks = [
            self._mink.FrameTask(
                str(number), "site", position_cost=1.0, orientation_cost=0.0, lm_damping=lm_damping
            )
            for number in range(len(tree.effectors))
        ]
        self._limits = [] if limit is None else [self._mink.ConfigurationLimit(model)]

    def place(self, values: FloatArray) -> FloatArray:
        """See `Peer`."""
        self._configuration.update(values[self._back])
        return self._configuration.data.site_xpos[self._sites]

    def solve(self, values: FloatArray, targets: FloatArray, most: int) -> tuple[FloatArray, int]:
        """See `Peer`."""
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
        pin = self._pin = _library("pin", "pinocchio")
        if not hasattr(pin, "JointModelRX"):  # another package has the same module name
            raise MissingError(f"pin is not installed, the pinocchio found is another: {INSTALL}")
        self.name = f"pin {_version('pin')}"
        kinds = (
            (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ),
            (pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ),
        )

        def at(place: trees.Place) -> Any:
            return pin.SE3(np.eye(3), np.array(place))

        model = self._model = pin.Model()
        hinges, made = tree.hinges, [0]  # 0 is the world, hinge i is number i + 1
        for hinge in hinges:
            kind = kinds[hinge.slides][hinge.axis]()
            made.append(model.addJoint(made[hinge.parent + 1], kind, at(hinge.offset), hinge.name))
        self._frames: list[int] = []
        for number, (joint, point) in enumerate(tree.effectors):
            parent = made[tree.last_hinge(joint) + 1]
            frame = pin.Frame(str(number), parent, at(point), pin.FrameType.OP_FRAME)
            self._frames.append(model.addFrame(frame))
        self._data = model.createData()
        self._limit = None
        if limit is not None:
            self._limit = np.where([hinge.slides for hinge in hinges], np.inf, limit)
        self._damping = tree.damping**2 * np.eye(3 * len(tree.effectors))
        self._jacobian = np.empty((3 * len(tree.effectors), len(hinges)))

    def _tips(self) -> FloatArray:
        return np.array([self._data.oMf[frame].translation for frame in self._frames])

    def place(self, values: FloatArray) -> FloatArray:
        """See `Peer`."""
        self._pin.framesForwardKinematics(self._model, self._data, values)
        return self._tips()

    def solve(self, values: FloatArray, targets: FloatArray, most: int) -> tuple[FloatArray, int]:
        """See `Peer`."""
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
            if self._limit is not None:
                values = np.clip(values, -self._limit, self._limit)
        raise AssertionError("the loop returns")


class PybulletPeer:
    """pybullet without a window. Its server lasts as long as the process."""

    def __init__(self, tree: Tree, limit: float | None) -> None:
        where = f"{INSTALL}; there are wheels up to Python 3.11"
        self._bullet = _library("pybullet", "pybullet", where)
        self.name = f"pybullet {_version('pybullet')}"
        if limit is not None:
            raise MissingError(
                "pybullet returns the start when it gets limits together with several effectors"
            )
        client = self._client = self._bullet.connect(self._bullet.DIRECT)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tree.urdf"
            path.write_text(urdf(tree), encoding="utf-8")
            flags = self._bullet.URDF_USE_INERTIA_FROM_FILE
            self._body = self._bullet.loadURDF(
                str(path), useFixedBase=True, flags=flags, physicsClientId=client
            )
        count = self._bullet.getNumJoints(self._body, physicsClientId=client)
        facts = [
            self._bullet.getJointInfo(self._body, number, physicsClientId=client) for number in range(count)
        ]
        number_of = {fact[1].decode(): fact[0] for fact in facts}
        places = {fact[1].decode(): fact[3] for fact in facts}
        self._joints = [number_of[hinge.name] for hinge in tree.hinges]
        self._tips = [number_of[str(number)] for number in range(len(tree.effectors))]
        # In pybullet's own order; what it numbers first is the base.
        self._back: IntArray = np.argsort([places[hinge.name] for hinge in tree.hinges])
        self._order: IntArray = np.argsort(self._back)
        self._damping = [PYBULLET_DAMPING] * len(self._joints)

    def place(self, values: FloatArray) -> FloatArray:
        """See `Peer`."""
        for joint, value in zip(self._joints, values, strict=True):
            self._bullet.resetJointState(self._body, joint, value, physicsClientId=self._client)
        states = self._bullet.getLinkStates(
            self._body, self._tips, computeForwardKinematics=True, physicsClientId=self._client
        )
        # The centre of mass, which is at the link's origin; the frame itself comes in single precision.
        return np.array([state[0] for state in states])

    def solve(self, values: FloatArray, targets: FloatArray, most: int) -> tuple[FloatArray, None]:
        """See `Peer`."""
        found = self._bullet.calculateInverseKinematics2(
            self._body,
            self._tips,
            targets.tolist(),
            currentPositions=values[self._back].tolist(),
            jointDamping=self._damping,
            maxNumIterations=most,
            residualThreshold=trees.TOLERANCE,
            physicsClientId=self._client,
        )
        return np.array(found)[self._order], None


PEERS: Final[Mapping[str, Callable[[Tree, float | None], Peer]]] = {
    "mink": lambda tree, limit: MinkPeer(tree, limit, 0.0),
    "mink, lm_damping": lambda tree, limit: MinkPeer(tree, limit, MINK_LM_DAMPING),
    "pin": PinocchioPeer,
    "pybullet": PybulletPeer,
}
"""How to make each, from a tree and a limit [rad]."""


# Figures


def check_placing(peer: Peer, tree: Tree) -> None:
    """Compare a library's effectors with the tree's own, in poses drawn at random.

    Raises:
        RuntimeError: It is not the same tree.
    """
    loop, rng = PlainLoop(tree), np.random.default_rng(11)
    poses = rng.uniform(-1.0, 1.0, (CHECKED_POSES, loop.size))
    difference = max(float(np.abs(peer.place(row) - loop.place(row)[2]).max()) for row in poses)
    if not difference <= trees.SAME_PLACE:
        raise RuntimeError(f"{peer.name} places the effectors of {tree.name} {difference:.1e} m off")


def figures(peer: Peer, tree: Tree, targets: Targets, *, warm: bool, limit: float | None = None) -> Figures:
    """Of a library on targets, each frame from the one before (`warm`) or from zero."""
    loop = PlainLoop(tree)
    zero = values = np.zeros(loop.size)
    most = trees.TRACK_ITERATIONS if warm else trees.POSE_ITERATIONS
    found, times, iterations = [], [], []
    for places in targets.positions:
        start = time.process_time()
        values, count = peer.solve(values if warm else zero, places, most)
        times.append(time.process_time() - start)
        found.append(values)
        iterations.append(count)
    tips = [loop.place(row)[2] for row in found]
    reached = np.array([_within(*both) for both in zip(tips, targets.positions, strict=True)])
    over = 0.0
    if limit is not None:
        over = max(0.0, float(np.abs(np.array(found)[:, ~loop.slides]).max()) - limit)
    return Figures(
        peer.name,
        seconds=float(np.median(times)),
        reached=float(reached[targets.reachable].mean()),
        over_limit=over,
        iterations=tuple(count for count in iterations if count is not None),
    )


def figures_of_all(
    tree: Tree, targets: Targets, *, warm: bool, limit: float | None = None
) -> Iterator[Figures]:
    """Figures of every library, those that are missing included."""
    for name, make in PEERS.items():
        try:
            peer = make(tree, limit)
        except MissingError as missing:
            yield Figures(name, missing=str(missing))
            continue
        check_placing(peer, tree)
        yield figures(peer, tree, targets, warm=warm, limit=limit)
