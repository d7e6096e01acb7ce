"""Every request and every event of skillbus, from which documents and tests are made."""

from typing import Final

from skillbus.contracts import embedder, index_switch, indexer, registry, retriever, sandbox
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.message import Message

ENDPOINTS: Final[tuple[Endpoint[Message, Message], ...]] = (
    embedder.EMBED_TEXTS,
    embedder.HEALTH,
    registry.LIST_PROVIDERS,
    registry.GET_PROVIDER,
    registry.CREATE_PROVIDER,
    registry.UPDATE_PROVIDER,
    registry.DELETE_PROVIDER,
    registry.TEST_PROVIDER,
    registry.LIST_MODELS,
    registry.GET_MODEL,
    registry.GET_DEFAULT_MODEL,
    registry.CREATE_MODEL,
    registry.UPDATE_MODEL,
    registry.DELETE_MODEL,
    indexer.INSTALL_SKILL,
    indexer.UPDATE_SKILL,
    indexer.UNINSTALL_SKILL,
    indexer.GET_SKILL,
    indexer.LIST_SKILLS,
    indexer.GET_STATUS,
    index_switch.LIST_INDEXES,
    index_switch.START_SWITCH,
    index_switch.ROLL_BACK,
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
    registry.DEFAULT_MODEL_CHANGED,
    index_switch.SWITCH_PROGRESSED,
)
