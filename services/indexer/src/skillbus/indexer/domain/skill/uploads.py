"""Uploads in the bucket `skills`: deleted once they are installed or refused."""

import re
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.domain.errors import SkillPinnedError
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding, findings_from_refusal
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.ports import SkillAnnouncer

_PROJECT: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?")

log = structlog.get_logger(__name__)


class UploadBucket(Protocol):
    """Bucket of uploads."""

    async def load_upload(self, name: str) -> bytes | None:
        """Return the bytes of an upload; None if it is gone. Raises PackageError if it is too large."""

    async def delete_upload(self, name: str) -> None:
        """Delete an upload."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """Installs uploads from the bucket."""

    bucket: UploadBucket
    installer: Installer
    announcer: SkillAnnouncer

    async def install_upload(self, name: str) -> None:
        """Install an upload named `<anything>.zip` or `<project>/<anything>.zip`. A refusal is announced.

        After any other error the upload stays and is tried again.
        """
        project = DEFAULT_PROJECT
        try:
            project = parse_project(name)
            data = await self.bucket.load_upload(name)
            if data is None:
                return
            installed = await self.installer.install(project, data)
            await self.announcer.announce_upload(name, installed.outcome, installed.record)
        except (PackageError, SkillPinnedError) as error:
            log.warning("upload_rejected", upload=name, project=project, errors=str(error))
            await self.announcer.announce_rejection(project, name, findings_from_refusal(error), once=False)
        await self.bucket.delete_upload(name)


def parse_project(name: str) -> str:
    """Return the project of an upload: `<project>/<anything>.zip`, or `<anything>.zip` for the default project.

    Raises PackageError for other names: a guess could show a tenant's skill to another tenant.
    """
    folder, slash, file = name.rpartition("/")
    if file.lower().endswith(".zip") and file != ".zip":
        if not slash:
            return DEFAULT_PROJECT
        if _PROJECT.fullmatch(folder):
            return folder
    message = "name an upload <anything>.zip or <project>/<anything>.zip; a project is a-z, 0-9, - and _"
    raise PackageError((finding(FindingCode.BAD_UPLOAD_NAME, message, name),))
