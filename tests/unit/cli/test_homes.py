"""`skillbus homes`, `devices`, `commands` and `resolve` against a fake server."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from skillbus.cli.tables import build_table
from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_server import Json, problem
from .fake_tools import FakeTools

DEVICES = '{"home": "家", "id": "a", "name": "老伙计", "type": "fan"}\n'
COMMANDS = '{"id": "switch.on", "capability": {"id": "switch"}, "command": {"id": "on"}, "description": "打开设备"}\n'
DEVICE: Json = {"home": "家", "id": "a", "name": "老伙计", "aliases": ["老风扇"], "room": "客厅", "type": "fan"}
COMMAND: Json = {
    "id": "switchLevel.setLevel",
    "capability": {"id": "switchLevel"},
    "command": {"id": "setLevel"},
    "description": {"zh": "设置亮度", "en": "Set the brightness"},
    "arguments": [{"name": "level", "source": "brightness", "minimum": 0, "maximum": 100}],
}
CALL: Json = {
    "id": "switchLevel.setLevel",
    "capability": "switchLevel",
    "command": "setLevel",
    "description": {"zh": "设置亮度"},
    "score": 0.91,
    "arguments": {"level": 30.0},
}
RECALLED: Json = {"id": "a", "name": "客厅灯", "room": "客厅", "type": "light", "confidence": 0.9}


def report(**counts: int) -> Json:
    return {"total": sum(counts.values()), "counts": counts, "indexed": True, "results": []}


def resolved(*results: Json) -> Json:
    return {"parsed_by": "rules", "took_ms": 1.5, "results": list(results)}


def outcome(status: str, **more: object) -> Json:
    query: Json = {"action": "设置亮度", "action_code": "set_brightness", "type_hint": "light", "confidence": 0.9}
    query |= {"scope_include": ["客厅"], "arguments": {"brightness": 30}}
    return {"query": query, "status": status, "confidence": 0.8} | more


DONE = outcome("resolved", devices=[RECALLED | {"reasons": ["room_hit", "type_hit"], "command": CALL}])


@pytest.fixture
def tools() -> FakeTools:
    return FakeTools(
        answers={
            "PUT /api/devices": report(created=1),
            "PUT /api/commands": report(created=1),
            "POST /api/context/resolve": resolved(DONE),
        }
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "devices.jsonl").write_text(DEVICES, "utf-8")
    (tmp_path / "commands.jsonl").write_text(COMMANDS, "utf-8")
    return tmp_path


def test_devices_are_sent_as_they_are_with_the_home_of_those_that_name_none(
    skillbus: CommandLine, tools: FakeTools, home: Path
) -> None:
    words = ["--home", "家", "--project", "p"]
    result = skillbus("devices", "import", str(home / "devices.jsonl"), *words, externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert tools.requests == [("PUT", "/api/devices", DEVICES.encode())]
    assert dict(tools.queries[0]) == {"only": "problems", "first_line": "1", "home": "家", "project": "p"}
    assert ["created", "1"] in [line.split() for line in result.stdout.splitlines()]


def test_capabilities_that_no_command_has_are_named(skillbus: CommandLine, tools: FakeTools, home: Path) -> None:
    tools.answers["PUT /api/devices"] = report(created=1) | {"unknown_capabilities": ["levle", "swich"]}
    result = skillbus("devices", "import", str(home / "devices.jsonl"), externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert "the library has no command of levle, swich" in " ".join(result.output.split())


def test_a_rejected_command_is_shown_by_its_line_and_fails(skillbus: CommandLine, tools: FakeTools) -> None:
    line = {"line": 2, "id": "x", "outcome": "rejected", "error": "description: missing"}
    tools.answers["PUT /api/commands"] = report(created=1, rejected=1) | {"results": [line]}
    result = skillbus("commands", "import", "-", stdin=COMMANDS, externals=tools.externals())
    assert result.exit_code == 1
    assert ["2", "x", "rejected", "description:", "missing"] in [it.split() for it in result.stdout.splitlines()]
    assert "1 of 2 were rejected" in result.stderr
    as_json = skillbus("commands", "import", "-", "--json", stdin=COMMANDS, externals=tools.externals())
    assert (as_json.exit_code, as_json.stderr, json.loads(as_json.stdout)["counts"]["rejected"]) == (1, "", 1)


def test_homes_devices_and_commands_are_listed(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["GET /api/homes"] = {"homes": [{"home": "家", "devices": 28, "rooms": 7}], "total": 1}
    tools.answers["GET /api/devices"] = {"devices": [DEVICE], "total": 1}
    tools.answers["GET /api/commands"] = {"commands": [COMMAND], "total": 2}
    homes = skillbus("homes", "list", externals=tools.externals())
    assert ["家", "28", "7"] in [line.split() for line in homes.stdout.splitlines()]
    words = ["--home", "家", "--room", "客厅", "--type", "fan", "--text", "老"]
    devices = skillbus("devices", "list", *words, externals=tools.externals())
    assert "老伙计, 老风扇" in devices.stdout
    asked = {"home": "家", "room": "客厅", "type": "fan", "text": "老", "limit": "100"}
    assert dict(tools.queries[-1]) == asked
    commands = skillbus("commands", "list", "--capability", "switchLevel", externals=tools.externals())
    assert "level 0..100" in commands.stdout
    assert "设置亮度 / Set the brightness" in commands.stdout
    assert "1 of 2 commands" in commands.stdout


@pytest.mark.parametrize(
    ("words", "path", "members", "said"),
    [
        (["homes"], "/api/homes", {"homes": []}, "skillbus devices import FILE"),
        (["devices"], "/api/devices", {"devices": []}, "skillbus devices import FILE"),
        (["commands"], "/api/commands", {"commands": []}, "skillbus commands import FILE"),
    ],
)
def test_an_empty_list_says_how_to_fill_it(
    skillbus: CommandLine, tools: FakeTools, words: list[str], path: str, members: Json, said: str
) -> None:
    tools.answers[f"GET {path}"] = members | {"total": 0}
    result = skillbus(*words, "list", externals=tools.externals())
    assert (result.exit_code, said in result.stdout) == (0, True)


def test_commands_are_searched_with_their_capabilities(skillbus: CommandLine, tools: FakeTools) -> None:
    hit = {name: value for name, value in CALL.items() if name != "arguments"} | {"cosine": 0.6}
    tools.answers["POST /api/commands/search"] = {"results": [hit], "model": "m", "took_ms": 2.0}
    words = ["--capability", "switchLevel", "--threshold", "0.2", "--top-k", "3"]
    result = skillbus("commands", "search", "亮一点", *words, externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert tools.body() == {"query": "亮一点", "limit": 3, "capabilities": ["switchLevel"], "threshold": 0.2}
    assert ["switchLevel.setLevel", "0.91", "设置亮度"] in [line.split() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("words", [["devices", "remove", "--home", "家"], ["commands", "remove", "a"]])
def test_without_a_terminal_nothing_is_removed_unasked(
    skillbus: CommandLine, tools: FakeTools, words: list[str]
) -> None:
    assert skillbus(*words, externals=tools.externals()).exit_code == 2
    assert tools.requests == []


def test_devices_are_removed_by_id_and_a_missing_one_fails(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["DELETE /api/devices"] = {"ids": ["a"]}
    result = skillbus("devices", "remove", "a", "b", "--home", "家", "--yes", externals=tools.externals())
    assert (result.exit_code, "1 device of 家: removed" in result.stdout) == (1, True)
    assert "not there: b" in result.stderr
    assert tools.queries[-1].multi_items() == [("home", "家"), ("id", "a"), ("id", "b")]
    whole = skillbus("devices", "remove", "--home", "家", "--yes", externals=tools.externals())
    assert (whole.exit_code, tools.queries[-1].multi_items()) == (0, [("home", "家")])


def test_commands_are_removed_by_id(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["DELETE /api/commands"] = {"ids": ["a", "b"]}
    result = skillbus("commands", "remove", "a", "b", "a", "--yes", "--json", externals=tools.externals())
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ids": ["a", "b"]})
    assert tools.queries[-1].multi_items() == [("id", "a"), ("id", "b")]


def test_a_sentence_is_resolved_in_a_home(skillbus: CommandLine, tools: FakeTools) -> None:
    words = ["--home", "家", "--session", "s", "--parser", "rules", "--threshold", "0.4", "--mentioned", "a"]
    result = skillbus("resolve", "客厅灯调到三成", *words, externals=tools.externals())
    assert result.exit_code == 0, result.output
    asked = {"text": "客厅灯调到三成", "home": "家", "session": "s", "parser": "rules", "threshold": 0.4}
    assert tools.body() == asked | {"last_mentioned": ["a"]}
    lines = result.stdout.splitlines()
    assert lines[0] == "resolved 0.80  设置亮度 (set_brightness); type: light; in: 客厅; brightness=30"
    row = ["客厅灯", "客厅", "switchLevel.setLevel", "level=30", "0.91", "room_hit,", "type_hit"]
    assert row in [line.split() for line in lines]
    assert lines[-1] == "1.5 ms, parsed by rules"


def test_a_folder_is_imported_first_and_names_the_home(skillbus: CommandLine, tools: FakeTools, home: Path) -> None:
    assert skillbus("resolve", "开灯", "--home", str(home), externals=tools.externals()).exit_code == 0
    paths = [path for _, path, _ in tools.requests]
    assert paths == ["/api/devices", "/api/commands", "/api/context/resolve"]
    assert (tools.queries[0]["home"], tools.body()["home"]) == ("家", "家")


def test_devices_of_a_folder_without_a_home_get_the_name_of_the_folder(
    skillbus: CommandLine, tools: FakeTools, home: Path
) -> None:
    (home / "devices.jsonl").write_text('[{"id": "a", "name": "灯", "type": "light"}]', "utf-8")
    (home / "commands.jsonl").unlink()
    assert skillbus("resolve", "开灯", "--home", str(home), externals=tools.externals()).exit_code == 0
    assert (tools.queries[0]["home"], tools.body()["home"], len(tools.requests)) == (home.name, home.name, 2)


def test_a_folder_with_two_homes_or_a_bad_line_is_not_resolved_in(
    skillbus: CommandLine, tools: FakeTools, home: Path
) -> None:
    line = {"line": 1, "home": "家", "id": "a", "outcome": "rejected", "error": "type: missing"}
    tools.answers["PUT /api/devices"] = report(rejected=1) | {"results": [line]}
    refused = skillbus("resolve", "开灯", "--home", str(home), externals=tools.externals())
    assert (refused.exit_code, "line 1: type: missing" in refused.stderr, len(tools.requests)) == (1, True, 1)
    (home / "devices.jsonl").write_text(DEVICES + DEVICES.replace("家", "公司"), "utf-8")
    result = skillbus("resolve", "开灯", "--home", str(home), externals=tools.externals())
    assert (result.exit_code, "has several homes: 公司, 家" in result.stderr, len(tools.requests)) == (1, True, 1)


def test_what_is_left_open_is_shown_with_its_question_and_fails(skillbus: CommandLine, tools: FakeTools) -> None:
    dropped = {"id": "b", "name": "温度计", "reason": "no_command_fits", "detail": "读取温度 has 0.12"}
    candidate = RECALLED | {"reasons": ["fuzzy_hit"]}
    open_one = outcome("ambiguous", candidates=[candidate], dropped=[dropped], question="哪一个？")
    tools.answers["POST /api/context/resolve"] = resolved(DONE, open_one)
    result = skillbus("resolve", "开灯", "--home", "家", externals=tools.externals())
    assert result.exit_code == 1
    for text in ("resolved", "ambiguous", "fuzzy_hit", "no_command_fits", "读取温度 has 0.12", "哪一个？"):
        assert text in result.stdout
    assert "The sentence is not resolved" in result.stderr
    as_json = skillbus("resolve", "开灯", "--home", "家", "--json", externals=tools.externals())
    assert (as_json.exit_code, json.loads(as_json.stdout)["results"][1]["question"]) == (1, "哪一个？")


def test_where_no_device_is_found_those_of_the_home_can_be_listed(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["POST /api/context/resolve"] = resolved(DONE, outcome("no_device"))
    result = skillbus("resolve", "开灯", "--home", "my home", externals=tools.externals())
    assert (result.exit_code, "skillbus devices list --home 'my home'" in " ".join(result.stderr.split())) == (1, True)


@pytest.mark.parametrize("width", [79, 80, 88, 90, 91, 94])
def test_columns_that_are_left_out_leave_the_others_their_room(width: int) -> None:
    row = ("客厅空调", "客厅", "thermostatCoolingSetpoint.setCoolingSetpoint", "setpoint=26", "0.99", "type_hit")
    headings = ("device", "room", "command", "arguments", "score", "reasons")
    console = Console(width=width, file=StringIO())
    with console.capture() as shown:
        console.print(build_table(headings, [row], ("score",), ("command",), ("room", "reasons")))
    head, _, *lines = shown.get().splitlines()
    assert "score" in head
    assert "setpoint=26" in lines[0]
    assert not "".join(lines[1:]).strip()


def test_of_many_devices_the_first_are_shown(skillbus: CommandLine, tools: FakeTools) -> None:
    devices = [RECALLED | {"name": f"灯{number}", "reasons": ["type_hit"], "command": CALL} for number in range(60)]
    tools.answers["POST /api/context/resolve"] = resolved(outcome("resolved", devices=devices))
    told = skillbus("resolve", "开灯", "--home", "家", externals=tools.externals()).stdout
    assert ("灯49" in told, "灯50" in told, "and 10 more: --json lists all" in told) == (True, False, True)


def test_a_sentence_that_is_no_command_fails(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["POST /api/context/resolve"] = resolved()
    result = skillbus("resolve", "你好", "--home", "家", externals=tools.externals())
    assert (result.exit_code, "it is no command" in result.stderr) == (1, True)


def test_who_parsed_and_why_the_model_did_not_is_said(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["POST /api/context/resolve"] = resolved(DONE) | {"model_problem": "timed out"}
    told = skillbus("resolve", "开灯", "--home", "家", externals=tools.externals()).stdout
    assert "1.5 ms, parsed by rules; the model was of no help: timed out" in told
    tools.answers["POST /api/context/resolve"] = resolved(DONE) | {
        "parsed_by": "model",
        "model": "dashscope/qwen-flash",
    }
    told = skillbus("resolve", "开灯", "--home", "家", externals=tools.externals()).stdout
    assert "parsed by dashscope/qwen-flash" in told


def test_an_unknown_home_is_answered_by_the_ones_near_to_it(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["POST /api/context/resolve"] = problem(ErrorCode.NOT_FOUND, "There is no home 'hoem'.")
    tools.answers["GET /api/homes"] = {"homes": [{"home": "home", "devices": 1, "rooms": 1}], "total": 1}
    result = skillbus("resolve", "开灯", "--home", "hoem", externals=tools.externals())
    assert (result.exit_code, "Did you mean `home`?" in result.stderr) == (1, True)


def test_a_folder_without_devices_is_no_home(skillbus: CommandLine, tools: FakeTools, tmp_path: Path) -> None:
    result = skillbus("resolve", "开灯", "--home", str(tmp_path), externals=tools.externals())
    assert (result.exit_code, "has no devices.jsonl" in result.stderr, tools.requests) == (1, True, [])


def test_a_file_of_devices_is_no_home(skillbus: CommandLine, tools: FakeTools, home: Path) -> None:
    result = skillbus("resolve", "开灯", "--home", str(home / "devices.jsonl"), externals=tools.externals())
    assert (result.exit_code, "is a file, and no folder" in result.stderr, tools.requests) == (1, True, [])


@pytest.mark.parametrize("text", ["", " ", "x" * 1001])
def test_a_sentence_that_is_empty_or_too_long_is_wrong_usage(
    skillbus: CommandLine, tools: FakeTools, text: str
) -> None:
    result = skillbus("resolve", text, "--home", "家", externals=tools.externals())
    assert (result.exit_code, "SENTENCE" in result.stderr, tools.requests) == (2, True, [])
