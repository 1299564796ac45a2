# SPDX-License-Identifier: GPL-3.0-or-later
"""How a bake is done: the same options for script, operator and command line."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Final, TypedDict, Unpack

from bpy.types import Object

from ...core import IKError
from ...core.arrays import check_number, check_whole
from ...core.errors import check_known
from ...core.messages import Message
from ..properties.declared import check_item
from ..properties.settings import POISE_PG_armature, settings_of
from .frames import frames_of

LEAST_STEP: Final = 0.02
"""Smallest step [frames]: keys nearer than half of that are one to Blender."""

OPTION: Final = Message("An option of a bake")
"""What is said of an unknown one."""

STRIP_NAME: Final = "Poise"
"""Of a strip without another name."""


class BakeChoices(TypedDict, total=False):
    """Fields of `BakeOptions` by name; what is None is as in the settings."""

    step: float | None
    at_keys: bool | None
    fewest: bool | None
    deviation: float | None
    deviation_angle: float | None
    to: str | None
    name: str | None
    blend: str | None
    ease_in: int | None
    ease_out: int | None
    bones: str | Iterable[str] | None
    channels: str | None
    loop: bool | None
    clear_constraints: bool | None
    replace: bool


@dataclass(frozen=True)
class BakeOptions:
    """How frames are baked; by default as the settings say, `bake_step` for `step` and so on."""

    frames: tuple[int, ...]
    """All frames to bake. Keys of earlier bakes on the solved channels, from the first of them to the last,
    are replaced."""
    step: float
    """Every which of the frames is keyed, and the last one; all are solved. Below 1 sub-frames are solved and
    keyed too: with 0.5 there are twice as many keys as frames."""
    at_keys: bool
    """Whether those are keyed at which targets have keys, and others only where the error between keys
    exceeds the deviation."""
    fewest: bool
    """Whether each curve gets the fewest keys, with fitted handles, that keep the bones of effectors within
    the deviations, at all frames and between them; with `at_keys` besides those where targets have keys."""
    deviation: float
    """How far an effector may be from where it was solved, where there are fewer keys than frames [m]."""
    deviation_angle: float
    """By how much it may be turned there [rad]."""
    to: str
    """'ACTION', the object's own action; 'NEW', a new action; or 'STRIP', an NLA strip over what plays: the
    object's own action goes into a strip below."""
    name: str
    """Of the new action or of the strip. A strip that Poise has made is baked again."""
    blend: str
    """How the strip plays over what is below it, 'COMBINE', 'ADD' or 'REPLACE'; what plays is what was
    solved."""
    ease_in: int
    """Frames over which the motion that is there goes over into the solved one, at the beginning."""
    ease_out: int
    """The same at the end. Errors in these frames are nan."""
    bones: str | Iterable[str]
    """Which bones move: 'ALL', 'SELECTED', 'LIMBS' (those of the selected bones), or names of bones and of
    parts of the body, such as "arm.L", "legs" or "trunk". Others stay as they are animated."""
    channels: str
    """Which of their channels: 'BOTH', 'LOCATION' or 'ROTATION'."""
    loop: bool
    """Whether the last frame is the first one again: pose and speed are the same there, and F-curves repeat
    the keys. What travels goes on with each round."""
    clear_constraints: bool
    """Whether the constraints of the bones that are keyed are removed at the end; bones that they pose are
    keyed where they are."""
    replace: bool = False
    """Whether keys that Poise has not written are replaced, too: it is refused otherwise, but where an
    effector lets bones stay near the pose of each frame."""

    @classmethod
    def of(
        cls,
        armature_object: Object,
        frames: Iterable[float] | str | None = None,
        **given: Unpack[BakeChoices],
    ) -> "BakeOptions":
        """Return what is given, and for what is None or left out what the settings say.

        Args:
            frames: Increasing whole frames, or a range; by default the range in the settings.
            given: Other fields by name. With a step `at_keys` and `fewest` are off by default.

        Raises:
            IKError: There are no such frames or no such place, the step is neither a whole number from 1 on
                nor a part of a frame, a step and the fewest keys are both asked for, a deviation is not above
                0, or frames to ease are below 0 or more than there are.
        """
        settings = settings_of(armature_object)
        for name in given:
            check_known(OPTION, name, [*IN_SETTINGS, "replace"])
        chosen = {name: value for name, value in given.items() if value is not None}
        own: dict[str, Any] = {name: getattr(settings, f"bake_{name}") for name in IN_SETTINGS}
        if "step" in chosen:
            own["at_keys"] = own["fewest"] = False
        elif (own | chosen)["fewest"]:
            own["step"] = 1
        own |= chosen
        if own["to"] == 'STRIP' and not str(own["name"]).strip():
            own["name"] = STRIP_NAME
        return cls(frames_of(armature_object, frames), **own)

    @property
    def strip(self) -> str:
        """Name of the NLA strip that is written; empty for none."""
        return self.name if self.to == 'STRIP' else ""

    def __post_init__(self) -> None:
        if self.fewest and self.step != 1:
            raise IKError("give a step or the fewest keys, not both: the keys are chosen by the error then")
        step, is_number = self.step, isinstance(self.step, Real) and not isinstance(self.step, bool)
        if not (is_number and (LEAST_STEP <= step < 1.0 or (step >= 1.0 and step % 1.0 == 0.0))):
            raise IKError(
                "the step of a bake is a whole number of frames from 1 on, or a part of one from "
                "{least:g} on, got {step!r}",
                least=LEAST_STEP,
                step=step,
            )
        check_number("deviation", self.deviation, 0.0, above=True)
        check_number("deviation_angle", self.deviation_angle, 0.0, above=True)
        check_item(POISE_PG_armature, "bake_to", self.to)
        check_item(POISE_PG_armature, "bake_blend", self.blend)
        if not isinstance(self.name, str):
            raise IKError("the name of an action or a strip is text, got {name!r}", name=self.name)
        check_whole("ease_in", self.ease_in, 0)
        check_whole("ease_out", self.ease_out, 0)
        eased, length = self.ease_in + self.ease_out, self.frames[-1] - self.frames[0]
        if eased > length:
            raise IKError(
                "Ease In and Ease Out take {eased} frames of {length}: shorten them, or bake more frames",
                eased=eased,
                length=length,
            )


IN_SETTINGS: Final = tuple(
    field.name for field in fields(BakeOptions) if field.name not in ("frames", "replace")
)
"""Options that are settings, too."""
