"""Uploads to the bucket `skills`: taken out once they are installed or refused."""

import re
from typing import Final, Protocol

import structlog

from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.domain.errors import SkillPinnedError
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding, findings_from_refusal
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.ports import Announcer

_PROJECT: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?")

log = structlog.get_logger(__name__)


class UploadBucket(Protocol):
    """Where uploads wait."""

    async def get(self, name: str) -> bytes | None:
        """The bytes of an upload; None when it was taken already. Raises PackageError when it is too large."""
        ...

    async def delete(self, name: str) -> None:
        """Take an upload out."""
        ...


class Uploads:
    """Installs what lies in the bucket."""

    def __init__(self, bucket: UploadBucket, installer: Installer, announcer: Announcer) -> None:
        self._bucket = bucket
        self._installer = installer
        self._announcer = announcer

    async def take(self, name: str) -> None:
        """Install an upload named `<anything>.zip` or `<project>/<anything>.zip`; a refused one is announced.

        Any other error leaves it where it is, to be taken again.
        """
        project = DEFAULT_PROJECT
        try:
            project = project_of(name)
            data = await self._bucket.get(name)
            if data is None:
                return
            installed = await self._installer.install(project, data)
            await self._announcer.taken(name, installed.outcome, installed.record)
        except (PackageError, SkillPinnedError) as error:
            log.warning("upload_rejected", upload=name, project=project, errors=str(error))
            await self._announcer.rejected(project, name, findings_from_refusal(error), once=False)
        await self._bucket.delete(name)


def project_of(name: str) -> str:
    """The project that an upload's name tells: `<project>/<anything>.zip`, or `<anything>.zip` for the default one.

    Raises:
        PackageError: It tells none; guessing would show one tenant's skill to another.
    """
    folder, slash, file = name.rpartition("/")
    if file.lower().endswith(".zip") and file != ".zip":
        if not slash:
            return DEFAULT_PROJECT
        if _PROJECT.fullmatch(folder):
            return folder
    raise PackageError(
        (
            finding(
                FindingCode.BAD_UPLOAD_NAME,
                "name an upload <anything>.zip or <project>/<anything>.zip; a project is a-z, 0-9, - and _",
                name,
            ),
        )
    )
