"""How the builtin tools come into the catalogue."""

import asyncio
from collections.abc import Iterable, Sequence

from skillbus.agent.domain.builtins.publisher import BuiltinPublisher
from skillbus.common.testing import WAIT_S
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolPut, ToolPutOutcome, ToolType

NOW = ToolDescription(id="builtin:now", name="now", tool_type=ToolType.BUILTIN, source=BUILTIN_SOURCE)


class CatalogueInMemory:
    """Fails as often as it is told, before it does anything."""

    def __init__(self, fails: int = 0, outcome: ToolPutOutcome = ToolPutOutcome.CREATED, **tools: set[str]) -> None:
        self.tools = tools
        self.calls = 0
        self._fails = fails
        self._outcome = outcome
        self.took = asyncio.Semaphore(0)

    async def put_tools(self, project: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        self.calls += 1
        if self._fails:
            self._fails -= 1
            raise RequestError(ErrorCode.UNAVAILABLE, "no indexer is running")
        if self._outcome is not ToolPutOutcome.REJECTED:
            self.tools.setdefault(project, set()).update(tool.id for tool in tools)
        self.took.release()
        return tuple(ToolPut(id=tool.id, outcome=self._outcome) for tool in tools)

    async def list_ids(self, project: str) -> frozenset[str]:
        return frozenset(self.tools.get(project, ()))

    async def remove_tools(self, project: str, ids: Iterable[str]) -> None:
        self.tools[project].difference_update(ids)


async def run_until_done(catalogue: CatalogueInMemory, *projects: str) -> None:
    cataloguer = BuiltinPublisher(catalogue, [NOW], first_retry_s=0.001)
    for project in projects:
        cataloguer.add_project(project)
    running = asyncio.create_task(cataloguer.run())
    try:
        async with asyncio.timeout(WAIT_S):
            for _ in set(projects):
                await catalogue.took.acquire()
    finally:
        running.cancel()


async def test_each_project_that_is_to_have_them_gets_them_once() -> None:
    catalogue = CatalogueInMemory()
    await run_until_done(catalogue, "default", "home", "default")
    assert catalogue.tools == {"default": {"builtin:now"}, "home": {"builtin:now"}}
    assert catalogue.calls == 2


async def test_an_indexer_that_is_not_there_yet_is_waited_for() -> None:
    catalogue = CatalogueInMemory(fails=3)
    await run_until_done(catalogue, "default")
    assert catalogue.tools == {"default": {"builtin:now"}}
    assert catalogue.calls == 4


async def test_tools_that_this_version_does_not_have_are_removed() -> None:
    catalogue = CatalogueInMemory(default={"builtin:now", "builtin:then"})
    await BuiltinPublisher(catalogue, [NOW]).sync_project("default")
    assert catalogue.tools == {"default": {"builtin:now"}}


async def test_a_tool_that_the_catalogue_refuses_stops_nothing() -> None:
    catalogue = CatalogueInMemory(outcome=ToolPutOutcome.REJECTED, default={"builtin:then"})
    await BuiltinPublisher(catalogue, [NOW]).sync_project("default")
    assert catalogue.tools == {"default": set()}
