# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bones of known rigs are, written down by looking at them: `roles_truth.json`, read.

It holds truths by name, and for each rig, as a pattern of its name, which of them is its own; the first that
fits counts. The first line of a truth gives the words for left and right, of which `*` in a name stands for
the first pair, `%` for the second and `$` for the third. Each further line is a role (or several that are as
good, with `|`) and the bones that have it. `{a,b}` and `{1-3}` stand for each of them. `below NAME` means
every bone below that one which no other line names. A line that begins with `-` lists bones that must have
no role; so must all bones that are not listed.

Where a name and anatomy disagree, or two readings are as good, both stand there. A joint is called by where
it is hinged: the hand begins at the wrist, the foot at the ankle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import NamedTuple

from blender_ik_addon.core.character.roles import Role, Side

SIDES = (Side.LEFT, Side.RIGHT)


class Expected(NamedTuple):
    """What is right for one bone."""

    roles: frozenset[Role]
    side: Side


def expand(pattern: str, pairs: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, Side]]:
    """Names that a pattern with braces and places for sides stands for, with their sides."""
    choices: list[list[str]] = []
    for piece in re.split(r"(\{[^}]*\})", pattern):
        span = re.fullmatch(r"\{(\d+)-(\d+)\}", piece)
        if span:
            choices.append([str(i).zfill(len(span[1])) for i in range(int(span[1]), int(span[2]) + 1)])
        else:
            choices.append(piece[1:-1].split(",") if piece.startswith("{") else [piece])
    for name in map("".join, product(*choices)):
        if not set(name) & set("*%$"):
            yield name, side_of(name, pairs)
            continue
        for number, side in enumerate(SIDES):
            sided = name
            for place, words in zip("*%$", pairs, strict=False):
                sided = sided.replace(place, words[number])
            yield sided, side


def truth_of(rig: str) -> list[str]:
    """The lines of a rig's truth.

    Raises:
        ValueError: There is none.
    """
    known = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    name = next((truth for pattern, truth in known["rigs"].items() if fnmatch(rig, pattern)), None)
    if name is None:
        raise ValueError("nobody has written down what it is")
    return known["truths"][name]


def expected(lines: Sequence[str], names: Sequence[str], parents: Sequence[int]) -> dict[str, Expected]:
    """Role and side of each bone of a rig that has one, by the lines of a truth.

    Raises:
        ValueError: The truth names a bone that is not there, or one twice.
    """
    pairs = [tuple(words.split("/")) for words in lines[0].removeprefix("sides").split()]
    found: dict[str, Expected] = {}
    below: list[tuple[frozenset[Role], str]] = []
    for line in lines[1:]:
        head, _, rest = line.partition(":")
        roles = frozenset(Role(role) for role in head.split("|")) if head != "-" else frozenset[Role]()
        if rest.strip().startswith("below "):
            below.append((roles, rest.strip().removeprefix("below ")))
            continue
        for name, side in (each for pattern in rest.split() for each in expand(pattern, pairs)):
            if name in found:
                raise ValueError(f"the truth speaks twice of {name!r}")
            found[name] = Expected(roles, side)
    unknown = [name for name in (*found, *(top for _, top in below)) if name not in names]
    if unknown:
        raise ValueError(f"the truth speaks of {unknown[0]!r}, which the rig does not have")
    for roles, top in below:
        for joint, name in enumerate(names):
            parent = parents[joint]
            while parent >= 0 and names[parent] != top:
                parent = parents[parent]
            if parent >= 0:
                found.setdefault(name, Expected(roles, side_of(name, pairs)))
    return {name: right for name, right in found.items() if right.roles}


def side_of(name: str, pairs: Sequence[tuple[str, ...]]) -> Side:
    """Side of a bone that has it as a word of its name."""
    for words in pairs:
        for word, side in zip(words, SIDES, strict=False):
            if re.search(rf"(?:^|[._\s]){re.escape(word.strip('._'))}(?:$|[._\s])", name):
                return side
    return Side.CENTRE
