"""The builtin tools in the catalogue of each project that has them."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import ToolDescription, ToolPut, ToolPutOutcome

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0


class BuiltinCatalogue(Protocol):
    """The builtin tools of a project as the catalogue has them. Its methods raise RequestError."""

    async def put(self, project: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        """Describe them; what is described so already costs nothing."""
        ...

    async def ids(self, project: str) -> frozenset[str]:
        """Those that are there, disabled ones included."""
        ...

    async def remove(self, project: str, ids: Iterable[str]) -> None:
        """Take some out."""
        ...


class BuiltinsInCatalogue:
    """Puts the builtin tools where they are to be found, and tries until it is done.

    A tool that an operator disabled stays so: what did not change is left alone.
    """

    def __init__(
        self, catalogue: BuiltinCatalogue, tools: Sequence[ToolDescription], first_wait_s: float = FIRST_WAIT_S
    ) -> None:
        self._catalogue = catalogue
        self._tools = tuple(tools)
        self._first_wait_s = first_wait_s
        self._known: set[str] = set()
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._log = structlog.get_logger(__name__)

    def want(self, project: str) -> None:
        """The project is to have them. Asking twice does nothing."""
        if project not in self._known:
            self._known.add(project)
            self._waiting.put_nowait(project)

    async def run(self) -> None:
        """Serve one project after the other, for ever."""
        while True:
            await self._until_done(await self._waiting.get())

    async def sync(self, project: str) -> None:
        """Make the project's catalogue have these tools, and no builtin tool of another version.

        Raises:
            RequestError: The indexer did not do its part.
        """
        put = await self._catalogue.put(project, self._tools)
        gone = await self._catalogue.ids(project) - {tool.id for tool in self._tools}
        if gone:
            await self._catalogue.remove(project, sorted(gone))
        for refused in (one for one in put if one.outcome is ToolPutOutcome.REJECTED):
            self._log.error("builtin_tool_refused", project=project, tool=refused.id, reason=refused.error)
        self._log.info("builtin_tools_catalogued", project=project, tools=len(put), removed=len(gone))

    async def _until_done(self, project: str) -> None:
        wait_s = self._first_wait_s
        while True:
            try:
                return await self.sync(project)
            except RequestError as error:
                self._log.warning(
                    "builtin_tools_not_catalogued", project=project, reason=error.message, wait_s=round(wait_s, 1)
                )
            await asyncio.sleep(wait_s * random.uniform(0.75, 1.25))  # noqa: S311 - spreads replicas, hides nothing
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
