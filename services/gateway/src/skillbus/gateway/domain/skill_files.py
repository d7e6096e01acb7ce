"""Files of installed skills, read from their packages in the object store."""

import asyncio
from typing import Final

from skillbus.common.archive import ArchiveError, open_archive
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skills import GET_SKILL, SkillSelector
from skillbus.contracts.resources import make_package_name
from skillbus.gateway.domain.ports import BusCaller, ObjectFiles

PACKAGE_BYTES: Final = 64 * 1024 * 1024
"""Largest package that is read."""


class SkillFiles:
    """Reads files of skills. Nothing is unpacked to disk."""

    def __init__(self, caller: BusCaller, packages: ObjectFiles) -> None:
        self._caller = caller
        self._packages = packages

    async def read_file(self, project: str, name: str, path: str) -> bytes:
        """Return the content of a file of a skill's current package.

        Raises:
            RequestError: `skill_not_found`; `not_found` without such a file; `forbidden` for a disabled skill.
        """
        skill = await self._caller.call(GET_SKILL, SkillSelector(project=project, name=name))
        if not skill.enabled:
            raise RequestError(ErrorCode.FORBIDDEN, f"The skill {name} is disabled: an operator can enable it.")
        package = await self._packages.get(make_package_name(project, name, skill.content_digest), PACKAGE_BYTES)
        try:
            return await asyncio.to_thread(lambda: open_archive(package).read_file(path))
        except KeyError as error:
            raise RequestError(ErrorCode.NOT_FOUND, f"The skill {name} has no file {path[:200]!r}.") from error
        except ArchiveError as error:
            raise RequestError(ErrorCode.INTERNAL, f"The package of the skill {name} is damaged.") from error
