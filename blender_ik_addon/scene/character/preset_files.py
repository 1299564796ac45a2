# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of presets: where they are, what they are called, and whether what is in one can be used.

Anybody may have written such a file, so that all of it is checked before anything is changed by it.
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
from ..properties.effector_properties import FURTHER_BONES, SIDELESS, POISE_PG_effector, POISE_PG_stored_bone
from ..properties.joint_properties import STIFFEST, POISE_PG_joint, POISE_PG_mass
from ..properties.settings import EXTENSION, METHOD_SETTINGS, POISE_PG_armature

FORMAT: Final = "poise preset"
VERSION: Final = 1
"""Of what is written; files of a later version are refused, fields that are not known are passed over."""

SUFFIX: Final = ".json"

LARGEST: Final = 2**31
"""Numbers from here on fit no property [1]."""

ROUNDING: Final = 1e-6
"""What single precision may add to a stiffness [1]."""

LISTS: Final = ("effectors", "joints", "masses")
"""What of a preset is a list with a bone in each element."""

SETTINGS: Final = (
    "method",
    "iterations",
    "tolerance_position",
    "tolerance_rotation",
    "smoothness",
    "pop_angle",
    *METHOD_SETTINGS,
    "move_root",
    "mass_source",
    "body_mass",
)
"""Of the armature object."""

EFFECTOR_FIELDS: Final = ("name", "part", *SIDELESS, "axis")
"""Of an effector, written as they are."""

POINTS: Final = {"point": "bone", "other_point": "other_bone"}
"""Points of an effector -> of which bone; written in lengths of that bone."""

LENGTHS: Final = ("height", "distance", "softness_position")
"""Lengths in the world [m]; on a figure of another size they are as much longer or shorter."""

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


def preset_folder(*, create: bool = False) -> Path:
    """Return the folder of presets in the user's folder for this extension (IKError: it cannot be made)."""
    try:
        found = bpy.utils.extension_path_user(EXTENSION, path="presets", create=create)
    except ValueError:  # run from a checkout, not installed as an extension
        found = bpy.utils.user_resource('DATAFILES', path="poise/presets", create=create)
    except OSError as error:
        raise IKError(f"the folder of presets cannot be made: {error}") from error
    if not found:
        raise IKError("Blender has no folder for the user's files in which presets could be")
    return Path(found)


