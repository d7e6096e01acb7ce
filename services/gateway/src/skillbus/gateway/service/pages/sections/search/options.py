"""Configurations of a search on the page, and the requests that they stand for."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints, ValidationError

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import WITHOUT_NUL, ProjectMessage
from skillbus.contracts.retriever.command_resolution import SearchCommands
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.contracts.retriever.search_explanation import Side
from skillbus.contracts.retriever.tool_search import SearchTools

_EXCERPT: Final = 300
OTHER_PREFIX: Final = "b_"
"""Beginning of the names of the second configuration's options in the address."""

Text = Annotated[str, StringConstraints(max_length=500, strip_whitespace=True), WITHOUT_NUL]
Limit = Annotated[int, Field(ge=1, le=100)]
Threshold = Annotated[float | None, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
AnySearch = SearchTools | SearchKnowledge | SearchCommands


class SearchedKind(StrEnum):
    """Kind of entries that a search on the page looks for."""

    TOOLS = "tools"
    KNOWLEDGE = "knowledge"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """One configuration of a search. Lists are separated by commas."""

    limit: int
    threshold: float | None
    side: Side | None
    types: str
    """Types of tools or items, or capabilities of commands."""
    tags: str
    source: str
    scope: str

    def list_fields(self, prefix: str = "") -> dict[str, object]:
        """Return the options as fields of an address."""
        threshold = None if self.threshold is None else str(self.threshold)  # 0 is a threshold too
        return {
            f"{prefix}limit": self.limit if self.limit != _LIMIT else None,
            f"{prefix}threshold": threshold,
            f"{prefix}side": self.side,
            f"{prefix}types": self.types,
            f"{prefix}tags": self.tags,
            f"{prefix}source": self.source,
            f"{prefix}scope": self.scope,
        }


_LIMIT: Final = 10


class SearchPageQuery(ProjectMessage):
    """Search of the page. Without a query only the form is shown; with `compare` a second configuration is shown."""

    kind: SearchedKind = SearchedKind.TOOLS
    query: Annotated[str, StringConstraints(max_length=8_000, strip_whitespace=True), WITHOUT_NUL] = ""
    limit: Limit = _LIMIT
    threshold: Threshold = None
    side: Side | None = None
    types: Text = ""
    tags: Text = ""
    source: Text = ""
    scope: Text = ""
    compare: bool = False
    b_limit: Limit = _LIMIT
    b_threshold: Threshold = None
    b_side: Side | None = None
    b_types: Text = ""
    b_tags: Text = ""
    b_source: Text = ""
    b_scope: Text = ""

    @property
    def first(self) -> SearchOptions:
        """The configuration A."""
        return SearchOptions(self.limit, self.threshold, self.side, self.types, self.tags, self.source, self.scope)

    @property
    def second(self) -> SearchOptions:
        """The configuration B."""
        return SearchOptions(
            self.b_limit, self.b_threshold, self.b_side, self.b_types, self.b_tags, self.b_source, self.b_scope
        )

    def make_request(self, options: SearchOptions) -> AnySearch:
        """Return the request of a configuration.

        Raises:
            RequestError: An option has no valid value.
        """
        shared: dict[str, object] = {
            "project": self.project,
            "query": self.query,
            "threshold": options.threshold,
            "side": options.side,
            "explain": True,
        }
        types, tags, sources = (_split(text) for text in (options.types, options.tags, options.source))
        try:
            if self.kind is SearchedKind.COMMANDS:
                return SearchCommands.model_validate({**shared, "limit": options.limit, "capabilities": types})
            filters = {**shared, "tags": tags, "sources": sources}
            if self.kind is SearchedKind.TOOLS:
                return SearchTools.model_validate({**filters, "limit": options.limit, "tool_types": types})
            return SearchKnowledge.model_validate(
                {
                    **filters,
                    "types": types,
                    "scope": options.scope or None,
                    "top_k": options.limit,
                    "content_characters": _EXCERPT,
                    "record_use": False,  # whoever looks at the ranking does not use the items
                }
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{place}: {first['msg']}") from error


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in (one.strip() for one in text.replace("，", ",").split(",")) if part)
