# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses drawn and motions animated, with matplotlib, which nothing else here needs.

It is imported where something is drawn: `pip install poise_ik[plot]`. Figures are made without pyplot, so
that a program with windows of its own is left alone; to draw into one of its axes pass them.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, check_number, frozen, times
from .errors import IKError
from .model.kinematics import forward_kinematics
from .model.mechanism import cross
from .model.rotation import matrix_from_quat
from .model.skeleton import Pose, Skeleton
from .problem.problem import Problem
from .tasks import AimAt, PointPole, ReachPoint, Task

SIZE: Final = (5.0, 5.0)
"""Of a figure [inches]."""

INK, TARGET, PAPER = "#2b2d33", "#d1495b", "#ffffff"
"""Colours of bones, of targets and of what is behind them."""

MARGIN: Final = 0.05
"""Room around the figure in units of its size [1]."""

EXTENSIONS: Final = (".gif", ".html")
"""Of animations."""


def plot_pose(
    skeleton: Skeleton,
    pose: Pose,
    *,
    problem: Problem | None = None,
    ends: npt.ArrayLike | None = None,
    axes: Any = None,
    view: tuple[float, float] = (15.0, -60.0),
) -> Any:
    """Draw a pose: a line for each bone, a cross for each target that is a place.

    Args:
        skeleton: The joints; its `up` is upwards in the picture.
        pose: One pose, without leading axes.
        problem: Whose targets are drawn, with a dotted line from each point that misses one.
        ends: Ends of the bones in the frames of their joints, (n, 3) [m], as `Clip.ends`; 0 for none.
        axes: Axes of matplotlib with `projection="3d"`; by default those of a new figure.
        view: Elevation and azimuth of the eye [degrees].

    Returns:
        The axes; `axes.figure.savefig("pose.png")` writes a new figure.

    Raises:
        IKError: The pose is not one of the skeleton, or matplotlib is not installed.
    """
    if pose.frames:
        raise IKError(f"plot_pose draws one pose, got leading axes {pose.frames}: see animate")
    if problem is not None and problem.frames not in (None, 1):
        raise IKError(f"plot_pose draws the targets of one frame, got {problem.frames}: see animate")
    drawing = _Drawing(skeleton, pose[None], problem, ends)
    return drawing.into(axes, view).show(0)


def animate(
    path: str | os.PathLike[str],
    skeleton: Skeleton,
    poses: Pose,
    *,
    frame_time: float = 1.0 / 24.0,
    problem: Problem | None = None,
    ends: npt.ArrayLike | None = None,
    view: tuple[float, float] = (15.0, -60.0),
) -> None:
    """Write an animation of a motion, as a GIF or as a page with a player, by the path's extension.

    Args:
        path: `.gif`, or `.html`: one file with all pictures, a slider and buttons.
        poses: The frames, (F, n, 6).
        frame_time: From a frame to the next [s]; a GIF rounds it to hundredths.
        problem: Whose targets are drawn, see `plot_pose`.
        ends: Likewise.
        view: Likewise.

    Raises:
        IKError: The poses are no motion of the skeleton, the extension is another, matplotlib is not
            installed, or the file cannot be written.
    """
    check_number("frame_time", frame_time, 0.0, above=True)
    path = Path(path)
    if path.suffix.lower() not in EXTENSIONS:
        raise IKError(f"an animation is written as {' or '.join(EXTENSIONS)}, got {path.name!r}")
    if len(poses.frames) != 1 or not len(poses):
        raise IKError(f"a motion has one leading axis with at least one frame, got {poses.frames}")
    if problem is not None and problem.frames not in (None, 1, len(poses)):
        raise IKError(f"the targets have {problem.frames} frames, the motion {len(poses)}")
    drawing = _Drawing(skeleton, poses, problem, ends)
    axes = drawing.into(None, view).axes

    from matplotlib import animation

    library: Any = animation  # its types say less than it takes
    moving = library.FuncAnimation(axes.figure, drawing.show, frames=len(poses), blit=False)
    if path.suffix.lower() == ".gif":
        writer = library.PillowWriter(fps=1.0 / frame_time)
    else:
        writer = library.HTMLWriter(fps=1.0 / frame_time, embed_frames=True)
    try:
        moving.save(path, writer=writer)
    except OSError as error:
        raise IKError(f"{path} cannot be written: {error.strerror or error}") from None


