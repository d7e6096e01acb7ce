"""What the example skills written in Node and bash compute."""

import hashlib

import pytest

from .runner import SkillRunner


def test_json_format_sorts_keys_and_keeps_large_numbers(skills: SkillRunner) -> None:
    text = '\ufeff{"b": 12345678901234567890, "a": [1.0, "é\\n"]}'
    outcome = skills.run("json-format", {"text": text, "sort_keys": True, "indent": 0})
    assert outcome.value("formatted") == '{"a":[1.0,"é\\n"],"b":12345678901234567890}'
    assert outcome.value("summary") == {"type": "object", "keys": 2, "items": 2, "depth": 2}


def test_json_format_picks_by_path(skills: SkillRunner) -> None:
    args: dict[str, object] = {"text": '{"users":[{"name":"李"}]}', "path": "users[0].name"}
    assert skills.run("json-format", args).value("formatted") == '"李"'
    assert skills.run("json-format", args | {"path": "users[1]"}).status == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,\n "b": tru}', "line 2, column 7"),
        ('{"a": 1,}', "line 1, column 9"),
        ("[1 2]", "line 1, column 4"),
        ("[01]", "line 1, column 2"),
        ('"a\nb"', "line 1, column 1"),
        ("", "line 1, column 1"),
        ("1 1", "line 1, column 3"),
        ('{"a":1,"a":2}', "appears twice"),
        ("[" * 100_000, "nested deeper"),
    ],
)
def test_json_format_says_where_the_error_is(text: str, place: str, skills: SkillRunner) -> None:
    outcome = skills.run("json-format", {"text": text})
    assert outcome.status == 2
    assert place in outcome.stderr


def test_markdown_toc_skips_code_and_numbers_repeated_anchors(skills: SkillRunner) -> None:
    text = "# 手册\n\n## 安装 `x`\n\n```\n## no\n```\n\n使用说明\n---\n\n## 安装 x\n### Q&A: go_on ##\n"
    outcome = skills.run("markdown-toc", {"text": text})
    assert str(outcome.value("toc")).splitlines() == [
        "- [安装 x](#安装-x)",
        "- [使用说明](#使用说明)",
        "- [安装 x](#安装-x-1)",
        "  - [Q&A: go_on](#qa-go_on)",
    ]
    assert outcome.artifacts["document.md"].decode().startswith("# 手册\n\n<!-- toc -->\n- [安装 x]")


def test_markdown_toc_replaces_what_stands_between_the_marks(skills: SkillRunner) -> None:
    outcome = skills.run("markdown-toc", {"text": "<!-- toc -->\nold\n<!-- /toc -->\n## $1\n"})
    assert outcome.artifacts["document.md"].decode() == "<!-- toc -->\n- [$1](#1)\n<!-- /toc -->\n## $1\n"
    assert skills.run("markdown-toc", {"text": "", "min_level": 4, "max_level": 2}).status == 2


@pytest.mark.parametrize(
    ("password", "score", "weakness"),
    [
        ("P@ssw0rd2024", 0, "常见密码"),
        ("aaaaaaaaaa", 0, "重复字符"),
        ("qwertyuiop", 0, "键盘或字母顺序"),
        ("9fK$2vQz!8mLw@1x", 4, None),
    ],
)
def test_password_strength_finds_weaknesses_and_never_shows_the_password(
    password: str, score: int, weakness: str | None, skills: SkillRunner
) -> None:
    outcome = skills.run("password-strength", {"password": password})
    assert outcome.value("score") == score
    found = outcome.value("weaknesses")
    assert isinstance(found, list)
    assert weakness in found if weakness else found == []
    assert password not in outcome.stdout


@pytest.mark.parametrize("password", ["", "x" * 257, 5])
def test_password_strength_refuses_what_is_no_password(password: object, skills: SkillRunner) -> None:
    assert skills.run("password-strength", {"password": password}).status == 2


