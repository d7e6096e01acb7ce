"""A skill package: an archive or a folder that holds one skill."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from skillbus.common.archive import (
    Archive,
    ArchiveLimits,
    PackedFile,
    open_archive,
    pack_directory,
    pack_files,
)
from skillbus.contracts.indexer.skill_record import EntryPoint, SkillFinding, SkillScan
from skillbus.indexer.domain.package.entry_point import choose_default_action, find_entry_points
from skillbus.indexer.domain.package.file_report import scan_package
from skillbus.indexer.domain.package.files import PackageFile, PackageFiles, find_scripts
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding, translate_archive_errors
from skillbus.indexer.domain.package.skill_md import SkillMd, parse_skill_md, rewrite_description

SKILL_MD = "SKILL.md"
VECTORIZED = ".vectorized"
PACKAGE_LIMITS = ArchiveLimits(ratio_exempt=frozenset({"skill.md"}))
"""SKILL.md is exempt from the compression ratio: its size and that of its front matter have limits of their own."""
KEPT_LIMITS = replace(PACKAGE_LIMITS, archive_bytes=PACKAGE_LIMITS.total_bytes + 4 * 1024 * 1024)
"""Limits of packages that the indexer packed: it stores files uncompressed, so they may be larger than uploads."""
_SHORT_HASH = 8
"""Hex digits of `skillHash` in `.vectorized`, as in skill-vector-retrieval.md § 首次索引Skills."""


@dataclass(frozen=True, slots=True)
class SkillPackage:
    """A skill that can be installed. Paths of `files` and `entry_points` are relative to the skill's folder."""

    skill: SkillMd
    digest: str
    """SHA-256 of the archive, hex."""
    package_bytes: int
    prefix: str
    """Prefix to strip from the archive's paths: "" or a folder with its closing slash."""
    skill_md: str
    """Name of the file in the archive: `SKILL.md` or `skill.md`."""
    skill_md_bytes: int
    skill_hash: str
    """First digits of the SHA-256 of SKILL.md, hex, for `.vectorized`."""
    files: tuple[PackageFile, ...]
    entry_points: tuple[EntryPoint, ...]
    scan: SkillScan
    warnings: tuple[SkillFinding, ...]

    @property
    def default_action(self) -> str | None:
        """Action that runs when the caller names none."""
        return choose_default_action(self.entry_points)


def open_package(
    source: bytes | BinaryIO, limits: ArchiveLimits = PACKAGE_LIMITS, *, folder: str | None = None
) -> tuple[Archive, SkillPackage]:
    """Open and validate an upload; `extract_package` checks the data of every file. Raises PackageError."""
    with translate_archive_errors():
        archive = open_archive(source, limits)
        return archive, read_package(archive, folder=folder)


def open_folder(root: Path, limits: ArchiveLimits = KEPT_LIMITS) -> tuple[Archive, SkillPackage]:
    """Pack and validate a skill in a folder. The same files give the same archive. Raises PackageError, OSError."""
    with translate_archive_errors():
        data = pack_directory(root, limits, skip={VECTORIZED})
    return open_package(data, limits, folder=root.name)


def extract_package(archive: Archive, package: SkillPackage, directory: Path) -> None:
    """Write the skill's files into an empty staging folder. Raises PackageError if a file is damaged, OSError."""
    with translate_archive_errors(package.warnings):
        archive.extract_to(directory, strip_prefix=package.prefix, skip={VECTORIZED})


def replace_description(archive: Archive, package: SkillPackage, description: str) -> bytes:
    """Pack the same files with another description. Open the result as an upload. Raises PackageError."""

    def content(path: str) -> bytes:
        data = archive.read_file(package.prefix + path)
        return rewrite_description(data, description) if path == package.skill_md else data

    with translate_archive_errors():
        files = [PackedFile(file.path, content(file.path), file.executable) for file in package.files]
        return pack_files(files, deflate=True)


def read_package(archive: Archive, *, folder: str | None = None) -> SkillPackage:
    """Find and validate the skill in an archive, which may be made from a folder. Raises PackageError, ArchiveError."""
    skill_md, warnings = _find_skill_md(archive)
    prefix = skill_md.rpartition("/")[0] + "/" if "/" in skill_md else ""
    data = archive.read_file(skill_md)
    report = parse_skill_md(data, folder=prefix.rstrip("/").rpartition("/")[2] or folder)
    warnings += report.warnings
    if report.skill is None:
        raise PackageError(report.errors, warnings)
    by_path: Mapping[str, PackageFile] = {
        path: PackageFile(path, entry.size_bytes, entry.executable)
        for entry in archive.files
        if entry.path.startswith(prefix) and (path := entry.path.removeprefix(prefix)) != VECTORIZED
    }
    files = PackageFiles(by_path, lambda path: archive.read_file(prefix + path))
    scripts = find_scripts(((file.path, file.size_bytes) for file in by_path.values()), files.read)
    try:
        entry_points, more = find_entry_points(report.skill.metadata, scripts, files)
    except PackageError as error:
        raise PackageError(error.errors, warnings) from error
    return SkillPackage(
        skill=report.skill,
        digest=archive.digest,
        package_bytes=len(archive.data),
        prefix=prefix,
        skill_md=skill_md.removeprefix(prefix),
        skill_md_bytes=len(data),
        skill_hash=hashlib.sha256(data).hexdigest()[:_SHORT_HASH],
        files=tuple(by_path.values()),
        entry_points=entry_points,
        scan=scan_package(files, scripts),
        warnings=(*warnings, *more),
    )


def _find_skill_md(archive: Archive) -> tuple[str, tuple[SkillFinding, ...]]:
    """Return the path of the topmost SKILL.md and warnings about its place. Others must lie below its folder."""
    found = [entry.path for entry in archive.files if entry.path.rpartition("/")[2] in {SKILL_MD, "skill.md"}]
    if not found:
        message = "there is no SKILL.md at the top or in the one top folder"
        raise PackageError((finding(FindingCode.NO_SKILL_MD, message),))
    highest = min(path.count("/") for path in found)
    candidates = [path for path in found if path.count("/") == highest]
    prefix = candidates[0].rpartition("/")[0] + "/" if highest else ""
    strangers = [path for path in found if not path.startswith(prefix)]
    if len(candidates) > 1 or strangers:
        shown = ", ".join(repr(path) for path in sorted({*candidates, *strangers})[:3])
        message = f"there are several skills ({shown}); upload them one by one"
        raise PackageError((finding(FindingCode.SEVERAL_SKILL_MD, message),))
    return candidates[0], _warn_of_place(archive, candidates[0], prefix)


def _warn_of_place(archive: Archive, skill_md: str, prefix: str) -> tuple[SkillFinding, ...]:
    paths = [entry.path for entry in archive.files]
    outside = [path for path in paths if not path.startswith(prefix)]
    warnings = [
        (not skill_md.endswith(SKILL_MD), FindingCode.SKILL_MD_LOWER_CASE, "the file should be called SKILL.md"),
        (prefix.count("/") > 1, FindingCode.NESTED, f"the skill is below the top folder; {prefix} is stripped"),
        (bool(outside), FindingCode.FILES_OUTSIDE, f"files outside {prefix} are ignored: {', '.join(outside[:3])}"),
        (prefix + VECTORIZED in paths, FindingCode.RESERVED_FILE, f"{VECTORIZED} is the indexer's and is ignored"),
    ]
    return tuple(finding(code, message, skill_md) for applies, code, message in warnings if applies)
