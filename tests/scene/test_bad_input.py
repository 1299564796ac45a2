# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs that are not as they should be: a clear answer from each use case, and nothing changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene import posing

from . import builders


def in_edit_mode(armature: Any) -> None:
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='EDIT')


def excluded(armature: Any) -> None:
    collection = bpy.data.collections.new("away")
    bpy.context.scene.collection.children.link(collection)
    collection.objects.link(armature)
    bpy.context.scene.collection.objects.unlink(armature)
    bpy.context.view_layer.layer_collection.children["away"].exclude = True


def without_bones(armature: Any) -> None:
    in_edit_mode(armature)
    for bone in list(armature.data.edit_bones):
        armature.data.edit_bones.remove(bone)
    bpy.ops.object.mode_set(mode='OBJECT')


def with_a_role_twice(armature: Any) -> None:
    posing.recognise_roles(armature)
    armature.poise.roles[1].bone = armature.poise.roles[2].bone


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "edit mode": (in_edit_mode, "in Edit Mode: leave it"),
    "rest position": (
        lambda armature: setattr(armature.data, "pose_position", 'REST'),
        "in rest position: switch it to Pose Position",
    ),
    "uneven scale": (lambda armature: setattr(armature, "scale", (1.0, 2.0, 1.0)), "scale"),
    "no scale": (lambda armature: setattr(armature, "scale", (0.0, 0.0, 0.0)), "scale"),
    "nowhere": (lambda armature: setattr(armature.location, "x", float("nan")), "humanoid"),
    "disabled": (
        lambda armature: setattr(armature, "hide_viewport", True),
        "not evaluated in this view layer",
    ),
    "excluded": (excluded, "not evaluated in this view layer"),
    "no bones": (without_bones, "has no bones: add some"),
    "a role twice": (with_a_role_twice, "a bone has one role"),
}
"""What is wrong, and words of the answer."""


def load(armature: Any, path: Path) -> object:
    path.write_text(
        '{"format": "poise preset", "version": 1, "effectors": [{"bone": {"name": "hand.L"}}],'
        ' "settings": {"iterations": 7}}',
        encoding="utf-8",
    )
    return posing.load_preset(armature, path)


USES: dict[str, Callable[[Any, Path], object]] = {
    "set up": lambda armature, _: posing.setup_character(armature),
    "load": load,
    "mirror": lambda armature, _: posing.mirror(armature),
}


def state(armature: Any) -> object:
    """All that a use case might have changed."""
    poise = armature.poise
    return (
        sorted(obj.name for obj in bpy.data.objects),
        sorted(collection.name for collection in bpy.data.collections),
        [(entry.name, entry.bone, entry.kind) for entry in poise.effectors],
        [(row.bone, row.role) for row in poise.roles],
        [(entry.name, *entry.lower, *entry.upper) for entry in poise.joints],
        poise.iterations,
        [np.array(bone.matrix_basis).tolist() for bone in armature.pose.bones],
        armature.mode,
    )


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_words_and_nothing_changes(case: str, use: str, tmp_path: Path):
    spoil, words = REFUSED[case]
    armature = builders.humanoid()
    spoil(armature)
    bpy.context.view_layer.update()
    before = state(armature)
    with pytest.raises(IKError, match=words):
        USES[use](armature, tmp_path / "preset.json")
    assert state(armature) == before


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("what", [None, "empty"])
def test_what_is_no_armature_is_refused(use: str, what: str | None, tmp_path: Path):
    with pytest.raises(IKError, match="armature"):
        USES[use](what and builders.empty(what), tmp_path / "preset.json")


def test_a_bone_that_is_scaled_to_nothing_is_told_and_the_rest_set_up(armature: Any):
    armature.pose.bones["hand.L"].scale = (0.0, 0.0, 0.0)
    bpy.context.view_layer.update()
    report = posing.setup_character(armature)
    assert "hand.L" not in report.added and "hand.R" in report.added
    assert any("'hand.L'" in note and "scaled to nothing" in note for note in report.notes)
    assert all(entry.target is not None for entry in armature.poise.effectors)


def test_a_target_on_the_rig_that_it_drives_is_told_by_the_next_set_up(armature: Any):
    posing.setup_character(armature)
    target = armature.poise.effectors[0].target
    target.parent, target.parent_type, target.parent_bone = armature, 'BONE', "head"
    report = posing.setup_character(armature)
    assert any("depends on the armature (parented to bone 'head'" in note for note in report.notes)
    with pytest.raises(IKError, match="depends on the armature"):
        posing.solve_pose(armature)


