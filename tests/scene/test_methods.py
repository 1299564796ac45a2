# SPDX-License-Identifier: GPL-3.0-or-later
"""Every method on a figure in Blender, with its own settings, through the one door."""

import bpy
import numpy as np
import pytest
from mathutils import Matrix

from blender_ik_addon.core.problem.options import METHODS, USED_BY, SolverOptions
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.properties.settings import METHOD_SETTINGS, method_settings, solver_options

from .builders import empty, humanoid

ITERATIONS = {"TRANSPOSE": 1500}
"""Where the default is too few."""

REACHES = {"hand.L": ((0.45, -0.35, 1.1), (0.3, 0.2, 0.5)), "hand.R": ((-0.4, -0.25, 1.5), (-0.4, 0.1, -0.6))}
"""Place [m] and turn from rest [rad] of each hand's target: as for something on a table."""


def figure_at_table() -> bpy.types.Object:
    """The figure with both hands led by empties, its feet held where they are."""
    figure = humanoid()
    for bone, (place, turn) in REACHES.items():
        lead(figure, bone, place, turn, 'BOTH')
    for bone in ("foot.L", "foot.R"):
        x, y, z = figure.data.bones[bone].head_local
        lead(figure, bone, (x, y, z), (0.0, 0.0, 0.0), 'POSITION')
    bpy.context.view_layer.update()
    return figure


def lead(
    figure: bpy.types.Object,
    bone: str,
    place: tuple[float, float, float],
    turn: tuple[float, float, float],
    kind: str,
) -> None:
    """Add an effector with its empty."""
    target = empty(f"to {bone}")
    rest = figure.data.bones[bone].matrix_local.to_3x3()
    turned = (
        Matrix.Rotation(turn[2], 3, 'Z') @ Matrix.Rotation(turn[1], 3, 'Y') @ Matrix.Rotation(turn[0], 3, 'X')
    )
    target.matrix_world = Matrix.Translation(place) @ (turned @ rest).to_4x4()
    effector = figure.poise.effectors.add()
    effector.name, effector.bone, effector.kind, effector.target = bone, bone, kind, target


@pytest.mark.parametrize("method", METHODS)
def test_every_method_brings_the_hands_to_their_targets(method: str):
    figure = figure_at_table()
    figure.poise.method = method
    figure.poise.iterations = ITERATIONS.get(method, 60)
    figure.poise.tolerance_position, figure.poise.tolerance_rotation = 2e-3, 0.02
    report = posing.solve_pose(figure)
    assert report.reached, report.message
    bpy.context.view_layer.update()
    for bone, (place, _) in REACHES.items():
        assert np.linalg.norm(np.array(figure.pose.bones[bone].head) - place) < 2e-3


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_of_a_method_reach_the_solver(method: str):
    figure = figure_at_table()
    figure.poise.method = method
    wanted = {
        "damping": 0.25, "constant_damping": True, "max_angle": 0.5,
        "null_space_gain": 0.75, "element_weight": 0.5, "gamma": 0.125,
        "clamp_distance": 0.5, "clamp_after_jump": True, "alternate_jacobian": True,
    }  # fmt: skip
    assert set(wanted) == set(METHOD_SETTINGS)
    for name, value in wanted.items():
        setattr(figure.poise, name, value)
    options, default = solver_options(figure, 1.0), SolverOptions(method=method)
    for name, value in wanted.items():
        expected = value if name in method_settings(method) else getattr(default, name)
        assert getattr(options, name) == pytest.approx(expected), name
    if "clamp_distance" in method_settings(method):
        assert solver_options(figure, 0.5).clamp_distance == pytest.approx(1.0)  # in armature units


def test_the_default_has_nothing_to_be_set_and_others_what_they_have_a_use_for():
    assert method_settings('PRIORITY') == ()
    for method in set(METHODS) - {'PRIORITY'}:
        assert method_settings(method)
        assert all(method in USED_BY[name] for name in method_settings(method))
    figure = humanoid()
    for name in METHOD_SETTINGS:
        default = getattr(SolverOptions(), name)
        assert getattr(figure.poise, name) == pytest.approx(default if default is not None else 0.0), name
