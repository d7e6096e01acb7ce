"""How the builtin tools come into the catalogue."""

import asyncio
from collections.abc import Sequence

from skillbus.agent.domain.builtins.publisher import BuiltinPublisher
from skillbus.common.testing import WAIT_S
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import BUILTIN_SOURCE, ToolDescription, ToolPut, ToolPutOutcome, ToolType

from ..fakes import CatalogueInMemory

NOW, THEN = (
    ToolDescription(id=f"builtin:{name}", name=name, tool_type=ToolType.BUILTIN, source=BUILTIN_SOURCE)
    for name in ("now", "then")
)


class FailingCatalogue(CatalogueInMemory):
    """Fails as often as it is told, before it does anything; or refuses each tool."""

    def __init__(self, fails: int = 0, *, refuses: bool = False) -> None:
        super().__init__()
        self.calls = 0
        self.took = asyncio.Semaphore(0)
        self._fails = fails
        self._refuses = refuses

    async def put_tools(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        self.calls += 1
        if self._fails:
            self._fails -= 1
            raise RequestError(ErrorCode.UNAVAILABLE, "no indexer is running")
        self.took.release()
        if self._refuses:
            return tuple(ToolPut(id=tool.id, outcome=ToolPutOutcome.REJECTED) for tool in tools)
        return await super().put_tools(project, source, tools)


async def run_until_done(catalogue: FailingCatalogue, *projects: str) -> None:
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
    catalogue = FailingCatalogue()
    await run_until_done(catalogue, "default", "home", "default")
    assert set(catalogue.kept) == {("default", "builtin:now"), ("home", "builtin:now")}
    assert catalogue.calls == 2


async def test_an_indexer_that_is_not_there_yet_is_waited_for() -> None:
    catalogue = FailingCatalogue(fails=3)
    await run_until_done(catalogue, "default")
    assert set(catalogue.kept) == {("default", "builtin:now")}
    assert catalogue.calls == 4


async def test_tools_that_this_version_does_not_have_are_removed() -> None:
    catalogue = CatalogueInMemory()
    await catalogue.put_tools("default", BUILTIN_SOURCE, [NOW, THEN])
    await BuiltinPublisher(catalogue, [NOW]).sync_project("default")
    assert set(catalogue.kept) == {("default", "builtin:now")}


async def test_a_tool_that_the_catalogue_refuses_stops_nothing() -> None:
    catalogue = FailingCatalogue(refuses=True)
    await CatalogueInMemory.put_tools(catalogue, "default", BUILTIN_SOURCE, [THEN])
    await BuiltinPublisher(catalogue, [NOW]).sync_project("default")
    assert catalogue.kept == {}