def test_regex_test_lists_matches_with_groups_and_replaces(skills: SkillRunner) -> None:
    args: dict[str, object] = {
        "pattern": r"(?<year>\d{4})-(\d\d)",
        "text": "2026-09\n2027-01",
        "replacement": "$2/$<year>",
    }
    outcome = skills.run("regex-test", args)
    assert outcome.value("replaced") == "09/2026\n01/2027"
    assert outcome.value("matches", 1) == {
        "match": "2027-01",
        "index": 8,
        "line": 2,
        "groups": ["2027", "01"],
        "named": {"year": "2027"},
    }


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"pattern": "(", "text": ""}, "Unterminated group"),
        ({"pattern": "a", "flags": "q", "text": ""}, "unknown flag"),
        ({"pattern": "(a+)+$", "text": "a" * 60 + "b"}, "needs more than 2 s"),
    ],
)
def test_regex_test_stops_bad_and_endless_patterns(args: dict[str, object], reason: str, skills: SkillRunner) -> None:
    outcome = skills.run("regex-test", args)
    assert outcome.status == 2
    assert reason in outcome.stderr


def test_word_count_segments_chinese_and_english(skills: SkillRunner) -> None:
    skills.give("a.txt", "今天天气很好。Let us go out!\r\n\r\n天气 3.14".encode())
    outcome = skills.run("word-count", {"top": 1})
    assert outcome.value("top_words") == [{"word": "天气", "times": 2}]
    assert (outcome.value("han_characters"), outcome.value("latin_words")) == (8, 5)
    assert (outcome.value("sentences"), outcome.value("paragraphs"), outcome.value("lines")) == (3, 2, 3)


def test_word_count_takes_a_long_line_and_an_empty_text(skills: SkillRunner) -> None:
    assert skills.run("word-count", {"text": "今天天气很好" * 20_000}).value("characters") == 120_000
    assert skills.run("word-count", {"text": ""}).value("lines") == 0


def test_log_errors_groups_what_differs_in_numbers_only(skills: SkillRunner) -> None:
    skills.give_data("app.log")
    outcome = skills.run("log-errors", {})
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("app.log: 13 lines, 7 errors, 2 warnings, 4 groups\n\n3 x error (lines 3 to 13)\n")
    assert '  ERROR payment <n> refused: card "…" expired\n' in outcome.stdout
    assert "磁盘空间不足" in outcome.stdout
    assert len(outcome.artifacts["errors.txt"].splitlines()) == 7


def test_log_errors_takes_options_in_either_spelling(skills: SkillRunner) -> None:
    skills.give_data("app.log")
    outcome = skills.run_raw("log-errors", b"", ["app.log", "--level=warning", "--top", "1"])
    assert "4 more groups" in outcome.stdout


def test_log_errors_reads_empty_logs_and_broken_text(skills: SkillRunner) -> None:
    skills.give("empty.log", b"")
    skills.give("broken.log", b"\xff\xfe ERROR \x80\r\nerror_count=0\n")
    assert skills.run("log-errors", {"file": "empty.log"}).stdout.startswith("empty.log: 0 lines, 0 errors")
    broken = skills.run_raw("log-errors", b"", ["broken.log"])
    assert broken.status == 0
    assert broken.artifacts["errors.txt"] == b"\xff\xfe ERROR \x80\n"


@pytest.mark.parametrize("argv", [["--top"], ["--top", "0"], ["--top", "1;id"], ["--no"], ["--file", ""]])
def test_log_errors_refuses_bad_options(argv: list[str], skills: SkillRunner) -> None:
    skills.give("a.log", b"ERROR\0")
    outcome = skills.run_raw("log-errors", b"", argv)
    assert outcome.status == 2
    assert outcome.stderr.startswith("error: ")


def test_file_checksum_lists_sums_and_files_of_the_same_content(skills: SkillRunner) -> None:
    for name in ("a.txt", "副本 b.txt"):
        skills.give(name, b"same")
    outcome = skills.run("file-checksum", {})
    digest = hashlib.sha256(b"same").hexdigest()
    assert outcome.stdout == f"{digest}  a.txt\n{digest}  副本 b.txt\nsame content: a.txt, 副本 b.txt\n"
    assert outcome.artifacts["checksums.txt"].decode() in outcome.stdout


def test_file_checksum_checks_an_expected_sum(skills: SkillRunner) -> None:
    skills.give("a.txt", b"same")
    digest = hashlib.md5(b"same", usedforsecurity=False).hexdigest()
    good = skills.run("file-checksum", {"algorithm": "md5", "expect": digest.upper()})
    assert (good.status, good.stdout.splitlines()[-1]) == (0, "OK")
    bad = skills.run("file-checksum", {"algorithm": "md5", "expect": "0" * 32})
    assert (bad.status, "does not have the md5 checksum" in bad.stderr) == (1, True)
