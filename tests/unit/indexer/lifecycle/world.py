"""An indexer of skills in memory and a folder, which a test can kill at any step that it takes."""

from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from skillbus.common.archive import Archive, PackedFile, pack_files
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.indexer.adapters.disk_folders import DiskFolders
from skillbus.indexer.domain.catalogue.entry import ToolEntry, make_skill_entry
from skillbus.indexer.domain.catalogue.ports import StoredSkill
from skillbus.indexer.domain.catalogue.skill import PackageKey, SkillRecord
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.package.skill_package import SkillPackage
from skillbus.indexer.domain.skill.follower import SkillFollower, SkillStores
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.ports import InstallOutcome, SkillChangeKind, StagedSkill
from skillbus.indexer.domain.skill.reconciler import SkillReconciler

from ..switching.world import (
    ALIAS,
    A,
    Calls,
    FakeCatalogue,
    FakeCollections,
    FakeModels,
    FakeSwitches,
    collection,
    hashes,
)

NAME = "say-hello"


class KilledError(Exception):
    """The process is gone."""


@dataclass
class Steps:
    """Counts what changes anything; the process is killed before the step `kill_at`, and does nothing after it."""

    taken: int = 0
    kill_at: int | None = None

    def take(self) -> None:
        if self.taken == self.kill_at:
            raise KilledError
        self.taken += 1


@dataclass
class KillableCatalogue(FakeCatalogue):
    steps: Steps = field(default_factory=Steps)
    removed: dict[Key, datetime] = field(default_factory=dict)

    async def save_skill(self, record: SkillRecord, revision: int) -> StoredSkill:
        self.steps.take()
        return await super().save_skill(record, revision)

    async def delete_skill(self, project: str, name: str, revision: int) -> None:
        self.steps.take()
        await super().delete_skill(project, name, revision)
        self.removed[project, name] = datetime.now(UTC)

    async def load_removal_time(self, project: str, name: str) -> datetime | None:
        return self.removed.get((project, name))


@dataclass
class FakePackages:
    steps: Steps
    kept: dict[PackageKey, bytes] = field(default_factory=dict)

    async def store_package(self, key: PackageKey, packed: bytes) -> None:
        self.steps.take()
        self.kept[key] = packed

    async def load_package(self, key: PackageKey) -> bytes:
        if key not in self.kept:
            raise RequestError(ErrorCode.NOT_FOUND, f"there is no package {key}")
        return self.kept[key]

    async def delete_package(self, key: PackageKey) -> None:
        self.steps.take()
        self.kept.pop(key, None)

    async def find_missing(self, keys: Collection[PackageKey]) -> frozenset[PackageKey]:
        return frozenset(keys) - frozenset(self.kept)

    async def delete_unclaimed(self, kept: Collection[PackageKey]) -> int:
        left = set(self.kept) - set(kept)
        for key in left:
            del self.kept[key]
        return len(left)


class KillableFolders(DiskFolders):
    def __init__(self, data: Path, steps: Steps) -> None:
        super().__init__(data)
        self.steps = steps

    def stage_package(self, archive: Archive, package: SkillPackage) -> StagedSkill:
        self.steps.take()
        return super().stage_package(archive, package)

    def swap_in(self, staged: StagedSkill, record: SkillRecord) -> None:
        self.steps.take()
        super().swap_in(staged, record)

    def mark_indexed(self, record: SkillRecord) -> None:
        self.steps.take()
        super().mark_indexed(record)

    def remove_folder(self, project: str, name: str) -> None:
        self.steps.take()
        super().remove_folder(project, name)


@dataclass
class FakeAnnouncer:
    steps: Steps
    said: list[str] = field(default_factory=list)

    async def announce_change(self, change: SkillChangeKind, record: SkillRecord) -> None:
        self._say(change)

    async def announce_removal(self, record: SkillRecord) -> None:
        self._say("removed")

    async def announce_upload(self, source: str, outcome: InstallOutcome, record: SkillRecord) -> None:
        self._say("taken")

    async def record_folder(self, outcome: InstallOutcome, record: SkillRecord) -> None:
        """Nothing is said: the audit log has tests of its own."""

    async def announce_rejection(
        self, project: str, source: str, errors: tuple[SkillFinding, ...], *, once: bool
    ) -> None:
        self._say(f"rejected:{errors[0].code}")

    def _say(self, what: str) -> None:
        self.steps.take()
        self.said.append(what)


