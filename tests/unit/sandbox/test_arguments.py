import json

import pytest

from skillbus.contracts.indexer.skill_record import ArgsMode
from skillbus.sandbox.domain.errors import ArgumentsInvalid
from skillbus.sandbox.domain.run.arguments import (
    ARGUMENT_BYTES_MAX,
    ArgumentLayout,
    Json,
    build_argv,
    build_input,
    check_argv,
)


@pytest.mark.parametrize(
    ("args", "argv"),
    [
        ({}, ()),
        ({"_": ["a", 2], "json": True}, ("a", "2", "--json")),
        ({"json": True, "_": "a"}, ("a", "--json")),
        ({"quiet": False, "color": None}, ()),
        ({"tag": ["x", "y"]}, ("--tag", "x", "--tag", "y")),
        ({"max_size": 1.5, "max-age": 3}, ("--max_size", "1.5", "--max-age", "3")),
        ({"v": True, "n": 3}, ("-v", "-n", "3")),
        ({"-Wall": True}, ("-Wall",)),
        ({"offset": -5, "pattern": "-x"}, ("--offset=-5", "--pattern=-x")),
        ({"where": {"city": "北京"}}, ("--where", '{"city": "北京"}')),
        ({"row": [[1, 2], [3]]}, ("--row", "[1, 2]", "--row", "[3]")),
        ({"text": ""}, ("--text", "")),
        ({"text": "; rm -rf / $(id)"}, ("--text", "; rm -rf / $(id)")),
    ],
)
def test_args_become_a_command_line_by_one_rule(args: dict[str, Json], argv: tuple[str, ...]) -> None:
    assert build_argv(args) == argv


def test_a_schema_names_positionals_and_flags_and_their_places() -> None:
    schema: dict[str, Json] = {
        "properties": {"paths": {"x-nargs": "+"}, "tag": {"type": "array"}},
        "x-positional": ["from", "to"],
        "x-flags": {"max_size": "--max-size", "verbose": "-v", "paths": "--paths", "evil": 3},
        "x-leading": ["verbose"],
    }
    args: dict[str, Json] = {
        "max_size": 3,
        "paths": ["a", "b"],
        "tag": ["x", "y"],
        "to": "B",
        "from": "A",
        "verbose": True,
        "_": "C",
        "evil": True,
    }
    argv = ["-v", "A", "B", "C", "--max-size", "3", "--paths", "a", "b", "--tag", "x", "--tag", "y", "--evil"]
    assert build_input(ArgsMode.ARGV, args, schema) == (tuple(argv), b"")


@pytest.mark.parametrize("value", [None, 3, "x", [3, {}], {"x": []}])
def test_a_layout_of_another_shape_is_passed_over(value: Json) -> None:
    schema = {"properties": value, "x-positional": value, "x-flags": value, "x-leading": value}
    assert build_argv({"a": 1}, ArgumentLayout.from_schema(schema)) == ("-a", "1")


def test_an_empty_list_gives_no_flag() -> None:
    layout = ArgumentLayout(spread=frozenset({"paths"}))
    assert build_argv({"paths": [], "tags": []}, layout) == ()


@pytest.mark.parametrize("key", ["", "-", "--", "a b", "a=b", "a\tb"])
def test_a_key_that_is_no_flag_is_refused_by_name(key: str) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        build_argv({key: True})
    assert caught.value.path == f"$.{key}"


@pytest.mark.parametrize("word", ["a\0b", "\ud800", "x" * (ARGUMENT_BYTES_MAX + 1)])
def test_what_linux_cannot_pass_is_refused_with_its_place(word: str) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        check_argv(["fine", word])
    assert caught.value.path == "argv[1]"


def test_too_many_or_too_large_arguments_are_refused() -> None:
    with pytest.raises(ArgumentsInvalid):
        check_argv(["x"] * 5000)
    with pytest.raises(ArgumentsInvalid):
        check_argv(["x" * 100_000] * 11)


def test_stdin_json_gives_the_object_as_utf8() -> None:
    argv, stdin = build_input(ArgsMode.STDIN_JSON, {"name": "北京", "n": [1, None]})
    assert argv == ()
    assert json.loads(stdin.decode()) == {"name": "北京", "n": [1, None]}


def test_an_action_without_arguments_refuses_them_and_runs_without() -> None:
    assert build_input(ArgsMode.NONE, {}) == ((), b"")
    with pytest.raises(ArgumentsInvalid):
        build_input(ArgsMode.NONE, {"a": 1})


def test_a_number_that_json_lacks_is_refused() -> None:
    with pytest.raises(ArgumentsInvalid):
        build_input(ArgsMode.STDIN_JSON, {"n": float("nan")})
