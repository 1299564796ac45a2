# SPDX-License-Identifier: GPL-3.0-or-later
"""Files as released versions have saved them, rebuilt: what they hold of Poise, as Blender stores it.

Numbers stand for the items of menus, and what is missing had the default of that version. So these tables are
never changed: a version that reads them otherwise needs a step in `scene/properties/versions.py`.
"""

from pathlib import Path
from typing import Any

import bpy

from blender_ik_addon.scene.compat import stored_values

from . import builders

Stored = dict[str, Any]

TARGETS = {
    "foot.L": ((0.11, 0.02, 0.1), (-2.5376, -0.22718, -0.07105)),
    "foot.R": ((-0.11, 0.02, 0.1), (-2.5376, 0.22718, 0.07105)),
    "hips": ((0.0, 0.0, 1.0), (1.570796, 0.0, 0.0)),
    "hand.L": ((0.5, -0.3, 1.2), (0.0, 0.0, 0.0)),
    "head": ((0.2, -2.0, 1.4), (0.0, 0.0, 0.0)),
    "hand.R": ((-0.67, 0.0, 1.36), (0.0, 0.0, 0.0)),
    "forearm.R": ((-0.4143, 0.2667, 1.292), (0.0, 0.0, 0.0)),
}
"""Place [m] and angles [rad] of the empty of each effector."""

MATRICES = {
    "foot.L": (
        *(0.9718456864356995, 0.0691714808344841, 0.22523778676986694, 0.10999999940395355),
        *(-0.06917021423578262, -0.8300579190254211, 0.5533730983734131, 0.019999999552965164),
        *(0.2252376526594162, -0.5533719658851624, -0.801902174949646, 0.1000000536441803),
        *(0.0, 0.0, 0.0, 1.0),
    ),
    "foot.R": (
        *(0.9718456864356995, -0.0691714808344841, -0.22523778676986694, -0.10999999940395355),
        *(0.06917021423578262, -0.8300579190254211, 0.5533730983734131, 0.019999999552965164),
        *(-0.2252376526594162, -0.5533719658851624, -0.801902174949646, 0.1000000536441803),
        *(0.0, 0.0, 0.0, 1.0),
    ),
    "hips": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0),
}
"""Where bones are held, in armature space, row by row."""

EFFECTORS: tuple[Stored, ...] = (
    {"bone": "foot.L", "kind": 2, "priority": 0, "state": 0},
    {"bone": "foot.R", "kind": 2, "priority": 0, "state": 0},
    {"bone": "hips", "kind": 0, "priority": 1, "state": 2},
    {
        "bone": "hand.L",
        "kind": 0,
        "priority": 2,
        "softness_position": 0.001,
        "weight": 2.0,
        "point": [0.0, 0.05, 0.0],
    },
    {"bone": "head", "kind": 3, "priority": 3, "axis": 2, "orientation_axes": [1, 1, 0]},
    {"bone": "hand.R", "kind": 5, "priority": 2, "influence": 0.75},
    {"bone": "forearm.R", "kind": 4, "priority": 4},
)

SETTINGS: Stored = {
    "iterations": 80,
    "tolerance_position": 0.0002,
    "smoothness": 0.1,
    "bake_range": 1,
    "bake_step": 2,
    "bake_fewest": 1,
    "bake_to": 2,
    "bake_blend": 1,
    "bake_channels": 2,
    "bake_bones": 2,
    "mass_source": 1,
    "body_mass": 60.0,
    "ease_unit": 1,
    "joints": [
        {
            "name": "shin.L",
            "use_limit": [1, 1, 1],
            "lower": [0.0, -0.01, -0.01],
            "upper": [2.5, 0.01, 0.01],
            "stiffness": [0.1, 0.2, 0.3],
            "preferred": [0.2, 0.0, 0.0],
            "order": 2,
        }
    ],
    "masses": [{"name": "head", "mass": 5.0}],
    "roles": [
        {"name": "hand.L", "bone": "hand.L", "role": 12, "side": 1, "confidence": 0.9, "reason": "by hand"}
    ],
}

READ_0_1_0: Stored = {
    "method": 'PRIORITY',
    "iterations": 80,
    "bake_range": 'PREVIEW',
    "bake_to": 'STRIP',
    "bake_blend": 'ADD',
    "bake_channels": 'ROTATION',
    "bake_bones": 'LIMBS',
    "mass_source": 'LENGTHS',
    "ease_unit": 'SECONDS',
    "move_root": True,
    "fk_moves_targets": True,
}
"""What version 0.1.0 showed of these settings."""

STATES_0_1_0 = {
    "foot.L": ('BOTH', 'PIN'),
    "foot.R": ('BOTH', 'PIN'),
    "hips": ('POSITION', 'FOLLOW'),
    "hand.L": ('POSITION', 'REACH'),
    "head": ('AIM', 'REACH'),
    "hand.R": ('PLANE', 'REACH'),
    "forearm.R": ('POLE', 'REACH'),
}
"""Kind and state of each effector there."""

SOLVED_0_1_0 = {
    "hips": (-0.03132, 0.01714, 0.99637),
    "head": (-0.07185, 0.05212, 1.54114),
    "hand.L": (0.46906, -0.26592, 1.21806),
    "forearm.R": (-0.48093, 0.12915, 1.36932),
    "hand.R": (-0.73334, 0.12925, 1.36),
    "shin.L": (0.0925, -0.03411, 0.53814),
    "foot.L": (0.11, 0.02, 0.1),
}
"""Heads of bones [m] after Solve there."""


def save_0_1_0(path: Path, *, switches: bool = False) -> None:
    """Save what 0.1.0 saved of a figure.

    Args:
        path: Of the file.
        switches: As builds of 0.1.0 did before effectors had states and a bake had ranges.
    """
    armature: Any = builders.humanoid()
    entries: list[Stored] = []
    for entry in EFFECTORS:
        bone = entry["bone"]
        target = builders.empty(f"humanoid {bone}", TARGETS[bone][0])
        target.rotation_euler = TARGETS[bone][1]
        stored = {"name": bone, "target_bone": "", "target": target, **entry}
        if bone in MATRICES:
            stored |= {"pin_matrix": list(MATRICES[bone]), "placed": list(MATRICES[bone])}
        if switches:
            state = stored.pop("state", 1)
            stored |= {"pinned": int(state != 1), "enabled": int(state != 2)}
        entries.append(stored)
    settings = dict(SETTINGS)
    if switches:
        del settings["bake_range"]
        settings["use_scene_range"] = 0
    held = stored_values(armature.poise)
    for name, value in {"effectors": entries, **settings}.items():
        held[name] = value
    bpy.context.view_layer.update()
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
