"""The tools `read_file`, `write_file` and `list_files`, and the interface to the storage.

A path is relative to the project's folder. No path leads out of it, not even through links: see the adapter.
"""

import base64
import binascii
import codecs
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, Protocol, TypeAlias

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTool, make_tool
from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.agent.domain.tool_answer import ToolAnswer

MAX_PATH: Final = 1_024
"""Characters."""
MAX_DEPTH: Final = 16
MAX_NAME_BYTES: Final = 255
"""NAME_MAX of Linux."""

Parts: TypeAlias = tuple[str, ...]
"""Names below the project's folder; empty for the folder itself."""
MAX_READ_BYTES: Final = 128 * 1024
"""Bytes of one answer: base64, or twice as much in the worst case of JSON, stays below the 1 MiB of a message."""
MAX_WRITE_CHARACTERS: Final = 400_000
"""Characters of one request, for the same reason."""
MAX_LISTED: Final = 500
_PLAIN_CONTROLS: Final = frozenset("\t\n\r")

_FilePath = Annotated[
    str, Field(min_length=1, max_length=MAX_PATH, description="Path in the project's files, like notes/today.md.")
]
_Encoding = Literal["utf-8", "base64"]


class FileKind(StrEnum):
    """Kind of an entry in a folder."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A link, device or socket, which is never opened."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry in a folder."""

    name: str
    kind: FileKind
    size_bytes: int
    """0 for anything but a file."""


@dataclass(frozen=True, slots=True)
class FileExcerpt:
    """Bytes of a file from `offset` on, and the size of the file."""

    data: bytes
    offset: int
    size_bytes: int


