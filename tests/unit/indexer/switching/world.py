"""A world in memory in which an index is switched: all ports, each call of which a test can hook into."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from skillbus.common.records import RecordVersion, StoredRecord, WriteConflictError
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import IndexModel, IndexSwitch, SwitchPhase
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.indexer.domain.catalogue.entry import CatalogueEntries, ToolEntry, make_skill_entry
from skillbus.indexer.domain.catalogue.ports import StoredSkill
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX, SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.errors import DenseUnavailableError, IndexUnavailableError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import NO_MODEL, DefaultModel, Digested, IndexedPoint, Key, hash_content
from skillbus.indexer.domain.index.switch_decisions import SwitchDecisions
from skillbus.indexer.domain.index.switch_driver import SwitchDriver, SwitchPorts, SwitchTiming
from skillbus.indexer.domain.index.switch_record import StoredSwitch, SwitchRecord
from skillbus.indexer.domain.record.ports import RecordUpdate

ALIAS = "tools"
A, B, C = (DefaultModel(f"model-{name}", name, 4) for name in ("aaaa", "bbbb", "cccc"))
TIMING = SwitchTiming(keep_s=3600, lease_s=15, retry_s=(0.0,), settle_s=(0.0,))


def collection(model: DefaultModel) -> str:
    return f"tools-{model.fingerprint}-v1"


def skill(name: str, description: str = "Does something.") -> SkillRecord:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values = Skill(
        project="default",
        name=name,
        description=description,
        digest=f"{name}:{description}",
        content_digest=f"{name}:{description}",
        size_bytes=1,
        installed_at=now,
        updated_at=now,
    )
    return SkillRecord(skill=values, skill_md_bytes=1, skill_hash="0" * 8)


Hook = Callable[[int], Awaitable[None]]


async def _nothing(_: int) -> None:
    return


@dataclass
class Calls:
    """Counts the calls of ports; a hook runs before and after each takes effect."""

    count: int = 0
    before: Hook = _nothing
    after: Hook = _nothing
    asleep: bool = False
    """While a hook runs, its own calls are not counted."""

    async def begin(self) -> int:
        if self.asleep:
            return 0
        self.count += 1
        at = self.count
        await self._run(self.before, at)
        return at

    async def end(self, at: int) -> None:
        if at:
            await self._run(self.after, at)

    async def _run(self, hook: Hook, at: int) -> None:
        self.asleep = True
        try:
            await hook(at)
        finally:
            self.asleep = False


@dataclass
class FakeCatalogue:
    calls: Calls
    stored: dict[Key, StoredSkill] = field(default_factory=dict)

    async def load_skill(self, project: str, name: str) -> StoredSkill | None:
        at = await self.calls.begin()
        found = self.stored.get((project, name))
        await self.calls.end(at)
        return found

    async def load_skills(self, names: Sequence[Key]) -> Mapping[Key, StoredSkill]:
        return {name: stored for name in names if (stored := await self.load_skill(*name))}

    async def save_skill(self, record: SkillRecord, revision: int) -> StoredSkill:
        key = (record.project, record.name)
        known = self.stored[key].revision if key in self.stored else 0
        if known != revision:
            raise WriteConflictError(str(key))
        self.stored[key] = StoredRecord(record, revision + 1)
        return self.stored[key]

    async def delete_skill(self, project: str, name: str, revision: int) -> None:
        del self.stored[project, name]

    async def load_removal_time(self, project: str, name: str) -> datetime | None:
        return None

    async def load_all(self, project: str | None = None) -> Sequence[SkillRecord]:
        at = await self.calls.begin()
        records = [found.record for found in self.stored.values()]
        await self.calls.end(at)
        return records

    def has(self, *records: SkillRecord) -> None:
        """These are installed, in place of what was of their names."""
        for record in records:
            self.stored[record.project, record.name] = StoredRecord(record, 1)

    def lacks(self, name: str) -> None:
        self.stored.pop(("default", name), None)


@dataclass
class FakeTools:
    """Records of tools that are no skills."""

    stored: dict[Key, RecordVersion[ToolRecord]] = field(default_factory=dict)

    async def load_record(self, key: Key) -> RecordVersion[ToolRecord] | None:
        return self.stored.get(key)

    async def load_records(self, keys: Sequence[Key]) -> Mapping[Key, RecordVersion[ToolRecord]]:
        return {key: self.stored[key] for key in keys if key in self.stored}

    async def save_records(self, updates: Sequence[RecordUpdate[ToolRecord]]) -> Sequence[int | None]:
        for update in updates:
            self._set(update.record.key, update.record, update.over)
        return [update.over + 1 for update in updates]

    async def is_unchanged_since(self, revisions: Mapping[Key, int]) -> bool:
        return all(self.stored[key].revision == revision for key, revision in revisions.items())

    async def delete_records(self, revisions: Mapping[Key, int]) -> Sequence[bool]:
        for key, revision in revisions.items():
            self._set(key, None, revision)
        return [True] * len(revisions)

    async def iterate_records(self, project: str | None = None) -> AsyncIterator[ToolRecord]:
        for stored in list(self.stored.values()):
            if stored.record and project in {None, stored.record.project}:
                yield stored.record

    def _set(self, key: Key, record: ToolRecord | None, revision: int) -> None:
        known = self.stored.get(key, RecordVersion(None, 0)).revision
        if known != revision:
            raise WriteConflictError(key[1])
        self.stored[key] = RecordVersion(record, revision + 1)


@dataclass
class FakeCollections:
    calls: Calls
    points: dict[str, dict[Key, str]] = field(default_factory=dict)
    """Content hashes by collection."""
    alias: str | None = None
    without_dense: set[str] = field(default_factory=set)
    """Models that cannot be had now."""
    written: list[Key] = field(default_factory=list)

    def name_collection(self, fingerprint: str) -> str:
        return f"tools-{fingerprint}-v1"

    def read_fingerprint(self, collection: str) -> str:
        return collection.split("-")[1]

    async def find_live(self) -> str | None:
        at = await self.calls.begin()
        found = self.alias
        await self.calls.end(at)
        return found

    async def list_names(self) -> frozenset[str]:
        at = await self.calls.begin()
        found = frozenset(self.points)
        await self.calls.end(at)
        return found

    async def ensure_collection(self, model: IndexModel) -> None:
        at = await self.calls.begin()
        self.points.setdefault(model.collection, {})
        await self.calls.end(at)

    async def point_alias(self, collection: str) -> None:
        at = await self.calls.begin()
        self._of(collection)
        self.alias = collection
        await self.calls.end(at)

    async def delete_collection(self, collection: str) -> None:
        at = await self.calls.begin()
        self.points.pop(collection, None)
        if self.alias == collection:
            self.alias = None
        await self.calls.end(at)

    async def count_points(self, collection: str) -> int:
        return len(self._of(collection))

    async def scan_points(self, collection: str) -> AsyncIterator[IndexedPoint]:
        at = await self.calls.begin()
        for key, value in list(self._of(collection).items()):
            yield IndexedPoint(key, value)
        await self.calls.end(at)

    async def load_hashes(self, collection: str, keys: Sequence[Key]) -> Mapping[Key, str]:
        at = await self.calls.begin()
        found = {key: value for key, value in self._of(collection).items() if key in keys}
        await self.calls.end(at)
        return found

    async def write_points(
        self,
        collection: str,
        entries: Sequence[Digested],
        *,
        insert_only: bool = False,
        dense_required: bool = False,
    ) -> bool:
        at = await self.calls.begin()
        fingerprint = self.read_fingerprint(collection)
        if fingerprint in self.without_dense:
            if dense_required:
                raise DenseUnavailableError(fingerprint, "it was taken away")
            fingerprint = NO_MODEL
        points = self._of(collection)
        for entry in entries:
            self.written.append(entry.key)
            if not insert_only or entry.key not in points:
                points[entry.key] = hash_content(entry, fingerprint)
        await self.calls.end(at)
        return fingerprint == self.read_fingerprint(collection)

    async def remove_points(self, collection: str, keys: Sequence[Key]) -> None:
        at = await self.calls.begin()
        for key in keys:
            self._of(collection).pop(key, None)
        await self.calls.end(at)

    def _of(self, collection: str) -> dict[Key, str]:
        if collection not in self.points:
            raise IndexUnavailableError(f"there is no collection {collection}")
        return self.points[collection]


@dataclass
class FakeSwitches:
    calls: Calls
    stored: StoredSwitch | None = None
    broken: bool = False

    async def load(self, key: str) -> StoredSwitch | None:
        if self.broken:
            raise RequestError(ErrorCode.UNAVAILABLE, "the bucket is away")
        at = await self.calls.begin()
        found = self.stored
        await self.calls.end(at)
        return found

    async def save(self, key: str, record: SwitchRecord, revision: int) -> StoredSwitch:
        at = await self.calls.begin()
        if (self.stored.revision if self.stored else 0) != revision:
            raise WriteConflictError(key)
        self.stored = StoredRecord(SwitchRecord.model_validate_json(record.model_dump_json()), revision + 1)
        stored = self.stored
        await self.calls.end(at)
        return stored


@dataclass
class FakeModels:
    model: DefaultModel | None = A

    async def load_default(self) -> DefaultModel | None:
        return self.model

    def recall_model(self, fingerprint: str) -> DefaultModel | None:
        return {model.fingerprint: model for model in (A, B, C)}.get(fingerprint)


@dataclass
class FakeAnnouncer:
    switches: list[IndexSwitch] = field(default_factory=list)

    async def announce_progress(self, alias: str, switch: IndexSwitch) -> None:
        self.switches.append(switch)

    @property
    def phases(self) -> list[SwitchPhase]:
        """In their order, each once."""
        return list(dict.fromkeys(switch.phase for switch in self.switches))


class World:
    """An index of model A, with some tools in it."""

    def __init__(self, tools: int = 3) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.calls = Calls()
        self.catalogue = FakeCatalogue(self.calls)
        self.collections = FakeCollections(self.calls)
        self.switches = FakeSwitches(self.calls)
        self.models = FakeModels()
        self.announcer = FakeAnnouncer()
        self.moved = 0
        records = [skill(f"tool-{number}") for number in range(tools)]
        self.catalogue.has(*records)
        self.entries = CatalogueEntries(self.catalogue, FakeTools())
        self.collections.points[collection(A)] = hashes(records, A)
        self.collections.alias = collection(A)
        self.index = Index(
            ALIAS,
            self.collections,
            self.entries,
            self.switches,
            self.models,
            self._on_moved,
            on_write_failed=lambda: None,
        )
        self.decisions = SwitchDecisions(
            self.index, self.switches, self.models, self.announcer, self.now, wake=lambda: None
        )

    def now(self) -> datetime:
        return self.time

    def later(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def driver(self, owner: str = "one", timing: SwitchTiming = TIMING) -> SwitchDriver[ToolEntry]:
        ports = SwitchPorts(ALIAS, self.collections, self.entries, self.switches, self.announcer, self.now)
        return SwitchDriver(ports, owner, timing, self._on_moved)

    def _on_moved(self) -> None:
        self.moved += 1

    async def default_is(self, model: DefaultModel) -> None:
        self.models.model = model
        await self.decisions.follow_default_model()

    @property
    def record(self) -> SwitchRecord:
        assert self.switches.stored is not None
        return self.switches.stored.record

    @property
    def phase(self) -> SwitchPhase:
        return self.record.switch.phase

    async def take_over(self, owner: str = "two") -> SwitchDriver[ToolEntry]:
        """Another replica, which waits until the lease has run out."""
        driver = self.driver(owner)
        await driver.run_round()
        self.later(TIMING.lease_s)
        while self.record.running:
            await driver.run_round()
        return driver

    def holds_exactly(self, model: DefaultModel) -> bool:
        """Whether a collection is what the catalogue says."""
        wanted = hashes([stored.record for stored in self.catalogue.stored.values()], model)
        return self.collections.points[collection(model)] == wanted

    def assert_switched_to(self, model: DefaultModel) -> None:
        assert self.phase is SwitchPhase.KEPT
        assert self.collections.alias == collection(model)
        assert self.holds_exactly(model)


def key(name: str) -> Key:
    return "default", f"{SKILL_ID_PREFIX}{name}"


def entry(record: SkillRecord) -> ToolEntry:
    made = make_skill_entry(record)
    assert made is not None
    return made


def hashes(records: Sequence[SkillRecord], model: DefaultModel) -> dict[Key, str]:
    """What a model's collection holds of these."""
    return {(made := entry(record)).key: hash_content(made, model.fingerprint) for record in records}


async def forever() -> None:
    await asyncio.Event().wait()
