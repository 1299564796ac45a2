# SPDX-License-Identifier: GPL-3.0-or-later
"""A figure steps up to a table and reaches for a cup: the scene, and the motion of the figure's targets.

The figure is Rigify's basic human metarig as it comes with Blender. It stands at the origin, looks along -y
and has its left hand at +x. Its bones follow six empties; the empties are keyed sparsely, as by hand, and
Blender interpolates between the keys. Nothing here moves a bone: that is left to the solver.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import cos, pi, radians, sin

import addon_utils
import bmesh
import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Material, Object
from mathutils import Euler, Matrix, Vector

from blender_ik_addon.scene import posing

FloatArray = npt.NDArray[np.float64]

FRAMES = 250

HIPS, HEAD = "spine", "spine.006"
EFFECTORS = (  # bone, kind, priority
    ("foot.L", 'BOTH', 0),
    ("foot.R", 'BOTH', 0),
    (HIPS, 'BOTH', 1),
    ("hand.L", 'BOTH', 2),
    ("hand.R", 'BOTH', 2),
    (HEAD, 'ORIENTATION', 2),
)
HINGES, HINGE_STIFFNESS = ("shin.L", "shin.R", "forearm.L", "forearm.R"), 0.9
"""Joints that are slow to bend sideways and to twist, and how stiff they are then, as Blender has it [1]."""
LIMITS = (
    *((f"shoulder.{side}", "xyz", -30, 30) for side in "LR"),
    *((f"spine.00{number}", "xyz", -25, 25) for number in (1, 2, 3)),
    *((f"shin.{side}", "x", -8, 150) for side in "LR"),
)
"""Bone, axes, least and greatest angle [°]: what keeps the figure human while it stretches for a table that
is out of reach. At rest the knees are bent by 10°."""
LABELS = {HIPS: "hips", HEAD: "head"}
"""What effectors are called where the bone's own name says little."""

# The stage, in metres.
TABLE_EDGE, TABLE_TOP, TABLE_SIZE, TABLE_THICKNESS = -1.31, 0.88, (1.05, 0.66), 0.035
CUP_RADIUS, CUP_HEIGHT = 0.036, 0.1
Box = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Lowest and highest corner."""
VIEW, LIGHT = (-0.82, -0.5, 0.27), (-0.7, 0.6, 1.5)
"""Directions towards the camera and the light."""
FAR = 1.2
"""How much farther away the table is with --far."""

GRASP = Vector((-0.16, -1.735, TABLE_TOP + 0.085))
"""Where the right wrist goes to take the cup."""
CUP = GRASP + Vector((0.056, -0.105, CUP_HEIGHT / 2 - 0.085))
"""Middle of the cup."""
SHOWN = (1, 31, 59, 87, 128, 160, 190, 250)
"""Frames of the picture strip."""
REACHES, TAKES, LIFTS, RETURNED = 142, 178, 204, 238
"""Frames in which the reach begins, the hand is at the cup, the cup leaves the table, all comes to rest."""


# ---------------------------------------------------------------- figure and stage


def enable_rigify() -> None:
    """Enable Rigify, which registers only if it has an entry in the preferences; quietly."""
    with contextlib.redirect_stdout(io.StringIO()):
        if not addon_utils.check("rigify")[1]:
            addon_utils.enable("rigify", default_set=True)


def disable_rigify() -> None:
    """Disable Rigify if it is enabled."""
    if addon_utils.check("rigify")[1]:
        addon_utils.disable("rigify", default_set=True)


def make_scene(*, far: bool = False) -> Object:
    """Fill an empty scene with the figure, its animated targets, table and cup; return the figure.

    Args:
        far: Put the table out of reach. The hips then rank last, so that the reach pulls at the feet with all
            its might, and limits keep the figure human.
    """
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, FRAMES
    scene.render.fps = 24
    bpy.ops.object.armature_basic_human_metarig_add()
    figure = bpy.context.view_layer.objects.active
    figure.name = "Figure"
    _set_up(figure, LIMITS if far else ())
    targets: dict[str, Object] = {}
    for bone_name, kind, priority in EFFECTORS:
        effector = figure.poise.effectors[posing.add_effector(figure, bone_name, kind=kind)]
        effector.priority = 3 if far and bone_name == HIPS else priority
        effector.name = LABELS.get(bone_name, bone_name)
        targets[bone_name] = effector.target
        targets[bone_name].name = f"target {effector.name}"
    cup = _furnish(far=far)
    _dress(figure)
    _animate(targets, cup, far=far)
    scene.frame_set(1)
    return figure


def _set_up(figure: Object, limits: Iterable[tuple[str, str, float, float]]) -> None:
    """What an animator would set on the metarig before posing it."""
    bones = figure.pose.bones
    for bone in bones:
        if bone.rotation_mode == 'QUATERNION':
            bone.rotation_mode = 'XYZ'  # so that Euler angles are baked
    for name in HINGES:
        bones[name].ik_stiffness_y = bones[name].ik_stiffness_z = HINGE_STIFFNESS
    for name, axes, least, greatest in limits:
        for axis in axes:
            setattr(bones[name], f"use_ik_limit_{axis}", True)
            setattr(bones[name], f"ik_min_{axis}", radians(least))
            setattr(bones[name], f"ik_max_{axis}", radians(greatest))


def table_boxes(*, far: bool) -> list[Box]:
    """Top, column and foot of the table; on a column it does not hide the figure's legs."""
    width, depth = TABLE_SIZE
    edge = TABLE_EDGE - (FAR if far else 0.0)
    middle, under = edge - depth / 2, TABLE_TOP - TABLE_THICKNESS
    return [
        ((-0.24, middle - 0.2, 0.0), (0.24, middle + 0.2, 0.03)),
        ((-0.05, middle - 0.05, 0.03), (0.05, middle + 0.05, under)),
        ((-width / 2, edge - depth, under), (width / 2, edge, TABLE_TOP)),
    ]


