# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of presets: where they are, what they are called, and whether what is in one can be used.

Anybody may have written such a file, so all of it is checked before anything is changed.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np

from ...core.errors import IKError
from ...core.messages import Message
from ..properties.settings import (
    EXTENSION,
    FOOT_POINTS,
    FURTHER_BONES,
    METHOD_SETTINGS,
    SIDELESS,
    STIFFEST,
    POISE_PG_armature,
    POISE_PG_effector,
    POISE_PG_joint,
    POISE_PG_mass,
    POISE_PG_stored_bone,
)

FORMAT: Final = "poise preset"
VERSION: Final = 1
"""Of what is written; files of a later version are refused, unknown fields are ignored."""

SUFFIX: Final = ".json"

LARGEST: Final = 2**31
"""Numbers from here on fit no property [1]."""

ROUNDING: Final = 1e-6
"""What single precision may add to a stiffness [1]."""

LISTS: Final = ("effectors", "joints", "masses")
"""Lists of a preset, with a bone in each element."""

SETTINGS: Final = (
    *("method", "iterations", "tolerance_position", "tolerance_rotation", "smoothness", "pop_angle"),
    *(*METHOD_SETTINGS, "move_root", "mass_source", "body_mass"),
)
"""Of the armature object."""

EFFECTOR_FIELDS: Final = ("name", "part", *SIDELESS, "state", "axis")
"""Of an effector, written as they are."""

POINTS: Final = {"point": "bone", "other_point": "other_bone"}
"""Points of an effector -> of which bone; written in lengths of that bone."""

LENGTHS: Final = ("height", "distance", "softness_position", "tolerance_position", "clamp_distance")
"""Lengths in the world [m], of effectors and settings, which are scaled to the size of the figure."""

JOINT: Final = {
    **dict.fromkeys(("lower", "upper"), [None] * 3),
    **dict.fromkeys(("stiffness", "preferred"), [0.0] * 3),
    **dict.fromkeys(("is_held", "may_move"), False),
} | {"axes": np.eye(3).tolist(), "bend": 0.0, "order": 'AUTO', "source": ""}
"""What a joint has where a file does not say it."""

NOT_UNIT: Final = 1e-3
"""Difference of the length of a quaternion from 1 from which it is no rotation [1]."""

MOST_TARGETS: Final = 100
"""Largest number of targets of one effector that a file may ask for."""

MOST_BYTES: Final = 2**23
"""Size of a file [1] above which it is not read; limits and a pose of a thousand bones take a seventh. What
is read takes up to fifty times as much memory."""

MOST_RECORDS: Final = {"effectors": 1_000, "joints": 10_000, "masses": 10_000}
"""Largest number of elements in each of the lists [1]."""

RESERVED: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices, with whatever suffix."""


def preset_folder() -> Path:
    """Return the folder of presets in the user's folder for this extension (IKError: there is none)."""
    try:
        found = bpy.utils.extension_path_user(EXTENSION, path="presets")
    except ValueError:  # run from a checkout, not installed as an extension
        found = bpy.utils.user_resource('DATAFILES', path="poise/presets")
    if not found:
        raise IKError("Blender has no folder for the user's files in which presets could be")
    return Path(found)


def check_path(given: object) -> None:
    """Refuse what is no path, as a text (IKError)."""
    if not isinstance(given, Path):
        raise IKError(
            "where presets are is given by a pathlib.Path, got {given!r}: preset_path() has that of a name",
            given=given,
        )


