"""Command line and standard input of a script, made from arguments by name.

The rule for `argv`, unless the action's input schema says otherwise:

- Values of the key `_` (a value or a list) come first, then every other key in its order.
- A key gives `--key value`, one letter gives `-k value`, and a key that starts with `-` stays unchanged. A key is the
  flag name exactly: `max_size` gives `--max_size`, never `--max-size`.
- `true` gives the bare flag; `false` and `null` give nothing; a list repeats the flag for each item.
- A value that starts with `-` is joined to a long flag (`--offset=-5`), so that no parser reads it as a flag.
- An object, or a list in a list, is passed as JSON text.

A schema can change this with extension keys: `x-positional` lists names; their values come first, in that order, before
`_`; `x-flags` maps names to flags; `x-leading` lists names; their flags come before everything else; `x-nargs` in a
property passes its flag once, followed by all items of the list.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pydantic import JsonValue

from skillbus.common import json_schema
from skillbus.contracts.indexer.skill_record import ArgsMode
from skillbus.sandbox.domain.errors import ArgumentsInvalid, SchemaInvalid

Json: TypeAlias = JsonValue

ARGUMENT_BYTES_MAX: Final = 128 * 1024 - 1
"""Size limit of one argument: MAX_ARG_STRLEN of Linux, without the final NUL."""
ARGV_BYTES_MAX: Final = 1024 * 1024
ARGV_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class ArgumentLayout:
    """Place of each argument on a command line."""

    positional: tuple[str, ...] = ()
    leading: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    spread: frozenset[str] = frozenset()
    """Names with a flag that is followed by all items of a list."""

    @classmethod
    def from_schema(cls, schema: Mapping[str, Json] | None) -> "ArgumentLayout":
        """Return the layout of an input schema; keys with an unexpected shape are ignored."""
        schema = schema or {}
        properties = _object(schema.get("properties"))
        flags = _object(schema.get("x-flags"))
        return cls(
            positional=_names(schema.get("x-positional")),
            leading=_names(schema.get("x-leading")),
            flags={name: flag for name, flag in flags.items() if isinstance(flag, str) and flag.startswith("-")},
            spread=frozenset(name for name, value in properties.items() if _object(value).get("x-nargs")),
        )


def check_args(schema: Mapping[str, Json], args: Mapping[str, Json]) -> None:
    """Check `args` against an input schema that a skill's author wrote.

    This may take seconds: do not call it on the event loop's thread.

    Raises:
        ArgumentsInvalid: With the path of the first misfit.
        SchemaInvalid: The schema itself cannot be used.
    """
    try:
        json_schema.check_args(schema, args)
    except json_schema.MisfitError as error:
        raise ArgumentsInvalid(error.problem, error.path) from error
    except json_schema.UnusableSchemaError as error:
        raise SchemaInvalid(error.problem, error.path) from error


def build_input(
    mode: ArgsMode, args: Mapping[str, Json], schema: Mapping[str, Json] | None = None
) -> tuple[tuple[str, ...], bytes]:
    """Return the command line and the standard input of a script for `args`.

    Raises:
        ArgumentsInvalid: The mode takes no arguments, or they cannot be passed.
    """
    if mode is ArgsMode.ARGV:
        return build_argv(args, ArgumentLayout.from_schema(schema)), b""
    if mode is ArgsMode.STDIN_JSON:
        return (), _json(dict(args)).encode(errors="backslashreplace")
    if args:
        raise ArgumentsInvalid("this action takes no arguments; leave args empty")
    return (), b""


def build_argv(args: Mapping[str, Json], layout: ArgumentLayout | None = None) -> tuple[str, ...]:
    """Return the command line for `args`, by the rule in this module's docstring.

    Raises ArgumentsInvalid if a value cannot be a command line argument, or there are too many.
    """
    layout = layout or ArgumentLayout()
    first = (*layout.positional, "_")
    before, after = list[str](), list[str]()
    for key, value in args.items():
        if key not in first:
            (before if key in layout.leading else after).extend(_option(key, value, layout))
    return check_argv([*before, *(word for key in first for word in _words(args.get(key))), *after])


def _names(value: Json) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def check_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return `argv` as a tuple after checking that Linux can pass every item.

    Raises:
        ArgumentsInvalid: An item has a NUL or a lone surrogate, or the size is over a limit of Linux.
    """
    if len(argv) > ARGV_MAX:
        raise ArgumentsInvalid(f"{len(argv)} arguments are given, the limit is {ARGV_MAX}")
    sizes = [_size(word, index) for index, word in enumerate(argv)]
    if sum(sizes) > ARGV_BYTES_MAX:
        raise ArgumentsInvalid(
            f"the arguments are {sum(sizes)} bytes, the limit is {ARGV_BYTES_MAX}; use stdin or files"
        )
    return tuple(argv)


def _size(word: str, index: int) -> int:
    path = f"argv[{index}]"
    if "\0" in word:
        raise ArgumentsInvalid("a NUL character cannot be passed", path)
    try:
        size = len(word.encode())
    except UnicodeEncodeError as error:
        raise ArgumentsInvalid("a lone surrogate cannot be passed", path) from error
    if size > ARGUMENT_BYTES_MAX:
        raise ArgumentsInvalid(f"{size} bytes, the limit is {ARGUMENT_BYTES_MAX}; use stdin or files", path)
    return size


def _option(key: str, value: Json, layout: ArgumentLayout) -> Iterator[str]:
    flag = layout.flags.get(key)
    if flag is None:
        if not key.strip("-") or "=" in key or any(char.isspace() for char in key):
            raise ArgumentsInvalid("this key cannot be a flag's name", f"$.{key}")
        flag = key if key.startswith("-") else f"-{key}" if len(key) == 1 else f"--{key}"
    if isinstance(value, list) and key in layout.spread:
        words = tuple(_words(value))
        yield from (flag, *words) if words else ()
        return
    for item in value if isinstance(value, list) else [value]:
        yield from _flag(flag, item)


def _flag(flag: str, value: Json) -> Iterator[str]:
    if value is True:
        yield flag
        return
    for word in _words(value if not isinstance(value, list) else _json(value)):
        if word.startswith("-") and flag.startswith("--"):
            yield f"{flag}={word}"
        else:
            yield flag
            yield word


def _words(value: Json) -> Iterator[str]:
    if value is None or value is False:
        return
    for item in value if isinstance(value, list) else [value]:
        yield item if isinstance(item, str) else _json(item)


def _json(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ArgumentsInvalid(f"the value is not JSON: {error}") from error
