# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the add-on in a real Blender window, for the manual: `scripts/window --pictures [options]`.

    python3 -m scripts.window_pictures [--output FOLDER] [--only NAME]...

The window is that of the tests (`tests/gui`), with the built extension installed and a mouse that is moved.
Each picture has one of its own and begins with the figure made anew. Needs Pillow to take the screen.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageDraw, ImageFont, ImageGrab

from tests.gui.figure import FIGURE, IN_VIEW, MODULE, ROOT, SET_UP, button
from tests.gui.window import Window

SIZE: Final = (1280, 900)
"""Of the window [pixels]."""

TALL: Final = (1280, 1560)
"""Of the window for pictures of the sidebar [pixels]."""

FILM_COLOURS: Final = 128
"""Of a film's palette; one for all frames, so that what stands still costs nothing."""

MARKS: Final = ((38, 217, 77), (255, 51, 31), (255, 191, 26), (255, 89, 191), (77, 179, 255), (255, 255, 255))
"""Colours of the overlay that a film shows as they are, red, green, blue [0 to 255]."""

FRAME_SECONDS: Final = 0.06
"""How long a frame of the film is shown [s]."""

REST_SECONDS: Final = 0.9
"""How long its last frame is [s]."""

FILM: Final = (
    ("spine", ((0.0, -120.0), (70.0, -95.0), (-70.0, -60.0), (0.0, -40.0))),
    ("hand.L", ((35.0, 120.0), (90.0, -60.0), (0.0, 40.0))),
)
"""Bones that are dragged in the film, and by how much from where they are grabbed [pixels]."""

POSE: Final = (
    ("hips", ((0.0, -75.0), (50.0, -60.0), (-50.0, -45.0), (0.0, -30.0))),
    ("hand.L", ((-30.0, 110.0), (-110.0, 60.0), (-40.0, 40.0))),
)
"""Handles that are dragged in a film, and by how much from where they are [pixels]."""

POSE_STEPS: Final = 8
"""Frames from one of these places to the next."""

FILM_STEPS: Final = 11
"""Frames from one of these places to the next."""

PANELS: Final = (
    "Bake",
    "Recorded Motion",
    "Presets and Mirror",
    "Overlay",
    "Roles",
    "Limits",
    "Advanced",
    "Masses",
    "Diagnosis",
    "Solver",
)
"""What is below the panel Effectors, the last ones in Advanced; Bake is open at first, all others closed."""

HEADER: Final = 26.2
"""From one header of the sidebar to the next [pixels]."""

FIRST_ROW: Final = 26.0
"""From where a button beside the first row of the list is found up to the header of its panel [pixels]."""

Place = tuple[float, float]
"""In the window, with the origin at the lower left [pixels]."""

Drag = Iterable[Place]
"""Places to which something is dragged, from where it is grabbed [pixels]."""

STAGE: Final = """
space = area.spaces.active
bpy.context.scene.poise_overlay.balance = False
space.show_region_toolbar = space.show_gizmo = False
space.overlay.show_text = space.overlay.show_cursor = False
space.overlay.show_relationship_lines = False
view.view_rotation = Euler((math.radians(82.0), 0.0, math.radians(-32.0))).to_quaternion()
view.view_location, view.view_distance = (0.0, -0.1, 0.92), 3.3
"""

CROUCH: Final = """
for name, offset in {
    "foot.L": (0.05, -0.30, 0.0), "hips": (0.02, -0.16, -0.14), "hand.L": (-0.18, -0.55, 0.10),
    "hand.R": (0.15, 0.10, -0.20), "head": (0.03, -0.30, -0.16),
}.items():
    target(name).location = target(name).location + Vector(offset)
"""


THROW: Final = """
bpy.context.scene.frame_end = 32
throw = {
    1: {},
    9: {"hips": (-0.03, 0.05, -0.16), "hand.R": (0.10, 0.15, -0.30), "hand.L": (-0.10, -0.35, 0.10)},
    17: {"hips": (0.0, -0.10, -0.10), "hand.R": (0.10, 0.05, 0.55), "hand.L": (-0.10, -0.30, 0.20),
         "foot.L": (0.0, -0.35, 0.10)},
    25: {"hips": (0.03, -0.30, -0.12), "hand.R": (0.30, -0.75, 0.20), "hand.L": (-0.05, -0.05, -0.25),
         "foot.L": (0.0, -0.55, 0.0)},
    32: {"hips": (0.02, -0.34, -0.16), "hand.R": (0.35, -0.70, -0.35), "hand.L": (0.0, -0.15, -0.15),
         "foot.L": (0.0, -0.55, 0.0)},
}
was = {entry.name: target(entry.name).location.copy() for entry in figure().poise.effectors if entry.target}
with bpy.context.temp_override(**in_view):
    bpy.ops.poise.bend_limbs()
    for frame, offsets in throw.items():
        bpy.context.scene.frame_set(frame)
        for name, offset in offsets.items():
            target(name).location = was[name] + Vector(offset)
        bpy.ops.poise.solve_pose()
        bpy.ops.poise.key_pose()
bpy.context.scene.frame_set(17)
bpy.context.scene.poise_overlay.trails = bpy.context.scene.poise_overlay.ghosts = True
"""
"""A throw by five key poses of the bones, with its trails."""

