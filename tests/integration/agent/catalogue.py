"""A catalogue as the indexer keeps it, in memory, on the bus: what the agent asks of it, and no index."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    GET_TOOL,
    LIST_TOOLS,
    PUT_TOOLS,
    REMOVE_TOOLS,
    CatalogueTool,
    GetTool,
    ListTools,
    PutTools,
    RemoveTools,
    ToolDescription,
    ToolPut,
    ToolPutOutcome,
    ToolsListed,
    ToolsPut,
    ToolsRemoved,
    ToolState,
    ToolSummary,
)


@dataclass(slots=True)
class AgentCatalogue:
    """Tools by project and id."""

    tools: dict[tuple[str, str], CatalogueTool] = field(default_factory=dict)
    puts: int = 0
    broken: bool = False

    def names(self, source: str, project: str = "default") -> list[str]:
        return sorted(
            kept.tool.name for (of, _), kept in self.tools.items() if of == project and kept.tool.source == source
        )

    def set_state(self, tool_id: str, state: ToolState) -> None:
        key = ("default", tool_id)
        self.tools[key] = self.tools[key].model_copy(update={"state": state})

    async def put(self, request: PutTools) -> ToolsPut:
        if self.broken:
            raise RequestError(ErrorCode.UNAVAILABLE, "the catalogue is away")
        self.puts += 1
        return ToolsPut(results=tuple(self._put(request, raw) for raw in request.tools), indexed=True)

    def _put(self, request: PutTools, raw: object) -> ToolPut:
        try:
            tool = ToolDescription.model_validate(raw)
        except ValidationError as error:
            return ToolPut(id=None, outcome=ToolPutOutcome.REJECTED, error=str(error.error_count()))
        tool = tool.model_copy(update={"source": request.source or tool.source})
        key, digest = (request.project, tool.id), hashlib.sha256(tool.model_dump_json().encode()).hexdigest()
        known = self.tools.get(key)
        now = datetime.now(UTC)
        if known is None:
            self.tools[key] = CatalogueTool(tool=tool, digest=digest, created_at=now, updated_at=now)
            return ToolPut(id=tool.id, outcome=ToolPutOutcome.CREATED)
        if digest in (known.digest, known.pending_digest):
            held = known.state is ToolState.QUARANTINED
            return ToolPut(id=tool.id, outcome=ToolPutOutcome.QUARANTINED if held else ToolPutOutcome.UNCHANGED)
        if request.review_changes:
            update = {"state": ToolState.QUARANTINED, "pending": tool, "pending_digest": digest}
            self.tools[key] = known.model_copy(update=update)
            return ToolPut(id=tool.id, outcome=ToolPutOutcome.QUARANTINED)
        self.tools[key] = known.model_copy(update={"tool": tool, "digest": digest})
        return ToolPut(id=tool.id, outcome=ToolPutOutcome.UPDATED)

    async def remove(self, request: RemoveTools) -> ToolsRemoved:
        gone = [
            key
            for key, kept in self.tools.items()
            if key[0] == request.project
            and (not request.ids or key[1] in request.ids)
            and (request.source is None or kept.tool.source == request.source)
        ]
        for key in gone:
            del self.tools[key]
        return ToolsRemoved(ids=tuple(id_ for _, id_ in gone))

    async def get(self, request: GetTool) -> CatalogueTool:
        try:
            return self.tools[request.project, request.id]
        except KeyError:
            raise RequestError(ErrorCode.NOT_FOUND, f"no tool {request.id}") from None

    async def list(self, request: ListTools) -> ToolsListed:
        kept = sorted(
            (
                kept
                for (project, _), kept in self.tools.items()
                if project == request.project
                and request.source in (None, kept.tool.source)
                and (not request.tool_types or kept.tool.tool_type in request.tool_types)
            ),
            key=lambda kept: kept.tool.id,
        )
        page = [one for one in kept if one.tool.id > (request.after or "")][: request.limit]
        more = len(page) == request.limit and page[-1].tool.id != kept[-1].tool.id
        return ToolsListed(
            tools=tuple(_summary(one) for one in page), total=len(kept), next=page[-1].tool.id if more else None
        )


def _summary(kept: CatalogueTool) -> ToolSummary:
    tool = kept.tool
    return ToolSummary(
        id=tool.id,
        name=tool.name,
        description=tool.description[:200],
        tool_type=tool.tool_type,
        source=tool.source,
        state=kept.state,
        findings=0,
        updated_at=kept.updated_at,
    )


@asynccontextmanager
async def catalogue_on(bus: Bus) -> AsyncGenerator[AgentCatalogue]:
    """The catalogue answering in the place of an indexer."""
    catalogue = AgentCatalogue()
    responder = Responder(bus.client, "indexer", "0.0.0", bus.metrics)
    await responder.start(
        route(PUT_TOOLS, catalogue.put),
        route(REMOVE_TOOLS, catalogue.remove),
        route(GET_TOOL, catalogue.get),
        route(LIST_TOOLS, catalogue.list),
    )
    try:
        yield catalogue
    finally:
        await responder.drain()
