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

START_SECONDS = 300.0
"""How long Blender may take to show its window [s]: other work may go on on the machine."""

ANSWER_SECONDS = 300.0
"""How long it may take to answer [s]; after that it hangs."""

END_SECONDS = 10.0
"""How long it may take to end [s]."""

LAST_LINES = 40
"""How many lines of what Blender has printed are told when it has ended."""

HERE = Path(__file__).resolve().parent


def missing_programs() -> list[str]:
    """Which of the programs are not on the PATH."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


class WindowGoneError(RuntimeError):
    """Blender or its screen has ended, or does not answer; what is known of the cause is in the message."""


class Window:
    """Blender in a window, with an extension installed from its zip in an empty user folder."""

    def __init__(self, extension: Path, size: tuple[int, int] = SIZE) -> None:
        """Start it.

        Args:
            extension: The built zip.
            size: Of the screen and the window [pixels].

        Raises:
            RuntimeError: Something did not start; its output is in the message (`WindowGoneError` is one).
        """
        self.size = size
        self.folder = Path(mkdtemp(prefix="poise-window-"))
        self._running: dict[str, subprocess.Popen[Any]] = {}
        self.is_gone = False
        """Whether it was found that Blender answers no longer."""
        environment = dict(
            os.environ,
            BLENDER_USER_RESOURCES=str(self.folder / "user"),
            XDG_RUNTIME_DIR=str(self.folder),
            TMPDIR=str(self.folder),  # where Blender writes why it crashed
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
        try:
            self._start_screen()
            self._start_blender()
        except Exception:
            self.close()
            raise

    def _start_screen(self) -> None:
        reading, writing = os.pipe()
        screen = f"{self.size[0]}x{self.size[1]}x24"
        # It finds a free number by itself, so that several may run at once.
        command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", screen, "-nolisten", "tcp", "-noreset"]
        with (self.folder / "screen.log").open("w") as log:
            self._running["Xvfb"] = subprocess.Popen(command, pass_fds=[writing], stdout=log, stderr=log)
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
        self._running["blender"] = blender
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self._ask({"code": "", "value": ""})
                return
            except OSError:
                time.sleep(0.05)
            if blender.poll() is not None or time.monotonic() > until:
                raise self._gone("Blender does not start")

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
            WindowGoneError: Blender has ended, or hangs.
        """
        try:
            reply = self._ask({"code": code, "value": value})
        except (OSError, ValueError) as error:  # refused, reset, too late, or an answer that breaks off
            raise self._gone(f"Blender does not answer ({error})") from error
        if "error" in reply:
            raise AssertionError(reply["error"])
        return reply["value"]

    def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(self._environment["POISE_TEST_SOCKET"])
            with connection.makefile("rw", encoding="utf-8") as stream:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                return json.loads(stream.readline())

    def _gone(self, what: str) -> WindowGoneError:
        """Say what is known of why Blender is not there."""
        self.is_gone = True
        told = [what]
        for program, process in self._running.items():
            try:
                # One that is just ending has closed its socket already.
                code = process.wait(END_SECONDS if program == "blender" else 0.0)
            except subprocess.TimeoutExpired:
                told.append(f"{program} is running")
                if program == "blender":
                    process.send_signal(signal.SIGUSR1)  # the listener writes where Python is
                    time.sleep(1.0)
            else:
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                told.append(f"{program} has ended {how}")
        logs = ["blender.log", "blender.crash.txt"]
        if self._running["Xvfb"].poll() is not None:  # else it holds nothing but warnings about keys
            logs.insert(0, "screen.log")
        for name in logs:
            path = self.folder / name
            text = path.read_text(errors="replace").rstrip().splitlines() if path.exists() else []
            if text:
                told += [f"-- {name}", *text[-LAST_LINES:]]
        return WindowGoneError("\n".join(told))

    def settle(self, turns: int = 4) -> None:
        """Wait until what was sent is handled and drawn, by turns of the main loop.

        All is drawn in the last turn; in the others Blender draws what it finds changed, as the processor
        takes a tenth of a second for a drawing.
        """
        for _ in range(turns - 1):
            self.run()
            time.sleep(0.01)
        self.run(
            "for window in bpy.context.window_manager.windows:\n"
            "    for area in window.screen.areas:\n"
            "        area.tag_redraw()"
        )
        time.sleep(0.01)

    # Mouse and keys; places are Blender's, with the origin at the lower left

    def _send(self, *words: object) -> None:
        command = ["xdotool", *map(str, words)]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise self._gone(f"{' '.join(command)}: {done.stdout}{done.stderr}".rstrip())

    def point(self, place: tuple[float, float]) -> None:
        """Move the mouse, and wait only until that is handled."""
        self._send("mousemove", round(place[0]), round(self.size[1] - 1 - place[1]))
        self.run()

    def move(self, place: tuple[float, float]) -> None:
        """Move the mouse."""
        self.point(place)
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

    def double_click(self) -> None:
        """Click twice where the mouse is."""
        self._send("click", "--repeat", 2, "--delay", 50, 1)
        self.settle()

    def key(self, keys: str, *, how: str = "key") -> None:
        """Type a key, as xdotool calls it; how: "key", "keydown" or "keyup"."""
        self._send(how, keys)
        self.settle()

    def close(self) -> None:
        """End what was started here."""
        for process in reversed(self._running.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
