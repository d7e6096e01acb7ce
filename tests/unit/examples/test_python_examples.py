"""What the example skills written in Python compute."""

import pytest

from .runner import SkillRunner

RENAME = """diff --git "a/docs/\\346\\226\\207.py" b/lib/text.py
similarity index 100%
rename from "docs/\\346\\226\\207.py"
rename to lib/text.py
"""
SECRET = """diff --git a/conf.py b/conf.py
new file mode 100644
--- /dev/null
+++ b/conf.py
@@ -0,0 +1,2 @@
+API_KEY = "abcd1234efgh5678"
+<<<<<<< HEAD
"""
MINUS_LINES = """--- a/query.sql
+++ b/query.sql
@@ -1,3 +1,2 @@
 select 1;
--- a comment that looks like a header
+++ and one more
-select 2;
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", 0.3),
        ("200 × 15%", 30),
        ("17 % 5", 2),
        ("（１＋２）×３＝", 9),
        ("2^10", 1024),
        ("-2 ** 2", -4),
        ("sqrt(16) + comb(5, 2)", 14),
        ("round(2.675, 2)", 2.68),
        ("123456789012345678901234567890 + 1", 123456789012345678901234567891),
        ("mean(x, 4)", 3),
    ],
)
def test_calculate_gives_the_exact_value(expression: str, value: float, skills: SkillRunner) -> None:
    assert skills.run("calculate", {"expression": expression, "variables": {"x": 2}}).value("value") == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "().__class__",
        "9**9**9",
        "10**-99999",
        "factorial(10**9)",
        "1/0",
        "1e999999999",
        "[1]*9",
        "lambda: 1",
        "'a'*9",
        "True",
        "f(1)",
        "y",
        "1 +",
        "(" * 900,
        "-" * 1900 + "1",
        "log(-1)",
        "  ",
        "gcd(1.5)",
    ],
)
def test_calculate_refuses_what_is_no_arithmetic_or_too_large(expression: str, skills: SkillRunner) -> None:
    outcome = skills.run("calculate", {"expression": expression})
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "Traceback" not in outcome.stderr


def test_git_commit_writes_a_conventional_commit_message_in_chinese(skills: SkillRunner) -> None:
    skills.give_data("change.diff")
    outcome = skills.run("git-commit", {})
    assert str(outcome.value("message")).startswith(
        "feat(shop): 新增 apply_coupon、total_after_discount\n\n- 修改 src/shop/cart.py"
    )
    assert outcome.value("files", 1) == {
        "path": "tests/test_cart.py",
        "status": "modified",
        "added": 4,
        "removed": 0,
        "binary": False,
    }


def test_git_commit_takes_a_given_type_and_keeps_the_header_short(skills: SkillRunner) -> None:
    skills.give_data("change.diff")
    args: dict[str, object] = {"type": "fix", "scope": "", "subject": "x" * 200, "language": "en", "max_length": 50}
    header = str(skills.run("git-commit", args).value("message")).splitlines()[0]
    assert header.startswith("fix: xxx")
    assert len(header) == 50


def test_git_commit_reads_renames_of_quoted_paths(skills: SkillRunner) -> None:
    outcome = skills.run("git-commit", {"diff": RENAME, "language": "en"})
    assert outcome.value("type") == "refactor"
    assert outcome.value("subject") == "rename 文.py to text.py"


def test_git_commit_warns_of_secrets_without_showing_them(skills: SkillRunner) -> None:
    outcome = skills.run("git-commit", {"diff": SECRET})
    assert outcome.value("warnings") == ["conflict marker in conf.py", "possible secret in conf.py"]
    assert "abcd1234" not in outcome.stdout


def test_git_commit_does_not_take_removed_lines_for_file_headers(skills: SkillRunner) -> None:
    outcome = skills.run("git-commit", {"diff": MINUS_LINES})
    assert outcome.value("files") == [
        {"path": "query.sql", "status": "modified", "added": 1, "removed": 2, "binary": False}
    ]


@pytest.mark.parametrize(
    ("path", "line", "kind"),
    [
        ("README.md", "text", "docs"),
        ("tests/test_a.py", "assert 1", "test"),
        (".github/workflows/ci.yml", "on: push", "ci"),
        ("package.json", '"x": 1', "build"),
        ("src/a.py", "# fix the off-by-one error", "fix"),
        ("src/a.py", "x  =  1", "style"),
    ],
)
def test_git_commit_tells_the_type_from_the_files_and_lines(
    path: str, line: str, kind: str, skills: SkillRunner
) -> None:
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x = 1\n+{line}\n"
    assert skills.run("git-commit", {"diff": diff}).value("type") == kind


def test_git_commit_refuses_text_without_changes(skills: SkillRunner) -> None:
    assert skills.run("git-commit", {"diff": "nothing to commit"}).status == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_file_read_recognizes_the_encoding(encoding: str, skills: SkillRunner) -> None:
    skills.give("会议.txt", "第一行\n第二行\n第三行\n".encode(encoding))
    outcome = skills.run("file-read", {"file": "会议.txt", "start_line": 2, "max_lines": 1})
    assert outcome.value("content") == "第二行\n"
    assert (outcome.value("encoding"), outcome.value("lines"), outcome.value("truncated")) == (encoding, 3, True)


def test_file_read_lists_the_files_when_there_are_several(skills: SkillRunner) -> None:
    skills.give("b.txt", b"bb")
    skills.give("a.txt", b"")
    assert skills.run("file-read", {}).value("files") == [
        {"file": "a.txt", "size_bytes": 0},
        {"file": "b.txt", "size_bytes": 2},
    ]


@pytest.mark.parametrize(
    "args", [{"start_line": 9}, {"start_line": 0}, {"start_line": "1"}, {"max_lines": True}, {"file": 3}]
)
def test_file_read_refuses_lines_that_do_not_exist(args: dict[str, object], skills: SkillRunner) -> None:
    skills.give("a.txt", b"one\n")
    assert skills.run("file-read", args).status == 2


def test_file_read_refuses_binary_files_and_reads_empty_ones(skills: SkillRunner) -> None:
    skills.give("a.bin", b"\x7fELF\0\0")
    skills.give("empty", b"")
    assert skills.run("file-read", {"file": "a.bin"}).status == 2
    assert skills.run("file-read", {"file": "empty"}).value("content") == ""


def test_csv_summary_finds_types_missing_values_and_groups(skills: SkillRunner) -> None:
    skills.give_data("orders.csv")
    outcome = skills.run("csv-summary", {"group_by": "city", "measure": "amount"})
    kinds = [outcome.value("columns", position, "kind") for position in range(6)]
    assert kinds == ["text", "date", "text", "number", "boolean", "text"]
    assert outcome.value("columns", 3, "sum") == 2213.3
    assert outcome.value("columns", 3, "missing") == 1
    assert outcome.value("groups", 0, "key") == "上海"
    assert b"| amount | number | 5 | 1 |" in outcome.artifacts["summary.md"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_summary_finds_the_delimiter(delimiter: str, skills: SkillRunner) -> None:
    text = f"a{delimiter}b\n1{delimiter}2\n3{delimiter}4{delimiter}5\n"
    outcome = skills.run("csv-summary", {"text": text})
    assert (outcome.value("delimiter"), outcome.value("ragged_rows")) == (delimiter, 1)


@pytest.mark.parametrize("args", [{"text": " \n"}, {"text": "a,b\n1,2", "group_by": "z", "measure": "b"}])
def test_csv_summary_refuses_an_empty_table_and_unknown_columns(args: dict[str, object], skills: SkillRunner) -> None:
    assert skills.run("csv-summary", args).status == 2


def test_text_diff_shows_what_changed(skills: SkillRunner) -> None:
    skills.give("old.txt", "一\n二\n".encode("gb18030"))
    outcome = skills.run("text-diff", {"old_file": "old.txt", "new": "一\n三\n"})
    assert outcome.value("diff") == "--- old\n+++ new\n@@ -1,2 +1,2 @@\n 一\n-二\n+三\n"
    assert (outcome.value("added"), outcome.value("removed"), outcome.value("similarity")) == (1, 1, 0.5)
    assert outcome.artifacts["changes.diff"].decode() == outcome.value("diff")


def test_text_diff_ignores_what_it_is_told_to(skills: SkillRunner) -> None:
    args: dict[str, object] = {"old": "A  b\n\nc", "new": "a b\nc ", "ignore": ["space", "case", "blank"]}
    assert skills.run("text-diff", args).value("identical") is True
    assert skills.run("text-diff", args | {"ignore": ["tabs"]}).status == 2


def test_date_convert_counts_workdays_over_the_national_day(skills: SkillRunner) -> None:
    outcome = skills.run("date-convert", {"date": "2026年9月30日", "add": {"workdays": 3}})
    assert (outcome.value("date"), outcome.value("weekday")) == ("2026-10-10", "星期六")
    assert (outcome.value("is_workday"), outcome.value("adjusted_workday")) == (True, True)


def test_date_convert_measures_the_days_between_two_dates(skills: SkillRunner) -> None:
    outcome = skills.run("date-convert", {"date": "2026-02-10", "until": "2026/3/1"})
    assert (outcome.value("days"), outcome.value("workdays")) == (19, 13 - 4)
    back = skills.run("date-convert", {"date": "2026/3/1", "until": "2026-02-10"})
    assert back.value("days") == -19


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("20260930", "2026-09-30"),
        ("30 Sep 2026", "2026-09-30"),
        (1790000000, "2026-09-21"),
        ("1790000000123", "2026-09-21"),
        ("2026-09-30T10:00:00+08:00", "2026-09-30"),
    ],
)
def test_date_convert_reads_many_ways_to_write_a_date(date: object, expected: str, skills: SkillRunner) -> None:
    assert skills.run("date-convert", {"date": date}).value("date") == expected


def test_date_convert_keeps_month_ends_and_says_null_where_no_holidays_are_known(skills: SkillRunner) -> None:
    outcome = skills.run("date-convert", {"date": "2028-01-31", "add": {"months": 1}})
    assert (outcome.value("date"), outcome.value("is_workday")) == ("2028-02-29", None)


@pytest.mark.parametrize(
    "args",
    [
        {"date": "2026-02-30"},
        {"date": "明天"},
        {"date": True},
        {"date": 1e300},
        {"date": "2031-01-01", "add": {"workdays": 1}},
        {"date": "2026-01-01", "add": {"years": 10**30}},
        {"date": "2026-01-01", "add": {"days": "1"}},
        {"date": "2026-01-01", "add": {"hours": 1}},
    ],
)
def test_date_convert_refuses_dates_it_cannot_give(args: dict[str, object], skills: SkillRunner) -> None:
    outcome = skills.run("date-convert", args)
    assert outcome.status == 2
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (10, "mile", "公里", 16.09344),
        (100, "°F", "c", 37.7777777777778),
        (-40, "c", "f", -40),
        (3, "斤", "kg", 1.5),
        (15, "亩", "公顷", 1),
        (1, "GiB", "bytes", 1073741824),
        (36, "km/h", "m/s", 10),
    ],
)
def test_unit_convert_converts(value: float, source: str, target: str, expected: float, skills: SkillRunner) -> None:
    outcome = skills.run("unit-convert", {"value": value, "from": source, "to": target})
    assert outcome.value("value") == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"value": 1, "from": "kilomete", "to": "m"}, "did you mean kilomet"),
        ({"value": 1, "from": "kg", "to": "m"}, "measures"),
        ({"value": -300, "from": "c", "to": "k"}, "absolute zero"),
        ({"value": "1", "from": "c"}, "finite number"),
        ({"value": 1e308, "from": "tb", "to": "bit"}, "too large"),
    ],
)
def test_unit_convert_says_why_it_cannot(args: dict[str, object], reason: str, skills: SkillRunner) -> None:
    outcome = skills.run("unit-convert", args)
    assert outcome.status == 2
    assert reason in outcome.stderr