OPENED: Final = """
from mathutils import Matrix

def figure():
    return bpy.data.objects["Figure"]

view.view_perspective = 'ORTHO'
space = area.spaces.active
space.shading.color_type = 'MATERIAL'
space.show_region_toolbar = space.show_region_ui = False
space.show_gizmo_navigate = space.overlay.show_text = space.overlay.show_cursor = False
space.overlay.show_relationship_lines = False
view.view_rotation = Euler((math.radians(80.0), 0.0, math.radians(-40.0))).to_quaternion()
view.view_location, view.view_distance = (0.0, -0.2, 0.88), 3.2

def put(name, place, turn=0.0):
    # A target is moved, and turned about the axis X of the world [degrees].
    bpy.context.view_layer.update()
    own = target(name) if name in figure().poise.effectors else bpy.data.objects[name]
    turned = Matrix.Rotation(math.radians(turn), 4, 'X') @ own.matrix_world
    turned.translation = place
    own.matrix_world = turned
    bpy.context.view_layer.update()

def press(name, **options):
    with bpy.context.temp_override(**in_view):
        getattr(bpy.ops.poise, name)(**options)
"""
"""Names for what is done in a file of the tutorials."""

PICK_UP: Final = (
    "press('setup_character')\nfigure().poise.live = True",
    """
for side, name in ((1, 'hand.L'), (-1, 'hand.R')):
    put(name, (side * 0.27, 0.0, 1.06))
press('solve_pose')
for name in ('hand.L', 'hand.R'):
    figure().poise.active_effector = figure().poise.effectors.find(name)
    press('keep_orientation')
press('key_targets')
""",
    """
bpy.context.scene.frame_set(18)
for side, name in ((1, 'hand.L'), (-1, 'hand.R')):
    put(name, (side * 0.21, -0.42, 0.26), turn=-35.0)
put('head', target('head').matrix_world.translation, turn=20.0)
press('solve_pose')
press('key_targets')
""",
    """
with bpy.context.temp_override(**in_view):
    bpy.ops.object.select_all(action='DESELECT')
box = bpy.data.objects['Box']
for thing in (target('hand.L'), target('hand.R'), box):
    thing.select_set(True)
bpy.context.view_layer.objects.active = target('hand.L')
press('hold_prop')
bpy.context.scene.frame_set(22)
box.keyframe_insert('location')
bpy.context.scene.frame_set(44)
box.location = (0.0, -0.42, 1.05)
box.keyframe_insert('location')
put('head', target('head').matrix_world.translation, turn=-20.0)
press('solve_pose')
press('key_targets')
""",
)
"""The steps of the tutorial: the character is set up, stands, takes the box, and has lifted it."""

SELECT: Final = """
def select(*names):
    # Objects and targets of effectors are selected in Object Mode, the last one active.
    with bpy.context.temp_override(**in_view):
        if bpy.context.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        bpy.ops.object.select_all(action='DESELECT')
    for name in names:
        own = target(name) if name in figure().poise.effectors else bpy.data.objects[name]
        own.select_set(True)
        bpy.context.view_layer.objects.active = own

def shift(name, offset, turn=0.0):
    # A target or an object is moved from where it is, and turned about the axis X of the world [degrees].
    own = target(name) if name in figure().poise.effectors else bpy.data.objects[name]
    put(name, own.matrix_world.translation + Vector(offset), turn)
"""
"""More names for what is done in a file of the tutorials."""

WALK: Final = """
view.view_rotation = Euler((math.radians(82.0), 0.0, math.radians(58.0))).to_quaternion()
view.view_location, view.view_distance = (0.0, -1.05, 0.86), 3.6
bpy.context.scene.poise_overlay.show = False
"""
"""The walker at the table, from the side and before him."""

CUP_FRAMES: Final = (178, 204)
"""In the clip: when the hand comes to rest beside the cup, and when it leaves."""

CUP_OFFSET: Final = 0.155
"""By how much the hand of the clip is beyond the cup [m]."""

BAKED: Final = """
with bpy.context.temp_override(**in_view):
    bpy.ops.object.select_all(action='DESELECT')
figure().poise.live = False
press('bake')
space.overlay.show_overlays = space.show_gizmo = False
"""
"""The shot is baked, and all that is not the character is hidden."""

FILM_FRAMES: Final = range(1, 73, 2)
"""Of the shot."""

LOOP: Final = """
scene = bpy.context.scene
scene.frame_end = 49
press('setup_character')
figure().poise.live = True
for side, name in ((1, 'hand.L'), (-1, 'hand.R')):
    figure().poise.effectors[name].state = 'FOLLOW'
press('natural')
for frame in (1, 49):
    scene.frame_set(frame)
    press('key_targets')
scene.frame_set(25)
shift('hips', (0.07, 0.02, -0.03))
shift('head', (0.0, 0.0, 0.0), 8.0)
press('key_targets')
figure().poise.bake_loop = True
"""
"""Two key poses, of which the first comes again at the end."""

LOOP_FRAMES: Final = range(1, 49, 2)
"""Of the loop, whose last frame is the first one again."""

CLIP_FRAMES: Final = range(1, 141, 4)
"""Of the clip: the way up to the table."""

ALONE: Final = """
for thing in bpy.data.objects:
    thing.hide_set(thing.name not in {'Figure', 'skin'})
space.overlay.show_axis_x = space.overlay.show_axis_y = space.overlay.show_bones = space.show_gizmo = False
"""
"""All that is not the character is hidden."""

COMMANDS: Final = (
    "targets 'clips/*.blend' --jobs 2 --output 'set/{name}.blend' --report 'set/{name}.json'",
    "bake 'set/*.blend' --jobs 2 --lock-contacts --tolerance 1 "
    "--output 'baked/{name}.blend' --report 'baked/{name}.json'",
    "report 'baked/*.blend' --tolerance 1",
)
"""Of the tutorial on shots without a window."""

