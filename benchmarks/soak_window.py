# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of `benchmarks.soak` in a window, in the installed extension: scripts/soak --in-window."""

import json
import sys
from pathlib import Path

from tests.gui.figure import ROOT, window

ROUNDS = {"live": 1000, "set_up": 40, "enabling": 20}
AT_ONCE = {"live": 10, "set_up": 2, "enabling": 1}
"""Rounds between two turns of Blender's main loop: an answer has to come in time."""

BEGIN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
bpy.ops.preferences.addon_enable(module="rigify")
from benchmarks.soak import Soak
window = bpy.context.window_manager.windows[0]
area = next(area for area in window.screen.areas if area.type == 'VIEW_3D')
region = next(region for region in area.regions if region.type == 'WINDOW')
in_view = dict(window=window, area=area, region=region)
soak = None
"""


def main() -> int:
    """Measure, and write what was measured into a file; what it shows `benchmarks.soak` says."""
    blender = window()
    blender.run(BEGIN)
    found = []
    for name, count in ROUNDS.items():
        blender.run(f"soak = Soak({name!r}, {count})")
        done = 0
        while done < count:
            part = f"with bpy.context.temp_override(**in_view):\n    soak.go_on({AT_ONCE[name]})"
            blender.run(part)
            blender.settle(2)
            done = blender.run(value="len(soak.times)")
        found.append(blender.run(value="soak.found('window')"))
        print(f"{name}: {count} rounds", file=sys.stderr, flush=True)
    told = blender.log().partition("Traceback")
    if told[1]:
        print("".join(told[1:])[:2000], file=sys.stderr)
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
    return 1 if told[1] else 0


if __name__ == "__main__":
    sys.exit(main())
