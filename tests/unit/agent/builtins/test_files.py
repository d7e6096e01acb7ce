"""The tools `read_file`, `write_file` and `list_files`, and the folder that nothing leads out of."""

import asyncio
import base64
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from skillbus.agent.adapters.disk_files import ABANDONED_S, INCOMING, DiskFiles, FileQuota
from skillbus.agent.domain.builtins.files import (
    MAX_LISTED,
    MAX_READ_BYTES,
    make_list_files_tool,
    make_read_file_tool,
    make_write_file_tool,
    parse_path,
)
from skillbus.agent.domain.builtins.tool import BuiltinTools
from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.agent.domain.tool_answer import ToolAnswer

SECRET = "the neighbour's secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data" / "files"


@pytest.fixture
def tools(root: Path) -> BuiltinTools:
    return tools_on(DiskFiles(root, FileQuota()))


def tools_on(files: DiskFiles) -> BuiltinTools:
    return BuiltinTools([make_read_file_tool(files), make_write_file_tool(files), make_list_files_tool(files)])


async def write(tools: BuiltinTools, path: str, content: str, **more: JsonValue) -> ToolAnswer:
    return await tools.get_tool("write_file").call("default", {"path": path, "content": content, **more})


async def read(tools: BuiltinTools, path: str, **more: JsonValue) -> ToolAnswer:
    return await tools.get_tool("read_file").call("default", {"path": path, **more})


async def listed(tools: BuiltinTools, path: str = "", project: str = "default") -> list[JsonValue]:
    answer = await tools.get_tool("list_files").call(project, {"path": path})
    assert isinstance(answer.structured, dict), answer.text
    entries = answer.structured["entries"]
    assert isinstance(entries, list)
    return [entry["name"] for entry in entries if isinstance(entry, dict)]


def about(answer: ToolAnswer, key: str) -> JsonValue:
    assert isinstance(answer.structured, dict), answer.text
    return answer.structured[key]


@pytest.mark.spec("tool-system.md § 内置工具 FileRead")
async def test_what_is_written_is_read_and_listed(tools: BuiltinTools) -> None:
    written = await write(tools, "笔记/今天.md", "# 今天\n买菜\n")
    assert written.structured == {"path": "笔记/今天.md", "size_bytes": 16, "outcome": "created"}
    assert (await read(tools, "笔记/今天.md")).text == "# 今天\n买菜\n"
    assert await listed(tools) == ["笔记"]
    assert (await tools.get_tool("list_files").call("default", {"path": "笔记"})).text == "今天.md (16 bytes)"


@pytest.mark.spec("tool-system.md § 内置工具 FileWrite")
async def test_a_file_is_replaced_whole(tools: BuiltinTools) -> None:
    await write(tools, "a.txt", "a long content")
    assert about(await write(tools, "./a.txt", "short"), "outcome") == "replaced"
    assert (await read(tools, "a.txt")).text == "short"


async def test_a_file_that_is_not_to_be_replaced_stays(tools: BuiltinTools) -> None:
    await write(tools, "a.txt", "first")
    refused = await write(tools, "a.txt", "second", overwrite=False)
    assert refused.is_error
    assert (await read(tools, "a.txt")).text == "first"


async def test_a_project_sees_nothing_of_another(tools: BuiltinTools) -> None:
    await write(tools, "a.txt", "mine")
    assert await listed(tools, project="other") == []
    answer = await tools.get_tool("read_file").call("other", {"path": "a.txt"})
    assert answer.is_error


async def test_bytes_that_are_no_text_travel_as_base64(tools: BuiltinTools) -> None:
    data = bytes(range(256))
    await write(tools, "a.bin", base64.b64encode(data).decode(), encoding="base64")
    answer = await read(tools, "a.bin")
    assert about(answer, "encoding") == "base64"
    assert base64.b64decode(answer.text) == data


async def test_a_large_file_is_read_in_parts_that_cut_no_character(tools: BuiltinTools) -> None:
    content = "汉字和 letters。" * 500
    await write(tools, "large.txt", content)
    parts, offset = [], 0
    while True:
        answer = await read(tools, "large.txt", offset=offset, max_bytes=1_000)
        assert about(answer, "encoding") == "utf-8"
        parts.append(answer.text)
        after = about(answer, "next_offset")
        if after is None:
            break
        assert isinstance(after, int)
        offset = after
    assert "".join(parts) == content


