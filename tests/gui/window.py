# SPDX-License-Identifier: GPL-3.0-or-later
"""A Blender window on a screen of its own (Xvfb), driven by real mouse and key events (xdotool)."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

PROGRAMS = ("blender", "Xvfb", "xdotool")
"""What has to be there."""

SIZE = (1100, 760)
"""Of the screen and the window [pixels]: the processor draws it."""

START_SECONDS = 120.0
"""How long Blender may take to show its window [s]."""

HERE = Path(__file__).resolve().parent


def missing_programs() -> list[str]:
    """Which of the programs are not on the PATH."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


class Window:
    """Blender in a window, with an extension installed from its zip in an empty user folder."""

    def __init__(self, extension: Path, size: tuple[int, int] = SIZE) -> None:
        """Start it.

        Args:
            extension: The built zip.
            size: Of the screen and the window [pixels].

        Raises:
            RuntimeError: Something did not start; its output is in the message.
        """
        self.size = size
        self.folder = Path(mkdtemp(prefix="poise-window-"))
        self._running: list[subprocess.Popen[Any]] = []
        environment = dict(
            os.environ,
            BLENDER_USER_RESOURCES=str(self.folder / "user"),
            XDG_RUNTIME_DIR=str(self.folder),
            LIBGL_ALWAYS_SOFTWARE="1",
            POISE_TEST_SOCKET=str(self.folder / "socket"),
        )
        (self.folder / "user").mkdir()
        self.folder.chmod(0o700)
        self._environment = environment
        install = ["blender", "--command", "extension", "install-file", "-r", "user_default", "--enable"]
        done = subprocess.run(
            [*install, str(extension)], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the extension could not be installed:\n{done.stdout}{done.stderr}")
        self._start_screen()
        self._start_blender()

    def _start_screen(self) -> None:
        reading, writing = os.pipe()
        screen = f"{self.size[0]}x{self.size[1]}x24"
        command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", screen, "-nolisten", "tcp"]
        with (self.folder / "screen.log").open("w") as log:
            self._running.append(subprocess.Popen(command, pass_fds=[writing], stdout=log, stderr=log))
        os.close(writing)
        with os.fdopen(reading) as stream:
            number = stream.readline().strip()
        if not number:
            raise RuntimeError("Xvfb does not start:\n" + (self.folder / "screen.log").read_text())
        self._environment["DISPLAY"] = f":{number}"

    def _start_blender(self) -> None:
        geometry = ["--window-geometry", "0", "0", *map(str, self.size)]
        command = ["blender", *geometry, "--python", str(HERE / "listener.py")]
        with (self.folder / "blender.log").open("w") as log:
            blender = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self._running.append(blender)
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.run()
                return
            except OSError:
                time.sleep(0.05)
            if blender.poll() is not None or time.monotonic() > until:
                raise RuntimeError("Blender does not start:\n" + self.log())

    @property
    def display(self) -> str:
        """The name of the screen, for programs that take pictures of it."""
        return self._environment["DISPLAY"]

    def log(self) -> str:
        """What Blender has printed."""
        return (self.folder / "blender.log").read_text(errors="replace")

    def run(self, code: str = "", value: str = "") -> Any:
        """Execute statements in Blender, then evaluate an expression there.

        Raises:
            AssertionError: It raised an exception, whose traceback is in the message.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(120.0)
            connection.connect(self._environment["POISE_TEST_SOCKET"])
            with connection.makefile("rw", encoding="utf-8") as stream:
                stream.write(json.dumps({"code": code, "value": value}) + "\n")
                stream.flush()
                reply = json.loads(stream.readline())
        if "error" in reply:
            raise AssertionError(reply["error"])
        return reply["value"]

    def settle(self, turns: int = 4) -> None:
        """Wait until what was sent is handled and drawn, by turns of the main loop."""
        redraw = (
            "for window in bpy.context.window_manager.windows:\n"
            "    for area in window.screen.areas:\n"
            "        area.tag_redraw()"
        )
        for _ in range(turns):
            self.run(redraw)
            time.sleep(0.01)

    # Mouse and keys; places are Blender's, with the origin at the lower left

    def _send(self, *words: object) -> None:
        subprocess.run(["xdotool", *map(str, words)], env=self._environment, check=True, capture_output=True)

    def move(self, place: tuple[float, float]) -> None:
        """Move the mouse."""
        self._send("mousemove", round(place[0]), round(self.size[1] - 1 - place[1]))
        self.settle(1)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8) -> None:
        """Move the mouse from one place to another in steps."""
        for step in range(steps + 1):
            part = step / steps
            self.move((start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])))

    def press(self, button: int = 1) -> None:
        """Press a mouse button."""
        self._send("mousedown", button)
        self.settle(2)

    def release(self, button: int = 1) -> None:
        """Release it."""
        self._send("mouseup", button)
        self.settle()

    def click(self, place: tuple[float, float] | None = None, button: int = 1) -> None:
        """Click somewhere, or where the mouse is."""
        if place is not None:
            self.move(place)
            self.settle(2)
        self._send("click", button)
        self.settle()

    def key(self, keys: str, *, how: str = "key") -> None:
        """Type a key, as xdotool calls it; how: "key", "keydown" or "keyup"."""
        self._send(how, keys)
        self.settle()

    def close(self) -> None:
        """End what was started here."""
        for process in reversed(self._running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