CALL: Final = """
import subprocess

def call(words, folder):
    # What a command of Poise prints, in a Blender without a window.
    command = [bpy.app.binary_path, '-b', '--command', 'poise', *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
"""

SHOWN: Final = ("locked, they slid", "Measured", "shots: ")
"""Words of the lines that are shown of what commands print."""

TERMINAL: Final = (764, 196)
"""Size of the part of a film that shows commands [pixels]."""

LETTER: Final = ("DejaVuSansMono.ttf", 13, 17)
"""Font of a terminal, its size, and from one line to the next [pixels]."""

LINE_FRAMES: Final = 9
"""Frames of a film in which a new line in the terminal is read."""

SHOT_FRAMES: Final = range(1, 201, 5)
"""Of a clip: up to the table and the hand at the cup."""

DOT: Final = ((255, 191, 26), 4)
"""Colour and radius of what notes where a foot was [pixels]."""


@dataclass
class Studio:
    """The window, and what a picture is made with."""

    window: Window

    def stage(self, *more: str) -> None:
        """Make the figure anew, then what else a picture begins with."""
        self.run(FIGURE, STAGE, *more)

    def open(self, sample: str) -> None:
        """Open a file of the tutorials, which scripts/samples has made."""
        self.open_file(ROOT / "dist" / "samples" / f"{sample}.blend")

    def open_file(self, path: Path) -> None:
        """Open a file."""
        self.window.run(f"bpy.ops.wm.open_mainfile(filepath={str(path)!r}, load_ui=False)")
        self.window.settle(6)
        self.run(IN_VIEW, OPENED)

    def run(self, *code: str) -> None:
        """Execute statements in Blender, and let it draw what has become of it."""
        self.window.run("\n".join(code))
        self.window.settle(6)

    def value(self, expression: str) -> Any:
        """What an expression is in Blender."""
        return self.window.run(value=expression)

    def sidebar(self) -> None:
        """Show the tab of Poise."""
        self.run("area.spaces.active.show_region_ui = True")
        self.run("sidebar.active_panel_category = 'Poise'")

    def click(self, operator: str) -> None:
        """Click on a button of the sidebar."""
        self.window.click(button(self.window, operator))

    def open_panels(self, *labels: str) -> None:
        """Close the panels Effectors and Bake, then open others, by clicks on their headers."""
        x, y = button(self.window, "poise.add_effector", parts=(0.87,))  # in the first row below the header
        rows = [-1, 0]  # from the list's own header down
        # Panels within Advanced are there when that is open; else those below stay where they are.
        advanced = PANELS.index("Advanced")
        within = [PANELS.index(label) for label in labels if PANELS.index(label) > advanced]
        rows += [advanced] if within else []
        rows += sorted((PANELS.index(label) for label in labels), reverse=True)
        for row in rows:
            self.window.click((x - 150.0, y + FIRST_ROW - HEADER * (1 + row)))
            self.rest()
        self.window.move(self.bone("foot.R"))

    def rest(self) -> None:
        """Wait until nothing moves on the screen any more, as panels do that open or close."""
        before = self.screen()
        while (after := self.screen()) != before:
            before = after

    def screen(self) -> Image.Image:
        """Take the whole window."""
        self.window.settle(6)
        return self.now()

    def now(self) -> Image.Image:
        """Take it as it is at this moment."""
        return ImageGrab.grab(xdisplay=self.window.display).convert("RGB")

    def crop(self, image: Image.Image, low: Place, high: Place) -> Image.Image:
        """The part between two places."""
        height = self.window.size[1]
        return image.crop((round(low[0]), height - round(high[1]), round(high[0]), height - round(low[1])))

    def around(self, image: Image.Image, width: float, height: float, up: float = 0.0) -> Image.Image:
        """The part about the middle of the view."""
        x, y = self.value("[region.x + region.width / 2, region.y + region.height / 2]")
        y += up
        return self.crop(image, (x - width / 2, y - height / 2), (x + width / 2, y + height / 2))

    def region(self, image: Image.Image, name: str) -> Image.Image:
        """The part that is a region of the window."""
        x, y, width, height = self.value(f"[{name}.x, {name}.y, {name}.width, {name}.height]")
        return self.crop(image, (x, y), (x + width, y + height))

    def pixel(self, target: str) -> Place:
        """Where the target of an effector is seen."""
        x, y = self.value(f"pixel(target({target!r}).matrix_world.translation)")
        return x, y

    def bone(self, bone: str, part: float = 0.2) -> Place:
        """Where a bone is seen."""
        x, y = self.value(f"on_bone({bone!r}, {part})")
        return x, y

    @contextmanager
    def dragging(self, bone: str, offset: Place) -> Iterator[None]:
        """Drag a bone with the mouse; it is put back afterwards."""
        x, y = self.bone(bone)
        self.window.move((x, y))
        self.window.press()
        self.window.drag((x, y), (x + offset[0], y + offset[1]), steps=16)
        self.window.settle(10)
        yield
        self.window.key("Escape")
        self.window.release()


def with_mouse(image: Image.Image, place: Place, height: int) -> Image.Image:
    """Draw the arrow of the mouse, which is not part of what a screen holds."""
    x, y = place[0], height - 1 - place[1]
    arrow = [(0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12)]
    drawn = image.copy()
    corners = [(x + across, y + down) for across, down in arrow]
    ImageDraw.Draw(drawn).polygon(corners, fill=(255, 255, 255), outline=(0, 0, 0))
    return drawn


