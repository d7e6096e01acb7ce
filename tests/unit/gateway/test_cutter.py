"""Bodies of many JSON values, cut while they stream."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.gateway.domain.imports.cutter import BodyCutter, BodyPiece

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, max_size=4), min_size=1, max_size=6)


def cut(chunks: Iterable[bytes], longest_bytes: int = 1000) -> list[BodyPiece]:
    cutter = BodyCutter(longest_bytes)
    return [*(piece for chunk in chunks for piece in cutter.feed(chunk)), *cutter.end()]


def in_chunks(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@given(st.binary(max_size=300), st.integers(1, 7), st.integers(1, 40))
def test_any_bytes_are_cut_the_same_however_they_arrive_and_no_piece_is_over_the_limit(
    body: bytes, size: int, longest_bytes: int
) -> None:
    pieces = cut([body], longest_bytes)
    assert cut(in_chunks(body, size), longest_bytes) == pieces
    assert all(len(piece.text) <= longest_bytes for piece in pieces)
    assert [piece.line for piece in pieces] == sorted(piece.line for piece in pieces)
    assert all((piece.problem is None) == bool(piece.text) for piece in pieces)


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=8))
def test_what_is_no_array_is_cut_at_its_line_ends_and_nothing_else_of_it_is_lost(lines: list[bytes]) -> None:
    body = b"{}\n" + b"\n".join(lines)
    expected = [
        BodyPiece(at, line.strip(b" \t\r")) for at, line in enumerate([b"{}", *lines], 1) if line.strip(b" \t\r")
    ]
    assert cut([body]) == expected


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans(), st.integers(1, 50))
def test_an_array_is_cut_into_its_elements_however_it_is_written(
    objects: list[object], indent: int | None, ascii_only: bool, size: int
) -> None:
    body = json.dumps(objects, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    pieces = cut(in_chunks(b"\xef\xbb\xbf \n" + body + b"\n", size), 10_000)
    assert [piece.line for piece in pieces] == list(range(1, len(objects) + 1))
    assert [json.loads(piece.text.decode("utf-8", "surrogatepass")) for piece in pieces] == objects


def test_blank_lines_are_counted_and_left_out() -> None:
    assert cut([b"\xef\xbb\xbf", b"\n \r\n", b'{"a": 1}\r\n\n', b"[]"]) == [
        BodyPiece(3, b'{"a": 1}'),
        BodyPiece(5, b"[]"),
    ]


def test_a_value_over_the_limit_is_passed_over_and_told() -> None:
    told = "is longer than 10 bytes"
    assert cut([b"{}\n", b"x" * 8, b"y" * 8, b"\n{}"], 10) == [
        BodyPiece(1, b"{}"),
        BodyPiece(2, problem=told),
        BodyPiece(3, b"{}"),
    ]
    assert cut([b'[{}, "', b"x" * 80, b'", {}]'], 10) == [
        BodyPiece(1, b"{}"),
        BodyPiece(2, problem=told),
        BodyPiece(3, b"{}"),
    ]


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        (b"[]", []),
        (b"[{},]", []),
        (b"[{},,{}]", [(2, "is missing before a comma")]),
        (b'[{}, {"a": 1}', [(2, "the body ends before the array ends")]),
        (b'[{"a": "}]', [(1, "the body ends before the array ends")]),
        (b"[{}] {}", [(2, "the body continues after the end of the array")]),
    ],
)
def test_an_array_that_is_not_whole_is_told(body: bytes, problems: list[tuple[int, str]]) -> None:
    assert [(piece.line, piece.problem) for piece in cut([body]) if piece.problem] == problems
