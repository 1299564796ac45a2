# SPDX-License-Identifier: GPL-3.0-or-later
"""Trails: their points are dragged and clicked with the mouse."""

import unittest

from .figure import SET_UP, InWindow, distance

FROM_PRESS = 8.0
"""How far the mouse may be from where it was pressed before a drag begins [pixels]."""

ANIMATED = """
for bone in figure().pose.bones:
    bone.rotation_mode = 'XYZ'
for frame, part in ((1, 0.0), (11, 1.0), (21, 0.3)):
    for name, angles in (("upper_arm.L", (-0.9, 0.0, 0.4)), ("forearm.L", (-0.5, 0.0, 0.0))):
        figure().pose.bones[name].rotation_euler = [part * angle for angle in angles]
        figure().pose.bones[name].keyframe_insert("rotation_euler", frame=frame)
    figure().pose.bones["spine"].location = (0.1 * part, 0.0, 0.0)
    figure().pose.bones["spine"].keyframe_insert("location", frame=frame)
bpy.context.scene.frame_set(4)
bpy.context.scene.poise_overlay.trails = bpy.context.scene.poise_overlay.ghosts = True
bpy.ops.ed.undo_push(message="Animated")

def keys():
    found = []
    for action in bpy.data.actions:
        for bag in action.layers[0].strips[0].channelbags:
            for curve in bag.fcurves:
                points = [(*key.co, *key.handle_left, *key.handle_right) for key in curve.keyframe_points]
                found.append([curve.data_path, *(v.hex() for point in points for v in point)])
    return found
"""
"""An arm that is raised, and hips that go aside, by three key poses."""

NAMES = """
def known(name="metarig"):
    state = sys.modules[f"{MODULE}.ui.trails"]._state
    return state.known[bpy.data.objects[name].session_uid]

def trail(bone, name="metarig"):
    return next(own for own in known(name).trails(1, 40) if own.of.bone == bone)

def point(bone, frame, name="metarig"):
    own = trail(bone, name)
    return own.places[own.frames.tolist().index(frame)].tolist()

def seen_bones():
    matrix, pose = posed().matrix_world, posed().pose
    return [(pixel(matrix @ bone.head), pixel(matrix @ bone.tail)) for bone in pose.bones]

def away_from(place, start, end):
    # Between a pixel and a segment.
    way, to = Vector(end) - Vector(start), Vector(place) - Vector(start)
    part = min(1.0, max(0.0, to.dot(way) / max(way.length_squared, 1e-9)))
    return (to - part * way).length

def on_ghost(frame):
    # The middle of the ghost's bone that is farthest from the body and from points of trails.
    shown = sys.modules[f"{MODULE}.ui.trails"]._state.shown
    own = [ends for ends, at in zip(shown.ghosts.tolist(), shown.ghost_frames.tolist()) if at == frame]
    middles = [pixel((Vector(start) + Vector(end)) / 2.0) for start, end in own]
    others = [*seen_bones(), *((pixel(place), pixel(place)) for place in shown.places.tolist())]
    return max(middles, key=lambda middle: min(away_from(middle, *other) for other in others))
"""
"""What is known of the trails."""


