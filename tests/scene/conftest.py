# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender for the scene tests: the add-on is registered once, and every test begins in an empty file."""

from collections.abc import Iterator

import pytest

bpy = pytest.importorskip("bpy")


@pytest.fixture(scope="session", autouse=True)
def addon() -> Iterator[None]:
    """Register the add-on for the session, and always unregister it.

    A handler that is left in `bpy.app.handlers` at exit hangs the bpy module of Blender 4.5.
    """
    import blender_ik_addon

    from . import builders

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
