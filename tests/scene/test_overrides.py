# SPDX-License-Identifier: GPL-3.0-or-later
"""What is added to a library override lasts, though the character's own file has nothing of Poise."""

from pathlib import Path
from typing import Any

import bpy
import pytest

from blender_ik_addon.scene import posing

from . import builders


def linked_without_poise(folder: Path) -> Any:
    """Give the override of a linked figure whose file has never seen Poise."""
    figure = builders.humanoid("Linked")
    library = folder / "library.blend"
    figure.property_unset("poise")  # live mode has asked whether it is live, and that alone leaves a trace
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    libraries: Any = bpy.data.libraries
    with libraries.load(str(library), link=True) as (_, wanted):
        wanted.objects = ["Linked"]
    assert not bpy.data.objects["Linked"].is_property_set("poise")
    override: Any = bpy.data.objects["Linked"].override_create(remap_local_usages=True)
    override.override_library.is_system_override = False
    bpy.context.scene.collection.objects.link(override)
    bpy.context.view_layer.update()
    return override


def saved_and_loaded(path: Path) -> Any:
    """Save, load, and give the override of the file."""
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.open_mainfile(filepath=str(path))
    return next(obj for obj in bpy.data.objects if obj.override_library and obj.type == 'ARMATURE')


def contents(armature: Any) -> dict[str, Any]:
    """What is to last, nested lists included."""
    settings = armature.poise
    return {
        "effectors": [(e.name, e.bone, e.weight, e.target and e.target.name) for e in settings.effectors],
        "others": [[other.target.name for other in e.others] for e in settings.effectors],
        "stored": [[(b.name, *b.rotation) for b in e.stored] for e in settings.effectors],
        "joints": [(j.name, *j.lower, *j.upper) for j in settings.joints],
        "masses": [(m.name, m.mass) for m in settings.masses],
        "roles": [row.bone for row in settings.roles],
        "iterations": settings.iterations,
    }


def test_all_that_is_added_to_an_override_is_there_again_each_time_it_is_loaded(tmp_path: Path):
    override = linked_without_poise(tmp_path)
    posing.setup_character(override)
    posing.add_effector(override, "neck", kind='ONE_OF')
    posing.store_pose(override, posing.add_effector(override, "spine.002", kind='STAY'))
    posing.own_masses(override, ["head"])
    override.poise.iterations = 77
    wanted = contents(override)
    assert all(wanted.values())
    assert any(wanted["others"]) and any(wanted["stored"])
    override = saved_and_loaded(tmp_path / "shot.blend")
    assert contents(override) == wanted
    override.poise.effectors[1].weight = 0.25
    posing.remove_effector(override, 0)
    wanted = contents(override)
    override = saved_and_loaded(tmp_path / "shot.blend")
    assert contents(override) == wanted
    assert posing.solve_pose(override).reached


def test_limits_alone_last_as_well(tmp_path: Path):
    override = linked_without_poise(tmp_path)
    posing.own_limits(override, "forearm.L").upper = (1.0, 1.1, 1.2)
    override = saved_and_loaded(tmp_path / "shot.blend")
    assert override.poise.joints["forearm.L"].upper[:] == pytest.approx((1.0, 1.1, 1.2))


def test_what_the_linked_file_changes_still_comes_through(tmp_path: Path):
    override = linked_without_poise(tmp_path)
    posing.add_effector(override, "hand.L")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "library.blend"))
    linked: Any = bpy.data.objects["Linked"]
    linked.poise.iterations = 33
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    override = next(obj for obj in bpy.data.objects if obj.override_library)
    assert [entry.name for entry in override.poise.effectors] == ["hand.L"]
    assert override.poise.iterations == 33
