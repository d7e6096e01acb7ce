"""Miner of log templates: masks the values of messages, and generalizes the masked messages that are left."""

import re
from array import array
from typing import Final

from skillbus.learning.logs.templates.generalization import Generalizer
from skillbus.learning.logs.templates.masking import mask_values

OTHER: Final = 0
"""Number of the template of messages that were too rare and too many to keep."""
_DIGITS: Final = re.compile(r"\d[\da-f]*")
_CACHED: Final = 50_000


class LogMiner:
    """Template miner. `add_message` returns a number; the template of a number is final once all messages are added.

    Memory is bounded by `most_patterns`: above it, the masked messages are generalized, and the rarest of the rest are
    counted as `OTHER`.
    """

    def __init__(self, most_patterns: int = 10_000) -> None:
        self._most = most_patterns
        self._texts: dict[int, str] = {}
        self._counts: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._cache: dict[str, int] = {}
        self._generalizer = Generalizer()
        self._merged = array("L", [OTHER])
        """The number that each number was merged into; itself if it stands."""

    def add_message(self, message: str) -> int:
        """Add a message, and return the number of its template."""
        key = _DIGITS.sub("0", message)
        number = self._cache.get(key)
        if number is None:
            number = self._find_number(mask_values(message))
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            self._cache[key] = number
        if number in self._counts:
            self._counts[number] += 1
            return number
        number = self.resolve_number(number)
        if number != OTHER:
            self._counts[number] += 1
        return number

    def resolve_number(self, number: int) -> int:
        """Return the number that stands for the template now."""
        while (merged := self._merged[number]) != number:
            number = merged
        return number

    def build_templates(self) -> dict[int, str]:
        """Return the templates by number, and merge the numbers of equal ones."""
        self._generalize()
        return dict(self._texts)

    def _find_number(self, masked: str) -> int:
        number = self._numbers.get(masked)
        if number is None and (template := self._generalizer.match_template(masked, self._numbers)) is not None:
            return self._numbers[template]
        if number is None:
            if len(self._numbers) >= self._most:
                self._make_room()
            number = len(self._merged)
            self._merged.append(number)
            self._numbers[masked] = number
            self._texts[number] = masked
            self._counts[number] = 0
        return number

    def _generalize(self) -> None:
        """Replace the masked messages by their templates."""
        templates = self._generalizer.generalize_messages(self._numbers)
        first: dict[str, int] = {}
        for number, text in list(self._texts.items()):
            template = templates[text]
            target = first.setdefault(template, number)
            self._texts[target] = template
            if target != number:
                self._merged[number] = target
                self._counts[target] += self._counts.pop(number)
                del self._texts[number]
        self._numbers = {text: number for number, text in self._texts.items()}

    def _make_room(self) -> None:
        """Generalize, and forget the rarest templates if more than half of the room is still taken."""
        self._generalize()
        self._cache.clear()
        surplus = len(self._texts) - self._most // 2
        for number in sorted(self._texts, key=lambda it: self._counts[it])[: max(0, surplus)]:
            self._merged[number] = OTHER
            del self._counts[number], self._numbers[self._texts.pop(number)]
