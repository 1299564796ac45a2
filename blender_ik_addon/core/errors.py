# SPDX-License-Identifier: GPL-3.0-or-later
"""What is raised when the input is wrong; not converging is a result and raises nothing."""

from collections.abc import Collection, Sequence
from types import NoneType
from typing import Any, cast

import numpy as np

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


def check_list(what: str, given: object, *types: type) -> None:
    """Refuse what is no list of things of some types (IKError); a text is no list of its letters."""
    number = getattr(given, "ndim", 1) == 0  # as numpy has it: what has a length by its type has none
    if number or isinstance(given, str) or not isinstance(given, Collection):
        raise IKError(f"{what}, got {given!r}")
    for one in cast("Collection[object]", given):
        check_type(what, one, *types)


def check_switch(what: str, given: object) -> None:
    """Refuse what is neither True nor False (IKError)."""
    check_type(f"{what} is True or False", given, bool, np.bool_)


def check_function(what: str, given: object) -> None:
    """Refuse what cannot be called (IKError); None is no function that is given."""
    if not callable(given):
        check_type(f"{what} is a function, or None", given, NoneType)


def check_known(what: str, given: object, names: Sequence[str]) -> None:
    """Refuse what is none of the names that there are (IKError); `what` is called so in the panel."""
    if given not in names:
        raise IKError(
            "{what} cannot be {given!r}: there are {names}",
            what=Message(what),
            given=given,
            names=", ".join(names),
        )
