# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors and their targets: what is read, what is refused, and that core sees what Blender shows."""

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Euler, Matrix, Quaternion, Vector

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.dependence import dependence
from blender_ik_addon.scene.effectors.effectors import check_evaluated, read_effectors, world_from_targets
from blender_ik_addon.scene.kinds.frame_data import orientations

from . import builders

AWAY = (0.3, -0.2, 0.4)


def following(target: Any, bone: str = "hand.L", **settings: Any) -> Any:
    """A figure, one bone of which follows the target."""
    armature = builders.humanoid()
    posing.add_effector(armature, bone, target=target)
    for name, value in settings.items():
        setattr(armature.poise.effectors[0], name, value)
    bpy.context.view_layer.update()
    return armature


def target_matrix(armature: Any) -> Any:
    """What is read of the first effector's target."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    check_evaluated(armature, read_effectors(armature), depsgraph)
    return Matrix(world_from_targets(armature, read_effectors(armature), depsgraph)[0].tolist())


def refusal(armature: Any) -> str:
    """The words with which reading is refused."""
    with pytest.raises(IKError) as caught:
        check_evaluated(armature, read_effectors(armature), bpy.context.evaluated_depsgraph_get())
    return str(caught.value)


# Entries


def test_a_target_bone_counts_only_for_an_armature():
    armature = following(builders.empty("goal"), target_bone="left over from another target")
    assert read_effectors(armature)[0].target_bone == ""


# What a target may depend on


def constrained(obj: Any, target: Any, kind: str = 'COPY_LOCATION', bone: str = "") -> Any:
    constraint = obj.constraints.new(kind)
    constraint.target, constraint.subtarget = target, bone
    return constraint


def driven(obj: Any, source: Any, bone: str = "", kind: str = 'TRANSFORMS') -> None:
    driver = obj.driver_add("location", 0).driver
    variable = driver.variables.new()
    variable.type = kind
    variable.targets[0].id, variable.targets[0].bone_target = source, bone
    driver.expression = variable.name


def number_of(data: Any, obj: Any) -> None:
    """Let a property of bones, whatever their pose, drive an object."""
    data["height"] = 1.0
    variable = obj.driver_add("location", 2).driver.variables.new()
    variable.targets[0].id_type, variable.targets[0].id = 'ARMATURE', data
    variable.targets[0].data_path = '["height"]'


def driven_property(rig: Any, path: str, bone: str) -> None:
    variable = rig.driver_add(path).driver.variables.new()
    variable.type = 'TRANSFORMS'
    variable.targets[0].id, variable.targets[0].bone_target = rig, bone


def slider(obj: Any, owner: Any, path: str, prop: str = "height") -> None:
    """Let a custom property of the rig, or of a bone of it, drive an object."""
    owner[prop] = 1.0
    variable = obj.driver_add("location", 2).driver.variables.new()
    variable.targets[0].id, variable.targets[0].data_path = owner.id_data, path


def parented(obj: Any, parent: Any, bone: str = "", kind: str = 'OBJECT') -> Any:
    obj.parent = parent
    obj.parent_type = 'BONE' if bone else kind
    obj.parent_bone = bone
    return obj


def skin(armature: Any) -> Any:
    """A triangle that the armature deforms."""
    mesh = bpy.data.meshes.new("skin")
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    obj = bpy.data.objects.new("skin", mesh)
    bpy.context.scene.collection.objects.link(obj)
    obj.modifiers.new("Armature", 'ARMATURE').object = armature
    return obj


def other_rig(bone_follows: Any = None) -> Any:
    rig = builders.chain(2, name="other")
    if bone_follows is not None:
        constrained(rig.pose.bones["bone.000"], bone_follows, bone="head")
    return rig


DEPENDENT: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "child of the rig, which goes where one of its bones goes": (
        lambda rig, goal: constrained(parented(goal, rig).parent, other_rig(bone_follows=rig)),
        "(parented to 'humanoid', constrained (COPY_LOCATION) to 'other', "
        "constrained (COPY_LOCATION) to 'humanoid')",
    ),
    "child of the rig, which a bone drives": (
        lambda rig, goal: driven(parented(goal, rig).parent, rig, bone="head"),
        "(parented to 'humanoid', driven by 'humanoid')",
    ),
    "child of a vertex of a skin that is a child": (
        lambda rig, goal: parented(goal, parented(skin(rig), rig, kind='ARMATURE'), kind='VERTEX'),
        "(parented to 'skin', parented to 'humanoid')",
    ),
    "child of a bone": (
        lambda rig, goal: parented(goal, rig, bone="head"),
        "(parented to bone 'head' of 'humanoid')",
    ),
    "grandchild": (
        lambda rig, goal: parented(goal, parented(builders.empty("between"), rig, bone="head")),
        "(parented to 'between', parented to bone 'head' of 'humanoid')",
    ),
    "constrained to a bone": (
        lambda rig, goal: constrained(goal, rig, bone="head"),
        "(constrained (COPY_LOCATION) to 'humanoid')",
    ),
    "one of several targets of a constraint": (
        lambda rig, goal: setattr(goal.constraints.new('ARMATURE').targets.new(), "target", rig),
        "(constrained (ARMATURE) to 'humanoid')",
    ),
    "child of what is constrained": (
        lambda rig, goal: constrained(parented(goal, builders.empty("between")).parent, rig, bone="head"),
        "(parented to 'between', constrained (COPY_LOCATION) to 'humanoid')",
    ),
    "driven by a bone": (lambda rig, goal: driven(goal, rig, bone="head"), "(driven by 'humanoid')"),
    "driven by a slider that a bone drives": (
        lambda rig, goal: (slider(goal, rig, '["height"]'), driven_property(rig, '["height"]', bone="head")),
        "(driven by 'humanoid')",
    ),
    "driven by a child": (
        lambda rig, goal: driven(goal, parented(builders.empty("between"), rig, bone="head")),
        "(driven by 'between', parented to bone 'head' of 'humanoid')",
    ),
    "constrained to a rig that follows": (
        lambda rig, goal: constrained(goal, other_rig(bone_follows=rig), bone="bone.001"),
        "(constrained (COPY_LOCATION) to 'other', constrained (COPY_LOCATION) to 'humanoid')",
    ),
    "child of a vertex of the skin": (
        lambda rig, goal: parented(goal, skin(rig), kind='VERTEX'),
        "(parented to 'skin', deformed (ARMATURE) by 'humanoid')",
    ),
    "child of the skin, on which it is wrapped as well": (
        lambda rig, goal: setattr(
            parented(goal, skin(rig)).constraints.new('SHRINKWRAP'), "target", bpy.data.objects["skin"]
        ),
        "(constrained (SHRINKWRAP) to 'skin', deformed (ARMATURE) by 'humanoid')",
    ),
    "wrapped on the skin": (
        lambda rig, goal: setattr(goal.constraints.new('SHRINKWRAP'), "target", skin(rig)),
        "(constrained (SHRINKWRAP) to 'skin', deformed (ARMATURE) by 'humanoid')",
    ),
}


@pytest.mark.parametrize("case", DEPENDENT)
def test_a_target_that_depends_on_its_armature_is_refused_with_the_links(case: str):
    depend, links = DEPENDENT[case]
    goal = builders.empty("goal", AWAY)
    armature = following(goal)
    depend(armature, goal)
    words = refusal(armature)
    assert words.startswith("effector 'hand.L': its target 'goal' depends on the armature that follows it")
    assert links in words
    assert "Break that link" in words


def muted(constraint: Any) -> Any:
    constraint.mute = True
    return constraint


INDEPENDENT: dict[str, Callable[[Any, Any], object]] = {
    "a muted constraint": lambda rig, goal: muted(constrained(goal, rig)),
    "a constraint without influence": lambda rig, goal: setattr(constrained(goal, rig), "influence", 0.0),
    "child of the rig": lambda rig, goal: parented(goal, rig),
    "child of a child of the rig, whose bones follow it": lambda rig, goal: constrained(
        parented(parented(goal, builders.empty("between")).parent, rig).parent.pose.bones["head"], goal
    ),
    "child of the rig, a bone of which it drives": lambda rig, goal: (
        parented(goal, rig),
        driven(rig.pose.bones["head"], goal),
    ),
    "child of the rig, a bone of which follows another in a roundabout way": lambda rig, goal: (
        constrained(parented(goal, rig).parent, builders.empty("place")),
        constrained(rig.pose.bones["hand.R"], parented(builders.empty("between"), rig, bone="head")),
    ),
    "a number that is kept with the bones": lambda rig, goal: number_of(rig.data, goal),
    "a slider of the rig": lambda rig, goal: slider(goal, rig, '["height"]'),
    "a slider of a bone": lambda rig, goal: slider(
        goal, rig.pose.bones["head"], 'pose.bones["head"]["height"]'
    ),
    "child of a skin that is a child: its place is not what the armature deforms": lambda rig, goal: parented(
        goal, parented(skin(rig), rig, kind='ARMATURE')
    ),
    "a driver that is switched off": lambda rig, goal: (
        driven(goal, rig, bone="head"),
        setattr(goal.animation_data.drivers[0], "mute", True),
    ),
    "the armature's parent": lambda rig, goal: parented(rig, goal),
    "a sibling": lambda rig, goal: parented(goal, parented(rig, builders.empty("root")).parent),
    "its place is not what the armature deforms": lambda rig, goal: parented(goal, skin(rig)),
    "another armature, whose bones follow each other": lambda rig, goal: constrained(
        parented(goal, other_rig(), bone="bone.001").parent.pose.bones["bone.001"],
        bpy.data.objects["other"],
        bone="bone.000",
    ),
    "two objects that drive each other": lambda rig, goal: (
        driven(goal, builders.empty("second")),
        driven(bpy.data.objects["second"], goal),
    ),
}


@pytest.mark.parametrize("case", INDEPENDENT)
def test_a_target_may_have(case: str):
    goal = builders.empty("goal", AWAY)
    armature = following(goal)
    INDEPENDENT[case](armature, goal)
    assert dependence(goal, armature) == ()


@pytest.mark.parametrize("channel", ["influence", "mute"])
@pytest.mark.parametrize("how", ["animated", "driven"])
def test_a_constraint_that_is_switched_on_later_counts(channel: str, how: str):
    goal = builders.empty("goal", AWAY)
    armature = following(goal)
    constraint = muted(constrained(goal, armature))
    if how == "animated":
        constraint.keyframe_insert(channel)
    else:
        constraint.driver_add(channel)
    assert dependence(goal, armature) == ("constrained (COPY_LOCATION) to 'humanoid'",)


# Where targets are


def test_a_target_is_where_parents_constraints_and_animation_put_it():
    root: Any = builders.empty("root", (0.0, 0.0, 1.0))
    root.rotation_euler = (0.3, 0.2, -0.4)
    root.scale = (2.0, 2.0, 2.0)
    goal = parented(builders.empty("goal", AWAY), root)
    goal.keyframe_insert("location", frame=1)
    goal.location.x += 1.0
    goal.keyframe_insert("location", frame=11)
    leader = builders.empty("leader", (0.0, 0.0, 5.0))
    constrained(goal, leader).use_x = False
    bpy.context.scene.frame_set(11)
    seen = target_matrix(following(goal))
    along_x = (root.matrix_world @ Vector((AWAY[0] + 1.0, *AWAY[1:]))).x
    np.testing.assert_allclose(seen.translation, (along_x, 0.0, 5.0), atol=1e-6)
    np.testing.assert_allclose(seen.to_quaternion(), root.matrix_world.to_quaternion(), atol=1e-6)


def test_a_target_may_be_a_bone_of_another_armature():
    rig = other_rig()
    rig.location, rig.rotation_euler = AWAY, (0.1, 0.7, 0.2)
    rig.pose.bones["bone.000"].rotation_mode = 'XYZ'
    rig.pose.bones["bone.000"].rotation_euler.x = 0.5
    armature = following(rig, target_bone="bone.001")
    depsgraph = bpy.context.evaluated_depsgraph_get()
    posed = rig.evaluated_get(depsgraph)
    wanted = posed.matrix_world @ posed.pose.bones["bone.001"].matrix
    np.testing.assert_allclose(target_matrix(armature), wanted, atol=1e-6)
    # It goes on to follow the bone when the rig is renamed.
    rig.name = "renamed"
    np.testing.assert_allclose(target_matrix(armature), wanted, atol=1e-6)


def in_collection(obj: Any) -> Any:
    """Move an object into a collection of its own; its layer collection."""
    collection = bpy.data.collections.new("props")
    bpy.context.scene.collection.children.link(collection)
    bpy.context.scene.collection.objects.unlink(obj)
    collection.objects.link(obj)
    return bpy.context.view_layer.layer_collection.children["props"]


@pytest.mark.parametrize("hide", ["object", "collection"])
def test_a_target_that_is_hidden_is_followed(hide: str):
    goal = builders.empty("goal")
    armature = following(goal)
    layer = in_collection(goal)
    if hide == "object":
        goal.hide_set(True)
    else:
        layer.hide_viewport = True
    goal.location = AWAY
    np.testing.assert_allclose(target_matrix(armature).translation, AWAY, atol=1e-6)


def test_a_disabled_target_is_followed_where_blender_needs_it_for_something_that_is_shown():
    goal = builders.empty("goal")
    armature = following(goal)
    parented(builders.empty("child"), goal)
    goal.hide_viewport = True
    goal.location = AWAY
    np.testing.assert_allclose(target_matrix(armature).translation, AWAY, atol=1e-6)


GONE: dict[str, Callable[[Any], object]] = {
    "in another scene": lambda goal: (
        bpy.data.scenes.new("other").collection.objects.link(goal),
        bpy.context.scene.collection.objects.unlink(goal),
    ),
    "disabled": lambda goal: setattr(goal, "hide_viewport", True),
    "in an excluded collection": lambda goal: setattr(in_collection(goal), "exclude", True),
    "disabled, and moved since": lambda goal: (
        setattr(goal, "hide_viewport", True),
        bpy.context.view_layer.update(),
        setattr(goal.location, "x", 3.0),
    ),
    "in a disabled collection": lambda goal: setattr(in_collection(goal).collection, "hide_viewport", True),
}


@pytest.mark.parametrize("case", GONE)
def test_a_target_that_blender_does_not_evaluate_is_refused(case: str):
    goal = builders.empty("goal", AWAY)
    armature = following(goal)
    GONE[case](goal)
    words = refusal(armature)
    assert "effector 'hand.L': its target 'goal' is not evaluated in this view layer" in words
    assert "Enable it there" in words


def depends_by_constraint(target: Any, other: Any) -> None:
    target.constraints.new('COPY_LOCATION').target = other


def depends_by_driver(target: Any, other: Any) -> None:
    variable = target.driver_add("location", 2).driver.variables.new()
    variable.type, variable.targets[0].id = 'TRANSFORMS', other


HANGS_ON: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "parent": (parented, "parented to 'prop'"),
    "constraint": (depends_by_constraint, "constrained (COPY_LOCATION) to 'prop'"),
    "driver": (depends_by_driver, "driven by 'prop'"),
    "constraint of its parent": (
        lambda target, other: (
            parented(target, builders.empty("between")),
            depends_by_constraint(target.parent, other),
        ),
        "parented to 'between', constrained (COPY_LOCATION) to 'prop'",
    ),
}


@pytest.mark.parametrize("case", ["itself", *HANGS_ON])
def test_a_target_is_refused_where_it_or_what_it_depends_on_is_missing_from_its_library(
    case: str, tmp_path: Any
):
    library = tmp_path / "props.blend"
    bpy.data.libraries.write(str(library), {builders.empty("prop", AWAY)})
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    [prop] = builders.link_objects(library, "prop")
    target = prop if case == "itself" else builders.empty("goal")
    if case != "itself":
        HANGS_ON[case][0](target, prop)
    following(target)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    library.rename(tmp_path / "away.blend")
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    words = refusal(bpy.data.objects["humanoid"])
    if case == "itself":
        assert "its target 'prop' is missing from" in words
    else:
        assert "its target 'goal' depends on what is missing from" in words
        assert f"({HANGS_ON[case][1]}). Relink it" in words
    (tmp_path / "away.blend").rename(library)
    bpy.data.libraries[0].reload()
    assert read_effectors(bpy.data.objects["humanoid"])[0].bone == "hand.L"


@pytest.mark.parametrize("case", HANGS_ON)
def test_an_armature_is_refused_where_its_place_depends_on_what_is_missing(case: str, tmp_path: Any):
    library, shot = tmp_path / "props.blend", str(tmp_path / "shot.blend")
    bpy.data.libraries.write(str(library), {builders.empty("prop", AWAY)})
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    HANGS_ON[case][0](following(builders.empty("goal", AWAY)), *builders.link_objects(library, "prop"))
    bpy.ops.wm.save_as_mainfile(filepath=shot)
    library.rename(tmp_path / "away.blend")
    bpy.ops.wm.open_mainfile(filepath=shot)
    for use in (posing.solve_pose, posing.bake, posing.measure, posing.snap_targets):
        with pytest.raises(IKError) as caught:
            use(bpy.data.objects["humanoid"])
        assert "armature 'humanoid' depends on what is missing from" in str(caught.value)
        assert f"({HANGS_ON[case][1]}). Relink it" in str(caught.value)
    (tmp_path / "away.blend").rename(library)
    bpy.data.libraries[0].reload()
    assert posing.solve_pose(bpy.data.objects["humanoid"]).effectors


def test_bones_may_be_constrained_to_what_is_missing(tmp_path: Any):
    """The place of the armature is right; the report says which bones constraints decide."""
    library, shot = tmp_path / "props.blend", str(tmp_path / "shot.blend")
    bpy.data.libraries.write(str(library), {builders.empty("prop", AWAY)})
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    armature = following(builders.empty("goal", AWAY))
    constraint: Any = armature.pose.bones["foot.R"].constraints.new('COPY_ROTATION')
    [constraint.target] = builders.link_objects(library, "prop")
    bpy.ops.wm.save_as_mainfile(filepath=shot)
    library.rename(tmp_path / "away.blend")
    bpy.ops.wm.open_mainfile(filepath=shot)
    assert posing.solve_pose(bpy.data.objects["humanoid"]).effectors


# Orientations


@pytest.mark.parametrize(
    "scale", [(1, 1, 1), (0.01, 0.01, 0.01), (2, 0.5, 30), (-1, 1, 1), (1, -2, 1), (-1, -1, -1), (-3, -3, 1)]
)
def test_an_orientation_is_what_blender_shows(scale: tuple[float, float, float]):
    matrix = Matrix.LocRotScale(AWAY, Euler((0.4, -1.1, 2.0)), scale)
    wanted: Any = matrix.decompose()[1].to_matrix()
    np.testing.assert_allclose(orientations(np.array(matrix)), wanted, atol=1e-6)


def test_the_orientation_of_a_sheared_matrix_is_the_nearest_rotation():
    turn = np.array(Euler((0.4, -1.1, 2.0)).to_matrix(), dtype=np.float64)
    matrix = np.eye(4)
    matrix[:3, :3] = turn @ np.array([[1.0, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = orientations(matrix)
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(found) == pytest.approx(1.0)
    unit = matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)
    best = np.linalg.norm(found - unit)
    for axis in np.eye(3):
        for angle in (-0.02, 0.02):
            nudged = np.array(Quaternion(axis.tolist(), angle).to_matrix()) @ found
            assert np.linalg.norm(nudged - unit) > best
