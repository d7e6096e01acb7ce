"""Each service as a process of its own: `python -m skillbus.<service>` against a NATS that is there already."""

import socket

import httpx
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.endpoint import Health, make_health_endpoint
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Empty
from skillbus.standalone.nats_server import NatsServer

from .conftest import WAIT_S, Start


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


async def _status(http: httpx.AsyncClient, url: str) -> int:
    try:
        return (await http.get(url)).status_code
    except httpx.TransportError:
        return 0


async def _health(bus: Bus, service: str) -> Health | None:
    try:
        return await bus.caller.call(make_health_endpoint(service), Empty())
    except RequestError:
        return None


@pytest.mark.parametrize("service", ["embedder", "sandbox", "agent"])
async def test_a_service_alone_answers_on_the_bus_and_to_operators_and_drains_at_sigterm(
    start: Start, bus: Bus, nats_server: NatsServer, http: httpx.AsyncClient, tmp_path: object, service: str
) -> None:
    port = _free_port()
    environment = {
        "SKILLBUS_NATS_URL": nats_server.address.url,
        "SKILLBUS_NATS_TOKEN": nats_server.address.token,
        "SKILLBUS_OPERATIONS_PORT": str(port),
        "SKILLBUS_SANDBOX_DATA": f"{tmp_path}/sandbox",
        "SKILLBUS_AGENT_DATA": f"{tmp_path}/agent",
    }
    started = await start(f"skillbus.{service}", environment=environment)
    health = await eventually(lambda: _health(bus, service), lambda it: it is not None and it.ready, wait_s=WAIT_S)
    assert health is not None
    assert (health.service, health.ready) == (service, True)
    url = f"http://127.0.0.1:{port}"
    assert await eventually(lambda: _status(http, f"{url}/readyz"), lambda it: it == 200) == 200
    assert (await http.get(f"{url}/healthz")).text == "ok\n"
    assert "skillbus_" in (await http.get(f"{url}/metrics")).text
    assert await started.stop() == 0
    assert await _health(bus, service) is None
    assert "Traceback" not in started.errors()
    assert nats_server.address.token not in started.errors()


async def test_a_gateway_alone_is_alive_and_says_that_it_is_not_ready(
    start: Start, nats_server: NatsServer, http: httpx.AsyncClient
) -> None:
    port = _free_port()
    environment = {
        "SKILLBUS_NATS_URL": nats_server.address.url,
        "SKILLBUS_NATS_TOKEN": nats_server.address.token,
        "SKILLBUS_GATEWAY_PORT": str(port),
        "SKILLBUS_GATEWAY_NO_KEY": "true",
    }
    started = await start("skillbus.gateway", environment=environment)
    url = f"http://127.0.0.1:{port}"
    assert await eventually(lambda: _status(http, f"{url}/healthz"), lambda it: it == 200, wait_s=WAIT_S) == 200
    assert await _status(http, f"{url}/readyz") == 503
    refused = await http.post(f"{url}/api/tools/search", json={"query": "x"})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert await started.stop() == 0
    assert "Traceback" not in started.errors()


async def test_a_service_without_nats_ends_with_one_clear_line(start: Start) -> None:
    url = f"nats://127.0.0.1:{_free_port()}"
    environment = {"SKILLBUS_NATS_URL": url, "SKILLBUS_NATS_CONNECT_TIMEOUT_S": "0.5"}
    started = await start("skillbus.indexer", environment=environment)
    assert await started.ended(WAIT_S) == 1
    (last,) = [line for line in started.errors().splitlines() if line.startswith("skillbus indexer: ")]
    assert url in last
    assert "SKILLBUS_NATS_URL" in last
    assert "Traceback" not in started.errors()


async def test_a_service_whose_operations_port_is_taken_ends_with_one_clear_line(
    start: Start, nats_server: NatsServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {
            "SKILLBUS_NATS_URL": nats_server.address.url,
            "SKILLBUS_NATS_TOKEN": nats_server.address.token,
            "SKILLBUS_OPERATIONS_PORT": str(taken.getsockname()[1]),
        }
        started = await start("skillbus.sandbox", environment=environment)
        assert await started.ended(WAIT_S) == 1
    (last,) = started.errors().splitlines()[-1:]
    assert last.startswith("skillbus sandbox: SKILLBUS_OPERATIONS_PORT: cannot listen on 127.0.0.1:")
    assert "Traceback" not in started.errors()
