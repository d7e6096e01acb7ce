"""Servers followed by one replica and by several, while servers and catalogue change and fail."""

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest

from skillbus.agent.domain.errors import ServerUnknownError
from skillbus.agent.domain.servers.follower import FollowTiming, ServerFollower
from skillbus.agent.domain.servers.registration import RegisteredServer, ServerKey
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.contracts.agent.mcp_servers import McpServerState
from skillbus.contracts.indexer.tools import ToolState

from .fakes import NOW, QUICK, RAW, WAIT_S, FeedInMemory, Store, World, holds, tool

KEY = ServerKey("default", "raw")
NEVER_S = 300.0


async def test_a_server_is_listed_when_it_is_registered(world: World, servers: ServerRegistry) -> None:
    server = await servers.register(RAW, WAIT_S)
    assert (server.seen.state, server.seen.tools, server.seen.known_as) == (McpServerState.CONNECTED, 2, "raw")
    assert world.catalogue.list_ids() == ["mcp:raw/one", "mcp:raw/two"]
    ((kind, fact),) = world.facts
    assert (kind, fact.created) == ("listed", 2)


async def test_only_the_first_start_of_a_server_may_take_long_which_is_shown(
    world: World, servers: ServerRegistry
) -> None:
    world.server.starts_slowly = True
    server = await servers.register(RAW, WAIT_S)
    first, last = world.store.saved[1].seen, server.seen
    assert (first.state, "300 s" in (first.problem or "")) == (McpServerState.CONNECTING, True)
    assert (last.state, last.problem) == (McpServerState.CONNECTED, None)
    world.server.fails = "it is gone"
    world.server.on_change()
    assert await holds(lambda: world.store.kept[KEY].record.seen.state is McpServerState.FAILED)
    world.server.fails = None
    assert await holds(lambda: world.store.kept[KEY].record.seen.state is McpServerState.CONNECTED)
    assert world.server.first_starts[0]
    assert not any(world.server.first_starts[1:])


async def test_registering_again_replaces_and_takes_out_what_is_gone(world: World, servers: ServerRegistry) -> None:
    first = await servers.register(RAW, WAIT_S)
    world.server.tools = [tool("three")]
    second = await servers.register(RAW, WAIT_S)
    assert first.id != second.id
    assert world.catalogue.list_ids() == ["mcp:raw/three"]


async def test_a_change_that_is_heard_while_a_server_is_replaced_leaves_one_session(
    world: World, servers: ServerRegistry
) -> None:
    await servers.register(RAW, WAIT_S)
    world.server.ends = asyncio.Event()
    replacing = asyncio.create_task(servers.register(RAW, WAIT_S))
    world.changes.queue.put_nowait(KEY)
    for _ in range(20):
        await asyncio.sleep(0)  # both have come to where the first session ends
    world.server.ends.set()
    assert (await replacing).seen.state is McpServerState.CONNECTED
    assert await holds(world.changes.queue.empty)
    assert (world.server.opened, world.server.open_now) == (2, 1)
    await servers.unregister(KEY)
    assert world.server.open_now == 0


async def test_many_who_register_one_server_at_once_leave_one_session_and_none_waits_for_the_time_limit(
    world: World, servers: ServerRegistry
) -> None:
    async with asyncio.timeout(WAIT_S):
        registered = await asyncio.gather(*(servers.register(RAW, NEVER_S) for _ in range(3)))
    assert len({server.id for server in registered}) == 3
    follower = await servers.find_follower(KEY)
    await follower.wait_for_listing(WAIT_S)
    assert follower.server.id == world.store.kept[KEY].record.id
    assert (follower.server.seen.state, world.server.open_now) == (McpServerState.CONNECTED, 1)


async def test_a_registration_that_another_replaces_is_not_waited_for(world: World, servers: ServerRegistry) -> None:
    world.server.hangs = True
    first = asyncio.create_task(servers.register(RAW.model_copy(update={"timeout_s": 300.0}), 300.0))
    assert await holds(lambda: world.server.lists == 1)
    world.server.hangs = False
    await servers.register(RAW, WAIT_S)
    async with asyncio.timeout(WAIT_S):
        assert (await first).seen.state is McpServerState.CONNECTING


