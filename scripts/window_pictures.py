# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the add-on in a real Blender window, for the manual: `scripts/window --pictures [options]`.

    python3 -m scripts.window_pictures [--output FOLDER] [--only NAME]...

The window is that of the tests (`tests/gui`), with the built extension installed and a mouse that is moved.
Each picture has one of its own and begins with the figure made anew. Needs Pillow to take the screen.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageDraw, ImageGrab

from tests.gui.figure import FIGURE, MODULE, ROOT, SET_UP, button
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

FILM_STEPS: Final = 11
"""Frames from one of these places to the next."""

PANELS: Final = ("Roles", "Limits", "Masses", "Solver", "Bake Range", "Diagnosis", "Overlay")
"""What is below the panel Effectors."""

HEADER: Final = 26.2
"""From one header of the sidebar to the next [pixels]."""

FIRST_ROW: Final = 26.0
"""From where a button beside the first row of the list is found up to the header of its panel [pixels]."""

Place = tuple[float, float]
"""In the window, with the origin at the lower left [pixels]."""

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


@dataclass
class Studio:
    """The window, and what a picture is made with."""

    window: Window

    def stage(self, *more: str) -> None:
        """Make the figure anew, then what else a picture begins with."""
        self.run(FIGURE, STAGE, *more)

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
        """Close the panel Effectors, then open others that are closed, by clicks on their headers."""
        x, y = button(self.window, "poise.add_effector", parts=(0.87,))  # in the first row below the header
        self.window.click((x - 150.0, y + FIRST_ROW))
        self.rest()
        for label in sorted(labels, key=PANELS.index, reverse=True):  # those below stay where they are
            self.window.click((x - 150.0, y + FIRST_ROW - HEADER * (1 + PANELS.index(label))))
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
    made.__name__: made for made in (setup, panel, solve, overlay, dragging, live, pie, limits, preferences)
}


def film(studio: Studio) -> list[Image.Image]:
    """Two drags: the hips go down and aside while hands and feet hold, then a hand goes up and down."""
    studio.stage("view.view_distance = 3.0", "bpy.context.scene.poise_overlay.limits = False")
    frames: list[Image.Image] = []
    for bone, way in FILM:
        x, y = studio.bone(bone)
        studio.window.move((x, y))
        studio.window.press()
        for (from_x, from_y), (to_x, to_y) in pairwise(((0.0, 0.0), *way)):
            for step in range(1, FILM_STEPS + 1):
                part = step / FILM_STEPS
                part = part * part * (3.0 - 2.0 * part)
                place = (x + from_x + part * (to_x - from_x), y + from_y + part * (to_y - from_y))
                studio.window.move(place)
                studio.window.settle(3)
                frames.append(studio.around(with_mouse(studio.now(), place, studio.window.size[1]), 520, 640))
        studio.window.release()
    return frames


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


def save_film(frames: list[Image.Image], path: Path) -> None:
    """Write an animated GIF with one palette for all frames."""
    palette = palette_of(frames[:: max(1, len(frames) // 8)], FILM_COLOURS)
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    durations = [round(1000 * FRAME_SECONDS)] * len(rest) + [round(1000 * REST_SECONDS)]
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True, disposal=1)
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
    names = [*PICTURES, "drag"]
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
            if name == "drag":
                save_film(film(studio), arguments.output / "drag.gif")
            else:
                save_picture(PICTURES[name](studio), arguments.output / f"{name}.png")
        finally:
            window.close()


if __name__ == "__main__":
    main()
