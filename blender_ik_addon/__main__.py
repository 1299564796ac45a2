# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m blender_ik_addon`: the command line, where Blender is a Python module (pip's bpy)."""

import os
import shutil
import sys
import traceback
from contextlib import suppress


def main() -> int:
    """Enable the add-on in this process and run the command line; returns its exit code."""
    try:
        import bpy
    except ImportError:
        print(
            "poise: ERROR: this Python has no bpy. Use one that has it (pip install bpy), or Blender itself: "
            "blender -b FILE --command poise ...",
            file=sys.stderr,
        )
        return 2
    from . import cli, register, unregister

    register()
    try:
        return cli.run(sys.argv[1:])
    finally:
        unregister()
        shutil.rmtree(bpy.app.tempdir, ignore_errors=True)  # Blender does so at its exit


def main_or_interrupted() -> int:
    """Run `main`, and end with one sentence if it is interrupted before or after its work."""
    try:
        return main()
    except KeyboardInterrupt:
        print("poise: ERROR: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    code = 4  # Poise has failed
    try:
        code = main_or_interrupted()
    except Exception:  # noqa: BLE001 (whatever it is, it is told)
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed
            stream.flush()
    # All is written. What Blender 4.5 as a module does at its own exit waits for ever, more often than not.
    os._exit(code)
