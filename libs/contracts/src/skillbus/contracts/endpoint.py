"""Declarations of requests, events and feeds, used by the code, the documents and the tests."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pydantic import Field

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.message import Empty, Message

RequestT_co = TypeVar("RequestT_co", bound=Message, covariant=True)
ReplyT_co = TypeVar("ReplyT_co", bound=Message, covariant=True)
FactT_co = TypeVar("FactT_co", bound=Message, covariant=True)

VERSION = "v1"
CALLERS: Final = "client"
"""Name of the publisher of an event that no service publishes: the user `client` of the bus."""


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[RequestT_co, ReplyT_co]):
    """Request that a service replies to through the NATS services API."""

    service: str
    """Service that replies; also its queue group."""
    name: str
    """Verb and noun: `search_tools`."""
    request: type[RequestT_co]
    reply: type[ReplyT_co]
    summary: str
    raises: tuple[ErrorCode, ...] = ()
    """Errors of this request, in addition to `ANY_REQUEST`."""
    idempotent: bool = True
    """True if a request without a reply may be sent again."""
    is_read: bool = False
    """True if it only reads, so that callers may send it once more while they wait for the first answer."""
    stores_data: bool = False
    """True if the request is refused with `storage_full` while the disk has no room for new data."""
    timeout_s: float = 10.0
    """Default time that a caller waits, in seconds."""
    example: dict[str, object] = field(default_factory=dict)
    """Request body that works on a running system."""
    act: AuditedAct | None = None
    """Declaration that it is an administrative act, which the service records in the audit log."""
    asks_who: bool = False
    """True if the service must know who asks, although the request is no act."""

    @property
    def needs_origin(self) -> bool:
        """True if the request carries who asks, and from where."""
        return self.asks_who or self.act is not None

    @property
    def subject(self) -> str:
        """Subject to send the request to."""
        return f"skillbus.{VERSION}.{self.service}.{self.name}"

    @property
    def own_errors(self) -> tuple[ErrorCode, ...]:
        """Error codes of this request that not every request has."""
        return (*self.raises, ErrorCode.STORAGE_FULL) if self.stores_data else self.raises

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """Every error code that a caller can get."""
        return (*ANY_REQUEST, *self.own_errors)


@dataclass(frozen=True, slots=True)
class Event(Generic[FactT_co]):
    """Fact that a service publishes to the stream `SKILLBUS_EVT`."""

    service: str
    """Service that publishes it, or `CALLERS`."""
    entity: str
    fact: str
    """Past tense: `installed`."""
    body: type[FactT_co]
    summary: str

    def subject(self, identity: str) -> str:
        """Return the subject of one fact. `identity` is a token without dots, spaces or wildcards."""
        return f"skillbus.evt.{self.entity}.{self.fact}.{identity}"

    @property
    def pattern(self) -> str:
        """Subject pattern of all facts of this kind."""
        return f"skillbus.evt.{self.entity}.{self.fact}.*"


@dataclass(frozen=True, slots=True)
class Feed(Generic[FactT_co]):
    """Live messages about one thing. They are not stored: a subscriber gets only what is published while it listens."""

    service: str
    """Service that publishes it."""
    entity: str
    fact: str
    """Past tense: `printed`."""
    body: type[FactT_co]
    summary: str

    def subject(self, identity: str) -> str:
        """Return the subject for one thing. `identity` is a token without dots, spaces or wildcards."""
        return f"skillbus.feed.{self.entity}.{self.fact}.{identity}"

    @property
    def pattern(self) -> str:
        """Subject pattern of all messages of this feed."""
        return self.subject("*")


@dataclass(frozen=True, slots=True)
class WorkLine(Generic[RequestT_co, ReplyT_co]):
    """Requests about one piece of work, which go to the one replica that does it and listens while it does."""

    service: str
    """Service that replies."""
    pattern: str
    """Subject; its `*` stands for the id of the work."""
    request: type[RequestT_co]
    reply: type[ReplyT_co]
    summary: str

    def subject(self, identity: str) -> str:
        """Return the subject for one piece of work."""
        return self.pattern.replace("*", identity)


class HealthCheck(Message):
    """State of one thing that a service needs."""

    name: str
    ready: bool
    detail: str = ""
    """Reason why it is not ready."""
    warning: str = ""
    """Problem that an operator should solve, although the service works."""


class Health(Message):
    """Readiness of one replica of a service."""

    service: str
    ready: bool
    checks: tuple[HealthCheck, ...] = Field(default=())


def make_health_endpoint(service: str) -> Endpoint[Empty, Health]:
    """Return the `health` endpoint of a service."""
    return Endpoint(
        service=service,
        name="health",
        request=Empty,
        reply=Health,
        summary=f"Report whether the {service} can do its work, and what it lacks otherwise.",
        is_read=True,
        timeout_s=2.0,
    )