def _furnish(*, far: bool) -> Object:
    """Make floor, table, cup, light and camera; return the cup."""
    _mesh("Floor", [_box((-2.5, -3.5, -0.01), (2.5, 1.5, 0.0))], _material("floor", (0.5, 0.5, 0.52)))
    _mesh("Table", [_box(*box) for box in table_boxes(far=far)], _material("wood", (0.55, 0.36, 0.2)))
    cup = _mesh("Cup", [_cylinder(CUP_RADIUS, CUP_HEIGHT)], _material("cup", (0.75, 0.1, 0.08)))
    cup.location = CUP + _shift(far=far)
    sun = _linked(bpy.data.objects.new("Sun", bpy.data.lights.new("Sun", 'SUN')))
    sun.data.energy = 3.0
    sun.rotation_euler = Vector(LIGHT).to_track_quat('Z', 'Y').to_euler()
    camera = _linked(bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera")))
    camera.location = Vector((0.0, -0.85, 0.95)) + 5.7 * Vector(VIEW)
    camera.rotation_euler = Vector(VIEW).to_track_quat('Z', 'Y').to_euler()
    scene = bpy.context.scene
    scene.camera = camera
    scene.world = bpy.data.worlds.new("World")
    scene.world.color = (0.35, 0.37, 0.4)
    return cup


def _shift(*, far: bool) -> Vector:
    return Vector((0.0, -FAR if far else 0.0, 0.0))


Solid = tuple[list[tuple[float, ...]], list[tuple[int, ...]]]
"""Vertices and faces."""


def _box(low: Sequence[float], high: Sequence[float]) -> Solid:
    corners = [tuple((low, high)[i >> axis & 1][axis] for axis in range(3)) for i in range(8)]
    return corners, [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]


def _cylinder(radius: float, height: float, sides: int = 24) -> Solid:
    turns = [2 * pi * i / sides for i in range(sides)]
    rings = [(radius * cos(a), radius * sin(a), z) for z in (-height / 2, height / 2) for a in turns]
    walls = [(i, (i + 1) % sides, (i + 1) % sides + sides, i + sides) for i in range(sides)]
    return rings, [*walls, tuple(reversed(range(sides))), tuple(range(sides, 2 * sides))]


def _mesh(name: str, solids: Iterable[Solid], material: Material) -> Object:
    vertices: list[tuple[float, ...]] = []
    faces: list[tuple[int, ...]] = []
    for corners, sides in solids:
        faces += [tuple(i + len(vertices) for i in side) for side in sides]
        vertices += corners
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices, [], faces)
    mesh.materials.append(material)
    return _linked(bpy.data.objects.new(name, mesh))


