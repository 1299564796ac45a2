# SPDX-License-Identifier: GPL-3.0-or-later
"""Random rigs in random scenes: what Poise is asked for is done or refused in words, and no more changes.

A case is a rig, and steps: what somebody does to it, then a use of Poise, often undone and done again. All of
it is chosen by a string of bytes. `test_random_scenes.py` runs this module in a process of its own, as a
crash of Blender ends that:

    python -m tests.scene.random_scenes LOG SEED COUNT    tries so many cases
    python -m tests.scene.random_scenes LOG CASE          tries one again, by its bytes as hexadecimal digits

The log has a line with the bytes of each case before it is tried, and the error of each that fails.
"""

import faulthandler
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TextIO

import bpy
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import blender_ik_addon
from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.model.rotation import EULER_ORDERS
from blender_ik_addon.core.problem.options import METHODS
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.kinds.kinds import KINDS
from tests.choices import Choices

from . import builders
from .records import Record, changes, file_record, selectable

NUMBERS = (0.0, 1.0, -1.0, 0.3, 0.01, 100.0, -2.5, float("nan"), float("inf"), 1e20)
MODES = (*EULER_ORDERS, 'QUATERNION', 'AXIS_ANGLE')
SCALE_MODES = ('FULL', 'FIX_SHEAR', 'ALIGNED', 'AVERAGE', 'NONE', 'NONE_LEGACY')
RANGES = ((1, 3), (5, 5), (3, 1), (-4, -2), (1_000_000, 1_000_002), (-1_000_002, -1_000_000))
"""First and last frame of the scene: some frames, one, none, below zero, far away."""

# Rigs


class Bone(NamedTuple):
    """One bone of a random rig."""

    parent: int
    """Number of the parent; none with that or a larger one."""
    direction: int
    length: float
    roll: float
    connected: bool
    mode: str
    inherits: tuple[str, bool, bool]
    """Scale, rotation, local location."""
    locks: int
    """Bits of locked channels: location, rotation."""


@dataclass(frozen=True)
class Rig:
    """A random armature."""

    bones: tuple[Bone, ...]
    scale: tuple[float, float, float]
    effectors: tuple[tuple[int, str, int], ...]
    """Bone, kind and priority of each to begin with."""
    origin: str = "own"
    """Whose it is: the file's own, "linked" from a library, or an "override" of that."""


SCALES = (
    *((0.01, 0.01, 0.01), (100.0, 100.0, 100.0), (-1.0, 1.0, 1.0), (-1.0, -1.0, -1.0), (1.0, 2.0, 1.0)),
    (0.0, 0.0, 0.0),
)
"""Of the object: small, large, mirrored, uneven, none."""
DIRECTIONS = ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, -1), (0.6, 0.0, 0.8), (0.3, -0.9, 0.3))
LENGTHS = (1.0, 0.4, 0.4, 0.4, 1e-4, 0.0, 50.0)
"""[m] Blender removes bones without any."""
USUAL_KINDS = ('POSITION', 'BOTH', 'ORIENTATION')


def random_bone(choices: Choices) -> Bone:
    inherits = ('FULL', True, True)
    if choices.rarely():
        inherits = choices.of(SCALE_MODES), choices.yes(), choices.yes()
    return Bone(
        parent=choices.below(5) - 1,
        direction=choices.below(len(DIRECTIONS)),
        length=choices.of(LENGTHS),
        roll=choices.of((0.0, 0.7, np.pi)),
        connected=choices.yes(),
        mode=choices.of(('QUATERNION', 'XYZ', *MODES)),
        inherits=inherits,
        locks=choices.of((*[0] * 8, 7, 56, 63, 9)),
    )


def random_effector(choices: Choices) -> tuple[int, str, int]:
    kind = choices.of(list(KINDS)) if choices.rarely() else choices.of(USUAL_KINDS)
    return choices.below(4), kind, choices.of((0, 0, 1))


def random_rig(choices: Choices) -> Rig:
    if choices.below(16) == 15:  # ten roots
        bones = [random_bone(choices)._replace(parent=99)] * 10
    else:
        bones = choices.some(lambda: random_bone(choices), 1, 4)
    return Rig(
        tuple(bones),
        scale=choices.of(SCALES) if choices.rarely() else (1.0, 1.0, 1.0),
        effectors=tuple(choices.some(lambda: random_effector(choices), 1, 3)),
        origin=choices.of((*["own"] * 14, "linked", "override")),
    )


