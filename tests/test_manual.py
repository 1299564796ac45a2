# SPDX-License-Identifier: GPL-3.0-or-later
"""The manual says what there is: links lead somewhere, and names are those of the program."""

import functools
import re
from pathlib import Path
from typing import Final

import pytest

from blender_ik_addon.core.problem.options import METHODS, USED_BY
from blender_ik_addon.scene.kinds.kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "blender_ik_addon"
DOCS = ROOT / "docs"
MANUAL = (DOCS / "manual.md", *sorted((DOCS / "manual").glob("*.md")))

LONGEST_PAGE: Final = 150
"""Lines from which on a page of the manual is to be split."""

LABELLED_OTHERWISE: Final = {
    "enabled": "whether the effector is used",
    "error_position": "in millimetres",
    "index": "",
    "lower": "the two angles",
    "mass": "a mass of their own",
    "orientation_axes": "Orientation",
    "position_axes": "Position",
    "show": "Overlay",
    "upper": "the two angles",
    "use_limit": "X, Y, Z",
}
"""Properties that the panels show without their names -> what the manual says of them."""


@functools.cache
def text_of(path: Path) -> str:
    """A file's text; most are asked for more than once."""
    return path.read_text(encoding="utf-8")


@functools.cache
def manual() -> str:
    """All pages of the manual as one text in which line breaks are spaces."""
    return " ".join(" ".join(text_of(page).split()) for page in MANUAL)


@functools.cache
def source() -> str:
    """The code of the package: strings over several lines made one, what is inserted an ellipsis."""
    code = "\n".join(text_of(path) for path in sorted(PACKAGE.rglob("*.py")))
    return re.sub(r"\{[^{}\n]*\}", "…", re.sub(r'"\s*\n\s*f?"', "", code))


@functools.cache
def interface() -> str:
    """The code of panels and operators."""
    return "\n".join(text_of(path) for path in sorted((PACKAGE / "ui").glob("*.py")))


def prose(page: Path) -> str:
    """A page without its code, in which brackets are no links."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text_of(page), flags=re.DOTALL)


def links(page: Path) -> list[str]:
    """The relative links and pictures of a page."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


