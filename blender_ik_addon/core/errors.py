# SPDX-License-Identifier: GPL-3.0-or-later
"""What is raised when the input is wrong; not converging is a result and raises nothing."""

from collections.abc import Sequence
from typing import Any

from .messages import Message


class IKError(ValueError):
    """Wrong input: the message says what is wrong, where (bone, channel, shape), and what to do about it."""

    def __init__(self, message: str, /, **values: Any) -> None:
        """Take a message, or the template of one with its values."""
        self.message = message if isinstance(message, Message) else Message(message, **values)
        """What is wrong, for people."""
        super().__init__(self.message)


def check_type(what: str, given: object, *types: type) -> None:
    """Refuse what is of none of some types (IKError); `what` says what is wanted."""
    if not isinstance(given, types):
        raise IKError(f"{what}, got {given!r}")


def check_known(what: str, given: object, names: Sequence[str]) -> None:
    """Refuse what is none of the names that there are (IKError); `what` is called so in the panel."""
    if given not in names:
        raise IKError(
            "{what} cannot be {given!r}: there are {names}",
            what=Message(what),
            given=given,
            names=", ".join(names),
        )