@dataclass
class SkillEntries:
    catalogue: FakeCatalogue

    async def iterate_entries(self, project: str | None = None) -> AsyncIterator[ToolEntry]:
        for record in await self.catalogue.load_all(project):
            if made := make_skill_entry(record):
                yield made

    async def check_available(self) -> None:
        return

    async def load_entries(self, keys: Sequence[Key]) -> Sequence[ToolEntry]:
        names = [(project, tool_id.removeprefix("skill:")) for project, tool_id in keys]
        stored = [await self.catalogue.load_skill(*name) for name in names]
        return [made for found in stored if found and (made := make_skill_entry(found.record))]


class Life:
    """What outlives a process, and one process on it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.steps = Steps()
        self.calls = Calls(before=self._step)
        self.catalogue = KillableCatalogue(self.calls, steps=self.steps)
        self.packages = FakePackages(self.steps)
        self.folders = KillableFolders(data, self.steps)
        self.collections = FakeCollections(self.calls)
        self.collections.points[collection(A)] = {}
        self.collections.alias = collection(A)
        self.announcer = FakeAnnouncer(self.steps)
        self.installer = self.begin()

    async def _step(self, _: int) -> None:
        self.steps.take()

    def begin(self) -> Installer:
        """A process begins."""
        self.folders.prepare_folders()
        entries = SkillEntries(self.catalogue)
        self.index = Index(
            ALIAS,
            self.collections,
            entries,
            FakeSwitches(self.calls),
            FakeModels(),
            on_model_back=lambda: None,
            on_write_failed=lambda: None,
        )
        stores = SkillStores(self.catalogue, self.packages, self.folders, self.index, self.announcer)
        self.follower = SkillFollower(stores)
        self.installer = Installer(stores, self.follower, lambda: datetime.now(UTC))
        self.reconciler = SkillReconciler(stores, self.installer, self.follower)
        return self.installer

    def replica(self, data: Path) -> "Life":
        """Another machine's, beside this one."""
        other = copy(self)
        other.data, other.folders = data, KillableFolders(data, self.steps)
        other.begin()
        return other

    async def kill(self, doing: Awaitable[object], at_step: int) -> bool:
        """Do something in a process that is killed before a step; False if it ended before that."""
        self.steps.taken, self.steps.kill_at = 0, at_step
        try:
            await doing
        except KilledError:
            return True
        else:
            return False
        finally:
            self.steps.kill_at = None

    async def restart(self) -> None:
        """Another process begins, and reconciles."""
        self.begin()
        await self.reconciler.scan_folders()
        await self.reconciler.compare_index()
        await self.reconciler.delete_unclaimed_packages()

    @property
    def record(self) -> SkillRecord | None:
        stored = self.catalogue.stored.get(("default", NAME))
        return stored.record if stored else None

    @property
    def folder(self) -> Path:
        return self.folders.locate_folder("default", NAME)

    def assert_whole(self) -> None:
        """Catalogue, packages, folder and index say the same."""
        record = self.record
        points = self.collections.points[collection(A)]
        assert list((self.data / ".staging").iterdir()) == []
        if record is None:
            assert (points, self.packages.kept, self.folder.exists()) == ({}, {}, False)
            return
        assert set(self.packages.kept) == record.packages
        assert self.folders.matches_record(record)
        assert points == (hashes([record], A) if record.skill.enabled else {})
        assert record.skill.indexed == record.skill.enabled


def package(number: int, **files: str) -> bytes:
    """A package of the skill, each number another."""
    texts = {
        "SKILL.md": f"---\nname: {NAME}\ndescription: Version {number}.\n---\n",
        "main.py": f"print({number})\n",
        **files,
    }
    return pack_files([PackedFile(path, text.encode()) for path, text in texts.items()])
