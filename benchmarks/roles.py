# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles recognised on many rigs against what they are, as a table: scripts/roles.

Exits with 1 if a rig has no truth, cannot be read, or a role is missed or wrong. What rigs are is in
`roles_truth.json`, written down by looking at them. It holds truths by name, and for each rig, as a pattern
of its name, which of them is its own; the first that fits counts. A truth gives for each side the bones that
have a role, or several that are as good, with `|`; all other bones must have none. A joint is called by where
it is hinged: the hand begins at the wrist, the foot at the ankle.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Final, NamedTuple

from bpy.types import Object

from benchmarks.page import arguments, progress, publish, said_of, stored
from benchmarks.rigs import EVERY_RIG, every_rig
from benchmarks.timing import timed
from blender_ik_addon.core import Skeleton
from blender_ik_addon.core.character.roles import Choice, Role, Side, recognise
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.role_table import read_hints

RUNS: Final = 5  # How often each recognition is timed; the fastest counts
WANTED, SMALL = 1.0, 200  # Longest time [s] for a rig of so many bones or fewer
BODY: Final = frozenset(Role) - {Role.FINGER, Role.TOE, Role.HEAD_PART, Role.EYE, Role.JAW}
"""Roles that effectors stand on, which shape alone should give as well."""


# What rigs are


class Expected(NamedTuple):
    """What is right for one bone."""

    roles: frozenset[Role]
    side: Side

    def __str__(self) -> str:
        return f"{' or '.join(sorted(self.roles))} {self.side}"

    def fits(self, choice: Choice | None) -> bool:
        """Whether a bone was recognised as that."""
        return choice is not None and choice.role in self.roles and choice.side == self.side


def truth_of(rig: str, names: Sequence[str]) -> dict[str, Expected]:
    """Role and side of each bone of a rig that has one, of bones with some names.

    Raises:
        ValueError: There is no truth, or it names a bone that is not there.
    """
    known = stored("roles_truth")
    truth = next((truth for pattern, truth in known["rigs"].items() if fnmatch(rig, pattern)), None)
    if truth is None:
        raise ValueError("nobody has written down what it is")
    found = {
        name: Expected(frozenset(map(Role, roles.split("|"))), Side(side))
        for side, bones_of in known["truths"][truth].items()
        for roles, bones in bones_of.items()
        for name in bones
    }
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(f"the truth speaks of {unknown[0]!r}, which the rig does not have")
    return found


# What is recognised


class Row:
    """One rig, recognised and compared with its truth.

    Raises:
        ValueError: There is no truth, or it does not fit the rig.
    """

    def __init__(self, rig: str, armature_object: Object) -> None:
        skeleton = read_armature(armature_object).skeleton
        hints = read_hints(armature_object, skeleton)
        truth = truth_of(rig, skeleton.names)
        runs = [timed(recognise, skeleton, hints) for _ in range(RUNS)]
        character, self.seconds = runs[0][0], min(seconds for _, seconds in runs)
        given = {choice.name: choice for choice in character.choices}
        self.rig, self.bones, self.notes = rig, len(skeleton), character.notes
        self.figures = [str(figure.body) for figure in character.figures]
        """Their kinds."""
        self.wanted = len(truth)
        """How many bones have a role in truth."""
        self.extra = [f"{name}: {of.role} {of.side}" for name, of in given.items() if name not in truth]
        """Bones that got a role and have none in truth."""
        self.missed = [name for name in truth if name not in given]
        """Bones that got none."""
        self.wrong = [
            f"{name}: {given[name].role} {given[name].side}, is {right}"
            for name, right in truth.items()
            if name in given and not right.fits(given[name])
        ]
        """Bones that got another one, or the other side."""
        self.found = self.wanted - len(self.missed) - len(self.wrong)
        self.shape_good, self.shape_all = (0, 0) if rig.startswith("generated") else by_shape(skeleton, truth)
        """How many roles of `BODY` shape alone got right, and their number."""
        self.good = not (self.missed or self.wrong)


def by_shape(skeleton: Skeleton, truth: dict[str, Expected]) -> tuple[int, int]:
    """How many bones of the body get their role without any name, and how many there are."""
    names = [f"bone_{joint:03d}" for joint in range(len(skeleton))]
    nameless = Skeleton.build(names, skeleton.parents.tolist(), rest=skeleton.rest)
    choices = {skeleton.names[choice.joint]: choice for choice in recognise(nameless).choices}
    body = {name: right for name, right in truth.items() if right.roles & BODY}
    return sum(right.fits(choices.get(name)) for name, right in body.items()), len(body)


def main() -> int:
    """Run from the command line."""
    options = arguments("scripts/roles", __doc__, **EVERY_RIG).parse_args()
    rows: list[Row] = []
    details: list[str] = []
    for rig, found in every_rig(options.data, options.only):
        try:
            if not isinstance(found, Object):
                raise ValueError(found or "nothing was made")
            row = Row(rig, found)
        except ValueError as error:
            details.append(f"{rig}: {error}")
            continue
        rows.append(row)
        for what, entries in (("missed", row.missed), ("wrong", row.wrong), ("extra", row.extra)):
            if entries:
                details.append(f"{rig}: {what}: {'; '.join(entries)}")
        progress(rig, f"{row.found} of {row.wanted}")
    publish(
        options,
        "roles",
        globals(),
        rows=rows,
        small=[row for row in rows if row.bones <= SMALL],
        details=details or ["None."],
        notes=said_of([(row.rig, row.notes) for row in rows]),
    )
    return 1 if any(": extra: " not in line for line in details) else 0
