# SPDX-License-Identifier: GPL-3.0-or-later
"""Jacobians of effectors as they come out of Blender, with all that an entry can have."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.problem.system import assemble
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.kinds.kinds import KINDS
from blender_ik_addon.scene.rig.rig import Rig

from . import builders

STEP = 1e-5
"""[rad, m]"""

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "point": {"point": (0.05, 0.1, -0.07), "other_point": (0.02, -0.1, 0.0)},
    "masks": {"position_axes": (True, False, True), "orientation_axes": (False, True, False)},
    "weight": {"weight": 2.5},
    "influence": {"influence": 0.6},
    "depth": {"chain_depth": 2},
    "pinned": {"pinned": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_jacobian(kind: str, variant: str):
    if variant == "pinned" and not KINDS[kind].pinnable:
        return
    rng = np.random.default_rng(3)
    armature = builders.humanoid()
    for bone in armature.pose.bones:
        bone.rotation_mode = 'XYZ'
        bone.rotation_euler = rng.uniform(-0.5, 0.5, size=3)
    armature.rotation_euler, armature.scale = (0.3, 0.2, 1.0), (2.0, 2.0, 2.0)
    bpy.context.view_layer.update()
    index = posing.add_effector(armature, "forearm.L", kind=kind)
    entry: Any = armature.poise.effectors[index]
    if kind == 'DISTANCE' and variant == "point":
        entry.other_bone = "head"
    if KINDS[kind].pinnable:
        posing.pin(armature, index)
    settings = {"pinned": False} | VARIANTS[variant]
    for name, value in settings.items():
        setattr(entry, name, value)
    for target in (entry.target, *(other.target for other in entry.others)):
        if target is not None:
            target.location = np.array(target.location) + rng.uniform(-0.5, 0.5, size=3)
            target.rotation_euler = rng.uniform(-1.0, 1.0, size=3)
    if kind == 'STAY':
        entry.priority = 0
        posing.add_effector(armature, "hand.R")  # a level below, so that it is a task and not a preference
        armature.poise.effectors[1].priority = 1
    armature.pose.bones["upper_arm.L"].rotation_euler.x += 0.4  # away from where it was pinned
    bpy.context.view_layer.update()
    depsgraph = bpy.context.evaluated_depsgraph_get()
    rig = Rig.read(armature, depsgraph)
    frames = rig.read_frame(armature, depsgraph)
    plan, batch = rig.plan(frames), frames.pose
    system = assemble(plan.problem, batch)
    values = system.mechanism.values(batch)
    depth = settings.get("chain_depth", 0)
    if depth and kind not in {'BALANCE', 'STAY', 'POLE'}:
        assert plan.skeleton.free.any(1).sum() < rig.armature.skeleton.free.any(1).sum()
    directions = STEP * np.eye(system.size)
    nudged = np.concatenate([values + directions, values - directions])
    # Not by `system.place`: that puts the slack of a floor where it is best, for each pose.
    jacobian = system.jacobian(system.mechanism.place(values))
    ahead, back = np.split(system.residual(system.mechanism.place(nudged)), 2)
    wanted = (ahead - back).T / (2.0 * STEP)
    size = np.maximum(np.abs(wanted).max(axis=-1, keepdims=True), 1e-3)
    np.testing.assert_allclose(jacobian[0] / size, wanted / size, atol=1e-6)
