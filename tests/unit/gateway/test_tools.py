"""Tools, MCP servers and the audit over HTTP."""

from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    ListMcpServers,
    McpServer,
    McpServerRemoved,
    McpServerSelector,
    McpServersListed,
    McpServerState,
    McpTransport,
    RegisterMcpServer,
)
from skillbus.contracts.agent.tool_calls import (
    AUDIT_CALLABLE,
    CALL_TOOL,
    AuditCallable,
    CallableAudited,
    CallTool,
    ToolCalled,
)
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tool_approval import SET_TOOL_APPROVAL, SetToolApproval
from skillbus.contracts.indexer.tools import (
    ACCEPT_TOOL,
    AUDIT_INDEX,
    GET_TOOL,
    LIST_TOOLS,
    REMOVE_TOOLS,
    SET_TOOL_STATE,
    AcceptTool,
    AuditDifference,
    AuditIndex,
    CatalogueTool,
    GetTool,
    IndexAudited,
    ListTools,
    RemoveTools,
    SetToolState,
    ToolDescription,
    ToolsListed,
    ToolsRemoved,
    ToolState,
    ToolType,
)
from skillbus.contracts.message import Message

from .fakes import KEY, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOOL = CatalogueTool(
    tool=ToolDescription(id="mcp:files/read_file", name="read_file", source="mcp:files"),
    state=ToolState.QUARANTINED,
    digest="0" * 64,
    pending_digest="1" * 64,
    created_at=NOW,
    updated_at=NOW,
)
SERVER = McpServer(
    name="files",
    transport=McpTransport.HTTP,
    address="https://mcp.example.com/mcp",
    header_names=("Authorization",),
    timeout_s=20,
    state=McpServerState.CONNECTED,
    tools=3,
    registered_at=NOW,
)
RUN = "0123456789abcdef" * 2
IDS = ["mcp:files/read_file", "a//b", "a/../b", "..", "accept", "x/call", "天气 %2F?#&", "search"]


async def test_the_catalogue_is_listed_by_page_with_every_filter() -> None:
    world = World()
    world.caller.on(LIST_TOOLS, lambda _: ToolsListed(tools=(), total=0))
    query = "project=p&limit=7&after=b&tool_types=mcp&tool_types=builtin&states=quarantined&source=mcp:x&tag=t&text=天"
    async with world.client() as client:
        answer = await client.get(f"/api/tools?{query}")
        refused = await client.get("/api/tools", params={"tool_types": "robot"})
    assert answer.status_code == 200
    assert world.caller.asked[0][1] == ListTools(
        project="p",
        limit=7,
        after="b",
        tool_types=(ToolType.MCP, ToolType.BUILTIN),
        states=(ToolState.QUARANTINED,),
        source="mcp:x",
        tag="t",
        text="天",
    )
    assert refused.status_code == 400


@pytest.mark.parametrize("tool_id", IDS)
async def test_a_tool_is_reached_by_its_id_whatever_it_holds(tool_id: str) -> None:
    world = World()
    for endpoint in (GET_TOOL, ACCEPT_TOOL, SET_TOOL_STATE, SET_TOOL_APPROVAL):
        world.caller.on(endpoint, lambda _: TOOL)
    world.caller.on(REMOVE_TOOLS, lambda _: ToolsRemoved(ids=(tool_id,)))
    world.caller.on(CALL_TOOL, lambda _: ToolCalled(id=tool_id, run_id=RUN, duration_ms=1))
    path = f"/api/tools/{quote(tool_id, safe='').replace('.', '%2E')}"
    async with world.client() as client:
        answers = [
            await client.get(path, params={"project": "p"}),
            await client.post(f"{path}/accept?project=p", json={"digest": "1" * 64}),
            await client.post(f"{path}/enable?project=p"),
            await client.post(f"{path}/disable?project=p"),
            await client.post(f"{path}/approval?project=p", json={"required": True}),
            await client.post(f"{path}/call?project=p", json={"arguments": {"path": "a"}, "run_id": RUN}),
            await client.delete(path, params={"project": "p"}),
        ]
    assert [answer.status_code for answer in answers] == [200] * 7
    assert [request for _, request in world.caller.asked] == [
        GetTool(project="p", id=tool_id),
        AcceptTool(project="p", id=tool_id, digest="1" * 64),
        SetToolState(project="p", id=tool_id, enabled=True),
        SetToolState(project="p", id=tool_id, enabled=False),
        SetToolApproval(project="p", id=tool_id, required=True),
        CallTool(project="p", id=tool_id, arguments={"path": "a"}, run_id=RUN),
        RemoveTools(project="p", ids=(tool_id,)),
    ]


