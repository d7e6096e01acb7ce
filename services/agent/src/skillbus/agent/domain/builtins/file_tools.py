"""The tools `read_file`, `write_file` and `list_files`."""

import base64
import binascii
import codecs
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.files import (
    MAX_PATH,
    Entry,
    EntryKind,
    Excerpt,
    ProjectFiles,
    file_parts_of,
    parts_of,
)
from skillbus.agent.domain.builtins.tool import About, Answer, Arguments, Builtin
from skillbus.agent.domain.errors import ArgumentsInvalidError

MAX_READ_BYTES: Final = 128 * 1024
"""Of one answer: twice as much in JSON's worst case, and base64, stay below the 1 MiB of a message."""
MAX_WRITE_CHARACTERS: Final = 400_000
"""Of one request, for the same reason."""
MAX_LISTED: Final = 500
_PLAIN_CONTROLS: Final = frozenset("\t\n\r")

_FilePath = Annotated[
    str, Field(min_length=1, max_length=MAX_PATH, description="Path in the project's files, like notes/today.md.")
]
_Encoding = Literal["utf-8", "base64"]


class ReadFile(Arguments):
    path: _FilePath
    offset: Annotated[int, Field(ge=0, le=2**53, description="First byte: `next_offset` of the answer before.")] = 0
    max_bytes: Annotated[int, Field(ge=4, le=MAX_READ_BYTES, description="How much to read at most.")] = 64 * 1024


class WriteFile(Arguments):
    path: _FilePath
    content: Annotated[str, Field(max_length=MAX_WRITE_CHARACTERS, description="The whole content of the file.")]
    encoding: Annotated[_Encoding, Field(description="What `content` is: text, or base64 of any bytes.")] = "utf-8"
    overwrite: Annotated[bool, Field(description="Whether a file that is there is replaced, or the call fails.")] = True


class ListFiles(Arguments):
    path: Annotated[str, Field(max_length=MAX_PATH, description="Folder in the project's files; the top if empty.")] = (
        ""
    )
    after: Annotated[
        str | None, Field(max_length=255, description="Only names after this one: `next` of the answer before.")
    ] = None


READ_FILE: Final = About(
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
WRITE_FILE: Final = About(
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
LIST_FILES: Final = About(
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


def read_file_tool(files: ProjectFiles) -> Builtin[ReadFile]:
    async def run(project: str, asked: ReadFile) -> Answer:
        excerpt = await files.read(project, file_parts_of(asked.path), asked.offset, asked.max_bytes)
        return _read(asked.path, excerpt)

    return Builtin(READ_FILE, ReadFile, run)


def write_file_tool(files: ProjectFiles) -> Builtin[WriteFile]:
    async def run(project: str, asked: WriteFile) -> Answer:
        data = _bytes_of(asked)
        replaced = await files.write(project, file_parts_of(asked.path), data, replace=asked.overwrite)
        done = "replaced" if replaced else "created"
        return Answer(
            f"{asked.path} {done}: {len(data)} bytes", {"path": asked.path, "size_bytes": len(data), "outcome": done}
        )

    return Builtin(WRITE_FILE, WriteFile, run)


def list_files_tool(files: ProjectFiles) -> Builtin[ListFiles]:
    async def run(project: str, asked: ListFiles) -> Answer:
        found = await files.entries(project, parts_of(asked.path))
        later = tuple(entry for entry in found if asked.after is None or entry.name > asked.after)
        return _listed(later[:MAX_LISTED], more=len(later) > MAX_LISTED)

    return Builtin(LIST_FILES, ListFiles, run)


def _read(path: str, excerpt: Excerpt) -> Answer:
    """The content once, as `text`; how to read it in `structured`."""
    text = _text_of(excerpt)
    taken = len(excerpt.data) if text is None else len(text.encode())
    end = excerpt.offset + taken
    about: dict[str, JsonValue] = {
        "path": path,
        "encoding": "base64" if text is None else "utf-8",
        "size_bytes": excerpt.size_bytes,
        "offset": excerpt.offset,
        "next_offset": end if end < excerpt.size_bytes and taken else None,
    }
    return Answer(base64.b64encode(excerpt.data).decode() if text is None else text, about)


def _text_of(excerpt: Excerpt) -> str | None:
    """Text without controls that text has no use for; a character that the end cuts is left for the next excerpt."""
    at_end = excerpt.offset + len(excerpt.data) >= excerpt.size_bytes
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(excerpt.data, final=at_end)
    except UnicodeDecodeError:
        return None
    odd = any(char < " " and char not in _PLAIN_CONTROLS for char in text)
    return None if odd or (excerpt.data and not text) else text


def _bytes_of(asked: WriteFile) -> bytes:
    try:
        if asked.encoding == "base64":
            return base64.b64decode(asked.content, validate=True)
        return asked.content.encode()
    except (binascii.Error, ValueError) as error:
        raise ArgumentsInvalidError(f"is not {asked.encoding}: {error}", "$.content") from None


def _listed(entries: tuple[Entry, ...], *, more: bool) -> Answer:
    lines = [_line(entry) for entry in entries]
    structured: dict[str, JsonValue] = {
        "entries": [{"name": one.name, "kind": one.kind.value, "size_bytes": one.size_bytes} for one in entries],
        "next": entries[-1].name if more else None,
    }
    if more:
        lines.append(f"There are more, after {entries[-1].name!r}.")
    return Answer("\n".join(lines) or "Nothing is here yet.", structured)


def _line(entry: Entry) -> str:
    if entry.kind is EntryKind.FILE:
        return f"{entry.name} ({entry.size_bytes} bytes)"
    return f"{entry.name}/" if entry.kind is EntryKind.FOLDER else f"{entry.name} (no file: cannot be read)"
