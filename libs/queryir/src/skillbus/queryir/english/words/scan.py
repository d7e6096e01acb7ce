"""State of the reading of a sentence from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.queryir.english.lexicon.phrases import Meaning, PhraseTable
from skillbus.queryir.english.lexicon.types import TYPE_WORDS
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.tokens import EnglishWord
from skillbus.queryir.english.words.values import ValueKind

_CONNECTORS: Final = frozenset(
    {
        EnglishRole.NAME,
        EnglishRole.TYPE,
        EnglishRole.ROOM,
        EnglishRole.REFERENCE,
        EnglishRole.EVERYWHERE,
        EnglishRole.OTHERS,
    }
)

Span = tuple[int, Item]


@dataclass(slots=True)
class Scan:
    """Words of a sentence, and what is known at a place of it."""

    words: Sequence[EnglishWord]
    texts: list[str]
    singulars: list[str]
    spans: dict[int, Item]
    items: list[Item] = field(default_factory=list)
    opening: bool = True
    """True where a clause may begin with its verb."""
    question: bool = False
    verb: str = ""
    """Verb of this clause."""
    subject: bool = False
    """True if this clause has named a device, type or room."""

    def add(self, item: Item) -> None:
        """Take an item and note what may follow."""
        self.items.append(item)
        if item.role in (EnglishRole.AND, EnglishRole.THEN):
            self.opening, self.verb, self.subject = True, "", False
            return
        if item.role is EnglishRole.QUESTION:
            self.question = True
        elif item.role is EnglishRole.VERB:
            self.verb = item.meaning
            self.question = False
        self.subject = self.subject or item.role in _CONNECTORS
        timed = item.value is not None and item.value.kind in (ValueKind.AT, ValueKind.AFTER, ValueKind.FOR)
        self.opening = self.opening and (timed or item.role in (EnglishRole.FILLER, EnglishRole.NEGATION))


def make_item(scan: Scan, role: EnglishRole, start: int, length: int, **fields: object) -> Span:
    """Return a length and the item of so many words."""
    end = start + length
    first = scan.words[start]
    last = scan.words[end - 1]
    return length, Item(
        role,
        start,
        end,
        " ".join(scan.texts[start:end]),
        comma=first.after_comma,
        stop=first.after_stop,
        plural=last.text != last.singular,
        **fields,  # type: ignore[arg-type]  # the fields of Item
    )


def match_length(table: PhraseTable[Meaning], texts: Sequence[str], position: int) -> int:
    """Return the number of words of the longest phrase of a table at a place; 0 if there is none."""
    found = table.match(texts, position)
    return found[0] if found is not None else 0


def match_type(scan: Scan, position: int) -> tuple[int, str] | None:
    """Return the length and the type of the longest word for a type at a place. A comma ends it."""
    found = TYPE_WORDS.match(scan.singulars, position)
    if found is None or not is_broken(scan, position, position + found[0]):
        return found
    end = next(index for index in range(position + 1, position + found[0]) if is_broken(scan, index - 1, index + 1))
    return TYPE_WORDS.match(scan.singulars[position:end], 0)


def is_broken(scan: Scan, start: int, end: int) -> bool:
    """Return True if a comma or stop is among some words."""
    return any(word.after_comma or word.after_stop for word in scan.words[start + 1 : end])


def get_text(scan: Scan, position: int) -> str:
    """Return a word, or nothing behind the last."""
    return scan.texts[position] if position < len(scan.texts) else ""
