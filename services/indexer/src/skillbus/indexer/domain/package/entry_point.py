"""Entry points of a skill, read from its metadata or from its scripts.

The first of these that says anything counts:

1. keys of `metadata` in SKILL.md: `skillbus-entry` (the action `run`) and `skillbus-entry.<action>` name scripts;
   `skillbus-args[.<action>]` is `stdin-json`, `argv` or `none`, the key without an action being the default for all;
   without it the mode is `argv` for a script that uses argparse, else `stdin-json`;
   `skillbus-input-schema[.<action>]` is a JSON Schema or the name of a file that holds one;
   `skillbus-description[.<action>]` is a sentence;
2. every script, one action each, named after its file without the ending; arguments by `argv`.

A skill with neither has instructions only. `argparse_schema` describes how arguments become a command line.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from skillbus.common import json_schema
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime, SkillFinding
from skillbus.indexer.domain.package.argparse_schema import ScriptArguments, read_arguments
from skillbus.indexer.domain.package.files import PackageFiles, Script, detect_runtime
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding
from skillbus.indexer.domain.package.run_requests import LIMITS_KEY, NETWORK_KEY

DEFAULT_ACTION: Final = "run"
_ENTRY: Final = "skillbus-entry"
_ARGS: Final = "skillbus-args"
_SCHEMA: Final = "skillbus-input-schema"
_DESCRIPTION: Final = "skillbus-description"
_KEYS: Final = frozenset({_ENTRY, _ARGS, _SCHEMA, _DESCRIPTION, LIMITS_KEY, NETWORK_KEY})
_ACTION_CHARACTERS: Final = 128
_MAX_ACTIONS: Final = 100
_MAX_PARSED_BYTES: Final = 2 * 1024 * 1024
"""Python parsed for one skill: about one second. No public skill has a tenth of it."""
SCHEMA_BYTES: Final = 64 * 1024
_MAX_DEPTH: Final = 32
_OBJECT: Final = TypeAdapter(dict[str, JsonValue])


def find_entry_points(
    metadata: Mapping[str, str], scripts: Sequence[Script], files: PackageFiles
) -> tuple[tuple[EntryPoint, ...], tuple[SkillFinding, ...]]:
    """Find the entry points of a skill. Return them and the warnings about them. Raises PackageError."""
    declared = {key: value for key, value in metadata.items() if key == _ENTRY or key.startswith(f"{_ENTRY}.")}
    points, warnings = (_read_declared(declared, metadata, files), ()) if declared else _infer(scripts, files)
    return points, (*_report_unknown_keys(metadata), *warnings)


def choose_default_action(entry_points: Sequence[EntryPoint]) -> str | None:
    """Return the action that runs when the caller names none: the only one, `run` or `main`."""
    actions = [point.action for point in entry_points]
    if len(actions) == 1:
        return actions[0]
    return next((action for action in (DEFAULT_ACTION, "main") if action in actions), None)


def _report_unknown_keys(metadata: Mapping[str, str]) -> tuple[SkillFinding, ...]:
    """Warn of keys that look like those of skillbus: a typing error must not change the skill in silence."""
    strange = [key for key in metadata if key.lower().startswith("skillbus") and key.partition(".")[0] not in _KEYS]
    return tuple(
        finding(
            FindingCode.UNKNOWN_KEY,
            f"skillbus does not know the key {key[:64]!r}; the keys are {', '.join(sorted(_KEYS))}",
            "SKILL.md",
        )
        for key in strange[:10]
    )


def _read_declared(
    declared: Mapping[str, str], metadata: Mapping[str, str], files: PackageFiles
) -> tuple[EntryPoint, ...]:
    if len(declared) > _MAX_ACTIONS:
        message = f"{len(declared)} actions are declared; at most {_MAX_ACTIONS} are allowed"
        raise PackageError((finding(FindingCode.BAD_ENTRY_POINT, message, "metadata"),))
    points: list[EntryPoint] = []
    errors: list[SkillFinding] = []
    for key, script in declared.items():
        suffix = key.removeprefix(_ENTRY)
        try:
            points.append(_read_declaration(suffix, script, metadata, files))
        except _RefusedError as error:
            errors.append(finding(FindingCode.BAD_ENTRY_POINT, str(error), f"metadata.{error.key or key}"[:200]))
    twice = [action for action, count in Counter(point.action for point in points).items() if count > 1]
    if twice:
        errors.append(finding(FindingCode.BAD_ENTRY_POINT, f"the action {twice[0]!r} is declared twice", "metadata"))
    if errors:
        raise PackageError(tuple(errors))
    return tuple(points)


class _RefusedError(Exception):
    """One declaration is wrong. `key` is the key of metadata, "" for the entry itself."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def _read_declaration(suffix: str, script: str, metadata: Mapping[str, str], files: PackageFiles) -> EntryPoint:
    """Read the entry point of one action. `suffix` is "" or the action with a dot before it."""
    action = suffix.removeprefix(".") or DEFAULT_ACTION
    if not action.isprintable() or len(action) > _ACTION_CHARACTERS or action != action.strip():
        raise _RefusedError("the name of an action is printable and at most 128 characters long")
    path = script.strip().removeprefix("./")
    if not path or path.startswith("/") or "\\" in path or ".." in path.split("/"):
        raise _RefusedError(f"{script[:200]!r} is not a path inside the skill")
    if path not in files.by_path:
        raise _RefusedError(f"the skill has no file {path[:200]!r}")
    runtime = detect_runtime(path, files.read)
    if runtime is None:
        raise _RefusedError(f"no runtime runs {path!r}; name a .py, .js, .mjs, .cjs or .sh file or give it a shebang")
    own = read_arguments(files.read(path)) if runtime is Runtime.PYTHON else ScriptArguments()
    mode = _read_args_mode(suffix, metadata, own)
    return EntryPoint(
        action=action,
        script=path,
        runtime=runtime,
        args_mode=mode,
        input_schema=_read_input_schema(suffix, mode, metadata, own, files),
        description=metadata.get(f"{_DESCRIPTION}{suffix}", "").strip() or own.description,
    )


