# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender for the scene tests: the add-on is registered once, and every test begins in an empty file."""

import os
import sys
from collections.abc import Iterator

import pytest

bpy = pytest.importorskip("bpy")

from . import builders  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def addon() -> Iterator[None]:
    """Register the add-on for the session, and always unregister it.

    A handler that is left in `bpy.app.handlers` at exit hangs the bpy module of Blender 4.5.
    """
    import blender_ik_addon

    blender_ik_addon.register()
    try:
        yield
    finally:
        builders.disable_rigify()
        blender_ik_addon.unregister()


@pytest.fixture(autouse=True)
def empty_file(addon: None) -> None:
    """Begin in an empty file with factory settings (5 ms); the add-on stays registered.

    `read_factory_settings` would do too, but it takes 25 ms and resets the preferences under Rigify's feet.
    """
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)


_status: list[int] = []
"""How the run has ended, once it has."""


def pytest_sessionfinish(exitstatus: int) -> None:
    """Remember how the tests ended."""
    _status[:] = [int(exitstatus)]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End the process here, when all is told, if Rigify has generated a rig in it.

    The bpy module of Blender 4.5 hangs at exit after `bpy.ops.pose.rigify_generate()`, in the destructors of
    its static variables. That is Blender's own fault: it hangs also where Poise has not been imported.
    """
    if _status and builders.generated and bpy.app.version < (5, 0):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status[0])
