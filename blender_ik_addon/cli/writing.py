# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there whole or not at all.

Each is written beside its place under another name, and renamed when all of it is on the disk. What was there
before stays until then. The other name has the machine and the process in it: of two that write one file at
the same time each writes its own, and the file is always that of one of them, whole. What a process that was
killed has left the next one that writes the same file takes away.
"""

import json
import os
import platform
import shutil
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np

from ..core.errors import IKError
from ..scene import posing
from ..scene.units import metres
from .interruption import Interruption
from .shots import Shot

ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a compressed blend file."""
ZSTD_END: Final = b"\xb1\xea\x92\x8f"
"""Last bytes of one: of its table of contents, which is written when all else is."""


# Whether something can be written


def check_places(shot: Shot) -> None:
    """Refuse places at which nothing can be written, as far as that is known beforehand."""
    read = shot.file or (Path(bpy.data.filepath) if bpy.data.filepath else None)
    size = read.stat().st_size if read is not None and read.is_file() else 0
    named = (("--output", shot.output, size), ("--report", shot.report, 0), ("--plot", shot.plot, 0))
    taken: dict[Path, str] = {}
    for option, path, needed in named:
        if path is None:
            continue
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise IKError(f"{other} and {option} are both {str(path)!r}: give each its own name")
        try:
            why = _obstacle(path, needed)
        except OSError as error:
            why = error.strerror or str(error)
        if not why and option == "--output" and path.exists() and not path.is_file():
            why = "it is no file but a device or a pipe"
        if not why and option == "--plot":
            why = _unknown_form(path)
        if why:
            raise _unsaved(path, why)


def _unknown_form(path: Path) -> str:
    """Say that a picture cannot have the form that its name says; empty where it can."""
    from matplotlib.backend_bases import FigureCanvasBase

    known, form = FigureCanvasBase.filetypes, path.suffix.removeprefix(".").lower()
    if not form or form in known:
        return ""
    return f"there is no form {path.suffix!r} of pictures: there are {', '.join(sorted(known))}"


def _obstacle(path: Path, needed: int) -> str:
    """Say what keeps so many bytes from being written at a place; empty where nothing does."""
    folder = path.resolve().parent
    if path.is_dir():
        return "it is a folder: give the name of a file"
    if folder.exists() and not folder.is_dir():
        return f"{str(folder)!r} is a file and no folder"
    if not folder.is_dir():
        return f"there is no such folder {str(folder)!r}: make it first"
    if path.exists():
        if not (path.stat().st_mode & stat.S_IWUSR and os.access(path, os.W_OK)):
            return "it is read-only: unlock it, or choose another name"
        if not path.is_file():
            return ""  # a device or a pipe, which is written to as it is
    with suppress(FileNotFoundError):
        path.lstat()  # a name that is too long
    with _beside(path) as trial:
        trial.write_bytes(b" ")
    free = shutil.disk_usage(folder).free
    if free >= needed:
        return ""
    return f"{_size(free)} are free there, and the file that is read has {_size(needed)}: make room"


def _unsaved(path: Path, why: str) -> IKError:
    return IKError(f"{str(path)!r} cannot be saved: {why}")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _room(path: Path) -> str:
    """Say how much more can be written into the folder of a path."""
    with suppress(OSError):
        return f"{_size(shutil.disk_usage(path.resolve().parent).free)} are free there"
    return "the folder cannot be reached"


# Writing


LONG_AGO_SECONDS: Final = 86400.0
"""After what time nobody goes on with what was begun [s]: no file takes so long to write."""


def _crc(text: str) -> str:
    return f"{zlib.crc32(os.fsencode(text)):08x}"


def _other_name(place: Path, process: int | None = None) -> str:
    """The name under which this process, or another of this machine, writes a file, without suffix.

    It is short, since the file's own name may be as long as names may be.
    """
    return f".poise-{_crc(place.name)}-{_crc(platform.node())}-{os.getpid() if process is None else process}"


def _is_left(name: Path) -> bool:
    """Whether nobody goes on with what stands under such a name."""
    machine, process = name.name.split(".")[1].split("-")[2:4]
    if machine == _crc(platform.node()) and hasattr(os, "killpg"):  # on Windows to ask would be to end it
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return int(process) == os.getpid()
    return time.time() - name.stat().st_mtime > LONG_AGO_SECONDS


@contextmanager
def _beside(path: Path, suffix: str = "") -> Iterator[Path]:
    """Give a place in the same folder for what is renamed when it is whole; else nothing stays there."""
    place = path.resolve()
    beside = place.with_name(f"{_other_name(place)}{suffix}")
    try:
        yield beside
    finally:
        for left in (beside, beside.with_name(f"{beside.name}@")):  # Blender's own, before it renames
            with suppress(OSError):
                left.unlink(missing_ok=True)