async def test_a_folder_of_many_files_is_listed_in_pages(root: Path, tools: BuiltinTools) -> None:
    folder = root / "default"
    folder.mkdir(parents=True)
    for number in range(MAX_LISTED + 2):
        (folder / f"{number:04}").touch()
    first = await tools.get_tool("list_files").call("default", {})
    second = await tools.get_tool("list_files").call("default", {"after": about(first, "next")})
    assert len(await listed(tools)) == MAX_LISTED
    assert second.text == f"{MAX_LISTED:04} (0 bytes)\n{MAX_LISTED + 1:04} (0 bytes)"


@pytest.mark.parametrize("name", ["cafe\u0301.txt", "a b.txt", "-rf", "~", "*.md", "'; ls", "..."])
async def test_a_file_that_was_put_there_by_hand_is_listed_and_read(tools: BuiltinTools, root: Path, name: str) -> None:
    (root / "default").mkdir(parents=True)
    (root / "default" / name).write_text("here")
    assert await listed(tools) == [name]
    assert (await read(tools, name)).text == "here"


async def test_a_name_that_is_no_utf_8_is_listed_as_what_cannot_be_read(tools: BuiltinTools, root: Path) -> None:
    (root / "default").mkdir(parents=True)
    (root / "default" / os.fsdecode(b"\xff.txt")).write_text("here")
    answer = await tools.get_tool("list_files").call("default", {})
    assert answer.text == "\ufffd.txt (no file: cannot be read)"
    answer.text.encode()


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "//etc/passwd",
        "..",
        "a/..",
        "..\\secret",
        "C:\\Windows",
        "a\0b",
        "a\nb",
        "x" * 256,
        "/".join("a" * 17),
        "",
        ".",
        "folder/",
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "write_file"])
async def test_a_path_that_leads_elsewhere_is_an_invalid_argument(
    tools: BuiltinTools, root: Path, tool: str, path: str
) -> None:
    root.mkdir(parents=True)
    (root.parent / "secret").write_text(SECRET)
    arguments: dict[str, JsonValue] = {"path": path}
    if tool == "write_file":
        arguments["content"] = "x"
    with pytest.raises(ArgumentsInvalidError) as refused:
        await tools.get_tool(tool).call("default", arguments)
    assert refused.value.path == "$.path"
    assert (root.parent / "secret").read_text() == SECRET


@pytest.fixture
def neighbour(root: Path) -> Path:
    """A file outside, and links to it from a project."""
    project = root / "default"
    project.mkdir(parents=True)
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (project / "link.txt").symlink_to(outside / "secret.txt")
    (project / "folder").symlink_to(outside)
    (project / "up").symlink_to("..")
    return outside / "secret.txt"


@pytest.mark.parametrize("path", ["link.txt", "folder/secret.txt", "up/other/secret.txt"])
async def test_no_link_is_followed(tools: BuiltinTools, neighbour: Path, path: str) -> None:
    refused = [await read(tools, path), await write(tools, path, "overwritten")]
    assert [answer.is_error for answer in refused] == [True, True]
    assert neighbour.read_text() == SECRET
    assert not any(SECRET in answer.text or str(neighbour.parent) in answer.text for answer in refused)


@pytest.mark.parametrize("path", ["folder", "up"])
async def test_a_folder_behind_a_link_is_not_listed(tools: BuiltinTools, neighbour: Path, path: str) -> None:
    assert (await tools.get_tool("list_files").call("default", {"path": path})).is_error
    assert await listed(tools) == ["folder", "link.txt", "up"]


async def test_a_folder_that_is_exchanged_for_a_link_all_the_time_gives_nothing_away(
    tools: BuiltinTools, root: Path, neighbour: Path
) -> None:
    project = root / "default"
    (project / "real").mkdir()
    (project / "real" / "secret.txt").write_text("harmless")
    stop = False

    def exchange() -> None:
        while not stop:
            (project / "real").rename(project / "aside")
            (project / "folder").rename(project / "real")
            (project / "real").rename(project / "folder")
            (project / "aside").rename(project / "real")

    attacker = asyncio.create_task(asyncio.to_thread(exchange))
    try:
        answers = [await read(tools, "real/secret.txt") for _ in range(200)]
    finally:
        stop = True
        await attacker
    assert all(answer.is_error or answer.text == "harmless" for answer in answers)


async def test_what_is_no_plain_file_is_not_opened(tools: BuiltinTools, root: Path) -> None:
    project = root / "default"
    (project / "folder").mkdir(parents=True)
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(project / "socket"))
        for name in ("pipe", "socket", "folder"):
            async with asyncio.timeout(2):
                assert (await read(tools, name)).is_error, name
                assert (await write(tools, name, "x")).is_error, name


