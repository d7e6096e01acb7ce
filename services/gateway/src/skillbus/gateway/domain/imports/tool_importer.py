"""Import of tool descriptions into the catalogue."""

from collections.abc import AsyncIterable, Mapping
from functools import partial

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolLineImported, ToolsImported
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    MAX_TOOLS,
    MCP_SOURCE_PREFIX,
    PUT_TOOLS,
    SKILLS_SOURCE,
    PutTools,
    ToolPut,
    ToolPutOutcome,
    ToolSource,
    ToolsPut,
)
from skillbus.gateway.domain.imports.put_target import ImportOptions, PutTarget, get_text, import_objects
from skillbus.gateway.domain.ports import BusCaller


class ToolImportOptions(ImportOptions):
    """Options of an import of tool descriptions."""

    source: ToolSource | None = None
    """Source of all descriptions. It overrides the `source` of each."""
    review_changes: bool = False
    """True holds changed descriptions of known tools and suspicious descriptions until an operator accepts them."""


class ToolImporter:
    """Sends tool descriptions to the indexer, and retries while the bus or the indexer is away."""

    def __init__(self, caller: BusCaller, *, patience_s: float) -> None:
        self._caller = caller
        self._patience_s = patience_s

    async def import_body(self, body: AsyncIterable[bytes], options: ToolImportOptions) -> ToolsImported:
        """Put every valid description of a body into the catalogue. Raises RequestError as `import_objects` does."""
        if options.source is not None and is_reserved(options.source):
            raise RequestError(ErrorCode.INVALID_REQUEST, explain_reserved(options.source))
        target: PutTarget[ToolPut, ToolLineImported] = PutTarget(
            "descriptions of tools",
            PUT_TOOLS.service,
            MAX_TOOLS,
            partial(self._put_tools, options),
            lambda line, put: ToolLineImported(line=line, **dict(put)),
            lambda line, value, problem: ToolLineImported(
                line=line, id=get_text(value, "id"), outcome=ToolPutOutcome.REJECTED, error=problem
            ),
            find_problem=partial(_find_problem, options),
        )
        done = await import_objects(body, target, options, self._patience_s)
        return ToolsImported(
            total=sum(done.counts.values()),
            counts={outcome: done.counts.get(outcome, 0) for outcome in ToolPutOutcome},
            indexed=done.indexed,
            results=done.results,
        )

    async def _put_tools(self, options: ToolImportOptions, tools: tuple[JsonValue, ...]) -> ToolsPut:
        request = PutTools(
            project=options.project, tools=tools, source=options.source, review_changes=options.review_changes
        )
        return await self._caller.call(PUT_TOOLS, request)


def _find_problem(options: ToolImportOptions, value: Mapping[str, JsonValue]) -> str | None:
    source = value.get("source")
    is_refused = options.source is None and isinstance(source, str) and is_reserved(source)
    return explain_reserved(str(source)) if is_refused else None


def is_reserved(source: str) -> bool:
    """Return True if only skillbus itself may describe tools of this source."""
    return source in {BUILTIN_SOURCE, SKILLS_SOURCE} or source.startswith(MCP_SOURCE_PREFIX)


def explain_reserved(source: str) -> str:
    """Return the reason why a reserved source is refused."""
    return (
        f"source {source[:100]!r} is reserved for tools that skillbus itself describes, like `{BUILTIN_SOURCE}`, "
        f"`{SKILLS_SOURCE}` and `{MCP_SOURCE_PREFIX}<server>`: choose another name"
    )
