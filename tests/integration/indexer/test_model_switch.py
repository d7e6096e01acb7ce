"""The index goes to another model on a real nats-server with Qdrant Edge, while it is searched and written."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import (
    ROLL_BACK,
    START_SWITCH,
    SWITCH_PROGRESSED,
    IndexSelector,
    SwitchPhase,
    SwitchProgress,
)
from skillbus.contracts.indexer.skills import UNINSTALL_SKILL, SkillSelector
from skillbus.contracts.resources import EVENTS
from skillbus.indexer.adapters.kv_catalogue import KvSkills
from skillbus.indexer.adapters.points.tool_points import ToolPoints
from skillbus.indexer.adapters.vector_collections import StoredCollections
from skillbus.indexer.domain.catalogue.entry import make_skill_entry
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import DENSE, VectorStore
from skillbus.vectors.datasets import TOOLS

from .conftest import Package, Running
from .fake_embedder import FakeEmbedder
from .switch_steps import (
    assert_live_is_exactly,
    differences,
    install_many,
    searching,
    state_of,
    until_phase,
)


@pytest.fixture
def settings(tmp_path: Path) -> IndexerSettings:
    return IndexerSettings(data=tmp_path / "data", reconcile_every_s=3600, switch_lease_s=1)


async def progress(bus: Bus) -> list[SwitchProgress]:
    """All that was said of switches."""
    state = (await bus.jetstream.stream_info(EVENTS.name)).state
    messages = [await bus.jetstream.get_msg(EVENTS.name, at) for at in range(1, state.last_seq + 1)]
    said = [m.data or b"" for m in messages if m.subject == SWITCH_PROGRESSED.subject("tools")]
    return [SwitchProgress.model_validate_json(data) for data in said]


async def test_searches_find_all_through_a_switch_while_skills_come_change_and_go(
    running: Running, package: Package, embedder: FakeEmbedder
) -> None:
    await install_many(running, package, 130)
    stable = [record for record in await KvSkills(running.bus).load_all() if record.name != "tool-0"]
    embedder.delay_s = 0.15

    async def write() -> None:
        for number in range(1000):
            name = f"new-{number}"
            await running.install(package(name, "Came meanwhile."))
            await running.install(package("tool-0", f"Changed for the {number}. time."))
            if number % 2:
                await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name=name))

    async with searching(running.store, stable) as searches:
        writer = asyncio.create_task(write())
        await embedder.make_default(running.bus, "bbbb")
        await until_phase(running.bus, SwitchPhase.KEPT, wait_s=20)
        await searches.until_answered_by(TOOLS.name_collection("bbbb"))
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
    assert searches.wrong == []
    assert searches.collections == [TOOLS.name_collection("aaaa"), TOOLS.name_collection("bbbb")]
    assert len(searches.took_s) > 100
    await assert_live_is_exactly(running.bus, running.store, "bbbb")
    phases = list(dict.fromkeys(said.switch.phase for said in await progress(running.bus)))
    assert phases == [SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING, SwitchPhase.KEPT]


async def test_a_rollback_goes_back_to_an_index_that_was_written_meanwhile(
    running: Running, package: Package, embedder: FakeEmbedder
) -> None:
    await install_many(running, package, 5)
    await embedder.make_default(running.bus, "bbbb")
    await until_phase(running.bus, SwitchPhase.KEPT)
    await running.install(package("late", "Installed after the switch."))
    await running.bus.caller.call(UNINSTALL_SKILL, SkillSelector(name="tool-0"))

    state = await running.bus.caller.call(ROLL_BACK, IndexSelector())
    assert state.live is not None
    assert state.live.fingerprint == "aaaa"
    await assert_live_is_exactly(running.bus, running.store, "aaaa")
    with pytest.raises(RequestError) as refused:
        await running.bus.caller.call(ROLL_BACK, IndexSelector())
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.CONFLICT, False)

    await running.bus.caller.call(START_SWITCH, IndexSelector())
    await until_phase(running.bus, SwitchPhase.KEPT)
    await assert_live_is_exactly(running.bus, running.store, "bbbb")


async def test_an_unknown_index_is_not_found(running: Running) -> None:
    for endpoint in (START_SWITCH, ROLL_BACK):
        with pytest.raises(RequestError) as missing:
            await running.bus.caller.call(endpoint, IndexSelector(alias="nothing"))
        assert missing.value.code is ErrorCode.NOT_FOUND


async def test_an_embedder_that_goes_away_in_the_middle_holds_the_switch_up_and_nothing_else(
    running: Running, package: Package, embedder: FakeEmbedder
) -> None:
    await install_many(running, package, 5)
    records = await KvSkills(running.bus).load_all()
    embedder.held = {"bbbb"}
    embedder.going.clear()
    await embedder.make_default(running.bus, "bbbb")
    await until_phase(running.bus, SwitchPhase.BACKFILLING)
    async with searching(running.store, records) as searches:
        embedder.down = True
        embedder.going.set()
        await eventually(lambda: state_of(running.bus), lambda state: state.switch and state.switch.problem)
        embedder.down = False
        state = await until_phase(running.bus, SwitchPhase.KEPT)
    assert state.switch is not None
    assert state.switch.problem is None
    assert searches.wrong == []
    await assert_live_is_exactly(running.bus, running.store, "bbbb")


async def test_another_default_in_the_middle_is_gone_to_instead(
    running: Running, package: Package, embedder: FakeEmbedder
) -> None:
    await install_many(running, package, 5)
    embedder.held = {"bbbb"}
    embedder.going.clear()
    await embedder.make_default(running.bus, "bbbb")
    await until_phase(running.bus, SwitchPhase.BACKFILLING)
    await embedder.make_default(running.bus, "cccc")
    await until_phase(running.bus, SwitchPhase.KEPT, fingerprint="cccc")
    await assert_live_is_exactly(running.bus, running.store, "cccc")
    assert embedder.embedded.get("bbbb") is None
    # What was begun for the other model goes when the last search that may be on it is over.
    wanted = [TOOLS.name_collection("aaaa"), TOOLS.name_collection("cccc")]
    await eventually(running.store.list_collections, lambda names: names == wanted, wait_s=8)


async def test_two_replicas_make_one_switch_and_one_goes_on_when_the_other_stops(
    bus: Bus, store: VectorStore, package: Package, embedder: FakeEmbedder, tmp_path: Path
) -> None:
    def of(name: str) -> IndexerSettings:
        return IndexerSettings(data=tmp_path / name, reconcile_every_s=3600, switch_lease_s=1)

    async with open_indexer(bus, of("one"), store):
        async with open_indexer(bus, of("two"), store):
            await install_many(Running(bus, store, tmp_path / "one"), package, 70)
            embedder.held = {"bbbb"}
            embedder.going.clear()
            await embedder.make_default(bus, "bbbb")
            await until_phase(bus, SwitchPhase.BACKFILLING)
            # Stopping waits for events that are being handled, and these may wait for the embedder.
            asyncio.get_running_loop().call_later(0.2, embedder.going.set)
        await until_phase(bus, SwitchPhase.KEPT)
        await assert_live_is_exactly(bus, store, "bbbb")


async def test_vectors_of_a_model_that_answers_in_place_of_another_never_reach_a_collection(
    running: Running, package: Package, embedder: FakeEmbedder
) -> None:
    await install_many(running, package, 3)
    embedder.without_dense = {"aaaa"}
    late = await running.install(package("late", "Comes without a vector."))
    assert late.skill.indexed
    found = await differences(running.bus, running.store, TOOLS.name_collection("aaaa"))
    assert found == {"late": ("no dense vector", found["late"][1])}
    points, _ = await running.store.scroll(TOOLS.name_collection("aaaa"), with_vectors=(DENSE,))
    assert sum(DENSE in (point.vector or {}) for point in points) == 3


async def test_writing_points_again_while_the_model_is_lost_keeps_the_vectors_that_are_up_to_date(
    running: Running, package: Package, embedder: FakeEmbedder
) -> None:
    await install_many(running, package, 2)
    collection = TOOLS.name_collection("aaaa")
    entries = [make_skill_entry(record) for record in await KvSkills(running.bus).load_all()]
    kept, changed = (entry for entry in entries if entry is not None)
    changed = replace(changed, description="Changed while the model is lost.", digest="0" * 64)
    embedder.without_dense = {"aaaa"}
    tools = StoredCollections(running.store, ToolPoints(running.bus.caller))
    # A comparison that saw installations in flight writes their points again.
    assert not await tools.write_points(collection, [kept, changed])
    found = await differences(running.bus, running.store, collection)
    assert {name: stored for name, (stored, _) in found.items()} == {changed.name: "no dense vector"}


async def test_the_old_index_is_removed_when_its_time_is_over(
    bus: Bus, store: VectorStore, package: Package, embedder: FakeEmbedder, tmp_path: Path
) -> None:
    settings = IndexerSettings(data=tmp_path / "data", reconcile_every_s=3600, keep_old_index_s=0.5)
    async with open_indexer(bus, settings, store):
        await install_many(Running(bus, store, settings.data), package, 3)
        await embedder.make_default(bus, "bbbb")
        await until_phase(bus, SwitchPhase.DONE)
        assert await store.resolve_alias(TOOLS.alias) == TOOLS.name_collection("bbbb")
        await eventually(store.list_collections, lambda names: names == [TOOLS.name_collection("bbbb")], wait_s=8)
        with pytest.raises(RequestError) as refused:
            await bus.caller.call(ROLL_BACK, IndexSelector())
        assert refused.value.code is ErrorCode.CONFLICT


async def test_a_default_that_changed_while_no_indexer_ran_is_gone_to_at_start(
    bus: Bus, store: VectorStore, package: Package, embedder: FakeEmbedder, settings: IndexerSettings
) -> None:
    async with open_indexer(bus, settings, store):
        await install_many(Running(bus, store, settings.data), package, 3)
    embedder.default = "bbbb"
    async with open_indexer(bus, settings, store):
        await until_phase(bus, SwitchPhase.KEPT)
        await assert_live_is_exactly(bus, store, "bbbb")


async def test_the_state_of_a_switch_can_be_read_as_json(running: Running, embedder: FakeEmbedder) -> None:
    await eventually(lambda: state_of(running.bus), lambda state: state.live)
    await embedder.make_default(running.bus, "bbbb")
    state = await until_phase(running.bus, SwitchPhase.KEPT)
    shown = json.loads(state.model_dump_json())
    assert shown["switch"]["source"]["name"] == "model-aaaa"
    assert shown["live"] == shown["switch"]["target"] == {
        "collection": "tools-bbbb-v2", "fingerprint": "bbbb", "name": "model-bbbb", "dimensions": 24,
    }  # fmt: skip
