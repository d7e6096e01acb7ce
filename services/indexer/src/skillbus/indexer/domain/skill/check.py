"""Check of a package: validates it like an install, without installing it."""

import asyncio
from datetime import UTC, datetime

from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.contracts.indexer.skills import SkillChecked
from skillbus.indexer.domain.catalogue.skill import VersionChange, build_record
from skillbus.indexer.domain.package.findings import PackageError, select_breaches
from skillbus.indexer.domain.package.skill_package import SkillPackage, open_package
from skillbus.indexer.domain.skill.ports import SkillFolders


async def check_package(folders: SkillFolders, project: str, data: bytes) -> SkillChecked:
    """Open, unpack and record a package like an install, and discard the result."""

    def check() -> SkillChecked:
        package: SkillPackage | None = None
        errors: tuple[SkillFinding, ...] = ()
        warnings: tuple[SkillFinding, ...] = ()
        try:
            archive, package = open_package(data)
            warnings = package.warnings
            staged = folders.stage_package(archive, package)
            try:
                change = VersionChange("installed", datetime.now(UTC))
                build_record(project, package, staged.content_digest, change, None)
            finally:
                folders.discard_staged(staged)
        except PackageError as error:
            errors, warnings = error.errors, error.warnings
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

    return await asyncio.to_thread(check)