def _material(name: str, colour: tuple[float, float, float]) -> Material:
    material = bpy.data.materials.new(name)
    material.diffuse_color = (*colour, 1.0)
    if material.node_tree is None:  # always there from Blender 5.0 on
        material.use_nodes = True
    material.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = (*colour, 1.0)
    return material


def _linked(obj: Object) -> Object:
    bpy.context.scene.collection.objects.link(obj)
    return obj


# ---------------------------------------------------------------- body

Ball = tuple[float, float, float, float]
"""Centre and radius."""

TORSO: tuple[tuple[str, tuple[Ball, ...]], ...] = (
    ("spine", ((0.085, 0.02, 1.06, 0.095), (-0.085, 0.02, 1.06, 0.095), (0.0, 0.015, 1.15, 0.11))),
    ("spine.001", ((0.04, 0.0, 1.17, 0.105), (-0.04, 0.0, 1.17, 0.105), (0.0, 0.0, 1.28, 0.115))),
    (
        "spine.002",
        (
            (0.05, 0.0, 1.31, 0.108),
            (-0.05, 0.0, 1.31, 0.108),
            (0.07, 0.0, 1.44, 0.115),
            (-0.07, 0.0, 1.44, 0.115),
        ),
    ),
    (
        "spine.003",
        (
            (0.08, -0.005, 1.46, 0.115),
            (-0.08, -0.005, 1.46, 0.115),
            (0.13, 0.025, 1.57, 0.07),
            (-0.13, 0.025, 1.57, 0.07),
        ),
    ),
    ("spine.004", ((0.0, 0.01, 1.62, 0.06), (0.0, -0.013, 1.72, 0.05))),
    ("spine.005", ((0.0, -0.013, 1.72, 0.05), (0.0, -0.02, 1.79, 0.05))),
    (
        "spine.006",
        (
            (0.0, -0.01, 1.88, 0.098),
            (0.0, -0.055, 1.865, 0.075),
            (0.0, -0.085, 1.775, 0.035),
            (0.0, -0.03, 1.80, 0.06),
        ),
    ),
    ("spine.006", ((0.0, -0.125, 1.86, 0.012), (0.0, -0.14, 1.83, 0.016))),
)
"""Parts of the body: bone, and the balls whose convex hull the part is, in armature space at rest."""

SIDE: tuple[tuple[str, tuple[Ball, ...]], ...] = (
    ("thigh.L", ((0.098, 0.0124, 1.06, 0.088), (0.098, -0.0286, 0.54, 0.058))),
    ("shin.L", ((0.098, -0.0286, 0.535, 0.056), (0.098, 0.02, 0.38, 0.055), (0.098, 0.0162, 0.1, 0.037))),
    (
        "foot.L",
        (
            (0.098, 0.0162, 0.085, 0.038),
            (0.098, 0.025, 0.034, 0.034),
            (0.11, -0.0934, 0.03, 0.03),
            (0.08, -0.0934, 0.03, 0.03),
        ),
    ),
    ("toe.L", ((0.11, -0.0934, 0.028, 0.028), (0.08, -0.0934, 0.028, 0.028), (0.098, -0.14, 0.022, 0.022))),
    ("upper_arm.L", ((0.1953, 0.0267, 1.5846, 0.062), (0.4424, 0.0885, 1.4491, 0.042))),
    (
        "forearm.L",
        ((0.4424, 0.0885, 1.4491, 0.041), (0.51, 0.075, 1.404, 0.041), (0.6594, 0.0492, 1.3061, 0.028)),
    ),
)
"""The same for the left side; the right side is its mirror image."""

