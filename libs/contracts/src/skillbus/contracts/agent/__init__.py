"""Requests to the agent service: MCP servers, builtin tools and tool calls."""

from typing import Final

from skillbus.contracts.endpoint import make_health_endpoint

SERVICE: Final = "agent"
HEALTH: Final = make_health_endpoint(SERVICE)
