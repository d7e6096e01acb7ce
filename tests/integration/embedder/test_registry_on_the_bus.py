"""Replicas of the registry on one nats-server and one database."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.jetstream import iterate_last_values
from skillbus.common.bus.provision import provision
from skillbus.common.bus.responder import Responder
from skillbus.common.testing import eventually
from skillbus.contracts.embedder import registry as contract
from skillbus.contracts.embedder.chat_models import FIND_CHAT_MODELS, FindChatModels
from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    DefaultModelChanged,
    ModelKind,
    ModelSelector,
    ProviderKind,
    ProviderSelector,
    TestProvider,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.resources import EVENTS, REGISTRY
from skillbus.embedder.adapters.registry_changes import RegistryAnnouncer, open_registry_watch
from skillbus.embedder.adapters.sql.registry_store import open_registry_store
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.registry.errors import ChangeNotToldError
from skillbus.embedder.domain.registry.registry import Registry
from skillbus.embedder.errors_on_the_wire import to_wire
from skillbus.embedder.service import RegistryHandlers
from skillbus.standalone.nats_server import NatsServer

from ...unit.embedder.registry_fakes import FakeFactory, replica


@dataclass(frozen=True, slots=True)
class OnTheBus:
    """A replica with its own connections to the server and to the database."""

    bus: Bus
    registry: Registry
    factory: FakeFactory


@asynccontextmanager
async def opened(settings: BusSettings, database: str) -> AsyncGenerator[OnTheBus]:
    async with (
        open_bus(settings, "replica", CollectorRegistry()) as bus,
        open_registry_store(database) as store,
        open_registry_watch(bus) as watch,
    ):
        factory = FakeFactory()
        yield OnTheBus(bus, Registry(store, factory, RegistryAnnouncer(bus), watch), factory)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/registry.db"


@pytest.fixture
async def replicas(bus: Bus, bus_settings: BusSettings, database: str) -> AsyncGenerator[tuple[OnTheBus, OnTheBus]]:
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(opened(bus_settings, database)) for _ in range(2)]
        await one.registry.ensure_default()
        await one.registry.create_provider(CreateProvider(name="openai", kind=ProviderKind.OPENAI))
        await one.registry.create_model(CreateModel(provider="openai", name="b", dimensions=8))
        yield one, other


@pytest.fixture
async def served(replicas: tuple[OnTheBus, OnTheBus]) -> AsyncGenerator[OnTheBus]:
    """The second replica, which alone answers requests."""
    other = replicas[1]
    responder = Responder(other.bus.client, "embedder", "0.1.0", other.bus.metrics)
    await responder.start(*RegistryHandlers(other.registry, other.factory).list_routes(), to_wire=to_wire)
    yield other
    await responder.drain()


async def test_a_change_in_one_replica_counts_from_the_next_request_to_another(
    bus: Bus, replicas: tuple[OnTheBus, OnTheBus], served: OnTheBus
) -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型"""
    one, _ = replicas
    for name in ("b", "use-multilingual-v3") * 10:
        changed = await one.registry.update_model(UpdateModel(id=name, is_default=True))
        answered = await bus.caller.call(contract.GET_DEFAULT_MODEL, Empty())
        assert (answered.name, answered.version) == (name, changed.version)
    listed = await bus.caller.call(contract.LIST_MODELS, Empty())
    assert [model.name for model in listed.models] == ["use-multilingual-v3", "b"]


async def test_a_new_default_is_a_fact_in_the_stream(bus: Bus, replicas: tuple[OnTheBus, OnTheBus]) -> None:
    model = await replicas[1].registry.update_model(UpdateModel(id="b", is_default=True))
    assert model.fingerprint is not None
    subject = contract.DEFAULT_MODEL_CHANGED.subject(model.fingerprint)
    facts = [message async for message in iterate_last_values(bus.jetstream, EVENTS.name, subject)]
    assert DefaultModelChanged.model_validate_json(facts[0].data) == DefaultModelChanged(
        id=model.id, provider="openai", name="b", fingerprint=model.fingerprint, dimensions=8
    )


async def test_going_back_to_a_default_is_another_fact(bus: Bus, replicas: tuple[OnTheBus, OnTheBus]) -> None:
    before = (await bus.jetstream.stream_info(EVENTS.name)).state.messages
    for name in ("b", "use-multilingual-v3", "b"):
        await replicas[0].registry.update_model(UpdateModel(id=name, is_default=True))
    assert (await bus.jetstream.stream_info(EVENTS.name)).state.messages == before + 3


async def test_changes_made_while_the_connection_was_away_count_when_it_is_back(
    nats_server: NatsServer, replicas: tuple[OnTheBus, OnTheBus], database: str
) -> None:
    one, _ = replicas
    assert (await one.registry.ensure_default()).name == "use-multilingual-v3"
    assert nats_server.pid is not None
    os.kill(nats_server.pid, signal.SIGKILL)
    async with open_registry_store(database) as store:  # a replica whose word does not reach this one
        await replica(store).registry.update_model(UpdateModel(id="b", is_default=True))
    default = await eventually(one.registry.ensure_default, lambda model: model.name == "b")
    assert default.is_default


