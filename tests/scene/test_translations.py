# SPDX-License-Identifier: GPL-3.0-or-later
"""Every text of the interface can be translated, and every language has all of them."""

import ast
import pickle
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from string import Formatter
from typing import Any

import bpy
import pytest

from blender_ik_addon.core import IKError
from blender_ik_addon.core.character.roles.character import LimbKind, Role
from blender_ik_addon.core.messages import Joined, Message, both, counted, either, in_a_row, sentences
from blender_ik_addon.scene import posing, translations
from blender_ik_addon.scene.translations import LANGUAGES, translated

from . import builders

PACKAGE = Path(translations.__file__).resolve().parents[2]

OUTSIDE = (
    *("__main__.py", "cli/", "core/io/", "core/plot.py", "scene/translations/"),
    *("core/keys.py", "core/methods/", "core/motion.py", "core/problem/", "core/tasks/"),
    *("core/model/kinematics.py", "core/model/rotation.py", "core/model/skeleton.py"),
    *(
        "core/solve/follower.py",
        "core/methods/paths.py",
        "core/solve/tracker.py",
        "core/character/volumes.py",
    ),
)
"""What says nothing to users of the interface: the command line is in English, and so is what is wrong with
arguments that only programs give. The translations themselves are no texts to translate."""

MAKERS = {"Message": (0,), "IKError": (0,), "counted": (1, 2)}
"""What makes messages -> which arguments are templates."""

SHOWN_BY = {
    "label": "text",
    "operator": "text",
    "prop": "text",
    "menu": "text",
    "draw_axes": "heading",
    "Shortcut": "title",
}
"""What shows texts that Blender translates -> the argument that is one."""

WORDS: tuple[type[StrEnum], ...] = (Role, LimbKind)
"""Words that messages have as values."""

OWNERS = (bpy.types.Action, bpy.types.Object, bpy.types.PoseBone, bpy.types.Scene)
"""Types of Blender that have properties of the add-on."""

NO_WORDS = re.compile(r"[^a-zA-Z]*|-?[XYZLR]{1,3}")
"""What needs no translation: signs, axes."""

NAMES = {"Poise"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules with texts of the interface."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(OUTSIDE):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def called(node: ast.AST) -> str:
    """The name of what a call calls; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def literals(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body)
        yield from literals(node.orelse)


def messages() -> set[str]:
    """Templates of all messages."""
    found: set[str] = set()
    for _name, tree in modules():
        for node in ast.walk(tree):
            for place in MAKERS.get(called(node), ()):
                assert isinstance(node, ast.Call)
                found.update(text for argument in node.args[place : place + 1] for text in literals(argument))
    return found


def drawn() -> set[str]:
    """Texts that panels give to Blender, which translates them."""
    found: set[str] = set()
    for name, tree in modules():
        if name.startswith("ui/"):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and (wanted := SHOWN_BY.get(called(node))):
                    for keyword in node.keywords:
                        if keyword.arg == wanted:
                            found.update(literals(keyword.value))
                # Pairs or triples of a loop: a name of a property, and how it is called.
                if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
                    for own in node.iter.elts:
                        if isinstance(own, ast.Tuple) and isinstance(own.elts[-1], ast.Constant | ast.Tuple):
                            found.update(
                                text for part in own.elts for text in literals(part) if text[:1].isupper()
                            )
    return {text for text in found if not text.isupper()}


def classes() -> Iterator[type]:
    """All classes of the add-on that Blender knows."""
    stack: list[type] = [bpy.types.Operator, bpy.types.Panel, bpy.types.Menu, bpy.types.UIList]
    stack += [bpy.types.PropertyGroup, bpy.types.AddonPreferences, bpy.types.WorkSpaceTool]
    stack += [bpy.types.Macro, bpy.types.GizmoGroup]
    while stack:
        cls = stack.pop()
        stack += cls.__subclasses__()
        if cls.__name__.startswith("POISE_"):
            yield cls


def declared() -> set[str]:
    """Names and tooltips of what Blender knows of the add-on."""
    found: set[str] = set()
    for cls in classes():
        found.update(getattr(cls, name, "") or "" for name in ("bl_label", "bl_description"))
        if issubclass(cls, bpy.types.Operator):
            found.add((cls.__doc__ or "").strip())
        if issubclass(cls, bpy.types.Operator | bpy.types.PropertyGroup | bpy.types.AddonPreferences):
            found |= texts_of(properties_of(cls))
    for owner in OWNERS:
        found |= texts_of([own for own in owner.bl_rna.properties if own.identifier.startswith("poise")])
    return found


def properties_of(cls: Any) -> list[Any]:
    """The properties of a class that the add-on has declared."""
    rna = cls.bl_rna
    if issubclass(cls, bpy.types.Operator):
        group, name = cls.bl_idname.split(".")
        rna = getattr(getattr(bpy.ops, group), name).get_rna_type()
    given = {(own.identifier, own.description) for own in rna.base.properties} if rna.base else set[Any]()
    own = [own for own in rna.properties if (own.identifier, own.description) not in given]
    return [each for each in own if each.identifier != "rna_type"]


def texts_of(properties: list[Any]) -> set[str]:
    """Names and tooltips of properties and of their items."""
    found: set[str] = set()
    for own in properties:
        found |= {own.name, own.description}
        if own.type == 'ENUM':
            items = own.enum_items_static if hasattr(own, "enum_items_static") else own.enum_items
            found |= {text for item in items for text in (item.name, item.description)}
    return found


def placeholders(text: str) -> list[tuple[str, str, str]]:
    """Names in braces with their format and conversion, in the order of the alphabet."""
    parts = Formatter().parse(text)
    return sorted((name, how or "", as_what or "") for _, name, how, as_what in parts if name is not None)


def words_of(text: str) -> str:
    """A template without its placeholders."""
    return "".join(before for before, *_ in Formatter().parse(text))


def needed() -> set[str]:
    """All texts that a language must have."""
    words = {word.value for kind in WORDS for word in kind}
    every = messages() | drawn() | declared() | words
    return {text for text in every if text not in NAMES and not NO_WORDS.fullmatch(words_of(text))}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_missing_in_a_language(language: str):
    lacking = needed() - LANGUAGES[language].keys()
    assert not lacking, "translate these:\n" + "\n".join(f"{text!r}: ''," for text in sorted(lacking))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_no_text_that_nothing_shows(language: str):
    assert LANGUAGES[language].keys() - needed() == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_same_placeholders(language: str):
    other = {
        text: own for text, own in LANGUAGES[language].items() if placeholders(text) != placeholders(own)
    }
    assert other == {}
    assert [text for text, own in LANGUAGES[language].items() if not own.strip()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_begin_and_end_as_the_english_ones(language: str):
    """Blender adds the full stop to tooltips, and the add-on the capital letter to messages."""
    for text, own in LANGUAGES[language].items():
        assert text.endswith(".") == own.endswith("."), text
        assert text.endswith("?") == own.endswith("?"), text


SENTENCE = re.compile(r"[A-Za-z]{2,},? [A-Za-z]{2,}")
"""Two words in a row."""

NOT_SHOWN = {
    *(*MAKERS, "debug", "info", "warning", "error", "exception", "compile", "digest"),
    *("check_type", "check_list", "check_switch", "check_function"),
}
"""Calls whose arguments nobody reads in the interface, or which make messages; wrong types come from code."""

FOR_PROGRAMS = ("core/character/roles/names.py", "scene/live/machine.py")
"""Modules whose other texts are parts of names of bones, or explain states to who reads the code."""

NAMED = {
    " with missed targets)": "repr",
    " Poise Bake": "name of an action",
    "poise preset": "in files",
    "Object Transforms": "name of a channel group, as Blender has it",
    ".Poise Trails": "name of an object",
    "Object Mode": "name of a keymap",
    "Frame Start": "as Blender has it",
}
"""Texts that are not translated, or that Blender's own translation has, and what they are."""


def sentences_in_code() -> Iterator[str]:
    """Texts with words that are neither messages nor declared, in the modules of the interface."""
    known = needed() | NAMED.keys()
    for name, tree in modules():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text, above = node.value, parents.get(node)
                # A docstring is no text; that of an operator is its tooltip, which is declared.
                if isinstance(above, ast.Expr) or text in known or not SENTENCE.search(text):
                    continue
                calls = set[str]()
                while above is not None:
                    calls.add(called(above))
                    above = parents.get(above)
                if NOT_SHOWN.isdisjoint(calls):
                    yield f"{name}:{node.lineno}: {text!r}"


def test_every_sentence_of_the_interface_can_be_translated():
    """Also where it is put together: its parts are sentences too."""
    assert [own for own in sentences_in_code() if not own.startswith(FOR_PROGRAMS)] == []


def test_the_search_for_sentences_finds_what_it_is_for(monkeypatch: pytest.MonkeyPatch):
    source = 'self.report({"INFO"}, f"nobody has translated {this}")\nMessage("nobody else has")\n'
    monkeypatch.setattr(f"{__name__}.modules", lambda: [("ui/new.py", ast.parse(source))])
    monkeypatch.setattr(f"{__name__}.needed", set)
    assert list(sentences_in_code()) == ["ui/new.py:1: 'nobody has translated '"]


def test_operators_report_messages():
    """What Blender shows as it is has been translated: a text in its place would stay English."""
    found: list[str] = []
    for name, tree in modules():
        for node in ast.walk(tree):
            kind = called(node)
            if isinstance(node, ast.Call) and kind in AS_IT_IS and len(node.args) == AS_IT_IS[kind]:
                said = node.args[-1]
                if isinstance(said, ast.JoinedStr | ast.BinOp) or any(literals(said)):
                    found.append(f"{name}:{node.lineno}: {ast.unparse(said)}")
    assert found == []


AS_IT_IS = {"report": 2, "tell": 1, "status_text_set": 1, "header_text_set": 1, "poll_message_set": 1}
"""What shows a text as it is -> its number of arguments, of which the last is the text."""


def test_a_message_is_english_and_knows_its_parts():
    text = Message("{name} by {amount}", name="hand.R", amount=Message("an unknown distance"))
    assert text == "hand.R by an unknown distance"
    words = {"{name} by {amount}": "{amount} bei {name}", "an unknown distance": "ein Abstand"}
    assert text.translated(lambda own: words.get(own, own)) == "ein Abstand bei hand.R"
    assert Message("100 % {braces}") == "100 % {braces}"
    row = in_a_row(["a", "b", "c"], 2)
    assert row == "a, b and 1 more"
    assert row.translated(lambda _: "{list} u. {count} a.") == "a, b u. 1 a."
    assert both(["a"]) == "a" and both(["a", "b", "c"]) == "a and b and c" and either("ab") == "a or b"
    assert counted(1, "{count} key", "{count} keys") == "1 key"
    assert counted(2, "{count} key", "{count} keys") == "2 keys"
    said = sentences("one", Message("two"))
    assert said == "One. Two"
    assert said.translated(lambda _: "zwei") == "One. Zwei"
    shown = {"the {role} of it": "deren {role}", "hips": "Hüfte"}
    assert Message("the {role} of it", role=Role.HIPS).translated(lambda own: shown[own]) == "deren Hüfte"


def test_copies_of_messages_know_their_parts_too():
    whole = Joined("; ", [Message("{count} {what}", count=2, what=Role.HAND), "name"], capitals=True)
    again = pickle.loads(pickle.dumps(whole))
    assert again == whole == "2 hand; Name"
    words = {"{count} {what}": "{count} mal {what}", "hand": "die Hand"}
    assert again.translated(lambda own: words[own]) == "2 mal die Hand; Name"


def test_errors_carry_their_message():
    error = IKError("there is no bone {bone!r}", bone="hand.R")
    assert str(error) == "there is no bone 'hand.R'"
    assert error.message.template == "there is no bone {bone!r}"
    assert IKError(error.message).message is error.message


def german(text: str) -> str:
    """The German of a message; every template must be there."""
    assert isinstance(text, Message)
    return text.translated(lambda own: own if NO_WORDS.fullmatch(words_of(own)) else LANGUAGES["de_DE"][own])


def test_reports_are_german_to_the_last_word():
    armature = builders.chain(4)
    posing.add_effector(armature, "bone.003", kind='BOTH')
    assert german(posing.solve_pose(armature).summary()).startswith("Das Ziel ist erreicht, nach ")
    armature.poise.move_root = False
    armature.poise.effectors[0].target.location = (0.0, 0.0, 9.0)
    missed = german(posing.solve_pose(armature).summary())
    assert missed.startswith("1 von 1 Zielen verfehlt: bone.003 um ")
    assert "außer Reichweite" in missed or "jenseits der größten Reichweite seiner Kette" in missed
    for line in posing.diagnose(armature).lines:
        german(line)
    baked = posing.bake(armature, range(1, 4))
    assert "3 Bilder in 'chain Poise Bake' gebacken: " in german(baked.summary())


def test_what_is_wrong_is_german_too():
    with pytest.raises(IKError) as raised:
        posing.add_effector(builders.chain(2), "nobody")
    assert german(raised.value.message) == "'chain' hat keinen Knochen 'nobody': einen seiner Knochen wählen"


def test_without_a_translation_text_is_english():
    assert translated(Message("{names} added", names="hand.R")) == "hand.R added"
    assert translated("Bone") == "Bone"  # a name
