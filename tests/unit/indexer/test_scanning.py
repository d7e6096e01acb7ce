"""What a look at the files of a package finds, and how much of it is kept."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from skillbus.common.archive import PackedFile, pack_files
from skillbus.contracts.indexer.skill_record import SkillScan
from skillbus.indexer.domain.catalogue.skill import SkillRecord, build_record
from skillbus.indexer.domain.package.skill_package import SkillPackage, open_package

_MESSAGE_BYTES = 1024 * 1024
_LONGEST_PATH = "x" * 115 + "/" + "y" * 115
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def package_of(files: Mapping[str, bytes], description: str = "Does something.") -> SkillPackage:
    skill_md = f"---\nname: some\ndescription: {description}\n---\n".encode()
    packed = pack_files([PackedFile("SKILL.md", skill_md), *(PackedFile(*file) for file in files.items())])
    return open_package(packed)[1]


def scan(files: Mapping[str, bytes]) -> SkillScan:
    return package_of(files).scan


def test_files_and_bytes_are_counted() -> None:
    found = scan({"a.txt": b"12345", "b/c.py": b"print(1)\n"})
    assert (found.files, found.scripts) == (3, ("b/c.py",))
    assert found.unpacked_bytes == package_of({}).skill_md_bytes + 5 + 9


def test_modules_and_tests_of_a_skill_are_looked_into_as_its_scripts_are() -> None:
    files = {
        "lib/__init__.py": b"import httpx\n",
        "node_modules/a/index.js": b"fetch(x)",
        "run": b"#!/bin/sh\ncurl x\n",
    }
    assert [(wish.file, wish.line) for wish in scan(files).network] == [
        ("lib/__init__.py", 1),
        ("node_modules/a/index.js", 1),
        ("run", 2),
    ]


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (b"\x7fELF\x02\x01", True),
        (b"MZ\x90\x00\x03", True),
        (b"\xcf\xfa\xed\xfe\x07", True),
        (b"\0asm\x01", True),
        (b"MZ is the beginning of a text", False),
        (b"#!/bin/sh\n", False),
        (b"", False),
    ],
)
def test_executables_are_told_by_their_first_bytes(data: bytes, is_one: bool) -> None:
    assert scan({"data.txt": data}).executables == (("data.txt",) if is_one else ())


def test_a_script_that_is_too_large_to_be_looked_into_is_told() -> None:
    found = scan({"large.py": b"import requests\n" * 20_000, "small.py": b"import requests\n"})
    assert (found.unread, [wish.file for wish in found.network]) == (("large.py",), ["small.py"])


def test_scripts_that_are_too_much_together_are_told() -> None:
    found = scan({f"{number}.sh": b"#" * 250_000 for number in range(6)})
    assert found.unread == ("4.sh", "5.sh")


def test_a_record_with_all_that_can_be_found_and_a_full_history_fits_a_message() -> None:
    files = {f"{_LONGEST_PATH}{number:04}.py": b"import requests\n" for number in range(150)}
    files |= {f"{_LONGEST_PATH}{number:04}.bin": b"\x7fELF" for number in range(150)}
    files |= {f"{_LONGEST_PATH}{number:04}.js": b"require('http/" + b"x" * 1_000 + b"')" for number in range(150)}
    files["large.sh"] = b"#" * 300_000
    record: SkillRecord | None = None
    for number in range(25):
        package = package_of(files, "\u6f22" * 5_000 + str(number))
        record = build_record("default", package, f"{number:064}", "updated", _NOW, record)
    assert record is not None
    assert record.skill.scan is not None
    assert [len(found) for found in (record.skill.scan.scripts, record.skill.scan.network)] == [100, 100]
    without = record.skill.model_copy(update={"scan": None}).model_dump_json().encode()
    assert len(record.model_dump_json().encode()) - len(without) < _MESSAGE_BYTES * 0.2
