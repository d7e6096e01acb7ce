"""The knowledge base: items, versions, usage, and what the index reads."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "learner"
HEALTH: Final = make_health_endpoint(SERVICE)
