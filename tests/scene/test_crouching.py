# SPDX-License-Identifier: GPL-3.0-or-later
"""A crouched figure whose head, hips or hand is moved farther than it can follow comes to rest soon."""

import bpy
import numpy as np
import pytest
from mathutils import Matrix, Vector

from blender_ik_addon.scene import posing

from .builders import basic_human_metarig, nail

CROUCH = 0.35
"""[m] How far the hips are lowered first."""
STANDS_STILL = 1e-6
"""Entry of a bone's matrix [1, m] that one more solve may change: Blender has single precision."""


def matrices(figure: bpy.types.Object) -> np.ndarray:
    return np.array([bone.matrix_basis for bone in figure.pose.bones])


def crouched(depth: float = CROUCH) -> tuple[bpy.types.Object, dict[str, bpy.types.Object]]:
    """A figure with its hips lowered [m], and its targets by the names of their effectors."""
    figure = basic_human_metarig()
    posing.setup_character(figure)
    nail(figure)
    targets = {entry.name: entry.target for entry in figure.poise.effectors}
    targets["hips"].location.z -= depth
    assert posing.solve_pose(figure).reached
    return figure, targets


@pytest.mark.parametrize(
    ("depth", "name", "way", "status"),
    [
        (CROUCH, "head", (0.0, -0.05, 0.0), 'REACHED'),
        (CROUCH, "hips", (0.15, 0.0, 0.0), 'REACHED'),
        (CROUCH, "head", (0.0, -0.5, 0.0), 'SETTLED'),
        (CROUCH, "head", (0.0, 0.5, 0.0), 'SETTLED'),
        (CROUCH, "head", (0.5, 0.0, 0.0), 'SETTLED'),
        (CROUCH, "hips", (0.0, -0.5, 0.0), 'SETTLED'),
        (CROUCH, "hand.L", (0.5, 0.0, 0.0), 'SETTLED'),
        # Limits on which it is held anyway let go of no other.
        (0.2, "hips", (0.12, -0.24, 0.28), 'SETTLED'),
    ],
)
def test_a_crouched_figure_comes_to_rest(
    depth: float, name: str, way: tuple[float, ...], status: str
) -> None:
    figure, targets = crouched(depth)
    targets[name].location += Vector(way)
    assert posing.solve_pose(figure).status == status
    before = matrices(figure)
    posing.solve_pose(figure)
    np.testing.assert_allclose(matrices(figure), before, rtol=0.0, atol=STANDS_STILL)


def knees(figure: bpy.types.Object) -> np.ndarray:
    """How far the knees are out from the middle, left and right [m]."""
    return np.array([figure.pose.bones["shin.L"].head.x, -figure.pose.bones["shin.R"].head.x])


@pytest.mark.parametrize(
    "place", [(0.1, -0.15, 0.15), (0.1, -0.3, 0.15), (0.2, -0.45, 0.15), (0.1, -0.3, 0.3)]
)
def test_hands_at_the_floor_in_front_of_the_feet_leave_the_trunk_in_the_middle(
    place: tuple[float, ...],
) -> None:
    figure = basic_human_metarig()
    posing.setup_character(figure)
    for entry in figure.poise.effectors:
        if entry.name in {"hand.L", "hand.R"}:
            x, y, z = place
            entry.target.matrix_world.translation = (x if entry.name == "hand.L" else -x, y, z)
    bpy.context.view_layer.update()
    assert posing.solve_pose(figure).reached
    trunk = ("spine", "spine.001", "spine.002", "spine.003", "spine.006")
    assert max(abs(figure.pose.bones[name].head.x) for name in trunk) < 0.002
    assert knees(figure).min() > 0.0


@pytest.mark.parametrize("depth", [0.36, 0.4, 0.44])
def test_both_knees_of_a_deep_crouch_go_outwards(depth: float) -> None:
    figure, _ = crouched(depth)
    out = knees(figure)
    assert out.min() > 0.15
    assert abs(out[0] - out[1]) < 0.01


@pytest.mark.parametrize(("depth", "lean"), [(0.38, 35.0), (0.4, 35.0), (0.35, 50.0), (0.4, 50.0)])
def test_knees_of_a_crouch_that_leans_forward_do_not_cross(depth: float, lean: float) -> None:
    figure, targets = crouched(0.0)
    hips = targets["hips"]
    turned = Matrix.Rotation(np.radians(lean), 4, 'X') @ hips.matrix_world.to_3x3().to_4x4()
    turned.translation = hips.matrix_world.translation + Vector((0.0, 0.05, -depth))
    hips.matrix_world = turned
    for name, aside in (("hand.L", -0.4), ("hand.R", 0.4)):
        targets[name].location += Vector((aside, -0.25, -0.45))
    bpy.context.view_layer.update()
    assert posing.solve_pose(figure).reached
    out = knees(figure)
    assert out.min() > 0.15
    assert abs(out[0] - out[1]) < 0.01


@pytest.mark.parametrize(("depth", "frame"), [(0.39, 20), (0.42, 10), (0.45, 10)])
def test_both_knees_of_a_baked_crouch_go_outwards(depth: float, frame: int) -> None:
    figure, targets = crouched(0.0)
    for entry in figure.poise.effectors:
        if entry.name in {"hand.L", "hand.R"}:
            entry.state = 'FOLLOW'
    for number, way in ((1, 0.0), (frame, depth), (2 * frame, 0.0)):
        targets["hips"].location.z -= way
        targets["hips"].keyframe_insert("location", frame=number)
        targets["hips"].location.z += way
    assert posing.bake(figure, range(1, 2 * frame + 1)).reached
    bpy.context.scene.frame_set(frame)
    out = knees(figure)
    assert out.min() > 0.2
    assert abs(out[0] - out[1]) < 0.01


def test_both_knees_of_a_crouch_go_outwards_while_the_hips_are_lowered() -> None:
    figure, targets = crouched(0.0)
    posing.switch_live(figure, True)
    for _ in range(21):
        targets["hips"].location.z -= 0.02
        bpy.context.view_layer.update()
    out = knees(figure)
    assert out.min() > 0.2
    assert abs(out[0] - out[1]) < 0.01
