"""JSON Schemas of the messages on the bus: a request as it is read, a reply and a fact as they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue
from pydantic.json_schema import models_json_schema

from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.endpoint import Endpoint, Event, Feed
from skillbus.contracts.errors import ErrorBody
from skillbus.contracts.message import Message

Mode = Literal["validation", "serialization"]

_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class WireMessage:
    """One thing that crosses the bus."""

    name: str
    """`<service>.<request>.request`, `<service>.<request>.reply`, `<entity>.<fact>.event` or `.feed`, or `error`."""
    model: type[Message]
    mode: Mode


ERROR = WireMessage("error", ErrorBody, "serialization")


def request_of(endpoint: Endpoint[Message, Message]) -> WireMessage:
    """What is asked."""
    return WireMessage(f"{endpoint.service}.{endpoint.name}.request", endpoint.request, "validation")


def reply_of(endpoint: Endpoint[Message, Message]) -> WireMessage:
    """What is answered."""
    return WireMessage(f"{endpoint.service}.{endpoint.name}.reply", endpoint.reply, "serialization")


def fact_of(event: Event[Message]) -> WireMessage:
    """What is published."""
    return WireMessage(f"{event.entity}.{event.fact}.event", event.body, "serialization")


def told_of(feed: Feed[Message]) -> WireMessage:
    """What is told while it happens."""
    return WireMessage(f"{feed.entity}.{feed.fact}.feed", feed.body, "serialization")


def wire_messages() -> Sequence[WireMessage]:
    """All of them, in the catalogue's order."""
    asked = [message for endpoint in ENDPOINTS for message in (request_of(endpoint), reply_of(endpoint))]
    return [*asked, *map(fact_of, EVENTS), *map(told_of, FEEDS), ERROR]


def schema_of(message: WireMessage) -> JsonValue:
    """The schema of one message, complete in itself."""
    return message.model.model_json_schema(mode=message.mode)


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of all messages, each part of them once."""

    components: Mapping[str, JsonValue]
    """By name; they refer to one another as `#/components/schemas/<name>`."""
    names: Mapping[tuple[type[Message], Mode], str]
    """Which of them is a message's."""

    def name_of(self, message: WireMessage) -> str:
        """The component that describes a message."""
        return self.names[message.model, message.mode]


def all_schemas() -> Schemas:
    """The schemas of everything in the catalogue."""
    wanted = list({(message.model, message.mode): None for message in wire_messages()})
    references, definitions = models_json_schema(wanted, ref_template=_REFERENCE)
    names = {(model, mode): str(references[model, mode]["$ref"]).rpartition("/")[2] for model, mode in wanted}
    return Schemas(definitions["$defs"], names)
