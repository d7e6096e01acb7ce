"""Packages: the archives recorded as malformed and as real, where SKILL.md is found, and what is installed."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.common.archive import PackedFile, pack_files
from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.indexer.domain.package.findings import PackageError
from skillbus.indexer.domain.package.skill_package import (
    SkillPackage,
    extract_package,
    open_folder,
    open_package,
    replace_description,
)

RECORDED = Path(__file__).parents[4] / "shared/data/skills"
SKILL = "---\nname: add\ndescription: Adds two numbers.\n---\n# Add\n"


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return buffer.getvalue()


def package_of(files: Mapping[str, str | bytes]) -> SkillPackage:
    return open_package(zipped(files))[1]


def refusal(data: bytes, staging: Path) -> str:
    """The code that checking and then extracting end in; "" if all is well."""
    try:
        archive, package = open_package(data)
        extract_package(archive, package, staging)
    except PackageError as error:
        return error.code
    return ""


def codes(package: SkillPackage) -> list[str]:
    return [warning.code for warning in package.warnings]


def recorded(name: str) -> list[dict[str, object]]:
    path = RECORDED / name
    return json.loads(path.read_text()) if path.exists() else []


needs_records = pytest.mark.skipif(not RECORDED.exists(), reason="the recorded archives are not beside this checkout")


@needs_records
@pytest.mark.parametrize("case", recorded("malformed/expected.json"), ids=lambda case: str(case["file"]))
def test_a_malformed_archive_gets_the_outcome_recorded_for_it(case: Mapping[str, object], tmp_path: Path) -> None:
    data = (RECORDED / "malformed" / str(case["file"])).read_bytes()
    code = str(case["code"]).lower()

    if case["expect"] == "reject":
        assert refusal(data, tmp_path) == code
        assert list(tmp_path.iterdir()) == []
        return
    archive, package = open_package(data)
    extract_package(archive, package, tmp_path)
    assert codes(package) == ([] if case["expect"] == "accept" else [code])
    assert package.skill.name != "outer"


@needs_records
@pytest.mark.parametrize("case", recorded("manifest.json"), ids=lambda case: str(case["file"]))
def test_a_real_skill_is_read_as_recorded(case: Mapping[str, object], tmp_path: Path) -> None:
    data = (RECORDED / str(case["file"])).read_bytes()

    archive, package = open_package(data)
    extract_package(archive, package, tmp_path)

    assert (package.skill.name, package.skill.description) == (case["name"], case["description"])
    assert (package.digest, package.package_bytes) == (case["sha256"], case["bytes_zip"])
    assert bool(package.prefix) == (case["layout"] == "top-dir")
    assert codes(package) == []
    assert isinstance(case["scripts"], list)
    runnable = {path for path in case["scripts"] if not path.endswith(("__init__.py", ".ts"))}
    assert {point.script for point in package.entry_points} == runnable
    assert all((tmp_path / file.path).stat().st_size == file.size_bytes for file in package.files)


def test_a_skill_may_lie_at_the_top_or_in_one_folder() -> None:
    flat, nested = package_of({"SKILL.md": SKILL}), package_of({"add/": "", "add/SKILL.md": SKILL})

    assert (flat.prefix, codes(flat), nested.prefix, codes(nested)) == ("", [], "add/", [])


def test_hashes_are_of_the_archive_and_of_the_skill_file() -> None:
    """skill-vector-retrieval.md § 首次索引Skills"""
    data = zipped({"SKILL.md": SKILL})

    _, package = open_package(data)

    digest = hashlib.sha256(SKILL.encode()).hexdigest()
    assert package.digest == hashlib.sha256(data).hexdigest()
    assert (package.skill_hash, package.skill_md_bytes) == (digest[:8], len(SKILL))


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "no_skill_md"),
        ({"README.md": "x"}, "no_skill_md"),
        ({"SKILL.md/": ""}, "no_skill_md"),
        ({"__MACOSX/SKILL.md": SKILL}, "no_skill_md"),
        ({"SKILL.md.txt": SKILL}, "no_skill_md"),
        ({"a/SKILL.md": SKILL, "b/SKILL.md": SKILL}, "several_skill_md"),
        ({"a/SKILL.md": SKILL, "b/c/SKILL.md": SKILL}, "several_skill_md"),
        ({"SKILL.md": SKILL, "skill.md": SKILL}, "duplicate_entry"),
        ({"SKILL.md": b"\xff\xfe"}, "encoding"),
        ({"SKILL.md": SKILL + "x" * (1 << 20)}, "too_large"),
        ({"SKILL.md": SKILL, "big": bytes(1 << 20)}, "too_large"),
        ({"SKILL.md": ""}, "bad_frontmatter"),
    ],
)
def test_what_is_not_one_skill_is_refused(files: Mapping[str, str | bytes], code: str, tmp_path: Path) -> None:
    assert refusal(zipped(files), tmp_path) == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "warnings"),
    [
        ({"skill.md": SKILL}, ["skill_md_lower_case"]),
        ({"x/y/add/SKILL.md": SKILL}, ["nested"]),
        ({"other/SKILL.md": SKILL}, ["name_mismatch"]),
        ({"add/SKILL.md": SKILL, "README.md": "x"}, ["files_outside"]),
        ({"SKILL.md": SKILL, ".vectorized": "{}"}, ["reserved_file"]),
        ({"SKILL.md": SKILL, "examples/one/SKILL.md": SKILL}, []),
    ],
)
def test_an_odd_place_is_told_and_forgiven(files: Mapping[str, str], warnings: list[str]) -> None:
    assert codes(package_of(files)) == warnings


def test_only_the_skills_own_files_are_extracted(tmp_path: Path) -> None:
    files = {"x/y/add/SKILL.md": SKILL, "x/y/add/run.py": "", "x/y/add/.vectorized": "{}", "x/other.txt": "no"}
    archive, package = open_package(zipped(files))

    extract_package(archive, package, tmp_path)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["SKILL.md", "run.py"]
    assert sorted(file.path for file in package.files) == ["SKILL.md", "run.py"]


def test_damaged_data_is_found_when_it_is_extracted(tmp_path: Path) -> None:
    data = zipped({"SKILL.md": SKILL})
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as target:
        target.writestr("notes.txt", "the original text")

    assert refusal(buffer.getvalue().replace(b"the original text", b"the changed! text"), tmp_path) == "corrupt"


def test_a_folder_is_the_same_package_as_long_as_its_files_are(tmp_path: Path) -> None:
    root = tmp_path / "add"
    (root / "scripts").mkdir(parents=True)
    (root / "SKILL.md").write_text(SKILL)
    (root / "scripts/main.py").write_text("print(1)")
    _, first = open_folder(root)

    (root / ".vectorized").write_text("{}")
    _, second = open_folder(root)
    (root / "scripts/main.py").write_text("print(2)")
    _, third = open_folder(root)

    assert (first.digest, codes(first), first.default_action) == (second.digest, [], "main")
    assert third.digest != first.digest


def test_a_new_description_makes_a_new_package_of_the_same_files() -> None:
    """tool-system.md § 修改：仅允许修改SKILL.md描述"""
    content = b"print(1)" * 50_000
    data = pack_files([PackedFile("add/SKILL.md", SKILL.encode()), PackedFile("add/run.py", content)])
    archive, package = open_package(data)

    changed, updated = open_package(replace_description(archive, package, "Sums: up."))

    assert (updated.skill.description, updated.skill.name, updated.prefix) == ("Sums: up.", "add", "")
    assert changed.read_file("run.py") == content
    assert [file.path for file in updated.files] == [file.path for file in package.files]
    assert updated.digest != package.digest


def test_a_folder_that_is_called_otherwise_is_told(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(SKILL)

    assert codes(open_folder(tmp_path)[1]) == ["name_mismatch"]


def test_a_folder_with_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").symlink_to("/etc/hostname")

    with pytest.raises(PackageError) as caught:
        open_folder(tmp_path)

    assert (caught.value.code, caught.value.errors[0].where) == ("symlink", "SKILL.md")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_package_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(zipped({"add/SKILL.md": SKILL, "add/main.py": "import argparse\n" * 3}))
    for position, value in changes:
        data[position % len(data)] = value
    errors: tuple[SkillFinding, ...] = ()
    package: SkillPackage | None = None
    try:
        _, package = open_package(bytes(data))
    except PackageError as error:
        errors = error.errors

    assert (package is None) == bool(errors)
