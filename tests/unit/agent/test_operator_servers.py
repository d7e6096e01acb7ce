"""MCP servers of the operator's file: what it may say, and that nothing else starts a command."""

import json

import pytest
from pydantic import JsonValue

from skillbus.agent.domain.errors import ServerFailedError, ServerInFileError, ServerUnknownError
from skillbus.agent.domain.servers.operator_file import CommandServer, OperatorFileError, parse_operator_file
from skillbus.agent.domain.servers.operator_servers import OperatorServers
from skillbus.agent.domain.servers.registration import FileServerRecord, RegisteredServer, ServerKey
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.contracts.agent.mcp_servers import McpServerSource, McpServerState, McpTransport, RegisterMcpServer

from .fakes import NOW, QUICK, WAIT_S, FeedInMemory, FileInMemory, Store, World, holds, tool

KEY = ServerKey("default", "files")
ENTRY: dict[str, JsonValue] = {"command": "npx", "args": ["-y", "files"], "env": {"KEY": "canary-4711"}, "timeout_s": 1}
OLD = (
    '{"project":"default","name":"files","url":null,"headers":{},"command":"/bin/sh","args":[],"env":{},"timeout_s":20}'
)


def test_a_file_of_a_desktop_client_is_read_with_commands_urls_and_what_others_put_into_it() -> None:
    document = {
        "globalShortcut": "Ctrl+Space",
        "mcpServers": {
            "files": ENTRY | {"type": "stdio", "disabled": False},
            "other": {"url": "https://a.example/mcp", "headers": {"A": "env:B"}, "project": "p"},
            "off": {"command": "npx", "disabled": True},
        },
    }
    files, other = parse_operator_file(json.dumps(document).encode()).values()
    assert files == CommandServer.model_validate({"name": "files", **ENTRY})
    assert other == RegisterMcpServer(project="p", name="other", url="https://a.example/mcp", headers={"A": "env:B"})
    assert parse_operator_file(b"{}") == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON (line 1"),
        (b'{"mcpServers": {}', "not JSON (line 1"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b'{"mcpServers": []}', "not an object"),
        (b'{"mcpServers": {"A b": {"command": "canary"}}}', "mcpServers.A b: a name has"),
        (b'{"mcpServers": {"a": "canary"}}', "mcpServers.a: give either"),
        (b'{"mcpServers": {"a": {}}}', "mcpServers.a: give either"),
        (b'{"mcpServers": {"a": {"command": "canary", "url": "http://a/mcp"}}}', "mcpServers.a: give either"),
        (b'{"mcpServers": {"a": {"command": ""}}}', "mcpServers.a.command"),
        (b'{"mcpServers": {"a": {"command": "b", "args": "canary"}}}', "mcpServers.a.args"),
        (b'{"mcpServers": {"a": {"command": "b", "env": {"K": 8080}}}}', "mcpServers.a.env.K"),
        (b'{"mcpServers": {"a": {"command": "b", "env": {"K=": "canary"}}}}', "mcpServers.a.env"),
        (b'{"mcpServers": {"a": {"url": "ftp://canary"}}}', "mcpServers.a.url"),
        (b'{"mcpServers": {"a": {"command": "b", "timeout_s": 0}}}', "mcpServers.a.timeout_s"),
    ],
)
def test_a_file_that_cannot_be_used_names_the_place_and_no_value(content: bytes, said: str) -> None:
    with pytest.raises(OperatorFileError) as caught:
        parse_operator_file(content)
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)


async def test_a_server_of_the_file_is_followed_and_only_names_of_its_variables_leave_the_agent(
    world: World, servers: ServerRegistry
) -> None:
    world.file.write_servers(files=ENTRY)
    server = await servers.refresh(KEY, WAIT_S)
    assert (server.seen.state, world.catalogue.list_ids()) == (
        McpServerState.CONNECTED,
        ["mcp:files/one", "mcp:files/two"],
    )
    shown = server.describe()
    assert (shown.source, shown.transport, shown.env_names) == (McpServerSource.FILE, McpTransport.STDIO, ("KEY",))
    assert "canary" not in world.store.kept[KEY].record.model_dump_json() + shown.model_dump_json()


async def test_a_change_of_the_file_is_followed_without_a_request(world: World, servers: ServerRegistry) -> None:
    world.file.write_servers(files=ENTRY)
    assert await holds(lambda: len(world.catalogue.list_ids()) == 2)
    world.server.tools = [tool("three")]
    world.file.write_servers(files=ENTRY | {"args": []}, other={"url": "http://other/mcp"})
    assert await holds(lambda: world.catalogue.list_ids() == ["mcp:files/three", "mcp:other/three"])
    world.file.write_servers(other={"url": "http://other/mcp"})
    assert await holds(lambda: world.catalogue.list_ids() == ["mcp:other/three"])
    assert world.server.open_now == 1
    with pytest.raises(ServerUnknownError):
        await servers.refresh(KEY, WAIT_S)


async def test_an_entry_that_stays_keeps_its_session(world: World, servers: ServerRegistry) -> None:
    world.file.write_servers(files=ENTRY)
    await servers.refresh(KEY, WAIT_S)
    world.file.write_servers(files=ENTRY, other={"url": "http://other/mcp"})
    await servers.refresh(ServerKey("default", "other"), WAIT_S)
    await servers.refresh(KEY, WAIT_S)
    assert world.server.opened == 2


