"""What people see while a service is down on the bus: which part is away, with its code, and all the rest as usual."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.runner import provision_bus
from skillbus.common.testing import eventually
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import open_gateway
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

from .browsing import Visit, Visitors

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWNER: Final = {"Authorization": "Bearer an-owner's-key-of-some-length"}
OpenService = Callable[[Bus], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, slots=True)
class ServicesApart:
    """Services with a connection of their own each, so that the bus is all that they share."""

    settings: BusSettings
    openers: dict[str, OpenService]
    running: dict[str, AsyncExitStack]
    http: httpx.AsyncClient
    visitors: Visitors

    async def start(self, name: str) -> None:
        """Start a service on a connection of its own."""
        stack = AsyncExitStack()
        bus = await stack.enter_async_context(open_bus(self.settings, name, CollectorRegistry()))
        await stack.enter_async_context(self.openers[name](bus))
        self.running[name] = stack

    async def stop(self, name: str) -> None:
        """Stop a service, as SIGTERM does."""
        await self.running.pop(name).aclose()

    @asynccontextmanager
    async def without(self, name: str) -> AsyncGenerator[None]:
        """Stop a service until the context is left."""
        await self.stop(name)
        try:
            yield
        finally:
            await self.start(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def apart(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ServicesApart]:
    data = tmp_path_factory.mktemp("apart")
    async with open_nats_server(data / "nats") as nats, AsyncExitStack() as stack:
        settings = BusSettings(url=nats.address.url, token=SecretStr(nats.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "gateway", CollectorRegistry()))
        await provision_bus(bus, settings)
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        openers: dict[str, OpenService] = {
            "embedder": lambda bus: open_embedder(bus, EmbedderSettings(data=data).open_loopback()),
            "sandbox": lambda bus: open_sandbox(bus, SandboxSettings(data=data / "sandbox")),
            "learner": lambda bus: open_learner(bus, LearnerSettings(data=data)),
            "indexer": lambda bus: open_indexer(bus, IndexerSettings(data=data), store),
            "retriever": lambda bus: open_retriever(bus, RetrieverSettings(data=data), store),
            "agent": lambda bus: open_agent(bus, AgentSettings(data=data / "agent")),
        }
        gateway = await stack.enter_async_context(
            open_gateway(bus, GatewaySettings(port=0, owner_key=SecretStr(OWNER["Authorization"].split()[1])))
        )
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=gateway.url, headers=OWNER, timeout=30, trust_env=False)
        )
        made = ServicesApart(settings, openers, {}, http, Visitors(browser, gateway.url, OWNER))
        for name in openers:
            await made.start(name)
        try:
            await eventually(
                lambda: http.post("/api/tools/search", json={"query": "calculate"}),
                lambda answer: answer.is_success and answer.json()["results"],
            )
            yield made
        finally:
            for name in reversed(openers):
                await made.stop(name)


async def expect_system(visit: Visit, away: str) -> None:
    """Fail unless the page of the system says that one service is away, and shows the parts of the others."""
    await visit.open("/system")
    await expect(visit.by("services")).to_contain_text(f"No {away} is running")
    await expect(visit.by("services").locator(".state.bad")).to_have_count(1)
    for name, instances in ((away, "0"), ("agent", "1")):
        await expect(visit.by(f"service-{name}").get_by_role("cell").nth(3)).to_have_text(instances)
    await expect(visit.by("models")).to_contain_text("use-multilingual-v3")
    await expect(visit.by("indexes")).to_contain_text("tools")


async def test_without_the_learner_tools_are_found_and_what_is_typed_is_saved_when_it_is_back(
    apart: ServicesApart,
) -> None:
    async with apart.visitors.open("/knowledge/new", refused=(503,)) as visit:
        await visit.by("title").fill("Refunds")
        await visit.by("content").fill("A refund takes two days.")
        async with apart.without("learner"):
            await visit.by("save").click()
            await expect(visit.page.locator("[data-error]")).to_contain_text("unavailable")
            async with apart.visitors.open("/tools", refused=(503,)) as other:
                await other.by("nav-knowledge").click()
                await expect(other.by("error")).to_contain_text("No learner is running")
                await expect(other.by("error")).to_contain_text("unavailable")
                await expect_system(other, "learner")
                await expect(other.by("part-waiting").get_by_test_id("problem")).to_contain_text("unavailable")
                await other.open("/learning")
                await expect(other.by("problem")).to_contain_text("unavailable")
                await other.open("/search?query=calculate")
                await expect(other.by("hit").first).to_contain_text("calculate")
                await other.open("/start")
                await expect(other.by("problem").first).to_contain_text("No learner is running")
                await expect(other.by("tools")).to_be_visible()
        await visit.by("save").click()
        await expect(visit.by("content")).to_have_text("A refund takes two days.")


async def test_without_the_retriever_items_are_listed_and_a_search_works_again_when_it_is_back(
    apart: ServicesApart,
) -> None:
    async with apart.visitors.open("/search", refused=(503,)) as visit:
        async with apart.without("retriever"):
            for path, typed in (("/search", "calculate a sum"), ("/context", "How long does a refund take?")):
                await visit.open(path)
                await visit.by("query").fill(typed)
                await visit.by("query").press("Enter")
                await expect(visit.by("problem")).to_contain_text("No retriever is running")
                await expect(visit.by("problem")).to_contain_text("unavailable")
                await expect(visit.by("query")).to_have_value(typed)
            for path in ("/knowledge", "/review", "/statistics", "/tools"):
                await visit.open(path)
            await expect_system(visit, "retriever")
            await visit.open("/search")
            await visit.by("query").fill("calculate a sum")
            await visit.by("query").press("Enter")
            await expect(visit.by("problem")).to_be_visible()
        await visit.page.reload()
        await expect(visit.by("hit").first).to_contain_text("calculate")


async def test_a_page_of_a_service_that_is_away_is_asked_again_by_its_button(apart: ServicesApart) -> None:
    async with apart.visitors.open("/tools", refused=(503,)) as visit:
        async with apart.without("learner"):
            await visit.by("nav-knowledge").click()
            await expect(visit.by("error")).to_be_visible()
        await visit.by("again").click()
        await expect(visit.by("new-item")).to_be_visible()
