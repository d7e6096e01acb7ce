"""Items as Markdown with YAML front matter."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeDraft, KnowledgeItem
from skillbus.gateway.domain.knowledge_markdown import FRONT_MATTER_CHARACTERS, format_markdown, parse_markdown

ID: Final = "01890000-0000-7000-8000-000000000000"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
TRAPS: Final = (
    *("no", "1.0", "2022-10-30", "null", "~", "---", "...", "- a", "a: b", "a # b", "&a", "*a", "!!int 1", "[", "{a}"),
    *(
        "'",
        '"',
        "%",
        "@",
        "`",
        "| ",
        "> ",
        "?",
        "\ufeff",
        "\x85",
        "\u2028",
        "\u200b",
        "\U0010ffff",
        "\x7f",
        "\x1b",
        "=",
        "<<",
    ),
)
WORDS: Final = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
TEXT: Final = st.one_of(WORDS, st.sampled_from(TRAPS), st.tuples(WORDS, st.sampled_from(TRAPS)).map("".join))
LINES: Final = st.lists(st.one_of(TEXT, st.sampled_from(("\n", "\r\n", "\r", "---\n", "\n---\n", " "))), max_size=8)
TIMES: Final = st.none() | st.integers(-(10**16), 10**16).map(lambda us: NOW + timedelta(microseconds=us))


def item(**fields: object) -> KnowledgeItem:
    said = {
        "type": "business_rule",
        "title": "game-id",
        "content": "Send it.",
        "id": ID,
        "version": 3,
        "digest": "0" * 64,
    }
    return KnowledgeItem.model_validate({**said, "created_at": NOW, "updated_at": NOW, **fields})


def is_valid(fields: dict[str, object]) -> bool:
    try:
        KnowledgeDraft.model_validate(fields)
    except ValueError:
        return False
    return True


DRAFTS: Final = st.fixed_dictionaries(
    {"type": st.sampled_from(KNOWN_TYPES), "title": TEXT, "content": LINES.map("".join)},
    optional={
        "scope": TEXT,
        "tags": st.lists(TEXT, max_size=5),
        "priority": st.integers(0, 10),
        "source_ref": TEXT,
        "owner": TEXT,
        "lang": st.sampled_from(("no", "zh", "en")),
        "valid_from": TIMES,
        "valid_to": TIMES,
        "external_id": TEXT,
    },
).filter(is_valid)


@settings(max_examples=400, deadline=None)
@given(DRAFTS)
def test_an_item_that_goes_out_as_markdown_comes_back_as_it_was(fields: dict[str, object]) -> None:
    draft, sent = KnowledgeDraft.model_validate(fields), parse_markdown(format_markdown(item(**fields)))
    assert sent.pop("id") == ID
    assert KnowledgeDraft.model_validate(sent) == draft


@settings(max_examples=200, deadline=None)
@given(DRAFTS)
def test_any_reader_of_yaml_reads_the_front_matter_as_it_is_meant(fields: dict[str, object]) -> None:
    shown = item(**fields)
    front = format_markdown(shown).split("\n---\n\n", 1)[0].removeprefix("---\n")
    read = yaml.safe_load(front)
    assert (read["title"], read.get("tags", [])) == (shown.title, list(shown.tags))


def test_it_is_made_for_people() -> None:
    shown = item(
        title="直播电商接口需要 game-id", scope="/api/live/*", tags=("auth", "game-id"), content="# 说明\n\n必须带。"
    )
    assert format_markdown(shown) == (
        f"---\nid: {ID}\ntype: business_rule\ntitle: 直播电商接口需要 game-id\nscope: /api/live/*\n"
        "tags:\n- auth\n- game-id\npriority: 5\nsource: manual\n---\n\n# 说明\n\n必须带。\n"
    )


@pytest.mark.parametrize("html", ["<script>alert(1)</script>", "[x](javascript:alert(1))", "<img src=x onerror=y>"])
def test_content_is_neither_read_nor_rendered(html: str) -> None:
    assert parse_markdown(format_markdown(item(content=html)))["content"] == html


@pytest.mark.parametrize(
    "text",
    [
        "---\r\ntype: business_rule\r\ntitle: a\r\n---\r\n\r\nb\r\nc\r\n",
        "\ufeff---  \ntype: business_rule\ntitle: a\n---\n\nb\r\nc\n",
        "---\ntitle: a\ntype: 'business_rule'\nowner: ~\nlang:\n---\nb\r\nc",
        "---\n# said by hand\n{title: a, type: business_rule}\n---\nb\r\nc\n",
    ],
)
def test_what_editors_make_of_a_file_is_read(text: str) -> None:
    assert parse_markdown(text) == {"type": "business_rule", "title": "a", "content": "b\r\nc"}


def test_words_stay_text_whatever_yaml_makes_of_them() -> None:
    read = parse_markdown("---\ntitle: no\nlang: no\ntags: [1.10, 2022-10-30, on]\nother: 1\n---\nx")
    assert read == {"title": "no", "lang": "no", "tags": ["1.10", "2022-10-30", "on"], "content": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "title: a\n\nno fences",
        "---\ntitle: a\n",
        "---\n- a\n---\nx",
        "---\na\n---\nx",
        "---\n---\nx",
        "---\ntitle: {a: b}\n---\nx",
        "---\ntags: [[a]]\n---\nx",
        "---\n[a]: b\n---\nx",
        "---\ntitle: a\ntitle: b\n---\nx",
        "---\ntitle: &a b\nowner: *a\n---\nx",
        "---\ntitle: *a\n---\nx",
        "---\ntitle: !!python/object/apply:os.system [id]\n---\nx",
        "---\ntags: !!set [a]\n---\nx",
        "---\ntitle: !secret a\n---\nx",
        "---\ntitle: a: b: c\n---\nx",
        "---\ntitle: \x1b\n---\nx",
        "---\ntitle: a\n...\n--- b\n---\nx",
        "---\n" + "[" * 50_000 + "\n---\nx",
        "---\ntitle: " + "a" * FRONT_MATTER_CHARACTERS + "\n---\nx",
    ],
)
def test_what_is_no_flat_front_matter_is_refused_with_advice(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_markdown(text)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.message.startswith("The front matter ")
    assert len(refused.value.message) < 300


def test_the_longest_item_fits() -> None:
    hard = "\U0010ffff"
    longest = item(
        title=hard * 500,
        tags=tuple(f"{number:02}" + hard * 98 for number in range(50)),
        scope="字" * 300,
        owner=hard * 200,
        source_ref=hard * 300,
        external_id=hard * 300,
        lang=hard * 35,
        valid_from=NOW - timedelta(microseconds=1),
        content="字" * 32_000,
    )
    sent = parse_markdown(format_markdown(longest))
    assert KnowledgeDraft.model_validate(sent).title == longest.title
