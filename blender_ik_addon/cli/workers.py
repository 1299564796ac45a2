# SPDX-License-Identifier: GPL-3.0-or-later
"""Several shots: one Blender process for each, so many at once as are asked for.

A worker is the same command with one of the shots (`--only`): it tells by its exit code and its lines.
So the memory of a shot ends with it, and one that crashes, or is killed, is told and takes no other with it.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Final

import bpy

from .arguments import COMMAND, ONLY
from .exit_codes import Exit
from .finished import finished
from .interruption import Interruption
from .shots import Shot
from .telling import ERROR, PERCENT, PREFIX, Teller
from .writing import remove_left

POLL_SECONDS: Final = 0.05
"""How often it is asked whether a worker has ended [s]."""
LAST_LINES: Final = 10
"""How many lines of what a worker that crashed has printed are shown."""

ENDS: Final = {
    Exit.REACHED: "reached",
    Exit.MISSED: "missed",
    Exit.REFUSED: "refused",
    Exit.UNWRITTEN: "not written",
    Exit.CRASHED: "crashed",
}
"""How shots are counted at the end."""


@dataclass
class _Worker:
    """A process with its shot, and what it has printed."""

    shot: Shot
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    """What it says for users, without the prefix."""
    wrong: list[str] = field(default_factory=list)
    """The same of errors."""
    others: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    """The last of what else it, or Blender, has printed."""
    part: float = 0.0
    """How much of the shot is done [1]."""
    readers: list[Thread] = field(default_factory=list)

    def listen(self) -> None:
        """Read both streams until they end: a worker whose pipe is full would wait for ever."""
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            self.readers.append(Thread(target=self._read, args=[stream], daemon=True))
            self.readers[-1].start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in map(str.rstrip, stream):
                if percent := PERCENT.fullmatch(line):
                    self.part = int(percent[1]) / 100.0
                elif line.startswith(ERROR):
                    self.wrong.append(line.removeprefix(ERROR))
                elif line.startswith(PREFIX):
                    self.lines.append(line.removeprefix(PREFIX))
                elif line:
                    self.others.append(line)

    def end(self) -> Exit:
        """Read what is left, and return how it ended."""
        for reader in self.readers:
            reader.join()
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait()
        # A Blender that does not know the command ends with a code that means something else here.
        if code in (Exit.REACHED, Exit.MISSED) and self.lines:
            return Exit(code)
        if code in (Exit.REFUSED, Exit.UNWRITTEN) and self.wrong:
            return Exit(code)
        remove_left(self.shot.results)
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
        self.wrong.append(f"its Blender {how}; nothing half-written is left, the other shots go on")
        self.wrong += [f"| {line}" for line in self.others]
        return Exit.CRASHED


class Workers:
    """The shots of a command, with those that are being done."""

    def __init__(
        self,
        shots: Sequence[Shot],
        options: argparse.Namespace,
        arguments: Sequence[str],
        teller: Teller,
        interruption: Interruption,
    ) -> None:
        """`arguments` are those of the command, which workers get, too."""
        self._shots, self._options, self._arguments = shots, options, arguments
        self._teller, self._interruption = teller, interruption
        self._running: list[_Worker] = []
        self._ended: dict[str, Exit] = {}
        """Shots that are done, by name."""
        self._before: set[str] = set()
        """Those that had been finished before."""

    def run(self) -> int:
        """Do all shots; the exit code."""
        interruption = self._interruption
        interruption.holds = True
        waiting = deque(self._shots)
        asked = 0
        try:
            while waiting or self._running:
                if interruption.count > asked:
                    asked = interruption.count
                    waiting.clear()
                    self._stop(kill=asked > 1)
                while waiting and len(self._running) < self._options.jobs:
                    self._begin(waiting.popleft())
                for worker in [own for own in self._running if own.process.poll() is not None]:
                    self._running.remove(worker)
                    ended = worker.end()
                    if ended is Exit.CRASHED and (whole := finished(worker.shot, self._options)) is not None:
                        ended = whole  # after all was written
                        worker.wrong.clear()
                    # It was asked to end, and has not come to that before.
                    stopped = interruption.count and worker.process.returncode not in tuple(Exit)
                    if not stopped:
                        self._end(worker.shot, ended, worker)
                self._show()
                time.sleep(POLL_SECONDS if self._running else 0.0)
        finally:
            self._stop(kill=True)
        return self._sum_up()

    def _begin(self, shot: Shot) -> None:
        """Start a worker, if there is anything to do."""
        ended = finished(shot, self._options)
        if ended is not None:
            self._before.add(shot.name)
            self._ended[shot.name] = ended
            return
        command = [*_blender(), *self._arguments, ONLY, shot.name]
        environment = dict(os.environ, PYTHONIOENCODING="utf-8")
        if not bpy.app.binary_path:  # the package is found from any folder
            folders = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,  # by its end a worker knows that nobody waits for it any more
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            # Ctrl C in a terminal comes to the command alone, which asks its workers to end.
            start_new_session=True,
        )
        worker = _Worker(shot, process)
        self._running.append(worker)
        worker.listen()

    def _end(self, shot: Shot, ended: Exit, worker: _Worker) -> None:
        """Say how a shot has ended."""
        self._ended[shot.name] = ended
        head = f"[{len(self._ended)}/{len(self._shots)}] {shot.name}: "
        for line in worker.lines or [ENDS[ended]]:
            self._teller.say(head + line)
        for line in worker.wrong:
            self._teller.say(head + line, wrong=True)

    def _show(self) -> None:
        done = len(self._ended) + sum(worker.part for worker in self._running)
        names = ", ".join(f"{Path(own.shot.name).name} {own.part:.0%}" for own in self._running)
        bad = sum(ended > Exit.REACHED for ended in self._ended.values())
        text = (
            f"{len(self._ended)} of {len(self._shots)} shots{f', {bad} with misses or errors' if bad else ''}"
        )
        self._teller.progress(done / len(self._shots), f"{text}; {names}")

    def _stop(self, *, kill: bool) -> None:
        """Ask the workers to end, or end them."""
        for worker in self._running:
            if worker.process.poll() is None:
                worker.process.kill() if kill else worker.process.terminate()

    def _sum_up(self) -> int:
        """Say what became of the shots; the exit code."""
        counts = [f"{len(self._before)} finished before"] if self._before else []
        for ended, word in ENDS.items():
            names = [name for name, own in self._ended.items() if own is ended]
            names = [name for name in names if ended is not Exit.REACHED or name not in self._before]
            if names:
                which = "" if ended is Exit.REACHED else f" ({', '.join(names)})"
                counts.append(f"{len(names)} {word}{which}")
        self._teller.say(f"{len(self._ended)} of {len(self._shots)} shots: {', '.join(counts) or 'none'}")
        if self._interruption.count:
            self._teller.say("interrupted; the same command goes on with what is left", wrong=True)
            return self._interruption.exit_code
        return max(self._ended.values(), default=Exit.REACHED)


def _blender() -> list[str]:
    """The command that starts another Blender as this one was, up to the arguments of ours."""
    if not bpy.app.binary_path:  # Blender is a Python module here
        package = __name__.partition(".")[0]
        return [sys.executable, "-m", package]
    own = sys.argv[1:]
    before = own[: next((i for i, given in enumerate(own) if given in {"--command", "-c"}), 0)]
    options = [given for given in before if not given.lower().endswith(".blend")]
    return [bpy.app.binary_path, *(options or ["--background"]), "--command", COMMAND]
