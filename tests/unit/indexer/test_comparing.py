"""A comparison of points and entries while both change."""

from collections.abc import AsyncIterator

from skillbus.contracts.indexer.tools import ToolType
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.index.differences import Differences, _compare
from skillbus.indexer.domain.index.ports import hash_content


def entry(name: str, digest: str = "one") -> ToolEntry:
    return ToolEntry("default", name, ToolType.MCP, name, "Does something.", "lab", digest)


async def compared(points: list[ToolEntry], *read: ToolEntry) -> Differences:
    async def entries() -> AsyncIterator[ToolEntry]:
        for one in read:
            yield one

    return await _compare({point.key: hash_content(point, "aaaa") for point in points}, entries(), "aaaa")


async def test_what_differs_is_told_by_kind() -> None:
    found = await compared(
        [entry("same"), entry("stale"), entry("ghost")], entry("same"), entry("stale", "two"), entry("new")
    )
    assert found.missing == (("default", "new"),)
    assert found.stale == (("default", "stale"),)
    assert found.ghosts == (("default", "ghost"),)
    assert (found.total, found.points) == (3, 3)


async def test_an_entry_that_is_read_twice_is_one_and_the_last_counts() -> None:
    found = await compared([entry("one", "two")], entry("one", "one"), entry("one", "two"))
    assert not found
    assert found.total == 1