def preset_names(folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of the presets there are."""
    folder = preset_folder() if folder is None else folder
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))) if folder.is_dir() else ()


def preset_path(name: str, folder: Path | None = None) -> Path:
    """Return where a preset of some name is, or would be.

    Raises:
        IKError: It is no name for a file.
    """
    name = name.strip()
    if not name or re.search(r'[\\/:*?"<>|\x00-\x1f]', name) or name[0] == "." or name[-1] == ".":
        raise IKError(f"{name!r} is no name for a preset: use letters, digits, spaces, - and _")
    if RESERVED.fullmatch(name):
        raise IKError(f"{name!r} is no name for a preset: Windows keeps it for a device. Choose another one")
    return (preset_folder() if folder is None else folder) / f"{name}{SUFFIX}"


def read_preset(path: Path) -> dict[str, Any]:
    """Read and check a file, so that nothing is changed by one that is broken."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise IKError(f"preset {path.name!r} is not read: it is larger than {MOST_BYTES >> 20} MB")
        data = json.loads(path.read_text(encoding="utf-8"))
        # An escaped half of a letter is none that Blender could be given; it would only refuse it half-way.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except IKError:
        raise
    except OSError as error:
        raise IKError(f"preset {path.stem!r} cannot be read from {path.parent}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise IKError(f"preset {path.name!r} is broken: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IKError(f"{path.name!r} is no preset of Poise: its format is not {FORMAT!r}")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise IKError(f"preset {path.name!r} is broken: its version is {version!r}")
    if version > VERSION:
        raise IKError(
            f"preset {path.name!r} has version {version}, this Poise reads up to {VERSION}: update Poise"
        )
    settings, lists = data.get("settings", {}), {name: data.get(name, []) for name in LISTS}
    if not isinstance(settings, dict):
        raise IKError(f"preset {path.name!r} is broken: its settings are no object")
    _check_fields(POISE_PG_armature, settings, SETTINGS, f"preset {path.name!r} is broken: settings")
    for what, records in lists.items():
        if not isinstance(records, list):
            raise IKError(f"preset {path.name!r} is broken: its {what} are no list")
        _check_count(what, records, f"preset {path.name!r} is not read")
        for number, record in enumerate(records):
            _check_record(record, f"preset {path.name!r} is broken: {what}[{number}]", what)
    size = data.get("size", 0.0)
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0.0 <= size < LARGEST:
        raise IKError(f"preset {path.name!r} is broken: its size is {size!r}")
    return {"settings": settings, "size": size, **lists}


def write_preset(path: Path, data: Mapping[str, Any]) -> None:
    """Write a preset, so that the file is either whole or as it was (IKError: it cannot be written)."""
    for what in LISTS:
        _check_count(what, data[what], f"preset {path.name!r} is not written")
    beside = path.with_name(f"{path.name}.part")
    try:
        text = json.dumps(data, indent=1, allow_nan=False) + "\n"
        if len(text) > MOST_BYTES:  # all of it is ASCII
            raise IKError(
                f"preset {path.name!r} is not written: it would be larger than {MOST_BYTES >> 20} MB. Store "
                "fewer poses of the whole body"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise IKError(f"preset {path.name!r} cannot be written to {path.parent}: {error.strerror}") from error
    except IKError:
        raise
    except ValueError as error:
        raise IKError(f"preset {path.name!r} is not written: one of its numbers is not finite") from error


def _check_count(what: str, records: Sequence[Any], where: str) -> None:
    if len(records) > MOST_RECORDS[what]:
        raise IKError(f"{where}: it has {len(records)} {what}, there may be {MOST_RECORDS[what]}")


def _check_record(record: Any, where: str, what: str) -> None:
    if not isinstance(record, dict):
        raise IKError(f"{where} is no object")
    for name in ("bone", *FURTHER_BONES):
        if name in record or name == "bone":
            bone = record.get(name)
            if not isinstance(bone, dict) or not isinstance(bone.get("name", ""), str):
                raise IKError(f"{where}.{name} does not say which bone")
    for name in POINTS:
        if name in record:
            _three_numbers(record[name], f"{where}.{name}")
    if what == "masses":
        _check_fields(POISE_PG_mass, {"mass": record.get("mass")}, ("mass",), where)
        if record["mass"] < 0.0:
            raise IKError(f"{where}.mass is negative")
        return
    if what == "effectors":
        _check_fields(POISE_PG_effector, record, EFFECTOR_FIELDS, where)
        others = record.get("others", 0)
        if not isinstance(others, int) or isinstance(others, bool) or not 0 <= others <= MOST_TARGETS:
            raise IKError(f"{where}.others cannot be {others!r}")
        _check_stored(record.get("stored", []), f"{where}.stored")
        return
    for name in ("lower", "upper", "stiffness", "preferred"):
        missing = [None] * 3 if name in ("lower", "upper") else [0.0] * 3
        record.setdefault(name, missing)
        _three_numbers(record[name], f"{where}.{name}", may_be_none=name in ("lower", "upper"))
    for low, high in zip(record["lower"], record["upper"], strict=True):
        if low is not None and high is not None and low > high:
            raise IKError(f"{where} has a lower limit above its upper one")
    if not all(0.0 <= value <= STIFFEST + ROUNDING for value in record["stiffness"]):
        raise IKError(f"{where}.stiffness is not between 0 and {STIFFEST}")
    _check_axes(record.setdefault("axes", np.eye(3).tolist()), f"{where}.axes")
    bend = record.setdefault("bend", 0.0)
    if isinstance(bend, bool) or not isinstance(bend, (int, float)) or not abs(bend) < LARGEST:
        raise IKError(f"{where}.bend is {bend!r}")
    own = {"is_held": False, "may_move": False, "source": "", "order": 'AUTO'}
    for name, default in own.items():
        record.setdefault(name, default)
    _check_fields(POISE_PG_joint, record, tuple(own), where)


def _check_stored(records: Any, where: str) -> None:
    """Refuse a stored pose that is none."""
    if not isinstance(records, list):
        raise IKError(f"{where} is no list")
    for number, record in enumerate(records):
        own = f"{where}[{number}]"
        bone = record.get("bone") if isinstance(record, dict) else None
        if not isinstance(bone, dict) or not isinstance(bone.get("name", ""), str):
            raise IKError(f"{own} does not say which bone")
        _check_axes(record.get("axes"), f"{own}.axes")
        _three_numbers(record.get("location"), f"{own}.location")
        _check_fields(POISE_PG_stored_bone, record, ("location", "rotation"), own)
        rotation = np.array(record.get("rotation", []), dtype=np.float64)
        if rotation.shape != (4,) or not abs(np.linalg.norm(rotation) - 1.0) < NOT_UNIT:
            raise IKError(f"{own}.rotation is {record.get('rotation')!r}, wanted a quaternion of length 1")


def _check_axes(axes: Any, where: str) -> None:
    if not isinstance(axes, list) or len(axes) != 3:
        raise IKError(f"{where} are not three times three numbers")
    for row in axes:
        _three_numbers(row, where)


def _three_numbers(values: Any, where: str, *, may_be_none: bool = False) -> None:
    def fits(value: Any) -> bool:
        if value is None:
            return may_be_none
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and abs(value) <= sys.float_info.max  # which nan is not, nor a number of 400 digits

    if not isinstance(values, list) or len(values) != 3 or not all(fits(value) for value in values):
        raise IKError(f"{where} is {values!r}, wanted three numbers")


def _check_fields(kind: Any, values: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Refuse values that the properties of a class cannot have.

    Raises:
        IKError: One is of another type, or no item of its list.
    """
    for name in names:
        if name not in values:
            continue
        value, prop = values[name], kind.bl_rna.properties[name]
        parts = value if prop.type != 'STRING' and getattr(prop, "is_array", False) else [value]
        length = prop.array_length if getattr(prop, "is_array", False) else 1
        fits = isinstance(parts, list) and len(parts) == length
        if fits and prop.type == 'ENUM':
            fits = isinstance(value, str) and value in {item.identifier for item in prop.enum_items}
        elif fits:
            types: tuple[type, ...] = _TYPES[prop.type]
            fits = all(
                isinstance(part, types)
                and (prop.type == 'BOOLEAN' or not isinstance(part, bool))
                and (prop.type not in {'INT', 'FLOAT'} or abs(part) < LARGEST)
                for part in parts
            )
        if not fits:
            raise IKError(f"{where}.{name} cannot be {value!r}")


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    'BOOLEAN': (bool,),
    'INT': (int,),
    'FLOAT': (int, float),
    'STRING': (str,),
}
