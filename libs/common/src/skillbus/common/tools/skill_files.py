"""Files of installed skills, read from their packages in the object store."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from skillbus.common.archive import Archive, ArchiveEntry, ArchiveError, open_archive
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import SkillSelector
from skillbus.contracts.resources import make_package_name

PACKAGE_BYTES: Final = 64 * 1024 * 1024
"""Largest package that is read."""

GetSkill: TypeAlias = Callable[[SkillSelector], Awaitable[Skill]]
"""Returns an installed skill. Raises RequestError."""
ResultT = TypeVar("ResultT")


class PackageReader(Protocol):
    """Bucket of packages."""

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Return the bytes of an object. Raises RequestError."""
        ...


@dataclass(frozen=True, slots=True)
class SkillOverview:
    """Overview of a skill."""

    files: tuple[ArchiveEntry, ...]
    document: bytes
    """Content of SKILL.md."""


class SkillFiles:
    """Reads files of skills. Nothing is unpacked to disk."""

    def __init__(self, get_skill: GetSkill, packages: PackageReader) -> None:
        self._get_skill = get_skill
        self._packages = packages

    async def read_file(self, project: str, name: str, path: str) -> bytes:
        """Return the content of a file of a skill's current package.

        Raises:
            RequestError: `skill_not_found`; `not_found` without such a file; `forbidden` for a disabled skill.
        """
        try:
            return await self._read(project, name, lambda package: package.read_file(path))
        except KeyError as error:
            raise RequestError(ErrorCode.NOT_FOUND, f"The skill {name} has no file {path[:200]!r}.") from error

    async def list_files(self, project: str, name: str) -> tuple[str, ...]:
        """Return the paths of all files of a skill's current package. Raises RequestError as `read_file`."""
        return await self._read(project, name, lambda package: tuple(entry.path for entry in package.files))

    async def read_overview(self, project: str, name: str) -> SkillOverview:
        """Return the files of a skill's current package and its SKILL.md. Raises RequestError as `read_file`."""
        try:
            return await self._read(
                project, name, lambda package: SkillOverview(package.files, package.read_file("SKILL.md"))
            )
        except KeyError as error:
            raise RequestError(ErrorCode.NOT_FOUND, f"The skill {name} has no SKILL.md.") from error

    async def _read(self, project: str, name: str, read: Callable[[Archive], ResultT]) -> ResultT:
        skill = await self._get_skill(SkillSelector(project=project, name=name))
        if not skill.enabled:
            raise RequestError(ErrorCode.FORBIDDEN, f"The skill {name} is disabled: an operator can enable it.")
        package = await self._packages.get(make_package_name(project, name, skill.content_digest), PACKAGE_BYTES)
        try:
            return await asyncio.to_thread(lambda: read(open_archive(package)))
        except ArchiveError as error:
            raise RequestError(ErrorCode.INTERNAL, f"The package of the skill {name} is damaged.") from error