def with_dots(image: Image.Image, places: Iterable[Place]) -> Image.Image:
    """Draw dots."""
    colour, radius = DOT
    drawn = image.copy()
    for x, y in places:
        middle = (x, image.height - 1 - y)
        ImageDraw.Draw(drawn).circle(middle, radius, fill=colour, outline=(0, 0, 0))
    return drawn


def below(upper: Image.Image, lower: Image.Image) -> Image.Image:
    """Put a picture below another one of the same width."""
    joined = Image.new("RGB", (upper.width, upper.height + lower.height))
    joined.paste(upper, (0, 0))
    joined.paste(lower, (0, upper.height))
    return joined


def beside(*images: Image.Image) -> Image.Image:
    """Put pictures beside each other with a thin white line between them."""
    joined = Image.new(
        "RGB", (sum(image.width for image in images) + 4 * (len(images) - 1), images[0].height), "white"
    )
    x = 0
    for image in images:
        joined.paste(image, (x, 0))
        x += image.width + 4
    return joined


# The pictures


def setup(studio: Studio) -> Image.Image:
    """What a click on Set Up Character has made: targets in the view, roles in the sidebar."""
    studio.stage("view.view_location.x += 0.3")
    studio.sidebar()
    studio.click("poise.setup_character")
    studio.open_panels("Roles")
    return studio.region(studio.screen(), "region")


def panel(studio: Studio) -> Image.Image:
    """The sidebar after a solve in which a hand is out of reach."""
    studio.stage(SET_UP, CROUCH, "target('hand.L').location += Vector((0.30, -0.50, 0.35))")
    studio.run("with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.solve_pose()")
    studio.run("figure().poise.active_effector = 3", "view.view_location.x += 0.35")
    studio.sidebar()
    return studio.region(studio.screen(), "region")


def german(studio: Studio) -> Image.Image:
    """The same panel in German."""
    studio.run("view_preferences = bpy.context.preferences.view", "view_preferences.language = 'de_DE'")
    return panel(studio)


def solve(studio: Studio) -> Image.Image:
    """Targets that have been moved, and the body when it has followed."""
    studio.stage(SET_UP, CROUCH)
    before = studio.around(studio.screen(), 460, 640)
    studio.run("with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.solve_pose()")
    return beside(before, studio.around(studio.screen(), 460, 640))


def overlay(studio: Studio) -> Image.Image:
    """All that is drawn: errors, pins, priorities, limits, balance, and what is out of reach."""
    studio.stage(
        SET_UP,
        "bpy.context.scene.poise_overlay.balance = True",
        "figure().poise.active_effector, figure().poise.move_root = 2, False",
        "target('hand.L').location += Vector((0.35, -0.30, 0.45))",
        "target('hand.R').location += Vector((0.05, -0.25, 0.25))",
        "target('head').location += Vector((0.0, -0.05, -0.02))",
        "view.view_distance = 2.9",
    )
    studio.run(
        "with bpy.context.temp_override(**in_view):\n"
        "    bpy.ops.poise.pin(action='PIN')\n"
        "    bpy.ops.poise.solve_pose()"
    )
    return studio.around(studio.screen(), 760, 660)


def dragging(studio: Studio) -> Image.Image:
    """A hand dragged across the body, a hand dragged out of the arm's reach, hips dragged down."""
    images: list[Image.Image] = []
    for bone, offset in (("hand.L", (-190.0, 40.0)), ("hand.L", (66.0, 110.0)), ("spine", (0.0, -110.0))):
        studio.stage()
        with studio.dragging(bone, offset):
            images.append(studio.around(studio.screen(), 400, 600))
    return beside(*images)


def live(studio: Studio) -> Image.Image:
    """A target moved with G while the body follows, live; beside it the pose from which it came."""
    studio.stage(SET_UP, "figure().poise.live = True", "take('hips')")
    before = studio.around(studio.screen(), 460, 640)
    x, y = studio.pixel("hips")
    studio.window.move((x, y))
    studio.window.key("g")
    studio.window.drag((x, y), (x - 25.0, y - 90.0))
    after = studio.around(studio.screen(), 460, 640)
    studio.window.key("Escape")
    return beside(before, after)


def handles(studio: Studio) -> Image.Image:
    """A hand that was dragged by its handle, which is chosen, and the mouse over the handle of the other."""
    studio.stage(
        SET_UP,
        "figure().poise.live = True",
        "space.show_gizmo, space.show_gizmo_navigate = True, False",
        "with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.bend_limbs()",
    )
    x, y = studio.pixel("hand.L")
    studio.window.move((x, y))
    studio.window.settle(4)
    studio.window.press()
    studio.window.drag((x, y), (x - 60.0, y + 70.0), steps=16)
    studio.window.release()
    studio.rest()
    place = studio.pixel("hand.R")
    studio.window.move((place[0] + 12.0, place[1] + 12.0))
    studio.window.move(place)
    image = studio.around(with_mouse(studio.screen(), place, studio.window.size[1]), 560, 660)
    studio.run("space.show_gizmo_navigate = True")
    return image


