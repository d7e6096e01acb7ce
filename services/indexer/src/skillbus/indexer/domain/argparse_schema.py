"""The arguments of a Python script as a JSON Schema, read from its calls of argparse without running it.

The schema says with keys of its own how an object of arguments becomes a command line:

- `x-positional`: names of the properties that are positional arguments, in their order;
- `x-flags`: property name → the flag to write, `{"scenario": "--scenario"}`. A boolean property is the flag alone when
  true and nothing when false; any other is the flag and its value;
- `x-leading`: names among `x-flags` to write before the positional arguments (those of the main parser, when there are
  subcommands); the others come after them. Absent if there are none;
- `x-nargs` on an array property with a flag: the flag once, then all values. Without it the flag is repeated for each
  value. An array that is positional is its values in order.

Properties stand in the order of the script. `additionalProperties` is false only if every call could be read.
Semantics: docs.python.org/3/library/argparse.html.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillbus.indexer.domain.argparse_call import Argument, read_call
from skillbus.indexer.domain.literals import constants_of, literal
from skillbus.indexer.domain.python_source import parse_python

_MAX_SOURCE_BYTES = 256 * 1024
_MAX_ARGUMENTS = 200
_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
_MAKERS = frozenset({"ArgumentParser", "add_parser", "add_subparsers"}) | _GROUPS


@dataclass(frozen=True, slots=True)
class ScriptArguments:
    """What a script says of itself. `schema` is absent if it does not use argparse."""

    description: str | None = None
    schema: dict[str, JsonValue] | None = None
    unread: int = 0
    """How many calls could not be read because they are computed."""


def read_arguments(source: bytes) -> ScriptArguments:
    """Read a Python script; one that does not parse says nothing."""
    if len(source) > _MAX_SOURCE_BYTES:
        return ScriptArguments()
    tree = parse_python(source)
    if tree is None:
        return ScriptArguments()
    try:
        reader = _Reader(constants_of(tree))
        for node in _in_order(tree):
            reader.read(node)
    except (ValueError, RecursionError, MemoryError):
        return ScriptArguments()
    summary = (ast.get_docstring(tree) or "").strip().partition("\n")[0].strip()
    schema = _schema(reader) if reader.is_used else None
    return ScriptArguments(reader.description or summary or None, schema, reader.unread)


def _in_order(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node, in the order of the source; not recursive, for long `elif` chains nest deeply."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))


@dataclass(frozen=True, slots=True)
class _Parser:
    """A parser: the main one, a subcommand's, or one further down, which is not read."""

    level: int = 0


@dataclass(slots=True)
class _Commands:
    """What add_subparsers returns."""

    name: str
    required: bool
    level: int
    names: list[JsonValue] = field(default_factory=list)


class _Reader:
    """Follows the variables that hold parsers, in the order of the source."""

    def __init__(self, constants: Mapping[str, JsonValue]) -> None:
        self._constants = constants
        self._owners: dict[str, _Parser | _Commands] = {}
        self.commands: _Commands | None = None
        self.arguments: list[tuple[Argument, int]] = []
        self.is_used = False
        self.description: str | None = None
        self.unread = 0

    def read(self, node: ast.AST) -> None:
        """Take in one node of the source."""
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) in _MAKERS:
            owner = self._owner(node.value)
            for target in node.targets:
                self._owners[ast.unparse(target)] = owner
        elif isinstance(node, ast.Call):
            self._read_call(node)

    def _read_call(self, call: ast.Call) -> None:
        called = _called(call)
        if called == "ArgumentParser":
            self.is_used = True
            text = literal(_keyword(call, "description"), self._constants)
            if isinstance(text, str) and not self.description:
                self.description = " ".join(text.split()) or None
        elif called in {"add_parser", "add_subparsers"}:
            self._owner(call)
        elif called == "add_argument" and isinstance(call.func, ast.Attribute):
            self._add(call, self._owner(call.func.value))

    def _add(self, call: ast.Call, owner: _Parser | _Commands) -> None:
        is_ours = not isinstance(owner, _Commands) and owner.level <= 1 and len(self.arguments) < _MAX_ARGUMENTS
        found = read_call(call, self._constants) if is_ours else None
        if found is None or isinstance(owner, _Commands):
            self.unread += 1
        else:
            self.arguments += [(argument, owner.level) for argument in found]

    def _owner(self, node: ast.expr) -> _Parser | _Commands:
        """The parser that an expression stands for; the main one if nothing says otherwise."""
        if not isinstance(node, ast.Call):
            return self._owners.get(ast.unparse(node), _Parser())
        holder = self._owner(node.func.value) if isinstance(node.func, ast.Attribute) else _Parser()
        called = _called(node)
        if called in _GROUPS:
            return holder
        if called == "add_subparsers" and isinstance(holder, _Parser):
            return self._subparsers(node, holder)
        if called == "add_parser" and isinstance(holder, _Commands):
            return self._subcommand(node, holder)
        return _Parser()

    def _subparsers(self, call: ast.Call, holder: _Parser) -> _Commands:
        dest = literal(_keyword(call, "dest"), self._constants)
        required = literal(_keyword(call, "required"), self._constants) is True
        commands = _Commands(dest if isinstance(dest, str) else "command", required, holder.level)
        if holder.level:
            return commands
        self.commands = self.commands or commands
        return self.commands

    def _subcommand(self, call: ast.Call, holder: _Commands) -> _Parser:
        name = literal(call.args[0], self._constants) if call.args else None
        if not isinstance(name, str):
            self.unread += 1
        elif name not in holder.names:
            holder.names.append(name)
        return _Parser(holder.level + 1)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _schema(reader: _Reader) -> dict[str, JsonValue]:
    commands = reader.commands if reader.commands and reader.commands.names else None
    properties: dict[str, JsonValue] = {}
    flags: dict[str, JsonValue] = {}
    positional, required, leading = list[JsonValue](), list[JsonValue](), list[JsonValue]()
    of_main = [item for item in reader.arguments if not item[1]]
    of_commands = [item for item in reader.arguments if item[1]]
    for argument, level in [*of_main, *_command_argument(commands), *of_commands]:
        # Two subcommands may share a name: the first one describes it, and no argument of theirs is always required.
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


def _command_argument(commands: _Commands | None) -> list[tuple[Argument, int]]:
    if commands is None:
        return []
    described: dict[str, JsonValue] = {"enum": commands.names, "description": "The subcommand"}
    return [(Argument(commands.name, "", commands.required, described), 0)]
