"""A service on the bus: its routes and its health."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Responder, Route, ToWire, route
from skillbus.contracts.catalogue import SERVICES
from skillbus.contracts.endpoint import Health, HealthCheck, make_health_endpoint
from skillbus.contracts.message import Empty


class HealthSource(Protocol):
    """A running service."""

    async def health(self) -> Health:
        """Return whether the service can do its work now."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """Health of a service, computed from its checks."""

    service: str
    checks: tuple[Callable[[], Awaitable[HealthCheck]], ...] = ()

    async def health(self) -> Health:
        """Run all checks; the service is ready if each of them is."""
        checks = tuple([await check() for check in self.checks])
        return Health(service=self.service, ready=all(check.ready for check in checks), checks=checks)


@asynccontextmanager
async def serve_routes(
    bus: Bus, name: str, routes: Sequence[Route], health: HealthSource, to_wire: ToWire
) -> AsyncGenerator[None]:
    """Answer the requests of a service, its health request included, and record its administrative acts.

    Leaving the context drains them.
    """

    recorder = ActRecorder(AuditStream(bus), name)

    async def answer_health(_: Empty) -> Health:
        found, recording = await health.health(), recorder.check_recording()
        return found.model_copy(update={"checks": (*found.checks, recording)}) if recording.warning else found

    responder = Responder(
        bus.client,
        name,
        version("skillbus-contracts"),
        bus.metrics,
        bus.local_endpoints,
        disk=bus.disk,
        recorder=recorder,
        description=SERVICES.get(name, ""),
    )
    await responder.start(*routes, route(make_health_endpoint(name), answer_health), to_wire=to_wire)
    try:
        yield
    finally:
        await responder.drain()