def trails(studio: Studio) -> Image.Image:
    """Trails and ghosts of a throw, the mouse over a key of the hand."""
    studio.stage(
        SET_UP,
        THROW,
        "overlay = bpy.context.scene.poise_overlay",
        "overlay.targets = overlay.priorities = overlay.limits = False",
        "for entry in figure().poise.effectors:\n    entry.target.hide_set(True)",
        "space.show_gizmo, space.show_gizmo_navigate = True, False",
        "view.view_rotation = Euler((math.radians(82.0), 0.0, math.radians(62.0))).to_quaternion()",
        "view.view_location, view.view_distance = (0.0, -0.25, 0.92), 3.0",
    )
    studio.rest()
    state = f"sys.modules['{MODULE}.ui.trails']._state"
    studio.run(f"trails = next(iter({state}.known.values())).trails(1, 32)")
    hand = "next(trail for trail in trails if trail.of.bone == 'hand.R')"
    place = studio.value(f"pixel({hand}.places[{hand}.frames.tolist().index(25)].tolist())")
    studio.window.move((place[0] + 12.0, place[1] + 12.0))
    studio.window.move((place[0], place[1]))
    image = with_mouse(studio.screen(), (place[0], place[1]), studio.window.size[1])
    studio.run("space.show_gizmo_navigate = True")
    return studio.around(image, 760, 660)


def feet(studio: Studio) -> Image.Image:
    """A foot rolled back over the heel, as it stands, over the ball, and over the tip of the toes."""
    studio.stage(
        SET_UP,
        "bpy.context.scene.poise_overlay.show = False",
        "for entry in figure().poise.effectors:\n    entry.target.hide_set(True)",
        "for bone in figure().pose.bones:\n"
        "    (bone if hasattr(bone, 'select') else bone.bone).hide = bone.name.endswith('.R')",
        "view.view_rotation = Euler((math.radians(89.0), 0.0, math.radians(90.0))).to_quaternion()",
        "view.view_location, view.view_distance = (0.1, -0.06, 0.18), 0.75",
        "with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.roll_feet()",
    )
    images: list[Image.Image] = []
    for roll in (-30.0, 0.0, 40.0, 75.0):
        studio.run(f"figure().poise.effectors['foot.L'].roll = math.radians({roll})")
        studio.run("with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.solve_pose()")
        images.append(studio.around(studio.screen(), 300, 400))
    return beside(*images)


def foot_rings(studio: Studio) -> Image.Image:
    """A foot that stands, with its rings, and the same foot rolled by one of them."""
    studio.stage(
        SET_UP,
        "figure().poise.live = True",
        "space.show_gizmo, space.show_gizmo_navigate = True, False",
        "overlay = bpy.context.scene.poise_overlay",
        "overlay.priorities = overlay.limits = False",
        "for entry in figure().poise.effectors:\n    entry.target.hide_set(True)",
        "for bone in figure().pose.bones:\n"
        "    (bone if hasattr(bone, 'select') else bone.bone).hide = bone.name.endswith('.R')",
        "view.view_rotation = Euler((math.radians(70.0), 0.0, math.radians(60.0))).to_quaternion()",
        "view.view_location, view.view_distance = (0.1, -0.04, 0.12), 0.7",
        "with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.roll_feet()",
        "figure().poise.active_effector = figure().poise.effectors.find('foot.L')",
    )
    studio.window.move((1.0, 1.0))
    images = [studio.around(studio.screen(), 460, 460)]
    start, end = (studio.value(f"on_ring('roll', {part})") for part in (0.7, 1.4))
    studio.window.move((start[0], start[1]))
    studio.window.settle(4)
    studio.window.press()
    studio.window.drag((start[0], start[1]), (end[0], end[1]), steps=12)
    studio.rest()
    place = (end[0], end[1])
    images.append(studio.around(with_mouse(studio.screen(), place, studio.window.size[1]), 460, 460))
    studio.window.release()
    studio.run("space.show_gizmo_navigate = True")
    return beside(*images)


def pie(studio: Studio) -> Image.Image:
    """The pie menu, opened with V."""
    studio.stage(SET_UP, "select_bones('hand.L')")
    x, y = studio.value("[region.x + region.width / 2, region.y + region.height / 2]")
    studio.window.move((x, y))
    studio.window.key("v")
    image = studio.around(studio.screen(), 620, 420)
    studio.window.key("Escape")
    return image


def limits(studio: Studio) -> Image.Image:
    """Limits of a bone, and what the pose allows, in the sidebar."""
    studio.stage(SET_UP, "select_bones('forearm.L')")
    studio.sidebar()
    studio.run("with bpy.context.temp_override(**in_view):\n    bpy.ops.poise.diagnose()")
    studio.open_panels("Limits", "Diagnosis")
    return studio.region(studio.screen(), "sidebar")


def recorded(studio: Studio) -> Image.Image:
    """Targets from an animation, and the panel for recorded motion."""
    studio.open("clip")
    studio.run(WALK, "bpy.context.scene.poise_overlay.show = True", "bpy.context.scene.frame_set(60)")
    studio.run(
        "view.view_location.x += 0.3", "press('targets_from_animation')", "bpy.context.scene.frame_set(60)"
    )
    studio.sidebar()
    studio.open_panels("Recorded Motion")
    return studio.region(studio.screen(), "region")


