"""Functions of tools and hits, for models."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from skillbus.contracts.indexer.tool_functions import DescribeTools, ToolFunction, ToolsDescribed
from skillbus.contracts.retriever.tool_search import ToolHit

Describe: TypeAlias = Callable[[DescribeTools], Awaitable[ToolsDescribed]]
"""Requests `describe_tools`. Raises RequestError."""


async def describe_tools(describe: Describe, project: str, ids: Iterable[str]) -> Sequence[ToolFunction]:
    """Return the functions of tools, in as many requests as their size needs. Raises RequestError."""
    wanted, functions = tuple(ids), list[ToolFunction]()
    while wanted:
        described = await describe(DescribeTools(project=project, ids=wanted))
        functions += described.functions
        wanted = described.left_out
    return functions


async def describe_hits(
    describe: Describe, project: str, hits: Sequence[ToolHit]
) -> Mapping[str, tuple[ToolFunction, ...]]:
    """Return the functions of the callable hits by tool id. The hits of a search with `functions` hold most of them.

    The rest is requested: tools that were indexed before the index held functions, and large ones. Tools that were
    removed since have none. Raises RequestError.
    """
    wanted = [hit for hit in hits if hit.callable]
    missing = await describe_tools(describe, project, (hit.id for hit in wanted if hit.functions is None))
    return {
        hit.id: tuple(function for function in missing if function.id == hit.id)
        if hit.functions is None
        else hit.functions
        for hit in wanted
    }
