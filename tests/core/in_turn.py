# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases that cost less than a test of their own does, in one test."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def in_turn(
    names: str | tuple[str, ...], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test for one value after the other, in one test whose failure names the value.

    For pytest each case of `parametrize` is a test: between two processes it takes 2 ms or more, which is
    more than most cases take. Its fixtures are made once for all values.

    Args:
        names: Of the argument, or of several which then each value has.
        values: As for `pytest.mark.parametrize`.
    """
    several = (names,) if isinstance(names, str) else names
    rows = [(value,) if isinstance(names, str) else value for value in values]
    cases = [dict(zip(several, row, strict=True)) for row in rows]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def of_all(*args: Any, **given: Any) -> None:
            for case in cases:
                try:
                    test(*args, **given, **case)
                except BaseException as error:
                    error.add_note("in the case " + ", ".join(f"{name} = {case[name]!r}" for name in several))
                    raise

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in several]
        of_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return of_all

    return decorate
