# SPDX-License-Identifier: GPL-3.0-or-later
"""The add-on comes and goes without a trace, and tells about everything it adds."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import bpy
import pytest

import blender_ik_addon
from blender_ik_addon import registration
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.properties import settings as properties
from blender_ik_addon.scene.properties.settings import EXTENSION
from blender_ik_addon.ui import drag, feet, operators, overlay, panels, preferences

from . import builders

CLASSES = (
    properties.POISE_PG_effector,
    properties.POISE_PG_armature,
    properties.POISE_PG_action,
    *operators.CLASSES,
    *panels.CLASSES,
    *preferences.CLASSES,
    *overlay.CLASSES,
    *drag.CLASSES,
    *feet.CLASSES,
)


def registered() -> list[str]:
    """The names of our classes that Blender knows."""
    return [cls.__name__ for cls in CLASSES if "bl_rna" in cls.__dict__]


def traces() -> list[str]:
    """What Blender has of ours, whether we know of it or not."""
    found = [name for name in dir(bpy.types) if name.startswith("POISE_")]
    found += [f"bpy.ops.poise.{name}" for name in dir(bpy.ops.poise)]
    found += [
        owner.__name__
        for owner in (bpy.types.Object, bpy.types.Scene, bpy.types.Action)
        if hasattr(owner, "poise")
    ]
    return found + registered()


def handlers() -> dict[str, list[object]]:
    """All that is in bpy.app.handlers now."""
    found = {name: getattr(bpy.app.handlers, name) for name in dir(bpy.app.handlers)}
    return {name: list(entries) for name, entries in found.items() if isinstance(entries, list)}


@pytest.fixture
def unregistered() -> Iterator[None]:
    """Take the add-on away for one test."""
    blender_ik_addon.unregister()
    yield
    blender_ik_addon.register()


def test_everything_is_registered():
    assert registered() == [cls.__name__ for cls in CLASSES]
    assert isinstance(bpy.data.objects.new("any", None).poise, properties.POISE_PG_armature)


@pytest.mark.usefixtures("unregistered")
def test_enabling_and_disabling_three_times_leaves_nothing():
    handlers_before = handlers()
    assert handlers_before
    for _ in range(3):
        blender_ik_addon.register()
        assert registered() == [cls.__name__ for cls in CLASSES]
        blender_ik_addon.unregister()
        assert traces() == []
        assert handlers() == handlers_before


@pytest.mark.usefixtures("unregistered")
def test_settings_survive_disabling():
    obj = bpy.data.objects.new("rig", None)
    blender_ik_addon.register()
    obj.poise.effectors.add().weight = 0.25
    blender_ik_addon.unregister()
    blender_ik_addon.register()
    assert [effector.weight for effector in obj.poise.effectors] == [0.25]
    blender_ik_addon.unregister()


@pytest.mark.usefixtures("unregistered")
@pytest.mark.parametrize(
    "use",
    [
        posing.solve_pose,
        posing.setup_character,
        posing.follow,
        posing.diagnose,
        posing.key_pose,
        posing.recognise_roles,
        lambda rig: posing.bake(rig, [1, 2]),
        lambda rig: posing.add_effector(rig, "hand.L"),
        lambda rig: posing.pin(rig, 0),
        lambda rig: posing.switch_live(rig, True),
        lambda rig: posing.own_limits(rig, "hand.L"),
    ],
)
def test_a_script_that_has_not_registered_it_is_asked_to(use: Callable[[Any], object]):
    armature = builders.humanoid()
    objects = list(bpy.data.objects)
    with pytest.raises(IKError, match=r"'humanoid'.*call blender_ik_addon\.register\(\)"):
        use(armature)
    assert list(bpy.data.objects) == objects
    blender_ik_addon.register()
    assert posing.add_effector(armature, "hand.L") == 0
    assert posing.solve_pose(armature).reached
    blender_ik_addon.unregister()


@pytest.mark.usefixtures("unregistered")
def test_a_module_that_fails_undoes_those_before_it_and_its_error_is_raised(monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []

    def fail() -> None:
        raise RuntimeError("cannot be registered")

    first = SimpleNamespace(
        register=lambda: calls.append("register first"), unregister=lambda: calls.append("unregister first")
    )
    failing = SimpleNamespace(register=fail, unregister=lambda: calls.append("unregister failing"))
    modules = (first, *registration.MODULES, failing)
    monkeypatch.setattr(registration, "MODULES", modules)
    with pytest.raises(RuntimeError, match="cannot be registered"):
        blender_ik_addon.register()
    assert traces() == []
    assert calls == ["register first", "unregister first"]


def test_operators_can_be_undone():
    without = {cls.bl_idname for cls in operators.CLASSES if not {'REGISTER', 'UNDO'} <= cls.bl_options}
    assert without == {"poise.save_preset", "poise.show_report"}  # they change nothing in Blender


def test_the_name_by_which_blender_knows_it_is_that_of_its_package():
    """Preferences and the folder of presets are found by it."""
    assert blender_ik_addon.__name__ == EXTENSION