def correct(studio: Studio) -> Image.Image:
    """A frame of an animation as recorded, the target of a hand moved, and the body corrected."""
    first, last = CUP_FRAMES
    studio.open("clip")
    studio.run(WALK, SELECT, f"press('targets_from_animation')\nbpy.context.scene.frame_set({first})")
    studio.run("figure().poise.ease_in = figure().poise.ease_out = 30\nselect('hand.R')")
    studio.run("view.view_location, view.view_distance = (0.0, -1.45, 1.1), 2.4")
    images = [studio.around(studio.screen(), 340, 560)]
    studio.run(f"shift('hand.R', (0.0, {CUP_OFFSET}, 0.0))")
    images.append(studio.around(studio.screen(), 340, 560))
    studio.run(
        f"press('correct')\nbpy.context.scene.frame_set({last})\nshift('hand.R', (0.0, {CUP_OFFSET}, 0.0))\n"
        f"press('correct')\npress('bake')\nbpy.context.scene.frame_set({first})\nselect('Cup')"
    )
    return beside(*images, studio.around(studio.screen(), 340, 560))


def planted(studio: Studio) -> Image.Image:
    """Feet that are pinned: as set up, the hips down and aside, and one foot a step ahead."""
    studio.open("pick-up")
    studio.run(SELECT, "bpy.data.objects.remove(bpy.data.objects['Box'])\npress('setup_character')")
    studio.run("view.view_location, view.view_distance = (0.0, -0.1, 0.9), 3.0")
    images = [studio.around(studio.screen(), 340, 620)]
    for step in (
        "shift('hips', (0.10, 0.0, -0.22))",
        "shift('hips', (-0.10, -0.16, 0.08))\nshift('foot.L', (0.0, -0.45, 0.0))",
    ):
        studio.run(step, "press('solve_pose')")
        images.append(studio.around(studio.screen(), 340, 620))
    return beside(*images)


def hold(studio: Studio) -> Image.Image:
    """A box that two hands hold: before the belly, lifted, turned."""
    studio.open("pick-up")
    studio.run(SELECT, PICK_UP[0], "box = bpy.data.objects['Box']\nbox.location = (0.0, -0.42, 1.1)")
    studio.run("view.view_location.z = 1.0")
    studio.run(
        "for side, name in ((1, 'hand.L'), (-1, 'hand.R')):\n"
        "    put(name, (side * 0.21, -0.30, 1.1), turn=20.0)\n"
        "press('solve_pose')\n"
        "for name in ('hand.L', 'hand.R'):\n"
        "    figure().poise.active_effector = figure().poise.effectors.find(name)\n"
        "    press('keep_orientation')\n"
        "select('Box', 'hand.L', 'hand.R')\n"
        "press('hold_prop')\nselect('Box')"
    )
    images = [studio.around(studio.screen(), 340, 620)]
    for step in (
        "box.location = (0.0, -0.35, 1.75)",
        "box.location = (0.12, -0.4, 1.3)\nbox.rotation_euler = (0.0, 0.5, 0.4)",
    ):
        studio.run(step)
        studio.rest()
        images.append(studio.around(studio.screen(), 340, 620))
    return beside(*images)


def look(studio: Studio) -> Image.Image:
    """A head that looks at a box, wherever that is."""
    studio.open("pick-up")
    studio.run(SELECT, PICK_UP[0], "box = bpy.data.objects['Box']")
    studio.run(
        "head = figure().poise.effectors['head']\n"
        "head.kind, head.axis, head.target = 'AIM', 'POS_Z', box\n"
        "box.scale = (0.5, 0.5, 0.5)"
    )
    images: list[Image.Image] = []
    for place in ((0.0, -0.6, 0.1), (-0.7, -0.3, 1.95), (0.75, -0.2, 1.1)):
        studio.run(f"box.location = {place}", "bpy.context.view_layer.update()\npress('solve_pose')")
        images.append(studio.around(studio.screen(), 340, 620))
    return beside(*images)


def misses(studio: Studio) -> Image.Image:
    """A hand that feet hold back, one that the other hand holds back, and the same when the other follows."""
    images: list[Image.Image] = []
    for place, more in (
        ((0.1, -0.2, 2.35), ""),
        ((0.45, -1.1, 0.9), ""),
        ((0.45, -1.1, 0.9), "figure().poise.effectors['hand.R'].state = 'FOLLOW'"),
    ):
        studio.open("pick-up")
        studio.run(SELECT, "bpy.data.objects.remove(bpy.data.objects['Box'])\npress('setup_character')", more)
        studio.run(
            "bpy.context.scene.poise_overlay.limits = False",
            "view.view_location, view.view_distance = (0.1, -0.3, 1.05), 3.4",
            "view.view_rotation = Euler((math.radians(82.0), 0.0, math.radians(40.0))).to_quaternion()",
        )
        studio.run(f"put('hand.L', {place})\npress('solve_pose')")
        images.append(studio.around(studio.screen(), 360, 620))
    return beside(*images)


def control_rig(studio: Studio) -> Image.Image:
    """Rigify's generated human after Set Up Character, with the hips moved down."""
    studio.stage("bpy.ops.object.mode_set(mode='OBJECT')")
    studio.run("with bpy.context.temp_override(**in_view):\n    bpy.ops.pose.rigify_generate()")
    studio.run(
        "metarig = figure()\nrig = bpy.context.view_layer.objects.active\n"
        "bpy.data.objects.remove(metarig)\nrig.name = 'metarig'\n",
        SET_UP,
        "figure().poise.live = True\ntarget('hips').location.z -= 0.25\nview.view_location.x += 0.3",
    )
    studio.sidebar()
    return studio.region(studio.screen(), "region")


def pick_up(studio: Studio) -> Image.Image:
    """The key poses of the tutorial: as set up, standing, at the box, and with the box lifted."""
    studio.open("pick-up")
    images: list[Image.Image] = []
    for step in PICK_UP:
        studio.run(step)
        images.append(studio.around(studio.screen(), 340, 620))
    return beside(*images)


