"""Files of a job: archives, encodings, long lines and recognition of formats."""

import gzip
import io
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.learning.sources.file_format import FileFormat, UnknownFormatError, recognize_format
from skillbus.learning.sources.source_file import READ_ERRORS, list_source_files
from skillbus.learning.sources.text_lines import LINE_CHARACTERS, read_lines


def _read(content: bytes) -> list[str]:
    return list(read_lines(io.BytesIO(content)))


def _pack(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_members_of_an_archive_are_files_of_their_own(tmp_path: Path) -> None:
    path = _pack(tmp_path / "logs.zip", {"a/app.log": b"one\ntwo", "b.log.gz": gzip.compress(b"three")})

    found = [(file.name, file.read_start(100)) for file in list_source_files("logs.zip", path)]

    assert found == [("logs.zip!a/app.log", b"one\ntwo"), ("logs.zip!b.log.gz", b"three")]


def test_the_list_of_an_archive_is_read_once_for_all_its_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _pack(tmp_path / "logs.zip", {f"{number}.log": b"one" for number in range(20)})
    opened: list[object] = []

    class CountedZip(zipfile.ZipFile):
        def __init__(self, file: Path) -> None:
            opened.append(file)
            super().__init__(file)

    monkeypatch.setattr(zipfile, "ZipFile", CountedZip)

    assert [file.read_start(9) for file in list_source_files("logs.zip", path)] == [b"one"] * 20
    assert opened == [path]


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
@given(place=st.integers(0, 1_000), byte=st.integers(0, 255))
def test_a_damaged_archive_raises_an_error_of_reading(
    tmp_path_factory: pytest.TempPathFactory, method: int, place: int, byte: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"damaged-{method}.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("ä.log", b"one line\n" * 100)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    with suppress(*READ_ERRORS):
        for file in list_source_files("damaged.zip", path):
            file.read_start(10_000)


def test_a_compressed_file_is_read_as_its_content(tmp_path: Path) -> None:
    path = tmp_path / "app.log.gz"
    path.write_bytes(gzip.compress(b"line\n" * 100_000))
    (file,) = list_source_files("app.log.gz", path)
    with file.open() as stream:
        assert sum(1 for _ in read_lines(stream)) == 100_000


@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_a_damaged_compressed_file_raises_a_read_error(tmp_path: Path, damage: str) -> None:
    packed = gzip.compress(b"line\n" * 10_000)
    path = tmp_path / "app.log.gz"
    path.write_bytes(packed[:-20] if damage == "cut" else packed[:10] + b"\xff" * 50)
    (file,) = list_source_files("app.log.gz", path)
    with pytest.raises(READ_ERRORS), file.open() as stream:
        list(read_lines(stream))


def test_a_damaged_archive_raises_a_read_error(tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    path.write_bytes(b"PK\x03\x04" + b"\0" * 100)
    with pytest.raises(READ_ERRORS):
        list(list_source_files("logs.zip", path))


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("失败 a\r\nb\n".encode(), ["失败 a", "b"]),
        ("连接失败".encode("gb18030"), ["连接失败"]),
        ("失败\n".encode() + "连接\n".encode("gb18030") + b"caf\xe9", ["失败", "连接", "café"]),
        ("失败\nb".encode("utf-16"), ["失败", "b"]),
        (b"\xef\xbb\xbfone", ["one"]),
        (b"", []),
    ],
    ids=["UTF-8", "GB 18030", "mixed", "UTF-16", "BOM", "empty"],
)
def test_each_line_is_decoded_by_its_own_encoding(content: bytes, lines: list[str]) -> None:
    assert _read(content) == lines


def test_a_very_long_line_is_cut_and_the_next_one_is_whole() -> None:
    lines = _read(b"first\n" + b"x" * 3_000_000 + b"\nlast\n" + b"y" * 70_000)
    assert lines[0] == "first"
    assert lines[-2:] == ["last", "y" * LINE_CHARACTERS]
    assert [len(line) for line in lines[1:-2]] == [LINE_CHARACTERS]


@given(st.binary(max_size=400))
def test_any_bytes_are_as_many_lines_as_they_have_ends(content: bytes) -> None:
    assert len(_read(b"a" + content + b"\nlast")) == content.count(b"\n") + 2


@pytest.mark.parametrize(
    ("name", "start", "expected"),
    [
        ("app.log", "2026-01-01 INFO started", FileFormat.LOG),
        ("app.log.3", "2026-01-01 INFO started", FileFormat.LOG),
        ("app.json", '{"level": "info", "msg": "a"}\n{"level": "info", "msg": "b"}', FileFormat.LOG),
        ("calls.jsonl", '{"method": "GET", "path": "/a", "status": 200}\n{"method"', FileFormat.ACCESS_LOG),
        (
            "calls.jsonl",
            '{"request": {"method": "GET", "url": "/a"}, "response": {"status": 200}}',
            FileFormat.ACCESS_LOG,
        ),
        ("x.har", '\ufeff{ "log": {"version": "1.2", "entries": [', FileFormat.HAR),
        ("x.json", '{"log": {"entries": [{"request": {"url": "/a"}, "response": {"status": 200}}]}}', FileFormat.HAR),
        ("x.log", '{"log": {"level": "info"}, "url": "/a", "status": 200}', FileFormat.ACCESS_LOG),
        ("x.xml", '<?xml version="1.0"?><testsuites><testsuite', FileFormat.JUNIT),
        ("x.json", '{"created": 1.0, "exitcode": 1, "summary": {"total": 1}, "tests": [', FileFormat.PYTEST_JSON),
        ("runs.json", '[\n {\n "run": "run01", "commit": "a1"', FileFormat.RUN_LIST),
    ],
)
def test_a_format_is_recognized_by_its_content(name: str, start: str, expected: FileFormat) -> None:
    assert recognize_format(name, start.encode()) is expected


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.bin", b"\0\1\2"), ("notes.md", b"# Notes"), ("a.xml", b"<html></html>"), ("a.json", b'{"name": "x"}')],
)
def test_other_files_are_not_read(name: str, start: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        recognize_format(name, start)
