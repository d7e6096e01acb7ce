"""Requests to the embedder: embeddings, and the registry of providers and models."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "embedder"
HEALTH: Final = make_health_endpoint(SERVICE)
