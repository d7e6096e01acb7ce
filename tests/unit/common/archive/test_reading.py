"""Reading archives: what is accepted, what is refused and as which case."""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.common.archive import (
    ArchiveCode,
    ArchiveError,
    ArchiveLimits,
    open_archive,
)
from skillbus.common.archive.errors import CorruptError, TooLargeError

REGULAR = stat.S_IFREG | 0o644
SMALL = ArchiveLimits(archive_bytes=4096, total_bytes=3000, file_bytes=2000, entries=5, ratio_from_bytes=1 << 30)


def zipped(*entries: tuple[str, bytes], mode: int = REGULAR, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as target:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.filename = name
            info.create_system, info.external_attr, info.compress_type = 3, mode << 16, method
            target.writestr(info, content)
    return buffer.getvalue()


def raw_zip(
    *entries: tuple[bytes, bytes],
    flags: int = 0,
    method: int = 0,
    mode: int = REGULAR,
    local_name: bytes | None = None,
    declared: int | None = None,
    offsets: tuple[int, ...] | None = None,
    claimed: int | None = None,
    crc: int | None = None,
    local_sizes: bool = True,
) -> bytes:
    """A zip written by hand, so that it can lie."""
    body, directory = b"", b""
    for number, (name, content) in enumerate(entries):
        packed = zlib.compress(content, 9)[2:-4] if method == 8 else content
        size = len(content) if declared is None else declared
        checksum = zlib.crc32(content) if crc is None else crc
        offset = len(body) if offsets is None else offsets[number]
        sizes = (checksum, len(packed), size) if local_sizes else (0, 0, 0)
        shown = name if local_name is None else local_name
        body += struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 0x21, *sizes, len(shown), 0) + shown + packed
        fields = (20 | 3 << 8, 20, flags, method, 0, 0x21, checksum, len(packed), size, len(name), 0, 0, 0, 0)
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", *fields, mode << 16, offset) + name
    count = len(entries) if claimed is None else claimed
    return body + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)


def refusal(data: bytes, limits: ArchiveLimits | None = None) -> str:
    """The code that opening, or else reading, ends in; "" if all is well."""
    try:
        archive = open_archive(data, limits)
        for entry in archive.files:
            archive.read_file(entry.path)
    except ArchiveError as error:
        return error.code.value
    return ""


def test_files_come_back_as_they_were_packed() -> None:
    archive = open_archive(
        zipped(("skill/SKILL.md", b"text"), ("skill/scripts/运行.py", b"x" * 70_000), method=zipfile.ZIP_STORED)
    )

    assert [entry.path for entry in archive.files] == ["skill/SKILL.md", "skill/scripts/运行.py"]
    assert archive.read_file("skill/scripts/运行.py") == b"x" * 70_000


def test_an_empty_archive_has_no_entries() -> None:
    assert open_archive(zipped()).entries == ()


def test_a_stream_is_read_no_further_than_the_limit() -> None:
    stream = io.BytesIO(b"PK\3\4" + b"\0" * 10_000)

    with pytest.raises(TooLargeError):
        open_archive(stream, SMALL)

    assert stream.tell() == SMALL.archive_bytes + 1


def test_junk_of_macos_is_left_out() -> None:
    archive = open_archive(zipped(("a/SKILL.md", b"x"), ("__MACOSX/a/._SKILL.md", b"y"), ("a/.DS_Store", b"z")))

    assert [entry.path for entry in archive.entries] == ["a/SKILL.md"]


def test_junk_of_macos_is_still_held_to_the_rules() -> None:
    assert refusal(zipped(("__MACOSX/../../evil", b"x"))) == "unsafe_path"


def test_a_leading_dot_slash_is_the_root() -> None:
    assert [entry.path for entry in open_archive(zipped(("./", b""), ("./SKILL.md", b"x"))).entries] == ["SKILL.md"]


