"""Requests to the indexer: skills, the catalogue of tools, and the index."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "indexer"
HEALTH: Final = make_health_endpoint(SERVICE)
