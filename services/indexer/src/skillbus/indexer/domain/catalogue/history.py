"""The packages that a skill had: which are kept, and which one to go back to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from skillbus.contracts.indexer.skill_record import Skill, SkillVersion
from skillbus.indexer.domain.errors import VersionMissingError

VERSIONS: Final = 20
"""Kept of a skill, the current one among them, with their packages."""
_DESCRIPTION_CHARACTERS: Final = 500
"""So that twenty versions stay small beside what is known of the skill."""
Reason = Literal["installed", "updated", "described", "rolled_back"]


def version_of(skill: Skill, reason: Reason, at: datetime) -> SkillVersion:
    """A skill's package as its history tells it."""
    return SkillVersion(
        content_digest=skill.content_digest,
        digest=skill.digest,
        version=skill.version,
        description=skill.description[:_DESCRIPTION_CHARACTERS],
        size_bytes=skill.size_bytes,
        installed_at=at,
        reason=reason,
    )


def with_version(newest: SkillVersion, earlier: Sequence[SkillVersion]) -> tuple[SkillVersion, ...]:
    """The history when a package becomes the current one; the oldest beyond `VERSIONS` fall out."""
    return (newest, *earlier)[:VERSIONS]


def version_to_go_back_to(name: str, versions: Sequence[SkillVersion], content_digest: str | None) -> SkillVersion:
    """The version with these files, or, if none is named, the one before the current.

    Raises:
        VersionMissingError: There is none.
    """
    current = versions[0].content_digest
    for version in versions:
        wanted = (
            version.content_digest != current if content_digest is None else version.content_digest == content_digest
        )
        if wanted:
            return version
    raise VersionMissingError(name, content_digest)
