# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets: there and back, on another character, with bones missing, and with files that are broken."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature import limits
from blender_ik_addon.scene.character import preset_files, presets
from blender_ik_addon.scene.properties.settings import KIND_ITEMS, plain

from . import builders

NAMES = {
    "hips": "Pelvis",
    "upper_arm": "UpArm",
    "forearm": "LoArm",
    "hand": "Hand",
    "thigh": "UpLeg",
    "shin": "Leg",
    "foot": "Foot",
}
"""Of another character, where it has other ones."""


def state(armature: bpy.types.Object) -> dict[str, Any]:
    """What a preset holds."""
    poise = armature.poise
    return {
        "settings": {name: plain(getattr(poise, name)) for name in presets.SETTINGS},
        "effectors": {
            effector.part: [effector.bone, effector.kind, effector.priority, round(effector.weight, 5)]
            + [round(value, 5) for value in effector.point]
            for effector in poise.effectors
        },
        "joints": {
            entry.name: [
                *np.round([*entry.lower, *entry.upper, *entry.stiffness, *entry.preferred], 4).tolist(),
                *(entry.order, entry.is_held, entry.may_move, list(entry.use_limit)),
            ]
            for entry in poise.joints
        },
    }


def set_up() -> bpy.types.Object:
    armature = builders.humanoid()
    posing.setup_character(armature, poles=True)
    armature.poise.tolerance_position = 0.002
    armature.poise.effectors[3].weight = 2.5
    armature.poise.effectors[3].point = (0.0, 0.05, 0.0)
    entry: Any = limits.joint_entries(armature)["forearm.L"]
    entry.upper[0] = 1.25
    entry.stiffness[2] = 0.35
    return armature


def other_character() -> bpy.types.Object:
    """The same body with other names and rolls, and no right hand."""
    armature = builders.humanoid("other")
    bpy.ops.object.mode_set(mode='EDIT')
    edit_bones = armature.data.edit_bones
    edit_bones.remove(edit_bones["hand.R"])
    edit_bones["forearm.L"].roll += np.pi
    bpy.ops.object.mode_set(mode='OBJECT')
    for bone in armature.data.bones:
        stem, dot, side = bone.name.partition(".")
        bone.name = NAMES.get(stem, stem) + dot + side
    return armature


def test_there_and_back_is_the_same(tmp_path: Path):
    armature = set_up()
    before = state(armature)
    path = posing.preset_path("My hero", tmp_path)
    saved = posing.save_preset(armature, path)
    assert len(saved.effectors) == len(armature.poise.effectors)
    assert posing.preset_names(tmp_path) == ("My hero",)
    armature.poise.effectors.clear()
    armature.poise.joints.clear()
    armature.poise.tolerance_position = 0.01
    loaded = posing.load_preset(armature, path)
    assert not loaded.missing and not loaded.notes
    assert state(armature) == before
    objects = len(bpy.data.objects)
    posing.load_preset(armature, path)  # what is there is set, not made again
    assert state(armature) == before and len(bpy.data.objects) == objects
    assert posing.solve_pose(armature).effectors


def test_targets_of_a_preset_are_shown_and_go_along_as_those_of_set_up(tmp_path: Path):
    posing.save_preset(set_up(), tmp_path / "preset.json")
    loaded, made = builders.humanoid("loaded"), builders.humanoid("made")
    posing.load_preset(loaded, tmp_path / "preset.json")
    posing.setup_character(made, poles=True)

    def shown(armature: Any) -> dict[str, Any]:
        rows = ((entry.part, entry.target) for entry in armature.poise.effectors)
        return {
            part: (own.empty_display_type, own.empty_display_size, tuple(own.color), own.parent == armature)
            for part, own in rows
        }

    assert shown(loaded) == shown(made)
    assert not posing.staying_behind(loaded)


