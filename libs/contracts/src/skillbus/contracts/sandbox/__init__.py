"""Requests to the sandbox: runs of skills and their history."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "sandbox"
HEALTH: Final = make_health_endpoint(SERVICE)