HAND: tuple[tuple[Ball, ...], ...] = (
    ((0.0, 0.0, 0.0, 0.027), (0.0, 0.085, 0.026, 0.016), (0.0, 0.08, -0.03, 0.015)),
    (
        (0.0, 0.085, 0.026, 0.014),
        (0.0, 0.08, -0.028, 0.013),
        (0.0, 0.155, 0.012, 0.011),
        (0.0, 0.145, -0.014, 0.011),
    ),
    ((0.0, 0.02, 0.018, 0.016), (0.0, 0.085, 0.055, 0.011)),
)
"""Palm, fingers and thumb, in the hand's own axes, either side."""


@dataclass(frozen=True)
class Part:
    """The convex hull of some balls, fixed to a bone."""

    bone: str
    centres_bone: FloatArray
    """(k, 3) in the bone's frame [m]."""
    radii: FloatArray
    """(k,) [m]."""


def body_parts(figure: Object) -> list[Part]:
    """The body of the figure, as parts fixed to its bones."""
    mirrored = tuple(
        (bone[:-1] + "R", tuple((-x, y, z, radius) for x, y, z, radius in balls)) for bone, balls in SIDE
    )
    parts: list[Part] = []
    for bone, balls in (*TORSO, *SIDE, *mirrored):
        bone_from_armature = np.linalg.inv(np.array(figure.data.bones[bone].matrix_local))
        values = np.array(balls)
        centres = values[:, :3] @ bone_from_armature[:3, :3].T + bone_from_armature[:3, 3]
        parts.append(Part(bone, centres, values[:, 3]))
    for bone in ("hand.L", "hand.R"):
        for balls in HAND:
            values = np.array(balls)
            parts.append(Part(bone, values[:, :3], values[:, 3]))
    return parts


def _dress(figure: Object) -> None:
    """Give the figure a body of meshes that are parented to its bones, for the eye only."""
    skin = _material("body", (0.78, 0.72, 0.64))
    body = bpy.data.collections.new("Body")
    bpy.context.scene.collection.children.link(body)
    for part in body_parts(figure):
        shape = bmesh.new()
        for centre, radius in zip(part.centres_bone, part.radii, strict=True):
            bmesh.ops.create_icosphere(
                shape, subdivisions=2, radius=float(radius), matrix=Matrix.Translation(centre)
            )
        hull = bmesh.ops.convex_hull(shape, input=list(shape.verts), use_existing_faces=False)
        inside = {item for key in ("geom_interior", "geom_unused") for item in hull[key]}
        bmesh.ops.delete(
            shape, geom=[item for item in inside if isinstance(item, bmesh.types.BMVert)], context='VERTS'
        )
        mesh = bpy.data.meshes.new(f"body {part.bone}")
        shape.to_mesh(mesh)
        shape.free()
        mesh.shade_smooth()
        mesh.materials.append(skin)
        obj = bpy.data.objects.new(mesh.name, mesh)
        obj.parent, obj.parent_type, obj.parent_bone = figure, 'BONE', part.bone
        # Children of a bone hang at its tail.
        obj.matrix_parent_inverse = Matrix.Translation((0.0, -figure.data.bones[part.bone].length, 0.0))
        obj.hide_select = True
        body.objects.link(obj)
    figure.show_in_front = True
    figure.data.display_type = 'STICK'


# ---------------------------------------------------------------- motion of the targets

HIPS_KEYS = (
    # frame; metres forward, to the left, down; degrees leaning forward, tilting left, turning left
    (1, 0.0, 0.0, 0.0, 0, 0, 0),
    (18, 0.02, 0.045, 0.015, 1, -2, 0),
    (31, 0.08, 0.05, 0.015, 2, -3, 3),
    (45, 0.18, 0.0, 0.04, 2, 0, 6),
    (59, 0.35, -0.045, 0.015, 2, 3, 0),
    (73, 0.54, 0.0, 0.045, 2, 0, -6),
    (87, 0.72, 0.045, 0.015, 2, -3, 0),
    (101, 0.88, 0.0, 0.035, 2, 0, 5),
    (114, 0.97, -0.04, 0.015, 1, 3, 2),
    (128, 1.02, 0.0, 0.01, 0, 0, 0),
    (REACHES, 1.02, 0.0, 0.01, 0, 0, 0),
    (TAKES, 1.03, -0.01, 0.05, 24, 0, 14),
    (LIFTS, 1.03, -0.01, 0.05, 24, 0, 14),
    (RETURNED, 1.02, 0.0, 0.015, 5, 0, 4),
)

