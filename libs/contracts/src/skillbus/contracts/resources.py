"""Streams, consumers, object store buckets and key-value buckets that skillbus needs on the NATS server.

`skillbus.common.bus.provision` creates them; services only use them.
"""

from dataclasses import dataclass
from typing import Final

from skillbus.contracts.embedder.registry import DEFAULT_MODEL_CHANGED
from skillbus.contracts.endpoint import Event
from skillbus.contracts.indexer.skills import SKILL_INSTALLED, SKILL_REMOVED, SKILL_UPDATED
from skillbus.contracts.learner.index import KNOWLEDGE_CHANGED, KNOWLEDGE_INDEXED
from skillbus.contracts.learner.learning_jobs import LOG_PARSED, TEST_FINISHED
from skillbus.contracts.learner.usage import KNOWLEDGE_USED
from skillbus.contracts.message import Message

_MINUTE: Final = 60.0
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * 60 * _MINUTE
_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB


@dataclass(frozen=True, slots=True)
class Stream:
    """JetStream stream. When it is full, the oldest messages are dropped."""

    name: str
    subjects: tuple[str, ...]
    max_age_s: float
    max_bytes: int
    duplicate_window_s: float = 10 * _MINUTE
    max_messages: int = -1
    """-1 means no limit."""
    messages_of_a_subject: int = -1
    """Last messages of each subject that are kept; -1 means no limit."""
    append_only: bool = False
    """True if no request can delete or replace a message: it goes only by age and size."""


@dataclass(frozen=True, slots=True)
class ObjectBucket:
    """Object store bucket. `ttl_s=0` keeps objects forever; `max_bytes=-1` means no limit."""

    name: str
    ttl_s: float = 0
    max_bytes: int = -1

    @property
    def stream(self) -> str:
        """Name of the stream behind the bucket."""
        return f"OBJ_{self.name}"

    @property
    def meta_subjects(self) -> str:
        """Subjects of object records. A record is written after the last chunk of its object."""
        return f"$O.{self.name}.M.>"


@dataclass(frozen=True, slots=True)
class KeyValueBucket:
    """Key-value bucket that keeps the last `history` values of a key. `ttl_s=0` keeps them forever."""

    name: str
    history: int = 5
    ttl_s: float = 0

    @property
    def stream(self) -> str:
        """Name of the stream behind the bucket."""
        return f"KV_{self.name}"


@dataclass(frozen=True, slots=True)
class Consumer:
    """Durable pull consumer, shared by the replicas of one service."""

    name: str
    stream: str
    subjects: tuple[str, ...]
    ack_wait_s: float = 30.0
    concurrency: int = 4
    """Messages that one replica handles at the same time."""


EVENTS: Final = Stream("SKILLBUS_EVT", ("skillbus.evt.>",), max_age_s=30 * _DAY, max_bytes=256 * _MIB)
DEAD_LETTERS: Final = Stream("SKILLBUS_DLQ", ("skillbus.dlq.>",), max_age_s=30 * _DAY, max_bytes=64 * _MIB)
RUN_HISTORY: Final = Stream(
    "SKILLBUS_RUNS",
    ("skillbus.run.*",),
    max_age_s=_DAY,
    max_bytes=64 * _MIB,
    max_messages=10_000,
    messages_of_a_subject=1,
)
"""Records of runs, as `skillbus.run.<run id>`: written when a run is accepted and when it ends."""

AUDIT_LOG: Final = Stream(
    "SKILLBUS_AUDIT",
    ("skillbus.audit.>",),
    max_age_s=365 * _DAY,
    max_bytes=16 * _MIB,
    messages_of_a_subject=4_000,
    append_only=True,
)
"""Facts about administrative acts, as `skillbus.audit.<service>.<act>` or `skillbus.audit.<service>.refused`."""

UPLOADS: Final = ObjectBucket("skills", max_bytes=512 * _MIB)
"""Uploads of skill packages, as `<name>.zip` or `<project>/<name>.zip`. The indexer deletes them once handled."""
PACKAGES: Final = ObjectBucket("packages")
"""Packages of installed skills, named by `make_package_name`, and incoming packages, as `incoming/<uuid>.zip`."""
INCOMING_PREFIX: Final = "incoming/"
RUN_FILES: Final = ObjectBucket("runs", ttl_s=_DAY, max_bytes=512 * _MIB)
"""Files of runs and calls: large inputs under the caller's names, output as `<run id>/stdout`, artifacts as
`<run id>/out/<name>`, files of MCP tools as `calls/<project>/<run id>/<name>`."""
LEARNING_FILES: Final = ObjectBucket("learning", ttl_s=_DAY, max_bytes=4 * _GIB)
"""Files to learn from, until the job ends. Uploads of the gateway are `<project>/<uuid>`."""