class _Drawing:
    """What is drawn of frames of a pose, upwards along z."""

    def __init__(
        self, skeleton: Skeleton, poses: Pose, problem: Problem | None, ends: npt.ArrayLike | None
    ) -> None:
        """Place everything in all frames.

        Args:
            poses: The frames, (F, n, 6).
            ends: Of the bones, (n, 3) [m].
        """
        if poses.channels.shape[1] != len(skeleton):
            raise IKError(f"the pose has {poses.channels.shape[1]} joints, the skeleton {len(skeleton)}")
        if not len(skeleton):
            raise IKError("there is nothing to draw: the skeleton has no joints")
        if problem is not None and problem.skeleton.names != skeleton.names:
            raise IKError("the problem is about another skeleton")
        try:
            import_module("matplotlib")
        except ImportError:
            raise IKError("pictures need matplotlib: pip install poise_ik[plot]") from None
        turn = _upright(skeleton.up)
        posed = forward_kinematics(skeleton, poses)
        places = posed.matrices[..., :3, 3]
        below = [joint for joint, parent in enumerate(skeleton.parents) if parent >= 0]
        bones = [np.stack([places[:, skeleton.parents[below]], places[:, below]], axis=2)]
        if ends is not None:
            own = frozen(ends)
            if own.shape != (len(skeleton), 3):
                raise IKError(f"ends are one for each joint, ({len(skeleton)}, 3), got shape {own.shape}")
            tips = places + times(posed.matrices[..., :3, :3], own)
            with_end = own.any(axis=1)
            bones.append(np.stack([places[:, with_end], tips[:, with_end]], axis=2))
        self.joints = places @ turn.T
        """(F, n, 3)."""
        self.bones = np.concatenate(bones, axis=1) @ turn.T
        """Beginnings and ends, (F, b, 2, 3)."""
        self.misses = np.zeros((len(poses), 0, 2, 3))
        """Points and targets of tasks, (F, t, 2, 3); NaN where there is no target."""
        if problem is not None:
            pairs = [_pair(task, posed.matrices, skeleton) for task in problem.weighty_tasks]
            found = [pair for pair in pairs if pair is not None]
            if found:
                self.misses = np.stack(found, axis=1) @ turn.T

    def into(self, axes: Any, view: tuple[float, float]) -> _Drawing:
        """Draw into axes, or into those of a new figure, with one scale and room for all frames."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        if axes is None:
            figure = Figure(figsize=SIZE, facecolor=PAPER, layout="tight")
            FigureCanvasAgg(figure)
            axes = figure.add_subplot(projection="3d")
        elif not hasattr(axes, "add_collection3d"):
            raise IKError('axes must be made with projection="3d"')
        self.axes = axes
        every = np.concatenate([each.reshape(-1, 3) for each in (self.joints, self.bones, self.misses)])
        low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
        half = (0.5 + MARGIN) * float((high - low).max()) or 1.0
        for name, middle in zip("xyz", 0.5 * (low + high), strict=True):
            getattr(axes, f"set_{name}lim")(middle - half, middle + half)
            getattr(axes, f"set_{name}label")(f"{name} [m]")
        axes.set_box_aspect((1.0, 1.0, 1.0))
        axes.view_init(*view)
        self._collections: list[Any] = []
        return self

    def show(self, frame: int) -> Any:
        """Show a frame in place of the one before; the axes."""
        from mpl_toolkits.mplot3d.art3d import Line3DCollection  # pyright: ignore[reportMissingTypeStubs]

        for each in self._collections:
            each.remove()
        joints, misses = self.joints[frame], self.misses[frame]
        targets = misses[:, 1]
        bones = Line3DCollection(list(self.bones[frame]), colors=INK, linewidths=2.5, capstyle="round")
        self._collections = [self.axes.add_collection3d(bones)] if len(self.bones[frame]) else []
        self._collections.append(self.axes.scatter(*joints.T, color=INK, s=12.0, depthshade=False))
        if len(misses):
            dotted = Line3DCollection(list(misses), colors=TARGET, linewidths=1.0, linestyles=":")
            crosses = self.axes.scatter(*targets.T, color=TARGET, s=40.0, marker="x", depthshade=False)
            self._collections += [self.axes.add_collection3d(dotted), crosses]
        return self.axes


def _pair(task: Task, matrices: FloatArray, skeleton: Skeleton) -> FloatArray | None:
    """Where a task's point is and where it should be, (F, 2, 3) [m]; None where its target is no place.

    Of a direction both are the target.
    """
    if not isinstance(task, ReachPoint | AimAt | PointPole):
        return None
    wanted = np.broadcast_to(task.target, (len(matrices), 3))
    if not isinstance(task, ReachPoint):
        return np.stack([wanted, wanted], axis=1)
    joint = matrices[:, skeleton.index(task.joint)]
    point = (joint[:, :3, :3] @ task.point) + joint[:, :3, 3]
    return np.stack([np.where(np.isnan(wanted), np.nan, point), wanted], axis=1)


def _upright(up: FloatArray) -> FloatArray:
    """The shortest turn of a direction (3,) to z, (3, 3)."""
    if up[2] <= -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    return matrix_from_quat([1.0 + float(up[2]), *cross(up, np.array([0.0, 0.0, 1.0])).tolist()])
