# SPDX-License-Identifier: GPL-3.0-or-later
"""A crouched figure whose head, hips or hand is moved farther than it can follow comes to rest soon."""

import bpy
import numpy as np
import pytest
from mathutils import Vector

from blender_ik_addon.scene import posing

from .builders import basic_human_metarig, nail

CROUCH = 0.35
"""[m] How far the hips are lowered first."""
STANDS_STILL = 1e-6
"""Entry of a bone's matrix [1, m] that one more solve may change."""


SHOWN = 1e-6
"""The same after a solve that has reached all targets: single precision, in which Blender keeps channels."""


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


@pytest.mark.parametrize(("name", "way"), [("head", (0.0, -0.05, 0.0)), ("hips", (0.15, 0.0, 0.0))])
def test_a_crouched_figure_that_follows_stands_still(name: str, way: tuple[float, ...]) -> None:
    figure, targets = crouched()
    targets[name].location += Vector(way)
    assert posing.solve_pose(figure).reached
    before = matrices(figure)
    posing.solve_pose(figure)
    np.testing.assert_allclose(matrices(figure), before, rtol=0.0, atol=SHOWN)


@pytest.mark.parametrize(
    ("depth", "name", "way"),
    [
        (CROUCH, "head", (0.0, -0.5, 0.0)),
        (CROUCH, "head", (0.0, 0.5, 0.0)),
        (CROUCH, "head", (0.5, 0.0, 0.0)),
        (CROUCH, "hips", (0.0, -0.5, 0.0)),
        (CROUCH, "hand.L", (0.5, 0.0, 0.0)),
        (0.2, "hips", (0.12, -0.24, 0.28)),  # limits on which it is held anyway let go of no other
    ],
)
def test_a_crouched_figure_comes_to_rest(depth: float, name: str, way: tuple[float, ...]) -> None:
    figure, targets = crouched(depth)
    targets[name].location += Vector(way)
    report = posing.solve_pose(figure)
    assert report.status == 'SETTLED'
    before = matrices(figure)
    posing.solve_pose(figure)
    np.testing.assert_allclose(matrices(figure), before, rtol=0.0, atol=STANDS_STILL)
