"""Client for the state of the whole system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.paths import AUDIT, STATUS
from skillbus.contracts.http import AuditReport, SystemStatus

if TYPE_CHECKING:
    from skillbus.cli.client.connection import Connection

_AUDIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class SystemClient:
    """Each method is one request."""

    connection: Connection

    async def get_status(self) -> SystemStatus:
        """Return the readiness of every service and the counts of the indexer."""
        return await self.connection.request(SystemStatus, "GET", STATUS)

    async def run_audit(self, *, fix: bool) -> AuditReport:
        """Compare catalogue, vectors and callable tools; with `fix`, repair differences first."""
        body = {"fix": fix, **self.connection.scope}
        return await self.connection.request(AuditReport, "POST", AUDIT, json=body, wait_s=_AUDIT_S)
