"""Neighbours of texts in the index of knowledge, for learning. The reply is what the index says: nobody is asked."""

from typing import Annotated, Final

from pydantic import Field

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner.knowledge import KnowledgeId
from skillbus.contracts.message import Message, ProjectMessage
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever.tool_search import Query
from skillbus.contracts.scope import Scope

MAX_NEAREST_TEXTS: Final = 32


class NearestText(Message):
    """Text whose neighbours are wanted."""

    text: Query
    scope: Scope | None = None
    """Only neighbours of this scope, of scopes that cover it, and general ones. Absent means of any scope."""


class FindNearestKnowledge(ProjectMessage):
    """Texts whose neighbours are wanted, among the active items of one project."""

    texts: Annotated[tuple[NearestText, ...], Field(min_length=1, max_length=MAX_NEAREST_TEXTS)]
    limit: int = Field(default=10, ge=1, le=50)
    """Most neighbours of each text."""


class KnowledgeNeighbour(Message):
    """Item near a text, as the index knows it. The record may hold a newer version, or may have archived it."""

    id: KnowledgeId
    cosine: float | None = None
    """Absent if only words were compared."""


class NearestKnowledgeFound(Message):
    """Neighbours of each text, nearest first, in the order of the request."""

    neighbours: tuple[tuple[KnowledgeNeighbour, ...], ...]
    model: str | None = None
    """Name of the model that embedded the texts. Absent if only words were compared."""


FIND_NEAREST_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="find_nearest_knowledge",
    request=FindNearestKnowledge,
    reply=NearestKnowledgeFound,
    summary="Find the items of a project that are nearest to texts, without a judgement on them.",
    is_read=True,
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
    timeout_s=30.0,
    example={"texts": [{"text": "直播电商模块的请求需要 header game-id", "scope": "/api/live/*"}]},
)
