import re

import pytest
import structlog

from skillbus.common.bus import headers
from skillbus.contracts.indexer.skills import (
    GET_SKILL,
    LIST_SKILLS,
    UNINSTALL_SKILL,
    UPDATE_SKILL,
    ListSkills,
    SkillInstalled,
    SkillSelector,
    SkillsListed,
    SkillUninstalled,
    UpdateSkill,
)
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolHit, ToolsFound
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS, SandboxLimits
from skillbus.gateway.settings import GatewaySettings

from .fakes import CALCULATE, KEY, World

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def hit(tool_type: ToolType) -> ToolHit:
    return ToolHit(
        id=f"{tool_type}:x",
        name="x",
        description="does x",
        score=0.9,
        cosine=0.8,
        tool_type=tool_type,
        tags=("a",),
        metadata={"type": tool_type},
    )


async def test_each_hit_has_its_tool_type_at_the_top_and_in_metadata() -> None:
    """tool-type.md § 6.3 边界测试: 单个结果, 多个结果; § 3.4: `metadata` 中的 `type` 字段保留."""
    world = World()
    found = ToolsFound(results=tuple(hit(kind) for kind in ToolType), model="use", took_ms=1.5)
    world.caller.on(SEARCH_TOOLS, lambda _: found)
    body = {
        "query": "帮我提交代码",
        "limit": 3,
        "threshold": 0.2,
        "tool_types": ["skill"],
        "tags": ["a"],
        "project": "p",
    }
    async with world.client() as client:
        answer = await client.post("/api/tools/search", json=body)
    assert answer.json() == {**found.model_dump(mode="json"), "tools": [], "names": {}}
    assert [result["tool_type"] for result in answer.json()["results"]] == ["mcp", "builtin", "skill", "external"]
    assert all(result["metadata"]["type"] == result["tool_type"] for result in answer.json()["results"])
    assert world.caller.asked[0][1] == SearchTools.model_validate(body)


async def test_nothing_found_is_an_empty_list() -> None:
    """tool-type.md § 6.3 边界测试: 空结果."""
    world = World()
    world.caller.on(SEARCH_TOOLS, lambda _: ToolsFound(results=(), degraded="lexical", took_ms=1))
    async with world.client() as client:
        answer = await client.post("/api/tools/search", json={"query": "x"})
    assert (answer.status_code, answer.json()["results"], answer.json()["degraded"]) == (200, [], "lexical")


async def test_skills_are_listed_by_page() -> None:
    world = World()
    world.caller.on(LIST_SKILLS, lambda _: SkillsListed(skills=(CALCULATE,), total=7, next="calculate"))
    async with world.client() as client:
        answer = await client.get("/api/skills", params={"limit": 1, "after": "b", "project": "p"})
    assert world.caller.asked == [("list_skills", ListSkills(limit=1, after="b", project="p"))]
    page = answer.json()
    assert ([skill["name"] for skill in page["skills"]], page["total"], page["next"]) == (["calculate"], 7, "calculate")


async def test_a_skill_is_read_changed_and_removed_by_name() -> None:
    world = World()
    world.caller.on(GET_SKILL, lambda _: CALCULATE)
    world.caller.on(UPDATE_SKILL, lambda _: SkillInstalled(outcome="updated", skill=CALCULATE))
    world.caller.on(UNINSTALL_SKILL, lambda _: SkillUninstalled(name="calculate", digest="cd"))
    async with world.client() as client:
        got = await client.get("/api/skills/calculate")
        changed = await client.patch("/api/skills/calculate?project=p", json={"description": " 新的 "})
        gone = await client.delete("/api/skills/calculate")
    assert got.json() == CALCULATE.model_dump(mode="json")
    assert (changed.status_code, changed.json()["outcome"]) == (200, "updated")
    assert (gone.status_code, gone.json()) == (200, {"name": "calculate", "digest": "cd"})
    assert [request for _, request in world.caller.asked] == [
        SkillSelector(name="calculate"),
        UpdateSkill(name="calculate", project="p", description="新的"),
        SkillSelector(name="calculate"),
    ]


async def test_the_limits_of_runs_are_told() -> None:
    world = World()
    limits = SandboxLimits(
        isolation="bubblewrap",
        runtimes=("python",),
        wall_s=60,
        cpu_s=30,
        memory_bytes=1,
        processes=1,
        output_bytes=1,
        artifacts=1,
        artifacts_bytes=1,
        work_bytes=1,
        slots=2,
    )
    world.caller.on(GET_LIMITS, lambda _: limits)
    async with world.client() as client:
        assert (await client.get("/api/limits")).json() == limits.model_dump(mode="json")


