"""What of a skill can be run, and how: read from its metadata, from ACTIONS.yaml or from its scripts.

The first of these that says anything counts:

1. keys of `metadata` in SKILL.md: `skillbus-entry` (the action `run`) and `skillbus-entry.<action>` name scripts;
   `skillbus-args[.<action>]` is `stdin-json`, `argv` or `none`, the key without an action being the default for all;
   in its absence `argv` for a script that uses argparse, else `stdin-json`;
   `skillbus-input-schema[.<action>]` is a JSON Schema or the name of a file that holds one;
   `skillbus-description[.<action>]` is a sentence;
2. ACTIONS.yaml, see `actions_yaml`;
3. every script, one action each, called as its file without the ending; arguments by `argv`.

A skill with none of these is instructions only. How arguments become a command line: `argparse_schema`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime, SkillFinding
from skillbus.indexer.domain.package.actions_yaml import ACTIONS_YAML, entries_of_actions_yaml
from skillbus.indexer.domain.package.argparse_schema import ScriptArguments, read_arguments
from skillbus.indexer.domain.package.files import PackageFiles, Script, runtime_of
from skillbus.indexer.domain.package.findings import (
    BadEntryPointError,
    FindingCode,
    NoEntryPointError,
    UnknownActionError,
    finding,
)
from skillbus.indexer.domain.package.input_schema import SchemaError, read_schema
from skillbus.indexer.domain.package.run_requests import LIMITS_KEY

DEFAULT_ACTION = "run"


_ENTRY, _ARGS, _SCHEMA, _DESCRIPTION = (
    "skillbus-entry",
    "skillbus-args",
    "skillbus-input-schema",
    "skillbus-description",
)


_ACTION_CHARACTERS = 128


_MAX_ACTIONS = 100


_MAX_READ_BYTES = 2 * 1024 * 1024
"""How much Python is parsed for one skill: about a second's work. No public skill has a tenth of it."""


def entry_points_of(
    metadata: Mapping[str, str], scripts: Sequence[Script], files: PackageFiles
) -> tuple[tuple[EntryPoint, ...], tuple[SkillFinding, ...]]:
    """A skill's entry points and what there is to say about them.

    Raises:
        BadEntryPointError: `metadata` declares one that cannot be kept.
    """
    points, notes = _found(metadata, scripts, files)
    return points, (*_unknown_keys(metadata), *notes)


def _unknown_keys(metadata: Mapping[str, str]) -> tuple[SkillFinding, ...]:
    """Keys that look like ours and are not: a slip of the pen would otherwise change what a skill does in silence."""
    known = {_ENTRY, _ARGS, _SCHEMA, _DESCRIPTION, LIMITS_KEY}
    strange = [key for key in metadata if key.lower().startswith("skillbus") and key.partition(".")[0] not in known]
    return tuple(
        finding(
            FindingCode.UNKNOWN_KEY,
            f"{key[:64]!r} says nothing to skillbus; the keys are {', '.join(sorted(known))}",
            "SKILL.md",
        )
        for key in strange[:10]
    )


def _found(
    metadata: Mapping[str, str], scripts: Sequence[Script], files: PackageFiles
) -> tuple[tuple[EntryPoint, ...], tuple[SkillFinding, ...]]:
    declared = {key: value for key, value in metadata.items() if key == _ENTRY or key.startswith(f"{_ENTRY}.")}
    if declared:
        return _declared(declared, metadata, files), ()
    if ACTIONS_YAML in files.paths:
        points, warnings = entries_of_actions_yaml(files)
        if points:
            return points, warnings
        inferred, more = _inferred(scripts, files)
        return inferred, (*warnings, *more)
    return _inferred(scripts, files)


def default_action(entry_points: Sequence[EntryPoint]) -> str | None:
    """The action that is meant when none is named: the only one, `run` or `main`."""
    actions = [point.action for point in entry_points]
    if len(actions) == 1:
        return actions[0]
    return next((action for action in (DEFAULT_ACTION, "main") if action in actions), None)


def resolve(entry_points: Sequence[EntryPoint], action: str | None = None) -> EntryPoint:
    """The entry point of an action, or of a script by its path; None means the default.

    Raises:
        NoEntryPointError: the skill has none.
        UnknownActionError: it has no such one, or several and no default.
    """
    if not entry_points:
        raise NoEntryPointError("the skill has nothing to run; it is instructions to be read")
    known = tuple(point.action for point in entry_points)
    wanted = default_action(entry_points) if action is None else action
    if wanted is None:
        raise UnknownActionError(f"name one of the actions: {', '.join(known)}", known)
    path = wanted.removeprefix("./")
    for matches in (lambda point: point.action == wanted, lambda point: point.script == path):
        found = next(filter(matches, entry_points), None)
        if found is not None:
            return found
    raise UnknownActionError(
        f"there is no action {wanted[:_ACTION_CHARACTERS]!r}; there are: {', '.join(known)}", known
    )


def _declared(declared: Mapping[str, str], metadata: Mapping[str, str], files: PackageFiles) -> tuple[EntryPoint, ...]:
    if len(declared) > _MAX_ACTIONS:
        message = f"{len(declared)} actions are declared; at most {_MAX_ACTIONS} are allowed"
        raise BadEntryPointError((finding(FindingCode.BAD_ENTRY_POINT, message, "metadata"),))
    points: list[EntryPoint] = []
    errors: list[SkillFinding] = []
    for key, script in declared.items():
        action = key.removeprefix(_ENTRY).removeprefix(".") or DEFAULT_ACTION
        suffix = key.removeprefix(_ENTRY)
        try:
            points.append(_declared_one(action, suffix, script, metadata, files))
        except _RefusedError as error:
            errors.append(finding(FindingCode.BAD_ENTRY_POINT, str(error), f"metadata.{error.key or key}"[:200]))
    twice = [action for action, count in Counter(point.action for point in points).items() if count > 1]
    if twice:
        errors.append(finding(FindingCode.BAD_ENTRY_POINT, f"the action {twice[0]!r} is declared twice", "metadata"))
    if errors:
        raise BadEntryPointError(tuple(errors))
    return tuple(points)


