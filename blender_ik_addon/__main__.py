# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m blender_ik_addon`: the command line, where Blender is a Python module (pip's bpy)."""

import sys


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
        # Blender 4.5 as a module does not exit where a driver that Python evaluates has been read.
        bpy.app.driver_namespace.clear()


def main_or_interrupted() -> int:
    """Run `main`, and end with one sentence if it is interrupted before or after its work."""
    try:
        return main()
    except KeyboardInterrupt:
        print("poise: ERROR: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main_or_interrupted())