def test_a_child_of_another_rig_does_not_depend_on_the_pose_of_its_bones():
    armature, other = builders.humanoid(), builders.humanoid("other")
    constraint: Any = other.pose.bones["hand.L"].constraints.new('COPY_LOCATION')
    constraint.target, constraint.subtarget = armature, "hand.R"
    effector = armature.poise.effectors[posing.add_effector(armature, "hand.R", kind='POSITION')]
    effector.target.parent = other
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached
    effector.target.parent_type, effector.target.parent_bone = 'BONE', "hand.L"
    with pytest.raises(IKError, match="depends on the armature"):
        posing.solve_pose(armature)


def deleted_with_x(target: Any) -> None:
    """Delete an object as X does: it leaves the scene, and stays in the file while something points to it."""
    name = target.name
    with bpy.context.temp_override(selected_objects=[target]):  # pyright: ignore[reportAttributeAccessIssue]
        bpy.ops.object.delete()
    assert name in bpy.data.objects and not target.users_scene


@pytest.mark.parametrize("remedy", ["set-up", "make targets"])
def test_a_target_that_is_deleted_in_the_viewport_is_missing_everywhere(remedy: str, armature: Any):
    posing.setup_character(armature)
    bpy.context.view_layer.objects.active = armature
    entry = armature.poise.effectors[3]
    name, ghost = entry.name, entry.target
    assert not bpy.ops.poise.make_targets.poll()
    deleted_with_x(ghost)
    with pytest.raises(IKError, match=f"effector '{name}': its target .* is in no scene"):
        posing.solve_pose(armature)
    assert bpy.ops.poise.make_targets.poll()
    if remedy == "set-up":
        assert posing.setup_character(armature).added == (name,)
    else:
        assert bpy.ops.poise.make_targets() == {'FINISHED'}
    assert armature.poise.effectors[2].target not in (None, ghost)
    assert posing.solve_pose(armature).reached
    assert not bpy.ops.poise.make_targets.poll()


def test_a_balance_whose_target_is_deleted_is_over_what_the_body_stands_on(armature: Any):
    posing.setup_character(armature)
    index = posing.add_effector(armature, "hips", kind='BALANCE')
    deleted_with_x(armature.poise.effectors[index].target)
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).effectors[index].position is not None


def test_a_choice_that_is_deleted_in_the_viewport_is_made_anew(armature: Any):
    index = posing.add_effector(armature, "hand.L", kind='ONE_OF')
    bpy.context.view_layer.objects.active = armature
    entry = armature.poise.effectors[index]
    ghost = entry.others[0].target
    deleted_with_x(ghost)
    with pytest.raises(IKError, match="is in no scene"):
        posing.solve_pose(armature)
    bpy.ops.poise.make_targets()
    entry = armature.poise.effectors[index]
    assert len(entry.others) == 1 and entry.others[0].target != ghost
    assert posing.solve_pose(armature).reached


@pytest.mark.parametrize("place", ["another scene", "an instanced collection"])
def test_a_target_that_is_only_elsewhere_is_not_missing(place: str, armature: Any):
    goal = builders.empty("goal", (0.5, -0.3, 1.2))
    posing.add_effector(armature, "hand.L", kind='POSITION', target=goal)
    collection = bpy.data.collections.new("elsewhere")
    collection.objects.link(goal)
    bpy.context.scene.collection.objects.unlink(goal)
    if place == "another scene":
        bpy.data.scenes.new("other").collection.children.link(collection)
        with pytest.raises(IKError, match="is not evaluated in this view layer"):
            posing.solve_pose(armature)
    else:
        builders.empty("instance").instance_collection = collection
        bpy.data.objects["instance"].instance_type = 'COLLECTION'
        bpy.context.view_layer.update()
        assert posing.solve_pose(armature).reached


