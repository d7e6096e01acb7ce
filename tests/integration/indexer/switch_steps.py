"""What tests of a change of models do and look at."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.indexer.index_switch import LIST_INDEXES, IndexState, SwitchPhase
from skillbus.contracts.message import Empty
from skillbus.indexer.adapters.kv_catalogue import KvSkills
from skillbus.indexer.domain.catalogue.entry import make_skill_entry
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX, SkillRecord
from skillbus.indexer.domain.index.ports import hash_content
from skillbus.relevance.tool_text import build_tool_dense_text
from skillbus.vectors import DENSE, VectorStore, models, point_id
from skillbus.vectors.datasets import TOOLS, parse_fingerprint

from .conftest import Package, Running
from .fake_embedder import vector


async def install_many(running: Running, package: Package, count: int) -> None:
    """So many skills, some at a time."""
    names = [f"tool-{number}" for number in range(count)]
    for at in range(0, count, 8):
        await asyncio.gather(*(running.install(package(name, f"Does {name}.")) for name in names[at : at + 8]))


async def state_of(bus: Bus, alias: str = TOOLS.alias) -> IndexState:
    states = {state.alias: state for state in (await bus.caller.call(LIST_INDEXES, Empty())).indexes}
    return states[alias]


async def until_phase(
    bus: Bus, *phases: SwitchPhase, fingerprint: str | None = None, wait_s: float = 5.0
) -> IndexState:
    """Until the last switch, if need be that to a model, is in one of these phases."""

    def there(state: IndexState) -> bool:
        switch = state.switch
        return switch is not None and switch.phase in phases and fingerprint in {None, switch.target.fingerprint}

    return await eventually(lambda: state_of(bus), there, wait_s)


async def differences(bus: Bus, store: VectorStore, collection: str) -> dict[str, tuple[str | None, str | None]]:
    """Names whose points are not what the catalogue says, with what is and what should be."""
    records = await KvSkills(bus).load_all()
    entries = [entry for record in records if (entry := make_skill_entry(record))]
    wanted = {entry.name: hash_content(entry, parse_fingerprint(collection)) for entry in entries}
    found: dict[str, str] = {}
    offset = None
    while True:
        points, offset = await store.scroll(collection, offset=offset, with_vectors=(DENSE,))
        for point in points:
            payload = point.payload or {}
            assert isinstance(point.vector, dict)
            found[payload["name"]] = payload["content_hash"] if DENSE in point.vector else "no dense vector"
        if offset is None:
            break
    names = wanted.keys() | found.keys()
    return {name: (found.get(name), wanted.get(name)) for name in names if found.get(name) != wanted.get(name)}


async def assert_live_is_exactly(bus: Bus, store: VectorStore, fingerprint: str) -> None:
    """The alias points at the model's collection, and that is the catalogue."""
    assert await store.resolve_alias(TOOLS.alias) == TOOLS.name_collection(fingerprint)
    await eventually(lambda: differences(bus, store, TOOLS.name_collection(fingerprint)), lambda found: not found)


@dataclass
class Searches:
    """What a searcher found, which remembers the alias for a second, as the retriever does."""

    took_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    collections: list[str] = field(default_factory=list)
    """In the order in which they were searched first."""
    _answered: asyncio.Event = field(default_factory=asyncio.Event)

    def record_answer(self, collection: str) -> None:
        if collection not in self.collections:
            self.collections.append(collection)
        self._answered.set()

    async def until_answered_by(self, collection: str) -> None:
        """Wait for the first answer of a collection."""
        async with asyncio.timeout(5):
            while collection not in self.collections:
                self._answered.clear()
                await self._answered.wait()


@asynccontextmanager
async def searching(store: VectorStore, records: Sequence[SkillRecord]) -> AsyncGenerator[Searches]:
    """Search for these tools, one after the other, while the context is open."""
    seen = Searches()
    task = asyncio.create_task(_search(store, records, seen))
    try:
        yield seen
    finally:
        task.cancel()
        ended = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(ended, asyncio.CancelledError), repr(ended)


async def _search(store: VectorStore, records: Sequence[SkillRecord], seen: Searches) -> None:
    live, until, number = "", 0.0, 0
    while True:
        if time.monotonic() >= until:
            live, until = str(await store.resolve_alias(TOOLS.alias)), time.monotonic() + 1
        skill = records[number % len(records)].skill
        number += 1
        query = vector(parse_fingerprint(live), build_tool_dense_text(skill.name, skill.description, skill.tags))
        began = time.monotonic()
        ((best, *_),) = await store.query(live, [models.QueryRequest(query=query, using=DENSE, limit=1)])
        seen.took_s.append(time.monotonic() - began)
        if best.id != point_id(skill.project, f"{SKILL_ID_PREFIX}{skill.name}") or best.score < 0.999:
            seen.wrong.append(f"{skill.name} in {live}: {best}")
        seen.record_answer(live)
        await asyncio.sleep(0.001)
