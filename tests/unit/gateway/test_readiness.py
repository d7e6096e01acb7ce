import httpx
import pytest

from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.endpoint import Health, HealthCheck
from skillbus.contracts.indexer.skills import GET_STATUS, IndexerStatus

from .fakes import KEY, World

SERVICES = ("embedder", "indexer", "retriever", "sandbox", "agent", "learner")
HEALTH = {
    "embedder": embedder.HEALTH,
    "indexer": indexer.HEALTH,
    "retriever": retriever.HEALTH,
    "sandbox": sandbox.HEALTH,
    "agent": agent.HEALTH,
    "learner": learner.HEALTH,
}


def healthy() -> World:
    world = World()
    for service in SERVICES:
        health = Health(service=service, ready=True)
        world.caller.on(HEALTH[service], lambda _, health=health: health)
    return world


def unready(service: str, why: str) -> Health:
    checks = (HealthCheck(name="disk", ready=True), HealthCheck(name="isolation", ready=False, detail=why))
    return Health(service=service, ready=False, checks=checks)


async def readyz(world: World) -> tuple[int, dict[str, tuple[bool, str]]]:
    async with world.client() as client:
        answer = await client.get("/readyz")
        head = await client.head("/readyz")
    assert head.status_code == answer.status_code
    return answer.status_code, {item["name"]: (item["ready"], item["detail"]) for item in answer.json()["checks"]}


async def test_all_is_ready_when_nats_and_every_service_are() -> None:
    status, checks = await readyz(healthy())
    assert status == 200
    assert checks == dict.fromkeys(("nats", *SERVICES), (True, ""))


@pytest.mark.parametrize("service", ["embedder", "indexer", "retriever"])
async def test_a_service_that_is_not_ready_makes_the_whole_not_ready_and_says_why(service: str) -> None:
    world = healthy()
    world.caller.on(HEALTH[service], lambda _: unready(service, "no model"))
    status, checks = await readyz(world)
    assert (status, checks[service]) == (503, (False, "isolation: no model"))


async def test_a_warning_of_a_ready_service_is_in_the_status_and_not_in_the_reply_that_anybody_may_read() -> None:
    world = healthy()
    world.key = KEY
    check = HealthCheck(name="mcp.json", ready=True, detail="not shown", warning="run chmod")
    world.caller.on(HEALTH["agent"], lambda _: Health(service="agent", ready=True, checks=(check,)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.app()), base_url="http://gateway") as stranger:
        opened = await stranger.get("/readyz")
    async with world.client() as client:
        services = (await client.get("/api/status")).json()["services"]
    assert opened.status_code == 200
    assert "chmod" not in opened.text
    (told,) = (service for service in services if service["name"] == "agent")
    assert (told["ready"], told["detail"]) == (True, "mcp.json: run chmod")


@pytest.mark.parametrize("service", ["embedder", "indexer", "retriever", "sandbox"])
async def test_a_service_that_does_not_answer_makes_the_whole_not_ready(service: str) -> None:
    world = healthy()
    del world.caller.handlers[HEALTH[service].subject]
    status, checks = await readyz(world)
    assert (status, checks[service][0]) == (503, False)
    assert service in checks[service][1]


async def test_a_sandbox_that_cannot_isolate_is_reported_and_no_obstacle() -> None:
    world = healthy()
    world.caller.on(sandbox.HEALTH, lambda _: unready("sandbox", "user namespaces are off"))
    status, checks = await readyz(world)
    assert (status, checks["sandbox"]) == (200, (False, "isolation: user namespaces are off"))


@pytest.mark.parametrize("is_there", [True, False])
async def test_an_agent_that_cannot_call_tools_is_reported_and_no_obstacle(is_there: bool) -> None:
    world = healthy()
    if is_there:
        world.caller.on(agent.HEALTH, lambda _: unready("agent", "no catalogue"))
    else:
        del world.caller.handlers[agent.HEALTH.subject]
    status, checks = await readyz(world)
    assert (status, checks["agent"][0]) == (200, False)
    assert ("no catalogue" if is_there else "MCP and builtin tools cannot be called") in checks["agent"][1]


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_learner_that_keeps_no_knowledge_is_reported_and_no_obstacle(is_there: bool) -> None:
    world = healthy()
    if is_there:
        world.caller.on(learner.HEALTH, lambda _: unready("learner", "the database is locked"))
    else:
        del world.caller.handlers[learner.HEALTH.subject]
    status, checks = await readyz(world)
    assert (status, checks["learner"][0]) == (200, False)
    assert ("the database is locked" if is_there else "knowledge cannot be stored or found") in checks["learner"][1]


async def test_without_nats_nothing_is_ready_but_the_loop_is_alive() -> None:
    world = healthy()
    world.connection.is_connected = False
    status, checks = await readyz(world)
    async with world.client() as client:
        alive = [await client.get("/healthz"), await client.head("/healthz")]
    assert (status, checks["nats"]) == (503, (False, "not connected"))
    assert [answer.status_code for answer in alive] == [200, 200]


async def test_every_service_is_given_one_second() -> None:
    world = healthy()
    await readyz(world)
    assert set(world.caller.waits_s) == {1.0}


async def test_the_status_tells_what_the_indexer_holds_or_that_it_is_away() -> None:
    world = healthy()
    held = IndexerStatus(skills=3, waiting=1, points=2, collection="tools-1", model="use")
    world.caller.on(GET_STATUS, lambda _: held)
    async with world.client() as client:
        there = (await client.get("/api/status")).json()
        del world.caller.handlers[GET_STATUS.subject], world.caller.handlers[indexer.HEALTH.subject]
        away = (await client.get("/api/status")).json()
    assert (there["ready"], there["indexer"]) == (True, held.model_dump())
    assert (away["ready"], away["indexer"]) == (False, None)
    assert [item["name"] for item in away["services"] if not item["ready"]] == ["indexer"]
