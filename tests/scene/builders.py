# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects for the scene tests, made in code: armatures with edit bones, empties, Rigify's metarig.

Every builder links its object to the scene, leaves it active and in object mode, and returns it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import addon_utils
import bpy
import numpy as np

from blender_ik_addon.scene import posing

Vector3 = tuple[float, float, float]
BoneSpec = tuple[str, str | None, Vector3, Vector3]
"""Name, name of the parent, head and tail in armature space [m]."""

HUMANOID_CENTRE: tuple[BoneSpec, ...] = (
    ("hips", None, (0.0, 0.0, 1.0), (0.0, 0.0, 1.1)),
    ("spine.001", "hips", (0.0, 0.0, 1.1), (0.0, -0.01, 1.2)),
    ("spine.002", "spine.001", (0.0, -0.01, 1.2), (0.0, 0.0, 1.32)),
    ("spine.003", "spine.002", (0.0, 0.0, 1.32), (0.0, 0.02, 1.46)),
    ("neck", "spine.003", (0.0, 0.02, 1.46), (0.0, 0.0, 1.55)),
    ("head", "neck", (0.0, 0.0, 1.55), (0.0, 0.0, 1.75)),
)

HUMANOID_LEFT: tuple[BoneSpec, ...] = (
    ("shoulder", "spine.003", (0.02, 0.0, 1.43), (0.16, 0.01, 1.42)),
    ("upper_arm", "shoulder", (0.16, 0.01, 1.42), (0.42, 0.03, 1.38)),
    ("forearm", "upper_arm", (0.42, 0.03, 1.38), (0.67, 0.0, 1.36)),
    ("hand", "forearm", (0.67, 0.0, 1.36), (0.78, -0.01, 1.35)),
    ("thigh", "hips", (0.1, 0.0, 0.98), (0.11, -0.02, 0.54)),
    ("shin", "thigh", (0.11, -0.02, 0.54), (0.11, 0.02, 0.1)),
    ("foot", "shin", (0.11, 0.02, 0.1), (0.12, -0.1, 0.02)),
)
"""Left is +x; the figure looks along -y, as Rigify's do. The right side is the mirror image."""


def armature(name: str, bones: Sequence[BoneSpec]) -> bpy.types.Object:
    """Make an armature; a bone that begins where its parent ends is connected to it."""
    view_layer = bpy.context.view_layer
    active = view_layer.objects.active
    if active is not None and active.mode != "OBJECT":
        bpy.ops.object.mode_set(mode="OBJECT")
    obj = _linked(bpy.data.objects.new(name, bpy.data.armatures.new(name)))
    view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode="EDIT")
    edit_bones = obj.data.edit_bones
    for bone_name, parent, head, tail in bones:
        bone = edit_bones.new(bone_name)
        bone.head, bone.tail = head, tail
        if parent is not None:
            bone.parent = edit_bones[parent]
            bone.use_connect = (bone.head - bone.parent.tail).length < 1e-6
    bpy.ops.object.mode_set(mode="OBJECT")
    return obj


def chain(n: int, length: float = 1.0, name: str = "chain") -> bpy.types.Object:
    """Make n connected bones `bone.000`, ... upwards from the origin, each `length` [m] long."""
    names = [f"bone.{i:03d}" for i in range(n)]
    return armature(
        name,
        [
            (names[i], names[i - 1] if i else None, (0.0, 0.0, i * length), (0.0, 0.0, (i + 1) * length))
            for i in range(n)
        ],
    )


def following_arm(places: Mapping[int, Vector3], last: int) -> Any:
    """Make four bones whose tip follows an empty with keys at places [m]; the scene ends with `last`."""
    arm: Any = chain(4, 0.3, name="arm")
    arm.poise.move_root = False
    arm.poise.effectors[posing.add_effector(arm, "bone.003")].kind = 'POSITION'
    target = arm.poise.effectors[0].target
    for frame, place in places.items():
        target.location = place
        target.keyframe_insert("location", frame=frame)
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, last
    scene.frame_set(1)
    return arm


def humanoid(name: str = "humanoid") -> bpy.types.Object:
    """Make a figure of 20 bones, 1.75 m high, arms out: hips, spine, neck, head, arms and legs `.L`, `.R`."""
    central = {bone for bone, *_ in HUMANOID_CENTRE}
    sides: list[BoneSpec] = []
    for suffix, sign in ((".L", 1.0), (".R", -1.0)):
        for bone, parent, head, tail in HUMANOID_LEFT:
            parent_name = parent if parent in central else f"{parent}{suffix}"
            sides.append(
                (f"{bone}{suffix}", parent_name, (sign * head[0], *head[1:]), (sign * tail[0], *tail[1:]))
            )
    return armature(name, [*HUMANOID_CENTRE, *sides])