def test_another_character_gets_it_by_roles_and_its_own_axes(tmp_path: Path):
    path = tmp_path / "preset.json"
    first = set_up()
    posing.save_preset(first, path)
    other = other_character()
    report = posing.load_preset(other, path)
    bones = {effector.part: effector.bone for effector in other.poise.effectors}
    assert bones["hand.L"] == "Hand.L" and bones["hips"] == "Pelvis" and bones["knee.L"] == "Leg.L"
    assert any("right hand" in missing for missing in report.missing)
    theirs, ours = limits.joint_entries(first)["forearm.L"], limits.joint_entries(other)["LoArm.L"]
    # Rolled by half a turn: x and z turn the other way round, y as it did.
    np.testing.assert_allclose(ours.lower[0], -theirs.upper[0], atol=1e-4)
    np.testing.assert_allclose(ours.upper[0], -theirs.lower[0], atol=1e-4)
    np.testing.assert_allclose(ours.lower[1], theirs.lower[1], atol=1e-4)
    np.testing.assert_allclose(ours.stiffness, theirs.stiffness, atol=1e-6)


def broken(change: Any) -> Any:
    data: dict[str, Any] = {
        "format": "poise preset",
        "version": 1,
        "settings": {"method": "PRIORITY"},
        "effectors": [{"bone": {"name": "hand.L"}, "kind": "BOTH", "weight": 1.0}],
        "joints": [{"bone": {"name": "hand.L"}, "lower": [0, 0, 0], "upper": [1, 1, 1]}],
    }
    change(data)
    return data


def store(data: Any, **own: Any) -> None:
    """Let the effector have a stored pose of one bone, with something wrong."""
    one = {"bone": {"name": "hips"}, "location": [0.0] * 3, "rotation": [1.0, 0.0, 0.0, 0.0]}
    data["effectors"][0] |= {"kind": "STAY", "stored": [one | {"axes": np.eye(3).tolist()} | own]}


BROKEN: dict[str, Any] = {
    "format": lambda d: d.update(format="something"),
    "version": lambda d: d.update(version=2),
    "version is": lambda d: d.update(version="1"),
    "settings are": lambda d: d.update(settings=[]),
    "settings.method": lambda d: d["settings"].update(method="MAGIC"),
    "settings.iterations": lambda d: d["settings"].update(iterations=2.5),
    "effectors are": lambda d: d.update(effectors={}),
    r"effectors\[0\] is": lambda d: d.update(effectors=[3]),
    r"effectors\[0\].bone": lambda d: d["effectors"][0].pop("bone"),
    r"effectors\[0\].kind": lambda d: d["effectors"][0].update(kind="WISH"),
    r"effectors\[0\].weight": lambda d: d["effectors"][0].update(weight="much"),
    r"effectors\[0\].position_axes": lambda d: d["effectors"][0].update(position_axes=[True]),
    r"effectors\[0\].point": lambda d: d["effectors"][0].update(point=[0, 0, "x"]),
    r"joints\[0\].lower": lambda d: d["joints"][0].update(lower=[1, 2]),
    r"joints\[0\].upper": lambda d: d["joints"][0].update(upper=[1e999, 0, 0]),
    "above": lambda d: d["joints"][0].update(lower=[3, 0, 0]),
    r"joints\[0\].stiffness": lambda d: d["joints"][0].update(stiffness=[2, 0, 0]),
    r"joints\[0\].order": lambda d: d["joints"][0].update(order="XXX"),
    r"joints\[0\].axes": lambda d: d["joints"][0].update(axes=[[1, 0, 0]]),
    r"effectors\[0\].others cannot be -1": lambda d: d["effectors"][0].update(others=-1),
    r"effectors\[0\].others cannot be 1.5": lambda d: d["effectors"][0].update(others=1.5),
    r"effectors\[0\].choice cannot be 3": lambda d: d["effectors"][0].update(choice=3),
    r"effectors\[0\].weight cannot be nan": lambda d: d["effectors"][0].update(weight=float("nan")),
    r"effectors\[0\].height cannot be inf": lambda d: d["effectors"][0].update(height=float("inf")),
    "does not say which bone": lambda d: store(d, bone="hips"),
    "axes are not three times three numbers": lambda d: store(d, axes=[[1.0, 0.0, 0.0]]),
    r"effectors\[0\]\.stored\[0\].location is": lambda d: store(d, location=[0.0, "up", 0.0]),
    r"stored\[0\].location cannot be": lambda d: store(d, location=[0.0, 0.0, 1e300]),
    "wanted a quaternion": lambda d: store(d, rotation=[0.0, 0.0, 0.0, 0.0]),
    r"stored\[0\].rotation cannot be \[": lambda d: store(d, rotation=[1.0, 0.0, 0.0]),
    r"stored\[0\].rotation cannot be None": lambda d: store(d, rotation=None),
    r"effectors\[0\].sole is": lambda d: d["effectors"][0].update(sole=[]),
    r"effectors\[0\].sole.heel_point": lambda d: d["effectors"][0].update(sole={"heel_point": [1, 2]}),
    r"effectors\[0\].sole.toe_bone": lambda d: d["effectors"][0].update(sole={"toe_bone": "toe.L"}),
    "size .*-1": lambda d: d.update(size=-1.0),
    "size .*big": lambda d: d.update(size="big"),
    r"masses\[0\].mass is negative": lambda d: d.update(masses=[{"bone": {"name": "head"}, "mass": -2.0}]),
    r"masses\[0\].mass ": lambda d: d.update(masses=[{"bone": {"name": "head"}, "mass": None}]),
}


