"""JSON Schema of the arguments of a Python script, read from its calls of argparse without running it.

Additional keys describe how an object of arguments becomes a command line:

- `x-positional`: names of the properties that are positional arguments, in order;
- `x-flags`: property name → the flag to write, `{"scenario": "--scenario"}`. A boolean property is the flag alone when
  true and nothing when false; any other is the flag and its value;
- `x-leading`: names among `x-flags` to write before the positional arguments (those of the main parser, when there are
  subcommands); the others come after them. Absent if there are none;
- `x-nargs` on an array property with a flag: the flag once, then all values. Without it the flag is repeated for each
  value. A positional array gives its values in order.

Properties have the order of the script. `additionalProperties` is false only if every call could be read.
Semantics: docs.python.org/3/library/argparse.html.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillbus.indexer.domain.package.literals import (
    Unknown,
    evaluate_literal,
    evaluate_small_literal,
    parse_python,
    read_constants,
)

_SWITCHES = frozenset({"store_true", "store_false", "store_const", "append_const", "count"})
_LISTS = frozenset({"append", "extend"})
_TYPES: Mapping[str, JsonValue] = {"int": "integer", "float": "number", "str": "string"}
_PATHS = frozenset({"Path", "pathlib.Path", "PurePath", "argparse.FileType", "FileType"})
_MAX_TEXT = 500
_MAX_SOURCE_BYTES = 256 * 1024
_MAX_ARGUMENTS = 200
_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
_MAKERS = frozenset({"ArgumentParser", "add_parser", "add_subparsers"}) | _GROUPS


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a script. `flag` is "" if it is positional."""

    name: str
    flag: str
    required: bool
    property: dict[str, JsonValue]


def read_argument_call(call: ast.Call, constants: Mapping[str, JsonValue]) -> tuple[Argument, ...] | None:
    """Read a call of `add_argument`. Return None if it is computed.

    Help and version give no argument, a flag with its negation gives two.
    """
    names = [evaluate_small_literal(argument, constants) for argument in call.args]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    known = {key: evaluate_small_literal(value, constants) for key, value in keywords.items()}
    flags = [name for name in names if isinstance(name, str) and name]
    if not flags or len(flags) != len(names) or any(keyword.arg is None for keyword in call.keywords):
        return None
    action = known.get("action", "store")
    if not isinstance(action, str):
        if not _source(keywords.get("action")).endswith("BooleanOptionalAction"):
            return None
        action = "boolean"
    if action in {"help", "version"}:
        return ()
    if not flags[0].startswith("-"):
        return (_read_positional(flags[0], keywords, known, action),)
    return _read_optional(flags, keywords, known, action)


def _read_positional(
    name: str, keywords: Mapping[str, ast.expr], known: Mapping[str, JsonValue | Unknown], action: str
) -> Argument:
    nargs = known.get("nargs")
    required = nargs not in ("?", "*", "...") and "REMAINDER" not in _source(keywords.get("nargs"))
    return Argument(name, "", required, _property(keywords, known, action, is_flag=False))


def _read_optional(
    flags: list[str], keywords: Mapping[str, ast.expr], known: Mapping[str, JsonValue | Unknown], action: str
) -> tuple[Argument, ...]:
    flag = next((name for name in flags if name.startswith("--")), flags[0])
    from_flag = flag.lstrip("-").replace("-", "_")
    dest = known.get("dest")
    required = known.get("required") is True
    described = _description(known)
    if action == "boolean":
        off: dict[str, JsonValue] = {"type": "boolean", "description": f"Turn off: {from_flag}"}
        negation = Argument(f"no_{from_flag}", f"--no-{flag.lstrip('-')}", required=False, property=off)
        return Argument(from_flag, flag, required=False, property={"type": "boolean", **described}), negation
    # A switch that stores another value than true has the name of its flag: its dest names the opposite or a choice.
    name = dest if isinstance(dest, str) and action not in _SWITCHES - {"store_true", "count"} else from_flag
    if action in _SWITCHES:
        return (Argument(name, flag, required, {"type": "boolean", **described}),)
    return (Argument(name, flag, required, _property(keywords, known, action, is_flag=True)),)


def _property(
    keywords: Mapping[str, ast.expr], known: Mapping[str, JsonValue | Unknown], action: str, *, is_flag: bool
) -> dict[str, JsonValue]:
    choices, converter = known.get("choices"), _source(keywords.get("type"))
    item: dict[str, JsonValue]
    if isinstance(choices, list) and choices:
        item = {"enum": choices}
    elif not converter or converter.split("(")[0] in _PATHS:
        item = {"type": "string"}
    else:  # a converter that is a function of the script accepts text or a number
        item = {"type": _TYPES.get(converter, ["string", "number"])}
    described, default = _description(known), known.get("default")
    if default is not None and not isinstance(default, Unknown):
        described["default"] = default
    takes_all: dict[str, JsonValue] = {"x-nargs": "+"} if is_flag else {}
    nargs = known.get("nargs")
    if isinstance(nargs, int) and not isinstance(nargs, bool):
        return {"type": "array", "items": item, "minItems": nargs, "maxItems": nargs, **takes_all, **described}
    if nargs in ("+", "*", "...") or "REMAINDER" in _source(keywords.get("nargs")):
        least: dict[str, JsonValue] = {"minItems": 1} if nargs == "+" else {}
        return {"type": "array", "items": item, **least, **takes_all, **described}
    if action in _LISTS:
        return {"type": "array", "items": item, **described}
    return {**item, **described}


