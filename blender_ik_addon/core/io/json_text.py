# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons, poses, problems, options and solutions as JSON, and back exactly.

A file is one object: `format`, `version`, the `kind` of what it holds, and its fields by their names in the
core. Objects in fields are written alike, with their kind; arrays as lists of rows, or with their shape alone
where they have no elements. Numbers have all digits that a double needs, so that what is read equals what was
written; those that JSON does not know are the texts "nan", "inf" and "-inf". Fields that have a default may
be left out, as in a file that is written by hand.

How a field is read follows from its type: a new field, or a new kind of task, needs nothing here but its
place in `KINDS`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray
from ..errors import IKError
from ..explain.explanation import Explanation, Limit
from ..messages import in_a_row
from ..model.skeleton import Pose, Skeleton
from ..problem.options import SolverOptions
from ..problem.problem import Problem
from ..solve.solver import Solution, TaskError
from ..tasks import (
    AimAt,
    Balance,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    ReachFrame,
    ReachPoint,
    StayNear,
    Task,
)
from ..tasks.base import ArrayField
from ..tasks.frames import ReachCarried

FORMAT: Final = "poise_ik"
VERSION: Final = 1
"""Of the format: it rises where a file would be read otherwise."""

WHOLE: Final[tuple[type[Any], ...]] = (Skeleton, Pose, Problem, Solution, SolverOptions)
"""What a file may hold."""

TASKS: Final[tuple[type[Task], ...]] = (
    AimAt,
    Balance,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    ReachCarried,
    ReachFrame,
    ReachPoint,
    StayNear,
)

KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind for kind in (*WHOLE, *TASKS, TaskError, Explanation, Limit)
}
"""What has a kind in a file."""

NOT_FINITE: Final = ("nan", "inf", "-inf")
SHOWN: Final = 40
"""Characters of a wrong value that a message shows [1]."""

_Thing = TypeVar("_Thing")


def to_json(thing: Skeleton | Pose | Problem | Solution | SolverOptions, *, indent: int | None = None) -> str:
    """The JSON text of a skeleton, pose, problem, solution or options.

    Args:
        indent: Spaces by which lines are indented; None for one line.

    Raises:
        IKError: It is something else, or has a task of a kind that no file knows.
    """
    if not isinstance(thing, WHOLE):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IKError(f"JSON is written of {_listed(WHOLE)}, got {thing!r:.{SHOWN}}")
    return json.dumps(
        {"format": FORMAT, "version": VERSION, **_encoded(thing)}, indent=indent, allow_nan=False
    )


