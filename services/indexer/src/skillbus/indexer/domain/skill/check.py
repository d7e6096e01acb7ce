"""Whether a package is a valid skill, to the letter and well enough, without installing it."""

import asyncio
from datetime import UTC, datetime

from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.contracts.indexer.skills import SkillChecked
from skillbus.indexer.domain.catalogue.skill import Change, record_of
from skillbus.indexer.domain.package.findings import PackageError, select_breaches
from skillbus.indexer.domain.package.skill_package import SkillPackage, open_package
from skillbus.indexer.domain.skill.ports import SkillFolders


async def check(folders: SkillFolders, project: str, data: bytes) -> SkillChecked:
    """Take a package as far as an install does before it keeps anything: opened, unpacked, recorded, and let go of."""
    return await asyncio.to_thread(_check, folders, project, data)


def _check(folders: SkillFolders, project: str, data: bytes) -> SkillChecked:
    package: SkillPackage | None = None
    try:
        archive, package = open_package(data)
        staged = folders.stage(archive, package)
        try:
            record_of(project, package, staged.content_digest, Change("installed", datetime.now(UTC)), None)
        finally:
            folders.discard(staged)
    except PackageError as error:
        return _checked(package, error.errors, error.warnings)
    return _checked(package, (), package.warnings)


def _checked(
    package: SkillPackage | None, errors: tuple[SkillFinding, ...], warnings: tuple[SkillFinding, ...]
) -> SkillChecked:
    breaches = select_breaches(errors, warnings)
    return SkillChecked(
        valid=not breaches,
        installable=not errors,
        errors=errors,
        warnings=warnings,
        breaches=breaches,
        name=package.skill.name if package else None,
        description=package.skill.description if package else None,
        scan=package.scan if package else None,
    )