async def test_slashes_of_an_id_may_stand_as_they_are() -> None:
    world = World()
    world.caller.on(GET_TOOL, lambda _: TOOL)
    async with world.client() as client:
        assert (await client.get("/api/tools/mcp:files/read_file")).json() == TOOL.model_dump(mode="json")
    assert world.caller.asked[0][1] == GetTool(id="mcp:files/read_file")


@pytest.mark.parametrize("path", ["/api/tools/", "/api/tools/%20a", f"/api/tools/{'a' * 301}", "/api/tools/a%00b"])
async def test_what_cannot_be_an_id_is_an_invalid_request(path: str) -> None:
    async with World().client() as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "id")


async def test_a_tool_that_is_not_there_cannot_be_removed() -> None:
    world = World()
    world.caller.on(REMOVE_TOOLS, lambda _: ToolsRemoved(ids=()))
    async with world.client() as client:
        answer = await client.delete("/api/tools/nobody")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_tools_are_removed_by_their_source_or_by_many_ids_and_never_all_of_them_by_mistake() -> None:
    world = World()
    world.caller.on(REMOVE_TOOLS, lambda _: ToolsRemoved(ids=("a",)))
    async with world.client() as client:
        of_source = await client.delete("/api/tools?source=mine&project=p")
        by_id = await client.delete("/api/tools?id=a%2Fb&id=..")
        refused = [await client.delete(f"/api/tools{query}") for query in ("", "?source=mcp:files", "?source=skills")]
    assert (of_source.json(), by_id.status_code) == ({"ids": ["a"]}, 200)
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(400, "invalid_request")] * 3
    assert [request for _, request in world.caller.asked] == [
        RemoveTools(project="p", source="mine"),
        RemoveTools(ids=("a/b", "..")),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/api/tools/mcp:files/read_file",
        "/api/tools/mcp%3Afiles%2Fread_file",
        "/api/tools?id=mcp:files/read_file",
        "/api/tools?id=mine&id=mcp%3Afiles%2Fread_file",
        "/api/tools?id=mcp:files/read_file&source=mine",
    ],
)
async def test_a_tool_of_an_mcp_server_leaves_quarantine_by_no_removal_of_an_editor(path: str) -> None:
    world = World(key=KEY)
    world.caller.on(REMOVE_TOOLS, lambda _: ToolsRemoved(ids=("mcp:files/read_file",)))
    async with world.client(world.add_key(Role.EDITOR, "*")) as editor:
        refused = await editor.delete(path)
        of_source = await editor.delete("/api/tools?source=mcp:files")
        listed_again = await editor.post("/api/audit", json={"fix": True})
        assert not world.caller.asked
        own = await editor.delete("/api/tools?id=mine")
    async with world.client(world.add_key(Role.ADMIN, "*")) as admin:
        removed = await admin.delete(path)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "admin" in refused.json()["detail"]
    assert listed_again.status_code == 403
    assert [of_source.status_code, own.status_code, removed.status_code] == [400, 200, 200]


async def test_an_mcp_server_is_registered_read_refreshed_and_removed() -> None:
    world = World(key=KEY)
    for endpoint in (REGISTER_MCP_SERVER, GET_MCP_SERVER, REFRESH_MCP_SERVER):
        world.caller.on(endpoint, lambda _: SERVER)
    world.caller.on(LIST_MCP_SERVERS, lambda _: McpServersListed(servers=(SERVER,)))
    world.caller.on(REMOVE_MCP_SERVER, lambda _: McpServerRemoved(name="files", tools=3))
    body = {
        "name": "files",
        "project": "p",
        "url": "https://mcp.example.com/mcp",
        "headers": {"Authorization": "env:T"},
    }
    async with world.client() as client:
        added = await client.post("/api/mcp-servers", json=body)
        listed = await client.get("/api/mcp-servers?project=p")
        got = await client.get("/api/mcp-servers/files?project=p")
        again = await client.post("/api/mcp-servers/files/refresh?project=p")
        gone = await client.delete("/api/mcp-servers/files?project=p")
    assert (added.status_code, added.headers["Location"]) == (201, "/api/mcp-servers/files")
    assert added.json() == got.json() == again.json() == listed.json()["servers"][0] == SERVER.model_dump(mode="json")
    assert gone.json() == {"name": "files", "tools": 3}
    named = McpServerSelector(project="p", name="files")
    assert [request for _, request in world.caller.asked] == [
        RegisterMcpServer.model_validate(body),
        ListMcpServers(project="p"),
        *[named] * 3,
    ]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("name", {"name": "Upper", "url": "https://a.example"}),
        ("url", {"name": "a", "url": "ftp://secret@a.example"}),
        ("headers", {"name": "a", "url": "https://a.example", "headers": {"a b": "secret"}}),
        ("timeout_s", {"name": "a", "url": "https://a.example", "timeout_s": 0}),
        ("url", {"name": "a"}),
        ("body", {"name": "a", "command": "secret"}),
        ("body", {"name": "a", "url": "https://a.example", "command": "secret"}),
    ],
)
async def test_a_server_that_cannot_be_names_the_field_and_no_value(field: str, body: dict[str, object]) -> None:
    async with World().client() as client:
        answer = await client.post("/api/mcp-servers", json=body)
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, field)
    assert "secret" not in answer.text