@pytest.mark.parametrize(
    "name",
    [
        "../evil.txt",
        "a/../../evil.txt",
        "a/..",
        "/etc/passwd",
        "//server/share",
        "C:/evil.txt",
        "c:evil.txt",
        "a\\b.txt",
        "..\\evil.txt",
        "a//b",
        "a/./b",
        "a\nb",
        "a\x1bb",
        "a\x7fb",
        "safe\u202etxt.exe",
        "a\u200bb",
        "\u2066a",
        "a/．．/b",
        "a/‥/b",
        "a／b",
        "con",
        "a/NUL.txt",
        "aux .md",
        "lpt1.log",
        "COM¹",
        "file.txt:stream",
        "trailing.",
        "...",
        "trailing ",
        "a /b",
        "x" * 129,
        "/".join("abcdefghijklm"),
        "/".join(["x" * 100] * 3),
        "字" * 43,
    ],
)
def test_a_name_that_is_unsafe_somewhere_is_refused(name: str) -> None:
    assert refusal(zipped((name, b"x"))) == "unsafe_path"


@pytest.mark.parametrize(
    "name",
    ["a.b.c", ".hidden", "..data", "-rf", "~", "名：前.md", "a b", "console.py", "nul_check.py", "é", "😀"],
)
def test_an_unusual_but_harmless_name_is_kept(name: str) -> None:
    assert refusal(zipped((name, b"x"))) == ""


def test_a_name_with_nul_is_refused_and_not_cut() -> None:
    assert refusal(raw_zip((b"SKILL.md\0.exe", b"x"))) == "unsafe_path"


def test_an_empty_name_is_refused() -> None:
    assert refusal(raw_zip((b"", b"x"))) == "unsafe_path"


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        (stat.S_IFLNK | 0o777, "symlink"),
        (stat.S_IFIFO | 0o644, "special_file"),
        (stat.S_IFCHR | 0o644, "special_file"),
        (stat.S_IFBLK | 0o644, "special_file"),
        (stat.S_IFSOCK | 0o644, "special_file"),
        (stat.S_IFDIR | 0o755, "corrupt"),
        (0, ""),
    ],
)
def test_only_regular_files_are_accepted(mode: int, code: str) -> None:
    assert refusal(zipped(("a", b"/etc/passwd"), mode=mode)) == code


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a.txt", "a.txt"),
        ("a.txt", "A.TXT"),
        ("straße", "STRASSE"),
        ("ﬁle", "file"),
        ("é", "e\u0301"),
        ("１", "1"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b", "A/c"),
        ("A", "a/b"),
        ("d/", "d/"),
        ("d/", "D/"),
        ("d", "d/"),
    ],
)
def test_names_that_are_one_on_some_file_system_are_refused(first: str, second: str) -> None:
    data = raw_zip((first.encode(), b""), (second.encode(), b""), flags=0x800, mode=0)

    assert refusal(data) == "duplicate_entry"


def test_a_folder_may_be_listed_before_and_after_its_files() -> None:
    assert refusal(raw_zip((b"a/b", b"x"), (b"a/", b""), (b"a/c", b"y"), mode=0)) == ""


def test_a_folder_that_holds_data_is_refused() -> None:
    assert refusal(raw_zip((b"a/", b"data"), mode=0)) == "corrupt"


@pytest.mark.parametrize(
    ("name", "flags", "code"),
    [("名.md".encode(), 0x800, ""), ("名.md".encode(), 0, "encoding"), ("名.md".encode("gbk"), 0x800, "encoding")],
)
def test_a_name_beyond_ascii_must_be_declared_utf8(name: bytes, flags: int, code: str) -> None:
    assert refusal(raw_zip((name, b"x"), flags=flags)) == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (raw_zip((b"a", b"x"), flags=1), "encrypted"),
        (raw_zip((b"a", b"x"), flags=0x41), "encrypted"),
        (raw_zip((b"a", b"x"), flags=0x2000), "encrypted"),
        (raw_zip((b"a", b"x"), method=99), "encrypted"),
        (raw_zip((b"a", b"x"), method=14), "unsupported"),
        (raw_zip((b"a", b"x"), flags=0x20), "unsupported"),
        (zipped(("a", b"x" * 100), method=zipfile.ZIP_BZIP2), "unsupported"),
        (zipped(("a", b"x" * 100), method=zipfile.ZIP_LZMA), "unsupported"),
    ],
)
def test_what_packages_do_not_need_is_refused(data: bytes, code: str) -> None:
    assert refusal(data) == code


