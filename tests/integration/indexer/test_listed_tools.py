"""What is kept in memory of the catalogue, against what the bucket holds."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from nats.aio.msg import Msg
from nats.js import JetStreamContext

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.provision import provision
from skillbus.contracts.indexer.tools import ToolDescription, ToolState, ToolSummary
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.adapters.kv_catalogue import make_tool_key, open_tools
from skillbus.indexer.adapters.kv_listed_tools import open_listed_tools
from skillbus.indexer.domain.catalogue.ports import ListedTools, ToolCatalogue
from skillbus.indexer.domain.catalogue.tool import ToolRecord, hash_description
from skillbus.indexer.domain.record.ports import RecordUpdate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STREAM = f"KV_{CATALOGUE.name}"


def record(name: str, description: str = "Does something.", project: str = "default") -> ToolRecord:
    tool = ToolDescription(id=f"lab.{name}", name=name, description=description, tags=("Lab",))
    return ToolRecord(project=project, tool=tool, digest=hash_description(tool), created_at=NOW, updated_at=NOW)


async def ids(listed: ListedTools, project: str = "default") -> list[str]:
    return [tool.id for tool in await listed.list_project(project)]


async def save(tools: ToolCatalogue, tool: ToolRecord, over: int) -> int:
    [revision] = await tools.save_records([RecordUpdate(tool, over)])
    assert revision is not None
    return revision


async def write(tools: ToolCatalogue, records: Sequence[ToolRecord]) -> None:
    for one in records:
        await save(tools, one, 0)


async def test_what_one_replica_writes_and_removes_every_other_lists_at_once(bus: Bus) -> None:
    tools = open_tools(bus)
    here, there = open_listed_tools(bus), open_listed_tools(bus)
    assert await ids(here) == []
    revision = await save(tools, record("b"), 0)
    assert await ids(here) == ["lab.b"]
    await save(tools, record("a"), 0)
    assert await ids(here) == await ids(there) == ["lab.a", "lab.b"]
    await tools.delete_records({record("b").key: revision})
    assert await ids(here) == await ids(there) == ["lab.a"]
    await save(tools, record("b", "Is back."), revision + 2)
    assert await ids(here) == await ids(there) == ["lab.a", "lab.b"]


async def test_a_tool_is_listed_as_its_record_says(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    first = record("a")
    revision = await save(tools, first, 0)
    assert (await listed.find([first.key, ("default", "lab.x")]))[first.key].unchanged_digest == first.digest
    held = first.model_copy(update={"accepted": False})
    revision = await save(tools, held, revision)
    found = (await listed.find([first.key]))[first.key]
    assert (found.state, found.unchanged_digest, found.tags) == (ToolState.QUARANTINED, None, ("lab",))
    await save(tools, record("a", "long " * 1_000), revision)
    assert len(ToolSummary.model_validate_json((await listed.list_project("default"))[0].summary).description) == 200


async def test_a_project_lists_nothing_of_another(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    await write(tools, [record("a"), record("b", project="other")])
    assert (await ids(listed), await ids(listed, "other"), await ids(listed, "none")) == (["lab.a"], ["lab.b"], [])
    assert await listed.find([("other", "lab.a")]) == {}


async def test_what_is_not_to_be_found_is_counted_in_a_project_and_in_all(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    disabled = {"disabled": True}
    await write(tools, [record("a"), record("b").model_copy(update=disabled)])
    await write(tools, [record("c", project="other").model_copy(update=disabled)])
    counts = []
    for project in ("default", "other", "none", None):
        tools_of_project = await listed.list_all(project)
        counts.append(sum(tool.state is not ToolState.ACTIVE for tool in tools_of_project))
    assert counts == [1, 1, 0, 2]


async def test_what_no_indexer_wrote_is_not_listed_and_takes_nothing_along(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    bucket = await bus.jetstream.key_value(CATALOGUE.name)
    for key in ("default.tool.0123", "default.skill.nothing", "default.else", "default"):
        await bucket.put(key, b"{")
    await save(tools, record("a"), 0)
    assert await ids(listed) == ["lab.a"]


async def test_a_read_that_was_cut_short_goes_on_where_it_was(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    names = [f"{number:04}" for number in range(600)]
    await write(tools, [record(name) for name in names])
    for _ in range(5):
        reading = asyncio.create_task(ids(listed))
        await asyncio.wait([reading], timeout=0.01)
        reading.cancel()
        await asyncio.wait([reading])
    assert await ids(listed) == [f"lab.{name}" for name in names]


class LosesOne(JetStreamContext):
    """A connection that loses the second message that a consumer sends over it, once."""

    lost = False

    async def pull_subscribe(self, subject: str, **given: Any) -> JetStreamContext.PullSubscription:  # type: ignore[override]
        consumer = await super().pull_subscribe(subject, **given)
        fetch = consumer.fetch

        async def fetch_and_lose(*args: Any, **more: Any) -> list[Msg]:
            messages = await fetch(*args, **more)
            if not self.lost:
                self.lost = True
                del messages[1]
            return messages

        consumer.fetch = fetch_and_lose  # type: ignore[method-assign]  # of this one only
        return consumer


async def test_what_was_lost_on_the_way_is_read_again(bus: Bus) -> None:
    tools, jetstream = open_tools(bus), LosesOne(bus.client)
    await write(tools, [record(name) for name in "abcdef"])
    assert await ids(open_listed_tools(replace(bus, jetstream=jetstream))) == [f"lab.{name}" for name in "abcdef"]
    assert jetstream.lost


async def test_readers_beside_writers_end_with_what_was_written(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)

    async def change(name: str) -> None:
        revision = 0
        for number in range(10):  # more than the bucket keeps of a key
            revision = await save(tools, record(name, f"The {number}th."), revision)
            assert f"lab.{name}" in await ids(listed)

    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(change(str(number)))
    summaries = [ToolSummary.model_validate_json(tool.summary) for tool in await listed.list_project("default")]
    assert {summary.description for summary in summaries} == {"The 9th."}
    assert len(summaries) == 20


async def test_a_bucket_that_was_emptied_or_made_again_is_read_anew(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    await write(tools, [record("a"), record("b")])
    assert await ids(listed) == ["lab.a", "lab.b"]
    await bus.jetstream.purge_stream(STREAM)
    assert await ids(listed) == []
    await save(tools, record("c"), 0)
    assert await ids(listed) == ["lab.c"]
    await bus.jetstream.delete_stream(STREAM)
    await provision(bus.jetstream)
    await write(tools, [record(name) for name in "defgh"])
    assert await ids(listed) == [f"lab.{name}" for name in "defgh"]


async def test_the_last_message_of_the_stream_may_be_gone(bus: Bus) -> None:
    tools, listed = open_tools(bus), open_listed_tools(bus)
    await save(tools, record("a"), 0)
    await save(tools, record("b"), 0)
    await bus.jetstream.purge_stream(STREAM, subject=f"$KV.{CATALOGUE.name}.{make_tool_key('default', 'lab.b')}")
    assert await ids(listed) == ["lab.a"]
