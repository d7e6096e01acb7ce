"""Installation and validation of uploaded skill packages by the indexer."""

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
from skillbus.gateway.domain.ports import BusCaller, ObjectFiles, retry_while_away

INLINE_BYTES: Final = 256 * 1024
"""Largest package inside a message. Base64 makes it a third larger, and NATS takes 1 MiB."""
_DISCARD_S: Final = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UploadedPackage:
    """Uploaded package in a temporary file."""

    file: BinaryIO
    size_bytes: int


def make_uploaded_skill(reply: SkillInstalled) -> UploadedSkill:
    """Return the indexer's reply as one flat object."""
    return UploadedSkill.model_validate({**reply.skill.model_dump(), "outcome": reply.outcome})


class PackageInstaller:
    """Sends packages to the indexer: small ones in the message, others through the object store.

    Idempotent calls are repeated for `patience_s` while the bus or the indexer is away.
    """

    def __init__(self, caller: BusCaller, packages: ObjectFiles, *, max_bytes: int, patience_s: float) -> None:
        self._caller = caller
        self._packages = packages
        self._max_bytes = max_bytes
        self._patience_s = patience_s

    @property
    def max_bytes(self) -> int:
        """Size of the largest package."""
        return self._max_bytes

    async def install_package(self, package: UploadedPackage, project: str) -> UploadedSkill:
        """Install a package, or update the skill with the same name.

        Raises:
            RequestError: The package is too large or not a valid skill, or the bus or the indexer stayed away.
        """
        until = asyncio.get_running_loop().time() + self._patience_s
        async with self._offer(package, project, until) as offer:
            try:
                reply = await retry_while_away(lambda: self._caller.call(INSTALL_SKILL, offer), until)
            except RequestError as error:
                if error.code is not ErrorCode.NOT_FOUND or offer.package.object_name is None:
                    raise
                # An earlier attempt succeeded, and the indexer deleted the object, but its reply was lost.
                await self._stage(package, offer.package.object_name, until)
                reply = await retry_while_away(lambda: self._caller.call(INSTALL_SKILL, offer), until)
        return make_uploaded_skill(reply)

    async def check_package(self, package: UploadedPackage, project: str) -> SkillChecked:
        """Validate a package without installing it.

        Raises:
            RequestError: The package is too large, or the bus or the indexer stayed away.
        """
        until = asyncio.get_running_loop().time() + self._patience_s
        async with self._offer(package, project, until) as offer:
            checked = await retry_while_away(lambda: self._caller.call(CHECK_SKILL, offer), until)
            await self._discard(offer.package.object_name)
            return checked

    @asynccontextmanager
    async def _offer(self, package: UploadedPackage, project: str, until: float) -> AsyncGenerator[InstallSkill]:
        """Yield the request with the package, inline or as an object. The object is deleted after an error."""
        if package.size_bytes > self._max_bytes:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"The package has {package.size_bytes} bytes; the limit is {self._max_bytes} bytes.",
            )
        package.file.seek(0)
        digest = (await asyncio.to_thread(hashlib.file_digest, _BufferedFile(package.file), "sha256")).hexdigest()
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

    async def _stage(self, package: UploadedPackage, name: str, until: float) -> None:
        async def put() -> None:
            package.file.seek(0)
            await self._packages.put_file(name, _BufferedFile(package.file), package.size_bytes)

        await retry_while_away(put, until)

    async def _discard(self, name: str | None) -> None:
        if name is None:
            return
        try:
            async with asyncio.timeout(_DISCARD_S):
                await self._packages.delete(name)
        except (RequestError, TimeoutError) as error:
            # The caller needs the result of the request; a left object only costs space.
            log.warning("incoming_package_not_deleted", name=name, error=repr(error))


class _BufferedFile(io.BufferedIOBase):
    """A form's file with the interface that the object store needs."""

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