STEPS = (
    # side; frames of lift-off and landing; metres forward before and after
    ("R", 20, 42, 0.0, 0.36),
    ("L", 48, 70, 0.0, 0.74),
    ("R", 76, 98, 0.36, 1.06),
    ("L", 104, 124, 0.74, 1.02),
)
LANDED = 130
"""From this frame on both feet are flat on the floor."""
HEEL, TOE = 0.0459, -0.1606
"""Where heel and tip of the toes touch the floor at rest, y [m]."""

SWING_KEYS = (
    # frame; metres by which the right hand swings forward and the left one backward
    (18, 0.0),
    (45, -0.08),
    (73, 0.16),
    (101, -0.12),
    (128, 0.0),
    (REACHES, 0.0),
)
HANGING = (0.265, -0.03, 1.06)
"""The left wrist at the side of the figure at rest; the right one is its mirror image."""
CARRIED = 76
"""How far the right hand is raised while it holds the cup [°]."""


def _animate(targets: dict[str, Object], cup: Object, *, far: bool) -> None:
    """Parent the targets and give them their keys; all are still where the bones are at rest."""
    hips, left, right, head = (targets[bone] for bone in (HIPS, "hand.L", "hand.R", HEAD))
    _parent(left, hips)
    _parent(head, hips)
    for side in "LR":
        _animate_foot(targets[f"foot.{side}"], side)
    _animate_hips(hips)
    _animate_hands(left, right, _shift(far=far))
    if not far:
        _animate_cup(cup, right)
    _animate_head(head, cup)


def _parent(child: Object, parent: Object) -> None:
    """Parent so that the child's own channels stay its place in the world while the parent is at rest."""
    child.parent = parent
    child.matrix_parent_inverse = parent.matrix_basis.inverted()


def _key(obj: Object, frame: int, place: Vector | None = None, turn: Matrix | None = None) -> None:
    """Key the place, the orientation or both of an object."""
    if place is not None:
        obj.location = place
        obj.keyframe_insert("location", frame=frame)
    if turn is not None:
        obj.rotation_euler = turn.to_euler('XYZ', obj.rotation_euler)
        obj.keyframe_insert("rotation_euler", frame=frame)


def _animate_hips(hips: Object) -> None:
    rest = hips.matrix_basis.copy()
    for frame, forward, left, down, *angles in HIPS_KEYS:
        turn = Euler([radians(angle) for angle in angles], 'XYZ').to_matrix()
        _key(hips, frame, rest.translation + Vector((left, -forward, -down)), turn @ rest.to_3x3())


def _animate_foot(foot: Object, side: str) -> None:
    """Let the foot roll: its target is the child of an empty at the toes, and that of one at the heel."""
    x = foot.location.x
    heel, toes = _empty(f"heel {side}", (x, HEEL, 0.0)), _empty(f"toes {side}", (x, TOE, 0.0))
    heel_at_rest = heel.location.copy()
    _parent(toes, heel)
    foot.parent = toes
    foot.matrix_parent_inverse = toes.matrix_basis.inverted()
    keys = [(1, 0.0, 0.0, 0.0, 0.0)]  # frame; metres forward, up; degrees on the heel, on the toes
    for _, lift, land, before, after in (step for step in STEPS if step[0] == side):
        swing, way = land - lift, after - before
        keys += [
            (lift - 9, before, 0.0, 0.0, 0.0),
            (lift, before, 0.0, 0.0, 24.0),
            (lift + round(0.35 * swing), before + 0.35 * way, 0.07, 0.0, 22.0),
            (lift + round(0.7 * swing), before + 0.82 * way, 0.05, 8.0, 0.0),
            (land, after, 0.0, 12.0, 0.0),
            (land + 6, after, 0.0, 0.0, 0.0),
        ]
    for frame, forward, up, on_heel, on_toes in keys:
        heel_turn, toes_turn = (Matrix.Rotation(radians(angle), 3, 'X') for angle in (-on_heel, on_toes))
        _key(heel, frame, heel_at_rest + Vector((0.0, -forward, up)), heel_turn)
        _key(toes, frame, turn=toes_turn)


