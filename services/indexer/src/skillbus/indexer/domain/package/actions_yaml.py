"""ACTIONS.yaml, a proposal for skills with typed actions, as far as it can be read here.

Each action has `name`, `description`, `command` and `inputSchema`. A command is kept if it is a list of an interpreter
(or none), a script of the skill, and then only templates: `"{{url}}"` is positional, `"--depth", "{{depth}}"` a flag.
Others need a shell or fixed words; they are left out with a warning.
The proposal: github.com/EnactProtocol/enact, docs/AGENTACTIONS.md.
"""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, SkillFinding
from skillbus.indexer.domain.package import frontmatter
from skillbus.indexer.domain.package.files import PackageFiles, runtime_of
from skillbus.indexer.domain.package.findings import FindingCode, finding
from skillbus.indexer.domain.package.input_schema import SchemaError, check_schema

ACTIONS_YAML = "ACTIONS.yaml"


_INTERPRETERS = frozenset({"python", "python3", "node", "bash", "sh"})


_TEMPLATE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")


class _SkippedError(Exception):
    """An action is left out; the message says why."""


def entries_of_actions_yaml(files: PackageFiles) -> tuple[tuple[EntryPoint, ...], tuple[SkillFinding, ...]]:
    """The actions that can be kept, the first of a name, and a warning for each that cannot."""
    points: dict[str, EntryPoint] = {}
    warnings: list[SkillFinding] = []
    try:
        actions = _actions(files.read(ACTIONS_YAML))
    except (frontmatter.FrontmatterError, UnicodeDecodeError) as error:
        return (), (finding(FindingCode.ACTION_SKIPPED, f"ACTIONS.yaml is not usable: {error}", ACTIONS_YAML),)
    for number, action in enumerate(actions):
        try:
            point = _entry_point(action, files)
        except (_SkippedError, SchemaError) as error:
            where = f"{ACTIONS_YAML} actions[{number}]"
            warnings.append(finding(FindingCode.ACTION_SKIPPED, f"the action is left out: {error}", where))
        else:
            points.setdefault(point.action, point)
    return tuple(points.values()), tuple(warnings)


def _actions(data: bytes) -> list[JsonValue]:
    if len(data) > frontmatter.FRONTMATTER_BYTES:
        raise frontmatter.TooLongError(f"it is longer than {frontmatter.FRONTMATTER_BYTES} bytes")
    fields = frontmatter.parse(data.decode("utf-8-sig")).fields
    actions = fields["actions"].value if "actions" in fields else None
    if not isinstance(actions, list):
        raise frontmatter.FrontmatterError("it has no list `actions`")
    return actions


def _entry_point(action: JsonValue, files: PackageFiles) -> EntryPoint:
    if not isinstance(action, dict):
        raise _SkippedError("it is not a mapping")
    name, description, schema = action.get("name"), action.get("description"), action.get("inputSchema")
    if not isinstance(name, str) or not name.strip() or len(name) > 128:
        raise _SkippedError("it has no name")
    if not isinstance(schema, dict):
        raise _SkippedError("it has no inputSchema")
    check_schema(schema)
    script, rest = _script(action.get("command"), files)
    runtime = runtime_of(script, files.read)
    if runtime is None:
        raise _SkippedError(f"nothing here runs {script!r}")
    return EntryPoint(
        action=name.strip(),
        script=script,
        runtime=runtime,
        args_mode=ArgsMode.ARGV,
        input_schema={**schema, **_layout(rest)},
        description=description.strip() or None if isinstance(description, str) else None,
    )


def _script(command: JsonValue, files: PackageFiles) -> tuple[str, list[str]]:
    words = command.split() if isinstance(command, str) else command
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _SkippedError("its command is not a list of words")
    rest = [str(word) for word in words]
    if rest and rest[0] in _INTERPRETERS:
        rest = rest[1:]
    script = rest[0].removeprefix("./") if rest else ""
    if script not in files.paths:
        raise _SkippedError("its command names no script of the skill")
    return script, rest[1:]


def _layout(words: list[str]) -> Mapping[str, JsonValue]:
    """How the command's templates order the arguments, in the terms of `argparse_schema`."""
    positional: list[JsonValue] = []
    flags: dict[str, JsonValue] = {}
    flag = ""
    for word in words:
        template = _TEMPLATE.fullmatch(word)
        if template and flag:
            flags[template[1]], flag = flag, ""
        elif template:
            positional.append(template[1])
        elif word.startswith("-") and not flag and "{{" not in word:
            flag = word
        else:
            raise _SkippedError("its command has words that are neither templates nor flags before one")
    if flag:
        raise _SkippedError("its command ends in a flag without a template")
    return {"x-positional": positional, "x-flags": flags}
