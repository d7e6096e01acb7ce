"""What a service says about itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.endpoint import Health, HealthCheck


class HealthSource(Protocol):
    """An opened service."""

    async def health(self) -> Health:
        """Whether it can do its work now."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """The health of a service as the sum of its checks."""

    service: str
    checks: tuple[Callable[[], Awaitable[HealthCheck]], ...] = ()

    async def health(self) -> Health:
        """Run the checks."""
        checks = tuple([await check() for check in self.checks])
        return Health(service=self.service, ready=all(check.ready for check in checks), checks=checks)
