# SPDX-License-Identifier: GPL-3.0-or-later
"""What is added to a library override lasts, though the character's own file has nothing of Poise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import pytest
from mathutils import Quaternion

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing

from . import builders
from .measured import miss


def linked_without_poise(folder: Path) -> Any:
    """Give the override of a linked figure whose file has never seen Poise."""
    figure = builders.humanoid("Linked")
    library = folder / "library.blend"
    figure.property_unset("poise")  # live mode has asked whether it is live, and that alone leaves a trace
    assert not figure.is_property_set("poise")
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    return overridden(library)


def overridden(library: Path) -> Any:
    """Link the figure from its file, and give its override, active."""
    libraries: Any = bpy.data.libraries
    with libraries.load(str(library), link=True) as (_, wanted):
        wanted.objects = ["Linked"]
    override: Any = bpy.data.objects["Linked"].override_create(remap_local_usages=True)
    override.override_library.is_system_override = False
    bpy.context.scene.collection.objects.link(override)
    bpy.context.view_layer.objects.active = override
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


def test_limits_of_an_older_library_move_once_with_its_rest_pose(tmp_path: Path):
    """The override noted the rest pose, the library did later, and both moved the limits."""
    figure, library = builders.humanoid("Linked"), tmp_path / "library.blend"
    entry = posing.own_limits(figure, "shin.L")
    entry.use_limit, entry.lower = (True, False, False), (-0.1, 0.0, 0.0)
    entry.property_unset("noted_rest")
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    overridden(library)
    saved_and_loaded(tmp_path / "shot.blend")
    bpy.ops.wm.open_mainfile(filepath=str(library))
    figure = bpy.data.objects["Linked"]
    figure.data.update_tag()
    bpy.context.view_layer.update()
    figure.pose.bones["shin.L"].rotation_quaternion = Quaternion((1.0, 0.0, 0.0), 0.7)
    bpy.context.view_layer.objects.active = figure
    bpy.ops.object.mode_set(mode='POSE')
    bpy.ops.pose.armature_apply(selected=False)
    bpy.context.view_layer.update()
    bpy.ops.wm.save_mainfile()
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    shot = next(obj for obj in bpy.data.objects if obj.override_library)
    shot.data.update_tag()
    bpy.context.view_layer.update()
    assert shot.poise.joints["shin.L"].lower[0] == pytest.approx(-0.8, abs=1e-5)


def test_limits_of_what_is_linked_alone_are_refused(tmp_path: Path):
    linked_without_poise(tmp_path)
    linked: Any = next(obj for obj in bpy.data.objects if obj.library is not None)
    for use in (lambda: posing.own_limits(linked, "head"), lambda: posing.remove_limits(linked)):
        with pytest.raises(IKError, match="make a library override of it"):
            use()
    assert not len(linked.poise.joints)


def linked_with_set_up(folder: Path) -> Any:
    """Give the override of a linked figure that has been set up in its own file."""
    figure = builders.humanoid("Linked")
    for bone in ("hand.L", "foot.L", "head"):
        posing.add_effector(figure, bone)
    entries: Any = figure.poise.effectors
    entries[0].kind = 'ONE_OF'
    posing.add_choice(figure, 0)
    entries[2].kind = 'STAY'
    posing.store_pose(figure, 2)
    posing.own_limits(figure, "shin.L")
    posing.own_masses(figure, ["head"])
    posing.recognise_roles(figure)
    path = folder / "library.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    return overridden(path)


THEIRS: dict[str, tuple[Callable[[Any], object], str]] = {
    "effector": (
        lambda o: posing.remove_effector(o, 0),
        "effector 'hand.L' belongs to the library, .*: disable it instead",
    ),
    "place": (lambda o: posing.move_effector(o, 0, 1), "effector 'hand.L' belongs to the library"),
    "first target": (
        lambda o: posing.remove_choice(o, 0, 0),
        "target 0 of effector 'hand.L' belongs to the lib",
    ),
    "second target": (
        lambda o: posing.remove_choice(o, 0, 1),
        "target 1 of effector 'hand.L' belongs to the",
    ),
    "limits": (
        lambda o: (posing.own_limits(o, "shin.R"), posing.remove_limits(o)),
        "the entry for the limits of 'shin.L' belongs to the library",
    ),
    "masses": (
        lambda o: (posing.own_masses(o, ["neck"]), posing.remove_masses(o)),
        "the entry for the mass of 'head' belongs to the library",
    ),
}


@pytest.mark.parametrize("case", THEIRS)
def test_what_belongs_to_the_library_is_not_removed_and_said_to(case: str, tmp_path: Path):
    work, message = THEIRS[case]
    override = linked_with_set_up(tmp_path)
    before = contents(override)
    with pytest.raises(IKError, match=message):
        work(override)
    after = contents(override)
    for name in ("joints", "masses"):  # what was added here before is there still
        assert after[name][: len(before[name])] == before[name]
        before[name] = after[name]
    assert after == before
    override.poise.effectors[0].enabled = False
    assert override.poise.effectors[0].enabled is False


def test_operators_say_what_belongs_to_the_library(tmp_path: Path):
    override = linked_with_set_up(tmp_path)
    override.poise.active_effector = override.poise.active_role = 0
    for use in (bpy.ops.poise.remove_effector, lambda: bpy.ops.poise.edit_roles(action='REMOVE')):
        with pytest.raises(RuntimeError, match="belongs to the library"):
            use()


def test_what_was_added_here_is_moved_and_removed_as_ever(tmp_path: Path):
    override = linked_with_set_up(tmp_path)
    before = contents(override)
    own = posing.add_effector(override, "hand.R", kind='ONE_OF')
    posing.remove_choice(override, own, 1)
    posing.move_effector(override, posing.add_effector(override, "foot.R"), own)
    for _ in range(2):
        posing.remove_effector(override, own)
    posing.own_limits(override, "shin.R")
    assert posing.remove_limits(override, ["shin.R"]) == 1
    posing.own_masses(override, ["neck"])
    assert posing.remove_masses(override, ["neck"]) == 1
    assert contents(override) == before


def test_lists_that_are_written_anew_hold_nothing_twice(tmp_path: Path):
    override = linked_with_set_up(tmp_path)
    roles = [row.bone for row in override.poise.roles]
    stored = [bone.name for bone in override.poise.effectors[2].stored]
    override.pose.bones["head"].rotation_quaternion = (0.8, 0.6, 0.0, 0.0)
    posing.store_pose(override, 2)
    override.poise.roles[0].role = 'NONE'
    posing.recognise_roles(override)
    path = tmp_path / "preset.json"
    posing.save_preset(override, path)
    posing.load_preset(override, path)
    assert [row.bone for row in override.poise.roles] == roles
    assert override.poise.roles[0].role != 'NONE'
    assert [bone.name for bone in override.poise.effectors[2].stored] == stored
    turned = override.poise.effectors[2].stored[stored.index("head")].rotation
    assert turned[:] == pytest.approx((0.8, 0.6, 0.0, 0.0), abs=1e-5)


def test_set_up_disables_what_it_would_remove_but_cannot(tmp_path: Path):
    override = linked_with_set_up(tmp_path)
    override.poise.effectors[1].part = "tentacle"
    report = posing.setup_character(override)
    assert not override.poise.effectors[1].enabled
    assert any("foot.L" in note and "belongs to the library" in note for note in report.notes)
    assert "tentacle" not in report.removed


def test_bones_that_are_missing_from_the_library_are_said_to_be_and_nothing_is_lost_meanwhile(tmp_path: Path):
    override = linked_without_poise(tmp_path)
    posing.setup_character(override)
    wanted, shot, library = contents(override), tmp_path / "shot.blend", tmp_path / "library.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(shot))
    library.rename(tmp_path / "away.blend")
    bpy.ops.wm.open_mainfile(filepath=str(shot))
    override = saved_and_loaded(shot)
    for use in (posing.solve_pose, posing.bake, posing.setup_character):
        with pytest.raises(IKError, match=r"bones are missing from .*library\.blend\. Relink it"):
            use(override)
    (tmp_path / "away.blend").rename(library)
    override = saved_and_loaded(shot)
    assert contents(override) == wanted
    assert posing.solve_pose(override).reached


@pytest.mark.parametrize("case", ["a library is reloaded", "a file is opened", "bones are posed by hand"])
def test_live_solves_again_where_keys_are_replayed_and_follows_bones_that_are_posed(
    case: str, tmp_path: Path
):
    """A target that was moved stays where it is: keys that play again are no posing by hand."""
    armature = linked_without_poise(tmp_path)
    posing.add_effector(armature, "hand.L", kind='POSITION')
    bone = armature.pose.bones["upper_arm.L"]
    bone.rotation_mode = 'XYZ'
    for frame, angle in ((1, 0.0), (20, 0.8)):
        bone.rotation_euler.x = angle
        bone.keyframe_insert("rotation_euler", frame=frame)
    bpy.context.scene.frame_set(10)
    posing.switch_live(armature, True)
    target = armature.poise.effectors[0].target
    target.location.x -= 0.15
    target.location.z += 0.1
    bpy.context.view_layer.update()
    place = target.location.copy()
    assert miss(armature) < 5e-4
    if case == "a library is reloaded":
        bpy.data.libraries[0].reload()
    elif case == "a file is opened":
        armature = saved_and_loaded(tmp_path / "shot.blend")
    else:
        builders.link_objects(tmp_path / "library.blend", "Linked")  # and no key plays again
        bpy.context.view_layer.update()
        armature.pose.bones["upper_arm.L"].rotation_euler.x -= 0.5
    bpy.context.view_layer.update()
    armature = next(obj for obj in bpy.data.objects if obj.override_library and obj.type == 'ARMATURE')
    posing.follow(armature)  # what a timer does where there is a window
    bpy.context.view_layer.update()
    assert armature.poise.live and miss(armature) < 5e-4
    moved = (armature.poise.effectors[0].target.location - place).length
    assert (moved > 0.05) == (case == "bones are posed by hand")