def _read_args_mode(suffix: str, metadata: Mapping[str, str], own: ScriptArguments) -> ArgsMode:
    key = f"{_ARGS}{suffix}" if f"{_ARGS}{suffix}" in metadata else _ARGS
    written = metadata.get(key)
    if written is None:
        return ArgsMode.ARGV if own.schema else ArgsMode.STDIN_JSON
    try:
        return ArgsMode(written.strip())
    except ValueError as error:
        message = f"{written[:64]!r} is not a way to pass arguments; the ways are {', '.join(ArgsMode)}"
        raise _RefusedError(message, key) from error


def _read_input_schema(
    suffix: str, mode: ArgsMode, metadata: Mapping[str, str], own: ScriptArguments, files: PackageFiles
) -> dict[str, JsonValue] | None:
    key = f"{_SCHEMA}{suffix}"
    inferred = own.schema if mode is ArgsMode.ARGV else None
    written = metadata.get(key, "").strip()
    if not written:
        return inferred
    path = written.removeprefix("./")
    if written[0] not in "{[" and path not in files.by_path:
        raise _RefusedError(f"the skill has no file {path[:200]!r}, and it is not a JSON object either", key)
    try:
        schema = parse_schema(written if written[0] in "{[" else files.read(path))
    except SchemaError as error:
        raise _RefusedError(str(error), key) from error
    # The layout of the command line comes from the script, unless the schema gives it.
    layout = {name: value for name, value in (inferred or {}).items() if name.startswith("x-")}
    return {**layout, **schema}


def _infer(scripts: Sequence[Script], files: PackageFiles) -> tuple[tuple[EntryPoint, ...], tuple[SkillFinding, ...]]:
    """Make one action of each script."""
    points: list[EntryPoint] = []
    warnings: list[SkillFinding] = []
    if len(scripts) > _MAX_ACTIONS:
        message = f"there are {len(scripts)} scripts; only the first {_MAX_ACTIONS} can be run"
        warnings.append(finding(FindingCode.ACTION_SKIPPED, message))
    kept, left_bytes = scripts[:_MAX_ACTIONS], _MAX_PARSED_BYTES
    for script, action in zip(kept, _name_actions([script.path for script in kept]), strict=True):
        own, problem = ScriptArguments(), ""
        if script.runtime is Runtime.PYTHON:
            left_bytes -= script.size_bytes
            if left_bytes < 0:
                problem = "the scripts are too long"
            else:
                own = read_arguments(files.read(script.path))
                problem = f"{own.unread} arguments are computed or too many" if own.unread else ""
        if problem:
            message = f"{problem}; the input schema is not complete"
            warnings.append(finding(FindingCode.ARGUMENTS_UNREAD, message, script.path))
        points.append(
            EntryPoint(
                action=action,
                script=script.path,
                runtime=script.runtime,
                args_mode=ArgsMode.ARGV,
                input_schema=own.schema,
                description=own.description,
            )
        )
    return tuple(points), tuple(warnings)


def _name_actions(paths: Sequence[str]) -> list[str]:
    """Name each script by the shortest of its stem, its folder and stem, and its path that is unique."""
    forms = []
    for path in paths:
        pure = PurePosixPath(path)
        with_folder = f"{pure.parent.name}-{pure.stem}" if pure.parent.name else pure.stem
        forms.append((pure.stem, with_folder, path))
    counts = [Counter(form[level] for form in forms) for level in range(3)]
    return [next(form[level] for level in range(3) if counts[level][form[level]] == 1) for form in forms]


class SchemaError(Exception):
    """The schema is refused; the message says why."""


def parse_schema(source: str | bytes) -> dict[str, JsonValue]:
    """Parse the JSON Schema of an object that a skill declares for its arguments. Raises SchemaError."""
    if len(source) > SCHEMA_BYTES:
        raise SchemaError(f"the schema is longer than {SCHEMA_BYTES} bytes")
    try:
        schema = _OBJECT.validate_json(source)
        json.dumps(schema, allow_nan=False)
    except ValidationError as error:
        raise SchemaError("the schema is not a JSON object") from error
    except ValueError as error:
        raise SchemaError("the schema contains a number that JSON does not have, such as NaN") from error
    _check_references(schema, 0)
    if schema.get("type", "object") != "object":
        raise SchemaError('the schema is not of an object; its top must be `"type": "object"`')
    try:
        json_schema.check_schema(schema)
    except json_schema.UnusableSchemaError as error:
        raise SchemaError(f"the schema cannot be used: {error.path}: {error.problem[:200]}") from error
    return schema


def _check_references(value: JsonValue, depth: int) -> None:
    # Validators fetch what a reference names, so references may only name places in the schema itself.
    if depth > _MAX_DEPTH:
        raise SchemaError(f"the schema is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, list):
        for item in value:
            _check_references(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(item, str) and not item.startswith("#"):
                raise SchemaError("the schema refers to another document; put its definitions under `$defs`")
            if key in {"$id", "$schema"} and depth and isinstance(item, str):
                raise SchemaError(f"the schema has `{key}` inside; remove it")
            _check_references(item, depth + 1)
