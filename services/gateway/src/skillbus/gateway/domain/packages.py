"""Skill packages on their way from a caller to the indexer."""

import asyncio
import hashlib
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal, TypeVar

import structlog
from typing_extensions import Buffer

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer import INSTALL_SKILL, InstallSkill, Skill, SkillInstalled
from skillbus.contracts.message import Content
from skillbus.gateway.domain.ports import BusCaller, Objects

T = TypeVar("T")

INLINE_BYTES: Final = 256 * 1024
"""What travels in a message: as base64 a third more, and NATS takes 1 MiB."""
_AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED})
_REJECTED: Final = frozenset({ErrorCode.SKILL_REJECTED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.INVALID_REQUEST})
"""Errors that are about the package itself. Of others it is not known whether someone needs the package."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Package:
    """A package as it came, in a file of ours."""

    file: BinaryIO
    size_bytes: int


class UploadedSkill(Skill):
    """A skill, and what became of its package."""

    outcome: Literal["installed", "updated", "unchanged"]


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
        if package.size_bytes > self._max_bytes:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"A package may be {self._max_bytes} bytes, this one is larger."
            )
        until = asyncio.get_running_loop().time() + self._patience_s
        content = await self._content(package, until)
        try:
            request = InstallSkill(project=project, package=content)
            reply = await _patiently(lambda: self._caller.call(INSTALL_SKILL, request), until)
        except RequestError as error:
            if content.object_name is not None and error.code in _REJECTED:
                await self._discard(content.object_name)
            raise
        return uploaded_skill(reply)

    async def _content(self, package: Package, until: float) -> Content:
        digest = await asyncio.to_thread(_sha256, package.file)
        if package.size_bytes <= INLINE_BYTES:
            package.file.seek(0)
            return Content(size_bytes=package.size_bytes, sha256=digest, inline=package.file.read())
        name = f"{digest}.zip"

        async def put() -> None:
            package.file.seek(0)
            await self._packages.put_file(name, _Reader(package.file))

        await _patiently(put, until)
        return Content(size_bytes=package.size_bytes, sha256=digest, object_name=name)

    async def _discard(self, name: str) -> None:
        try:
            await self._packages.delete(name)
        except RequestError as error:
            # The rejection is what the caller must hear; an object that stays costs space, nothing else.
            log.warning("rejected_package_left", name=name, code=error.code)


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


async def _patiently(attempt: Callable[[], Awaitable[T]], until: float) -> T:
    """Try again while the other side is away; `until` is a time of the loop."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except RequestError as error:
            if error.code not in _AWAY or asyncio.get_running_loop().time() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