@functools.cache
def anchors(page: Path) -> set[str]:
    """What can follow a number sign in a link to a page: its headings, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ +(.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def operators() -> set[str]:
    """Identifiers of all operators and tools."""
    found = re.findall(r'^class POISE_OT_(\w+)\(|bl_idname = "poise\.(\w+)"', interface(), re.MULTILINE)
    return {operator or tool for operator, tool in found}


def labels() -> dict[str, str]:
    """Names that properties have in the interface, by identifier."""
    files = (*(PACKAGE / "scene" / "properties").glob("*.py"), *(PACKAGE / "ui").glob("*.py"))
    code = "\n".join(text_of(path) for path in files)
    found = re.findall(r'^    (\w+): (?!_setting)(?:.* = )?\w+\(\s*(?:name=)?"([^"]+)"', code, re.MULTILINE)
    return dict(found)


def test_every_link_leads_somewhere():
    dead = []
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for link in links(page):
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            there = target.is_file() or (target.is_dir() and not anchor)
            if not there or (anchor and anchor not in anchors(target)):
                dead.append(f"{page.relative_to(ROOT)}: {link}")
    assert dead == []


def test_every_picture_is_shown_somewhere():
    shown = {
        (page.parent / link).resolve()
        for page in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for link in links(page)
    }
    pictures = {path for path in DOCS.rglob("*") if path.suffix in {".png", ".gif"}}
    assert sorted(str(path.relative_to(ROOT)) for path in pictures - shown) == []


def test_every_page_is_short_and_can_be_found_from_the_first():
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(MANUAL[0])}
    assert [page.name for page in MANUAL[1:] if page not in listed] == []
    lengths = {page.name: len(text_of(page).splitlines()) for page in MANUAL}
    assert {name: length for name, length in lengths.items() if length >= LONGEST_PAGE} == {}


def test_operators_are_called_as_they_are():
    texts = "\n".join(text_of(page) for page in (ROOT / "README.md", *DOCS.rglob("*.md")))
    named = set(re.findall(r"(?<![\w.])poise\.([a-z_]+)|bpy\.ops\.poise\.(\w+)", texts))
    named = {first or second for first, second in named} - {"scene", "verb_noun"}
    there = operators()
    assert len(there) > 20
    assert named - there == set()


def test_every_operator_is_in_the_manual():
    named = set(re.findall(r"`poise\.(\w+)`", manual()))
    assert operators() - named - {"drag_tool"} == set()
    assert "Drag with Body" in manual()  # the tool, which is called by nothing but its name


def test_every_method_is_in_the_manual():
    names = {
        name: re.search(rf"'{name}': \"([^\"]+)\"", text_of(PACKAGE / "scene" / "properties" / "settings.py"))
        for name in METHODS
    }
    rows = text_of(DOCS / "manual" / "solving.md")
    missing = [
        name
        for name, label in names.items()
        if f"| {label[1] if label else name.replace('_', ' ').title()} | `{name}` |" not in rows
    ]
    assert missing == []


def test_every_kind_of_effector_is_in_the_manual():
    kinds = [kind.item[0] for kind in KINDS.values()]
    headings = anchors(DOCS / "manual" / "kinds.md")
    assert [kind for kind in kinds if kind.lower().replace(" ", "-") not in headings] == []


def test_every_setting_that_panels_show_is_in_the_manual():
    shown = set(re.findall(r"\.prop(?:_search)?\(\s*[\w.()]+,\s*\"(\w+)\"", interface()))
    shown |= set(re.findall(r"draw_(?:axes|animated)\(\w+, \w+, \"(\w+)\"", interface()))
    options = re.findall(r"\bdraw\((\"\w+\"(?:, \"\w+\")*)", interface())  # of a bake
    shown |= {f"bake_{name}" for names in options for name in re.findall(r"\w+", names)}
    shown |= {name for kind in KINDS.values() for name in (*kind.fields, *kind.more)}
    shown |= set(USED_BY) & set(labels())
    assert {"chain_depth", "role", "move_root", "damping", "mass_source", "position_axes"} <= shown
    assert {"bake_fewest", "bake_channels", "bake_ease_out"} <= shown
    words = {name: LABELLED_OTHERWISE.get(name, label) for name, label in labels().items() if name in shown}
    look = {name: labels()[name] for name in re.findall(r"(\w+): _colour", interface())}
    assert [name for name, label in (words | look).items() if label not in manual()] == []


def test_every_panel_and_button_is_in_the_manual():
    """Those of the sidebar, of menus and of operators, which some buttons call otherwise."""
    otherwise = {
        "Add Target to Choose From": "Add Target",
        "Edit Limits": "Edit, From Rig",
        "Edit Masses": "Edit, the cross",
        "Edit Roles": "+ and −",
        "Remove Target to Choose From": "minus beside a target",
        "Save Preset": "**Save**",
    }
    found: list[str] = re.findall(r'^(?:    bl_label = |class .*label=)"([^"]+)"', interface(), re.MULTILINE)
    assert len(found) > 30
    assert [label for label in found if otherwise.get(label, label) not in manual()] == []


@pytest.mark.parametrize("page", ["messages.md", "buttons.md"])
def test_messages_are_those_of_the_program(page: str):
    rows = re.findall(r"^\| (`[^|]+`) \|", text_of(DOCS / "manual" / page), re.MULTILINE)
    messages = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    assert len(messages) > 5
    assert [message for message in messages if message not in source()] == []


def test_every_argument_of_the_command_line_is_in_the_manual():
    code = text_of(PACKAGE / "cli" / "arguments.py")
    arguments = set(re.findall(r'(?<!= )"(--[a-z-]+)"', code)) | {"--ease-in", "--ease-out"}
    assert {"--armature", "--redo", "--range"} <= arguments
    tasks = re.findall(r'tasks\.add_parser\(\s*"([a-z]+)"', code)
    assert len(tasks) == 6
    arguments.update(tasks)
    page = text_of(DOCS / "manual" / "command-line.md")
    assert [argument for argument in arguments if f"`{argument}`" not in page] == []


def test_every_function_for_scripts_is_in_the_manual():
    listed = re.search(r"__all__ = \[(.*?)\]", text_of(PACKAGE / "scene" / "posing.py"), re.DOTALL)
    assert listed is not None
    functions = [name for name in re.findall(r'"(\w+)"', listed[1]) if name.islower()]
    assert "solve_pose" in functions
    page = text_of(DOCS / "manual" / "python.md")
    assert [name for name in functions if f"`{name}`" not in page] == []
    called = {name for path in MANUAL for name in re.findall(r"posing\.(\w+)\(", text_of(path))}
    assert called - set(functions) == set()