def _hand_turn(raised: float) -> Matrix:
    """Orientation of either hand with the thumb in front: raised by 0° it hangs, by 90° it points forward."""
    angle = radians(raised)
    # Columns: the palm of the left hand looks along x, the fingers point along y, the thumb is at z.
    return Matrix(((-1.0, 0.0, 0.0), (0.0, -sin(angle), -cos(angle)), (0.0, -cos(angle), sin(angle))))


def _animate_hands(left: Object, right: Object, shift: Vector) -> None:
    """The left hand swings beside the hips, which carry its target; the right one reaches for the cup."""
    at_left = Vector(HANGING)
    at_right = at_left * Vector((-1.0, 1.0, 1.0))
    travel = {frame: Vector((aside, -forward, -down)) for frame, forward, aside, down, *_ in HIPS_KEYS}
    for hand in (left, right):
        _key(hand, 1, hand.location.copy(), hand.rotation_euler.to_matrix())
    for frame, swing in SWING_KEYS:
        up = 1.5 * swing * swing
        _key(left, frame, at_left + Vector((0.0, swing, up)), _hand_turn(15 - 100 * swing))
        _key(right, frame, at_right + travel[frame] + Vector((0.0, -swing, up)), _hand_turn(15 + 100 * swing))
    # The shoulder leans farther forward than the hips carry the left target.
    for frame in (TAKES, LIFTS):
        _key(left, frame, at_left + Vector((0.0, -0.16, 0.06)), _hand_turn(35))
    _key(left, RETURNED, at_left + Vector((0.0, -0.04, 0.01)), _hand_turn(20))
    _key(right, REACHES + 16, Vector((-0.25, -1.33, 1.11)) + shift / 2, _hand_turn(55))
    _key(right, TAKES - 8, GRASP + Vector((-0.03, 0.05, 0.025)) + shift, _hand_turn(CARRIED - 4))
    for frame in (TAKES, LIFTS):
        _key(right, frame, GRASP + shift, _hand_turn(CARRIED))
    _key(right, LIFTS + 8, GRASP + Vector((-0.01, 0.05, 0.09)) + shift, _hand_turn(CARRIED))
    _key(right, RETURNED, Vector((-0.2, -1.4, 1.13)) + 0.2 * shift, _hand_turn(CARRIED))


def _animate_cup(cup: Object, hand: Object) -> None:
    """From the moment it is lifted the cup is a child of the hand's target."""
    held = cup.constraints.new('CHILD_OF')
    held.target = hand
    held.inverse_matrix = (Matrix.Translation(GRASP[:]) @ _hand_turn(CARRIED).to_4x4()).inverted()
    for frame, influence in ((1, 0.0), (LIFTS - 1, 0.0), (LIFTS, 1.0)):
        held.influence = influence
        held.keyframe_insert("influence", frame=frame)


def _animate_head(head: Object, cup: Object) -> None:
    """The head's target travels with the hips and comes to look at the cup."""
    look = head.constraints.new('TRACK_TO')
    look.target, look.track_axis, look.up_axis = cup, 'TRACK_Z', 'UP_Y'
    for frame, influence in ((1, 0.0), (10, 0.0), (50, 0.6), (128, 0.8), (TAKES - 8, 1.0)):
        look.influence = influence
        look.keyframe_insert("influence", frame=frame)


def _empty(name: str, place: Sequence[float]) -> Object:
    empty = _linked(bpy.data.objects.new(name, None))
    empty.empty_display_type, empty.empty_display_size = 'SINGLE_ARROW', 0.08
    empty.location = place
    return empty