STALE = AuditDifference(kind="not_indexed", ids=("default/a",), count=1)
GONE = AuditDifference(kind="not_callable", ids=("default/mcp:x/y",), count=1)
INDEX = IndexAudited(catalogued=5, inactive=1, indexed=5)
CALLS = CallableAudited(callable=3, catalogued=3)


def audited(index: Message | Exception, calls: Message | Exception) -> World:
    world = World()
    world.caller.on(AUDIT_INDEX, lambda _: index)
    world.caller.on(AUDIT_CALLABLE, lambda _: calls)
    return world


@pytest.mark.parametrize(
    ("index", "calls", "agrees"),
    [
        (INDEX, CALLS, True),
        (INDEX.model_copy(update={"differences": (STALE,)}), CALLS, False),
        (INDEX.model_copy(update={"knowledge": 7, "knowledge_indexed": 7}), CALLS, True),
        (INDEX.model_copy(update={"knowledge_problem": "No learner is running."}), CALLS, False),
        (INDEX, CALLS.model_copy(update={"differences": (GONE,)}), False),
        (INDEX, CALLS.model_copy(update={"silent": ("files",)}), False),
    ],
)
async def test_an_audit_agrees_when_neither_side_has_anything_to_say(
    index: Message, calls: Message, agrees: bool
) -> None:
    world = audited(index, calls)
    async with world.client() as client:
        report = (await client.get("/api/audit?project=p")).json()
    assert (report["project"], report["agrees"]) == ("p", agrees)
    assert (report["index"], report["calls"]) == (index.model_dump(mode="json"), calls.model_dump(mode="json"))
    assert {request for _, request in world.caller.asked} == {
        AuditIndex(project="p"),
        AuditCallable(project="p"),
    }


AWAY = RequestError(ErrorCode.UNAVAILABLE, "No agent is running.")


async def test_what_cannot_be_asked_is_told_and_does_not_agree() -> None:
    async with audited(INDEX, AWAY).client() as client:
        report = (await client.get("/api/audit")).json()
    assert (report["agrees"], report["calls"]) == (False, None)
    assert report["missing"] == [{"service": "agent", "code": "unavailable", "message": "No agent is running."}]
    async with audited(AWAY, AWAY).client() as client:
        assert (await client.get("/api/audit")).status_code == 503


async def test_a_failure_of_an_audit_is_an_error() -> None:
    async with audited(
        RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, "Qdrant connection failed"), CALLS
    ).client() as it:
        answer = await it.get("/api/audit")
    assert (answer.status_code, answer.json()["code"]) == (503, "vector_store_unavailable")


async def test_a_repair_mends_the_catalogue_before_the_index_and_looks_again() -> None:
    world = World()

    def answering(broken: Message, clean: Message, endpoint: Endpoint[Message, Message]) -> None:
        world.caller.on(endpoint, lambda request: broken if getattr(request, "fix", False) else clean)

    mended = (STALE.model_copy(update={"fixed": 1}), GONE.model_copy(update={"fixed": 1}))
    answering(INDEX.model_copy(update={"differences": mended[:1]}), INDEX, AUDIT_INDEX)
    answering(CALLS.model_copy(update={"differences": mended[1:]}), CALLS, AUDIT_CALLABLE)
    async with world.client() as client:
        report = (await client.post("/api/audit", json={"fix": True})).json()
    assert report["agrees"] is True
    assert [(it["kind"], it["fixed"]) for it in report["repaired"]] == [("not_callable", 1), ("not_indexed", 1)]
    assert [name for name, _ in world.caller.asked] == [
        "audit_callable",
        "audit_index",
        "audit_index",
        "audit_callable",
    ]
