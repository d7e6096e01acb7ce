"""Catalogue record of a skill, and the history of its packages."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from skillbus.contracts.indexer.skill_record import Skill, SkillVersion
from skillbus.contracts.message import Message
from skillbus.indexer.domain.errors import PlaceNotWantedError, VersionMissingError
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding
from skillbus.indexer.domain.package.skill_package import SkillPackage

RECORD_BYTES: Final = 512 * 1024
"""Limit for the description of a skill: half of what a message or a value of the catalogue may have on NATS.

The scan and the history come in addition; together they have at most some 150 KiB.
"""
SKILL_ID_PREFIX: Final = "skill:"
_SKILL_ID: Final = re.compile(rf"{SKILL_ID_PREFIX}(?P<name>[a-z0-9]+(-[a-z0-9]+)*)")
VERSIONS: Final = 20
"""Packages kept of a skill, including the current one."""
_DESCRIPTION_CHARACTERS: Final = 500
"""Longest description in the history, so that twenty versions stay small."""

VersionReason = Literal["installed", "updated", "described", "rolled_back"]


class PackageKey(NamedTuple):
    """Key of a package in the object store."""

    project: str
    name: str
    content_digest: str


class SkillRecord(Message):
    """A skill, and what the indexer needs to know about its files."""

    skill: Skill
    skill_md_bytes: int
    skill_hash: str
    """Short SHA-256 of SKILL.md, as in `.vectorized`."""
    versions: tuple[SkillVersion, ...] = ()
    """The current package and earlier ones, newest first. Empty in a record from before there was a history."""

    @property
    def project(self) -> str:
        return self.skill.project

    @property
    def name(self) -> str:
        return self.skill.name

    @property
    def key(self) -> tuple[str, str]:
        """Project and tool id: key of its entry in the index."""
        return self.project, self.tool_id

    @property
    def content_digest(self) -> str:
        """SHA-256 of the skill's files, independent of the archive they came in."""
        return self.skill.content_digest

    @property
    def tool_id(self) -> str:
        return f"{SKILL_ID_PREFIX}{self.name}"

    @property
    def history(self) -> tuple[SkillVersion, ...]:
        """The current package and earlier ones, newest first; never empty."""
        return self.versions or (describe_version(self.skill, "installed"),)

    @property
    def package(self) -> PackageKey:
        return PackageKey(self.project, self.name, self.content_digest)

    @property
    def packages(self) -> frozenset[PackageKey]:
        return frozenset(PackageKey(self.project, self.name, version.content_digest) for version in self.history)

    def with_indexed(self, indexed: bool) -> "SkillRecord":
        """Return the record with the flag that says whether search finds the skill."""
        return self._with_fields(indexed=indexed)

    def with_enabled(self, enabled: bool, now: datetime) -> "SkillRecord":
        """Return the record of an enabled or disabled skill that the index has yet to follow."""
        return self._with_fields(enabled=enabled, indexed=False, updated_at=now)

    def with_pinned(self, pinned: bool) -> "SkillRecord":
        return self._with_fields(pinned=pinned)

    def with_approval(self, required: bool) -> "SkillRecord":
        return self._with_fields(requires_approval=required, indexed=False)

    def with_network(self, approved: Sequence[str]) -> "SkillRecord":
        """Return the record with these places approved, in the order of its request. Raises PlaceNotWantedError."""
        wanted = self.skill.network
        for place in approved:
            if place not in wanted:
                raise PlaceNotWantedError(self.name, place, wanted)
        return self._with_fields(network_approved=tuple(place for place in wanted if place in approved))

    def _with_fields(self, **fields: object) -> "SkillRecord":
        return self.model_copy(update={"skill": self.skill.model_copy(update=fields)})


def build_record(
    project: str,
    package: SkillPackage,
    content_digest: str,
    reason: VersionReason,
    now: datetime,
    earlier: SkillRecord | None,
) -> SkillRecord:
    """Build the record of a package. `earlier` gives its history, switches and first date. Raises PackageError."""
    read = package.skill
    skill = Skill(
        project=project,
        name=read.name,
        description=read.description,
        version=read.version,
        tags=read.tags,
        license=read.license,
        digest=package.digest,
        content_digest=content_digest,
        size_bytes=package.package_bytes,
        entry_points=package.entry_points,
        default_action=package.default_action,
        limits=read.limits,
        network=read.network,
        warnings=package.warnings,
        installed_at=now,
        updated_at=now,
    )
    if earlier is not None:
        kept = earlier.skill
        skill = skill.model_copy(
            update={
                "installed_at": kept.installed_at,
                "enabled": kept.enabled,
                "pinned": kept.pinned,
                "requires_approval": kept.requires_approval,
                # A new place waits for approval; a place that is no longer requested loses its approval.
                "network_approved": tuple(place for place in skill.network if place in kept.network_approved),
            }
        )
    size = len(skill.model_dump_json().encode())
    if size > RECORD_BYTES:
        message = (
            f"the description of the skill has {size} bytes, the limit is {RECORD_BYTES}: "
            "declare fewer actions, or shorter input schemas and descriptions"
        )
        raise PackageError((finding(FindingCode.TOO_LARGE, message),), package.warnings)
    newest = describe_version(skill, reason)
    return SkillRecord(
        skill=skill.model_copy(update={"scan": package.scan}),
        skill_md_bytes=package.skill_md_bytes,
        skill_hash=package.skill_hash,
        versions=(newest, *(earlier.history if earlier else ()))[:VERSIONS],
    )


def describe_version(skill: Skill, reason: VersionReason) -> SkillVersion:
    return SkillVersion(
        content_digest=skill.content_digest,
        digest=skill.digest,
        version=skill.version,
        description=skill.description[:_DESCRIPTION_CHARACTERS],
        size_bytes=skill.size_bytes,
        installed_at=skill.updated_at,
        reason=reason,
    )


def find_version(name: str, versions: Sequence[SkillVersion], content_digest: str | None) -> SkillVersion:
    """Find the version with these files, or without a digest the one before the current. Raises VersionMissingError."""
    current = versions[0].content_digest
    for version in versions:
        digest = version.content_digest
        if digest != current if content_digest is None else digest == content_digest:
            return version
    raise VersionMissingError(name, content_digest)


def parse_skill_id(tool_id: str) -> str | None:
    """Return the name of the skill with this tool id; None for other tools."""
    found = _SKILL_ID.fullmatch(tool_id)
    return found["name"] if found else None
