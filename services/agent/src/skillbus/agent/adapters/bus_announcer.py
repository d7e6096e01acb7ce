"""Events about servers, published on the bus."""

from uuid import uuid4

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.agent.mcp_servers import MCP_SERVER_FAILED, MCP_SERVER_LISTED, McpServerSeen
from skillbus.contracts.endpoint import Event


class BusServerAnnouncer:
    """Implements `ServerAnnouncer`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def listed(self, fact: McpServerSeen) -> None:
        await self._publish(MCP_SERVER_LISTED, fact)

    async def failed(self, fact: McpServerSeen) -> None:
        await self._publish(MCP_SERVER_FAILED, fact)

    async def _publish(self, event: Event[McpServerSeen], fact: McpServerSeen) -> None:
        await publish_event(
            self._bus,
            event,
            fact,
            identity=fact.name,
            message_id=f"{event.entity}:{event.fact}:{uuid4().hex}",  # an equal event later is a new one
            project=fact.project,
        )