def test_broken_files_are_refused_and_nothing_changes(tmp_path: Path, armature: Any):
    path = tmp_path / "preset.json"
    for words, change in BROKEN.items():
        path.write_text(json.dumps(broken(change)))
        with pytest.raises(IKError, match=words):
            posing.load_preset(armature, path)
    for text in ("", "{", "[1]", "null", "[" * 100_000, '{"format": "poise preset"}'):
        path.write_text(text)
        with pytest.raises(IKError, match="preset"):
            posing.load_preset(armature, path)
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(IKError, match="broken"):
        posing.load_preset(armature, path)
    with pytest.raises(IKError, match="cannot be read"):
        posing.load_preset(armature, tmp_path / "nothing.json")
    assert not armature.poise.effectors and not armature.poise.joints
    path.write_text(json.dumps(broken(lambda data: data.update(later="field"))))
    assert posing.load_preset(armature, path).bones == ("hand.L",)


ODD: tuple[Any, ...] = (None, 10**400, float("nan"), "\ud800", [], {})
"""What nobody expects at any place of a file."""


LOOKED_FOR = {"role", "side", "figure", "number"}
"""What says which bone is meant: one that is not here is told and left out."""


def places_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Places of a file, as what holds them and their key there; of lists the first."""
    if isinstance(node, (dict, list)):
        for key in list(node) if isinstance(node, dict) else range(len(node[:1])):
            yield node, key
            yield from places_in(node[key])


def test_whatever_stands_anywhere_in_a_file_it_is_refused_in_words_or_read(tmp_path: Path, armature: Any):
    posing.setup_character(armature)
    posing.own_masses(armature, ["head"])
    index = posing.add_effector(armature, "hips", kind='STAY')
    armature.poise.effectors[index].stay = 'STORED'
    posing.store_pose(armature, index)
    path = tmp_path / "preset.json"
    posing.save_preset(armature, path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["effectors"], data["joints"] = data["effectors"][-1:], data["joints"][:1]
    del data["effectors"][0]["stored"][1:]
    read: set[tuple[str | int, str]] = set()
    for holder, key in list(places_in(data)):
        was = holder[key]
        for odd in ODD:
            holder[key] = odd
            path.write_text(json.dumps(data), encoding="utf-8")
            try:
                preset_files.read_preset(path)
                read.add((key, repr(odd)))
            except IKError as error:
                assert "preset.json" in str(error)
        holder[key] = was
    assert not [place for place in read if place[1] == repr("\ud800")]
    assert not [key for key, odd in read if odd == "nan" and key not in LOOKED_FOR]
    path.write_text(" " * (preset_files.MOST_BYTES + 1), encoding="utf-8")
    with pytest.raises(IKError, match=r"^preset 'preset.json' is not read: it is larger than 8 MB"):
        preset_files.read_preset(path)


def test_names_of_presets_are_names_of_files(tmp_path: Path):
    for name in ("", "../secret", "a/b", ".hidden", "a:b"):
        with pytest.raises(IKError, match="no name"):
            posing.preset_path(name, tmp_path)
    assert posing.preset_names(tmp_path / "nowhere") == ()


def test_operators_save_and_load_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preset_files, "preset_folder", lambda **_: tmp_path)
    armature = set_up()
    before = state(armature)
    assert bpy.ops.poise.save_preset('EXEC_DEFAULT', name="Hero") == {'FINISHED'}
    armature.poise.effectors.clear()
    assert bpy.ops.poise.load_preset(name="Hero") == {'FINISHED'}
    assert state(armature) == before
    with pytest.raises(RuntimeError, match="Nobody"):
        bpy.ops.poise.load_preset(name="Nobody")


@pytest.mark.parametrize("what", preset_files.LISTS)
def test_a_file_with_more_than_anybody_has_is_refused_and_none_is_written(what: str, tmp_path: Path):
    armature = set_up()
    posing.own_masses(armature, ["head"])
    path = tmp_path / "many.json"
    posing.save_preset(armature, path)
    data = json.loads(path.read_text(encoding="utf-8"))
    most = preset_files.MOST_RECORDS[what]
    data[what] = data[what][:1] * (most + 1)
    path.write_text(json.dumps(data), encoding="utf-8")
    before = state(armature)
    with pytest.raises(IKError, match=rf"not read: it has {most + 1} {what}, there may be {most}"):
        posing.load_preset(armature, path)
    assert state(armature) == before
    other = tmp_path / "other.json"
    with pytest.raises(IKError, match=rf"not written: it has {most + 1} {what}, there may be {most}"):
        preset_files.write_preset(other, data)
    assert not other.exists()


@pytest.mark.parametrize(
    "name",
    ["con", "NUL", "Aux.old", "com1", "LPT9", "COM\u00b2", "conin$", "x.", "what?", "a:b", ".hidden", " "],
)
def test_names_that_a_file_cannot_have_on_every_system_are_refused(name: str, tmp_path: Path):
    with pytest.raises(IKError, match="is no name for a preset"):
        preset_files.preset_path(name, tmp_path)


@pytest.mark.parametrize("name", ["console", "Null", "com", "com12", "v1.2", "Hero "])
def test_names_that_only_look_like_these_are_taken(name: str, tmp_path: Path):
    assert preset_files.preset_path(name, tmp_path).name == f"{name.strip()}.json"


def test_the_folder_is_the_users():
    assert "presets" in preset_files.preset_folder().parts


@pytest.mark.parametrize("seed", range(4))
def test_random_settings_come_back_to_the_bit_in_all_kinds(seed: int, tmp_path: Path):
    rng = np.random.default_rng(seed)
    armature = builders.humanoid()
    bones = {'POLE': "forearm.L"}
    for number, (kind, *_) in enumerate(KIND_ITEMS):
        posing.add_effector(armature, bones.get(kind, "hand.L" if number % 2 else "foot.R"), kind=kind)
    posing.add_choice(armature, [kind for kind, *_ in KIND_ITEMS].index('ONE_OF'))
    armature.pose.bones["shin.R"].rotation_quaternion = (0.9, 0.3, -0.3, 0.1)
    armature.pose.bones["hand.L"].rotation_quaternion = (0.8, -0.2, 0.3, 0.4)
    posing.store_pose(armature, [kind for kind, *_ in KIND_ITEMS].index('STAY'))
    scramble(armature.poise, preset_files.SETTINGS, rng)
    for entry in armature.poise.effectors:  # only feet that are recognised roll, see test_feet.py
        kept = {"kind", "part", "rolls"}
        scramble(entry, [name for name in preset_files.EFFECTOR_FIELDS if name not in kept], rng)
    for bone in ("hand.L", "shin.R", "neck"):
        scramble(limits.own_limits(armature, bone), ("use_limit", "stiffness", "is_held", "may_move"), rng)
    posing.own_masses(armature, ["head"])
    first = posing.save_preset(armature, tmp_path / "first.json")
    other = builders.humanoid("twin")
    report = posing.load_preset(other, tmp_path / "first.json")
    assert not report.missing and not report.notes
    assert report.effectors == first.effectors
    posing.save_preset(other, tmp_path / "second.json")
    assert as_read(tmp_path / "second.json") == as_read(tmp_path / "first.json")


def as_read(path: Path) -> Any:
    """A preset with angles rounded to what single precision keeps where limits are turned."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for joint in data["joints"]:
        for name in ("lower", "upper", "stiffness", "preferred"):
            joint[name] = [None if value is None else round(value, 5) + 0.0 for value in joint[name]]
    for stored in (stored for effector in data["effectors"] for stored in effector.get("stored", [])):
        for name in ("location", "rotation"):
            stored[name] = [round(value, 6) + 0.0 for value in stored[name]]
    return data


