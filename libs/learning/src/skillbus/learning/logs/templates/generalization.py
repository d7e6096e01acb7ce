"""Generalization of masked messages to templates: words that vary in one place of equal messages are values."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final

from skillbus.learning.logs.templates.masking import VALUE, collapse_lists

_PARTS: Final = re.compile(r"<\*>|\s+|[^\s=:,;()\[\]{}\"'|<>]+|.", re.DOTALL)
_CALL: Final = re.compile(r"(?<![\w.:])[A-Za-z]\w*\(<\*>\)")
"""A word with a value in parentheses."""
_WORD: Final = re.compile(r"[^\W_]")
_STATE: Final = re.compile(r"(?:[a-z][\w$]*\.(?:[\w$]+\.)*)?[A-Z][A-Z_-]+")
"""A word in capitals names a state, a method or a signal."""
_IDENTIFIER: Final = re.compile(r"[^\W\d_][a-z]*[A-Z_.$@\\/-]|.*[^\x00-\x7f]")
"""A word with an inner capital, dot, underscore, hyphen or a letter beyond ASCII is rather a name than a word."""

_IDENTIFIERS: Final = 3
"""Fewest different names in one place that are values."""
_WORDS: Final = 6
"""Fewest different words in one place that are values."""
_STATES: Final = 20
_STATES_SHARE: Final = 0.2
"""Words in capitals are values like the other words of the place if at most this share is in capitals."""
_FIRST_WORDS: Final = 10
"""Fewest different words at the start of a message that are values: the first word mostly names the subject."""
_MOST_PARTS: Final = 200
_MOST_WORDS: Final = 60
_MOST_PAIR_WORDS: Final = 16
_MOST_PAIR_MESSAGES: Final = 3_000
_ROUNDS: Final = 4
_MOST_PLACES: Final = 16
"""Most places of values that are tried for a new message."""

Parts = tuple[str, ...]
Place = tuple[int, ...]


class Generalizer:
    """Generalizer of masked messages, which remembers the places of words that turned out to be values."""

    def __init__(self) -> None:
        self._places: dict[int, dict[Place, None]] = {}
        """Places by the number of parts of the messages."""

    def generalize_messages(self, masked: Iterable[str]) -> dict[str, str]:
        """Return the template of each masked message."""
        templates = {text: text for text in masked}
        members: dict[Parts, list[str]] = {}
        for text in templates:
            members.setdefault(tuple(_PARTS.findall(text)), []).append(text)
        for _ in range(_ROUNDS):
            merged = self._merge_places(members, 1)
            if not (self._merge_places(members, 2) or merged):
                break
        found = {"".join(parts): texts for parts, texts in members.items()}
        for template, texts in found.items():
            target = self.match_template(template, found) or _match_call(template, found) or template
            for text in texts:
                templates[text] = target
        return templates

    def match_template(self, masked: str, known: Container[str]) -> str | None:
        """Return the known template of a new message that has words in the places of values, or None."""
        waiting = [masked]
        for _ in range(_ROUNDS):
            following = list[str]()
            for text in waiting:
                parts = tuple(_PARTS.findall(text))
                for place in self._places.get(len(parts), ()):
                    if all(
                        _WORD.match(parts[position]) and not _STATE.fullmatch(parts[position]) for position in place
                    ):
                        template = _put_values(parts, place)
                        if template in known:
                            return template
                        following.append(template)
            waiting = following[:_MOST_PLACES]
        return None

    def _merge_places(self, members: dict[Parts, list[str]], size: int) -> bool:
        """Put values in the places of `size` words that vary. Return whether anything was merged."""
        changed = False
        for place, group in _collect_groups(members, size):
            varying = _select_varying(place, [parts for parts in group if parts in members])
            if len(varying) < 2:
                continue
            places = self._places.setdefault(len(varying[0]), {})
            if len(places) < _MOST_PLACES:
                places[place] = None
            merged = tuple(_PARTS.findall(_put_values(varying[0], place)))
            texts = [text for parts in varying for text in members.pop(parts)]
            members.setdefault(merged, []).extend(texts)
            changed = True
        return changed


def _match_call(template: str, known: Container[str]) -> str | None:
    """Return the known template that has a value where this one has a word with a value in parentheses, or None."""
    for call in _CALL.finditer(template):
        rest = template[: call.start()], template[call.end() :]
        joined = collapse_lists(VALUE.join(rest))
        if joined in known and sum(1 for part in _PARTS.findall(joined) if _WORD.match(part)) >= 2:
            return joined
    return None


def _put_values(parts: Parts, place: Place) -> str:
    return collapse_lists("".join(VALUE if number in place else part for number, part in enumerate(parts)))


def _collect_groups(members: Mapping[Parts, list[str]], size: int) -> list[tuple[Place, list[Parts]]]:
    """Return the messages that differ in `size` words, and the places of the words; the largest groups first."""
    groups: dict[tuple[Place, int], list[Parts]] = defaultdict(list)
    for parts in members if size == 1 else list(members)[:_MOST_PAIR_MESSAGES]:
        for place, rest in _iterate_places(parts, size):
            groups[place, rest].append(parts)
    least = 2 if size == 1 else _WORDS
    shared = [(place, group) for (place, _), group in groups.items() if len(group) >= least]
    return sorted(shared, key=lambda it: len(it[1]), reverse=True)


def _iterate_places(parts: Parts, size: int) -> Iterator[tuple[Place, int]]:
    """Yield each choice of `size` words of a message, and a number that stands for all its other parts."""
    if len(parts) > _MOST_PARTS:
        return
    numbers = [hash(f"{number} {part}") for number, part in enumerate(parts)]  # hashes of tuples would collide
    whole = sum(numbers)
    words = [number for number, part in enumerate(parts) if part == VALUE or _WORD.match(part)][:_MOST_WORDS]
    if size > 1:
        words = [number for number in words if parts[number] != VALUE][:_MOST_PAIR_WORDS]
    for place in combinations(words, size):
        yield place, whole - sum(numbers[number] for number in place) + len(parts)


def _select_varying(place: Place, group: list[Parts]) -> list[Parts]:
    """Return the messages of the group whose words at the place are values; none if the words belong to the text."""
    if len(group) < 2:
        return []
    constants = sum(
        1 for number, part in enumerate(group[0]) if number not in place and part != VALUE and _WORD.match(part)
    )
    if constants < len(place):
        return []
    words = (number for number, part in enumerate(group[0]) if part != VALUE and _WORD.match(part))
    start = next(words, 0)
    for position in place:
        group = _select_at(position, group, constants, first=position <= start, paired=len(place) > 1)
    return group


def _select_at(position: int, group: list[Parts], constants: int, *, first: bool, paired: bool) -> list[Parts]:
    """Return the messages of the group whose words at the position are values. `first`: no word stands before it."""
    words = {parts[position] for parts in group}
    masked = VALUE in words
    if _are_lettered(words - {VALUE}):
        return group
    states = {word for word in words if _STATE.fullmatch(word)}
    if _STATES > len(states) > len(words) * _STATES_SHARE:
        words -= states
        group = [parts for parts in group if parts[position] in words]
    words.discard(VALUE)
    if masked:
        enough = not first or constants >= 3
    elif first:
        enough = constants >= 2 and len(words) >= _FIRST_WORDS
    else:
        names = sum(1 for word in words if _IDENTIFIER.match(word))
        enough = len(words) >= (_WORDS if paired or names * 2 < len(words) else _IDENTIFIERS)
    return group if enough else []


def _are_lettered(words: set[str]) -> bool:
    """Return whether the words are one name with different last letters, such as sda, sdb and sdc."""
    stems = {word[:-1] for word in words}
    return len(words) >= _IDENTIFIERS and len(stems) == 1 and len(next(iter(stems))) != 1
