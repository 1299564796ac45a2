# SPDX-License-Identifier: GPL-3.0-or-later
"""The field's words: names that have been given up do not come back."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "blender_ik_addon"

MODULES = {
    "answering": "driven_bones",
    "attachment": "target_parents",
    "carried_targets": "moved_targets",
    "choosing": "alternatives",
    "clearance": "slacks",
    "course": "sequence",
    "equilibrium": "engine",
    "falling": "engine",
    "grabbing": "dragging",
    "holding": "drag_anchors",
    "keeping": "structure",
    "lockstep": "engine",
    "marks": "overlay_geometry",
    "memory": "noted",
    "movements": "limit_boxes",
    "placing": "transforms",
    "pursuit": "follower",
    "revision": "role_edits",
    "spreading": "engine",
    "stage": "frame_data",
    "weaving": "engine",
    "yielding": "follower",
}
"""Modules whose names are retired, with what is in their place."""

IDENTIFIERS = {
    "Answers": "DrivenBones",
    "Manner": "FollowMode",
    "Memory": "LiveState",
    "Occasion": "Trigger",
    "Stage": "FrameData",
    "footing": "null-space basis",
    "manner": "mode",
    "occasion": "trigger",
    "stage": "frame_data",
    "wish": "preferred-pose term",
}
"""Retired identifiers, with what is said instead."""

ONLY_OURS = ("lockstep", "weaving", "footing", "evenings")
"""Those of them that have no other use in prose."""


def names_in(source: str) -> set[str]:
    """All identifiers in a source."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def test_no_module_has_a_retired_name():
    found = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py") if path.stem in MODULES}
    assert found == set()


def test_no_identifier_is_retired():
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}, say {IDENTIFIERS[name]}"
        for path in PACKAGE.rglob("*.py")
        for source in [path.read_text(encoding="utf-8")]
        if any(name in source for name in IDENTIFIERS)
        for name in IDENTIFIERS.keys() & names_in(source)
    }
    assert found == set()


@pytest.mark.parametrize("word", ONLY_OURS)
def test_retired_words_are_in_no_text_that_users_read(word: str):
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page.name for page in pages if re.search(rf"\b{word}\b", page.read_text(encoding="utf-8"))] == []
