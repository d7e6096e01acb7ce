"""Suggestions for misspelt commands and names."""

import json
import subprocess
import sys

import pytest

from skillbus.cli.near_names import find_near_names

from .conftest import CommandLine
from .fake_server import FakeServer, skill_record
from .fake_tools import FakeTools, summary


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["serach", "x"], "`skillbus search`"),
        (["skills", "lst"], "`skillbus skills list`"),
        (["skills", "instal"], "`skillbus install`"),
        (["tool", "list"], "`skillbus tools`"),
        (["rollback", "greet"], "`skillbus skills rollback`"),
    ],
)
def test_a_misspelt_command_is_refused_with_the_nearest_of_all_groups(
    skillbus: CommandLine, words: list[str], meant: str
) -> None:
    result = skillbus(*words)
    assert result.exit_code == 2
    assert meant in result.stderr.partition("Did you mean")[2]


def test_a_word_that_is_like_no_command_gets_no_suggestion(skillbus: CommandLine) -> None:
    refused = skillbus("xyzzy").stderr
    assert "No such command 'xyzzy'." in refused
    assert "Did you mean" not in refused


def test_the_last_parts_of_names_are_compared() -> None:
    known = ["builtin:calculate", "builtin:platform", "mcp:files/read", "skill:calculate"]
    assert find_near_names("calculate", known) == ["builtin:calculate", "skill:calculate"]
    assert find_near_names("builtin:calclate", known) == ["builtin:calculate", "skill:calculate"]
    assert find_near_names("READ", known) == ["mcp:files/read"]
    assert find_near_names("guitar", known) == []


def test_an_unknown_tool_gets_near_ids_from_all_pages_of_the_catalogue(skillbus: CommandLine) -> None:
    tools = FakeTools(listed=[summary(name) for name in ("a:x", "builtin:calculate", "skill:calculate")], page_size=1)
    result = skillbus("tools", "show", "calculate", externals=tools.externals())
    assert result.exit_code == 1
    assert "Did you mean `builtin:calculate` or `skill:calculate`? `skillbus tools list` shows" in result.stderr


def test_each_unknown_name_of_several_gets_its_own_suggestion(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {name: skill_record(name) for name in ("greet", "git-commit")}
    result = skillbus("skills", "remove", "--yes", "gret", "git-comit", "--json")
    errors = [one["error"] for one in json.loads(result.stdout)["results"]]
    assert [error["did_you_mean"] for error in errors] == [["greet"], ["git-commit"]]


def test_a_name_without_a_near_one_gets_the_command_that_lists_all(skillbus: CommandLine) -> None:
    shown = skillbus("skills", "show", "greet").stderr
    assert "Did you mean" not in shown
    assert "`skillbus skills list`" in shown


def test_a_pipe_that_nobody_reads_ends_the_command_as_it_ends_others() -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "skillbus.cli", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.close()
    _, complaint = program.communicate(timeout=30)
    assert (program.returncode, complaint) == (-13, b"")
