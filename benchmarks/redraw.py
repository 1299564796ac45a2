# SPDX-License-Identifier: GPL-3.0-or-later
"""What a redraw of the viewport costs with handles, trails and ghosts.

`scripts/window python3 -m benchmarks.redraw`: a figure of 60 bones with ten effectors is animated by keys,
in a real Blender window; 60 frames have trails. The viewport is redrawn with them and without, in turn. Times
are of the processor, in Blender's main thread; the screen is drawn by the processor too, in other threads,
which is not counted.
"""

from pathlib import Path
from statistics import median
from typing import Final

from tests.gui.figure import FIGURE, MODULE, ROOT, SET_UP
from tests.gui.window import Window

ROUNDS: Final = 3
"""How often each is measured, in turn."""

REDRAWS: Final = 10
"""Redraws of which a time is the mean."""

CASES: Final = {
    'NOTHING': "nothing has changed",
    'VIEW': "the view is turned each time",
    'FRAME': "another frame each time",
}
"""What changes before each redraw."""

FIGURE_OF_60: Final = """
with bpy.context.temp_override(**in_view):
    bpy.ops.object.mode_set(mode='EDIT')
    edit = figure().data.edit_bones
    row = 0
    while len(edit) < 60:
        hand = edit["hand.L" if row % 2 else "hand.R"]
        bone = edit.new(f"digit.{row}")
        bone.parent, bone.head, bone.tail = hand, hand.tail, hand.tail + Vector((0.0, 0.002 * row, -0.03))
        row += 1
    bpy.ops.object.mode_set(mode='POSE')
"""

ANIMATED: Final = """
with bpy.context.temp_override(**in_view):
    for name in ("forearm.L", "forearm.R", "shin.L", "shin.R", "spine.003"):
        if len(figure().poise.effectors) < 10:
            bpy.ops.poise.add_effector(bone=name)
for bone in figure().pose.bones:
    bone.rotation_mode = 'XYZ'
    for frame in range(1, 102, 10):
        bone.rotation_euler = [0.1 * math.sin(frame + part) for part in range(3)]
        bone.keyframe_insert("rotation_euler", frame=frame)
scene = bpy.context.scene
scene.frame_end = 101
scene.frame_set(51)
overlay = scene.poise_overlay
overlay.trails = overlay.ghosts = True
overlay.before, overlay.after = 30, 29
"""

MEASURE: Final = """
import time

def redraw(changes, count):
    # Main thread's processor time of one redraw, in milliseconds.
    spent = 0.0
    for number in range(count):
        if changes == 'FRAME':
            scene.frame_set(51 + number % 2)
        elif changes == 'VIEW':
            view.view_rotation = view.view_rotation @ Euler((0.0, 0.01 * (-1) ** number, 0.0)).to_quaternion()
            view.update()
        area.tag_redraw()
        start = time.thread_time()
        bpy.ops.wm.redraw_timer(type='DRAW', iterations=1)
        spent += time.thread_time() - start
    return 1e3 * spent / count

def measured(changes, shown, trails, count):
    overlay.show, overlay.trails, overlay.ghosts = shown, trails, trails
    for _ in range(3):
        with bpy.context.temp_override(**in_view):
            redraw(changes, 2)
            state = sys.modules[f"{MODULE}.ui.trails"]
            while trails and state._fill() is not None:
                pass
    with bpy.context.temp_override(**in_view):
        return redraw(changes, count)
"""


def main() -> None:
    """Measure, and print a table."""
    window = Window(sorted((ROOT / "dist").glob("poise-*.zip"))[-1])
    try:
        window.run("\n".join((FIGURE, FIGURE_OF_60, SET_UP, ANIMATED, MEASURE)))
        window.settle(10)
        count = "[len(figure().pose.bones), len(figure().poise.effectors)]"
        print("bones, effectors:", window.run(value=count))
        for changes, title in CASES.items():
            times: dict[tuple[bool, bool], list[float]] = {}
            for _ in range(ROUNDS):
                for shown, trails in ((False, False), (True, False), (True, True)):
                    value = f"measured({changes!r}, {shown}, {trails}, {REDRAWS})"
                    times.setdefault((shown, trails), []).append(window.run(value=value))
            nothing, handles, all_of_it = (median(own) for own in times.values())
            print(
                f"{title}: {nothing:.2f} ms without, handles +{handles - nothing:.2f} ms, trails and ghosts "
                f"+{all_of_it - handles:.2f} ms"
            )
        state = f"sys.modules[{MODULE!r} + '.ui.trails']._state.shown"
        print("points, bones of ghosts:", window.run(value=f"[len({state}.places), len({state}.ghosts)]"))
    finally:
        window.close()


if __name__ == "__main__":
    assert Path("tests").is_dir(), "run it in the repository"
    main()
