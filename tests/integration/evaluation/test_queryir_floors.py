"""Spoken commands of the dev set are understood as well as they must be, by `skillbus eval queryir` and `commands`."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from skillbus.cli.__main__ import create_app

DATA: Final = Path(__file__).parents[4] / "shared" / "data" / "queryir"
EXACT: Final = {"hand-zh": 0.97, "hand-en": 0.95, "home-assistant-zh": 0.95, "home-assistant-en": 0.85}
DEVICES: Final = {"hand-zh": 0.95, "hand-en": 0.95}
COMMANDS: Final = {"hit@1": 0.75, "hit@10": 0.97}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the dev set lies beside the repository, and is not here")


def evaluate(what: str) -> dict[str, Any]:
    result = CliRunner().invoke(create_app(), ["eval", what, str(DATA), "--json", "--failures"])
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_sentences_are_understood_and_devices_chosen_as_well_as_they_must_be() -> None:
    report = evaluate("queryir")
    sets = report["sets"]
    print(json.dumps(report, ensure_ascii=False, indent=1))  # noqa: T201
    assert {name: it["n"] for name, it in sets.items()} == {
        "hand-zh": 60,
        "hand-en": 20,
        "home-assistant-zh": 55,
        "home-assistant-en": 61,
    }
    assert {name: sets[name]["exact"] for name, floor in EXACT.items() if sets[name]["exact"] < floor} == {}
    assert {name: sets[name]["devices"] for name, floor in DEVICES.items() if sets[name]["devices"] < floor} == {}
    assert sets["home-assistant-en"]["devices"] is None


def test_commands_are_found_as_well_as_they_must_be() -> None:
    report = evaluate("commands")
    print(json.dumps(report, ensure_ascii=False, indent=1))  # noqa: T201
    assert report["n"] == 80
    assert {name: report[name] for name, floor in COMMANDS.items() if report[name] < floor} == {}
