"""Users of the bus: the zone of each, and what it calls, hears, reads and writes.

The accounts, exports, imports and permissions of the NATS server are built from this table by
`skillbus.contracts.documents.nats_accounts`. What a service serves and publishes is not listed here: it follows from
the endpoints, events and feeds that name the service. A test compares each line with the code of the service.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skillbus.contracts.agent.approvals import DECIDE_CALL_SIGNALS
from skillbus.contracts.agent.mcp_servers import REFRESH_MCP_SERVER, REGISTER_MCP_SERVER, REMOVE_MCP_SERVER
from skillbus.contracts.agent.model_test import TEST_CHAT_MODEL
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, CANCEL_CALL_SIGNALS, LIST_BUILTINS
from skillbus.contracts.agent.turns import CANCEL_TURN, CANCEL_TURN_SIGNALS, CHAT, FOLLOW_TURN_SIGNALS, TURN_ADVANCED
from skillbus.contracts.catalogue import ENDPOINTS
from skillbus.contracts.embedder.chat_models import FIND_CHAT_MODELS
from skillbus.contracts.embedder.embedding import EMBED_TEXTS
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    DELETE_MODEL,
    DELETE_PROVIDER,
    GET_DEFAULT_MODEL,
    GET_PROVIDER,
    LIST_PROVIDERS,
    TEST_PROVIDER,
    UPDATE_MODEL,
    UPDATE_PROVIDER,
)
from skillbus.contracts.endpoint import Endpoint, Event, Feed, WorkLine
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG
from skillbus.contracts.indexer.commands import PUT_COMMANDS, REMOVE_COMMANDS
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    REPLAY_DEAD_LETTER,
)
from skillbus.contracts.indexer.devices import LIST_HOMES, LOAD_HOME, PUT_DEVICES, REMOVE_DEVICES
from skillbus.contracts.indexer.index_switch import ROLL_BACK, START_SWITCH, SWITCH_PROGRESSED
from skillbus.contracts.indexer.index_writes import INDEX_WRITTEN
from skillbus.contracts.indexer.skills import (
    APPROVE_NETWORK,
    GET_SKILL,
    SKILL_INSTALLED,
    SKILL_UPDATED,
    UPLOAD_REJECTED,
    UPLOAD_TAKEN,
)
from skillbus.contracts.indexer.tool_approval import SET_TOOL_APPROVAL
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, MEASURE_TOOLS
from skillbus.contracts.indexer.tools import (
    ACCEPT_TOOL,
    AUDIT_INDEX,
    GET_TOOL,
    LIST_TOOLS,
    PUT_TOOLS,
    REMOVE_TOOLS,
)
from skillbus.contracts.learner.index import FIND_KNOWLEDGE, KNOWLEDGE_INDEXED, LIST_KNOWLEDGE_DIGESTS, READ_KNOWLEDGE
from skillbus.contracts.learner.learning_jobs import LEARNING_ADVANCED
from skillbus.contracts.learner.projects import SET_KNOWLEDGE_PARENT
from skillbus.contracts.message import Message
from skillbus.contracts.resources import (
    API_KEYS,
    DIALOGUES,
    LEARNER_INDEXED,
    LEARNER_TRIGGERS,
    LEARNER_USES,
    LEARNING_FILES,
    MCP_SERVERS,
    PACKAGES,
    REGISTRY,
    RUN_FILES,
    RUN_HISTORY,
    TURNS,
    UPLOADS,
    Consumer,
    KeyValueBucket,
    ObjectBucket,
    Stream,
)
from skillbus.contracts.retriever.command_resolution import RESOLVE_COMMAND
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT
from skillbus.contracts.retriever.nearest_knowledge import FIND_NEAREST_KNOWLEDGE
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS
from skillbus.contracts.sandbox.program_runs import PROGRAM_CALLED, PROGRAM_CALLS, RUN_PROGRAM
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, CANCEL_SIGNALS, RUN_PRINTED
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL

AnyEndpoint = Endpoint[Message, Message]
AnyEvent = Event[Message]

JETSTREAM_DOMAIN: Final = "skillbus"
"""JetStream domain that users outside the core zone name in their client. Their account has no JetStream: the requests
that they may send to it are imported from the core account under `$JS.skillbus.API`."""


class Zone(StrEnum):
    """Trust zone: one NATS account. A message crosses its border only by a declared export and import."""

    CORE = "CORE"
    SANDBOX = "SANDBOX"
    AGENT = "AGENT"
    CLIENTS = "CLIENTS"


@dataclass(frozen=True, slots=True)
class BusUser:
    """User of the NATS server, and all that it may do besides what follows from the declarations of its service."""

    name: str
    """Name of the service, or `client` or `operator`."""
    zone: Zone
    calls: tuple[AnyEndpoint, ...] = ()
    hears: tuple[AnyEvent, ...] = ()
    """Events that it receives while it is connected. Durable consumers are in `consumes`."""
    follows: tuple[Feed[Message], ...] = ()
    asks: tuple[WorkLine[Message, Message], ...] = ()
    consumes: tuple[Consumer, ...] = ()
    """Durable consumers that the indexer has made. Only for users of the core zone."""
    appends_to: tuple[Stream, ...] = ()
    reads_streams: tuple[Stream, ...] = ()
    reads_objects: tuple[ObjectBucket, ...] = ()
    writes_objects: tuple[ObjectBucket, ...] = ()
    """Buckets whose objects it stores, replaces and deletes. It can also read every message of their streams."""
    keeps_keys: tuple[KeyValueBucket, ...] = ()
    """Buckets whose keys it reads, writes and watches."""
    signals: tuple[str, ...] = ()
    """Subjects on which the replicas of the user speak to each other."""
    provisions: bool = False
    """True if it creates streams, buckets and consumers. It may use all of JetStream then."""
    discovers: bool = False
    """True if it asks the services who they are."""
    unrestricted: bool = False
    """True for people: no permissions limit this user within its zone."""


BETWEEN_SERVICES: Final[tuple[AnyEndpoint, ...]] = (
    FIND_CHAT_MODELS,
    MEASURE_TOOLS,
    FIND_KNOWLEDGE,
    READ_KNOWLEDGE,
    LIST_KNOWLEDGE_DIGESTS,
    FIND_NEAREST_KNOWLEDGE,
    RUN_PROGRAM,
    LOAD_HOME,
)
"""Requests that only services send to each other."""

ADMINISTRATION: Final[tuple[AnyEndpoint, ...]] = (
    *(LIST_PROVIDERS, GET_PROVIDER, CREATE_PROVIDER, UPDATE_PROVIDER, DELETE_PROVIDER, TEST_PROVIDER),
    *(CREATE_MODEL, UPDATE_MODEL, DELETE_MODEL, TEST_CHAT_MODEL),
    *(REGISTER_MCP_SERVER, REFRESH_MCP_SERVER, REMOVE_MCP_SERVER, AUDIT_CALLABLE),
    *(ACCEPT_TOOL, SET_TOOL_APPROVAL, APPROVE_NETWORK, AUDIT_INDEX, START_SWITCH, ROLL_BACK, SET_KNOWLEDGE_PARENT),
    *(LIST_DEAD_LETTERS, GET_DEAD_LETTER, REPLAY_DEAD_LETTER, DROP_DEAD_LETTER, LIST_AUDIT_LOG),
    # The gateway lets only administrators use these for tools of MCP servers. The bus cannot tell.
    *(PUT_TOOLS, REMOVE_TOOLS),
    # What people say is carried out on these devices, by these commands.
    *(PUT_DEVICES, REMOVE_DEVICES, PUT_COMMANDS, REMOVE_COMMANDS),
)
"""Requests of administrators. The user `client` may not send them: the bus does not know who uses that user."""

_OF_EVERYONE: Final = tuple(endpoint for endpoint in ENDPOINTS if endpoint not in BETWEEN_SERVICES)

BUS_USERS: Final = (
    BusUser("embedder", Zone.CORE, keeps_keys=(REGISTRY,)),
    BusUser(
        "retriever",
        Zone.CORE,
        calls=(EMBED_TEXTS, FIND_KNOWLEDGE, LOAD_HOME, FIND_CHAT_MODELS, CHAT, CANCEL_TURN),
        follows=(INDEX_WRITTEN,),
        keeps_keys=(DIALOGUES,),
    ),
    BusUser(
        "learner",
        Zone.CORE,
        hears=(KNOWLEDGE_INDEXED,),
        calls=(FIND_NEAREST_KNOWLEDGE, CHAT, CANCEL_TURN),
        consumes=(LEARNER_INDEXED, LEARNER_USES, LEARNER_TRIGGERS),
        reads_objects=(LEARNING_FILES,),
        writes_objects=(LEARNING_FILES,),
    ),
    BusUser(
        "indexer",
        Zone.CORE,
        calls=(EMBED_TEXTS, GET_DEFAULT_MODEL, READ_KNOWLEDGE, LIST_KNOWLEDGE_DIGESTS),
        provisions=True,
    ),
    BusUser(
        "gateway",
        Zone.CORE,
        calls=tuple(endpoint for endpoint in _OF_EVERYONE if endpoint != LIST_BUILTINS),
        hears=(SWITCH_PROGRESSED,),
        follows=(RUN_PRINTED, TURN_ADVANCED, LEARNING_ADVANCED),
        reads_objects=(RUN_FILES, PACKAGES),
        writes_objects=(RUN_FILES, PACKAGES, LEARNING_FILES),
        keeps_keys=(API_KEYS,),
        discovers=True,
    ),
    BusUser(
        "operator",
        Zone.CORE,
        calls=ENDPOINTS,
        follows=(RUN_PRINTED, PROGRAM_CALLED, TURN_ADVANCED, LEARNING_ADVANCED, INDEX_WRITTEN),
        unrestricted=True,
    ),
    BusUser(
        "sandbox",
        Zone.SANDBOX,
        calls=(GET_SKILL,),
        hears=(SKILL_INSTALLED, SKILL_UPDATED),
        appends_to=(RUN_HISTORY,),
        reads_streams=(RUN_HISTORY,),
        reads_objects=(PACKAGES, RUN_FILES),
        writes_objects=(RUN_FILES,),
        asks=(PROGRAM_CALLS,),
        signals=(CANCEL_SIGNALS,),
    ),
    BusUser(
        "agent",
        Zone.AGENT,
        calls=(
            *(PUT_TOOLS, REMOVE_TOOLS, GET_TOOL, LIST_TOOLS, SEARCH_TOOLS, RUN_SKILL, RUN_PROGRAM, CANCEL_RUN),
            *(FIND_CHAT_MODELS, BUILD_CONTEXT, DESCRIBE_TOOLS, MEASURE_TOOLS, GET_SKILL, RESOLVE_COMMAND, LIST_HOMES),
        ),
        reads_objects=(RUN_FILES, PACKAGES),
        writes_objects=(RUN_FILES,),
        keeps_keys=(MCP_SERVERS, TURNS),
        signals=(CANCEL_CALL_SIGNALS, CANCEL_TURN_SIGNALS, FOLLOW_TURN_SIGNALS, DECIDE_CALL_SIGNALS),
    ),
    BusUser(
        "client",
        Zone.CLIENTS,
        calls=tuple(endpoint for endpoint in _OF_EVERYONE if endpoint not in ADMINISTRATION),
        hears=(UPLOAD_TAKEN, UPLOAD_REJECTED),
        follows=(RUN_PRINTED, PROGRAM_CALLED, TURN_ADVANCED, LEARNING_ADVANCED),
        writes_objects=(UPLOADS, LEARNING_FILES),
        discovers=True,
    ),
)
"""Every user. Only users of the core zone reach JetStream itself."""
