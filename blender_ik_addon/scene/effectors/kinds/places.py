# SPDX-License-Identifier: GPL-3.0-or-later
"""Places and orientations of targets, for the bone to take."""

import numpy as np

from ....core import (
    IKError,
    MatchOrientation,
    ReachPoint,
    Task,
)
from ....core.model.rotation import rotvec_from_matrix
from ..effectors import Effector, orientations
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
    mixed,
    points_of,
    size,
    turned,
)
from .base import Errors, Kind


class Place(Kind):
    """The point of the bone is at the place of the target, the bone turned as the target is, or both."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Place and orientation of the target."""
        matrices = frame_data.world_from_target[:, number]
        place = matrices[:, :3, 3] if effector.position else None
        rotation = orientations(matrices) if effector.orientation else None
        if rotation is not None and np.isnan(rotation).any():
            if effector.pin is not None:
                raise IKError(
                    f"effector {effector.name!r}: pinned, its bone had no orientation. Pin it again"
                )
            raise IKError(
                f"effector {effector.name!r}: its target {effector.target!r} is scaled to nothing, so it "
                "has no orientation. Reset its scale (Alt S), or use the kind Position"
            )
        if frame_data.whole(number):
            return Goal(place=place, rotation=rotation)
        start, part = frame_data.bone(effector.bone), frame_data.part(number)
        if place is not None:
            place = mixed(points_of(start, effector.point), place, part)
        if rotation is not None:
            rotation = turned(orientations(start), rotation, part)
        return Goal(place=place, rotation=rotation)

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """That for the place, then that for the orientation."""
        tasks: list[Task] = []
        if goal.place is not None:
            tasks.append(
                ReachPoint(
                    joint=effector.bone,
                    target=space.place(goal.place),
                    point=np.array(effector.point),
                    axes=effector.position_axes,
                    armature_from_axes=space.armature_from_axes,
                    priority=effector.priority,
                    weight=effector.weight,
                    softness=space.length(effector.softness_position),
                    name=effector.name,
                )
            )
        if goal.rotation is not None:
            tasks.append(
                MatchOrientation(
                    joint=effector.bone,
                    target=space.armature_from_axes @ goal.rotation,
                    axes=effector.orientation_axes,
                    priority=effector.priority,
                    weight=effector.weight,
                    softness=effector.softness_rotation,
                    name=effector.name,
                )
            )
        return tuple(tasks)

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Distance along the axes that matter, angle about those; inf where the bone has no orientation."""
        bones = posed.bone(effector.bone)
        distances = angles = None
        if goal.place is not None:
            away = (points_of(bones, effector.point) - goal.place) * effector.position_axes
            distances = size(away)
        if goal.rotation is not None:
            turns = np.swapaxes(goal.rotation, -1, -2) @ orientations(bones)
            known = np.logical_and.reduce(np.isfinite(turns), axis=(-2, -1))
            vectors = rotvec_from_matrix(np.where(known[..., None, None], turns, np.eye(3)))
            angles = np.where(known, size(vectors * effector.orientation_axes), np.inf)
        return distances, angles