CATALOGUE: Final = KeyValueBucket("catalogue")
"""Records of skills, as `<project>.skill.<name>`, and of other tools, as `<project>.tool.<hash of the id>`."""
HOMES: Final = KeyValueBucket("homes", history=1)
"""Records of devices, as `<project>.<hash of the home>.<hash of the id>`."""
COMMAND_LIBRARY: Final = KeyValueBucket("command-library", history=1)
"""Records of the commands of devices, as `<project>.<hash of the id>`."""
MCP_SERVERS: Final = KeyValueBucket("mcp-servers")
"""MCP servers, as `<project>.<name>`: the registration and the result of the last listing."""
TURNS: Final = KeyValueBucket("turns", history=1, ttl_s=_HOUR)
"""Turns of chats that wait for results of their caller's tools, as `<project>.<turn id>`."""
DIALOGUES: Final = KeyValueBucket("dialogues", history=1, ttl_s=10 * _MINUTE)
"""Devices that sessions mentioned last, as `<project>.<hash of home and session>`."""
REGISTRY: Final = KeyValueBucket("registry", history=1)
"""The key `changed` is written after each change of providers and models, so that copies are read again."""
SWITCHES: Final = KeyValueBucket("switches")
"""Progress of the switch of each index to another model, by alias."""
API_KEYS: Final = KeyValueBucket("api-keys", history=1)
"""API keys of the gateway, as `key.<id>`, the last use of each, as `use.<id>`, browser sessions, as `session.<id>`, and
login links that were not used yet, as `link.<id>`.

It holds hashes, never keys or cookies.
"""

SKILL_CHANGES: Final[tuple[Event[Message], ...]] = (
    SKILL_INSTALLED,
    SKILL_UPDATED,
    SKILL_REMOVED,
)
INDEXER_UPLOADS: Final = Consumer("indexer", UPLOADS.stream, (UPLOADS.meta_subjects,))
INDEXER_CHANGES: Final = Consumer("indexer", EVENTS.name, tuple(event.pattern for event in SKILL_CHANGES))
INDEXER_MODELS: Final = Consumer("indexer-models", EVENTS.name, (DEFAULT_MODEL_CHANGED.pattern,))
INDEXER_KNOWLEDGE: Final = Consumer("indexer-knowledge", EVENTS.name, (KNOWLEDGE_CHANGED.pattern,))
LEARNER_INDEXED: Final = Consumer("learner-indexed", EVENTS.name, (KNOWLEDGE_INDEXED.pattern,))
LEARNER_USES: Final = Consumer("learner-uses", EVENTS.name, (KNOWLEDGE_USED.pattern,))
LEARNER_TRIGGERS: Final = Consumer("learner-triggers", EVENTS.name, (LOG_PARSED.pattern, TEST_FINISHED.pattern))

STREAMS: Final = (EVENTS, DEAD_LETTERS, RUN_HISTORY, AUDIT_LOG)
OBJECT_BUCKETS: Final = (UPLOADS, PACKAGES, RUN_FILES, LEARNING_FILES)
KEY_VALUE_BUCKETS: Final = (
    CATALOGUE,
    HOMES,
    COMMAND_LIBRARY,
    MCP_SERVERS,
    TURNS,
    DIALOGUES,
    REGISTRY,
    SWITCHES,
    API_KEYS,
)
PURGEABLE_STREAMS: Final = (
    *(stream.name for stream in STREAMS if not stream.append_only),
    *(bucket.stream for bucket in OBJECT_BUCKETS),
    *(bucket.stream for bucket in KEY_VALUE_BUCKETS),
)
"""Every stream on the server that can be purged, those behind buckets included: all but the audit log."""
CONSUMERS: Final = (
    INDEXER_UPLOADS,
    INDEXER_CHANGES,
    INDEXER_MODELS,
    INDEXER_KNOWLEDGE,
    LEARNER_INDEXED,
    LEARNER_USES,
    LEARNER_TRIGGERS,
)


def make_package_name(project: str, name: str, content_digest: str) -> str:
    """Return the object name of an installed skill's package in the bucket `packages`. Its SKILL.md is at the top."""
    return f"{project}/{name}/{content_digest}.zip"


def make_run_subject(run_id: str) -> str:
    """Return the subject of a run's record in the stream `SKILLBUS_RUNS`."""
    return f"skillbus.run.{run_id}"
