"""From arguments by name to what a script reads.

The rule of `argv`, where the action's input schema says nothing else:

- Values of the key `_` (a value or a list) come first, then every other key in its order.
- `--key value`; one letter gives `-k value`; a key that starts with `-` stays as it is. Keys are flag names letter by
  letter: `max_size` is `--max_size`, never `--max-size`.
- `true` gives the bare flag; `false` and `null` give nothing; a list repeats the flag for each item.
- A value that starts with `-` is joined to a long flag (`--offset=-5`), so that no parser takes it for a flag.
- An object, or a list in a list, is passed as JSON text.

A schema says more with keys of its own: `x-positional`, names whose values come first, in that order, before `_`;
`x-flags`, the flag of a name; `x-leading`, names whose flags come before everything; and `x-nargs` in a property: its
flag once, then all items of the list.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import ArgsMode
from skillbus.sandbox.domain.errors import ArgumentsInvalid

Json: TypeAlias = JsonValue

ARGUMENT_BYTES_MAX: Final = 128 * 1024 - 1
"""Of one argument: MAX_ARG_STRLEN of Linux, less the final NUL."""
ARGV_BYTES_MAX: Final = 1024 * 1024
ARGV_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each argument goes on a command line."""

    positional: tuple[str, ...] = ()
    leading: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    spread: frozenset[str] = frozenset()
    """Names whose flag takes all items of a list at once."""

    @classmethod
    def of(cls, schema: Mapping[str, Json] | None) -> "Layout":
        """The layout that an input schema names; whatever is of another shape in it is passed over."""
        schema = schema or {}
        properties = _object(schema.get("properties"))
        flags = _object(schema.get("x-flags"))
        return cls(
            positional=_names(schema.get("x-positional")),
            leading=_names(schema.get("x-leading")),
            flags={name: flag for name, flag in flags.items() if isinstance(flag, str) and flag.startswith("-")},
            spread=frozenset(name for name, value in properties.items() if _object(value).get("x-nargs")),
        )


def input_from_args(
    mode: ArgsMode, args: Mapping[str, Json], schema: Mapping[str, Json] | None = None
) -> tuple[tuple[str, ...], bytes]:
    """What a script is given for `args`: its arguments and its standard input.

    Raises:
        ArgumentsInvalid: when the mode takes none, or they cannot be passed.
    """
    if mode is ArgsMode.ARGV:
        return argv_from_args(args, Layout.of(schema)), b""
    if mode is ArgsMode.STDIN_JSON:
        return (), _json(dict(args)).encode(errors="backslashreplace")
    if args:
        raise ArgumentsInvalid("this action takes no arguments; leave args empty")
    return (), b""


def argv_from_args(args: Mapping[str, Json], layout: Layout | None = None) -> tuple[str, ...]:
    """The command line for `args`, by the rule in this module's docstring.

    Raises:
        ArgumentsInvalid: when a value cannot be a command line argument, or there is too much.
    """
    layout = layout or Layout()
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
    """`argv` as a tuple, once every item can be passed to a process.

    Raises:
        ArgumentsInvalid: at a NUL, a lone surrogate, or a size that Linux does not pass.
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


def _option(key: str, value: Json, layout: Layout) -> Iterator[str]:
    flag = layout.flags.get(key) or _flag_of(key)
    if isinstance(value, list) and key in layout.spread:
        words = tuple(_words(value))
        yield from (flag, *words) if words else ()
        return
    for item in value if isinstance(value, list) else [value]:
        yield from _flag(flag, item)


def _flag_of(key: str) -> str:
    if not key.strip("-") or "=" in key or any(char.isspace() for char in key):
        raise ArgumentsInvalid("this key cannot be a flag's name", f"$.{key}")
    if key.startswith("-"):
        return key
    return f"-{key}" if len(key) == 1 else f"--{key}"


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