def test_armatures_that_share_their_bones_are_set_up_each_for_itself(armature: Any):
    twin: Any = bpy.data.objects.new("twin", armature.data)
    bpy.context.scene.collection.objects.link(twin)
    twin.location.x = 3.0
    bpy.context.view_layer.update()
    for rig in (armature, twin):
        posing.setup_character(rig)
    targets = [entry.target for rig in (armature, twin) for entry in rig.poise.effectors]
    assert len(set(targets)) == 14
    hand: Any = twin.poise.effectors["hand.L"].target
    hand.location.x, hand.location.z = hand.location.x - 0.1, hand.location.z - 0.1
    assert posing.solve_pose(twin).reached
    assert all(not bone.rotation_euler.to_quaternion().angle for bone in armature.pose.bones)


def test_names_of_all_sorts_do_no_harm(tmp_path: Path, armature: Any):
    for number, bone in enumerate(armature.data.bones):
        odd = [
            '"quo\'te"',
            "\\back",
            "ünï",
            ".L",
            ".L.L",
            "..",
            "left right",
            "[0]",
            'a"]["b',
            "%s{}",
            "nl\nx",
        ]
        bone.name = odd[number % len(odd)] + str(number)
    posing.setup_character(armature)
    for entry in armature.poise.effectors:
        entry.target.name = f'"]\\{entry.target.name}'
        entry.target.keyframe_insert("location", frame=1)
        entry.keyframe_insert("influence", frame=1)
    assert posing.bake(armature, range(1, 3)).reached
    bpy.context.scene.frame_set(2)
    assert posing.solve_pose(armature).reached
    before = state(armature)
    posing.mirror(armature)
    posing.mirror(armature)
    posing.save_preset(armature, tmp_path / "odd.json")
    report = posing.load_preset(armature, tmp_path / "odd.json")
    assert not report.missing
    assert [entry[:2] for entry in state(armature)[2]] == [entry[:2] for entry in before[2]]  # type: ignore[index]
    assert posing.solve_pose(armature).reached


def test_a_chain_that_others_decide_is_told_by_the_set_up(armature: Any):
    constraint = armature.pose.bones["forearm.L"].constraints.new('COPY_ROTATION')
    constraint.target = builders.empty("other")
    report = posing.setup_character(armature)
    assert any("COPY_ROTATION" in note or "Copy Rotation" in note for note in report.notes), report.notes
    assert any("'forearm.L'" in note for note in report.notes)


@pytest.mark.parametrize(("angle", "wider"), [(-0.6, True), (-0.2, False)])
def test_limits_are_as_wide_as_the_pose_in_which_a_figure_is_found(angle: float, wider: bool, armature: Any):
    """But a knee that is a little over-stretched teaches nothing, which is told."""
    for side, sign in (("L", 1.0), ("R", -1.0)):
        bone = armature.pose.bones[f"shin.{side}"]
        bone.rotation_mode, bone.rotation_euler = 'XYZ', (sign * angle, 0.0, 0.0)
    bpy.context.view_layer.update()
    report = posing.setup_character(armature)
    assert any("limits are wider for" in note and "'shin." in note for note in report.notes) == wider
    assert any("over-stretched" in note and "'shin." in note for note in report.notes) != wider
    before = np.array([bone.matrix for bone in armature.pose.bones])
    assert posing.solve_pose(armature).reached
    after = np.array([bone.matrix for bone in armature.pose.bones])
    shins = [list(armature.pose.bones.keys()).index(f"shin.{side}") for side in "LR"]
    assert not wider or np.abs((after - before)[shins, :3, 3]).max() <= 0.05


wrongly: Any = posing
"""Called with arguments that a type checker refuses."""

TAKES_ARMATURE = sorted(
    name for name in posing.__all__ if name[0].islower() and name not in ("preset_names", "preset_path")
)
"""Functions whose first argument is an armature object, or several."""

FURTHER: dict[str, tuple[Any, ...]] = {
    "add_effector": ("hand.L",),
    "add_floor": (["foot.L"],),
    "hold_prop": (None, [0]),
    "load_preset": (Path("p.json"),),
    "save_preset": (Path("p.json"),),
    "move_effector": (0, 1),
    "own_limits": ("hand.L",),
    "own_masses": (["hand.L"],),
    "prefer_present_pose": (["hand.L"],),
    "remove_choice": (0, 0),
    "keep_orientation": (0, True),
    "set_state": (0, 'PIN'),
    "switch_corrections": (True,),
    "switch_live": (True,),
} | dict.fromkeys(("add_choice", "make_target", "pin", "remove_effector", "store_pose", "unpin"), (0,))
"""What they must be given besides."""


