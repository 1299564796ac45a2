# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m blender_ik_addon`: the command line, where Blender is a Python module (pip's bpy)."""

import sys


def main() -> int:
    """Enable the add-on in this process and do what the command line asks for; its exit code."""
    try:
        import bpy  # noqa: F401
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


def main_or_interrupted() -> int:
    """Do the same, and end in one sentence where it is interrupted before or after its work."""
    try:
        return main()
    except KeyboardInterrupt:
        print("poise: ERROR: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main_or_interrupted())
