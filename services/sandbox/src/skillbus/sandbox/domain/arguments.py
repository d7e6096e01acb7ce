"""From arguments by name to what a script reads.

The rule of `argv`:

- Values of the keys in `positionals` come first, in that order, then those of `_` (a value or a list).
- Then every other key in its order: `--key value`; one letter gives `-k value`; a key that starts with `-` stays as it
  is. Keys are flag names letter by letter: `max_size` is `--max_size`, never `--max-size`.
- `true` gives the bare flag; `false` and `null` give nothing; a list repeats the flag for each item.
- A value that starts with `-` is joined to a long flag (`--offset=-5`), so that no parser takes it for a flag.
- An object, or a list in a list, is passed as JSON text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from pydantic import JsonValue

from skillbus.sandbox.domain.errors import ArgumentsInvalid

Json: TypeAlias = JsonValue

ARGUMENT_BYTES_MAX: Final = 128 * 1024 - 1
"""Of one argument: MAX_ARG_STRLEN of Linux, less the final NUL."""
ARGV_BYTES_MAX: Final = 1024 * 1024
ARGV_MAX: Final = 4096


class ArgsMode(StrEnum):
    """How an entry point takes its arguments."""

    STDIN_JSON = "stdin-json"
    ARGV = "argv"
    NONE = "none"


def input_from_args(
    mode: ArgsMode, args: Mapping[str, Json], positionals: Sequence[str] = ()
) -> tuple[tuple[str, ...], bytes]:
    """What a script is given for `args`: its arguments and its standard input.

    Raises:
        ArgumentsInvalid: when the mode takes none, or they cannot be passed.
    """
    if mode is ArgsMode.ARGV:
        return argv_from_args(args, positionals), b""
    if mode is ArgsMode.STDIN_JSON:
        return (), _json(args).encode(errors="backslashreplace")
    if args:
        raise ArgumentsInvalid("this action takes no arguments; leave args empty")
    return (), b""


def argv_from_args(args: Mapping[str, Json], positionals: Sequence[str] = ()) -> tuple[str, ...]:
    """The command line for `args`, by the rule in this module's docstring.

    Raises:
        ArgumentsInvalid: when a value cannot be a command line argument, or there is too much.
    """
    first = [*positionals, "_"]
    argv = [word for key in first for word in _words(args.get(key))]
    for key, value in args.items():
        if key not in first:
            argv.extend(_option(key, value))
    return check_argv(argv)


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


def _option(key: str, value: Json) -> Iterator[str]:
    if not key.strip("-") or "=" in key or any(char.isspace() for char in key):
        raise ArgumentsInvalid("this key cannot be a flag's name", f"$.{key}")
    flag = key if key.startswith("-") else f"-{key}" if len(key) == 1 else f"--{key}"
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


def _json(value: Mapping[str, Json] | Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ArgumentsInvalid(f"the value is not JSON: {error}") from error
