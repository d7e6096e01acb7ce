"""Every request, every event and every feed of skillbus, from which documents and tests are made."""

from typing import Final

from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    MCP_SERVER_FAILED,
    MCP_SERVER_LISTED,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
)
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, CALL_TOOL, LIST_BUILTINS
from skillbus.contracts.embedder.embedding import EMBED_TEXTS
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    DEFAULT_MODEL_CHANGED,
    DELETE_MODEL,
    DELETE_PROVIDER,
    GET_DEFAULT_MODEL,
    GET_MODEL,
    GET_PROVIDER,
    LIST_MODELS,
    LIST_PROVIDERS,
    TEST_PROVIDER,
    UPDATE_MODEL,
    UPDATE_PROVIDER,
)
from skillbus.contracts.endpoint import Endpoint, Event, Feed
from skillbus.contracts.indexer.index_switch import LIST_INDEXES, ROLL_BACK, START_SWITCH, SWITCH_PROGRESSED
from skillbus.contracts.indexer.skills import (
    APPROVE_NETWORK,
    CHECK_SKILL,
    GET_SKILL,
    GET_SKILL_HISTORY,
    GET_STATUS,
    INSTALL_SKILL,
    LIST_SKILLS,
    PIN_SKILL,
    ROLL_BACK_SKILL,
    SKILL_INDEXED,
    SKILL_INSTALLED,
    SKILL_REMOVED,
    SKILL_UPDATED,
    UNINSTALL_SKILL,
    UPDATE_SKILL,
    UPLOAD_REJECTED,
    UPLOAD_TAKEN,
)
from skillbus.contracts.indexer.tools import (
    ACCEPT_TOOL,
    AUDIT_INDEX,
    GET_TOOL,
    LIST_TOOLS,
    PUT_TOOLS,
    REMOVE_TOOLS,
    SET_TOOL_STATE,
    TOOL_QUARANTINED,
)
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, PUT_KNOWLEDGE
from skillbus.contracts.learner.index import (
    FIND_KNOWLEDGE,
    KNOWLEDGE_CHANGED,
    KNOWLEDGE_INDEXED,
    LIST_KNOWLEDGE_DIGESTS,
    READ_KNOWLEDGE,
)
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
)
from skillbus.contracts.learner.projects import GET_KNOWLEDGE_PROJECT, LIST_KNOWLEDGE_AUDIT, SET_KNOWLEDGE_PARENT
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GET_KNOWLEDGE_USAGE, GIVE_FEEDBACK, KNOWLEDGE_USED
from skillbus.contracts.learner.versions import DIFF_KNOWLEDGE, GET_KNOWLEDGE_HISTORY, REVIEW_KNOWLEDGE
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT, SEARCH_KNOWLEDGE
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, GET_RUN, LIST_RUNS, RUN_PRINTED
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS, RUN_SKILL

ENDPOINTS: Final[tuple[Endpoint[Message, Message], ...]] = (
    EMBED_TEXTS,
    embedder.HEALTH,
    LIST_PROVIDERS,
    GET_PROVIDER,
    CREATE_PROVIDER,
    UPDATE_PROVIDER,
    DELETE_PROVIDER,
    TEST_PROVIDER,
    LIST_MODELS,
    GET_MODEL,
    GET_DEFAULT_MODEL,
    CREATE_MODEL,
    UPDATE_MODEL,
    DELETE_MODEL,
    INSTALL_SKILL,
    UPDATE_SKILL,
    UNINSTALL_SKILL,
    GET_SKILL,
    LIST_SKILLS,
    CHECK_SKILL,
    PIN_SKILL,
    APPROVE_NETWORK,
    ROLL_BACK_SKILL,
    GET_SKILL_HISTORY,
    PUT_TOOLS,
    REMOVE_TOOLS,
    GET_TOOL,
    LIST_TOOLS,
    ACCEPT_TOOL,
    SET_TOOL_STATE,
    AUDIT_INDEX,
    GET_STATUS,
    LIST_INDEXES,
    START_SWITCH,
    ROLL_BACK,
    indexer.HEALTH,
    SEARCH_TOOLS,
    SEARCH_KNOWLEDGE,
    BUILD_CONTEXT,
    retriever.HEALTH,
    RUN_SKILL,
    GET_LIMITS,
    CANCEL_RUN,
    LIST_RUNS,
    GET_RUN,
    sandbox.HEALTH,
    REGISTER_MCP_SERVER,
    LIST_MCP_SERVERS,
    GET_MCP_SERVER,
    REFRESH_MCP_SERVER,
    REMOVE_MCP_SERVER,
    LIST_BUILTINS,
    CALL_TOOL,
    AUDIT_CALLABLE,
    agent.HEALTH,
    CREATE_KNOWLEDGE,
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
    ARCHIVE_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    DIFF_KNOWLEDGE,
    REVIEW_KNOWLEDGE,
    PUT_KNOWLEDGE,
    EXPORT_KNOWLEDGE,
    LIST_KNOWLEDGE_AUDIT,
    SET_KNOWLEDGE_PARENT,
    GET_KNOWLEDGE_PROJECT,
    GIVE_FEEDBACK,
    GET_KNOWLEDGE_USAGE,
    GET_KNOWLEDGE_STATS,
    READ_KNOWLEDGE,
    LIST_KNOWLEDGE_DIGESTS,
    FIND_KNOWLEDGE,
    learner.HEALTH,
)
EVENTS: Final[tuple[Event[Message], ...]] = (
    SKILL_INSTALLED,
    SKILL_UPDATED,
    SKILL_INDEXED,
    SKILL_REMOVED,
    UPLOAD_TAKEN,
    UPLOAD_REJECTED,
    TOOL_QUARANTINED,
    MCP_SERVER_LISTED,
    MCP_SERVER_FAILED,
    DEFAULT_MODEL_CHANGED,
    SWITCH_PROGRESSED,
    KNOWLEDGE_CHANGED,
    KNOWLEDGE_INDEXED,
    KNOWLEDGE_USED,
)
FEEDS: Final[tuple[Feed[Message], ...]] = (RUN_PRINTED,)
