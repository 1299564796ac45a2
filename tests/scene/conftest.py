# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender for the scene tests: the add-on is registered once, and every test begins in an empty file."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # each process has its own preferences and presets
    resources = Path(os.environ.get("BLENDER_USER_RESOURCES") or tempfile.mkdtemp()) / worker
    resources.mkdir(parents=True, exist_ok=True)
    os.environ["BLENDER_USER_RESOURCES"] = str(resources)

bpy = pytest.importorskip("bpy")

from . import builders  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def addon() -> Iterator[None]:
    """Register the add-on for the session, and always unregister it.

    A handler that is left in `bpy.app.handlers` at exit hangs the bpy module of Blender 4.5, and so does a
    driver that Python has evaluated, until the names that drivers know are cleared.
    """
    import blender_ik_addon

    blender_ik_addon.register()
    try:
        yield
    finally:
        builders.disable_rigify()
        blender_ik_addon.unregister()
        bpy.app.driver_namespace.clear()


@pytest.fixture(autouse=True)
def empty_file(addon: None) -> None:
    """Begin in an empty file with factory settings (5 ms); the add-on stays registered.

    `read_factory_settings` would do too, but it takes 25 ms and resets the preferences under Rigify's feet.
    """
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)


@pytest.fixture
def armature() -> Any:
    """The figure at rest, where a file has no other."""
    return builders.humanoid()


@pytest.fixture
def obj() -> Any:
    """An armature of one bone."""
    return builders.chain(1)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Not empty while a tool is to be running that moves things under the mouse."""
    from blender_ik_addon.scene.live import handlers

    running: list[bool] = []
    monkeypatch.setattr(handlers, "tool_is_running", lambda: bool(running))
    return running


@pytest.fixture
def auto_key(empty_file: None) -> Iterator[None]:
    """Switch auto-key on, of all channels: Blender 5.2 begins with those that have keys already."""
    bpy.context.scene.tool_settings.use_keyframe_insert_auto = True
    edit = bpy.context.preferences.edit
    before = edit.use_keyframe_insert_available
    edit.use_keyframe_insert_available = False
    yield
    edit.use_keyframe_insert_available = before


_status: list[int] = []
"""How the run has ended, once it has."""


def pytest_sessionfinish(exitstatus: int) -> None:
    """Remember how the tests ended."""
    _status[:] = [int(exitstatus)]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End the process here, when all is told, in Blender 4.5.

    Its bpy module hangs at exit, also where Poise has not been imported: more often the more Python has
    loaded, and always after `bpy.ops.pose.rigify_generate()`. Its sound thread has not been ended, and the
    destructor of a static variable waits for it. What else may hang the clock in tests/conftest.py ends.
    """
    if _status and bpy.app.version < (5, 0):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status[0])