def storing() -> Any:
    """A figure of which one effector stays near a stored pose of the arm, of which the hips are part."""
    armature = builders.humanoid()
    armature.pose.bones["forearm.L"].rotation_quaternion = (0.8, 0.36, 0.0, 0.48)
    armature.pose.bones["hips"].location = (0.1, 0.2, -0.3)
    index = posing.add_effector(armature, "hips", kind='STAY')
    posing.store_pose(armature, index)
    return armature


def stored(armature: Any) -> dict[str, Any]:
    """The stored pose of the first effector: location and rotation of each bone."""
    entry = armature.poise.effectors[0]
    return {bone.name: np.array([*bone.location, *bone.rotation]) for bone in entry.stored}


def test_a_stored_pose_goes_to_another_character_by_roles_and_its_own_axes(tmp_path: Path):
    armature = storing()
    posing.save_preset(armature, tmp_path / "stay.json")
    twin = builders.humanoid("twin")
    twin.scale = (2.0, 2.0, 2.0)  # locations of bones are in the armature's own units
    bpy.context.view_layer.update()
    assert not posing.load_preset(twin, tmp_path / "stay.json").notes
    for bone, values in stored(armature).items():
        np.testing.assert_allclose(stored(twin)[bone], values, atol=1e-6)
    other = other_character()
    report = posing.load_preset(other, tmp_path / "stay.json")
    assert not report.notes and [name.split(" (")[0] for name in report.missing] == ["right hand"]
    assert other.poise.effectors[0].stay == 'STORED'
    w, x, y, z = stored(armature)["forearm.L"][3:]
    # Its forearm is rolled by half a turn: X and Z of its own point the other way.
    np.testing.assert_allclose(stored(other)["LoArm.L"][3:], (w, -x, y, -z), atol=1e-6)
    posing.add_effector(other, "head", kind='POSITION')
    assert posing.solve_pose(other).effectors[1].reached