def built(rig: Rig) -> Any:
    """Make the armature, and its effectors as far as they can be."""
    obj: Any = bpy.data.objects.new("rig", bpy.data.armatures.new("rig"))
    bpy.context.scene.collection.objects.link(obj)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode='EDIT')
    made: list[Any] = []
    for number, bone in enumerate(rig.bones):
        edit = obj.data.edit_bones.new(f"b{number}")
        parent = made[bone.parent] if 0 <= bone.parent < number else None
        head = parent.tail if parent else np.array([0.3 * number, 0.0, 0.0])
        edit.head = np.array(head) + (0.0 if bone.connected else 0.1)
        edit.tail = np.array(edit.head) + bone.length * np.array(DIRECTIONS[bone.direction], np.float64)
        edit.roll, edit.parent = bone.roll, parent
        edit.use_connect = bone.connected and parent is not None
        edit.inherit_scale, edit.use_inherit_rotation, edit.use_local_location = bone.inherits
        made.append(edit)
    bpy.ops.object.mode_set(mode='OBJECT')
    for number, bone in enumerate(rig.bones):
        if f"b{number}" in obj.pose.bones:  # Blender removes bones without length
            pose = obj.pose.bones[f"b{number}"]
            pose.rotation_mode = bone.mode
            pose.lock_location = [bool(bone.locks & 1 << axis) for axis in range(3)]
            pose.lock_rotation = [bool(bone.locks & 8 << axis) for axis in range(3)]
    obj.scale = rig.scale
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, 3
    bpy.context.view_layer.update()
    names = obj.pose.bones.keys()
    for bone, kind, priority in rig.effectors if names else ():
        try:
            index = posing.add_effector(obj, names[bone % len(names)], kind=kind)
        except IKError:
            continue
        obj.poise.effectors[index].priority = priority
    bpy.context.view_layer.update()
    return obj


def from_library(origin: str, folder: Path) -> Any:
    """Save the file as a library and link its objects into an empty one; return the rig, or its override."""
    path, names = folder / "library.blend", [obj.name for obj in bpy.data.objects]
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    linked = {obj.name: obj for obj in builders.link_objects(path, *names)}
    found = linked["rig"]
    if origin == "override":
        bpy.context.scene.collection.objects.unlink(found)
        found = found.override_create(remap_local_usages=True)
        found.override_library.is_system_override = False
        bpy.context.scene.collection.objects.link(found)
    bpy.context.view_layer.objects.active = found
    bpy.context.view_layer.update()
    return found


