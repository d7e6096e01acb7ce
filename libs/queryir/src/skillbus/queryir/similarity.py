"""Names that sound the same, or differ in one character: what speech recognition and typing make of a name."""

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Final

from skillbus.queryir.writing import is_han

_HAN_LENGTH: Final = 3
_LATIN_LENGTH: Final = 4
"""Shorter names have too many neighbours: `fan` and `van`."""
_READINGS: Final = 2
"""Usual readings of a character that count. The others are rare or old."""
_KEYS: Final = 4
"""Most pronunciations of one name."""
_MATCHES: Final = 50
_TELLING: Final = frozenset("左右上下前后东南西北中内外里大小主次副正高低冷热男女新旧甲乙丙丁两")
"""Characters that tell one device from its twin: a name with another of these is another name."""
_DIGITS: Final = dict(zip("0123456789", "零一二三四五六七八九", strict=True))
_PINYIN_BLOCK: Final = range(0x4E00, 0xA000)


class SimilarNames:
    """Folded names of one home, to be found by names that are nearly the same."""

    def __init__(self, names: Iterable[str]) -> None:
        """Index the names. The table of pronunciations is loaded with the first Chinese name."""
        by_length: dict[int, list[str]] = {}
        by_sound: dict[str, list[str]] = {}
        for name in names:
            by_length.setdefault(len(name), []).append(name)
            for sound in _list_sounds(name):
                by_sound.setdefault(sound, []).append(name)
        self._by_length = by_length
        self._by_sound = by_sound

    def find_same_sound(self, name: str) -> tuple[str, ...]:
        """Return the other names with the same pinyin; tones do not count."""
        found = (other for sound in _list_sounds(name) for other in self._by_sound.get(sound, ()) if other != name)
        return tuple(dict.fromkeys(islice(found, _MATCHES)))

    def find_one_error(self, name: str) -> tuple[str, ...]:
        """Return the other names with one character wrong, missing or extra.

        Both must have three characters, four if they are Latin. Numbers, single letters and characters that tell twins
        apart, such as 左 and 右, are no errors.
        """
        # 7 MB, which only a name that nobody has needs.
        from rapidfuzz import process  # noqa: PLC0415
        from rapidfuzz.distance import Levenshtein  # noqa: PLC0415

        least = _HAN_LENGTH if any(map(is_han, name)) else _LATIN_LENGTH
        lengths = [length for length in (len(name) - 1, len(name), len(name) + 1) if length >= least]
        if len(name) < least:
            return ()
        found: list[str] = []
        for length in lengths:
            others = self._by_length.get(length, ())
            near = process.extract(name, others, scorer=Levenshtein.distance, score_cutoff=1, limit=_MATCHES)
            found += (other for other, distance, _ in near if distance and not _is_telling(name, other))
        return tuple(found)


def _is_telling(name: str, other: str) -> bool:
    """Return True if the one character in which two names differ makes another name of it."""
    shorter = min(len(name), len(other))
    start = next((at for at in range(shorter) if name[at] != other[at]), shorter)
    for text, length in ((name, len(other)), (other, len(name))):
        end = start + (len(text) >= length)
        changed = text[start:end]
        if changed.isnumeric() or (changed and changed in _TELLING):
            return True
        neighbours = text[max(start - 1, 0) : start] + text[end : end + 1]
        if _is_latin(changed) and not any(map(_is_latin, neighbours)):
            return True
    return False


def _is_latin(character: str) -> bool:
    return character.isalpha() and not is_han(character)


def _list_sounds(name: str) -> Iterator[str]:
    """Yield the pronunciations of a name with Chinese characters, as syllables without tones."""
    if not any(map(is_han, name)):
        return
    table = _load_pinyin()
    readings = [table.get(_DIGITS.get(one, one), (one,)) for one in name]
    for syllables in islice(product(*readings), _KEYS):
        yield " ".join(syllables)


@cache
def _load_pinyin() -> Mapping[str, tuple[str, ...]]:
    """Return the usual readings of each character without tones.

    The table is a file of the package pypinyin. Importing the package would load its phrases too: 57 MB and 0.2 s
    instead of 8 MB and 0.1 s.
    """
    spec = find_spec("pypinyin")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pypinyin is not installed")
    rows: dict[str, str] = json.loads(Path(spec.origin).with_name("pinyin_dict.json").read_text("utf-8"))
    shared: dict[str, tuple[str, ...]] = {}
    return {
        chr(int(code)): shared.setdefault(readings, _strip_tones(readings))
        for code, readings in rows.items()
        if int(code) in _PINYIN_BLOCK
    }


def _strip_tones(readings: str) -> tuple[str, ...]:
    """Return the first different readings of `zhòng,chóng` without tones; ü keeps its dots."""
    plain = unicodedata.normalize("NFD", readings).replace("u\u0308", "ü")
    letters = "".join(one for one in plain if not unicodedata.combining(one))
    return tuple(dict.fromkeys(letters.split(",")))[:_READINGS]
