"""Tokenizers in the format of Hugging Face, from a folder: `<name>.json`."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

from skillbus.retriever.domain.errors import TokenizerUnknownError, TokenizerUnusableError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LOADED: Final = 8
"""Tokenizers in memory, some 10 to 60 MB each."""
_NAMED: Final = 20
_PARTS: Final = 16_384
"""Cached counts of parts for each tokenizer, some 200 bytes each."""


class FileTokenCounter:
    """Counts the tokens of whole texts, without marks of beginning and end."""

    def __init__(self, name: str, tokenizer: "Tokenizer") -> None:
        self.name = name
        self.tokenizer = tokenizer
        self._parts: LRUCache[tuple[int, int], int] = LRUCache(_PARTS)
        self._lock = threading.Lock()

    def count(self, text: str) -> int:
        if not text:
            return 0
        # Without the places of tokens in the text, which take a third of the time.
        (encoded,) = self.tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(encoded)

    def count_part(self, text: str) -> int:
        key = (hash(text), len(text))  # a collision does no harm: the whole text is counted again
        with self._lock:
            known = self._parts.get(key)
        if known is not None:
            return known
        tokens = self.count(text)
        with self._lock:
            self._parts[key] = tokens
        return tokens


class TokenizerFiles:
    """Tokenizers of a folder. Each file is read on first use, and again after it has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._loaded: LRUCache[str, tuple[tuple[int, int], FileTokenCounter]] = LRUCache(_LOADED)

    def load_counter(self, name: str) -> FileTokenCounter:
        path = self._folder / f"{name}.json"
        try:
            status = path.stat()
        except OSError:
            found = sorted(other.stem for other in self._folder.glob("*.json"))
            there = f"there are {', '.join(found[:_NAMED])}" if found else "there are none"
            raise TokenizerUnknownError(
                f"There is no tokenizer {name!r}: {there}. Send one of these names, none at all for an upper bound, "
                "or put its tokenizer.json into the folder of tokenizers as <name>.json."
            ) from None
        state = (status.st_mtime_ns, status.st_size)
        with self._lock:  # so that two requests do not read the same file at once
            known = self._loaded.get(name)
            if known is None or known[0] != state:
                known = self._loaded[name] = (state, FileTokenCounter(name, _load_tokenizer(path)))
        return known[1]


def _load_tokenizer(path: Path) -> "Tokenizer":
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra, and memory that only its users need
    except ImportError as error:
        raise TokenizerUnusableError(
            "Tokens of a tokenizer cannot be counted here: install skillbus-retriever[tokenizers], "
            "or send no tokenizer for an upper bound."
        ) from error
    try:
        tokenizer = Tokenizer.from_file(os.fspath(path))
    except Exception as error:
        raise TokenizerUnusableError(f"The tokenizer {path.stem!r} cannot be read: {error}") from error
    # Files say how their model truncates and pads its input, which would hide the length of a text.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
