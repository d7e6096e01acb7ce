"""All services but the embedder, in the order of their start.

Importing this module takes most of the time of a start: see `open_standalone`.
"""

from contextlib import AsyncExitStack
from pathlib import Path

from skillbus.agent.domain.servers.operator_file import MCP_FILE
from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.common.runner import StartError
from skillbus.gateway.adapters.start_checks import CheckedStart
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import open_gateway
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.vectors import VectorStoreLocked, open_vector_store


async def open_services(
    stack: AsyncExitStack, bus: Bus, data: Path, gateway_settings: GatewaySettings, checked: CheckedStart
) -> str:
    """Open the services on a stack, and return the URL of the gateway.

    Raises:
        StartError: The vector store is in use, or a service does not start.
    """
    # First, because it probes the machine while the others start.
    await stack.enter_async_context(open_sandbox(bus, SandboxSettings(data=data / "sandbox")))
    try:
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
    except VectorStoreLocked as error:
        raise StartError(str(error)) from error
    await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
    await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
    await stack.enter_async_context(open_retriever(bus, RetrieverSettings(data=data), store))
    agent = AgentSettings(data=data / "agent").on_ones_own_machine(data / MCP_FILE)
    if gateway_settings.no_key:  # every program of this machine may do everything
        agent = agent.model_copy(update={"mcp_file": None})
    await stack.enter_async_context(open_agent(bus, agent))
    gateway = await stack.enter_async_context(open_gateway(bus, gateway_settings, checked))
    return gateway.url