async def test_a_file_is_no_folder(tools: BuiltinTools) -> None:
    await write(tools, "a.txt", "x")
    assert (await write(tools, "a.txt/b.txt", "x")).is_error
    assert (await tools.get_tool("list_files").call("default", {"path": "a.txt"})).is_error


async def test_what_is_not_there_is_said_and_not_invented(tools: BuiltinTools) -> None:
    assert (await read(tools, "missing.txt")).is_error
    assert (await tools.get_tool("list_files").call("default", {"path": "missing"})).is_error
    assert (await tools.get_tool("list_files").call("default", {})).text == "Nothing is here yet."


async def test_a_project_keeps_no_more_than_it_may(root: Path) -> None:
    tools = tools_on(DiskFiles(root, FileQuota(total_bytes=100, entries=3)))
    assert not (await write(tools, "a", "x" * 60)).is_error
    assert (await write(tools, "b", "x" * 60)).is_error
    assert not (await write(tools, "a", "x" * 90)).is_error
    assert not (await write(tools, "c/d", "")).is_error
    assert (await write(tools, "e", "")).is_error
    assert await listed(tools) == ["a", "c"]


async def test_a_write_that_is_refused_leaves_no_folders(root: Path) -> None:
    tools = tools_on(DiskFiles(root, FileQuota(total_bytes=10, entries=5)))
    assert (await write(tools, "a/b/c/d", "x" * 11)).is_error
    assert (await write(tools, "1/2/3/4/5/6", "x")).is_error
    assert await listed(tools) == []


async def test_a_write_leaves_nothing_beside_its_file(tools: BuiltinTools, root: Path) -> None:
    await write(tools, "a.txt", "x")
    assert list((root / INCOMING).iterdir()) == []
    assert [path.name for path in (root / "default").iterdir()] == ["a.txt"]


async def test_what_a_writer_left_that_died_goes_after_a_while(tools: BuiltinTools, root: Path) -> None:
    (root / INCOMING).mkdir(parents=True)
    for name, age_s in (("old", ABANDONED_S + 60), ("young", 60)):
        file = root / INCOMING / name
        file.touch()
        os.utime(file, (file.stat().st_mtime - age_s,) * 2)
    await write(tools, "a.txt", "x")
    assert [path.name for path in (root / INCOMING).iterdir()] == ["young"]


async def test_a_reader_sees_the_old_file_or_the_new_one(tools: BuiltinTools) -> None:
    old, new = "a" * 50_000, "b" * 50_000
    await write(tools, "a.txt", old)

    async def alternate() -> None:
        for round_ in range(20):
            await write(tools, "a.txt", new if round_ % 2 else old)

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(alternate())
        while not writing.done():
            assert (await read(tools, "a.txt")).text in (old, new)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"path": "a", "content": "no base64!", "encoding": "base64"}, "$.content"),
        ({"path": "a", "content": "x", "encoding": "latin-1"}, "$.encoding"),
        ({"path": "a", "content": "x" * 400_001}, "$.content"),
        ({"path": "a"}, "$.content"),
        ({"path": 5, "content": ""}, "$.path"),
        ({"path": "a", "content": "x", "mode": "0777"}, "$.mode"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_their_place(
    tools: BuiltinTools, arguments: dict[str, JsonValue], path: str
) -> None:
    with pytest.raises(ArgumentsInvalidError) as refused:
        await tools.get_tool("write_file").call("default", arguments)
    assert refused.value.path == path


async def test_no_more_is_read_than_a_message_holds(tools: BuiltinTools) -> None:
    with pytest.raises(ArgumentsInvalidError):
        await read(tools, "a.txt", max_bytes=MAX_READ_BYTES + 1)


async def test_beyond_the_end_there_is_nothing(tools: BuiltinTools) -> None:
    await write(tools, "a.txt", "abc")
    answer = await read(tools, "a.txt", offset=10)
    assert (answer.text, about(answer, "next_offset"), about(answer, "size_bytes")) == ("", None, 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.binary(max_size=300))
async def test_any_bytes_come_back_as_they_were(tools: BuiltinTools, data: bytes) -> None:
    await write(tools, "any", base64.b64encode(data).decode(), encoding="base64")
    answer = await read(tools, "any")
    came = base64.b64decode(answer.text) if about(answer, "encoding") == "base64" else answer.text.encode()
    assert came == data


@given(st.text(max_size=60) | st.text(alphabet="./\\a~", max_size=30))
def test_the_parts_of_any_path_lead_down(path: str) -> None:
    try:
        parts = parse_path(path)
    except ArgumentsInvalidError:
        return
    assert all(part not in {"", ".", ".."} and "/" not in part and "\0" not in part for part in parts)