def preset_names(folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of the presets there are (IKError: the folder is no path)."""
    folder = preset_folder() if folder is None else folder
    check_path(folder)
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))) if folder.is_dir() else ()


def preset_path(name: str, folder: Path | None = None) -> Path:
    """Return where a preset of some name is, or would be (IKError: no file can have such a name)."""
    named = name.strip() if isinstance(name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    if not named or re.search(r'[\\/:*?"<>|\x00-\x1f]', named) or named[0] == "." or named[-1] == ".":
        raise IKError("{name!r} is no name for a preset: use letters, digits, spaces, - and _", name=name)
    if RESERVED.fullmatch(named):
        raise IKError(
            "{name!r} is no name for a preset: Windows keeps it for a device. Choose another one", name=named
        )
    folder = preset_folder() if folder is None else folder
    check_path(folder)
    return folder / f"{named}{SUFFIX}"


def read_preset(path: Path) -> dict[str, Any]:
    """Read and check a file (IKError: it cannot be read, is no preset, or has a value of no use)."""
    check_path(path)
    broken, own = (
        Message("preset {path!r} is broken:", path=path.name),
        Message("preset {path!r} is not read:", path=path.name),
    )
    try:
        if path.stat().st_size > MOST_BYTES:
            raise IKError("{own} it is larger than {most} MB", own=own, most=MOST_BYTES >> 20)
        data = json.loads(path.read_text(encoding="utf-8"))
        # An escaped half of a letter is none that Blender could be given; it would only refuse it half-way.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except IKError:
        raise
    except OSError as error:
        raise IKError(
            "preset {stem!r} cannot be read from {parent}: {strerror}",
            stem=path.stem,
            parent=path.parent,
            strerror=error.strerror,
        ) from error
    except (ValueError, RecursionError) as error:
        raise IKError("{broken} {error}", broken=broken, error=error) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IKError(
            "{path!r} is no preset of Poise: its format is not {format!r}", path=path.name, format=FORMAT
        )
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise IKError("{broken} its version is {version!r}", broken=broken, version=version)
    if version > VERSION:
        raise IKError(
            "preset {path!r} has version {version}, this Poise reads up to {newest}: update Poise",
            path=path.name,
            version=version,
            newest=VERSION,
        )
    settings, size = data.get("settings", {}), data.get("size", 0.0)
    if not isinstance(settings, dict):
        raise IKError("{broken} its settings are no object", broken=broken)
    _check_fields(POISE_PG_armature, settings, SETTINGS, Message("{broken} settings", broken=broken))
    if not _is_number(size, LARGEST) or size < 0.0:
        raise IKError("{broken} its size is {size!r}", broken=broken, size=size)
    lists = {what: data.get(what, []) for what in LISTS}
    for what, records in lists.items():
        if not isinstance(records, list):
            raise IKError("{broken} its {what} are no list", broken=broken, what=what)
        _check_count(what, records, own)
        for number, record in enumerate(records):
            _check_record(record, f"{broken} {what}[{number}]", what)
    return {"settings": settings, "size": size, **lists}


def write_preset(path: Path, data: Mapping[str, Any]) -> None:
    """Write a preset, so that the file is either whole or as it was (IKError: it cannot be written)."""
    check_path(path)
    own = Message("preset {path!r} is not written:", path=path.name)
    for what in LISTS:
        _check_count(what, data[what], own)
    try:
        whole = {"format": FORMAT, "version": VERSION, **data}
        text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
    except ValueError as error:
        raise IKError("{own} one of its numbers is not finite", own=own) from error
    if len(text) > MOST_BYTES:  # all of it is ASCII
        raise IKError(
            "{own} it would be larger than {most} MB. Store fewer poses of the whole body",
            own=own,
            most=MOST_BYTES >> 20,
        )
    beside = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise IKError(
            "preset {path!r} cannot be written to {parent}: {strerror}",
            path=path.name,
            parent=path.parent,
            strerror=error.strerror,
        ) from error


def _check_count(what: str, records: Sequence[Any], where: str) -> None:
    if len(records) > MOST_RECORDS[what]:
        raise IKError(
            "{where} it has {count} {what}, there may be {most}",
            where=where,
            count=len(records),
            what=what,
            most=MOST_RECORDS[what],
        )


def _check_record(record: Any, where: str, what: str) -> None:
    """Refuse a record of one of the lists, or a stored pose; fill in what a joint does not have."""
    if not isinstance(record, dict):
        raise IKError("{where} is no object", where=where)
    for name in ("bone", *(name for name in FURTHER_BONES if name in record)):
        _check_bone(record, name, where)
    for name in POINTS:
        if name in record:
            _three_numbers(record[name], f"{where}.{name}")
    _CHECKS[what](record, where)


def _check_effector(record: dict[str, Any], where: str) -> None:
    _check_fields(POISE_PG_effector, record, EFFECTOR_FIELDS, where)
    others, stored = record.get("others", 0), record.get("stored", [])
    if type(others) is not int or not 0 <= others <= MOST_TARGETS:
        raise IKError("{where}.others cannot be {others!r}", where=where, others=others)
    if not isinstance(stored, list):
        raise IKError("{where}.stored is no list", where=where)
    if "sole" in record:
        _check_sole(record["sole"], f"{where}.sole")
    for number, own in enumerate(stored):
        _check_record(own, f"{where}.stored[{number}]", "stored")


def _check_sole(sole: Any, where: str) -> None:
    if not isinstance(sole, dict):
        raise IKError("{where} is no object", where=where)
    for name in FOOT_POINTS:
        if name in sole:
            _three_numbers(sole[name], f"{where}.{name}")
    if sole.get("toe_bone") is not None:
        _check_bone(sole, "toe_bone", where)


def _check_bone(record: Mapping[str, Any], name: str, where: str) -> None:
    bone = record.get(name)
    if not isinstance(bone, dict) or not isinstance(bone.get("name", ""), str):
        raise IKError("{where}.{name} does not say which bone", where=where, name=name)


def _check_stored(record: dict[str, Any], where: str) -> None:
    _check_axes(record.get("axes"), f"{where}.axes")
    _three_numbers(record.get("location"), f"{where}.location")
    record.setdefault("rotation", None)
    _check_fields(POISE_PG_stored_bone, record, ("location", "rotation"), where)
    if not abs(np.linalg.norm(record["rotation"]) - 1.0) < NOT_UNIT:
        raise IKError(
            "{where}.rotation is {record!r}, wanted a quaternion of length 1",
            where=where,
            record=record['rotation'],
        )


def _check_mass(record: dict[str, Any], where: str) -> None:
    _check_fields(POISE_PG_mass, {"mass": None} | record, ("mass",), where)
    if record["mass"] < 0.0:
        raise IKError("{where}.mass is negative", where=where)


def _check_joint(record: dict[str, Any], where: str) -> None:
    for name, default in JOINT.items():
        record.setdefault(name, default)
    for name in ("lower", "upper", "stiffness", "preferred"):
        _three_numbers(record[name], f"{where}.{name}", may_be_none=name in {"lower", "upper"})
    for low, high in zip(record["lower"], record["upper"], strict=True):
        if low is not None and high is not None and low > high:
            raise IKError("{where} has a lower limit above its upper one", where=where)
    if not all(0.0 <= value <= STIFFEST + ROUNDING for value in record["stiffness"]):
        raise IKError("{where}.stiffness is not between 0 and {stiffest}", where=where, stiffest=STIFFEST)
    _check_axes(record["axes"], f"{where}.axes")
    if not _is_number(record["bend"], LARGEST):
        raise IKError("{where}.bend is {record!r}", where=where, record=record['bend'])
    _check_fields(POISE_PG_joint, record, ("is_held", "may_move", "source", "order"), where)


_CHECKS: Final = {
    "effectors": _check_effector,
    "stored": _check_stored,
    "joints": _check_joint,
    "masses": _check_mass,
}


def _check_axes(axes: Any, where: str) -> None:
    if not isinstance(axes, list) or len(axes) != 3:
        raise IKError("{where} are not three times three numbers", where=where)
    for row in axes:
        _three_numbers(row, where)


def _is_number(value: Any, largest: float) -> bool:
    """Whether a value is a number below the largest one; nan is not, nor is inf."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < largest


def _three_numbers(values: Any, where: str, *, may_be_none: bool = False) -> None:
    fits = isinstance(values, list) and len(values) == 3
    if not fits or not all(_is_number(v, sys.float_info.max) or (may_be_none and v is None) for v in values):
        raise IKError("{where} is {values!r}, wanted three numbers", where=where, values=values)


def _check_fields(kind: Any, values: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Refuse values that the properties of a class cannot have: of another type, or no item of its list."""
    for name in names:
        if name not in values:
            continue
        value, prop = values[name], kind.bl_rna.properties[name]
        is_array = getattr(prop, "is_array", False)
        parts = value if is_array else [value]
        fits = isinstance(parts, list) and len(parts) == (prop.array_length if is_array else 1)
        if not fits or not all(_is_value(part, prop) for part in parts):
            raise IKError("{where}.{name} cannot be {value!r}", where=where, name=name, value=value)


def _is_value(value: Any, prop: Any) -> bool:
    if prop.type in {'INT', 'FLOAT'}:
        return _is_number(value, LARGEST) and (prop.type == 'FLOAT' or isinstance(value, int))
    if prop.type == 'ENUM':
        return value in [item.identifier for item in prop.enum_items]
    return isinstance(value, bool if prop.type == 'BOOLEAN' else str)
