"""A new default model takes both indexes to it; each can be told by itself to go, and to go back."""

import asyncio
from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import (
    LIST_INDEXES,
    ROLL_BACK,
    START_SWITCH,
    SWITCH_PROGRESSED,
    IndexSelector,
    SwitchPhase,
)
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.message import Empty
from skillbus.contracts.resources import EVENTS
from skillbus.indexer.settings import IndexerSettings
from skillbus.vectors import DENSE
from skillbus.vectors.datasets import KNOWLEDGE, TOOLS

from .conftest import Running
from .fake_embedder import DIMENSIONS, FakeEmbedder
from .fake_learner import FakeLearner, item, named
from .knowledge_steps import versions
from .switch_steps import state_of
from .test_tools import put, tool


@pytest.fixture
def settings(tmp_path: Path) -> IndexerSettings:
    return IndexerSettings(data=tmp_path / "data", reconcile_every_s=3600, switch_lease_s=1)


async def until_kept(bus: Bus, alias: str, fingerprint: str) -> None:
    def kept(state: object) -> bool:
        return str(state) == f"{fingerprint} {SwitchPhase.KEPT}"

    async def state() -> str:
        found = await state_of(bus, alias)
        return f"{found.live and found.live.fingerprint} {found.switch and found.switch.phase}"

    await eventually(state, kept, wait_s=10)


@pytest.fixture
async def filled(knowing: Running, learner: FakeLearner) -> Running:
    """Both indexes hold something."""
    items = [item(f"i{number}") for number in range(70)]
    await learner.write(*items)
    await put(knowing.bus, *(tool(f"t{number}") for number in range(3)))
    await learner.until_heard_of(*items)
    return knowing


async def test_a_new_default_model_switches_both_indexes(filled: Running, embedder: FakeEmbedder) -> None:
    await embedder.make_default(filled.bus, "bbbb")
    for dataset, count in ((TOOLS, 3), (KNOWLEDGE, 70)):
        await until_kept(filled.bus, dataset.alias, "bbbb")
        assert await filled.store.resolve_alias(dataset.alias) == dataset.name_collection("bbbb")
        points, _ = await filled.store.scroll(dataset.alias, with_vectors=(DENSE,))
        vectors = [point.vector[DENSE] for point in points if isinstance(point.vector, dict)]
        lengths = {len(vector) for vector in vectors if isinstance(vector, list)}
        assert (len(points), lengths) == (count, {DIMENSIONS["bbbb"]})
    listed = (await filled.bus.caller.call(LIST_INDEXES, Empty())).indexes
    assert [state.alias for state in listed if state.live] == ["tools", "knowledge"]
    last = (await filled.bus.jetstream.stream_info(EVENTS.name)).state.last_seq
    told = {(await filled.bus.jetstream.get_msg(EVENTS.name, at)).subject for at in range(1, last + 1)}
    assert {SWITCH_PROGRESSED.subject("tools"), SWITCH_PROGRESSED.subject("knowledge")} <= told


async def test_items_that_change_through_a_switch_are_in_both_collections(
    filled: Running, embedder: FakeEmbedder, learner: FakeLearner
) -> None:
    embedder.held, embedder.going = {"bbbb"}, asyncio.Event()
    await embedder.make_default(filled.bus, "bbbb")
    await eventually(
        lambda: state_of(filled.bus, "knowledge"),
        lambda state: state.switch and state.switch.phase is SwitchPhase.BACKFILLING,
    )
    gone = item("i0", version=2, status=KnowledgeStatus.ARCHIVED)
    changed, new = item("i1", "Other.", version=2), item("new")
    await learner.write(gone, changed, new)

    async def read() -> set[str]:
        return {key.id for keys in learner.read for key in keys}

    await eventually(read, lambda ids: new.id in ids)
    embedder.going.set()
    await learner.until_heard_of(gone, changed, new)
    await until_kept(filled.bus, "knowledge", "bbbb")
    wanted = {("default", named(f"i{number}")): 1 for number in range(2, 70)}
    wanted |= {("default", named("i1")): 2, ("default", named("new")): 1}
    assert await versions(filled.store) == wanted
    await filled.bus.caller.call(ROLL_BACK, IndexSelector(alias="knowledge"))
    assert await versions(filled.store) == wanted


async def test_an_index_is_rolled_back_and_started_again_without_the_other(
    filled: Running, embedder: FakeEmbedder
) -> None:
    call = filled.bus.caller.call
    await embedder.make_default(filled.bus, "bbbb")
    for alias in ("tools", "knowledge"):
        await until_kept(filled.bus, alias, "bbbb")
    back = await call(ROLL_BACK, IndexSelector(alias="knowledge"))
    assert (back.alias, back.live and back.live.fingerprint) == ("knowledge", "aaaa")
    assert await filled.store.resolve_alias(TOOLS.alias) == TOOLS.name_collection("bbbb")
    assert (await call(START_SWITCH, IndexSelector(alias="knowledge"))).alias == "knowledge"
    await until_kept(filled.bus, "knowledge", "bbbb")


async def test_an_index_that_is_not_there_is_not_found(knowing: Running) -> None:
    for endpoint in (START_SWITCH, ROLL_BACK):
        with pytest.raises(RequestError) as raised:
            await knowing.bus.caller.call(endpoint, IndexSelector(alias="nothing"))
        assert raised.value.code is ErrorCode.NOT_FOUND
