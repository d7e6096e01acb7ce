"""How a skill talks to its runner: JSON arguments on stdin, files in $SKILLBUS_IN and $SKILLBUS_OUT, JSON on stdout.

The same file lies in every Python skill here, so that each skill is a folder that works on its own.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

MAX_TEXT_BYTES = 32 * 1024 * 1024
BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

Arguments = Mapping[str, object]


class SkillError(Exception):
    """The input cannot be used; the message says what to change. Printed on stderr, exit status 2."""


def run(skill: Callable[[Arguments], object]) -> None:
    """Call `skill` with the arguments on stdin and print what it returns as JSON; a `SkillError` ends with status 2."""
    try:
        result = skill(read_arguments(sys.stdin.buffer.read()))
    except SkillError as error:
        sys.stderr.buffer.write(f"error: {error}\n".encode("utf-8", "replace"))
        sys.stderr.buffer.flush()
        sys.exit(2)
    text = json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def read_arguments(data: bytes) -> Arguments:
    """Empty input means no arguments."""
    if not data.strip():
        return {}
    try:
        arguments = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SkillError(f"the arguments on stdin are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise SkillError(f"the arguments must be a JSON object, not {type(arguments).__name__}")
    return arguments


def text_of(arguments: Arguments, key: str, default: str | None = None) -> str:
    value = arguments.get(key, default)
    if value is None:
        raise SkillError(f"argument {key!r} is missing")
    if not isinstance(value, str):
        raise SkillError(f"argument {key!r} must be a string, not {type(value).__name__}")
    return value


def choice_of(arguments: Arguments, key: str, choices: Collection[str], default: str) -> str:
    value = text_of(arguments, key, default)
    if value not in choices:
        raise SkillError(f"argument {key!r} must be one of {', '.join(choices)}; got {value[:80]!r}")
    return value


def integer_of(arguments: Arguments, key: str, default: int, low: int, high: int) -> int:
    value = arguments.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SkillError(f"argument {key!r} must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise SkillError(f"argument {key!r} must lie between {low} and {high}")
    return value


def input_path(name: str | None) -> Path:
    """A file under $SKILLBUS_IN; without a name the only file there."""
    root = input_root()
    if name is None:
        return only_file(root)
    try:
        path = (root / name).resolve()
        inside, found = path.is_relative_to(root), path.is_file()
    except (OSError, ValueError):  # too long, or holding NUL
        raise SkillError(f"{name[:80]!r} is not a usable file name") from None
    if not inside:
        raise SkillError(f"{name!r} leads out of the input folder; give a name relative to it")
    if not found:
        raise SkillError(f"there is no input file {name!r}; {available(root)}")
    return path


def input_root() -> Path:
    folder = os.environ.get("SKILLBUS_IN")
    if not folder or not Path(folder).is_dir():
        raise SkillError("no input files were given ($SKILLBUS_IN is not a folder)")
    return Path(folder).resolve()


def input_names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def only_file(root: Path) -> Path:
    names = input_names(root)
    if len(names) != 1:
        raise SkillError(f"name the file to use in argument 'file'; {available(root)}")
    return root / names[0]


def available(root: Path) -> str:
    names = input_names(root)
    if not names:
        return "no input files were given"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"given: {', '.join(names[:20])}{more}"


def read_text(path: Path) -> str:
    return decode(read_bytes(path), path.name)[0]


def read_bytes(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MAX_TEXT_BYTES:
        raise SkillError(f"{path.name} has {size:,} bytes; the limit is {MAX_TEXT_BYTES:,}")
    return path.read_bytes()


def decode(data: bytes, name: str) -> tuple[str, str]:
    """The text and the encoding found: by byte order mark, else UTF-8, else GB 18030 (Chinese Windows)."""
    marked = [encoding for mark, encoding in BYTE_ORDER_MARKS.items() if data.startswith(mark)]
    if not marked and b"\0" in data:
        raise SkillError(f"{name} is not a text file (it holds NUL bytes)")
    for encoding in marked or ["utf-8", "gb18030"]:
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    raise SkillError(f"{name} is not text in UTF-8, UTF-16 or GB 18030")


def text_or_file(arguments: Arguments, text_key: str = "text", file_key: str = "file") -> str:
    """The text given in the arguments, else that of the input file."""
    if text_key in arguments and file_key in arguments:
        raise SkillError(f"give either {text_key!r} or {file_key!r}, not both")
    if text_key in arguments:
        return text_of(arguments, text_key)
    if file_key not in arguments and not has_input():
        raise SkillError(f"nothing to work on: give {text_key!r}, or a file and its name in {file_key!r}")
    return read_text(input_path(text_of(arguments, file_key) if file_key in arguments else None))


def has_input() -> bool:
    folder = os.environ.get("SKILLBUS_IN")
    return bool(folder) and any(Path(folder or ".").glob("*"))


def write_artifact(name: str, text: str) -> str:
    """Keep `text` as a file of the run's results; returns its name."""
    folder = os.environ.get("SKILLBUS_OUT")
    if not folder or not Path(folder).is_dir():
        raise SkillError("there is nowhere to write results ($SKILLBUS_OUT is not a folder)")
    (Path(folder) / name).write_bytes(text.encode("utf-8", "replace"))
    return name
