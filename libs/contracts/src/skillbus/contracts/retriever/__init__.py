"""Requests to the retriever: searches for tools and knowledge, and contexts."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "retriever"
HEALTH: Final = make_health_endpoint(SERVICE)