def preferences(studio: Studio) -> Image.Image:
    """Colours, sizes and shortcuts."""
    studio.stage()
    studio.window.move((1.0, 1.0))  # else a tooltip would come up
    studio.run(
        "area.type = 'PREFERENCES'\n"
        "bpy.context.preferences.active_section = 'ADDONS'\n"
        "bpy.context.window_manager.addon_search = 'Poise'\n"
        f"bpy.ops.preferences.addon_expand(module={MODULE!r})\n"
    )
    studio.rest()
    image = studio.region(studio.screen(), "area")
    studio.run("area.type = 'VIEW_3D'")
    return image


PICTURES: Final[dict[str, Callable[[Studio], Image.Image]]] = {
    made.__name__: made
    for made in (
        setup,
        panel,
        german,
        solve,
        overlay,
        handles,
        trails,
        feet,
        foot_rings,
        dragging,
        live,
        pie,
        limits,
        recorded,
        correct,
        pick_up,
        planted,
        hold,
        look,
        misses,
        control_rig,
        preferences,
    )
}


def dragged(
    studio: Studio, way: Iterable[tuple[Place, Drag]], steps: int, width: float, height: float
) -> list[Image.Image]:
    """Drag with the mouse from where it is asked for to one place after the other, slowly at each of them."""
    frames: list[Image.Image] = []
    for start, offsets in way:
        x, y = start
        studio.window.move((x, y))
        studio.window.settle(4)
        studio.window.press()
        for (from_x, from_y), (to_x, to_y) in pairwise(((0.0, 0.0), *offsets)):
            for step in range(1, steps + 1):
                part = step / steps
                part = part * part * (3.0 - 2.0 * part)
                place = (x + from_x + part * (to_x - from_x), y + from_y + part * (to_y - from_y))
                studio.window.move(place)
                studio.window.settle(3)
                seen = with_mouse(studio.now(), place, studio.window.size[1])
                frames.append(studio.around(seen, width, height))
        studio.window.release()
        studio.rest()
    return frames


def film(studio: Studio) -> list[Image.Image]:
    """Two drags: the hips go down and aside while hands and feet hold, then a hand goes up and down."""
    studio.stage("view.view_distance = 3.0", "bpy.context.scene.poise_overlay.limits = False")
    return dragged(studio, ((studio.bone(bone), way) for bone, way in FILM), FILM_STEPS, 520, 640)


def pose(studio: Studio) -> list[Image.Image]:
    """A figure with a skin is posed by its handles: the hips, then a hand."""
    studio.open("pick-up")
    studio.run(SELECT, "bpy.data.objects.remove(bpy.data.objects['Box'])", PICK_UP[0])
    studio.run(
        "press('natural')",
        "overlay = bpy.context.scene.poise_overlay",
        "overlay.priorities = overlay.limits = False",
        "space.show_gizmo, space.show_gizmo_navigate = True, False",
        "space.overlay.show_bones = False",
        "for entry in figure().poise.effectors:\n    entry.target.hide_set(True)",
        "with bpy.context.temp_override(**in_view):\n    bpy.ops.object.mode_set(mode='POSE')",
        "view.view_location, view.view_distance = (0.0, -0.1, 0.92), 3.0",
    )
    return dragged(studio, ((studio.pixel(name), way) for name, way in POSE), POSE_STEPS, 400, 600)


def shot(studio: Studio) -> list[Image.Image]:
    """The baked shot of the tutorial, played."""
    studio.open("pick-up")
    studio.run(*PICK_UP, BAKED)
    frames: list[Image.Image] = []
    for frame in FILM_FRAMES:
        studio.run(f"bpy.context.scene.frame_set({frame})")
        frames.append(studio.around(studio.now(), 400, 620))
    return frames


def loop(studio: Studio) -> list[Image.Image]:
    """A loop of a figure that stands and shifts its weight, from two poses."""
    studio.open("pick-up")
    studio.run(SELECT, "bpy.data.objects.remove(bpy.data.objects['Box'])", LOOP, BAKED)
    studio.run("view.view_rotation = Euler((math.radians(85.0), 0.0, math.radians(-12.0))).to_quaternion()")
    frames: list[Image.Image] = []
    for frame in LOOP_FRAMES:
        studio.run(f"bpy.context.scene.frame_set({frame})")
        frames.append(studio.around(studio.now(), 340, 600))
    return frames


def locked(studio: Studio) -> list[Image.Image]:
    """The feet of a clip as recorded, and beside them locked."""
    halves: list[list[Image.Image]] = []
    for step in ("", "press('targets_from_animation')\npress('lock_contacts')\npress('bake')"):
        studio.open("clip")
        studio.run(
            WALK,
            step,
            ALONE,
            "view.view_rotation = Euler((math.radians(78.0), 0.0, math.radians(70.0))).to_quaternion()",
            "view.view_location, view.view_distance = (0.0, -0.62, 0.28), 3.3",
        )
        frames: list[Image.Image] = []
        for frame in CLIP_FRAMES:
            studio.run(f"bpy.context.scene.frame_set({frame})")
            frames.append(studio.around(studio.now(), 380, 340))
        halves.append(frames)
    return [beside(*pair) for pair in zip(*halves, strict=True)]


def terminal(lines: Iterable[str]) -> Image.Image:
    """A terminal that shows lines, cut at its right edge."""
    name, size, below = LETTER
    font = ImageFont.truetype(name, size)
    image = Image.new("RGB", TERMINAL, (30, 30, 30))
    drawing = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        colour = (235, 235, 235) if line.startswith(("$", "  ")) else (140, 200, 140)
        drawing.text((8, 6 + row * below), line, font=font, fill=colour)
    return image