@pytest.mark.parametrize("given", ["humanoid", 3, None, "data"])
@pytest.mark.parametrize("function", TAKES_ARMATURE)
def test_what_is_no_object_is_refused_by_each_function(function: str, given: Any, armature: Any):
    if given == "data":
        given = armature.data
    with pytest.raises(IKError, match=r"object is needed, got|no armature object is given"):
        getattr(wrongly, function)(
            [given] if function == "bake_together" else given, *FURTHER.get(function, ())
        )


TAKES_ROWS: dict[str, Callable[[Any, Any], object]] = {
    "pin": wrongly.pin,
    "remove": wrongly.remove_effector,
    "bend limbs": lambda rig, row: wrongly.bend_limbs(rig, [row]),
    "correct": lambda rig, row: wrongly.correct(rig, [row]),
    "find contacts": lambda rig, row: wrongly.find_contacts(rig, [row]),
    "remove corrections": lambda rig, row: wrongly.remove_corrections(rig, [row]),
    "roll feet": lambda rig, row: wrongly.roll_feet(rig, [row]),
    "snap": lambda rig, row: wrongly.snap_targets(rig, [row]),
    "switch corrections": lambda rig, row: wrongly.switch_corrections(rig, True, [row]),
}


@pytest.mark.parametrize("row", [-1, 7, None, "hand.L", 1.5, float("nan")])
@pytest.mark.parametrize("use", TAKES_ROWS)
def test_a_place_at_which_there_is_no_effector_is_refused(use: str, row: Any, armature: Any):
    wrongly.setup_character(armature)
    before = state(armature)
    with pytest.raises(IKError, match=f"'humanoid' has 7 effectors, there is none at {row!r}"):
        TAKES_ROWS[use](armature, row)
    assert state(armature) == before


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda rig: wrongly.roll_feet(rig, 3), "places in the list, as in .0, 2., got 3"),
        (lambda rig: wrongly.add_floor(rig, 3), "bones are given by their names, got 3"),
        (lambda rig: wrongly.add_floor(rig, ["nope"]), "has no bone 'nope'"),
        (lambda rig: wrongly.remove_limits(rig, [None]), "bones are given by their names, got None"),
        (lambda rig: wrongly.own_limits(rig, 3), "has no bone 3"),
        (lambda rig: wrongly.add_effector(rig, "head", target="Cube"), "an object is needed, got 'Cube'"),
        (lambda rig: wrongly.hold_prop(rig, None, [3]), "an object is needed, got None"),
        (lambda rig: wrongly.correct(rig, ease_in="a"), "ease_in must be above 0, got 'a'"),
        (
            lambda rig: wrongly.lock_contacts(rig, ease=None),
            "ease must be finite and not negative, got None",
        ),
        (lambda rig: wrongly.bake_together(None), "an object is needed, got None"),
        *(
            (lambda rig, own=own: getattr(wrongly, own)(rig, "x"), "a depsgraph is needed, got 'x'")
            for own in ("solve_pose", "follow", "diagnose", "key_pose")
        ),
        *(
            (lambda rig, on=on: wrongly.switch_live(rig, on), f"Live can be True or False, got {on!r}")
            for on in ("x", 3, None)
        ),
        (lambda rig: wrongly.bake(rig, range(1, 3), progress=3), "takes the part done, got 3"),
        (lambda rig: wrongly.bake_together([rig], range(1, 3), progress="x"), "takes the part done, got 'x'"),
        (lambda rig: wrongly.measure(rig, range(1, 3), progress=3), "takes the part done, got 3"),
        *(
            (lambda rig, own=own, path=path: getattr(wrongly, own)(rig, path), f"pathlib.Path, got {path!r}")
            for own in ("save_preset", "load_preset")
            for path in ("p.json", None)
        ),
        (lambda rig: wrongly.preset_names("folder"), "pathlib.Path, got 'folder'"),
        (lambda rig: wrongly.preset_path("name", "folder"), "pathlib.Path, got 'folder'"),
        (lambda rig: wrongly.preset_path(3), "3 is no name for a preset"),
        (lambda rig: wrongly.remove_choice(rig, 0, "x"), "there is none at 'x' to be taken away"),
    ],
)
def test_other_arguments_that_cannot_be_are_refused(use: Any, words: str, armature: Any):
    wrongly.setup_character(armature)
    before = state(armature)
    with pytest.raises(IKError, match=words):
        use(armature)
    assert state(armature) == before
