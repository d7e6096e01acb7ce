"""The example home from the command line, on a running skillbus: its README shows what is printed."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app

from .conftest import ROOT, System

pytestmark = pytest.mark.asyncio(loop_scope="module")

README = ROOT / "examples" / "home" / "README.md"
WIDTH = "110"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skillbus(system: System) -> "CommandLine":
    return CommandLine(system)


class CommandLine:
    """Runs commands in the folder of the repository."""

    def __init__(self, system: System) -> None:
        self._variables = {
            "SKILLBUS_URL": str(system.http.base_url),
            "SKILLBUS_DATA": str(system.data),
            "COLUMNS": WIDTH,
        }

    async def __call__(self, *words: str) -> Result:
        # The server logs to the standard output of this process, which is the command's while it runs.
        with capture_logs(), pytest.MonkeyPatch.context() as patched:
            patched.chdir(ROOT)
            return await asyncio.to_thread(
                CliRunner().invoke, create_app(), list(words), env=self._variables, catch_exceptions=False
            )

    async def document(self, *words: str) -> dict[str, Any]:
        """What the command says to programs."""
        document: dict[str, Any] = json.loads((await self(*words, "--json")).stdout)
        return document


def list_examples() -> Iterator[tuple[list[str], list[str]]]:
    """The words and the printed lines of each command of the README."""
    for block in re.findall(r"^```console\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            yield shlex.split(line)[1:], output.splitlines()


def mask_figures(lines: list[str]) -> list[str]:
    """Scores and times differ a little from machine to machine."""
    return [re.sub(r"\d+\.\d+", "#", line).rstrip() for line in lines]


async def test_the_readme_shows_what_is_printed(skillbus: CommandLine) -> None:
    examples = list(list_examples())
    assert len(examples) > 8
    printed = []
    for words, _ in examples:
        result = await skillbus(*words)
        printed.append((words, mask_figures(result.output.splitlines())))
    assert printed == [(words, mask_figures(lines)) for words, lines in examples]


LIGHTS_ELSEWHERE = {f"light-{number}" for number in (1, 2, 5, 6, 7, 8)}


@pytest.mark.spec("context-retrieval.md § QueryIR + JSON schema + confidence")
@pytest.mark.spec("context-retrieval.md § reasons name_hit/room_hit/type_hit")
@pytest.mark.spec("context-retrieval.md § 解析动作与名称")
@pytest.mark.spec("context-retrieval.md § 解析量词与范围")
@pytest.mark.spec("context-retrieval.md § 解析排除语义")
@pytest.mark.spec("context-retrieval.md § 解析指代")
@pytest.mark.parametrize(
    ("text", "fields", "devices", "command", "reasons"),
    [
        ("打开老伙计", {"action": "打开", "name_hint": "老伙计"}, {"fan-1"}, "switch.on", ["name_hit"]),
        (
            "关闭所有卧室的灯",
            {"action": "关闭", "quantifier": "all", "scope_include": ["卧室"], "type_hint": "light"},
            {"light-3", "light-4"},
            "switch.off",
            ["room_hit", "type_hit"],
        ),
        (
            "打开除卧室以外的灯",
            {"quantifier": "except", "scope_exclude": ["卧室"], "type_hint": "light"},
            LIGHTS_ELSEWHERE,
            "switch.on",
            ["type_hit"],
        ),
        (
            "打开卧室的灯",
            {"scope_include": ["卧室"], "type_hint": "light"},
            {"light-3", "light-4"},
            "switch.on",
            ["room_hit", "type_hit"],
        ),
        ("打开那个", {"references": ["last-mentioned"]}, {"fan-2"}, "switch.on", ["reference_hit"]),
    ],
)
async def test_a_specified_sentence_reaches_its_devices(
    skillbus: CommandLine, text: str, fields: dict[str, Any], devices: set[str], command: str, reasons: list[str]
) -> None:
    """context-retrieval.md § 解析动作与名称, § 解析量词与范围, § 解析排除语义, § 解析指代"""
    words = ["--home", "examples/home", "--mentioned", "fan-2"]
    result = (await skillbus.document("resolve", text, *words))["results"][0]
    assert {name: result["query"][name] for name in fields} == fields
    assert (result["status"], result["query"]["confidence"]) == ("resolved", 1.0)
    assert {tuple(device["reasons"]) for device in result["devices"]} == {tuple(reasons)}
    assert {device["id"]: device["command"]["id"] for device in result["devices"]} == dict.fromkeys(devices, command)


@pytest.mark.spec("context-retrieval.md § 设备元数据 / 命令库 (CommandSpec, spec.jsonl)")
async def test_devices_and_commands_are_listed_and_removed(skillbus: CommandLine, tmp_path: Path) -> None:
    lines = '{"id": "a", "name": "灯", "type": "light"}\n{"id": "b", "name": "扇", "type": "fan"}\n'
    (tmp_path / "devices.jsonl").write_text(lines, "utf-8")
    command = {"id": "x.on", "capability": {"id": "x"}, "command": {"id": "on"}, "description": "打开"}
    (tmp_path / "commands.jsonl").write_text(json.dumps(command), "utf-8")
    project = ["--project", "second"]
    for noun in ("devices", "commands"):
        words = [noun, "import", str(tmp_path / f"{noun}.jsonl"), *project]
        words += ["--home", "h"] if noun == "devices" else []
        assert (await skillbus.document(*words))["counts"]["created"] == (2 if noun == "devices" else 1)
        assert (await skillbus.document(*words))["counts"]["created"] == 0
    assert (await skillbus.document("homes", "list", *project))["homes"] == [{"home": "h", "devices": 2, "rooms": 0}]
    removed = await skillbus.document("devices", "remove", "a", "--home", "h", "--yes", *project)
    assert removed == {"ids": ["a"]}
    assert [it["id"] for it in (await skillbus.document("devices", "list", *project))["devices"]] == ["b"]
    assert (await skillbus.document("devices", "remove", "--home", "h", "--yes", *project)) == {"ids": ["b"]}
    assert (await skillbus.document("homes", "list", *project))["homes"] == []
    assert (await skillbus.document("commands", "remove", "x.on", "--yes", *project)) == {"ids": ["x.on"]}
    assert (await skillbus.document("commands", "list", *project))["total"] == 0
