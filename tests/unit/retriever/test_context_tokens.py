"""Counting: by tokenizers of a folder, and at most."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Metaspace

from skillbus.retriever.adapters.tokenizers import FileTokenCounter, TokenizerFiles
from skillbus.retriever.domain.context.token_count import _NEVER_LONGER, UPPER_BOUND, TokenCounter, UpperBoundCounter
from skillbus.retriever.domain.errors import TokenizerUnknownError, TokenizerUnusableError

from .context_items import PROSE, byte_level_bpe, minilm_file, use_file


class SentencePieces:
    """The tokenizer of Universal Sentence Encoder: NFKC, then pieces of characters."""

    name = "use"

    def __init__(self) -> None:
        self._pieces = SentencePieceProcessor(model_file=str(use_file()))

    def count(self, text: str) -> int:
        return len(self._pieces.encode(text))

    def count_part(self, text: str) -> int:
        return self.count(text)


def bytes_alone(normalizer: normalizers.Normalizer) -> FileTokenCounter:
    """The worst of its kind: byte-level BPE that has learnt no merge at all."""
    tokenizer = Tokenizer(BPE(vocab={byte: at for at, byte in enumerate(ByteLevel.alphabet())}, merges=[]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    return FileTokenCounter("bytes", tokenizer)


def falling_back_to_bytes(normalizer: normalizers.Normalizer) -> FileTokenCounter:
    """As Llama 2's and Gemma's: pieces of characters, and bytes where it knows none; here it knows the blank alone."""
    known = {"▁": 0} | {f"<0x{byte:02X}>": byte + 1 for byte in range(256)}
    tokenizer = Tokenizer(BPE(vocab=known, merges=[], byte_fallback=True))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="first")
    return FileTokenCounter("fallback", tokenizer)


@pytest.fixture(scope="module")
def counters() -> Sequence[TokenCounter]:
    """Tokenizers of all kinds."""
    return [
        TokenizerFiles(minilm_file().parent).load_counter("tokenizer"),
        SentencePieces(),
        byte_level_bpe(),
        *(
            worst(normalizer)
            for worst in (bytes_alone, falling_back_to_bytes)
            for normalizer in (
                normalizers.Sequence([]),
                normalizers.NFC(),
                normalizers.NFKC(),
                normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
            )
        ),
    ]


@given(st.text() | st.text(alphabet=st.sampled_from("aé İΐﷺ﷽ǘ\u0323\u0301직播，…½①🙂\u200d\n ")))
@example("ﷺ" * 50)
@example("ǘ\u0323" * 50)
@example("ΐİ" * 50)
@example("播" * 50)
@example("xqzj" * 50)
@example("\U0001d160" * 50)
def test_no_tokenizer_counts_more_than_the_upper_bound(counters: Sequence[TokenCounter], text: str) -> None:
    bound = UpperBoundCounter().count(text)
    assert [counter.count(text) <= bound for counter in counters] == [True] * len(counters)


def test_the_bound_is_reached() -> None:
    """So that nothing tighter holds for all of them."""
    worst = falling_back_to_bytes(normalizers.NFKC())
    for text in ("xqzj", "播放", "ﷺ"):
        assert worst.count(text) == UpperBoundCounter().count(text)


def test_characters_that_are_taken_never_to_grow_do_not() -> None:
    for code in [*range(0xD800), *range(0xE000, 0x110000)]:
        character = chr(code)
        if _NEVER_LONGER.fullmatch(character):
            apart = normalize("NFKD", character)
            assert max(len(apart.encode()), len(apart.casefold().encode())) <= len(character.encode())


def test_putting_characters_together_again_makes_no_text_longer() -> None:
    """So that those that do not grow when they are taken apart do not grow in a form that puts them together."""
    for code in [*range(0xD800), *range(0xE000, 0x110000)]:
        together = normalize("NFKC", chr(code))
        assert len(together.encode()) <= len(normalize("NFKD", together).encode())


def test_an_empty_text_has_no_tokens() -> None:
    assert [counter.count("") for counter in (UpperBoundCounter(), byte_level_bpe())] == [0, 0]
    assert UpperBoundCounter().name == UPPER_BOUND


def test_a_tokenizer_counts_a_whole_text_whatever_its_file_says_of_length(tmp_path: Path) -> None:
    """The file of MiniLM cuts at 128 tokens, and fills up to them."""
    (tmp_path / "minilm.json").write_bytes(minilm_file().read_bytes())
    counter = TokenizerFiles(tmp_path).load_counter("minilm")
    assert counter.name == "minilm"
    assert counter.count("one two") == 2
    assert counter.count("one two " * 500) == 1000


def test_a_part_that_comes_again_is_not_counted_again() -> None:
    counter = byte_level_bpe()
    first = counter.count_part(PROSE)
    counter.tokenizer.add_tokens([AddedToken(PROSE[:50])])
    assert counter.count_part(PROSE) == first != counter.count(PROSE)


def test_an_unknown_tokenizer_is_refused_with_what_there_is(tmp_path: Path) -> None:
    files = TokenizerFiles(tmp_path / "none")
    with pytest.raises(TokenizerUnknownError, match="there are none"):
        files.load_counter("qwen3")
    (tmp_path / "minilm.json").write_bytes(minilm_file().read_bytes())
    with pytest.raises(TokenizerUnknownError, match="there are minilm"):
        TokenizerFiles(tmp_path).load_counter("qwen3")


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps({"model": "unknown"}))
    with pytest.raises(TokenizerUnusableError, match="mine"):
        TokenizerFiles(tmp_path).load_counter("mine")


def test_without_the_package_that_reads_them_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "minilm.json").write_bytes(minilm_file().read_bytes())
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(TokenizerUnusableError, match=r"skillbus-retriever\[tokenizers\]"):
        TokenizerFiles(tmp_path).load_counter("minilm")


def test_a_tokenizer_is_read_once_and_again_when_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    tokenizer = byte_level_bpe().tokenizer
    tokenizer.save(str(path))
    files = TokenizerFiles(tmp_path)
    first = files.load_counter("mine")
    assert files.load_counter("mine") is first
    tokenizer.add_tokens([AddedToken(PROSE[:50])])
    tokenizer.save(str(path))
    os.utime(path, ns=(1, 1))
    assert files.load_counter("mine").count(PROSE[:50]) == 1 < first.count(PROSE[:50])