async def test_nobody_waits_for_a_follower_that_was_stopped_before_its_first_step(world: World) -> None:
    stored = await world.store.save_server(RegisteredServer(registration=RAW, id="first", registered_at=NOW), 0)
    follower = ServerFollower(stored.record, world.ports(), QUICK)
    waiting = asyncio.create_task(follower.wait_for_listing(NEVER_S))
    await asyncio.sleep(0)
    follower.start()
    async with asyncio.timeout(WAIT_S):
        await follower.stop()  # cancels it before the loop has run it
        await waiting
        await follower.relist(NEVER_S)
    assert follower.ended
    assert world.server.opened == 0


async def test_nothing_is_told_twice(world: World, servers: ServerRegistry) -> None:
    await servers.register(RAW, WAIT_S)
    await servers.refresh(KEY, WAIT_S)
    assert len(world.facts) == 1


async def test_a_server_that_says_its_list_changed_is_listed_again(world: World, servers: ServerRegistry) -> None:
    await servers.register(RAW, WAIT_S)
    world.server.tools = [tool("one"), tool("two", "Does another thing.")]
    world.server.on_change()
    assert await holds(lambda: world.catalogue.kept["default", "mcp:raw/two"][1] is ToolState.QUARANTINED)
    server = await servers.refresh(KEY, WAIT_S)
    assert (server.seen.quarantined, world.server.opened) == (1, 1)


@pytest.mark.parametrize("state", [ToolState.DISABLED, ToolState.QUARANTINED])
async def test_a_server_cannot_undo_what_an_operator_decided_by_listing_a_tool_no_longer_for_a_moment(
    world: World, servers: ServerRegistry, state: ToolState
) -> None:
    await servers.register(RAW, WAIT_S)
    two = "default", "mcp:raw/two"
    world.catalogue.kept[two] = world.catalogue.kept[two][0], state
    world.server.tools = [tool("one")]
    await servers.refresh(KEY, WAIT_S)
    world.server.tools = [tool("one"), tool("two", "Does another thing.")]
    await servers.refresh(KEY, WAIT_S)
    assert world.catalogue.kept[two][0].description == "Does something."
    assert world.catalogue.kept[two][1] is not ToolState.ACTIVE


async def test_a_server_does_not_shed_an_operators_mark_by_listing_a_tool_no_longer(
    world: World, servers: ServerRegistry
) -> None:
    await servers.register(RAW, WAIT_S)
    world.catalogue.marked.add(("default", "mcp:raw/two"))
    world.server.tools = [tool("one")]
    await servers.refresh(KEY, WAIT_S)
    assert "mcp:raw/two" in world.catalogue.list_ids()


async def test_a_server_that_says_nothing_is_listed_now_and_then(world: World) -> None:
    servers = ServerRegistry(world.ports(), FollowTiming(poll_every_s=0.02))
    async with servers.follow_all(world.changes):
        await servers.register(RAW, WAIT_S)
        world.server.tools = [tool("one")]
        assert await holds(lambda: world.catalogue.list_ids() == ["mcp:raw/one"])
    assert world.server.opened == 1


async def test_a_list_that_is_as_it_was_costs_the_catalogue_nothing_unless_it_is_asked_for(world: World) -> None:
    servers = ServerRegistry(world.ports(), FollowTiming(poll_every_s=0.01))
    async with servers.follow_all(world.changes):
        await servers.register(RAW, WAIT_S)
        asked, lists = world.catalogue.asked, world.server.lists
        assert await holds(lambda: world.server.lists > lists + 2)
        assert world.catalogue.asked == asked
        world.catalogue.kept.clear()
        await servers.refresh(KEY, WAIT_S)
        assert world.catalogue.list_ids() == ["mcp:raw/one", "mcp:raw/two"]


async def test_a_server_that_hangs_at_its_list_changes_nothing(world: World, servers: ServerRegistry) -> None:
    await servers.register(RAW, WAIT_S)
    world.server.hangs = True
    server = await servers.refresh(KEY, WAIT_S)
    assert (server.seen.state, server.seen.tools) == (McpServerState.FAILED, 2)
    assert world.catalogue.list_ids() == ["mcp:raw/one", "mcp:raw/two"]
    assert [kind for kind, _ in world.facts] == ["listed", "failed"]


