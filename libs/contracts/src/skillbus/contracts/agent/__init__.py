"""MCP servers, builtin tools, and calls of tools."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "agent"
HEALTH: Final = make_health_endpoint(SERVICE)