@pytest.mark.parametrize(
    ("data", "limits", "code"),
    [
        (zipped(*((f"f{n}", b"") for n in range(6))), SMALL, "too_large"),
        (zipped(*((f"f{n}", b"") for n in range(5))), SMALL, ""),
        (zipped(("a", b"x" * 2001)), SMALL, "too_large"),
        (zipped(("a", b"x" * 1501), ("b", b"x" * 1500)), SMALL, "too_large"),
        (zipped(("a", b"x" * 1500), ("b", b"x" * 1500)), SMALL, ""),
        (zipped(("a", bytes(1 << 20))), None, "too_large"),
        (zipped(("a", bytes(64 * 1024))), None, ""),
        (zipped(("a", bytes(11 << 20)), method=zipfile.ZIP_STORED), None, "too_large"),
        (zipped(*((f"f{n}", b"") for n in range(2001))), None, "too_large"),
    ],
    ids=["entries", "entries-ok", "file", "total", "total-ok", "ratio", "ratio-small", "file-10M", "entries-2001"],
)
def test_limits_hold_before_anything_is_inflated(data: bytes, limits: ArchiveLimits | None, code: str) -> None:
    assert refusal(data, limits) == code


def test_a_name_exempt_from_the_ratio_keeps_the_other_limits() -> None:
    limits = ArchiveLimits(ratio_exempt=frozenset({"skill.md"}))

    assert refusal(zipped(("a/SKILL.md", bytes(1 << 20))), limits) == ""
    assert refusal(zipped(("a/SKILL.md", bytes(11 << 20))), limits) == "too_large"


def test_a_claimed_count_over_the_limit_is_refused_before_the_directory_is_parsed() -> None:
    assert refusal(raw_zip((b"a", b"x"), claimed=60_000)) == "too_large"
    assert refusal(raw_zip((b"a", b"x"), claimed=0xFFFF)) == "too_large"


@pytest.mark.parametrize("claimed", [0, 1, 3])
def test_a_claimed_count_that_lies_is_refused(claimed: int) -> None:
    assert refusal(raw_zip((b"a", b"x"), (b"b", b"y"), claimed=claimed)) == "not_a_zip"


def test_a_file_that_inflates_to_more_than_declared_stops_there() -> None:
    archive = open_archive(raw_zip((b"a", bytes(1 << 22)), method=8, declared=60_000))

    with pytest.raises(TooLargeError):
        archive.read_file("a")


@pytest.mark.parametrize(
    "data",
    [
        raw_zip((b"a", b"some text"), method=8, declared=50),
        raw_zip((b"a", b"some text"), declared=50),
        raw_zip((b"a", b"some text"), crc=1),
        raw_zip((b"a", b"some text"), local_name=b"b"),
        raw_zip((b"a", b"some text"), local_sizes=False),
        raw_zip((b"a", b"x"), (b"b", b"y"), offsets=(0, 5)),
        zipped(("a", b"some text" * 50)).replace(zlib.compress(b"some text" * 50)[2:-4][:6], b"\xff" * 6),
    ],
    ids=["short", "stored-sizes", "crc", "local-name", "local-sizes", "offset", "deflate"],
)
def test_an_archive_that_contradicts_itself_is_corrupt(data: bytes) -> None:
    assert refusal(data) == "corrupt"


def test_entries_that_share_bytes_are_refused() -> None:
    kernel = raw_zip((b"a", b"x" * 100))
    inner = raw_zip((b"b", b"y" * 10))
    quoted = raw_zip((b"a", inner[:41]), (b"b", b"y" * 10), offsets=(0, 31))

    assert refusal(kernel) == ""
    assert refusal(quoted) == "overlap"


def test_two_names_for_the_same_data_are_refused() -> None:
    assert refusal(raw_zip((b"a", b"x"), (b"a", b"x"), offsets=(0, 0))) == "duplicate_entry"


def test_sizes_may_follow_the_data() -> None:
    assert refusal(raw_zip((b"a", b"text"), flags=8, local_sizes=False)) == ""


