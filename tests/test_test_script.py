# SPDX-License-Identifier: GPL-3.0-or-later
"""What `scripts/test` promises: what hangs is ended, and the processors that can be asked for are known."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

HANGING = """
import atexit, signal

def wait():
    while True:
        signal.pause()

def test_that_hangs():
    assert signal.alarm(1) > 60, "the clock is not wound up"
    {}
"""


def test_a_process_that_hangs_is_ended(tmp_path: Path):
    """In a test, with its stack, and at exit; both wait at once."""
    cases = {"wait()": "in test_that_hangs", "atexit.register(wait)": "1 passed"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    begun: list[subprocess.Popen[str]] = []
    for number, how in enumerate(cases):
        path = tmp_path / f"test_hanging_{number}.py"
        path.write_text(HANGING.format(how), encoding="utf-8")
        begun.append(
            subprocess.Popen(
                [*command, "--rootdir", str(tmp_path), str(path)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    for process, told in zip(begun, cases.values(), strict=True):
        output, _ = process.communicate()
        assert process.returncode == -signal.SIGALRM, output
        assert told in output


def listed(*arguments: str) -> list[str]:
    """What the script would run."""
    command = ["bash", "scripts/test", "--list", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.partition(":")[0] for line in done.stdout.splitlines()]


def test_all_is_every_version_that_has_pins():
    every = listed("--all")
    assert every[:2] == ["core", "core with numpy 1.26, Python 3.11"]
    pins = (ROOT / "requirements").glob("blender-*.txt")
    blenders = {line.split(",")[0].removeprefix("Blender ") for line in every[2:]}
    assert blenders == {path.stem.removeprefix("blender-") for path in pins}
    assert {line.partition("Python ")[2] for line in every[2:]} == {"3.11", "3.13"}


def test_what_is_chosen_is_all_that_is_run():
    assert listed() == ["core", *(f"Blender {v}, Python {p}" for v, p in USUAL.items())]
    assert listed("--core") == listed("tests/core/test_x.py") == ["core"]
    assert listed("--blender", "5.1") == ["Blender 5.1, Python 3.13"]
    assert listed("--gui", "--kernel=Nehalem") == ["core with the rounding of Nehalem", "window"]


USUAL = {"5.2": "3.13", "5.0": "3.11", "4.5": "3.11"}
"""Blenders that every run tests, with their Pythons."""


def kernel_missing(kernel: str, flags: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Ask what a processor with these flags lacks."""
    cpuinfo = folder / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: avx512f\n", encoding="utf-8")
    return subprocess.run(
        ["bash", "-c", 'source scripts/_environment.sh; kernel_missing "$@"', "bash", kernel, str(cpuinfo)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("kernel", "missing"),
    [("Nehalem", ""), ("Haswell", ""), ("SkylakeX", "avx512f, avx512cd, avx512bw, avx512dq, avx512vl")],
)
def test_a_kernel_that_the_processor_cannot_run_is_known(kernel: str, missing: str, tmp_path: Path):
    done = kernel_missing(kernel, "fpu pni ssse3 sse4_1 sse4_2 avx avx2 fma", tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, missing), done.stderr


def test_a_kernel_that_there_is_not_is_refused_with_those_that_there_are(tmp_path: Path):
    done = kernel_missing("Pentium", "fpu", tmp_path)
    assert done.returncode == 1
    assert "no kernel 'Pentium'" in done.stderr and "Nehalem" in done.stderr
