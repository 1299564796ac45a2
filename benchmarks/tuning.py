# SPDX-License-Identifier: GPL-3.0-or-later
"""The tuning constants of the solver, and whether its behaviour hangs on one of them: scripts/check --tuning.

A tuning constant is every number that stands as a `Final` at the top of a module of the core, except in those
that are not the solver's (`outside` in `tuning.json`, by what they are for) and except what is no matter of
tuning (`definitions`, with the reason). So a new one is in the table as soon as it is written.
Each of its numbers is halved and doubled in a copy of the source, and the tests run against that:
no test of behaviour should fail. All of it takes an hour or two; --only takes some of the constants, and when
it is stopped (Ctrl C) it tells what it has.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, is_dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from benchmarks.page import arguments, filled, progress, publish, stored, template

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = Path("blender_ik_addon/core")

PATIENCE: Final = 8.0
"""Time after which tests do not end, by that of the same tests with the constants as they are [1]."""

FACTORS: Final = {"halved": 0.5, "doubled": 2.0}


@dataclass(frozen=True)
class Constant:
    """A tuning constant."""

    name: str  # By its module in the core, such as engine.kernel.GROW
    value: str  # As it is written
    meaning: str  # The docstring below it, as a cell of a table
    numbers: tuple[tuple[int, int, bool], ...]  # Line and column of each, and whether it is a whole number


def constants() -> list[Constant]:
    """All tuning constants, in the order of their modules."""
    known = stored("tuning")
    outside = {name for names in known["outside"].values() for name in names}
    found: list[Constant] = []
    for path in sorted((ROOT / CORE).rglob("*.py")):
        parts = path.relative_to(ROOT / CORE).with_suffix("").parts
        if not outside.intersection((parts[0], ".".join(parts))) and parts[-1] != "__init__":
            module = importlib.import_module(".".join((*CORE.parts, *parts)))
            found += constants_of(path, ".".join(parts), vars(module))
    return [constant for constant in found if constant.name not in known["definitions"]]


def constants_of(path: Path, name: str, values: Mapping[str, Any]) -> list[Constant]:
    """The constants of a module that are numbers.

    Args:
        path: Of its source.
        name: By which the constants are called, such as engine.kernel.
        values: Of its constants by their names.
    """

    def numbers(node: ast.expr, value: Any) -> Iterator[tuple[int, int, bool]]:
        if isinstance(value, int | float):
            yield node.lineno, node.col_offset, isinstance(value, int)
        elif isinstance(node, ast.Tuple) and isinstance(value, tuple):
            for part, content in zip(node.elts, value, strict=True):
                yield from numbers(part, content)
        elif isinstance(node, ast.Call) and is_dataclass(value) and not isinstance(value, type):
            for part, content in zip(node.args, astuple(value), strict=False):
                yield from numbers(part, content)

    found: list[Constant] = []
    meaning = ""
    for statement in reversed(ast.parse(path.read_text(encoding="utf-8")).body):
        match statement:
            case ast.Expr(value=ast.Constant(value=str(text))):
                meaning = re.sub(r"\s+", " ", text).replace("|", "\\|")
            case ast.AnnAssign(target=ast.Name(id=label), value=ast.expr() as value):
                inside = tuple(numbers(value, values[label]))
                if inside and ast.unparse(statement.annotation).startswith("Final"):
                    found.append(Constant(f"{name}.{label}", ast.unparse(value), meaning, inside))
            case _:
                pass
    return found[::-1]


def scaled(source: str, number: tuple[int, int, bool], factor: float) -> str:
    """The source with a number multiplied; whole ones stay whole and at least 1."""
    line, column, whole = number

    class Scaling(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, ast.expr) and (node.lineno, node.col_offset) == (line, column):
                text = f"{factor} * ({ast.unparse(node)})"
                return ast.parse(f"max(1, int({text}))" if whole else text, mode="eval").body
            return super().generic_visit(node)

    return ast.unparse(Scaling().visit(ast.parse(source)))


class Copy:
    """A copy of the source, in which constants are changed and tests run."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._folder, self._arguments = folder, list(arguments)
        for name in ("benchmarks", "blender_ik_addon", "docs", "examples", "scripts", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "blender_manifest.toml", "README.md"):
            shutil.copy(ROOT / name, folder / name)
        start = time.monotonic()
        self.failing, _ = self._run(None)
        """The tests that fail with the constants as they are."""
        self._seconds = time.monotonic() - start

    def trial(self, constant: Constant, which: int, change: str) -> str:
        """Run the tests with one number changed; what failed that does not without, "" where nothing did."""
        module, _ = constant.name.rsplit(".", maxsplit=1)
        path = (self._folder / CORE).joinpath(*module.split(".")).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        path.write_text(scaled(source, constant.numbers[which], FACTORS[change]), encoding="utf-8")
        try:
            failed, ended = self._run(PATIENCE * self._seconds)
        finally:
            path.write_text(source, encoding="utf-8")
        names = {test.rsplit("::", maxsplit=1)[-1].split("[")[0] for test in failed - self.failing}
        return ", ".join(sorted(names)) if ended else "no end"

    def _run(self, seconds: float | None) -> tuple[frozenset[str], bool]:
        """The tests that fail, and whether all have ended in so many seconds."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        # Sources that are changed within a second must not be taken for what was compiled before.
        surroundings = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}
        try:
            done = subprocess.run(
                [*command, *self._arguments],
                cwd=self._folder,
                env=surroundings,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return frozenset(), False
        if done.returncode not in (0, 1, 2):
            raise RuntimeError(done.stdout + done.stderr)
        found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return frozenset(found), True


def verdict(trials: Mapping[tuple[str, int, str], str], constant: Constant, change: str) -> str:
    """What failed when the numbers of a constant were changed, as a text."""
    texts: list[str] = []
    for which in range(len(constant.numbers)):
        several = f"number {which + 1}: " if len(constant.numbers) > 1 else ""
        failed = trials.get((constant.name, which, change), "not tried")
        texts += [several + failed] if failed else []
    return "; ".join(texts) or "–"


def main() -> int:
    """Run the trials. Returns the exit code: 1 when a test fails."""
    parser = arguments("scripts/check --tuning", __doc__)
    parser.add_argument("--list", action="store_true", help="only show the constants")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="constants, or modules, by a part of the name"
    )
    parser.add_argument("arguments", nargs="*", help="for pytest, after --; default tests/core")
    options = parser.parse_args()
    found = constants()
    only: list[str] = options.only
    chosen = [each for each in found if not only or any(f".{name}." in f".{each.name}." for name in only)]
    if not chosen:
        parser.error(f"there is no {', '.join(only)}; there are {', '.join(each.name for each in found)}")
    if options.list:
        print(filled(template("tuning_list"), {"constants": chosen}))
        return 0
    trials: dict[tuple[str, int, str], str] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), options.arguments or ["tests/core"])
        for test in sorted(copy.failing):
            progress(f"fails without a change, so it does not count: {test}")
        try:
            for each in chosen:
                for which, change in product(range(len(each.numbers)), FACTORS):
                    failed = trials[each.name, which, change] = copy.trial(each, which, change)
                    progress(f"{each.name}, number {which + 1}, {change}: {failed or 'ok'}")
        except KeyboardInterrupt:
            progress("Stopped: what follows is of the changes that were tried.")
    good = sum(not failed for failed in trials.values())
    publish(
        options,
        "tuning",
        globals(),
        constants=chosen,
        good=good,
        trials=trials,
        tried=[
            SimpleNamespace(constant=each, **{change: verdict(trials, each, change) for change in FACTORS})
            for each in chosen
            if (each.name, 0, "halved") in trials
        ],
        found=found,
    )
    return 0 if good == len(trials) else 1
