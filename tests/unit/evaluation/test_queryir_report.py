"""Files of sentences and commands, and the reports on them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.cli.__main__ import create_app
from skillbus.cli.evaluate.queryir_view import render_command_report, render_queryir_report
from skillbus.contracts.retriever.command_resolution import (
    CommandHit,
    DroppedDevice,
    RecalledDevice,
    ResolvedQuery,
)
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.evaluation.queryir.answers import list_recalled_ids
from skillbus.evaluation.queryir.command_queries import load_command_cases
from skillbus.evaluation.queryir.report import SentenceAnswer, build_command_report, build_queryir_report
from skillbus.evaluation.queryir.rows import load_queryir_cases

from .files import lines_in

LAMP = {"home": "h", "id": "d1", "name": "台灯", "type": "light", "room": "书房", "capabilities": ["switch"]}
ON = {"id": "switch.on", "capability": {"id": "switch"}, "command": {"id": "on"}, "description": "打开设备"}
SENTENCE: dict[str, object] = {
    "id": "1",
    "utterance": "打开台灯",
    "lang": "zh",
    "inventory": "h",
    "ir": {"action": "打开", "action_code": "turn_on", "name_hint": "台灯"},
    "expected_devices": ["d1"],
    "source": "hand",
}
RIGHT = QueryIR(action="打开", action_code="turn_on", name_hint="台灯", confidence=1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines_in(tmp_path / "inventory.jsonl", [LAMP])
    lines_in(tmp_path / "spec.jsonl", [ON])
    lines_in(tmp_path / "queryir.jsonl", [SENTENCE])
    lines_in(tmp_path / "spec_queries.jsonl", [{"query": "打开", "expected_capability": ["switch", "valve"]}])
    return tmp_path


def test_sets_are_sources_up_to_a_slash_with_their_languages(folder: Path) -> None:
    more: list[dict[str, object]] = [
        {"id": "2", "source": "hand", "lang": "en"},
        {"id": "3", "source": "home-assistant/intents tests/zh-tw", "lang": "zh-tw", "expected_devices": None},
        {"id": "4"},
    ]
    lines_in(folder / "queryir.jsonl", [SENTENCE, *({**SENTENCE, **it} for it in more)])
    cases = load_queryir_cases(folder)
    other = RIGHT.model_copy(update={"name_hint": "吊灯"})
    answers = [
        SentenceAnswer((RIGHT,), frozenset({"d1"})),
        SentenceAnswer((RIGHT,), frozenset({"d1", "d2"})),
        SentenceAnswer((RIGHT,), None),
        SentenceAnswer((other,), frozenset()),
    ]
    report = build_queryir_report(cases, answers)
    assert report.document() == {
        "sets": {
            "hand-en": {"n": 1, "exact": 1.0, "devices": 0.0},
            "hand-zh": {"n": 2, "exact": 0.5, "devices": 0.5},
            "home-assistant-zh-tw": {"n": 1, "exact": 1.0, "devices": None},
        }
    }
    failures = [(it.id, [wrong.field for wrong in it.wrong]) for it in report.failures]
    assert failures == [("2", ["devices"]), ("4", ["name_hint", "devices"])]
    assert "failures" in report.document(with_failures=True)


def test_recalled_devices_are_those_of_the_result_before_any_is_dropped() -> None:
    def device(name: str, *reasons: str) -> dict[str, object]:
        return {"id": name, "name": name, "room": None, "type": "light", "reasons": reasons, "confidence": 1}

    call = {"id": "x", "capability": "x", "command": "x", "description": {}, "score": 1}
    result = ResolvedQuery.model_validate(
        {
            "query": RIGHT,
            "status": "ambiguous",
            "confidence": 1,
            "devices": [device("chosen", "name_hit") | {"command": call}],
            "candidates": [
                RecalledDevice.model_validate(device("near", "fuzzy_hit")),
                RecalledDevice.model_validate(device("similar", "similar_hit")),
            ],
            "dropped": [DroppedDevice.model_validate(device("dropped") | {"reason": "no_commands", "detail": ""})],
        }
    )
    assert list_recalled_ids(result) == {"chosen", "near", "dropped"}


def hit(command: str) -> CommandHit:
    capability, _, name = command.partition(".")
    return CommandHit(id=command, capability=capability, command=name, description={}, score=1.0, cosine=1.0)


def test_a_hit_is_a_command_of_a_right_capability(folder: Path) -> None:
    query = load_command_cases(folder).queries[0]
    found = [[hit("valve.open"), hit("switch.on")], [hit("lock.lock"), hit("switch.on")], [hit("lock.lock")]]
    report = build_command_report([query] * 3, found)
    assert report.document() == {"n": 3, "hit@1": 1 / 3, "hit@10": 2 / 3}
    assert [(it.rank, it.found) for it in report.misses] == [(2, ("lock.lock", "switch.on")), (None, ("lock.lock",))]


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("queryir.jsonl", SENTENCE | {"id": "2", "inventory": "nowhere"}, "'nowhere'"),
        ("queryir.jsonl", SENTENCE, "line 1"),
        ("queryir.jsonl", {"id": "2", "utterance": "x"}, "lang"),
        ("inventory.jsonl", LAMP | {"type": "台灯"}, "type"),
    ],
)
def test_a_bad_line_is_told(folder: Path, file: str, line: object, said: str) -> None:
    kept = (folder / file).read_text("utf-8").strip()
    lines_in(folder / file, [kept, line])
    with pytest.raises(BadLineError, match=said):
        load_queryir_cases(folder)


def test_a_library_is_not_needed_and_sentences_are(folder: Path) -> None:
    (folder / "spec.jsonl").unlink()
    assert load_queryir_cases(folder).commands == ()
    with pytest.raises(UnreadableFileError):
        load_command_cases(folder)
    (folder / "queryir.jsonl").unlink()
    with pytest.raises(UnreadableFileError):
        load_queryir_cases(folder)


def evaluate(*words: str) -> Result:
    return CliRunner().invoke(create_app(), ["eval", *words])


@pytest.mark.parametrize("what", ["queryir", "commands"])
def test_a_folder_without_files_is_told_before_anything_starts(tmp_path: Path, what: str) -> None:
    result = evaluate(what, str(tmp_path), "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "local_file")


def test_tables_have_the_figures_and_failures_on_request(folder: Path) -> None:
    from rich.console import Console  # noqa: PLC0415

    report = build_queryir_report(load_queryir_cases(folder), [SentenceAnswer((), frozenset())])
    commands = build_command_report(load_command_cases(folder).queries, [[hit("lock.lock")]])
    for has_failures, told in ((False, False), (True, True)):
        console = Console(width=80)
        with console.capture() as shown:
            console.print(render_queryir_report(report, with_failures=has_failures))
            console.print(render_command_report(commands, with_failures=has_failures))
        text = shown.get()
        assert "hand-zh" in text
        assert ("打开台灯" in text, "lock.lock" in text) == (told, told)
