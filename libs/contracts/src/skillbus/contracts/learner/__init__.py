"""Requests to the learner: the knowledge base with its items, versions, usage and projects."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "learner"
HEALTH: Final = make_health_endpoint(SERVICE)