class Scene:
    """What steps are done to."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        obj = built(rig)
        self._uid = (obj if rig.origin == "own" else from_library(rig.origin, folder)).session_uid
        self.folder = folder
        push()

    @property
    def rig(self) -> Any:
        return next(obj for obj in bpy.data.objects if obj.session_uid == self._uid)

    @property
    def settings(self) -> Any:
        return self.rig.poise

    def bone(self, number: int) -> Any:
        found = self.rig.pose.bones
        return found[number % len(found)] if len(found) else None

    def entry(self, number: int) -> Any:
        entries = self.settings.effectors
        return entries[number % len(entries)] if len(entries) else None

    def target(self, number: int) -> Any:
        entry = self.entry(number)
        return entry.target if entry else None


def push() -> None:
    """Note a step of undo, as Blender does after each operator."""
    bpy.ops.ed.undo_push(message="step")


# What somebody does

Edit = Callable[[Scene, int, float], object]


def in_mode(mode: Any) -> Edit:
    def switch(scene: Scene, number: int, value: float) -> None:
        bpy.context.view_layer.objects.active = scene.rig
        if scene.rig.visible_get():
            bpy.ops.object.mode_set(mode=mode)

    return switch


def of_bone(change: Callable[[Any, float], object]) -> Edit:
    def edit(scene: Scene, number: int, value: float) -> None:
        bone = scene.bone(number)
        if bone is not None:
            change(bone, value)

    return edit


def of_target(change: Callable[[Scene, Any, float], object]) -> Edit:
    def edit(scene: Scene, number: int, value: float) -> None:
        target = scene.target(number)
        if target is not None:
            change(scene, target, value)

    return edit


def of_entry(change: Callable[[Any, float], object]) -> Edit:
    def edit(scene: Scene, number: int, value: float) -> None:
        entry = scene.entry(number)
        if entry is not None:
            change(entry, value)

    return edit


def turn_bone(bone: Any, value: float) -> None:
    if bone.rotation_mode == 'QUATERNION':
        bone.rotation_quaternion = (1.0, value, 0.0, 0.5)
    elif bone.rotation_mode == 'AXIS_ANGLE':
        bone.rotation_axis_angle = (value, 0.0, 1.0, 0.0)
    else:
        bone.rotation_euler = (value, 0.5, 0.0)


def limit_bone(bone: Any, value: float) -> None:
    value = value if np.isfinite(value) else 0.5
    bone.use_ik_limit_x = True
    bone.ik_min_x, bone.ik_max_x = -abs(value), min(abs(value), 0.2)


def lock_bone(bone: Any, value: float) -> None:
    bone.lock_rotation = (value > 0.0, value < 1.0, True)
    bone.lock_location = (True, value < 0.0, False)


def constrain_bone(kind: str) -> Edit:
    def edit(scene: Scene, number: int, value: float) -> None:
        bone = scene.bone(number)
        if bone is not None and len(bone.constraints) < 2:
            constraint = bone.constraints.new(kind)
            if hasattr(constraint, "target"):
                constraint.target = scene.target(number + 1)
            if kind == 'LIMIT_ROTATION':
                constraint.use_limit_x, constraint.max_x, constraint.owner_space = True, 0.3, 'LOCAL'

    return edit


def drive_bone(bone: Any, value: float) -> None:
    driver = bone.driver_add("location", 0).driver
    driver.type, driver.expression = 'SCRIPTED', "1/0" if value < 0.0 else "frame * 0.1"


def ring(scene: Scene, target: Any, value: float) -> None:
    target.parent, target.parent_type = scene.rig, 'BONE'
    target.parent_bone = name_of(scene, int(value > 0.0))


def constrained_ring(scene: Scene, target: Any, value: float) -> None:
    constraint = target.constraints.new('COPY_LOCATION')
    constraint.target, constraint.subtarget = scene.rig, name_of(scene, int(value > 0.0))


def key_target(scene: Scene, target: Any, value: float) -> None:
    value = value if abs(value) < 1e3 else 0.2
    for frame, offset in ((scene.settings.bake_start, 0.0), (3, value)):
        target.location.x += offset
        target.keyframe_insert("location", frame=frame)


def key_bone(bone: Any, value: float) -> None:
    for frame in (1, 2):
        bone.location.x = 0.1 * frame
        bone.keyframe_insert("location", frame=frame)


def unlink(scene: Scene, target: Any, value: float) -> None:
    for collection in target.users_collection:
        collection.objects.unlink(target)


def remove_bone(scene: Scene, number: int, value: float) -> None:
    if scene.rig.visible_get() and len(scene.rig.pose.bones) > 1:
        builders.remove_bone(scene.rig, scene.bone(number).name)


def second_rig(scene: Scene, number: int, value: float) -> None:
    """Another character that is live and reaches for a bone of this one, or is its twin."""
    if value > 0.0:
        twin: Any = bpy.data.objects.new("twin", scene.rig.data)
        bpy.context.scene.collection.objects.link(twin)
        bpy.context.view_layer.update()
    else:
        mode: Any = scene.rig.mode
        twin = builders.chain(2, name="twin")
        bpy.context.view_layer.objects.active = scene.rig
        if mode != 'OBJECT' and scene.rig.visible_get():
            bpy.ops.object.mode_set(mode=mode)
    bone = twin.pose.bones[0].name if twin.pose and len(twin.pose.bones) else ""
    if bone and not twin.data.is_editmode:
        with suppress(IKError):  # it shares its bones with a rig that cannot be posed
            posing.add_effector(twin, bone)
            twin.poise.live = True


def share_action(scene: Scene, number: int, value: float) -> None:
    animation = scene.rig.animation_data
    if animation is not None and animation.action is not None:
        other: Any = builders.empty("sharer")
        other.animation_data_create().action = animation.action
        if value > 0.0 and animation.action_slot is not None:
            other.animation_data.action_slot = animation.action_slot
        bpy.context.view_layer.objects.active = scene.rig


def frames(scene: Scene, number: int, value: float) -> None:
    own = bpy.context.scene
    own.frame_start, own.frame_end = RANGES[number % len(RANGES)]
    scene.settings.bake_start, scene.settings.bake_end = RANGES[number % len(RANGES)]


def setting(name: str, choices: Iterable[Any]) -> Edit:
    values = list(choices)
    return lambda scene, number, value: setattr(scene.settings, name, values[number % len(values)])


def object_scale(scene: Scene, number: int, value: float) -> None:
    scene.rig.scale = ((value,) * 3, (1.0, value, 1.0))[number % 2]


EDITS: dict[str, Edit] = {
    "edit mode": in_mode('EDIT'),
    "pose mode": in_mode('POSE'),
    "object mode": in_mode('OBJECT'),
    "scale": object_scale,
    "place": lambda scene, number, value: setattr(scene.rig.location, "xyz"[number % 3], value),
    "turn": lambda scene, number, value: setattr(scene.rig.rotation_euler, "xyz"[number % 3], value),
    "parent": lambda scene, number, value: setattr(
        scene.rig, "parent", builders.empty("parent", (value, 0, 0))
    ),
    "rest position": lambda scene, number, value: setattr(
        scene.rig.data, "pose_position", ('REST', 'POSE')[number % 2]
    ),
    "rename rig": lambda scene, number, value: setattr(scene.rig, "name", ("rig", "x", "")[number % 3]),
    "disable rig": lambda scene, number, value: setattr(scene.rig, "hide_viewport", bool(number % 2)),
    "turn bone": of_bone(turn_bone),
    "move bone": of_bone(lambda bone, value: setattr(bone.location, "x", value)),
    "scale bone": of_bone(lambda bone, value: setattr(bone, "scale", (value,) * 3)),
    "flatten bone": of_bone(lambda bone, value: setattr(bone, "scale", (1.0, value, 1.0))),
    "mode of bone": lambda scene, number, value: (
        scene.bone(number) and setattr(scene.bone(number), "rotation_mode", MODES[number % len(MODES)])
    ),
    "limit bone": of_bone(limit_bone),
    "lock bone": of_bone(lock_bone),
    "hide bone": of_bone(lambda bone, value: setattr(bone.bone, "hide", value > 0.0)),
    "select bone": of_bone(lambda bone, value: setattr(selectable(bone), "select", value > 0.0)),
    "copy rotation": constrain_bone('COPY_ROTATION'),
    "inverse kinematics": constrain_bone('IK'),
    "limit rotation": constrain_bone('LIMIT_ROTATION'),
    "drive bone": of_bone(drive_bone),
    "key bone": of_bone(key_bone),
    "rename bone": of_bone(lambda bone, value: setattr(bone, "name", "b1" if value > 0.0 else "other")),
    "remove bone": remove_bone,
    "move target": of_target(lambda scene, target, value: setattr(target.location, "x", value)),
    "move target far": of_target(
        lambda scene, target, value: setattr(target, "location", (value, value, 2.0))
    ),
    "scale target": of_target(lambda scene, target, value: setattr(target, "scale", (value,) * 3)),
    "remove target": of_target(lambda scene, target, value: bpy.data.objects.remove(target)),
    "unlink target": of_target(unlink),
    "disable target": of_target(lambda scene, target, value: setattr(target, "hide_viewport", value > 0.0)),
    "rename target": of_target(lambda scene, target, value: setattr(target, "name", "rig")),
    "ring": of_target(ring),
    "constrained ring": of_target(constrained_ring),
    "key target": of_target(key_target),
    "same target": of_entry(
        lambda entry, value: setattr(entry, "target", entry.id_data.poise.effectors[0].target)
    ),
    "rename effector": of_entry(lambda entry, value: setattr(entry, "name", "same")),
    "bone of effector": of_entry(
        lambda entry, value: setattr(entry, "bone", "b0" if value > 0.0 else "none")
    ),
    "priority": of_entry(lambda entry, value: setattr(entry, "priority", int(value > 0.0) * 3)),
    "weight": of_entry(
        lambda entry, value: setattr(entry, "weight", max(value, 0.0) if value < 1e6 else 0.0)
    ),
    "influence": of_entry(lambda entry, value: setattr(entry, "influence", value if value == value else 0.0)),
    "point": of_entry(lambda entry, value: setattr(entry, "point", (value, 0.0, 0.0))),
    "kind": lambda scene, number, value: (
        scene.entry(number) and setattr(scene.entry(number), "kind", list(KINDS)[number % len(KINDS)])
    ),
    "second rig": second_rig,
    "share action": share_action,
    "frames": frames,
    "go to frame": lambda scene, number, value: bpy.context.scene.frame_set(number),
    "method": setting("method", METHODS),
    "move root": setting("move_root", (True, False)),
    "live": setting("live", (True, False)),
    "auto-key": lambda scene, number, value: setattr(
        bpy.context.scene.tool_settings, "use_keyframe_insert_auto", bool(number % 2)
    ),
}

# What Poise is asked for

Use = Callable[[Scene, int, float], Any]


def name_of(scene: Scene, number: int) -> str:
    bone = scene.bone(number)
    return "" if bone is None else bone.name


def bake(**options: Any) -> Use:
    def use(scene: Scene, number: int, value: float) -> Any:
        frames = [(1, 2, 3), (2,), (), (-3, -1), "SCENE", "CUSTOM", (1, 2**31 + 1), (0.5, 1)][number % 8]
        return posing.bake(scene.rig, frames, **options)

    return use


def preset(scene: Scene, number: int, value: float) -> Any:
    path = scene.folder / f"{number}.json"
    posing.save_preset(scene.rig, path)
    return posing.load_preset(scene.rig, path)


def together(scene: Scene, number: int, value: float) -> Any:
    rigs = [obj for obj in bpy.data.objects if obj.type == 'ARMATURE']
    return posing.bake_together(rigs, (1, 2), replace=value > 0.0)


def solve_other(scene: Scene, number: int, value: float) -> Any:
    others = [obj for obj in bpy.data.objects if obj.name == "twin"]
    return posing.solve_pose(others[0] if others else scene.rig)


USES: dict[str, Use] = {
    "solve": lambda scene, number, value: posing.solve_pose(scene.rig),
    "solve again": lambda scene, number, value: posing.solve_pose(scene.rig),
    "bake": bake(),
    "bake over": bake(replace=True),
    "bake new": bake(to='NEW', name="new"),
    "bake strip": bake(to='STRIP'),
    "bake fewest": bake(fewest=True, replace=True),
    "bake eased": bake(ease_in=1, replace=True),
    "bake together": together,
    "follow": lambda scene, number, value: posing.follow(scene.rig),
    "live": lambda scene, number, value: posing.switch_live(scene.rig, value > 0.0),
    "diagnose": lambda scene, number, value: posing.diagnose(scene.rig),
    "add": lambda scene, number, value: posing.add_effector(
        scene.rig, name_of(scene, number), kind=list(KINDS)[number % len(KINDS)]
    ),
    "add to target": lambda scene, number, value: posing.add_effector(
        scene.rig, name_of(scene, number), target=scene.target(number)
    ),
    "remove": lambda scene, number, value: posing.remove_effector(scene.rig, number - 1),
    "move": lambda scene, number, value: posing.move_effector(scene.rig, number, int(value > 0.0)),
    "state": lambda scene, number, value: posing.set_state(
        scene.rig, int(value > 0.0), ('PIN', 'REACH', 'FOLLOW', 'OFF')[number % 4]
    ),
    "make target": lambda scene, number, value: posing.make_target(scene.rig, number),
    "keep orientation": lambda scene, number, value: posing.keep_orientation(scene.rig, number, value > 0.0),
    "add choice": lambda scene, number, value: posing.add_choice(scene.rig, number),
    "store pose": lambda scene, number, value: posing.store_pose(scene.rig, number),
    "floor": lambda scene, number, value: posing.add_floor(scene.rig, [name_of(scene, number)]),
    "set up": lambda scene, number, value: posing.setup_character(scene.rig),
    "natural": lambda scene, number, value: posing.make_natural(scene.rig),
    "prefer": lambda scene, number, value: posing.prefer_present_pose(scene.rig, [name_of(scene, number)]),
    "own limits": lambda scene, number, value: posing.own_limits(scene.rig, name_of(scene, number)),
    "own masses": lambda scene, number, value: posing.own_masses(scene.rig, [name_of(scene, number)]),
    "mirror": lambda scene, number, value: posing.mirror(scene.rig),
    "preset": preset,
    "key pose": lambda scene, number, value: posing.key_pose(scene.rig),
    "key targets": lambda scene, number, value: posing.key_targets(scene.rig),
    "snap": lambda scene, number, value: posing.snap_targets(scene.rig),
    "snap frames": lambda scene, number, value: posing.snap_targets(scene.rig, frames=(1, 2)),
    "from animation": lambda scene, number, value: posing.targets_from_animation(scene.rig, frames=(1, 2)),
    "contacts": lambda scene, number, value: posing.find_contacts(scene.rig, frames=(1, 2, 3)),
    "correct": lambda scene, number, value: posing.correct(scene.rig),
    "attach": lambda scene, number, value: posing.attach_targets(scene.rig),
    "roles": lambda scene, number, value: posing.recognise_roles(scene.rig),
    "twin": solve_other,
}

# What a use may change where it succeeds: paths of `file_record`, {rig} the rig, {new} what was not there

POSE = r"objects\[{rig}\]\.pose\.bones\[.*?\]\.(location|rotation_\w+)"
NOTES = r"objects\[{rig}\]\.(poise\.|poise$|pose\.bones\[.*?\](\.poise_name|\[\"))"
KEYS = r"(actions|objects\[{rig}\]\.animation_data)"
TARGETS = (
    r"objects\[{targets}\]"
    r"\.(location|rotation_\w+|scale|parent\w*|matrix_parent\w*|animation_data|delta_\w+|poise)"
)
MADE = r"(objects$|collections|scene\.objects|scene\.collections|scene\.layer\[{new}\]|objects\[{new}\])"
SOLVED = (POSE, NOTES, TARGETS)
BAKED = (POSE, NOTES, KEYS)
CLAIMS: dict[str, tuple[str, ...]] = {
    "solve": SOLVED,
    "solve again": SOLVED,
    **{use: BAKED for use in USES if use.startswith("bake")},
    "bake together": (*BAKED, r"objects\[twin\]"),
    "follow": SOLVED,
    "live": SOLVED,
    "diagnose": (NOTES,),
    "remove": (NOTES, KEYS),
    "move": (NOTES, KEYS),
    "state": (NOTES, TARGETS, MADE),
    "keep orientation": (NOTES, TARGETS),
    "store pose": (NOTES,),
    "prefer": (NOTES,),
    "own limits": (NOTES,),
    "own masses": (NOTES,),
    "roles": (NOTES,),
    "natural": SOLVED,
    "set up": (POSE, NOTES, TARGETS, MADE),
    "mirror": (POSE, NOTES, TARGETS, MADE, KEYS),
    "preset": (NOTES, MADE, TARGETS),
    "key pose": (KEYS, NOTES),
    "key targets": (NOTES, TARGETS, "actions", MADE),
    "snap": (NOTES, TARGETS, "actions", MADE),
    "snap frames": (NOTES, TARGETS, "actions", MADE),
    "from animation": (NOTES, TARGETS, KEYS, MADE),
    "contacts": (NOTES, KEYS, TARGETS),
    "correct": (NOTES, TARGETS, "actions"),
    "attach": (NOTES, TARGETS),
    "twin": (*SOLVED, r"objects\[twin\]", TARGETS),
}
USUAL = (NOTES, MADE)
"""Of a use that only adds to the list."""

# What is checked


def unclaimed(scene: Scene, before: Record, after: Record, claimed: tuple[str, ...]) -> dict[str, Any]:
    """What has changed that is not claimed; what is live moves whenever something else does, and later."""
    rig = scene.rig
    targets = {obj.name for entry in rig.poise.effectors for obj in posing_targets(entry)}
    new = {path for path in after if path.startswith("objects[") and path not in before}
    new = {path[8 : path.index("]")] for path in new}
    names = {
        "rig": re.escape(rig.name_full) if rig.is_editable else "-",  # what is linked is not saved
        "targets": f"({'|'.join(map(re.escape, sorted(targets))) or '-'})",
        "new": f"({'|'.join(map(re.escape, sorted(new))) or '-'})",
    }
    objects: Any = bpy.data.objects
    live = any(obj.poise.live for obj in objects)
    follows = (*SOLVED, r"objects\[twin\]") if live else ()
    claims = [re.compile(claim.format(**names)) for claim in (*claimed, *follows)]
    found = changes(before, after)
    return {path: change for path, change in found.items() if not any(claim.match(path) for claim in claims)}


def posing_targets(entry: Any) -> list[Any]:
    return [each.target for each in (entry, *entry.others) if each.target is not None]


def check_solved(scene: Scene, report: posing.Report) -> None:
    """Errors are those in Blender, and limits hold in the channels."""
    rig = scene.rig
    bpy.context.view_layer.update()
    depsgraph = bpy.context.evaluated_depsgraph_get()
    entries = [entry for entry in rig.poise.effectors if entry.state != 'OFF']
    assert len(entries) == len(report.effectors)
    for entry, error in zip(entries, report.effectors, strict=True):
        measured = distance(rig, entry, depsgraph)
        if measured is not None and error.position is not None:
            known, size = measured
            np.testing.assert_allclose(error.position, known, rtol=1e-4, atol=2e-6 * size, err_msg=entry.name)


def distance(rig: Any, entry: Any, depsgraph: Any) -> tuple[float, float] | None:
    """Distance of a bone from its target [m], and how large the numbers are; None for other kinds."""
    if entry.kind not in ('POSITION', 'BOTH') or entry.state != 'REACH' or entry.target is None:
        return None
    if entry.target_bone or not all(entry.position_axes) or entry.influence < 1.0:
        return None
    posed, target = rig.evaluated_get(depsgraph), entry.target.evaluated_get(depsgraph)
    bone = np.array(posed.matrix_world) @ np.array(posed.pose.bones[entry.bone].matrix)
    point = bone @ [*entry.point, 1.0]
    goal = np.array(target.matrix_world.translation)
    size = max(np.abs(bone).max(), np.abs(goal).max(), np.abs(np.array(posed.matrix_world)).max(), 1.0)
    return float(np.linalg.norm(point[:3] - goal)), float(size)


def check_limits(scene: Scene, before: Record, after: Record) -> None:
    """The channels of bones that were turned are inside their limits."""
    rig = scene.rig
    skeleton = read_armature(rig).skeleton
    changed = changes(before, after)
    for bone in rig.pose.bones:
        path = f"objects[{rig.name_full}].pose.bones[{bone.name}].rotation_euler"
        if bone.rotation_mode in EULER_ORDERS and path in changed:
            joint = skeleton.index(bone.name)
            angles, free = np.array(bone.rotation_euler), skeleton.free[joint, 3:]
            preferred = skeleton.preferred[joint, 3:]
            lower = np.fmin(skeleton.lower[joint, 3:], preferred)
            upper = np.fmax(skeleton.upper[joint, 3:], preferred)
            assert (angles >= lower - 1e-5)[free].all(), bone.name
            assert (angles <= upper + 1e-5)[free].all(), bone.name


def check_baked(scene: Scene, report: posing.BakeReport) -> None:
    """Errors are those that Blender plays back."""
    own = bpy.context.scene
    rig = scene.rig
    if rig.poise.live or any(obj.poise.live for obj in bpy.data.objects):
        return
    present = own.frame_current
    entries = [entry for entry in rig.poise.effectors if entry.state != 'OFF']
    for row in {0, len(report.frames) - 1}:
        own.frame_set(report.frames[row])
        depsgraph = bpy.context.evaluated_depsgraph_get()
        for entry, error in zip(entries, report.position_errors[row], strict=True):
            measured = distance(rig, entry, depsgraph)
            if measured is not None and np.isfinite(error):
                known, size = measured
                np.testing.assert_allclose(error, known, rtol=1e-4, atol=2e-6 * size, err_msg=entry.name)
    own.frame_set(present)


# Cases

Call = tuple[str, int, float]


@dataclass(frozen=True)
class Step:
    """What somebody does, and then asks for."""

    edits: tuple[Call, ...]
    use: Call
    undone: int
    """0 for not at all, 1 for undone, 2 for undone and done again."""


@dataclass(frozen=True)
class Case:
    """A rig, and what is done with it."""

    rig: Rig
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, data: bytes) -> "Case":
        """The case that bytes choose."""
        choices = Choices(data)

        def call(names: Iterable[str]) -> Call:
            return choices.of(list(names)), choices.below(8), choices.of(NUMBERS)

        def step() -> Step:
            return Step(tuple(choices.some(lambda: call(EDITS), 0, 3)), call(USES), choices.below(3))

        steps = tuple(choices.some(step, 1, 3))
        return cls(random_rig(choices), steps)


BYTES = 128
"""Of a case; few need so many."""
NOTED = r".*\.(poise_name|names_digest)$"
NOTED_LIVE = r".*\.poise\.(live\w*|pose_note)$"
"""What Poise notes for itself also where it refuses."""
PLAYED = re.compile(r"\.(location|rotation_\w+|scale|influence)$")
"""What undo plays from the keys: a pose without keys is lost, as with each change of the frame."""
BLENDER_REFUSES = (AttributeError, RuntimeError, TypeError, IKError)
"""How Blender answers who would edit what belongs to a library."""


def run(case: Case, folder: Path) -> None:
    """Do what a case says, and check each use."""
    scene = Scene(case.rig, folder)
    for step in case.steps:
        for edit, which, how in step.edits:
            with suppress(*(BLENDER_REFUSES if case.rig.origin != "own" else ())):
                EDITS[edit](scene, which, how)
            bpy.context.view_layer.update()
        push()
        before = file_record()
        after = use(scene, before, *step.use)
        push()
        turns: Any = (("undo", bpy.ops.ed.undo, before), ("redo", bpy.ops.ed.redo, after))
        for what, turn, wanted in turns[: step.undone]:
            objects: Any = bpy.data.objects
            takes_all = case.rig.origin == "own" and not any(
                obj.mode == 'EDIT' or obj.poise.live for obj in objects
            )
            turn()
            bpy.context.view_layer.update()
            found = changes(wanted, file_record())
            found = {path: own for path, own in found.items() if not re.match(f"{NOTED}|{NOTED_LIVE}", path)}
            if len(bpy.data.actions):
                found = {path: own for path, own in found.items() if not PLAYED.search(path)}
            if (
                takes_all
            ):  # in Edit Mode Blender takes back bones alone, of a library nothing; what is live moves
                assert not found, f"{what} after {step.use[0]} has not brought back {found}"


def use(scene: Scene, before: Record, name: str, number: int, value: float) -> Record:
    """Ask for something, and check what comes of it; returns how all is after it."""
    try:
        report = USES[name](scene, number, value)
    except IKError as error:
        assert len(str(error).split()) > 3, error
        bpy.context.view_layer.update()
        after = file_record()
        # What bones are called, for when they are renamed; of live mode, which is on, and begins when that is
        # corrected, also what is noted of the scene.
        noted = (NOTED, NOTED_LIVE) if name in ("live", "follow") else (NOTED,)
        found = unclaimed(scene, before, after, noted)
        assert not found, f"{name} was refused ({error}), and has changed {found}"
        return after
    bpy.context.view_layer.update()
    after = file_record()
    found = unclaimed(scene, before, after, CLAIMS.get(name, USUAL))
    assert not found, f"{name} has changed {found}"
    if name in ("solve", "solve again"):
        check_solved(scene, report)
        check_limits(scene, before, after)
    elif name.startswith("bake") and name not in ("bake together", "bake strip"):
        check_baked(scene, report)
    return after


HANGS_SECONDS = 300
"""[s] A case that takes so long hangs; they take a tenth of a second."""


def try_case(data: bytes, log: TextIO, folder: Path) -> None:
    """Run the case of some bytes; what goes wrong is raised, and in the log."""
    log.write(f"case {data.rstrip(bytes(1)).hex()}\n")
    log.flush()
    if hasattr(signal, "SIGALRM"):
        signal.alarm(HANGS_SECONDS)
    try:
        run(Case.of(data), folder)
    except Exception:
        log.write(f"failed {Case.of(data)}\n{traceback.format_exc()}")
        raise


def main(place: str, *what: str) -> int:
    """Try cases; the exit code is 1 if one fails."""
    if hasattr(signal, "SIGALRM"):
        faulthandler.register(signal.SIGALRM, chain=True)
    faulthandler.enable()
    with Path(place).open("w", encoding="utf-8") as log, TemporaryDirectory() as folder:
        blender_ik_addon.register()
        try:
            if len(what) == 1:
                try_case(bytes.fromhex(what[0]), log, Path(folder))
            else:

                @seed(int(what[0]))
                @settings(
                    max_examples=int(what[1]),
                    database=None,
                    deadline=None,
                    phases=[Phase.generate],  # cases are short, and to shrink one takes minutes
                    suppress_health_check=[HealthCheck.too_slow],
                )
                @given(st.binary(min_size=BYTES, max_size=BYTES))
                def go(data: bytes) -> None:
                    try_case(data, log, Path(folder))

                go()
            log.write("all have passed\n")
        except Exception:  # noqa: BLE001 (it is in the log)
            return 1
        finally:
            blender_ik_addon.unregister()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
