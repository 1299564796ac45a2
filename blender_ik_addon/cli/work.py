# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done with the open file, by the name of the task."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
from bpy.types import Object

from ..core.errors import IKError
from ..scene import posing
from ..scene.properties.settings import armatures_in, settings_of
from ..scene.units import metres
from .arguments import LENGTHS, SAVED
from .content import AnyReport
from .interruption import Interruption
from .telling import Teller

Done = list[tuple[Object, AnyReport]]
"""Armatures and their reports, the one that is asked for first."""


def do(options: argparse.Namespace, teller: Teller, interruption: Interruption) -> Done:
    """Do the task with the armature that is meant (IKError: something is wrong with it)."""
    armature_object = armature(options.armature, set_up=options.task not in ("targets", "setup"))
    for name in SAVED:
        value = getattr(options, name, None)
        if value is not None:  # it stays in a file that is saved
            own = value / metres() if name in LENGTHS else value
            setattr(settings_of(armature_object), name, own)

    def progress(part: float) -> None:
        interruption.check()
        teller.progress(part)

    if options.task == "bake":
        done = _bake(armature_object, options, progress, teller)
    else:
        done = [(armature_object, _do(armature_object, options, progress))]
    interruption.check()
    return done


def _do(armature_object: Object, options: argparse.Namespace, progress: Callable[[float], None]) -> AnyReport:
    match options.task:
        case "setup":
            return _set_up(armature_object, options)
        case "solve":
            return posing.solve_pose(armature_object)
        case "targets":
            return posing.targets_from_animation(armature_object, frames=_frames(options), progress=progress)
        case _:
            return posing.measure(armature_object, _frames(options), progress=progress)


def armature(name: str | None, *, set_up: bool) -> Object:
    """Return the armature object with a name; without one, the only one, which has effectors if `set_up`."""
    scene: Any = bpy.context.scene
    armatures = list(armatures_in(scene.objects))
    if name is None:
        found = [obj for obj in armatures if settings_of(obj).effectors or not set_up]
        what = "no armature with effectors: add some with poise setup, or in the sidebar, tab Poise"
        what = what if set_up else "no armature"
        if found:
            listed = ", ".join(repr(obj.name) for obj in found)
            kind = "armatures with effectors" if set_up else "armatures"
            what = f"several {kind} ({listed}): choose one with --armature"
    else:
        found = [obj for obj in armatures if obj.name == name]
        there = ", ".join(repr(obj.name) for obj in armatures) or "none at all"
        what = f"no armature {name!r}; there are {there}"
    if not found or (name is None and len(found) > 1):
        raise IKError(f"scene {scene.name!r} has {what}")
    return found[0]


def _set_up(armature_object: Object, options: argparse.Namespace) -> AnyReport:
    """Set an armature up, as a preset says or by its roles."""
    if options.preset is not None:
        named = Path(options.preset)
        is_path = named.suffix == ".json" or named.parent != Path()
        return posing.load_preset(armature_object, named if is_path else posing.preset_path(options.preset))
    report = posing.setup_character(
        armature_object, use_table=not options.recognise, poles=options.poles, limits=not options.no_limits
    )
    if not report.ready:
        raise IKError(f"{armature_object.name!r}: {report.summary()}")
    return report


def _bake(
    armature_object: Object, options: argparse.Namespace, progress: Callable[[float], None], teller: Teller
) -> Done:
    """Solve a range of frames, key it, and measure it in Blender."""
    frames = _frames(options)
    if options.lock_contacts:
        contacts = posing.lock_contacts(armature_object, progress=lambda _: progress(0.0))
        teller.say(contacts.summary())
    for given, option in ((options.bake_at_keys, "--at-keys"), (options.bake_fewest, "--fewest-keys")):
        if given and options.bake_step is not None:
            raise IKError(f"give --step or {option}, not both")
    characters = [armature_object, *(armature(name, set_up=True) for name in options.together)]
    job = posing.BakeJobs(
        characters, frames, step=options.bake_step, replace=options.force, bones=options.bones
    )
    reports = job.run(progress)
    return list(zip(characters, reports, strict=True))


def _frames(options: argparse.Namespace) -> range | None:
    """The frames that are given; None where none are."""
    if (options.start is None) != (options.end is None):
        otherwise = (
            "all of the animation" if options.task == "targets" else "the range in the file's settings"
        )
        raise IKError(f"give both --start and --end, or neither for {otherwise}")
    if options.start is not None and getattr(options, "bake_range", None) not in (None, 'CUSTOM'):
        raise IKError("give --range, or --start and --end, not both")
    return None if options.start is None else range(options.start, options.end + 1)