async def test_a_server_that_fails_is_tried_again_and_told_of_once(world: World, servers: ServerRegistry) -> None:
    world.server.fails = "no route"
    server = await servers.register(RAW, WAIT_S)
    assert (server.seen.state, server.seen.problem) == (McpServerState.FAILED, "no route")
    world.server.fails = None
    assert await holds(lambda: world.store.kept[KEY].record.seen.state is McpServerState.CONNECTED)
    assert [kind for kind, _ in world.facts] == ["failed", "listed"]
    assert world.facts[0][1].problem == "no route"


async def test_a_catalogue_that_is_away_is_tried_again_in_the_same_session(
    world: World, servers: ServerRegistry
) -> None:
    world.catalogue.away = True
    server = await servers.register(RAW, WAIT_S)
    assert server.seen.state is McpServerState.CONNECTED
    assert "the catalogue is away" in (server.seen.problem or "")
    world.catalogue.away = False
    assert await holds(lambda: world.store.kept[KEY].record.seen.problem is None)
    assert (world.server.opened, world.catalogue.list_ids()) == (1, ["mcp:raw/one", "mcp:raw/two"])


async def test_a_removed_server_is_gone_with_its_tools_and_followed_no_longer(
    world: World, servers: ServerRegistry
) -> None:
    await servers.register(RAW, WAIT_S)
    assert await servers.unregister(KEY) == 2
    assert (world.catalogue.list_ids(), world.store.kept) == ([], {})
    with pytest.raises(ServerUnknownError):
        await servers.refresh(KEY, WAIT_S)


async def test_every_replica_follows_what_one_registered_and_none_what_one_removed(world: World) -> None:
    async with AsyncExitStack() as stack:
        feeds = [FeedInMemory(), FeedInMemory()]
        one, other = (ServerRegistry(world.ports(), QUICK) for _ in feeds)
        for servers, feed in zip((one, other), feeds, strict=True):
            await stack.enter_async_context(servers.follow_all(feed))
        await one.register(RAW, WAIT_S)
        feeds[1].queue.put_nowait(KEY)
        assert await holds(lambda: world.server.opened == 2)
        follower = await other.find_follower(KEY)
        await follower.wait_for_listing(WAIT_S)

        await one.unregister(KEY)
        world.server.on_change()  # the other has not heard of it: it lists once more, and takes back what it put
        assert await holds(lambda: world.catalogue.list_ids() == [])
        feeds[1].queue.put_nowait(KEY)
        assert await holds(lambda: not other._followers)
    assert world.catalogue.list_ids() == []


async def test_what_was_registered_before_the_start_is_followed(world: World) -> None:
    first = ServerRegistry(world.ports(), QUICK)
    async with first.follow_all(world.changes):
        await first.register(RAW, WAIT_S)
    opened = world.server.opened
    async with ServerRegistry(world.ports(), QUICK).follow_all(FeedInMemory()):
        assert await holds(lambda: world.server.opened == opened + 1)


class SwallowingStore(Store):
    """Waits for ever, and takes the first cancellation for the end of its wait, as nats-py can."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    async def list_servers(self) -> tuple[RegisteredServer, ...]:
        self.waits += 1
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ()


async def test_following_ends_also_if_a_cancellation_is_swallowed(world: World) -> None:
    store = world.store = SwallowingStore()
    async with asyncio.timeout(WAIT_S):
        async with ServerRegistry(world.ports(), QUICK).follow_all(world.changes):
            assert await holds(lambda: store.waits == 2)


@pytest.mark.parametrize(("failures", "least", "most"), [(1, 0.5, 1), (2, 1, 2), (4, 4, 8), (20, 150, 300)])
def test_retries_come_ever_later_and_never_together(failures: int, least: float, most: float) -> None:
    waits = {FollowTiming().compute_retry_s(failures) for _ in range(50)}
    assert len(waits) > 1
    assert least <= min(waits) <= max(waits) <= most