class TrailsInWindow(InWindow):
    """The figure is animated by keys, and its trails are shown."""

    def setUp(self) -> None:
        super().setUp()
        self.run_in_blender(ANIMATED + NAMES)
        self.window.settle(4)

    def tearDown(self) -> None:
        if not self.window.is_gone:
            self.window.run(
                "for scene in bpy.data.scenes:\n"
                "    scene.poise_overlay.trails = scene.poise_overlay.ghosts = False"
            )
        super().tearDown()

    def drag_point(self, bone: str, frame: int, offset: tuple[float, float]) -> tuple[float, float]:
        """Press a point of a trail and drag it, without letting go; where the mouse is then."""
        x, y = self.value(f"pixel(point({bone!r}, {frame}))")
        self.window.move((x, y))
        self.window.settle(2)
        self.window.press()
        end = (x + offset[0], y + offset[1])
        self.window.drag((x, y), end, steps=4)
        self.window.settle()
        self.assertEqual(self.value("running()"), ["POISE_OT_drag_trail"])
        return end

    def test_a_dragged_point_is_keyed_and_the_trail_goes_along_in_one_undo_step(self) -> None:
        before = self.value("[bits(), keys(), bpy.context.scene.frame_current]")
        was = self.value("point('hand.L', 15)")
        end = self.drag_point("hand.L", 15, (-25.0, 30.0))
        self.window.release()
        self.wait_while("running()")
        self.window.settle()
        self.assertEqual(self.value("bpy.context.scene.frame_current"), 15)
        self.assertLess(distance(self.value("pixel(place('hand.L'))"), list(end)), FROM_PRESS)
        self.assertLess(distance(self.value("point('hand.L', 15)"), self.value("place('hand.L')")), 1e-5)
        self.assertGreater(distance(self.value("point('hand.L', 15)"), was), 0.03)
        self.assertTrue(self.value("bool(trail('hand.L').keyed[trail('hand.L').frames.tolist().index(15)])"))
        self.window.key("ctrl+z")
        self.window.settle()
        self.assertEqual(self.value("[bits(), keys(), bpy.context.scene.frame_current]"), before)
        self.assertLess(distance(self.value("point('hand.L', 15)"), was), 1e-6)

    def test_escape_puts_back_every_bit_and_a_click_on_a_key_goes_to_its_frame(self) -> None:
        self.run_in_blender(SET_UP)
        for live in (False, True):
            self.run_in_blender(
                f"figure().poise.live = {live}\n"
                "for frame, up in ((1, 0.0), (11, 0.15)) if figure().poise.live else ():\n"
                "    target('hand.L').location.z += up\n"
                "    target('hand.L').keyframe_insert('location', frame=frame)\n"
                "bpy.context.scene.frame_set(4)"
            )
            self.window.settle(4)
            values = "[bits(), keys(), list(target('hand.L').location), bpy.context.scene.frame_current]"
            before = self.value(values)
            self.drag_point("hand.L", 15, (-25.0, 30.0))
            self.assertNotEqual(self.value(values), before)
            self.window.key("Escape")
            self.window.release()
            self.wait_while("running() or underway()")
            self.assertEqual(self.value(values), before)
        self.window.click(self.value("pixel(point('hand.L', 11))"))
        self.assertEqual(self.value("bpy.context.scene.frame_current"), 11)

    def test_a_shift_drag_moves_the_whole_pose_at_that_frame_in_one_undo_step(self) -> None:
        before = self.value("[bits(), keys()]")
        names = ("hand.L", "hand.R", "foot.L", "foot.R")
        was = [self.value(f"[point({name!r}, 15), point({name!r}, 1)]") for name in names]
        self.window.move(self.value("pixel(point('hand.L', 15))"))
        self.window.key("shift", how="keydown")
        end = self.drag_point("hand.L", 15, (-25.0, 30.0))
        self.window.release()
        self.window.key("shift", how="keyup")
        self.wait_while("running()")
        self.window.settle()
        now = [self.value(f"[point({name!r}, 15), point({name!r}, 1)]") for name in names]
        self.assertEqual(self.value("bpy.context.scene.frame_current"), 15)
        self.assertLess(distance(self.value("pixel(point('hand.L', 15))"), list(end)), FROM_PRESS)
        way = [a - b for a, b in zip(now[0][0], was[0][0], strict=True)]
        self.assertGreater(distance(way, [0.0] * 3), 0.05)
        for (there, first), (then, at_first) in zip(now, was, strict=True):
            self.assertLess(distance([a + b for a, b in zip(then, way, strict=True)], there), 1e-4)
            self.assertLess(distance(first, at_first), 1e-4)  # a key that was there stays
        self.window.key("ctrl+z")
        self.window.settle()
        self.assertEqual(self.value("[bits(), keys()]"), before)

    def test_ghosts_of_a_live_body_are_solved_while_nothing_goes_on(self) -> None:
        self.run_in_blender(
            "figure().animation_data_clear()\n" + SET_UP + "hand = target('hand.L')\n"
            "for frame, up in ((1, 0.0), (11, 0.3)):\n"
            "    hand.location.z += up\n"
            "    hand.keyframe_insert('location', frame=frame)\n"
            "figure().poise.live = True\n"
            "bpy.context.scene.frame_set(1)\n"
        )
        self.wait_while("underway()")
        ghosts = "known().ghosts(1, 40, 1, 3)"
        self.wait_while(f"not {ghosts}")
        self.assertEqual(self.value(f"[ghost.frame for ghost in {ghosts}]"), [11])
        self.assertEqual(self.value("bpy.context.scene.frame_current"), 1)
        self.run_in_blender("ghost = known().ghosts(1, 40, 1, 3)[0].bones")
        self.run_in_blender("bpy.context.scene.frame_set(11)")
        self.wait_while("underway()")
        far = "min((Vector(head) - Vector(place('hand.L'))).length for head in ghost[:, 0])"
        self.assertLess(self.value(far), 0.001)

    def test_a_click_on_a_ghost_goes_to_its_frame(self) -> None:
        for frame in (11, 1):
            self.assertNotEqual(self.value("bpy.context.scene.frame_current"), frame)
            self.window.click(self.value(f"on_ghost({frame})"))
            self.assertEqual(self.value("bpy.context.scene.frame_current"), frame)
            self.window.settle(4)

    def test_another_file_may_be_opened_while_a_point_is_dragged(self) -> None:
        path = str(self.window.folder / "trails.blend")
        self.window.run(f"bpy.ops.wm.save_as_mainfile(filepath={path!r})")
        self.drag_point("hand.L", 15, (-25.0, 30.0))
        self.window.run(f"bpy.ops.wm.open_mainfile(filepath={path!r})")
        self.window.settle(6)
        self.window.release()
        self.window.settle(4)
        self.assertEqual(
            self.value("[w.modal_operators[:] for w in bpy.context.window_manager.windows]"), [[]]
        )

    def test_of_two_characters_the_active_one_has_trails_and_the_other_stays(self) -> None:
        self.run_in_blender(
            "with bpy.context.temp_override(**in_view):\n"
            "    bpy.ops.object.mode_set(mode='OBJECT')\n"
            "other = figure().copy()\n"
            "bpy.context.scene.collection.objects.link(other)\n"
            "other.name, other.location.x = 'other', 0.8\n"
            "other.animation_data.action = other.animation_data.action.copy()\n"
            "bpy.context.view_layer.objects.active = other\n"
            "bpy.ops.ed.undo_push(message='Other')"
        )
        self.window.settle(4)
        before = self.value("[bits(), place('hand.L')]")
        x, y = self.value("pixel(point('hand.L', 15, 'other'))")
        self.assertGreater(distance(self.value("point('hand.L', 4, 'other')"), before[1]), 0.5)
        self.window.move((x, y))
        self.window.settle(2)
        self.window.press()
        self.window.drag((x, y), (x + 20.0, y + 25.0), steps=4)
        self.window.release()
        self.wait_while("running()")
        self.run_in_blender("bpy.context.scene.frame_set(4)")
        self.assertEqual(self.value("[bits(), place('hand.L')]"), before)
        self.assertGreater(distance(self.value("pixel(point('hand.L', 15, 'other'))"), [x, y]), 15.0)


if __name__ == "__main__":
    unittest.main()