class _RefusedError(Exception):
    """One declaration is wrong; `key` is the one of metadata, "" for the entry itself."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def _declared_one(
    action: str, suffix: str, script: str, metadata: Mapping[str, str], files: PackageFiles
) -> EntryPoint:
    if not action.isprintable() or len(action) > _ACTION_CHARACTERS or action != action.strip():
        raise _RefusedError("an action's name is printable and at most 128 characters long")
    path = _script_path(script, files)
    runtime = runtime_of(path, files.read)
    if runtime is None:
        raise _RefusedError(f"nothing here runs {path!r}; name a .py, .js, .mjs, .cjs or .sh file or give it a shebang")
    own = read_arguments(files.read(path)) if runtime is Runtime.PYTHON else ScriptArguments()
    mode = _args_mode(suffix, metadata, own)
    return EntryPoint(
        action=action,
        script=path,
        runtime=runtime,
        args_mode=mode,
        input_schema=_input_schema(suffix, mode, metadata, own, files),
        description=metadata.get(f"{_DESCRIPTION}{suffix}", "").strip() or own.description,
    )


def _script_path(written: str, files: PackageFiles) -> str:
    path = written.strip().removeprefix("./")
    segments = path.split("/")
    if not path or path.startswith("/") or "\\" in path or ".." in segments:
        raise _RefusedError(f"{written[:200]!r} is not a path inside the skill")
    if path not in files.paths:
        raise _RefusedError(f"the skill has no file {path[:200]!r}")
    return path


def _args_mode(suffix: str, metadata: Mapping[str, str], own: ScriptArguments) -> ArgsMode:
    key = f"{_ARGS}{suffix}" if f"{_ARGS}{suffix}" in metadata else _ARGS
    written = metadata.get(key)
    if written is None:
        return ArgsMode.ARGV if own.schema else ArgsMode.STDIN_JSON
    try:
        return ArgsMode(written.strip())
    except ValueError as error:
        modes = ", ".join(ArgsMode)
        raise _RefusedError(f"{written[:64]!r} is no way to pass arguments; there are: {modes}", key) from error


def _input_schema(
    suffix: str, mode: ArgsMode, metadata: Mapping[str, str], own: ScriptArguments, files: PackageFiles
) -> dict[str, JsonValue] | None:
    key = f"{_SCHEMA}{suffix}"
    read_from_script = own.schema if mode is ArgsMode.ARGV else None
    written = metadata.get(key, "").strip()
    if not written:
        return read_from_script
    try:
        schema = read_schema(written if written[0] in "{[" else _schema_file(written, files))
    except SchemaError as error:
        raise _RefusedError(str(error), key) from error
    # How a command line is made of the arguments is in the script, unless the schema says it itself.
    layout = {name: value for name, value in (read_from_script or {}).items() if name.startswith("x-")}
    return {**layout, **schema}


def _schema_file(written: str, files: PackageFiles) -> bytes:
    path = written.removeprefix("./")
    if path not in files.paths:
        raise SchemaError(f"the skill has no file {path[:200]!r}, and it is not a JSON object either")
    return files.read(path)


def _inferred(
    scripts: Sequence[Script], files: PackageFiles
) -> tuple[tuple[EntryPoint, ...], tuple[SkillFinding, ...]]:
    points: list[EntryPoint] = []
    warnings: list[SkillFinding] = []
    if len(scripts) > _MAX_ACTIONS:
        message = f"there are {len(scripts)} scripts; only the first {_MAX_ACTIONS} can be run"
        warnings.append(finding(FindingCode.ACTION_SKIPPED, message))
    kept, unread_bytes = scripts[:_MAX_ACTIONS], _MAX_READ_BYTES
    for script, action in zip(kept, _action_names([script.path for script in kept]), strict=True):
        unread_bytes -= script.size_bytes if script.runtime is Runtime.PYTHON else 0
        own, said = (
            _read_script(script, files) if unread_bytes >= 0 else (ScriptArguments(), "the scripts are too long")
        )
        if said:
            warnings.append(
                finding(FindingCode.ARGUMENTS_UNREAD, f"{said}; the input schema is not whole", script.path)
            )
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


def _read_script(script: Script, files: PackageFiles) -> tuple[ScriptArguments, str]:
    """What a script says, and what of it could not be read."""
    if script.runtime is not Runtime.PYTHON:
        return ScriptArguments(), ""
    own = read_arguments(files.read(script.path))
    return own, f"{own.unread} arguments are computed or too many" if own.unread else ""


def _action_names(paths: Sequence[str]) -> list[str]:
    """For each script the shortest of: its stem, its folder and stem, its path; as far as that is unique."""
    forms = [(PurePosixPath(path).stem, _with_folder(path), path) for path in paths]
    counts = [Counter(form[level] for form in forms) for level in range(3)]
    return [next(form[level] for level in range(3) if counts[level][form[level]] == 1) for form in forms]


def _with_folder(path: str) -> str:
    pure = PurePosixPath(path)
    return f"{pure.parent.name}-{pure.stem}" if pure.parent.name else pure.stem