def test_a_streaming_writer_is_understood() -> None:
    class Unseekable(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError("a pipe")

    buffer = Unseekable()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        with target.open("a", "w", force_zip64=True) as file:
            file.write(b"streamed")
        target.writestr("b", b"too")

    assert open_archive(buffer.getvalue()).read_file("a") == b"streamed"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: b"PK",
        lambda data: b"just text, no zip at all, but long enough to be one",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[40:],
        lambda data: b"#!/bin/sh\nexit\n" + data,
        lambda data: data + b"trailing",
        lambda data: data + data,
        lambda data: data.replace(b"PK\x01\x02", b"PK\x09\x09"),
        lambda data: data[:-2] + struct.pack("<H", 22) + zipped(),
        lambda data: b"\x1f\x8b\x08" + data,
    ],
)
def test_what_is_not_exactly_one_zip_is_refused(change: Callable[[bytes], bytes]) -> None:
    assert refusal(change(zipped(("a", b"x" * 50), ("b", b"y")))) == "not_a_zip"


def test_an_archive_with_a_second_end_record_in_its_comment_is_refused() -> None:
    """One reader would find the file, another one an empty archive."""
    whole = zipped(("a", b"text"))
    hidden_end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, len(whole), 0)
    two_ends = whole[:-2] + struct.pack("<H", len(hidden_end)) + hidden_end
    with pytest.raises(ArchiveError) as refused:
        open_archive(two_ends)
    assert refused.value.code is ArchiveCode.NOT_A_ZIP


def test_a_comment_is_harmless() -> None:
    data = zipped(("a", b"x"))

    assert refusal(data[:-2] + struct.pack("<H", 5) + b"hello") == ""


def test_zip64_is_refused() -> None:
    data = bytearray(zipped(("a", b"x")))
    data[-6:-2] = b"\xff\xff\xff\xff"

    assert refusal(bytes(data)) == "unsupported"


def test_a_split_archive_is_refused() -> None:
    data = bytearray(zipped(("a", b"x")))
    data[-18:-16] = b"\x01\x00"

    assert refusal(bytes(data)) == "unsupported"


def test_an_archive_in_an_archive_stays_a_file() -> None:
    inner = zipped(("x", b"y"))

    assert open_archive(zipped(("inner.zip", inner), method=zipfile.ZIP_STORED)).read_file("inner.zip") == inner


def test_files_are_extracted_with_plain_modes(tmp_path: Path) -> None:
    data = zipped(("s/run.sh", b"#!/bin/sh\n"), mode=stat.S_IFREG | 0o6777)

    written = open_archive(data).extract_to(tmp_path, strip_prefix="s/")

    assert written == ("run.sh",)
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o755


def test_only_what_is_under_the_prefix_and_not_skipped_is_extracted(tmp_path: Path) -> None:
    data = zipped(("s/a", b"1"), ("s/d/b", b"2"), ("t/c", b"3"), ("s/.mark", b"4"))

    open_archive(data).extract_to(tmp_path, strip_prefix="s/", skip={".mark"})

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["a", "d", "d/b"]


def test_extracting_never_overwrites_or_follows_a_link(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (inside / "d").symlink_to(outside)
    (inside / "f").symlink_to(outside / "f")

    for name in ("d/x", "f"):
        with pytest.raises(OSError, match="exist"):
            open_archive(zipped((name, b"x"))).extract_to(inside)

    assert list(outside.iterdir()) == []


def test_extracting_damaged_data_says_so(tmp_path: Path) -> None:
    with pytest.raises(CorruptError) as caught:
        open_archive(raw_zip((b"a", b"text"), crc=7)).extract_to(tmp_path)

    assert (caught.value.code, caught.value.entry) == (ArchiveCode.CORRUPT, "a")


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused_and_nothing_else(data: bytes) -> None:
    assert refusal(data) == "not_a_zip"


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_archive_is_read_right_or_refused(changes: list[tuple[int, int]]) -> None:
    contents = {"skill/SKILL.md": b"---\nname: x\n---\n" * 5, "skill/run.py": b"print(1)\n"}
    data = bytearray(zipped(*contents.items()))
    for position, value in changes:
        data[position % len(data)] = value
    try:
        archive = open_archive(bytes(data))
        read = {entry.path: archive.read_file(entry.path) for entry in archive.files}
    except ArchiveError:
        return
    assert all(content in contents.values() for content in read.values() if content)
