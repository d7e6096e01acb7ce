"""Puts the builtin tools into the catalogue of each project that has them."""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

import structlog

from skillbus.agent.domain.ports import AgentCatalogue
from skillbus.common.background import FailureLog
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolPutOutcome

FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 30.0

log = structlog.get_logger(__name__)


class BuiltinPublisher:
    """Puts the builtin tools into catalogues, with retries until the indexer accepts them.

    A tool that an operator disabled stays disabled, because unchanged tools are left alone.
    """

    def __init__(
        self, catalogue: AgentCatalogue, tools: Sequence[ToolDescription], first_retry_s: float = FIRST_RETRY_S
    ) -> None:
        self._catalogue = catalogue
        self._tools = tuple(tools)
        self._first_retry_s = first_retry_s
        self._known: set[str] = set()
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._stopped = False

    def add_project(self, project: str) -> None:
        """Publish the tools to a project soon. Repeated calls do nothing."""
        if project not in self._known:
            self._known.add(project)
            self._waiting.put_nowait(project)

    async def run(self) -> None:
        """Publish to one project after the other until cancelled."""
        failures = FailureLog()
        while not self._stopped:
            project = await self._waiting.get()
            wait_s, published = self._first_retry_s, False
            while not published and not self._stopped:
                with failures.guard("publish_builtin_tools", project=project):
                    await self.sync_project(project)
                    published = True
                if not published:
                    await asyncio.sleep(wait_s * random.uniform(0.75, 1.25))  # noqa: S311 - spreads replicas
                    wait_s = min(2 * wait_s, LAST_RETRY_S)

    def stop(self) -> None:
        """End `run` with its next step."""
        self._stopped = True

    async def sync_project(self, project: str) -> None:
        """Make the project's catalogue hold exactly these builtin tools. Raises RequestError if the indexer failed."""
        put = await self._catalogue.put_tools(project, BUILTIN_SOURCE, self._tools)
        known = await self._catalogue.list_tools(project, BUILTIN_SOURCE)
        gone = {tool.id for tool in known} - {tool.id for tool in self._tools}
        if gone:
            await self._catalogue.remove_tools(project, BUILTIN_SOURCE, sorted(gone))
        for refused in (one for one in put if one.outcome is ToolPutOutcome.REJECTED):
            log.error("builtin_tool_refused", project=project, tool=refused.id, reason=refused.error)
        log.info("builtin_tools_published", project=project, tools=len(put), removed=len(gone))