def test_without_a_stored_pose_the_rest_pose_is_taken_and_told(tmp_path: Path):
    path = tmp_path / "stay.json"
    posing.save_preset(storing(), path)
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["effectors"][0]["stored"]  # as earlier versions wrote it
    path.write_text(json.dumps(data), encoding="utf-8")
    other = builders.humanoid("other")
    report = posing.load_preset(other, path)
    assert any("stays near the rest pose" in note for note in report.notes)
    assert other.poise.effectors[0].stay == 'REST'
    posing.add_effector(other, "head", kind='POSITION')
    assert posing.solve_pose(other).effectors[1].reached
    owner = storing()  # whoever has a stored pose keeps it
    before = stored(owner)
    assert not posing.load_preset(owner, path).notes
    assert {name: values.tolist() for name, values in stored(owner).items()} == {
        name: values.tolist() for name, values in before.items()
    }


def test_a_name_that_is_taken_is_numbered(tmp_path: Path, armature: Any):
    posing.add_effector(armature, "hand.R")
    posing.save_preset(armature, tmp_path / "hand.json")
    other = builders.humanoid("other")
    posing.add_effector(other, "hand.R", kind='AIM')
    for _ in range(2):
        posing.load_preset(other, tmp_path / "hand.json")
        assert [entry.name for entry in other.poise.effectors] == ["hand.R", "hand.R.001"]


