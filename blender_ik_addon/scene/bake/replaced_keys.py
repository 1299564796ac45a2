# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that a bake would replace and that Poise has not written: they are somebody's work.

The button asks before it replaces them; scripts and the command line refuse unless they are told to. Where an
effector lets bones stay near the pose of each frame scripts need not be told: such a bake follows these keys.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from bpy.types import FCurve, Object

from ...core.arrays import BoolArray, FloatArray
from ...core.messages import Message, counted, listed
from ..animation.fcurves import Channel, action_curves, driven_channels, played_channels, player_of
from ..animation.own_keys import foreign_keys
from ..armature.armature import Armature
from ..kinds.frame_data import FrameData
from ..properties.settings import EFFECTORS_PATH, settings_of
from ..rig.rig import Rig
from .frames import frame_times, frames_at

SAME_AS_RECORDED: Final = 1e-5
"""Difference of values [m, rad, 1], or part of them, up to which they are the same: the rounding is less."""


@dataclass(frozen=True)
class ReplacedKeys:
    """Keys that a bake would replace and that Poise has not written."""

    count: int
    bones: tuple[str, ...]
    action: str
    span: tuple[float, float]
    """From which frame to which."""

    @classmethod
    def found(
        cls,
        armature_object: Object,
        armature: Armature,
        joints: Iterable[int],
        span: tuple[float, float],
        strip: str = "",
    ) -> "ReplacedKeys":
        """Find them among the channels that a solve writes of some joints, in a strip or the own action."""
        names = armature.skeleton.names
        owned = [(names[joint], own) for joint in sorted(joints) for own in armature.written_channels(joint)]
        channels = [channel for _, channel in owned]
        counts = foreign_keys(armature_object, channels, span, strip, _in_recording(armature_object))
        bones = dict.fromkeys(name for (name, _), count in zip(owned, counts, strict=True) if count)
        player = player_of(armature_object, strip)
        action = None if player is None else player.action
        return cls(sum(counts), tuple(bones), action.name if action else "", span)

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def text(self) -> Message:
        """Which keys are replaced."""
        return counted(
            self.count,
            "{count} key of {bones} in action {action!r}, frames {first:g} to {last:g}",
            "{count} keys of {bones} in action {action!r}, frames {first:g} to {last:g}",
            bones=listed(self.bones),
            action=self.action,
            first=self.span[0],
            last=self.span[1],
        )

    @property
    def question(self) -> str:
        """Say what would be lost."""
        return Message(
            "The bake replaces {keys}. Poise has not written them, or they were edited since", keys=self.text
        )

    @property
    def refusal(self) -> str:
        """Say what would be lost and what to do."""
        return Message(
            "the bake would replace {keys}. Poise has not written them, or they were edited since: allow "
            "it with replace=True (--force on the command line), or choose other frames",
            keys=self.text,
        )


def _in_recording(armature_object: Object) -> Callable[[Channel, FCurve, FloatArray], BoolArray] | None:
    """Return at which times (k,) a channel plays what the recording has; None where there is none.

    It has whole frames alone: of keys between them, or beside, those that are nearest count.
    """
    recording = settings_of(armature_object).recording
    if recording is None:
        return None
    curves = action_curves(recording)

    def is_kept(channel: Channel, curve: FCurve, times: FloatArray) -> BoolArray:
        if (own := curves.get(channel)) is None:
            return np.zeros(len(times), dtype=np.bool_)
        nearest = frame_times(np.round(frames_at(times))).tolist()
        values = np.array([(curve.evaluate(time), own.evaluate(time)) for time in nearest]).reshape(-1, 2)
        return np.isclose(*values.T, rtol=SAME_AS_RECORDED, atol=SAME_AS_RECORDED)

    return is_kept


def solved_joints(rig: Rig, frames: FrameData) -> set[int]:
    """Return the joints that a solve of some frames moves in any of them."""
    return set(rig.plan(frames).problem.moving_joints)


def may_be_solved(armature_object: Object, rig: Rig, now: FrameData) -> set[int]:
    """Return the joints that a bake may move, known from one frame: an animated influence may be above 0."""
    changing = played_channels(armature_object) | driven_channels(armature_object)
    if any(path.startswith(EFFECTORS_PATH) for path, _ in changing):
        now = replace(now, influences=np.ones_like(now.influences))
    return solved_joints(rig, now)


def are_followed(rig: Rig) -> bool:
    """Whether the keys are what the bake follows: where bones are to stay near what is played."""
    return any(effector.kind == 'STAY' and effector.stay == 'PRESENT' for effector in rig.effectors)
