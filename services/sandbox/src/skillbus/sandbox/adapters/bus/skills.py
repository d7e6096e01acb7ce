"""Skills from the catalogue, unpacked into a cache on this machine."""

import asyncio
import hashlib
import shutil
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import structlog

from skillbus.common.archive import ArchiveError, ArchiveLimits, open_archive
from skillbus.common.bus.caller import Caller
from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import GET_SKILL, SkillSelector
from skillbus.contracts.resources import make_package_name

_LIMITS: Final = ArchiveLimits(
    archive_bytes=ArchiveLimits().total_bytes + 4 * 1024 * 1024, ratio_exempt=frozenset({"skill.md"})
)
"""Limits of a stored package, which may be larger than the upload because the indexer stores files uncompressed."""

log = structlog.get_logger(__name__)


class BusSkills:
    """`SkillSource` with one folder per package digest; past `kept` folders the least recently run are removed."""

    def __init__(self, caller: Caller, packages: ObjectStore, root: Path, kept: int) -> None:
        self._caller = caller
        self._packages = packages
        self._root = root
        self._kept = kept
        self._unpacking: dict[str, asyncio.Lock] = {}
        self._in_use: Counter[str] = Counter()
        self._recent: dict[str, None] = {}
        """Digests of unpacked skills, least recently run first."""

    async def prepare(self) -> None:
        """Empty the cache folder: files on disk may be half unpacked or foreign."""
        await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)
        self._root.mkdir(parents=True)

    async def get_skill(self, project: str, name: str) -> Skill:
        return await self._caller.call(GET_SKILL, SkillSelector(project=project, name=name), allow_local=True)

    @asynccontextmanager
    async def unpack_skill(self, skill: Skill) -> AsyncGenerator[Path]:
        digest = skill.content_digest
        folder = self._root / digest
        self._in_use[digest] += 1
        try:
            async with self._unpacking.setdefault(digest, asyncio.Lock()):
                if digest not in self._recent:
                    await self._unpack(skill, folder)
            self._recent.pop(digest, None)
            self._recent[digest] = None
            yield folder
        finally:
            self._in_use[digest] -= 1
            await self._forget_old()

    async def _unpack(self, skill: Skill, folder: Path) -> None:
        name = make_package_name(skill.project, skill.name, skill.content_digest)
        data = await self._packages.get(name, _LIMITS.archive_bytes)
        if hashlib.sha256(data).hexdigest() != skill.content_digest:
            raise RequestError(ErrorCode.INTERNAL, f"The stored package of {skill.name} is damaged: install it again.")
        try:
            await asyncio.to_thread(_extract, data, folder)
        except ArchiveError as error:
            raise RequestError(
                ErrorCode.INTERNAL, f"The package of {skill.name} cannot be unpacked: {error}"
            ) from error
        log.info("skill_unpacked", skill=skill.name, digest=skill.content_digest)

    async def _forget_old(self) -> None:
        for digest in list(self._recent)[: max(0, len(self._recent) - self._kept)]:
            # Another task may have come here while files were removed, or a run may use this skill now.
            if self._in_use[digest] == 0 and digest in self._recent:
                del self._recent[digest]
                self._unpacking.pop(digest, None)
                # Rename first: the skill may be unpacked again while the old files are still being removed.
                old = self._root / f".{uuid4().hex}"
                (self._root / digest).rename(old)
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)


def _extract(data: bytes, folder: Path) -> None:
    staging = folder.with_name(f".{uuid4().hex}")
    staging.mkdir()
    try:
        open_archive(data, _LIMITS).extract_to(staging)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