def terminal_lines(studio: Studio, folder: Path) -> list[list[str]]:
    """Run the commands in a folder of clips; what a terminal shows, in the parts in which it comes."""
    studio.run(CALL)
    shown: list[list[str]] = []
    for command in COMMANDS:
        first, _, outputs = command.partition(" --output ")
        told = studio.value(f"call({shlex.split(command)!r}, {str(folder)!r})").splitlines()
        lines = [f"$ blender -b --command poise {first}" + (" \\" if outputs else "")]
        shown.append([*lines, f"      --output {outputs}"] if outputs else lines)
        shown += [[line] for words in SHOWN for line in told if words in line][-2:]
    return shown


def batch(studio: Studio) -> list[Image.Image]:
    """Commands on a folder of clips and what they print; a clip as it was, and baked, with a foot's way."""
    folder = studio.window.folder / "project"
    for name in ("clips", "set", "baked"):
        (folder / name).mkdir(parents=True)
    for name in ("first", "second"):
        shutil.copy(ROOT / "dist" / "samples" / "clip.blend", folder / "clips" / f"{name}.blend")
    lines = terminal_lines(studio, folder)
    halves: list[list[Image.Image]] = []
    for made in ("clips", "baked"):
        studio.open_file(folder / made / "first.blend")
        studio.run(
            WALK,
            ALONE,
            "for name in ('Table', 'Cup'):\n    bpy.data.objects[name].hide_set(False)",
            "with bpy.context.temp_override(**in_view):\n    bpy.ops.object.select_all(action='DESELECT')",
            "space.overlay.show_cursor = False",
            "view.view_rotation = Euler((math.radians(80.0), 0.0, math.radians(75.0))).to_quaternion()",
            "view.view_location, view.view_distance = (0.0, -0.85, 0.80), 4.7",
        )
        frames: list[Image.Image] = []
        dots: list[Place] = []
        for frame in SHOT_FRAMES:
            studio.run(f"bpy.context.scene.frame_set({frame})")
            dots.append(studio.bone("toe.L", 0.0))
            frames.append(studio.around(with_dots(studio.now(), dots), 380, 410))
        halves.append(frames)
    pairs = [beside(*pair) for pair in zip(*halves, strict=True)]
    texts = [
        terminal([line for part in lines[:count] for line in part]) for count in range(1, len(lines) + 1)
    ]
    waits = [below(text, pairs[0]) for text in texts for _ in range(LINE_FRAMES)]
    return waits + [below(texts[-1], pair) for pair in pairs]


FILMS: Final[dict[str, Callable[[Studio], list[Image.Image]]]] = {
    "drag": film,
    "pose": pose,
    "shot": shot,
    "loop": loop,
    "locked": locked,
    "batch": batch,
}
"""Animated pictures."""


def palette_of(images: Iterable[Image.Image], colours: int) -> Image.Image:
    """A palette in which small marks have their colours too.

    Each colour counts by the root of its number, and those of the overlay are there as they are.
    """
    counts: Counter[Any] = Counter()
    for image in images:
        for count, colour in image.getcolors(image.width * image.height) or ():
            counts[colour] += count
    pixels = [colour for colour, count in counts.items() for _ in range(ceil(sqrt(count)))]
    sample = Image.new("RGB", (len(pixels), 1))
    sample.putdata(pixels)
    palette = sample.quantize(colours - len(MARKS), Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    entries = palette.getpalette() or []
    palette.putpalette(entries[: 3 * (colours - len(MARKS))] + [part for colour in MARKS for part in colour])
    return palette


def save_picture(image: Image.Image, path: Path) -> None:
    """Write a PNG."""
    image.save(path, optimize=True)
    print(f"{path.name}: {image.width} x {image.height}, {path.stat().st_size // 1024} KiB", flush=True)


def save_film(frames: list[Image.Image], path: Path, rest: float = REST_SECONDS) -> None:
    """Write an animated GIF with one palette for all frames, the last one shown for so long [s]."""
    palette = palette_of(frames[:: max(1, len(frames) // 8)], FILM_COLOURS)
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    durations = [round(1000 * FRAME_SECONDS)] * len(others) + [round(1000 * rest)]
    first.save(
        path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True, disposal=1
    )
    size = f"{first.width} x {first.height}, {path.stat().st_size // 1024} KiB"
    print(f"{path.name}: {len(frames)} frames, {size}", flush=True)


def main() -> None:
    """Command line: where to put the pictures, and which."""
    parser = argparse.ArgumentParser(
        prog="scripts/window --pictures", description="Pictures of a Blender window."
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "images", help="folder for the pictures"
    )
    names = [*PICTURES, *FILMS]
    parser.add_argument(
        "--only", action="append", choices=names, help="only this one; may be given several times"
    )
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    extension = sorted((ROOT / "dist").glob("poise-*.zip"))[-1]
    for name in arguments.only or names:
        window = Window(
            extension, TALL if name == "limits" else SIZE
        )  # each begins with what Blender shows at its start
        try:
            studio = Studio(window)
            if name in FILMS:
                rest = FRAME_SECONDS if name == "loop" else REST_SECONDS
                save_film(FILMS[name](studio), arguments.output / f"{name}.gif", rest)
            else:
                save_picture(PICTURES[name](studio), arguments.output / f"{name}.png")
        finally:
            window.close()


if __name__ == "__main__":
    main()
