"""Entry points: declared in metadata, or inferred from scripts."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime
from skillbus.indexer.domain.package.argparse_schema import read_arguments
from skillbus.indexer.domain.package.entry_point import choose_default_action, find_entry_points
from skillbus.indexer.domain.package.files import PackageFile, PackageFiles, find_scripts
from skillbus.indexer.domain.package.findings import PackageError

PARSER = "import argparse\np = argparse.ArgumentParser(description='Adds.')\n"


def entries(
    files: Mapping[str, str], metadata: Mapping[str, str] | None = None
) -> tuple[tuple[EntryPoint, ...], list[str]]:
    by_path = {path: PackageFile(path, len(content)) for path, content in files.items()}
    held = PackageFiles(by_path, lambda path: files[path].encode())
    scripts = find_scripts(((path, len(content)) for path, content in files.items()), held.read)
    points, warnings = find_entry_points(metadata or {}, scripts, held)
    return points, [warning.code for warning in warnings]


def schema_of(calls: str) -> dict[str, object]:
    schema = read_arguments((PARSER + calls).encode()).schema
    assert schema is not None
    Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)
    return dict(schema)


def test_an_entry_is_declared_by_metadata() -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "number"}}}'
    metadata = {"skillbus-entry": "scripts/main.py", "skillbus-args": "stdin-json", "skillbus-input-schema": schema}

    (point,), _ = entries({"scripts/main.py": '"""Adds."""', "other.py": ""}, metadata)

    assert (point.action, point.script, point.runtime) == ("run", "scripts/main.py", Runtime.PYTHON)
    assert (point.args_mode, point.input_schema, point.description) == (
        ArgsMode.STDIN_JSON,
        json.loads(schema),
        "Adds.",
    )


def test_every_action_has_its_own_keys_and_shares_the_way_of_arguments() -> None:
    metadata = {
        "skillbus-entry.add": "./add.sh",
        "skillbus-entry.list": "list.js",
        "skillbus-args": "argv",
        "skillbus-args.list": "none",
        "skillbus-input-schema.add": "schemas/add.json",
        "skillbus-description.list": "Lists.",
    }

    (add, listing), _ = entries({"add.sh": "", "list.js": "", "schemas/add.json": '{"type": "object"}'}, metadata)

    assert (add.args_mode, add.input_schema) == (ArgsMode.ARGV, {"type": "object"})
    assert (listing.runtime, listing.args_mode, listing.description) == (Runtime.NODE, ArgsMode.NONE, "Lists.")


def test_without_a_declared_way_argparse_means_argv_and_all_else_json() -> None:
    files = {"a.py": PARSER + "p.add_argument('--n', type=int)", "b.py": "print(1)"}

    (a, b), _ = entries(files, {"skillbus-entry.a": "a.py", "skillbus-entry.b": "b.py"})

    assert (a.args_mode, b.args_mode) == (ArgsMode.ARGV, ArgsMode.STDIN_JSON)
    assert a.input_schema is not None
    assert a.input_schema["x-flags"] == {"n": "--n"}


def test_a_bad_declaration_is_refused() -> None:
    for metadata in [
        {"skillbus-entry": "missing.py"},
        {"skillbus-entry": "../main.py"},
        {"skillbus-entry": "/main.py"},
        {"skillbus-entry": "a/../main.py"},
        {"skillbus-entry": ""},
        {"skillbus-entry": "data.txt"},
        {"skillbus-entry": "noshebang"},
        {"skillbus-entry": "main.py", "skillbus-args": "shell"},
        {"skillbus-entry": "main.py", "skillbus-args": ""},
        {"skillbus-entry": "main.py", "skillbus-input-schema": "missing.json"},
        {"skillbus-entry": "main.py", "skillbus-input-schema": "data.txt"},
        {"skillbus-entry": "main.py", "skillbus-input-schema": "{not json"},
        {"skillbus-entry": "main.py", "skillbus-input-schema": "[1]"},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"type": "nonsense"}'},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"type": "array"}'},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"$ref": "http://127.0.0.1/x"}'},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"properties": {"a": {"$ref": "file:///etc/x"}}}'},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"a":' * 5000},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"a":' * 100 + "1" + "}" * 100},
        {"skillbus-entry": "main.py", "skillbus-input-schema": '{"title": "' + "x" * 70_000 + '"}'},
        {"skillbus-entry": "main.py", "skillbus-entry.run": "main.py"},
        {"skillbus-entry.a\nb": "main.py"},
    ]:
        with pytest.raises(PackageError) as caught:
            entries({"main.py": "", "data.txt": "x", "noshebang": "echo"}, metadata)

        assert {error.code for error in caught.value.errors} == {"bad_entry_point"}


def test_every_script_is_an_action_when_nothing_is_declared() -> None:
    files = {
        "SKILL.md": "",
        "run.py": "",
        "scripts/a.sh": "",
        "core/b.mjs": "",
        "bin/tool": "#!/usr/bin/env python3\n",
        "bin/note": "text",
        "scripts/__init__.py": "",
        "tests/test_a.py": "",
        "scripts/test_a.py": "import pytest\nif __name__ == '__main__': pytest.main()",
        "scripts/test_maker.py": "if __name__ == '__main__': make()",
        ".git/hooks/x.sh": "",
        "node_modules/x/index.js": "",
        "app.config.js": "",
        "example.ts": "",
    }

    points, _ = entries(files)

    assert [(point.action, point.runtime.value) for point in points] == [
        ("tool", "python"),
        ("b", "node"),
        ("run", "python"),
        ("a", "bash"),
        ("test_maker", "python"),
    ]


def test_actions_of_the_same_stem_are_told_apart() -> None:
    points, _ = entries({"a/x.py": "", "b/x.py": "", "c/y.py": "", "c/y.sh": "", "z.js": ""})

    assert [point.action for point in points] == ["a-x", "b-x", "c/y.py", "c/y.sh", "z"]


def test_a_skill_without_scripts_is_instructions_only() -> None:
    points, warnings = entries({"SKILL.md": "", "references/a.md": ""})

    assert (points, warnings) == ((), [])


def test_the_only_action_or_run_or_main_is_the_default() -> None:
    for names, default in [(["a"], "a"), (["a", "run"], "run"), (["a", "main"], "main"), (["a", "b"], None)]:
        points, _ = entries({f"{name}.py": "" for name in names})

        assert choose_default_action(points) == default


def test_an_option_becomes_a_property() -> None:
    for call, name, expected, flag in [
        (
            "p.add_argument('--n', type=int, default=3, help='of %(default)s')",
            "n",
            {"type": "integer", "default": 3, "description": "of 3"},
            "--n",
        ),
        ("p.add_argument('--rate', type=float, default=-0.5)", "rate", {"type": "number", "default": -0.5}, "--rate"),
        ("p.add_argument('-o', '--out-file', type=Path)", "out_file", {"type": "string"}, "--out-file"),
        ("p.add_argument('-q')", "q", {"type": "string"}, "-q"),
        ("p.add_argument('--json', dest='as_json', action='store_true')", "as_json", {"type": "boolean"}, "--json"),
        (
            "p.add_argument('--no-color', dest='color', action='store_false')",
            "no_color",
            {"type": "boolean"},
            "--no-color",
        ),
        ("p.add_argument('-v', '--verbose', action='count', default=0)", "verbose", {"type": "boolean"}, "--verbose"),
        ("p.add_argument('--kind', choices=['a', 'b'])", "kind", {"enum": ["a", "b"]}, "--kind"),
        (
            "KINDS = {'a': f, 'b': g}\np.add_argument('--kind', choices=sorted(KINDS.keys()))",
            "kind",
            {"enum": ["a", "b"]},
            "--kind",
        ),
        ("p.add_argument('--level', type=int, choices=range(1, 4))", "level", {"enum": [1, 2, 3]}, "--level"),
        ("p.add_argument('--tag', action='append')", "tag", {"type": "array", "items": {"type": "string"}}, "--tag"),
        (
            "p.add_argument('--xy', nargs=2, type=float)",
            "xy",
            {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2, "x-nargs": "+"},
            "--xy",
        ),
        (
            "p.add_argument('--all', nargs='*')",
            "all",
            {"type": "array", "items": {"type": "string"}, "x-nargs": "+"},
            "--all",
        ),
        ("p.add_argument('--size', type=parse_size)", "size", {"type": ["string", "number"]}, "--size"),
        ("p.add_argument('--when', default=now(), help=f'of {x}')", "when", {"type": "string"}, "--when"),
    ]:
        module = call if "\n" in call else f"\n{call}"
        schema = schema_of(module)

        assert schema["properties"] == {name: expected}
        assert schema["x-flags"] == {name: flag}


def test_a_number_of_values_that_argparse_would_refuse_is_ignored() -> None:
    schema = schema_of("p.add_argument('source', nargs=['?'])\np.add_argument('--x', nargs={'a': 1})")
    assert schema["properties"] == {"source": {"type": "string"}, "x": {"type": "string"}}


def test_positional_arguments_keep_their_order_and_say_what_is_required() -> None:
    schema = schema_of(
        "p.add_argument('source')\np.add_argument('--x', required=True)\np.add_argument('target', nargs='?')\n"
        "p.add_argument('rest', nargs='*', help='more')"
    )

    assert schema["x-positional"] == ["source", "target", "rest"]
    assert schema["required"] == ["source", "x"]
    assert schema["properties"] == {
        "source": {"type": "string"},
        "x": {"type": "string"},
        "target": {"type": "string"},
        "rest": {"type": "array", "items": {"type": "string"}, "description": "more"},
    }


def test_groups_and_chained_calls_belong_to_their_parser() -> None:
    schema = schema_of(
        "g = p.add_argument_group('io')\ng.add_argument('--a')\nm = g.add_mutually_exclusive_group()\n"
        "m.add_argument('--b')\np.add_argument_group('x').add_argument('--c')\n"
        "def more(q):\n    q.add_argument('--d')\n"
    )

    assert schema["x-flags"] == {"a": "--a", "b": "--b", "c": "--c", "d": "--d"}
    assert schema["additionalProperties"] is False


def test_a_switch_with_a_negation_becomes_two() -> None:
    schema = schema_of("p.add_argument('--cache', action=argparse.BooleanOptionalAction)")

    assert schema["x-flags"] == {"cache": "--cache", "no_cache": "--no-cache"}


def test_subcommands_become_an_argument() -> None:
    schema = schema_of(
        "p.add_argument('--verbose', action='store_true')\nsub = p.add_subparsers(dest='cmd', required=True)\n"
        "q = sub.add_parser('add')\nq.add_argument('a', type=int)\nq.add_argument('--round', type=int, required=True)\n"
        "q = sub.add_parser('list')\nq.add_argument('--all', action='store_true')\n"
    )

    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["verbose", "cmd", "a", "round", "all"]
    assert properties["cmd"]["enum"] == ["add", "list"]
    assert (schema["required"], schema["x-positional"], schema["x-leading"]) == (["cmd"], ["cmd", "a"], ["verbose"])


def test_computed_arguments_are_told_and_leave_the_schema_open() -> None:
    points, warnings = entries(
        {"a.py": PARSER + "for n in names:\n    p.add_argument(f'--{n}')\np.add_argument('--b')"}
    )

    assert warnings == ["arguments_unread"]
    assert points[0].input_schema is not None
    assert "additionalProperties" not in points[0].input_schema
    assert points[0].description == "Adds."


def test_help_and_version_are_no_arguments() -> None:
    schema = schema_of(
        "p.add_argument('--version', action='version', version='1')\np.add_argument('-?', action='help')"
    )

    assert schema["properties"] == {}


def test_reading_a_script_never_runs_it() -> None:
    assert read_arguments(b"raise SystemExit(3)\nimport argparse\nargparse.ArgumentParser()").schema is not None


def test_a_script_that_cannot_be_read_has_no_schema() -> None:
    for source in [
        b"",
        b"def (",
        b"\xff\xfe",
        b"x = '\0'",
        b"(" * 5000,
        b"-" * 50_000 + b"1",
        b"x = '\\d'",
        b"x = " + b"1+" * 100_000 + b"1",
        b"# coding: nonsense\n",
    ]:
        assert read_arguments(source).schema is None


def test_a_default_that_json_cannot_hold_is_left_out() -> None:
    for value in ["'\\ud800'", "1e999", "0x" + "f" * 5000, "b'x'", "1j", "..."]:
        assert schema_of(f"p.add_argument('--a', default={value})")["properties"] == {"a": {"type": "string"}}


def test_a_long_chain_of_branches_is_read() -> None:
    branches = "if x == 0:\n    pass\n" + "".join(f"elif x == {n}:\n    pass\n" for n in range(1, 60))

    assert schema_of(f"{branches}p.add_argument('--a')")["x-flags"] == {"a": "--a"}


@given(st.text(max_size=200))
def test_arbitrary_text_is_read_without_an_error(source: str) -> None:
    assert read_arguments(source.encode("utf-8", "replace")).unread == 0


def test_a_skill_of_very_many_scripts_keeps_the_first_ones() -> None:
    points, warnings = entries({f"s{number:03}.sh": "" for number in range(150)})

    assert (len(points), warnings) == (100, ["action_skipped"])


def test_very_long_scripts_are_kept_without_a_schema() -> None:
    files = {f"{name}.py": PARSER + "p.add_argument('--a')\n" + "# pad\n" * 40_000 for name in "abcdefghij"}

    points, warnings = entries(files)

    assert [point.input_schema is None for point in points] == [False] * 8 + [True] * 2
    assert warnings == ["arguments_unread"] * 2


def test_too_many_declared_actions_are_refused() -> None:
    with pytest.raises(PackageError):
        entries({"a.py": ""}, {f"skillbus-entry.a{number}": "a.py" for number in range(101)})


def test_a_key_that_is_almost_one_of_ours_is_told() -> None:
    for key in ["skillbus_entry", "skillbus-arg", "Skillbus-Entry", "skillbus-args-run"]:
        _, codes = entries({"scripts/main.py": ""}, {key: "scripts/main.py"})
        assert codes == ["unknown_key"]


def test_keys_of_others_and_those_of_an_action_are_not_told() -> None:
    keys = {"author": "me", "skillbus-entry.go": "scripts/main.py", "skillbus-args.go": "none"}
    _, codes = entries({"scripts/main.py": ""}, keys)
    assert codes == []


def test_every_key_of_the_documentation_is_known() -> None:
    keys = {
        "skillbus-entry": "main.py",
        "skillbus-args": "none",
        "skillbus-input-schema": "{}",
        "skillbus-description": "Runs.",
        "skillbus-limits": "{}",
        "skillbus-network": "api.example.org:443",
    }
    assert entries({"main.py": ""}, keys)[1] == []


def test_a_schema_that_a_run_could_not_use_is_refused_at_install() -> None:
    unusable = (
        '{"properties": {"a": {"pattern": "(?=x)"}}}',
        '{"unevaluatedProperties": false}',
        '{"properties": {"a": {"$ref": "#/$defs/missing"}}}',
        '{"$ref": "#"}',
    )
    for schema in unusable:
        with pytest.raises(PackageError):
            entries({"main.py": ""}, {"skillbus-entry": "main.py", "skillbus-input-schema": schema})
