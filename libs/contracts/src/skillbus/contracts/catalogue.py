"""Every request and every event of skillbus, from which documents and tests are made."""

from typing import Final

from skillbus.contracts import embedder, indexer, retriever, sandbox
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.message import Message

ENDPOINTS: Final[tuple[Endpoint[Message, Message], ...]] = (
    embedder.EMBED_TEXTS,
    embedder.HEALTH,
    indexer.INSTALL_SKILL,
    indexer.UPDATE_SKILL,
    indexer.UNINSTALL_SKILL,
    indexer.GET_SKILL,
    indexer.LIST_SKILLS,
    indexer.GET_STATUS,
    indexer.HEALTH,
    retriever.SEARCH_TOOLS,
    retriever.HEALTH,
    sandbox.RUN_SKILL,
    sandbox.GET_LIMITS,
    sandbox.HEALTH,
)
EVENTS: Final[tuple[Event[Message], ...]] = (
    indexer.SKILL_INSTALLED,
    indexer.SKILL_UPDATED,
    indexer.SKILL_INDEXED,
    indexer.SKILL_REMOVED,
    indexer.UPLOAD_TAKEN,
    indexer.UPLOAD_REJECTED,
)
