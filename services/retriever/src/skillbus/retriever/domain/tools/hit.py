"""Tools as the index stores them, and as a hit describes them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import structlog
from pydantic import JsonValue, TypeAdapter

from skillbus.contracts.indexer.tool_functions import ToolFunction
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.search_explanation import ScoreParts
from skillbus.contracts.retriever.tool_search import ToolHit
from skillbus.retriever.domain.explanation import list_reasons
from skillbus.retriever.domain.tools.ranking import RankedTool, SparseWeights

_FUNCTIONS: Final = TypeAdapter(tuple[ToolFunction, ...])


class IndexedTool(NamedTuple):
    """A tool of the index. Sixteen are made for a search, and a tuple takes a third of the time of a dataclass."""

    id: str
    name: str
    description: str
    tool_type: str | None = None
    """None if the index does not say."""
    tags: tuple[str, ...] = ()
    source: str | None = None
    provider: str = ""
    arguments: tuple[str, ...] = ()
    argument_text: str = ""
    examples: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = MappingProxyType({})
    weights: SparseWeights = MappingProxyType({})
    """Its sparse vector."""
    functions: str | None = None
    """JSON of its functions. None if the index does not hold them, or if they were not asked for."""

    def read_type(self) -> ToolType | None:
        """Return `skill` if the index does not say the type, None if it is unknown (tool-type.md, 3.4 and 3.5)."""
        log = structlog.get_logger()
        if self.tool_type is None:
            log.debug("tool_type_absent", tool_id=self.id, assumed=ToolType.SKILL.value)
            return ToolType.SKILL
        try:
            return ToolType(self.tool_type)
        except ValueError:
            log.warning("tool_type_unknown", tool_id=self.id, tool_type=self.tool_type)
            return None


def make_tool_hit(
    ranked: RankedTool,
    tool: IndexedTool,
    tool_type: ToolType,
    query_terms: Mapping[int, str],
    repeats: str | None,
    parts: ScoreParts | None = None,
) -> ToolHit:
    """Return the hit of a tool. `query_terms` are by their indices; `repeats` is the hit above that it repeats."""
    terms = tuple(term for index, term in query_terms.items() if index in tool.weights)
    texts = {
        "name": tool.name,
        "description": tool.description,
        "tags": " ".join(tool.tags),
        "arguments": f"{' '.join(tool.arguments)} {tool.argument_text}",
        "examples": " ".join(tool.examples),
        "provider": tool.provider,
    }
    return ToolHit(
        id=tool.id,
        name=tool.name,
        description=tool.description,
        score=ranked.score,
        cosine=ranked.cosine,
        tool_type=tool_type,
        callable=_is_callable(tool_type, tool.metadata),
        source=tool.source,
        tags=tool.tags,
        metadata={**tool.metadata, "type": tool_type.value},
        reasons=list_reasons((ranked.cosine, ranked.dense_rank), (ranked.bm25, ranked.lexical_rank), terms, texts),
        parts=parts,
        repeats=repeats,
        functions=None if tool.functions is None else _FUNCTIONS.validate_json(tool.functions),
    )


def _is_callable(tool_type: ToolType, metadata: Mapping[str, JsonValue]) -> bool:
    """Return False for external tools, and for skills without a script."""
    return tool_type is not ToolType.EXTERNAL and (tool_type is not ToolType.SKILL or metadata.get("actions") != [])
