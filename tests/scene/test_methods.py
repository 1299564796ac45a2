# SPDX-License-Identifier: GPL-3.0-or-later
"""The method and its own settings go from the panel to the solver."""

import pytest

from blender_ik_addon.core.problem.options import METHODS, USED_BY, SolverOptions
from blender_ik_addon.scene.properties.settings import METHOD_SETTINGS, method_settings, solver_options

from .builders import humanoid


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_of_a_method_reach_the_solver(method: str):
    figure = humanoid()
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
    assert options.method == method
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