@contextmanager
def _replacing(path: Path, suffix: str, interruption: Interruption) -> Iterator[Path]:
    """Give a place for what comes to a path when all of it is on the disk."""
    with _beside(path, suffix) as beside:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())  # a disk may say only now that it is full
        interruption.check()
        if suffix == ".blend":
            _keep_version(path.resolve())
        os.replace(beside, path.resolve())
    remove_left([path])


def remove_left(paths: Iterable[Path | None]) -> None:
    """Remove what processes that were killed have left of files."""
    for place in (path.resolve() for path in paths if path is not None):
        with suppress(OSError):
            for left in place.parent.glob(f".poise-{_crc(place.name)}-*-*"):
                if _is_left(left):
                    left.unlink(missing_ok=True)


def save(path: Path, interruption: Interruption) -> None:
    """Save the file into the folder where it is to be, so that relative paths in it hold."""
    try:
        with _replacing(path, ".blend", interruption) as beside:
            bpy.ops.wm.save_as_mainfile(filepath=str(beside), copy=True, check_existing=False)
            if not _is_whole(beside):
                raise RuntimeError
    except OSError as error:
        raise _unsaved(path, f"{error.strerror or error}, {_room(path)}") from error
    except RuntimeError as error:
        # What Blender says of a file that it could not write to its end is another error, or none.
        said = str(error).removeprefix("Error:").strip()
        why = said if said.startswith("Cannot") else "not all of it could be written"
        raise _unsaved(path, f"{why}, {_room(path)}") from error


def _is_whole(path: Path) -> bool:
    """Whether a blend file is there to its end: a full disk cuts compressed ones without a word."""
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(0, path.stat().st_size - 32))
        end = file.read()
    return end.endswith(ZSTD_END) if start == ZSTD else b"ENDB" in end


def _keep_version(place: Path) -> None:
    """Keep the file that is at a place as .blend1, and older ones, as many as the preferences say."""
    preferences: Any = bpy.context.preferences
    kept: int = preferences.filepaths.save_version
    if not (kept and place.is_file()):
        return
    names = [Path(f"{place}{number}") for number in range(1, kept + 1)]
    for newer, older in reversed(list(pairwise(names))):
        with suppress(FileNotFoundError):
            os.replace(newer, older)
    names[0].unlink(missing_ok=True)
    try:
        os.link(place, names[0])  # so that there is a file at its place at any time
    except (FileExistsError, FileNotFoundError):  # somebody else keeps it just now
        pass
    except OSError:  # not on every disk
        os.replace(place, names[0])


def write_json(path: Path, content: dict[str, Any], interruption: Interruption) -> None:
    """Write a report."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        with _replacing(path, ".json", interruption) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise IKError(f"the report {str(path)!r} cannot be written: {error.strerror or error}") from error


def draw_errors(path: Path, report: posing.BakeReport, interruption: Interruption) -> None:
    """Draw the errors of a bake over its frames, those between keys among them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    frames = np.array((*report.frames, *report.between), dtype=np.float64)
    order, within = np.argsort(frames), report.tolerances
    rows = (
        (
            report.position_errors,
            report.position_errors_between,
            within.positions,
            1e3 * metres(),
            "distance [mm]",
        ),
        (
            report.rotation_errors,
            report.rotation_errors_between,
            within.rotations,
            180.0 / np.pi,
            "angle [°]",
        ),
    )
    for axis, (errors, between, limits, unit, label) in zip(axes, rows, strict=True):
        amounts = unit * np.concatenate([errors, between.reshape(-1, errors.shape[1])])[order]
        limit = unit * float(limits.min())
        for name, column in zip(report.names, amounts.T, strict=True):
            if np.isfinite(column).any():
                axis.plot(frames[order], column, label=name)
        for frame, _ in report.frames_to_look_at:
            axis.axvline(frame, color="0.8", zorder=0)
        axis.axhline(limit, color="0.5", linestyle="dashed", label="tolerance")
        axis.set_ylim(0.0, max(axis.get_ylim()[1], 1.5 * limit))  # what is within it is not made large
        axis.set_ylabel(label)
        axis.legend(loc="upper right", fontsize="small")
    axes[1].set_xlabel("frame")
    try:
        with _replacing(path, path.suffix, interruption) as beside:
            figure.savefig(beside, format=path.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise IKError(f"the plot {str(path)!r} cannot be written: {error}") from error
