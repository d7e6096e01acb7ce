"""YAML front matter from strangers: strict, bounded, and with the text of scalars kept."""

import pytest
from pydantic import JsonValue

from skillbus.common.front_matter import (
    FrontMatterError,
    FrontMatterMissingError,
    FrontMatterSyntaxError,
    FrontMatterTooLongError,
    format_front_matter,
    parse_front_matter,
    split_front_matter,
)


def test_a_text_is_cut_at_its_fences_and_nothing_of_it_is_lost() -> None:
    text = "\ufeff---\r\na: b\r\n---\r\n\r\nbody\n---\n"
    sections = split_front_matter(text, 100)
    assert sections.yaml == "a: b\r\n"
    assert sections.opening + sections.yaml + sections.rest == text


def test_a_block_that_is_missing_open_or_too_long_is_told_apart() -> None:
    for text in ("", "a: b\n", "---\na: b\n"):
        with pytest.raises(FrontMatterMissingError):
            split_front_matter(text, 100)
    for text in (f"---\na: {'x' * 200}\n---\n", f"---\na: {'字' * 40}\n---\n"):
        with pytest.raises(FrontMatterTooLongError):
            split_front_matter(text, 100)


def test_scalars_keep_their_text() -> None:
    fields = parse_front_matter("version: 1.10\nlang: no\nempty: ~\ntags: [1.10, on]\nmore: {a: 0x10}\n").fields
    assert (fields["version"].text, fields["lang"].text, fields["empty"].text) == ("1.10", "no", None)
    assert [item.text for item in fields["tags"].items] == ["1.10", "on"]
    assert fields["more"].children["a"].text == "0x10"


def test_what_could_grow_or_run_is_refused() -> None:
    refused = (
        "a: &a [1]\nb: *a\n",
        "a: !custom b\n",
        "a: !!python/object/apply:os.system [id]\n",
        "a: " + "[" * 20 + "]" * 20 + "\n",
        "? [a]\n: b\n",
        "- a\n",
        "a: \x07\n",
        "a: b\n---\nc: d\n",
    )
    for source in refused:
        with pytest.raises(FrontMatterError):
            parse_front_matter(source)


def test_a_syntax_error_names_its_line_in_the_file() -> None:
    with pytest.raises(FrontMatterSyntaxError, match="line 3"):
        parse_front_matter("a: b\nc: d: e\n")


def test_duplicates_are_reported_and_the_last_value_counts() -> None:
    parsed = parse_front_matter("a: 1\na: 2\n")
    assert (parsed.duplicates, parsed.fields["a"].text) == (("a",), "2")


def test_formatted_fields_are_parsed_as_they_were() -> None:
    fields: dict[str, JsonValue] = {"title": "no", "tags": ["a: b", "\u202e", "字"], "owner": "a # b"}
    parsed = parse_front_matter(format_front_matter(fields)).fields
    assert parsed["title"].value == "no"
    assert [item.value for item in parsed["tags"].items] == fields["tags"]
    assert parsed["owner"].value == "a # b"