def scramble(owner: Any, names: Any, rng: np.random.Generator) -> None:
    """Set properties to anything that they can be."""
    for name in names:
        prop = owner.bl_rna.properties[name]
        if prop.type == 'ENUM':
            setattr(owner, name, rng.choice([item.identifier for item in prop.enum_items]))
        elif prop.type == 'STRING':
            setattr(owner, name, f"näme {rng.integers(10**6)} \"' \\")
        else:
            size = prop.array_length if prop.is_array else 1
            low = max(prop.hard_min, -1e6) if prop.type != 'BOOLEAN' else 0
            high = min(prop.hard_max, 1e6) if prop.type != 'BOOLEAN' else 1
            values = rng.uniform(low, high, size=size)
            kinds = {'BOOLEAN': lambda value: bool(value > 0.5), 'INT': int, 'FLOAT': float}
            made = [kinds[prop.type](value) for value in values]
            setattr(owner, name, made if prop.is_array else made[0])


def test_lengths_are_those_of_the_size_of_the_figure(tmp_path: Path, armature: Any):
    posing.add_effector(armature, "foot.L", kind='FLOOR')
    armature.poise.effectors[0].height = 0.02
    posing.save_preset(armature, tmp_path / "sole.json")
    giant = builders.humanoid("giant")
    giant.scale = (10.0, 10.0, 10.0)
    bpy.context.view_layer.update()
    posing.load_preset(giant, tmp_path / "sole.json")
    assert giant.poise.effectors[0].height == pytest.approx(0.2, rel=1e-5)


def test_what_a_preset_pins_is_held_where_its_bone_is(tmp_path: Path, armature: Any):
    posing.setup_character(armature)
    posing.save_preset(armature, tmp_path / "feet.json")
    other: Any = builders.humanoid("other")
    row = posing.add_effector(other, "foot.L")  # which reaches, after it was pinned somewhere else
    posing.pin(other, row)
    posing.unpin(other, row)
    for side in "LR":
        other.pose.bones[f"thigh.{side}"].rotation_mode = 'XYZ'
        other.pose.bones[f"thigh.{side}"].rotation_euler.x = 0.4
    bpy.context.view_layer.update()
    posing.snap_targets(other)
    before = {name: np.array(other.pose.bones[name].matrix) for name in ("foot.L", "foot.R")}
    assert not posing.load_preset(other, tmp_path / "feet.json").notes
    assert posing.solve_pose(other).reached
    for entry in other.poise.effectors:
        assert entry.target is not None
        if entry.part in before:
            assert entry.state == 'PIN'
            np.testing.assert_allclose(other.pose.bones[entry.bone].matrix, before[entry.part], atol=2e-4)


def test_an_effector_that_cannot_be_here_is_told_and_the_rest_is_loaded(tmp_path: Path, armature: Any):
    posing.add_effector(armature, "forearm.L", kind='POLE')
    posing.add_effector(armature, "hand.R")
    posing.save_preset(armature, tmp_path / "poles.json")
    text = (tmp_path / "poles.json").read_text(encoding="utf-8")
    data = json.loads(text)
    data["effectors"][0]["bone"] = {"name": "head"}
    (tmp_path / "poles.json").write_text(json.dumps(data), encoding="utf-8")
    other = builders.humanoid("other")
    report = posing.load_preset(other, tmp_path / "poles.json")
    assert report.effectors == ("hand.R",)
    assert any("has no child" in note for note in report.notes)