async def test_the_trace_of_the_caller_goes_on_to_the_bus_and_back() -> None:
    world, seen = World(), list[str | None]()

    def note(_: Message) -> ToolsFound:
        seen.append(headers.traceparent.get())
        return ToolsFound(results=(), took_ms=1)

    world.caller.on(SEARCH_TOOLS, note)
    async with world.client() as client:
        answer = await client.post("/api/tools/search", json={"query": "x"}, headers={"traceparent": TRACE})
    assert (seen, answer.headers["traceparent"]) == ([TRACE], TRACE)
    assert headers.traceparent.get() is None


@pytest.mark.parametrize("given", [None, "nonsense", TRACE.upper(), f"ff{TRACE[2:]}", f"00-{'0' * 32}-{'1' * 16}-01"])
async def test_a_request_without_a_valid_trace_begins_one(given: str | None) -> None:
    async with World().client() as client:
        answer = await client.get("/healthz", headers={"traceparent": given} if given else {})
    assert answer.headers["traceparent"] != given
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-00", answer.headers["traceparent"])


async def test_each_request_leaves_one_line_and_one_count_by_route_template() -> None:
    world = World(GatewaySettings(artifact_bytes=1), key=KEY)  # metrics of its own
    with structlog.testing.capture_logs() as logs:
        async with world.client() as client:
            await client.get("/api/skills/secret-name")
            await client.get("/nothing/at/all")
            await client.get("/readyz")
            metrics = (await client.get("/metrics")).text
    lines = [(log["event"], log["method"], log["route"], log["status"]) for log in logs]
    assert lines == [
        ("http_request", "GET", "/api/skills/{name}", 503),
        ("http_request", "GET", "unmatched", 404),
        ("http_request", "GET", "/readyz", 503),
        ("http_request", "GET", "/metrics", 200),
    ]
    assert {type(status) for _, _, _, status in lines} == {int}  # an enum would be logged as <HTTPStatus.…: 503>
    assert KEY not in str(logs)
    assert 'skillbus_http_requests_total{method="GET",route="/api/skills/{name}",status="503"} 1.0' in metrics
    assert 'skillbus_http_request_seconds_count{method="GET",route="unmatched"} 1.0' in metrics


async def test_the_documentation_loads_nothing_from_elsewhere() -> None:
    async with World().client() as client:
        page = (await client.get("/docs")).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        answers = [await client.get(link) for link in loaded]
    assert len(loaded) == 3
    assert not [link for link in loaded if not link.startswith("/")]
    assert "://" not in page.replace("https://fastapi", "")
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert any(b"SwaggerUIBundle" in answer.content for answer in answers)


async def test_every_body_in_json_has_an_example() -> None:
    async with World(key=KEY).client() as client:
        document = (await client.get("/openapi.json")).json()
    bodies = {
        (path, method): operation["requestBody"]["content"].get("application/json", {"example": "in another form"})
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    }
    assert len(bodies) > 20
    assert [place for place, body in bodies.items() if "example" not in body] == []


async def test_every_route_documents_its_tag_its_meaning_and_its_problems() -> None:
    async with World(key=KEY).client() as client:
        document = (await client.get("/openapi.json")).json()
    operations = [(path, operation) for path, methods in document["paths"].items() for operation in methods.values()]
    assert len(operations) == 122
    tags = {tag["name"] for tag in document["tags"]}
    assert tags == {tag for _, operation in operations for tag in operation["tags"]}
    assert not [path for path, operation in operations if len(operation["tags"]) != 1 or not operation["description"]]
    for path, operation in operations:
        if path in {"/healthz", "/readyz"}:
            continue
        failed = {
            status: answer for status, answer in operation["responses"].items() if not status.startswith(("2", "3"))
        }
        assert {"401", "default"} <= failed.keys()
        form = "application/json" if path.startswith("/v1/") else "application/problem+json"
        assert all(list(answer["content"]) == [form] for answer in failed.values())
    assert document["components"]["schemas"]["Problem"]["required"]
    assert "unknown_action" in document["components"]["schemas"]["ErrorCode"]["enum"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert document["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"


async def test_references_of_the_documentation_lead_somewhere() -> None:
    async with World().client() as client:
        answer = await client.get("/openapi.json")
    named = {reference.rsplit("/", 1)[1] for reference in re.findall(r'"\$ref":\s*"([^"]+)"', answer.text)}
    assert named <= answer.json()["components"]["schemas"].keys()
