"""History of a skill's packages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from skillbus.contracts.indexer.skill_record import Skill, SkillVersion
from skillbus.indexer.domain.errors import VersionMissingError

VERSIONS: Final = 20
"""Packages kept of a skill, including the current one."""
_DESCRIPTION_CHARACTERS: Final = 500
"""Longest description in the history, so that twenty versions stay small."""

VersionReason = Literal["installed", "updated", "described", "rolled_back"]


def describe_version(skill: Skill, reason: VersionReason, at: datetime) -> SkillVersion:
    """Describe the package of a skill for its history."""
    return SkillVersion(
        content_digest=skill.content_digest,
        digest=skill.digest,
        version=skill.version,
        description=skill.description[:_DESCRIPTION_CHARACTERS],
        size_bytes=skill.size_bytes,
        installed_at=at,
        reason=reason,
    )


def add_version(newest: SkillVersion, earlier: Sequence[SkillVersion]) -> tuple[SkillVersion, ...]:
    """Return the history with a new current package. Only the newest `VERSIONS` are kept."""
    return (newest, *earlier)[:VERSIONS]


def find_version(name: str, versions: Sequence[SkillVersion], content_digest: str | None) -> SkillVersion:
    """Find the version with these files, or the one before the current if no digest is given.

    Raises:
        VersionMissingError: There is none.
    """
    current = versions[0].content_digest
    for version in versions:
        digest = version.content_digest
        if digest != current if content_digest is None else digest == content_digest:
            return version
    raise VersionMissingError(name, content_digest)
