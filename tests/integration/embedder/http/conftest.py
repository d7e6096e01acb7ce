"""A provider that misbehaves on demand, and what asks it, with waits that are noted and not waited."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, MutableMapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from skillbus.common.http_server import serve_http
from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord
from skillbus.embedder.adapters.http.model import HttpModel
from skillbus.embedder.domain.model import AsyncModel
from skillbus.providers.client import ClientTuning, ProviderClients

from .fake_provider import DIM, FakeProvider

KEY = "sk-canary-9f8e7d6c5b4a"
WHEN = datetime(2026, 11, 22, tzinfo=UTC)

OpenModel = Callable[..., Awaitable[AsyncModel]]


class Waits:
    """Waits that take no time; and a clock for the breaker."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)

    def clock(self) -> float:
        return self.now


def registered(url: str | None, kind: ProviderKind = ProviderKind.OPENAI, **fields: object) -> ProviderRecord:
    defaults: dict[str, object] = {"name": "acme", "version": 1, "api_key": "env:ACME_KEY", "timeout_s": 5.0}
    record = {"kind": kind, "base_url": url, "created_at": WHEN, "updated_at": WHEN} | defaults | fields
    return ProviderRecord.model_validate(record)


def a_model(**fields: object) -> ModelRecord:
    defaults: dict[str, object] = {"id": "0" * 32, "provider": "acme", "name": "m", "dimensions": DIM, "version": 1}
    record = {"is_default": True, "fingerprint": None, "created_at": WHEN, "updated_at": WHEN} | defaults | fields
    return ModelRecord.model_validate(record)


@pytest.fixture
async def provider() -> AsyncGenerator[FakeProvider]:
    fake = FakeProvider()
    async with serve_http(fake, "127.0.0.1", 0) as url:
        fake.url = url
        yield fake
        fake.release()


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def environment() -> dict[str, str]:
    return {"ACME_KEY": KEY}


@pytest.fixture
async def providers(waits: Waits, environment: dict[str, str], tmp_path: Path) -> AsyncGenerator[ProviderClients]:
    tuning = ClientTuning(breaker_failures=3, breaker_cool_down_s=30.0, clock=waits.clock, sleep=waits.sleep)
    grants = SecretGrants.parse("ACME_KEY=http://127.0.0.1")
    secrets = Secrets(grants, environment, tmp_path)
    async with ProviderClients(secrets, AddressRule.parse("127.0.0.1"), tuning) as opened:
        yield opened


@pytest.fixture
async def opened(provider: FakeProvider, providers: ProviderClients) -> AsyncGenerator[OpenModel]:
    """Opens models at the fake provider; they are closed afterwards."""
    models: list[AsyncModel] = []

    async def open_model(
        kind: ProviderKind = ProviderKind.OPENAI,
        model: ModelRecord | None = None,
        url: str | None = None,
        **fields: object,
    ) -> AsyncModel:
        made = HttpModel(registered(url or provider.url, kind, **fields), model or a_model(), providers)
        models.append(made)
        await made.open()
        return made

    yield open_model
    for made in models:
        await made.close()


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines
