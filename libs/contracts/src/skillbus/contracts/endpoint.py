"""How a request and an event are described once, for the code, the documents and the tests."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import Field

from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.message import Empty, Message

RequestT_co = TypeVar("RequestT_co", bound=Message, covariant=True)
ReplyT_co = TypeVar("ReplyT_co", bound=Message, covariant=True)
FactT_co = TypeVar("FactT_co", bound=Message, covariant=True)

VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[RequestT_co, ReplyT_co]):
    """A request that a service answers, by the NATS services API."""

    service: str
    """Owner and queue group."""
    name: str
    """A verb and a noun: `search_tools`."""
    request: type[RequestT_co]
    reply: type[ReplyT_co]
    summary: str
    raises: tuple[ErrorCode, ...] = ()
    """Errors of this endpoint, beside `ANY_REQUEST`."""
    idempotent: bool = True
    """Whether a lost request may be sent again."""
    timeout_s: float = 10.0
    """How long a caller waits unless it says otherwise."""
    example: dict[str, object] = field(default_factory=dict)
    """A request body that works on a running system."""

    @property
    def subject(self) -> str:
        """Where the request is sent."""
        return f"skillbus.{VERSION}.{self.service}.{self.name}"

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """Every error code that a caller can meet."""
        return (*ANY_REQUEST, *self.raises)


@dataclass(frozen=True, slots=True)
class Event(Generic[FactT_co]):
    """A fact that a service publishes to the stream `SKILLBUS_EVT`."""

    service: str
    """Who publishes it."""
    entity: str
    fact: str
    """Past tense: `installed`."""
    body: type[FactT_co]
    summary: str

    def subject(self, identity: str) -> str:
        """The subject of one fact; `identity` is a token without dots, spaces or wildcards."""
        return f"skillbus.evt.{self.entity}.{self.fact}.{identity}"

    @property
    def pattern(self) -> str:
        """The subject of all facts of this kind."""
        return f"skillbus.evt.{self.entity}.{self.fact}.*"


@dataclass(frozen=True, slots=True)
class Feed(Generic[FactT_co]):
    """What a service tells about one thing while it happens. Nothing is kept: who does not listen misses it."""

    service: str
    """Who publishes it."""
    entity: str
    fact: str
    """Past tense: `printed`."""
    body: type[FactT_co]
    summary: str

    def subject(self, identity: str) -> str:
        """Where it is told about one thing; `identity` is a token without dots, spaces or wildcards."""
        return f"skillbus.feed.{self.entity}.{self.fact}.{identity}"


class HealthCheck(Message):
    """One thing that a service needs."""

    name: str
    ready: bool
    detail: str = ""


class Health(Message):
    """Whether one replica of a service can do its work."""

    service: str
    ready: bool
    checks: tuple[HealthCheck, ...] = Field(default=())


def make_health_endpoint(service: str) -> Endpoint[Empty, Health]:
    """The `health` endpoint that every service has."""
    return Endpoint(
        service=service,
        name="health",
        request=Empty,
        reply=Health,
        summary=f"Whether the {service} can do its work, and what is missing if not.",
        timeout_s=2.0,
    )
