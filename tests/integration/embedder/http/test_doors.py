"""Where a provider may be, and where its key goes."""

import asyncio
from pathlib import Path

import pytest

from skillbus.common.http_server import serve_http
from skillbus.common.outbound.addresses import LOOPBACK, AddressRule
from skillbus.common.outbound.secret_grants import SecretGrants
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.adapters.http.model import HttpModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.providers.client import ProviderClients

from .conftest import KEY, a_model, registered
from .fake_provider import FakeProvider, Reply


async def ask(url: str | None, folder: Path, *, listed: str = "", secrets: str = "", key: str | None = None) -> None:
    """Embed a text at this address, as an embedder with these settings does."""
    made = Secrets(SecretGrants.parse(secrets), {"ACME_KEY": KEY, "OPENAI_API_KEY": KEY}, folder)
    rule = AddressRule.parse(listed, "SKILLBUS_EMBEDDER_PRIVATE_ADDRESSES")
    async with asyncio.timeout(20), ProviderClients(made, rule) as providers:
        kind = ProviderKind.OPENAI if url else ProviderKind.OLLAMA
        model = HttpModel(registered(url, kind, api_key=key), a_model(), providers)
        await model.open()
        await model.embed(["a"], TextRole.DOCUMENT)
        await model.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_a_provider_on_loopback_is_not_asked_unless_that_is_listed(
    provider: FakeProvider, tmp_path: Path, host: str
) -> None:
    url = provider.url.replace("127.0.0.1", host)
    with pytest.raises(ModelUnavailableError, match="SKILLBUS_EMBEDDER_PRIVATE_ADDRESSES"):
        await ask(url, tmp_path)
    assert not provider.seen
    if host != "localhost":  # the fake provider listens on IPv4 alone
        await ask(url, tmp_path, listed=LOOPBACK)
        assert len(provider.seen) == 1


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "2852039166", "[fe80::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"]
)
async def test_a_metadata_service_is_not_asked_whatever_is_listed(tmp_path: Path, host: str) -> None:
    with pytest.raises(ModelUnavailableError, match="no setting allows that"):
        await ask(f"http://{host}/latest", tmp_path, listed="0.0.0.0/0, ::/0")


async def test_a_refused_address_is_not_tried_again_and_no_failure_of_the_provider(tmp_path: Path) -> None:
    for _ in range(10):  # the breaker would open
        with pytest.raises(ModelUnavailableError, match="is not called"):
            await ask("http://10.0.0.1/v1", tmp_path)


async def test_the_usual_address_of_ollama_is_one_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match="SKILLBUS_EMBEDDER_PRIVATE_ADDRESSES"):
        await ask(None, tmp_path)


async def test_a_redirect_to_a_metadata_service_is_not_followed(provider: FakeProvider, tmp_path: Path) -> None:
    provider.script = [Reply(307, b"", {"location": "http://169.254.169.254/latest/meta-data/"})]
    with pytest.raises(ModelUnavailableError, match="redirects"):
        await ask(provider.url, tmp_path, listed="0.0.0.0/0")
    assert len(provider.seen) == 1


async def test_a_proxy_of_the_environment_is_not_used(
    provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy nobody here would see the address that is connected to."""
    proxy = FakeProvider()
    async with serve_http(proxy, "127.0.0.1", 0) as url:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, url)
        with pytest.raises(ModelUnavailableError, match="no setting allows that"):
            await ask("http://169.254.169.254/v1", tmp_path, listed=LOOPBACK)
        await ask(provider.url, tmp_path, listed=LOOPBACK)
    assert (len(provider.seen), len(proxy.seen)) == (1, 0)


@pytest.mark.parametrize(
    ("key", "secrets"),
    [
        ("env:ACME_KEY", ""),
        ("env:ACME_KEY", "ACME_KEY=api.acme.example"),
        ("env:ACME_KEY", "ACME_KEY=127.0.0.1"),
        ("env:OPENAI_API_KEY", ""),
        ("file:key", ""),
        ("file:key", "file:other=http://127.0.0.1"),
    ],
)
async def test_a_key_goes_to_no_address_that_the_operator_did_not_list(
    provider: FakeProvider, tmp_path: Path, key: str, secrets: str
) -> None:
    """Today's attack: register one's own server with the reference of somebody else's key."""
    (tmp_path / "key").write_text(KEY)
    with pytest.raises(ModelUnavailableError, match="SKILLBUS_SECRETS") as caught:
        await ask(provider.url, tmp_path, listed=LOOPBACK, secrets=secrets, key=key)
    assert not provider.seen
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "secrets"),
    [
        ("env:ACME_KEY", "ACME_KEY=http://127.0.0.1"),
        ("file:key", "file:key=http://127.0.0.1"),
        ("file:key", "file:.=http://127.0.0.1"),
    ],
)
async def test_a_key_goes_where_the_operator_listed_it(
    provider: FakeProvider, tmp_path: Path, key: str, secrets: str
) -> None:
    (tmp_path / "key").write_text(KEY)
    await ask(provider.url, tmp_path, listed=LOOPBACK, secrets=secrets, key=key)
    assert provider.seen[0].headers["authorization"] == f"Bearer {KEY}"
