# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface in other languages, by Blender's own translation.

Blender looks up what it draws by itself: names and tooltips of properties, operators, panels and enum items.
What is put together here, messages with values, is looked up by `translated` where it is shown or stored.
Core and reports are in English, so are scripts and the command line.

A language is a module with one dictionary, English text -> translation: Python reads it without a tool, a
missing comma is found by any editor, and a change is one line in a diff. A file for gettext would need a
reader in Blender and a compiler in the build. One translation serves labels and buttons: the words are the
same. Where Blender has the text of a label in its own translation, as "Bone", that counts; not for messages.
"""

from typing import Final

import bpy

from ...core.messages import Message
from . import german

LANGUAGES: Final = {"de_DE": german.TEXTS}
"""Language as Blender calls it -> texts."""

MESSAGES: Final = "Poise"
"""The context of messages: no text of Blender's own is in it, which would come first."""

CONTEXTS: Final = ("*", "Operator", MESSAGES)
"""Where texts are looked up: by Blender all but buttons of operators, and these; and messages."""

OWNER: Final = __name__
"""By which name Blender knows the dictionaries."""


def translated(text: str) -> str:
    """Return a message in the language of the interface; other text is a name, and stays as it is."""
    if not isinstance(text, Message):
        return text
    return text.translated(lambda template: bpy.app.translations.pgettext_iface(template, MESSAGES))


def in_all_languages(text: Message) -> tuple[str, ...]:
    """Return a message without values in each language: what is stored was written in the one of then."""
    return text, *(words[text] for words in LANGUAGES.values())


def register() -> None:
    """Give Blender the dictionaries."""
    texts = {
        language: {(context, text): own for text, own in words.items() for context in CONTEXTS}
        for language, words in LANGUAGES.items()
    }
    bpy.app.translations.register(OWNER, texts)


def unregister() -> None:
    """Take them away."""
    bpy.app.translations.unregister(OWNER)
