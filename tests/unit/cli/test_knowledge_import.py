"""`skillbus knowledge import` and `skillbus knowledge export`."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from skillbus.contracts.errors import ErrorCode
from skillbus.gateway.domain.knowledge_markdown import parse_markdown

from .conftest import CommandLine
from .fake_knowledge import FakeKnowledge, import_report, item_record
from .fake_server import Json, problem

LINES = '{"id": "a", "type": "business_rule", "title": "甲", "content": "一"}\n{"id": "b"}\n'
REJECTED: Json = {"line": 2, "external_id": "b", "outcome": "rejected", "error": "title: Field required"}


async def broken_off() -> AsyncIterator[bytes]:
    """A line of an export, and then nothing more."""
    yield f"{json.dumps(item_record('i-1'))}\n".encode()
    raise httpx.ReadError("peer closed")


@pytest.fixture
def base() -> FakeKnowledge:
    return FakeKnowledge(answers={"POST /import": import_report(results=[])})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text(LINES, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kb" / "deep").mkdir(parents=True)
    for name in ("b.md", "deep/a.md", "c.txt"):
        (tmp_path / "kb" / name).write_text(f"---\ntitle: {name}\n---\n\nx\n")
    return tmp_path / "kb"


def test_a_file_is_sent_as_it_is_and_the_outcomes_are_a_table(
    skillbus: CommandLine, base: FakeKnowledge, file: Path
) -> None:
    words = ["--source", "wiki", "--pending", "--dry-run", "--reason", "move", "--by", "lin", "--project", "p"]
    result = skillbus("knowledge", "import", str(file), *words, externals=base.externals())
    assert result.exit_code == 0, result.output
    sent = base.requests[0]
    assert (sent.content.decode(), sent.headers["Content-Type"]) == (LINES, "application/x-ndjson")
    wishes = {"only": "problems", "first_line": "1", "source": "wiki", "status": "pending", "dry_run": "true"}
    assert dict(sent.url.params) == wishes | {"reason": "move", "project": "p"}
    assert sent.headers["Skillbus-Actor"] == "lin"
    assert ["created", "1"] in [line.split() for line in result.stdout.splitlines()]


def test_with_wait_the_server_waits_for_the_index(skillbus: CommandLine, base: FakeKnowledge, file: Path) -> None:
    base.answers["POST /import"] = import_report(results=[]) | {"indexed": False, "unindexed": 7}
    result = skillbus("knowledge", "import", str(file), "--wait", externals=base.externals())
    assert result.exit_code == 0, result.output
    assert base.requests[0].url.params["wait"] == "indexed"
    assert "the index still lacks 7 of them" in " ".join(result.stdout.split())


def test_a_large_file_goes_in_parts_that_are_counted_on(skillbus: CommandLine, base: FakeKnowledge, file: Path) -> None:
    file.write_text("".join(f'{{"id": "{number}", "title": "{"x" * 80}"}}\n' for number in range(20_000)))
    result = skillbus("knowledge", "import", str(file), externals=base.externals())
    assert result.exit_code == 0, result.output
    bodies = [request.content for request in base.requests]
    assert len(bodies) > 2
    assert b"".join(bodies) == file.read_bytes()
    ends = [body.count(b"\n") for body in bodies]
    lines = [int(request.url.params["first_line"]) for request in base.requests]
    assert lines == [1 + sum(ends[:at]) for at in range(len(bodies))]
    assert ["created", str(len(bodies))] in [line.split() for line in result.stdout.splitlines()]


def test_a_rejected_line_is_shown_by_its_number_and_the_exit_code_says_so(
    skillbus: CommandLine, base: FakeKnowledge, file: Path
) -> None:
    counts = {"created": 1, "rejected": 1}
    base.answers["POST /import"] = import_report(total=2, counts=counts, results=[REJECTED])
    result = skillbus("knowledge", "import", str(file), externals=base.externals())
    assert result.exit_code == 1
    assert ["2", "b", "rejected", "title:", "Field", "required"] in [it.split() for it in result.stdout.splitlines()]
    assert "1 of 2 were rejected" in result.stderr
    whole = skillbus("knowledge", "import", "-", "--json", stdin=LINES, externals=base.externals())
    assert (whole.exit_code, whole.stderr) == (1, "")
    assert json.loads(whole.stdout)["counts"] == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 1}


def test_of_a_folder_every_markdown_file_is_an_item_in_the_order_of_names(
    skillbus: CommandLine, base: FakeKnowledge, folder: Path
) -> None:
    base.answers["POST /import"] = import_report(total=2, counts={"created": 2}, indexed=False, unindexed=1, results=[])
    result = skillbus("knowledge", "import", str(folder), "--dry-run", "--json", externals=base.externals())
    assert result.exit_code == 0, result.output
    (sent,) = base.requests
    titles = [json.loads(line)["title"] for line in sent.content.decode().splitlines()]
    assert titles == ["b.md", "deep/a.md"]
    assert dict(sent.url.params) == {"only": "problems", "dry_run": "true"}
    counts = {"created": 2, "updated": 0, "unchanged": 0, "rejected": 0}
    report = json.loads(result.stdout)
    assert (report["counts"], report["dry_run"], report["indexed"]) == (counts, True, False)
    told = skillbus("knowledge", "import", str(folder), externals=base.externals()).stdout
    assert "the index still lacks 1 of them" in told


def test_files_of_a_folder_that_are_no_items_are_named_and_the_others_are_taken(
    skillbus: CommandLine, base: FakeKnowledge, folder: Path
) -> None:
    (folder / "a.md").write_text("no front matter")
    (folder / "b-gbk.md").write_bytes("---\ntitle: 甲\n---\n".encode("gbk"))
    second: Json = {"line": 2, "outcome": "rejected", "error": "type: Field required"}
    counts = {"created": 1, "rejected": 1}
    base.answers["POST /import"] = import_report(total=2, counts=counts, results=[second])
    result = skillbus("knowledge", "import", str(folder), externals=base.externals())
    assert result.exit_code == 1
    assert len(base.requests[0].content.splitlines()) == 2
    said = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith(str(folder))}
    assert "front matter is missing" in said[str(folder / "a.md")]
    assert "is not UTF-8" in said[str(folder / "b-gbk.md")]
    assert "type: Field required" in said[str(folder / "deep" / "a.md")]
    assert "3 of 4 were rejected" in result.stderr


def test_a_folder_of_no_items_at_all_asks_nobody(skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# How to")
    result = skillbus("knowledge", "import", str(tmp_path), externals=base.externals())
    assert (result.exit_code, base.requests) == (1, [])


def test_many_files_go_in_several_requests(skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path) -> None:
    for number in range(401):
        (tmp_path / f"{number:03}.md").write_text(f"---\ntitle: t{number}\n---\n\nx\n")
    assert skillbus("knowledge", "import", str(tmp_path), externals=base.externals()).exit_code == 0
    lines = [line for request in base.requests for line in request.content.decode().splitlines()]
    assert max(len(request.content.splitlines()) for request in base.requests) <= 200
    assert [json.loads(line)["title"] for line in lines] == [f"t{number}" for number in range(401)]


def test_a_learner_that_is_away_ends_the_import_of_a_folder(
    skillbus: CommandLine, base: FakeKnowledge, folder: Path
) -> None:
    base.answers["POST /import"] = problem(ErrorCode.UNAVAILABLE, "No learner is running.")
    result = skillbus("knowledge", "import", str(folder), externals=base.externals())
    assert (result.exit_code, len(base.requests)) == (1, 1)
    assert "No learner is running." in result.stderr


@pytest.mark.parametrize("kind", ["missing.jsonl", "missing.md", "empty", "folder"])
def test_what_cannot_be_imported_is_named_and_nobody_is_asked(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / kind
    if kind == "empty":
        path.touch()
    if kind == "folder":
        path.mkdir()
    result = skillbus("knowledge", "import", str(path), externals=base.externals())
    assert (result.exit_code, base.requests) == (1, [])
    assert kind in result.stderr


def test_an_export_is_a_line_an_item_as_the_server_says_it(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path
) -> None:
    base.items = {it: item_record(it, content="一\u2028二\r\n\x85") for it in ("i-1", "i-2")}
    words = ["--status", "active", "--status", "archived", "--type", "business_rule", "--project", "p"]
    result = skillbus("knowledge", "export", str(tmp_path / "all.jsonl"), *words, externals=base.externals())
    assert (result.exit_code, "2 items saved" in result.stdout) == (0, True)
    lines = (tmp_path / "all.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == list(base.items.values())
    asked = base.requests[0].url.params
    assert (asked.get_list("status"), asked["type"], asked["project"]) == (["active", "archived"], "business_rule", "p")
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]


def test_an_export_to_a_folder_is_a_markdown_file_an_item(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path
) -> None:
    base.items = {it: item_record(it, content=f"一\r\n{it}\u2028") for it in ("i-1", "i-2")}
    place = tmp_path / "kb"
    place.mkdir()
    (place / "old.md").write_text("x")
    result = skillbus("knowledge", "export", f"{place}/", externals=base.externals())
    assert result.exit_code == 0, result.output
    for item_id in base.items:
        read = parse_markdown((place / f"{item_id}.md").read_bytes().decode())
        assert (read["id"], read["scope"], read["content"]) == (item_id, "/api/live/*", f"一\r\n{item_id}\u2028")
    assert len(base.requests) == 1
    assert "1 other .md files" in result.stderr


def test_an_export_of_all_asks_for_every_status(skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path) -> None:
    words = ["knowledge", "export", str(tmp_path / "all.jsonl"), "--all"]
    assert skillbus(*words, externals=base.externals()).exit_code == 0
    assert base.requests[0].url.params.get_list("status") == ["active", "pending", "archived"]
    assert skillbus(*words, "--status", "active", externals=base.externals()).exit_code == 2


def test_what_must_not_be_found_is_not_exported_as_markdown_which_does_not_say_so(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path
) -> None:
    words = ["--status", "active", "--status", "archived"]
    assert skillbus("knowledge", "export", f"{tmp_path}/", *words, externals=base.externals()).exit_code == 2
    assert base.requests == []


def test_an_export_to_standard_output_is_the_lines_and_nothing_else(skillbus: CommandLine, base: FakeKnowledge) -> None:
    base.items = {"i-1": item_record("i-1")}
    result = skillbus("knowledge", "export", "-", externals=base.externals())
    assert json.loads(result.stdout) == base.items["i-1"]
    assert result.stderr == ""
    assert skillbus("knowledge", "export", "-", "--json", externals=base.externals()).exit_code == 2


@pytest.mark.parametrize("text", ["<html>", '{"id": "../x"}\n', '{"id": 1}'])
def test_an_answer_that_is_no_export_leaves_what_was_there(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path, text: str
) -> None:
    base.answers["GET /export"] = httpx.Response(200, text=text)
    kept = tmp_path / "all.jsonl"
    kept.write_text("before")
    result = skillbus("knowledge", "export", str(kept), externals=base.externals())
    assert (result.exit_code, kept.read_text()) == (1, "before")
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]
    assert (
        "strange_reply" in skillbus("knowledge", "export", f"{tmp_path}/", "--json", externals=base.externals()).stdout
    )


def test_an_export_that_breaks_off_leaves_what_was_there(
    skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path
) -> None:
    base.answers["GET /export"] = httpx.Response(200, content=broken_off())
    kept = tmp_path / "all.jsonl"
    kept.write_text("before")
    result = skillbus("knowledge", "export", str(kept), "--json", externals=base.externals())
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "no_answer")
    assert (kept.read_text(), [path.name for path in tmp_path.iterdir()]) == ("before", ["all.jsonl"])


def test_a_place_that_cannot_be_written_is_named(skillbus: CommandLine, base: FakeKnowledge, tmp_path: Path) -> None:
    place = tmp_path / "no" / "all.jsonl"
    result = skillbus("knowledge", "export", str(place), externals=base.externals())
    assert (result.exit_code, "all.jsonl" in result.stderr) == (1, True)