async def test_without_a_connection_and_with_a_copy_one_still_reads(
    nats_server: NatsServer, replicas: tuple[OnTheBus, OnTheBus]
) -> None:
    one, _ = replicas
    snapshot = await one.registry.load_snapshot()
    await one.bus.client.close()
    assert await one.registry.load_snapshot() is snapshot
    one.registry.invalidate()
    async with asyncio.timeout(5):
        assert await one.registry.load_snapshot() is not snapshot


async def test_a_bucket_that_is_not_there_yet_is_listened_to_from_the_start(
    bus_settings: BusSettings, database: str
) -> None:
    async with opened(bus_settings, database) as one, opened(bus_settings, database) as other:
        with pytest.raises(ChangeNotToldError):
            await RegistryAnnouncer(one.bus).announce_change()
        await provision(one.bus.jetstream)
        await one.registry.ensure_default()
        await other.registry.load_snapshot()
        await one.registry.update_model(UpdateModel(id="use-multilingual-v3", priority=1))
        assert await eventually(other.registry.ensure_default, lambda model: model.priority == 1)


async def test_what_cannot_be_told_is_refused_to_the_teller_and_kept_by_the_registry(
    bus: Bus, replicas: tuple[OnTheBus, OnTheBus]
) -> None:
    one, _ = replicas
    await bus.jetstream.delete_key_value(REGISTRY.name)
    model = await one.registry.update_model(UpdateModel(id="use-multilingual-v3", priority=2))
    assert (await one.registry.ensure_default()) == model


async def test_every_request_is_answered_as_the_contract_says(bus: Bus, served: OnTheBus) -> None:
    call = bus.caller.call
    provider = await call(
        contract.CREATE_PROVIDER, CreateProvider(name="vllm", kind=ProviderKind.OPENAI, api_key="env:VLLM_KEY")
    )
    assert provider == await call(contract.GET_PROVIDER, ProviderSelector(name="vllm"))
    changed = await call(contract.UPDATE_PROVIDER, UpdateProvider(name="vllm", enabled=True, timeout_s=3))
    assert (changed.version, changed.timeout_s) == (2, 3)
    model = await call(contract.CREATE_MODEL, CreateModel(provider="vllm", name="BAAI/bge-m3"))
    assert (model.dimensions, model.is_default) == (8, False)
    assert await call(contract.GET_MODEL, ModelSelector(id="vllm/BAAI/bge-m3")) == model
    tested = await call(contract.TEST_PROVIDER, TestProvider(name="vllm"))
    assert (tested.ok, tested.model, tested.dimensions) == (True, "BAAI/bge-m3", 8)
    served.factory.error = ModelUnavailableError("it refuses the key")
    assert not (await call(contract.TEST_PROVIDER, TestProvider(name="vllm"))).ok
    chat = await call(contract.CREATE_MODEL, CreateModel(provider="vllm", name="Qwen/Qwen3", kind=ModelKind.CHAT))
    (found,) = (await call(FIND_CHAT_MODELS, FindChatModels())).models
    assert (found.model, found.provider.name, found.provider.timeout_s) == (chat, "vllm", 3)
    assert (await call(contract.DELETE_MODEL, ModelSelector(id=chat.id))).name == "Qwen/Qwen3"
    deleted = await call(contract.DELETE_MODEL, ModelSelector(id=model.id))
    assert deleted.name == "BAAI/bge-m3"
    assert (await call(contract.DELETE_PROVIDER, ProviderSelector(name="vllm"))).name == "vllm"
    listed = await call(contract.LIST_PROVIDERS, Empty())
    assert [one.name for one in listed.providers] == ["local", "openai"]


async def test_refusals_have_the_codes_of_the_contract(bus: Bus, served: OnTheBus) -> None:
    call = bus.caller.call
    served.factory.error = ModelUnavailableError("no answer")
    for code, refused in (
        (ErrorCode.NOT_FOUND, call(contract.GET_PROVIDER, ProviderSelector(name="nobody"))),
        (ErrorCode.NOT_FOUND, call(contract.GET_MODEL, ModelSelector(id="nothing"))),
        (ErrorCode.NOT_FOUND, call(contract.TEST_PROVIDER, TestProvider(name="nobody"))),
        (ErrorCode.MODEL_UNAVAILABLE, call(FIND_CHAT_MODELS, FindChatModels())),
        (ErrorCode.NOT_FOUND, call(FIND_CHAT_MODELS, FindChatModels(model="nothing"))),
        (ErrorCode.INVALID_REQUEST, call(FIND_CHAT_MODELS, FindChatModels(model="use-multilingual-v3"))),
        (ErrorCode.CONFLICT, call(contract.DELETE_PROVIDER, ProviderSelector(name="local"))),
        (ErrorCode.CONFLICT, call(contract.DELETE_MODEL, ModelSelector(id="use-multilingual-v3"))),
        (ErrorCode.MODEL_UNAVAILABLE, call(contract.CREATE_MODEL, CreateModel(provider="openai", name="unknown"))),
        (
            ErrorCode.INVALID_REQUEST,
            call(
                contract.CREATE_PROVIDER,
                CreateProvider(name="here", kind=ProviderKind.LOCAL, base_url="https://one.example"),
            ),
        ),
    ):
        with pytest.raises(RequestError) as error:
            await refused
        assert error.value.code is code
