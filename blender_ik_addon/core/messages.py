# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences for people: English text that an interface can write in another language.

A message is a string, in English, and is used as any: printed, compared, written into files. It also knows
the template from which it was made, and the values in it. So nothing but the place that shows it has to know
the language: `Message.translated` looks the template up, and those of the messages inside it.

Only literal templates are found by the test that none is missing. A template is a whole sentence, or a whole
part of one between semicolons; what depends on a count has two, see `counted`.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

NAMES_SHOWN: Final = 5
"""How many names a sentence lists, where nothing else is said, before it says how many more there are."""


class Message(str):
    """A text in English that can be translated."""

    template: str
    """The English text with a name in braces for each value; as it is where there are no values."""
    values: Mapping[str, Any]
    """What is written for the names: amounts and names as they are, in translation what is a message itself,
    or a word out of several (StrEnum)."""

    def __new__(cls, template: str, /, **values: Any) -> "Message":
        """Write the values into a template, by `str.format`."""
        own = super().__new__(cls, template.format(**values) if values else template)
        own.template, own.values = template, values
        return own

    def filled(self, **values: Any) -> "Message":
        """Return the message with its values, of one that is a template alone."""
        return Message(self.template, **values)

    def translated(self, translate: Callable[[str], str]) -> str:
        """Return the text in another language.

        Args:
            translate: Gives the translation of a template, or the template where it has none.
        """
        template = translate(self.template)
        if not self.values:
            return template
        return template.format(**{name: _written(own, translate) for name, own in self.values.items()})


class Joined(Message):
    """Texts one after the other, of which each is translated by itself."""

    separator: str
    texts: tuple[str, ...]
    capitals: bool
    """Whether each begins with a capital letter."""

    def __new__(cls, separator: str, texts: Iterable[str], /, *, capitals: bool = False) -> "Joined":
        """Join texts; messages among them are translated, others are names."""
        texts = tuple(texts)
        own = str.__new__(cls, separator.join(map(capitalized, texts) if capitals else texts))
        own.separator, own.texts, own.capitals = separator, texts, capitals
        return own

    def __getnewargs_ex__(self) -> tuple[tuple[str, tuple[str, ...]], dict[str, bool]]:
        """Return what a copy is made from."""
        return (self.separator, self.texts), {"capitals": self.capitals}

    def translated(self, translate: Callable[[str], str]) -> str:
        """Return the texts in another language."""
        texts = [_written(text, translate) for text in self.texts]
        return self.separator.join(map(capitalized, texts) if self.capitals else texts)


def _written(value: Any, translate: Callable[[str], str]) -> Any:
    if isinstance(value, StrEnum):
        return translate(value.value)
    return value.translated(translate) if isinstance(value, Message) else value


def counted(count: int, one: str, several: str, /, **values: Any) -> Message:
    """Return the message for a count: `one` for 1, else `several`; both may have `{count}`."""
    return Message(one if count == 1 else several, count=count, **values)


def sentences(*texts: str) -> Message:
    """Return texts one after the other, each with a capital letter and a full stop between."""
    return Joined(". ", texts, capitals=True)


def in_a_row(texts: Iterable[str], most: int = NAMES_SHOWN) -> Message:
    """Return texts in a row, the first few of many and how many more there are."""
    texts = tuple(texts)
    more, row = len(texts) - most, Joined(", ", texts[:most])
    return Message("{list} and {count} more", list=row, count=more) if more > 0 else row


def listed(names: Iterable[str]) -> Message:
    """Return names in a row, in quotes."""
    return in_a_row([repr(name) for name in names])


def both(texts: Iterable[str]) -> Message:
    """Return texts with *and* between them."""
    return _linked(Message("{first} and {second}"), texts)


def either(texts: Iterable[str]) -> Message:
    """Return texts with *or* between them."""
    return _linked(Message("{first} or {second}"), texts)


def _linked(pair: Message, texts: Iterable[str]) -> Message:
    first, *others = texts
    row = first if isinstance(first, Message) else Joined("", [first])
    for other in others:
        row = pair.filled(first=row, second=other)
    return row


def capitalized(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]
