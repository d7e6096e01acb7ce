"""Skill packages on their way from a caller to the indexer."""

import asyncio
import hashlib
import io
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

import structlog
from typing_extensions import Buffer

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import UploadedSkill
from skillbus.contracts.indexer.skills import CHECK_SKILL, INSTALL_SKILL, InstallSkill, SkillChecked, SkillInstalled
from skillbus.contracts.message import Content
from skillbus.contracts.resources import INCOMING_PREFIX
from skillbus.gateway.domain.ports import BusCaller, Objects
from skillbus.gateway.domain.retry import patiently

INLINE_BYTES: Final = 256 * 1024
"""What travels in a message: as base64 a third more, and NATS takes 1 MiB."""
_DISCARD_S: Final = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Package:
    """A package as it came, in a file of ours."""

    file: BinaryIO
    size_bytes: int


def uploaded_skill(reply: SkillInstalled) -> UploadedSkill:
    """The indexer's reply, flat."""
    return UploadedSkill.model_validate({**reply.skill.model_dump(), "outcome": reply.outcome})


class PackageInstaller:
    """Hands packages to the indexer: small ones in the message, others through the object store.

    What may be done twice is done again while the bus or the indexer is away, for `patience_s` at most.
    """

    def __init__(self, caller: BusCaller, packages: Objects, *, max_bytes: int, patience_s: float) -> None:
        self._caller = caller
        self._packages = packages
        self._max_bytes = max_bytes
        self._patience_s = patience_s

    async def install(self, package: Package, project: str) -> UploadedSkill:
        """Install a package, or update the skill of its name.

        Raises:
            RequestError: The package is too large or not a valid skill, or the bus or the indexer stayed away.
        """
        until = self._until()
        async with self._offered(package, project, until) as offer:
            try:
                return await self._ask(offer, until)
            except RequestError as error:
                if error.code is not ErrorCode.NOT_FOUND or offer.package.object_name is None:
                    raise
            # The indexer takes the object out when it is done: it was done, its reply was lost, and it was asked again.
            await self._stage(package, offer.package.object_name, until)
            return await self._ask(offer, until)

    async def check(self, package: Package, project: str) -> SkillChecked:
        """What the validation says of a package, which is not installed.

        Raises:
            RequestError: The package is too large, or the bus or the indexer stayed away.
        """
        until = self._until()
        async with self._offered(package, project, until) as offer:
            checked = await patiently(lambda: self._caller.call(CHECK_SKILL, offer), until)
            await self._discard(offer.package.object_name)
            return checked

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self._patience_s

    @asynccontextmanager
    async def _offered(self, package: Package, project: str, until: float) -> AsyncGenerator[InstallSkill]:
        """The request that brings a package along or says where it lies; what lies there goes if nothing came of it."""
        if package.size_bytes > self._max_bytes:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"A package may be {self._max_bytes} bytes, this one is larger."
            )
        digest = await asyncio.to_thread(_sha256, package.file)
        if package.size_bytes <= INLINE_BYTES:
            package.file.seek(0)
            content = Content(size_bytes=package.size_bytes, sha256=digest, inline=package.file.read())
            yield InstallSkill(project=project, package=content)
            return
        name = f"{INCOMING_PREFIX}{uuid.uuid4().hex}.zip"
        content = Content(size_bytes=package.size_bytes, sha256=digest, object_name=name)
        try:
            await self._stage(package, name, until)
            yield InstallSkill(project=project, package=content)
        except RequestError:
            await self._discard(name)
            raise

    async def _ask(self, request: InstallSkill, until: float) -> UploadedSkill:
        return uploaded_skill(await patiently(lambda: self._caller.call(INSTALL_SKILL, request), until))

    async def _stage(self, package: Package, name: str, until: float) -> None:
        async def put() -> None:
            package.file.seek(0)
            await self._packages.put_file(name, _Reader(package.file))

        await patiently(put, until)

    async def _discard(self, name: str | None) -> None:
        if name is None:
            return
        try:
            async with asyncio.timeout(_DISCARD_S):
                await self._packages.delete(name)
        except (RequestError, TimeoutError) as error:
            # What the caller must hear is what became of the package; an object that stays only costs space.
            log.warning("incoming_package_left", name=name, error=repr(error))


class _Reader(io.BufferedIOBase):
    """A file of a form, as the object store wants it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        return self._file.read(-1 if size is None else size)

    def readable(self) -> bool:
        return True


def _sha256(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(INLINE_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