def joints(name: str, table: Sequence[tuple[str, str | None, tuple[float, float, float]]]) -> Any:
    """Make an armature of joints with parents and places; bones go to their first child, or on as before."""
    places = {joint: np.array(place) for joint, _, place in table}
    parents = {joint: parent for joint, parent, _ in table}
    bones: list[BoneSpec] = []
    for joint, parent in parents.items():
        child = next((other for other, above in parents.items() if above == joint), None)
        before = places[joint] - places[parent] if parent is not None else np.array((0.0, 0.0, 1.0))
        tail = places[child] if child is not None else places[joint] + 0.5 * before
        bones.append((joint, parent, tuple(places[joint].tolist()), tuple(tail.tolist())))
    return armature(name, bones)


def basic_human_metarig() -> bpy.types.Object:
    """Add Rigify's *basic human* metarig (29 bones), enabling Rigify first."""
    enable_rigify()
    bpy.ops.object.armature_basic_human_metarig_add()
    return bpy.context.view_layer.objects.active


def basic_human_rig() -> bpy.types.Object:
    """Let Rigify generate the control rig of its *basic human*: 222 bones, limbs on IK."""
    basic_human_metarig()
    bpy.ops.pose.rigify_generate()
    return bpy.context.view_layer.objects.active


def wolf_rig() -> bpy.types.Object:
    """Let Rigify generate the control rig of its *wolf*, without face and toes of their own: limbs on IK."""
    enable_rigify()
    bpy.ops.object.armature_wolf_metarig_add()
    made: Any = bpy.context.view_layer.objects.active
    body = ("spine", "shoulder", "thigh", "shin", "foot", "toe", "front", "pelvis")
    bpy.ops.object.mode_set(mode='EDIT')
    for bone in list(made.data.edit_bones):
        if not bone.name.startswith(body):
            made.data.edit_bones.remove(bone)
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.ops.pose.rigify_generate()
    return bpy.context.view_layer.objects.active


def enable_rigify() -> None:
    """Enable Rigify for the rest of the session.

    `default_set` is needed: Rigify's register() reads its entry in the preferences. For the same reason the
    preferences must not be reset afterwards: Rigify would then be registered, but not enabled, for good.
    """
    if not addon_utils.check("rigify")[1]:
        addon_utils.enable("rigify", default_set=True)


def disable_rigify() -> None:
    """Disable Rigify if it is enabled; a handler left behind would hang Blender 4.5 at exit."""
    if addon_utils.check("rigify")[1]:
        addon_utils.disable("rigify", default_set=True)


def nail(armature: bpy.types.Object) -> None:
    """Let all parts of a character that is set up reach for place and orientation, the head with the hips."""
    levels = {"hips": 0, "hand": 1, "head": 2}
    effectors = armature.poise.effectors  # pyright: ignore[reportAttributeAccessIssue]
    effectors.remove([entry.part for entry in effectors].index("chest"))
    targets = {entry.part: entry.target for entry in effectors}
    for entry in effectors:
        entry.kind = 'BOTH'
        entry.state, entry.priority = 'REACH', levels.get(entry.part.partition(".")[0], 0)
    bpy.context.view_layer.update()
    targets["head"].parent = targets["hips"]
    targets["head"].matrix_parent_inverse = targets["hips"].matrix_world.inverted()
    bpy.context.view_layer.update()


def take_out_of_scenes(obj: Any) -> None:
    """Unlink an object from all collections; it stays in the file."""
    for collection in tuple(obj.users_collection):
        collection.objects.unlink(obj)


def empty(name: str, location: Sequence[float] = (0.0, 0.0, 0.0)) -> bpy.types.Object:
    """Make an empty at a place in world space [m]."""
    obj = _linked(bpy.data.objects.new(name, None))
    obj.location = location
    bpy.context.view_layer.update()
    return obj


def remove_bone(armature: bpy.types.Object, name: str) -> None:
    """Remove a bone in Edit Mode."""
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='EDIT')
    edit_bones: Any = armature.data.edit_bones
    edit_bones.remove(edit_bones[name])
    bpy.ops.object.mode_set(mode='OBJECT')


def link_objects(path: object, *names: str) -> list[Any]:
    """Link objects from another file, and show them in the scene."""
    libraries: Any = bpy.data.libraries
    with libraries.load(str(path), link=True) as (_, wanted):
        wanted.objects = list(names)
    return [_linked(obj) for obj in wanted.objects]


def _linked(obj: Any) -> Any:
    bpy.context.scene.collection.objects.link(obj)
    return obj
