# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs in Blender: Rigify's metarigs, what it generates of them, and files; how bones are turned."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object

import blender_ik_addon
from blender_ik_addon.core.model.rotation import rotvec_from_matrix
from examples import scenario

FloatArray = npt.NDArray[np.float64]


def empty_file() -> None:
    """Open a file with nothing in it."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)


@contextlib.contextmanager
def add_on() -> Iterator[None]:
    """The add-on and Rigify, in an empty file."""
    empty_file()
    blender_ik_addon.register()
    try:
        scenario.enable_rigify()
        yield
    finally:
        # A handler that is left behind would hang Blender 4.5 at exit.
        empty_file()
        blender_ik_addon.unregister()
        scenario.disable_rigify()


@contextlib.contextmanager
def rigify() -> Iterator[None]:
    """Rigify, when it also generates rigs.

    The classes that a generated rig has registered for its own panels are unregistered, and the file with its
    drivers is closed: the bpy module of Blender 4.5 does not exit as long as there is one of these.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        scenario.enable_rigify()
    before = set(dir(bpy.types))
    try:
        yield
    finally:
        empty_file()
        for name in set(dir(bpy.types)) - before:
            bpy.utils.unregister_class(getattr(bpy.types, name))
        scenario.disable_rigify()


def basic_human() -> Any:
    """Rigify's basic human alone in a file."""
    empty_file()
    scenario.enable_rigify()
    bpy.ops.object.armature_basic_human_metarig_add()
    return bpy.context.view_layer.objects.active


def metarigs() -> dict[str, Callable[[], Any]]:
    """Rigify's metarigs: name -> what adds one to the file. Rigify has to be enabled."""
    found: dict[str, Callable[[], Any]] = {}
    for operator in dir(bpy.ops.object):
        match = re.fullmatch(r"armature_(\w+)_metarig_add", operator)
        if match:
            found[match[1].replace("_", " ")] = getattr(bpy.ops.object, operator)
    return found


def generate() -> None:
    """Let Rigify generate a rig of the active metarig, quietly."""
    with contextlib.redirect_stdout(io.StringIO()):
        bpy.ops.pose.rigify_generate()


def import_file(path: Path) -> None:
    """Read a BVH, glTF or FBX file into the present scene.

    Raises:
        RuntimeError: Blender cannot.
    """
    suffix = path.suffix.lower()
    with contextlib.redirect_stdout(io.StringIO()):
        if suffix == ".bvh":
            bpy.ops.import_anim.bvh(filepath=str(path), update_scene_fps=False, update_scene_duration=False)
        elif suffix in (".glb", ".gltf"):
            bpy.ops.import_scene.gltf(filepath=str(path))
        elif suffix == ".fbx":
            bpy.ops.wm.fbx_import(filepath=str(path))  # also reads ASCII, unlike import_scene.fbx
        else:
            raise RuntimeError(f"no importer for {suffix}")


def armatures_of(path: Path) -> list[Object]:
    """Import a file into an empty one, and keep its armatures alone: skinned meshes only cost time.

    Raises:
        RuntimeError: Blender cannot.
    """
    empty_file()
    import_file(path)
    for other in [thing for thing in bpy.data.objects if thing.type != 'ARMATURE']:
        bpy.data.objects.remove(other)
    return list(bpy.data.objects)


EVERY_RIG: Final[dict[str, tuple[Any, str]]] = {
    "data": (Path, "folder with an index.json that lists rigs"),
    "only": ("", "only rigs with this in their names"),
}
"""Options of what goes through `every_rig`."""


def listed_files(data: Path | None) -> list[str]:
    """The files that DIR/index.json lists."""
    if data is None:
        return []
    return [entry["file"] for entry in json.loads((data / "index.json").read_text(encoding="utf-8"))]


def every_rig(
    data: Path | None, only: str = "", generated: str = ""
) -> Iterator[tuple[str, Object | str | None]]:
    """Every rig whose name has a word, with its armature object, or why it cannot be read.

    The rigs are Rigify's metarigs, what Rigify generates of each, and the files that DIR/index.json lists.
    Those that Rigify generates are of the metarigs whose names begin with `generated`.
    """
    with rigify():
        for (name, add), kind in product(metarigs().items(), ("metarig", "generated")):
            if only in f"{kind}: {name}" and (kind == "metarig" or name.startswith(generated)):
                empty_file()
                add()
                if kind == "generated":
                    generate()
                yield f"{kind}: {name}", bpy.context.object
    for file in listed_files(data):
        if data is not None and only in file:
            try:
                armatures = armatures_of(data / file)
            except (RuntimeError, OSError) as error:
                yield file, str(error)
            else:
                yield file, armatures[0] if armatures else "no armature in it"


# Where bones are, and how they are turned


def ends(figure: Any) -> FloatArray:
    """Heads and tails of all bones in the world, as Blender has them, (n, 2, 3) [m]."""
    posed: Any = figure.evaluated_get(bpy.context.evaluated_depsgraph_get())
    places, matrix = np.array([[b.head, b.tail] for b in posed.pose.bones]), np.array(posed.matrix_world)
    return places @ matrix[:3, :3].T + matrix[:3, 3]


def local_rotations(figure: Any) -> FloatArray:
    """Rotations of all bones in their parents, as Blender has them, (n, 3, 3)."""
    bones = figure.evaluated_get(bpy.context.view_layer.depsgraph).pose.bones
    world = {bone.name: np.array(bone.matrix.to_3x3().normalized()) for bone in bones}
    return np.array(
        [world[b.name] if b.parent is None else world[b.parent.name].T @ world[b.name] for b in bones]
    )


def largest_turn(first: FloatArray, second: FloatArray) -> float:
    """Largest angle between rotations (..., 3, 3) [°]."""
    turns = rotvec_from_matrix(second @ np.swapaxes(first, -1, -2))
    return float(np.degrees(np.linalg.norm(turns, axis=-1).max()))
