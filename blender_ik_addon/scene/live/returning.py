# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses that a body had before its targets were moved, and goes back to when they are put back.

A tool that is cancelled puts targets back to the very bit: then the pose is put back too, bit by bit, and not
solved for again. A tool that is still running may come by the same place: then the body goes there step by
step, as it goes everywhere.

Nobody tells when a number field is let go, nor that Escape has ended its drag, which may be long after the
body has come to rest. So its poses are kept for longer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bpy.types import Object

from ...core import Pose
from ..armature.restoring import PoseSnapshot
from ..properties.settings import settings_of
from ..rig.live_state import Digest, on_the_way

MOST_KEPT: Final = 32
"""Most poses that are kept of number fields: one for each time the body has come to rest in a drag."""


@dataclass(frozen=True)
class Resting:
    """A pose and what was solved for then."""

    aims: Digest
    channels: Pose
    """As a solve would begin with it."""
    pose: PoseSnapshot
    report: tuple[str, bool]
    """Message, and whether all was reached."""
    errors: Mapping[str, tuple[float, float, str]]
    """What the panel shows of each entry, by its name: entries that are not used come and go."""

    @classmethod
    def of(cls, armature_object: Object, aims: Digest, channels: Pose, bones: Sequence[str]) -> "Resting":
        """Note how it is now."""
        settings = settings_of(armature_object)
        return cls(
            aims,
            channels,
            PoseSnapshot.take(armature_object, bones),
            (settings.last_message, settings.last_reached),
            {
                entry.name: (entry.error_position, entry.error_rotation, entry.why)
                for entry in settings.effectors
            },
        )

    def restore(self, armature_object: Object) -> None:
        """Put pose and panel back."""
        self.pose.restore(armature_object)
        settings = settings_of(armature_object)
        settings.last_message, settings.last_reached = self.report
        for entry in settings.effectors:
            if entry.name in self.errors:
                entry.error_position, entry.error_rotation, entry.why = self.errors[entry.name]

    def is_of(self, aims: Digest) -> bool:
        """Whether targets were there."""
        return self.aims in (aims, on_the_way(aims))


@dataclass
class Returning:
    """What a body may go back to."""

    start: Resting | None = None
    """How it was before the tool was started that is running now."""
    fields: list[Resting] = field(default_factory=list)
    """How it was before number fields were dragged."""
    home: Resting | None = None
    """Where it is going back to, step by step."""

    def begin(self, resting: Resting, *, of_field: bool, underway: bool) -> None:
        """Note how the body is before something moves it."""
        self.start = resting
        if not of_field:
            self.fields.clear()
        elif not underway:
            self.fields = [*self.fields[-MOST_KEPT + 1 :], resting]

    def found(self, aims: Digest, *, of_field: bool) -> Resting | None:
        """The pose that belongs to where targets are."""
        own = [*self.fields] if of_field else []
        own += [resting for resting in (self.start, self.home) if resting is not None]
        return next((resting for resting in own if resting.is_of(aims)), None)

    def end(self, *, underway: bool) -> None:
        """The tool has ended."""
        self.start = None
        if not underway:
            self.home = None
