"""HTTPS of the gateway, with a certificate that the test makes."""

import asyncio
import ssl
import subprocess
from pathlib import Path
from runpy import run_path

import httpx
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.http_server import TlsFiles
from skillbus.common.runner import StartError
from skillbus.gateway.adapters import start_checks
from skillbus.gateway.adapters.start_checks import load_tls_files
from skillbus.gateway.domain.access.startup import TlsFilesInvalidError
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import open_gateway

from .conftest import OWNER, make_settings

PROBE = Path(__file__).parents[3] / "docker" / "probe.py"
"""Health check of the containers."""


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    made = TlsFiles(tmp_path / "certificate.pem", tmp_path / "key.pem")
    names = ("-subj", "/CN=skillbus", "-addext", "subjectAltName=IP:127.0.0.1")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(made.private_key))
    subprocess.run(
        ["openssl", "req", "-x509", *key, "-out", str(made.certificate), "-days", "1", *names],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return made


def settings_of(files: TlsFiles) -> dict[str, object]:
    return {"tls_certificate": files.certificate, "tls_private_key": files.private_key}


async def test_with_a_certificate_it_serves_https_only_and_also_beyond_loopback(
    bus: Bus, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = list[object]()

    def count_load(settings: GatewaySettings) -> TlsFiles | None:
        loaded.append(settings)
        return load_tls_files(settings)

    monkeypatch.setattr(start_checks, "load_tls_files", count_load)
    trusted = ssl.create_default_context(cafile=str(files.certificate))
    async with open_gateway(bus, make_settings(host="0.0.0.0", **settings_of(files))) as gateway:
        assert gateway.url.startswith("https://0.0.0.0:")
        url = gateway.url.replace("0.0.0.0", "127.0.0.1")
        async with httpx.AsyncClient(verify=trusted, headers=OWNER, trust_env=False) as client:
            assert (await client.get(f"{url}/api/keys")).json() == {"keys": []}
            with pytest.raises(httpx.TransportError):
                await client.get(f"{url.replace('https', 'http')}/api/keys")
        probe, port = run_path(str(PROBE))["probe"], httpx.URL(url).port
        assert (await asyncio.to_thread(probe, port, "/healthz", tls=True)).split()[1] == "200"
    assert len(loaded) == 1


async def test_an_idle_connection_does_not_delay_the_end(bus: Bus, files: TlsFiles) -> None:
    trusted = ssl.create_default_context(cafile=str(files.certificate))
    loop = asyncio.get_running_loop()
    async with open_gateway(bus, make_settings(**settings_of(files))) as gateway:
        port = httpx.URL(gateway.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.transport.pause_reading()  # like a connection in a client's pool
        leaving = loop.time()
    assert loop.time() - leaving < 5  # of 10 s of grace
    writer.transport.abort()


@pytest.mark.parametrize("broken", ["certificate", "private_key", "both"])
async def test_files_that_cannot_be_used_stop_the_start(bus: Bus, files: TlsFiles, broken: str) -> None:
    settings = settings_of(files)
    match broken:
        case "certificate":
            files.certificate.write_text("no certificate")
        case "private_key":
            del settings["tls_private_key"]
        case _:
            files.private_key.unlink()
    with pytest.raises(StartError, match="HTTPS") as refused:
        async with open_gateway(bus, make_settings(**settings)):
            pass
    assert isinstance(refused.value.__cause__, TlsFilesInvalidError)