def from_json(text: str, kind: type[_Thing] = object) -> _Thing:
    """What a JSON text holds: equal to what was written.

    Args:
        text: From `to_json`, or written by hand.
        kind: What is expected: `Skeleton`, `Pose`, `Problem`, `Solution` or `SolverOptions`; any by default.

    Raises:
        IKError: The text is none of it; the message says where, as `tasks[2].target`.
    """
    try:
        found: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise IKError(f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}") from None
    except (RecursionError, TypeError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise IKError(f"this is not JSON: {error}") from None
    if not isinstance(found, dict) or cast("dict[str, Any]", found).get("format") != FORMAT:
        raise IKError(f'expected an object with "format": "{FORMAT}", got {_shown(found)}')
    whole = cast("dict[str, Any]", found)
    version = whole.pop("version", None)
    if not _is_whole(version) or not 1 <= version <= VERSION:
        raise IKError(f"version: this library reads versions from 1 to {VERSION}, got {_shown(version)}")
    del whole["format"]
    if kind is not object and kind not in WHOLE:
        raise IKError(f"JSON holds {_listed(WHOLE)}, not a {kind.__name__}")
    wanted = WHOLE if kind is object else (kind,)
    try:
        return cast("_Thing", _object(wanted, whole, ""))
    except RecursionError:
        raise IKError("this is nested too deeply") from None


def write_json(
    path: str | os.PathLike[str],
    thing: Skeleton | Pose | Problem | Solution | SolverOptions,
    *,
    indent: int | None = None,
) -> None:
    """Write what `to_json` gives into a file (IKError: as there, or it cannot be written)."""
    text = to_json(thing, indent=indent)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise IKError(f"{os.fspath(path)} cannot be written: {error.strerror}") from None


def read_json(path: str | os.PathLike[str], kind: type[_Thing] = object) -> _Thing:
    """Read a file as `from_json` does (IKError: as there, with the path, or it cannot be read)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise IKError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise IKError(
            f"{os.fspath(path)} is no text in UTF-8: {error.reason} at byte {error.start}"
        ) from None
    try:
        return from_json(text, kind)
    except IKError as error:
        raise IKError(f"{os.fspath(path)}: {error}") from None


# ----------------------------------------------------------------------------------------------------------
# Writing


def _encoded(value: Any) -> Any:
    """As the library json writes it."""
    match value:
        case np.ndarray():
            return _encoded_array(cast("FloatArray", value))
        case StrEnum():
            return value.value
        case None | str():
            return value
        case bool() | np.bool_():
            return bool(value)
        case int() | np.integer():
            return int(cast("int", value))
        case float() | np.floating():
            number = float(cast("float", value))
            return number if isfinite(number) else str(number)
        case _:
            pass
    if type(value) in KINDS.values():
        return {"kind": type(value).__name__} | {
            name: _encoded(getattr(value, name)) for name in _field_names(cast("type[Any]", type(value)))
        }
    if isinstance(value, tuple):
        return [_encoded(each) for each in cast("tuple[Any, ...]", value)]
    raise IKError(f"a {type(value).__name__} has no place in a file; known are {', '.join(sorted(KINDS))}")


def _encoded_array(array: FloatArray) -> Any:
    if not array.size:
        return {"shape": list(array.shape)}
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    texts: Any = array.astype(object)
    for index in np.argwhere(~np.isfinite(array)):
        texts[tuple(index)] = str(float(array[tuple(index)]))
    return texts.tolist()


# ----------------------------------------------------------------------------------------------------------
# Reading


def _decoded(hint: Any, value: Any, where: str) -> Any:
    """A value of a field as its type wants it; IKError says where it is none."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _of_union(arguments, value, where)
    if origin is np.ndarray:
        return _array(get_args(arguments[1])[0], value, where)
    kind: Any = hint if isinstance(hint, type) else object
    if issubclass(kind, ArrayField):
        return _array(np.float64, value, where)
    if origin is Literal:
        if value not in arguments:
            raise _wrong(where, f"one of {', '.join(map(str, arguments))}", value)
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        items = cast("list[Any]", value)
        hints = (arguments[0],) * len(items) if arguments[-1] is Ellipsis else arguments
        if len(items) != len(hints):
            raise _wrong(where, f"a list of {len(hints)}", value)
        return tuple(
            _decoded(own, item, f"{where}[{i}]")
            for i, (own, item) in enumerate(zip(hints, items, strict=True))
        )
    if hint is Task:
        return _object(TASKS, value, where)
    if kind in KINDS.values():
        return _object((kind,), value, where)
    return _scalar(hint, value, where)


def _of_union(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    """None, a name or a number where either may be, or what the one other type wants."""
    if value is None and NoneType in hints:
        return None
    others = [hint for hint in hints if hint is not NoneType]
    if {str, int} <= set(others) and not isinstance(value, str):
        if not _is_whole(value):
            raise _wrong(where, "a name or a whole number", value)
        return value
    elif str in others:  # also of a choice that may be given by its text
        others = [str]
    return _decoded(others[0], value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float:
        try:
            return _number(value)
        except ValueError:
            raise _wrong(where, "a number", value) from None
    if hint is int:
        if not _is_whole(value):
            raise _wrong(where, "a whole number", value)
        return value
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        if value not in tuple(hint):
            raise _wrong(where, f"one of {', '.join(hint)}", value)
        return hint(value)
    if not isinstance(value, hint):
        raise _wrong(where, {str: "a text", bool: "true or false"}[hint], value)
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> float:
    """A number (ValueError: it is none)."""
    if value in NOT_FINITE if isinstance(value, str) else isinstance(value, int | float):
        try:
            return float(value) if not isinstance(value, bool) else _number("")
        except OverflowError:
            pass
    raise ValueError


def _array(dtype: Any, value: Any, where: str) -> npt.NDArray[Any]:
    """An array of numbers; which shape it may have is known to what has it."""
    if isinstance(value, dict):
        shape: Any = cast("dict[str, Any]", value).get("shape")
        listed = isinstance(shape, list) and all(
            _is_whole(size) and size >= 0 for size in cast("list[Any]", shape)
        )
        if not listed or len(cast("dict[str, Any]", value)) != 1 or 0 not in shape:
            raise _wrong(where, 'lists of numbers, or {"shape": […]} with a 0 where there are none', value)
        return np.zeros(tuple(cast("list[int]", shape)), dtype)
    if dtype is np.float64:
        found, kinds, what = _numbers(value, where), "f", "numbers"
    else:
        found = value
        kinds, what = ("b", "true or false") if dtype is np.bool_ else ("iu", "whole numbers")
    try:
        array: npt.NDArray[Any] = np.array(found)
    except ValueError:
        raise IKError(f"{where}: its rows have different lengths") from None
    if array.dtype.kind not in kinds:
        raise _wrong(where, f"lists of {what}", value)
    return array


def _numbers(value: Any, where: str) -> Any:
    """Lists of floats."""
    if isinstance(value, list):
        try:
            return [_number(each) for each in cast("list[Any]", value)]
        except ValueError:  # rows, or something that is no number
            return [_numbers(each, f"{where}[{i}]") for i, each in enumerate(cast("list[Any]", value))]
    return _scalar(float, value, where)


def _object(wanted: Iterable[type[Any]], value: Any, where: str) -> Any:
    """An object of one of some kinds."""
    names = {kind.__name__: kind for kind in wanted}
    if not isinstance(value, dict):
        raise _wrong(where, f"an object, {' or '.join(names)}", value)
    given = dict(cast("dict[str, Any]", value))
    name = given.pop("kind", None)
    if not isinstance(name, str) or name not in names:
        raise _wrong(f"{where}.kind".lstrip("."), " or ".join(names), name)
    kind = names[name]
    hints, known = _hints(kind), _field_names(kind)
    unknown = [key for key in given if key not in known]
    if unknown:
        raise IKError(f"{_told(where)}a {name} has no {unknown[0]!r}; it has {in_a_row(known, 20)}")
    missing = [key for key in _required(kind) if key not in given]
    if missing:
        raise IKError(f"{_told(where)}a {name} needs {missing[0]!r}")
    values = {key: _decoded(hints[key], each, f"{where}.{key}".lstrip(".")) for key, each in given.items()}
    try:
        return kind(**values)
    except IKError as error:
        raise IKError(f"{_told(where)}{error}") from None


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Types of the fields of a kind."""
    return get_type_hints(kind)


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    """Names of the fields of a kind, in the order in which they are given."""
    if not is_dataclass(kind):
        return kind._fields
    return tuple(field.name for field in sorted(fields(kind), key=lambda field: bool(field.kw_only)))


@cache
def _required(kind: type[Any]) -> tuple[str, ...]:
    """Those of them that have no default."""
    if not is_dataclass(kind):
        return tuple(name for name in kind._fields if name not in kind._field_defaults)
    optional = {"preferred"} if kind is Problem else set[str]()
    return tuple(
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING and field.name not in optional
    )


def _told(where: str) -> str:
    """The place for the beginning of a message."""
    return f"{where}: " if where else ""


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text[:SHOWN] + ("…" if len(text) > SHOWN else "")


def _wrong(where: str, wanted: str, value: Any) -> IKError:
    return IKError(f"{_told(where)}expected {wanted}, got {_shown(value)}")


def _listed(kinds: Iterable[type[Any]]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)
