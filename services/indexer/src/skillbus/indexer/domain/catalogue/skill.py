"""The catalogue's record of a skill, and the port to where records are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from skillbus.contracts.indexer.skill_record import Skill, SkillVersion
from skillbus.contracts.message import Message
from skillbus.indexer.domain.catalogue.history import Reason, version_of, with_version
from skillbus.indexer.domain.errors import PlaceNotWantedError
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding
from skillbus.indexer.domain.package.skill_package import SkillPackage

RECORD_BYTES: Final = 512 * 1024
"""Of what is known of a skill: half of what a message or a value of the catalogue may be on NATS.

What the scan found and the history come on top; together they are bounded by some 150 KiB.
"""
PAGE_BYTES: Final = 768 * 1024


class PackageKey(NamedTuple):
    """Which package of which skill."""

    project: str
    name: str
    content_digest: str


class SkillRecord(Message):
    """A skill and what the indexer needs to know of its files."""

    skill: Skill
    skill_md_bytes: int
    skill_hash: str
    """Short SHA-256 of SKILL.md, as in `.vectorized`."""
    versions: tuple[SkillVersion, ...] = ()
    """The current package and those before it, the newest first; empty in a record from before there was a history."""

    @property
    def project(self) -> str:
        """Whose skill it is."""
        return self.skill.project

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.skill.name

    @property
    def content_digest(self) -> str:
        """SHA-256 of the skill's files, whatever archive they came in."""
        return self.skill.content_digest

    @property
    def tool_id(self) -> str:
        """Id of the skill among the tools of its project."""
        return tool_id_of(self.name)

    @property
    def history(self) -> tuple[SkillVersion, ...]:
        """The current package and those before it, the newest first; never empty."""
        return self.versions or (version_of(self.skill, "installed", self.skill.updated_at),)

    @property
    def package(self) -> PackageKey:
        """The package that is installed."""
        return PackageKey(self.project, self.name, self.content_digest)

    @property
    def packages(self) -> frozenset[PackageKey]:
        """The packages that are kept."""
        return frozenset(PackageKey(self.project, self.name, version.content_digest) for version in self.history)

    def with_indexed(self, indexed: bool) -> "SkillRecord":
        """The record of a skill that search can or cannot find."""
        return self.model_copy(update={"skill": self.skill.model_copy(update={"indexed": indexed})})

    def with_enabled(self, enabled: bool, now: datetime) -> "SkillRecord":
        """The record of a skill that may or may not be found and run; search is still to follow."""
        changed = {"enabled": enabled, "indexed": False, "updated_at": now}
        return self.model_copy(update={"skill": self.skill.model_copy(update=changed)})

    def with_pinned(self, pinned: bool) -> "SkillRecord":
        """The record of a skill that is or is not held at its package."""
        return self.model_copy(update={"skill": self.skill.model_copy(update={"pinned": pinned})})

    def with_network(self, approved: Sequence[str]) -> "SkillRecord":
        """The record of a skill whose runs may reach these places, in the order in which it wants them.

        Raises:
            PlaceNotWantedError: The skill does not want one of them.
        """
        wanted = self.skill.network
        for place in approved:
            if place not in wanted:
                raise PlaceNotWantedError(self.name, place, wanted)
        kept = tuple(place for place in wanted if place in approved)
        return self.model_copy(update={"skill": self.skill.model_copy(update={"network_approved": kept})})


def tool_id_of(name: str) -> str:
    """Id of a skill among the tools of its project."""
    return f"skill:{name}"


@dataclass(frozen=True, slots=True)
class Change:
    """Why a package becomes the current one, and when."""

    reason: Reason
    at: datetime


def record_of(
    project: str, package: SkillPackage, content_digest: str, change: Change, earlier: SkillRecord | None
) -> SkillRecord:
    """The record of a package; what it replaces keeps its date of installation, its history and its switches.

    Raises:
        PackageError: The record would be larger than `RECORD_BYTES`.
    """
    skill = _skill_of(project, package, content_digest, change.at)
    if earlier is not None:
        kept = earlier.skill
        skill = skill.model_copy(
            update={
                "installed_at": kept.installed_at,
                "enabled": kept.enabled,
                "pinned": kept.pinned,
                # What is new waits to be approved; what is wanted no longer would have to be approved again.
                "network_approved": tuple(place for place in skill.network if place in kept.network_approved),
            }
        )
    size = len(skill.model_dump_json().encode())
    if size > RECORD_BYTES:
        message = (
            f"what is known of the skill is {size} bytes, at most {RECORD_BYTES} are kept: "
            "declare fewer actions, or shorter input schemas and descriptions"
        )
        raise PackageError((finding(FindingCode.TOO_LARGE, message),), package.warnings)
    return SkillRecord(
        skill=skill.model_copy(update={"scan": package.scan}),
        skill_md_bytes=package.skill_md_bytes,
        skill_hash=package.skill_hash,
        versions=with_version(version_of(skill, change.reason, change.at), earlier.history if earlier else ()),
    )


def _skill_of(project: str, package: SkillPackage, content_digest: str, now: datetime) -> Skill:
    read = package.skill
    return Skill(
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


def page_of(skills: Sequence[Skill], limit: int, max_bytes: int = PAGE_BYTES) -> tuple[Skill, ...]:
    """The first of `skills`: at most `limit`, and no more than fit a message, but one at least."""
    page: list[Skill] = []
    for skill in skills[:limit]:
        max_bytes -= len(skill.model_dump_json().encode())
        if page and max_bytes < 0:
            break
        page.append(skill)
    return tuple(page)