@pytest.mark.parametrize("refused", [True, False])
async def test_a_broken_file_keeps_the_servers_of_its_last_good_state(
    world: World, servers: ServerRegistry, refused: bool
) -> None:
    world.file.write_servers(files=ENTRY)
    await servers.refresh(KEY, WAIT_S)
    if refused:
        world.file.problem = "run chmod"
    else:
        world.file.content = b'{"mcpServers": {'
    assert (await servers.refresh(KEY, WAIT_S)).seen.state is McpServerState.CONNECTED
    store = servers._ports.store
    assert (bool(store.problem), world.server.opened) == (True, 1)
    world.file.problem = None
    world.file.write_servers(files=ENTRY)
    await servers.refresh(KEY, WAIT_S)
    assert (bool(store.problem), world.server.opened) == (False, 1)


async def test_a_server_that_leaves_the_file_while_skillbus_is_down_is_removed_at_its_start(world: World) -> None:
    world.file.write_servers(files=ENTRY)
    async with (first := ServerRegistry(world.ports(), QUICK)).follow_all(world.changes):
        await first.refresh(KEY, WAIT_S)
    left = FileInMemory()
    async with ServerRegistry(world.ports(left), QUICK).follow_all(FeedInMemory()):
        assert await holds(lambda: not world.store.kept and not world.catalogue.list_ids())


async def test_nothing_is_removed_because_the_file_is_broken_at_the_start(world: World) -> None:
    world.file.write_servers(files=ENTRY)
    async with (first := ServerRegistry(world.ports(), QUICK)).follow_all(world.changes):
        await first.refresh(KEY, WAIT_S)
    broken = FileInMemory()
    broken.content = b"{"
    servers = ServerRegistry(world.ports(broken), QUICK)
    async with servers.follow_all(FeedInMemory()):
        broken.content = b"["  # only the task that watches the file reads it
        assert await holds(lambda: broken.was_read == (b"[", None))
        assert await holds(lambda: world.server.opened == 2)
        assert [server.key for server in await servers.list_servers("default")] == [KEY]
        assert len(world.catalogue.list_ids()) == 2
        with pytest.raises(ServerFailedError, match="not JSON"):
            servers._ports.store.find_server(world.store.kept[KEY].record.registration)


async def test_no_request_changes_a_server_of_the_file(world: World, servers: ServerRegistry) -> None:
    world.file.write_servers(files=ENTRY)
    await servers.refresh(KEY, WAIT_S)
    with pytest.raises(ServerInFileError, match=r"mcp\.json"):
        await servers.register(RegisterMcpServer(name="files", url="http://evil/mcp"), WAIT_S)
    with pytest.raises(ServerInFileError, match="skillbus mcp remove"):
        await servers.unregister(KEY)
    assert (await servers.get_server(KEY)).is_in_file


async def test_a_registered_server_is_replaced_by_one_of_the_file(world: World, servers: ServerRegistry) -> None:
    await servers.register(RegisterMcpServer(name="files", url="http://files/mcp"), WAIT_S)
    world.file.write_servers(files=ENTRY)
    assert (await servers.refresh(KEY, WAIT_S)).is_in_file
    assert world.server.open_now == 1


@pytest.mark.parametrize("registration", [OLD, OLD.replace('"url":null,', "").replace('"env"', '"in_file":true,"env"')])
async def test_a_record_of_the_store_starts_nothing_whatever_it_says(registration: str) -> None:
    """Earlier versions stored commands, and whoever can write the bucket may forge a record."""
    text = f'{{"registration":{registration},"id":"forged","registered_at":"{NOW.isoformat()}"}}'
    record = RegisteredServer.model_validate_json(text)
    assert isinstance(record.registration, FileServerRecord)
    assert "/bin/sh" not in record.model_dump_json()
    store, file = Store(), FileInMemory()
    servers = OperatorServers(file, store, lambda: NOW)
    await servers.load_file()
    with pytest.raises(ServerFailedError, match=r"mcp\.json"):
        servers.find_server(record.registration)
    # With an entry of that name, it is the entry that is started.
    file.write_servers(files=ENTRY)
    await servers.load_file()
    assert servers.find_server(record.registration) == CommandServer.model_validate({"name": "files", **ENTRY})


async def test_two_replicas_with_one_file_both_follow_it_and_both_let_go(world: World) -> None:
    files = [FileInMemory(), FileInMemory()]
    one, other = (ServerRegistry(world.ports(file), QUICK) for file in files)
    feeds = [FeedInMemory(), FeedInMemory()]
    async with one.follow_all(feeds[0]), other.follow_all(feeds[1]):
        for file in files:
            file.write_servers(files=ENTRY)
        await one.refresh(KEY, WAIT_S)
        await (await other.find_follower(KEY)).wait_for_listing(WAIT_S)
        assert (world.server.open_now, len(world.catalogue.list_ids())) == (2, 2)
        for file in files:
            file.write_servers()
        assert await holds(lambda: world.server.open_now == 0)
        assert await holds(lambda: not world.catalogue.list_ids() and not world.store.kept)