class ProjectFiles(Protocol):
    """Storage of files, separate for each project. Its methods raise BuiltinFailedError with the reason."""

    async def read_file(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> FileExcerpt:
        """Return at most `limit_bytes` of a file."""

    async def write_file(self, project: str, parts: Parts, data: bytes, *, replace: bool) -> bool:
        """Write a file atomically and create its folders. Return True if it replaced a file."""

    async def list_entries(self, project: str, parts: Parts) -> tuple[FileEntry, ...]:
        """Return the entries of a folder, ordered by name; none for a project that never wrote a file."""


def parse_path(path: str) -> Parts:
    """Split a path into names. Raises ArgumentsInvalidError if it leads out of the folder, or no file can have it."""
    if path.startswith("/"):
        raise _refuse_path("is absolute: write it from the project's own folder, like notes/today.md")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise _refuse_path("leads out of its folder: leave out `..`")
    if "\\" in path or any(unicodedata.category(char) in {"Cc", "Cs"} for char in path):
        raise _refuse_path("holds a backslash or a control character: write names with `/` between them")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise _refuse_path(f"is too long: at most {MAX_DEPTH} names of {MAX_NAME_BYTES} bytes")
    return parts


def parse_file_path(path: str) -> Parts:
    """Split the path of a file into names. Raises ArgumentsInvalidError."""
    parts = parse_path(path)
    if not parts or path.endswith("/"):
        raise _refuse_path("names a folder: name a file")
    return parts


def _refuse_path(reason: str) -> ArgumentsInvalidError:
    return ArgumentsInvalidError(reason, "$.path")


class ReadFileArguments(BuiltinArguments):
    path: _FilePath
    offset: Annotated[int, Field(ge=0, le=2**53, description="First byte: `next_offset` of the answer before.")] = 0
    max_bytes: Annotated[int, Field(ge=4, le=MAX_READ_BYTES, description="How much to read at most.")] = 64 * 1024


class WriteFileArguments(BuiltinArguments):
    path: _FilePath
    content: Annotated[str, Field(max_length=MAX_WRITE_CHARACTERS, description="The whole content of the file.")]
    encoding: Annotated[_Encoding, Field(description="Encoding of `content`: text, or base64 of any bytes.")] = "utf-8"
    overwrite: Annotated[bool, Field(description="Replace an existing file; otherwise the call fails.")] = True


class ListFilesArguments(BuiltinArguments):
    path: Annotated[str, Field(max_length=MAX_PATH, description="Folder in the project's files; the top if empty.")] = (
        ""
    )
    after: Annotated[
        str | None, Field(max_length=255, description="Only names after this one: `next` of the answer before.")
    ] = None


READ_FILE: Final = BuiltinProfile(
    name="read_file",
    english="Read a file of the project: text as it is, anything else as base64.",
    chinese="读取文件：读取项目目录中的文件内容，文本直接返回，其他格式以 base64 返回。",
    tags=("file", "filesystem", "read", "文件", "读取"),
    examples=(
        "Read the file notes/today.md.",
        "Show me what is in config.json.",
        "读取文件 notes/today.md 的内容",
        "打开 config.json 看看里面写了什么",
    ),
)
WRITE_FILE: Final = BuiltinProfile(
    name="write_file",
    english="Save text, notes or any bytes to a file of the project, making it or replacing what it holds.",
    chinese="写入文件：把文本或任意内容保存到项目目录：新建文件，或覆盖已有文件。",
    tags=("file", "filesystem", "write", "save", "文件", "写入", "保存"),
    examples=(
        "Save this text as report.md.",
        "Create a file todo.txt with these lines.",
        "把这段文字保存到 report.md",
        "新建一个文件 todo.txt 并写入内容",
    ),
)
LIST_FILES: Final = BuiltinProfile(
    name="list_files",
    english="List which files and folders the project has, with their sizes.",
    chinese="列出文件：查看项目目录中有哪些文件和文件夹及其大小。",
    tags=("file", "filesystem", "directory", "文件", "目录"),
    examples=(
        "Which files are there?",
        "List the contents of the folder notes.",
        "有哪些文件",
        "列出 notes 目录下的文件",
    ),
)


def make_read_file_tool(files: ProjectFiles) -> BuiltinTool:
    async def run(project: str, arguments: ReadFileArguments) -> ToolAnswer:
        excerpt = await files.read_file(project, parse_file_path(arguments.path), arguments.offset, arguments.max_bytes)
        return _answer_excerpt(arguments.path, excerpt)

    return make_tool(READ_FILE, ReadFileArguments, run)


def make_write_file_tool(files: ProjectFiles) -> BuiltinTool:
    async def run(project: str, arguments: WriteFileArguments) -> ToolAnswer:
        try:
            is_base64 = arguments.encoding == "base64"
            data = base64.b64decode(arguments.content, validate=True) if is_base64 else arguments.content.encode()
        except (binascii.Error, ValueError) as error:
            raise ArgumentsInvalidError(f"is not {arguments.encoding}: {error}", "$.content") from None
        replaced = await files.write_file(project, parse_file_path(arguments.path), data, replace=arguments.overwrite)
        done = "replaced" if replaced else "created"
        return ToolAnswer(
            f"{arguments.path} {done}: {len(data)} bytes",
            structured={"path": arguments.path, "size_bytes": len(data), "outcome": done},
        )

    return make_tool(WRITE_FILE, WriteFileArguments, run)


def make_list_files_tool(files: ProjectFiles) -> BuiltinTool:
    async def run(project: str, arguments: ListFilesArguments) -> ToolAnswer:
        found = await files.list_entries(project, parse_path(arguments.path))
        later = tuple(entry for entry in found if arguments.after is None or entry.name > arguments.after)
        return _answer_entries(later[:MAX_LISTED], more=len(later) > MAX_LISTED)

    return make_tool(LIST_FILES, ListFilesArguments, run)


def _answer_excerpt(path: str, excerpt: FileExcerpt) -> ToolAnswer:
    """Answer with the content in `text`, and its position and encoding in `structured`."""
    text = _decode_text(excerpt)
    taken = len(excerpt.data) if text is None else len(text.encode())
    end = excerpt.offset + taken
    about: dict[str, JsonValue] = {
        "path": path,
        "encoding": "base64" if text is None else "utf-8",
        "size_bytes": excerpt.size_bytes,
        "offset": excerpt.offset,
        "next_offset": end if end < excerpt.size_bytes and taken else None,
    }
    return ToolAnswer(base64.b64encode(excerpt.data).decode() if text is None else text, structured=about)


def _decode_text(excerpt: FileExcerpt) -> str | None:
    """Return the excerpt as text; None if it is binary. A character cut off at the end is left to the next excerpt."""
    at_end = excerpt.offset + len(excerpt.data) >= excerpt.size_bytes
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(excerpt.data, final=at_end)
    except UnicodeDecodeError:
        return None
    odd = any(char < " " and char not in _PLAIN_CONTROLS for char in text)
    return None if odd or (excerpt.data and not text) else text


def _answer_entries(entries: tuple[FileEntry, ...], *, more: bool) -> ToolAnswer:
    lines = list[str]()
    for entry in entries:
        notes = {FileKind.FILE: f" ({entry.size_bytes} bytes)", FileKind.FOLDER: "/"}
        lines.append(entry.name + notes.get(entry.kind, " (no file: cannot be read)"))
    structured: dict[str, JsonValue] = {
        "entries": [{"name": one.name, "kind": one.kind.value, "size_bytes": one.size_bytes} for one in entries],
        "next": entries[-1].name if more else None,
    }
    if more:
        lines.append(f"There are more, after {entries[-1].name!r}.")
    return ToolAnswer("\n".join(lines) or "Nothing is here yet.", structured=structured)
