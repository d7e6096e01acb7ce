"""All services but the embedder, in the order of their start.

Importing this module takes most of the time of a start: see `open_standalone`.
"""

import shutil
from contextlib import AsyncExitStack

from skillbus.agent.domain.servers.operator_file import MCP_FILE
from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.common.runner import StartError
from skillbus.gateway.wiring import GatewayGroup, open_gateway
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.settings import COPIES_FOLDER, StandalonePlan
from skillbus.vectors import VectorStore, VectorStoreLocked, open_vector_store


async def open_services(stack: AsyncExitStack, bus: Bus, plan: StandalonePlan) -> str:
    """Open the services on a stack, and return the URL of the gateway.

    Raises:
        StartError: The vector store is in use, or a service or a worker does not start.
    """
    data = plan.settings.data
    # First, because it probes the machine while the others start.
    await stack.enter_async_context(open_sandbox(bus, SandboxSettings(data=data / "sandbox")))
    store, group = await _open_store(stack, bus, plan)
    await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
    await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
    await stack.enter_async_context(open_retriever(bus, RetrieverSettings(data=data), store))
    agent = AgentSettings(data=data / "agent").on_ones_own_machine(data / MCP_FILE)
    if plan.gateway.no_key:  # every program of this machine may do everything
        agent = agent.model_copy(update={"mcp_file": None})
    await stack.enter_async_context(open_agent(bus, agent))
    return (await stack.enter_async_context(open_gateway(bus, plan.gateway, plan.checked, group))).url


async def _open_store(stack: AsyncExitStack, bus: Bus, plan: StandalonePlan) -> tuple[VectorStore, GatewayGroup | None]:
    """Return the store, and what the gateway needs to share its address with workers, if there are any."""
    path = plan.settings.data / "vectors"
    try:
        store = await stack.enter_async_context(open_vector_store(None, path))
    except VectorStoreLocked as error:
        raise StartError(str(error)) from error
    copies = plan.settings.data / COPIES_FOLDER
    shutil.rmtree(copies, ignore_errors=True)  # of a process that was killed
    if plan.settings.workers == 1:
        return store, None
    from skillbus.standalone.workers.pool import WorkerPool  # noqa: PLC0415 (one process does without)
    from skillbus.standalone.workers.store_copy import CopiedVectorStore  # noqa: PLC0415

    copied = CopiedVectorStore(store, path)
    pool = WorkerPool(plan, copied, bus.metrics.registry)
    return copied, GatewayGroup(pool.serve, pool.check_processes, pool.render_metrics)