def _source(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _description(known: Mapping[str, JsonValue | Unknown]) -> dict[str, JsonValue]:
    text = known.get("help")
    if not isinstance(text, str) or not text.strip():
        return {}
    shown = str(known.get("default")) if not isinstance(known.get("default"), Unknown) else "computed"
    plain = " ".join(text.replace("%(default)s", shown).replace("%%", "%").split())
    return {"description": plain[:_MAX_TEXT]}


@dataclass(frozen=True, slots=True)
class ScriptArguments:
    """Description and arguments of a script. `schema` is None if it does not use argparse."""

    description: str | None = None
    schema: dict[str, JsonValue] | None = None
    unread: int = 0
    """Number of calls that could not be read because they are computed."""


def read_arguments(source: bytes) -> ScriptArguments:
    """Read the arguments of a Python script. A script that does not parse gives an empty result."""
    if len(source) > _MAX_SOURCE_BYTES:
        return ScriptArguments()
    tree = parse_python(source)
    if tree is None:
        return ScriptArguments()
    try:
        reader = _Reader(read_constants(tree))
        # In the order of the source, and not recursive, because long `elif` chains nest deeply.
        waiting: list[ast.AST] = [tree]
        while waiting:
            node = waiting.pop()
            reader.read_node(node)
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    except (ValueError, RecursionError, MemoryError):
        return ScriptArguments()
    summary = (ast.get_docstring(tree) or "").strip().partition("\n")[0].strip()
    schema = _build_schema(reader) if reader.is_used else None
    return ScriptArguments(reader.description or summary or None, schema, reader.unread)


@dataclass(frozen=True, slots=True)
class _Parser:
    """A parser: level 0 is the main one, level 1 a subcommand. Deeper levels are not read."""

    level: int = 0


@dataclass(slots=True)
class _Commands:
    """Result of `add_subparsers`."""

    name: str
    required: bool
    level: int
    names: list[JsonValue] = field(default_factory=list)


class _Reader:
    """Tracks the variables that hold parsers, in the order of the source."""

    def __init__(self, constants: Mapping[str, JsonValue]) -> None:
        self._constants = constants
        self._owners: dict[str, _Parser | _Commands] = {}
        self.commands: _Commands | None = None
        self.arguments: list[tuple[Argument, int]] = []
        self.is_used = False
        self.description: str | None = None
        self.unread = 0

    def read_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) in _MAKERS:
            owner = self._owner(node.value)
            for target in node.targets:
                self._owners[ast.unparse(target)] = owner
        elif isinstance(node, ast.Call):
            self._read_parser_call(node)

    def _read_parser_call(self, call: ast.Call) -> None:
        called = _called(call)
        if called == "ArgumentParser":
            self.is_used = True
            text = evaluate_literal(_keyword(call, "description"), self._constants)
            if isinstance(text, str) and not self.description:
                self.description = " ".join(text.split()) or None
        elif called in {"add_parser", "add_subparsers"}:
            self._owner(call)
        elif called == "add_argument" and isinstance(call.func, ast.Attribute):
            owner = self._owner(call.func.value)
            is_ours = not isinstance(owner, _Commands) and owner.level <= 1 and len(self.arguments) < _MAX_ARGUMENTS
            found = read_argument_call(call, self._constants) if is_ours else None
            if found is None:
                self.unread += 1
            else:
                self.arguments += [(argument, owner.level) for argument in found]

    def _owner(self, node: ast.expr) -> _Parser | _Commands:
        """Return the parser that an expression evaluates to, by default the main one."""
        if not isinstance(node, ast.Call):
            return self._owners.get(ast.unparse(node), _Parser())
        holder = self._owner(node.func.value) if isinstance(node.func, ast.Attribute) else _Parser()
        called = _called(node)
        if called in _GROUPS:
            return holder
        if called == "add_subparsers" and isinstance(holder, _Parser):
            dest = evaluate_literal(_keyword(node, "dest"), self._constants)
            required = evaluate_literal(_keyword(node, "required"), self._constants) is True
            commands = _Commands(dest if isinstance(dest, str) else "command", required, holder.level)
            if not holder.level:
                self.commands = commands = self.commands or commands
            return commands
        if called == "add_parser" and isinstance(holder, _Commands):
            name = evaluate_literal(node.args[0], self._constants) if node.args else None
            if not isinstance(name, str):
                self.unread += 1
            elif name not in holder.names:
                holder.names.append(name)
            return _Parser(holder.level + 1)
        return _Parser()


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _build_schema(reader: _Reader) -> dict[str, JsonValue]:
    commands = reader.commands if reader.commands and reader.commands.names else None
    properties: dict[str, JsonValue] = {}
    flags: dict[str, JsonValue] = {}
    positional, required, leading = list[JsonValue](), list[JsonValue](), list[JsonValue]()
    main = [item for item in reader.arguments if not item[1]]
    subcommands = [item for item in reader.arguments if item[1]]
    command: list[tuple[Argument, int]] = []
    if commands:
        described: dict[str, JsonValue] = {"enum": commands.names, "description": "The subcommand"}
        command = [(Argument(commands.name, "", commands.required, described), 0)]
    for argument, level in [*main, *command, *subcommands]:
        # Two subcommands may share a name. The first one describes it, and no argument of theirs is always required.
        if argument.name in properties:
            continue
        properties[argument.name] = argument.property
        if argument.flag:
            flags[argument.name] = argument.flag
        else:
            positional.append(argument.name)
        if argument.required and not level:
            required.append(argument.name)
        if argument.flag and commands and not level:
            leading.append(argument.name)
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    schema |= {"required": required} if required else {}
    schema |= {} if reader.unread else {"additionalProperties": False}
    schema |= {"x-positional": positional, "x-flags": flags}
    return schema | ({"x-leading": leading} if leading else {})
