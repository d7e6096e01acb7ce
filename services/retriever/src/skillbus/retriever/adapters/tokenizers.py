"""Tokenizers in the format of Hugging Face, from a folder: `<name>.json`."""

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillbus.retriever.domain.errors import TokenizerUnknownError, TokenizerUnusableError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_KEPT: Final = 8
"""Tokenizers in memory, of some 10 to 60 MB each."""
_NAMED: Final = 20
_PARTS: Final = 16_384
"""Counts of parts that are remembered for each, of some 200 bytes."""


class FileCounter:
    """Counts as a tokenizer does, whole texts, without its marks of beginning and end."""

    def __init__(self, name: str, tokenizer: "Tokenizer") -> None:
        self.name = name
        self.tokenizer = tokenizer
        self._parts: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._lock = threading.Lock()

    def count(self, text: str) -> int:
        if not text:
            return 0
        # Without the places of tokens in the text, which take a third of the time.
        (encoded,) = self.tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(encoded)

    def count_part(self, text: str) -> int:
        key = (hash(text), len(text))  # enough for a part: what parts come to is counted as a whole
        with self._lock:
            if (known := self._parts.get(key)) is not None:
                self._parts.move_to_end(key)
                return known
        tokens = self.count(text)
        with self._lock:
            self._parts[key] = tokens
            if len(self._parts) > _PARTS:
                self._parts.popitem(last=False)
        return tokens


class TokenizerFiles:
    """The tokenizers of a folder, each read when it is named first, and again when its file has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._read: OrderedDict[str, tuple[tuple[int, int], FileCounter]] = OrderedDict()

    def named(self, name: str) -> FileCounter:
        path = self._folder / f"{name}.json"
        try:
            status = path.stat()
        except OSError:
            raise TokenizerUnknownError(self._unknown(name)) from None
        state = (status.st_mtime_ns, status.st_size)
        with self._lock:  # lest two requests read the same file at once
            known = self._read.get(name)
            if known is None or known[0] != state:
                known = (state, FileCounter(name, _read(path)))
                self._read[name] = known
            self._read.move_to_end(name)
            if len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return known[1]

    def _unknown(self, name: str) -> str:
        found = sorted(path.stem for path in self._folder.glob("*.json"))
        there = f"there are {', '.join(found[:_NAMED])}" if found else "there are none"
        return (
            f"There is no tokenizer {name!r}: {there}. Send one of these names, none at all for an upper bound, "
            "or have its tokenizer.json put there as <name>.json."
        )


def _read(path: Path) -> "Tokenizer":
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra, and memory that only those need who name one
    except ImportError as error:
        raise TokenizerUnusableError(
            "Tokens of a tokenizer cannot be counted here: install skillbus-retriever[tokenizers], "
            "or send no tokenizer for an upper bound."
        ) from error
    try:
        tokenizer = Tokenizer.from_file(os.fspath(path))
    except Exception as error:
        raise TokenizerUnusableError(f"The tokenizer {path.stem!r} cannot be read: {error}") from error
    # Files say how their model cuts and fills its input, which would hide how long a text is.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
