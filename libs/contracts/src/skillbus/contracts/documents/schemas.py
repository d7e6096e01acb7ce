"""JSON Schemas of the messages: requests as services read them, replies and events as services write them."""

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
    """Message that crosses the bus."""

    name: str
    """`<service>.<request>.request`, `<service>.<request>.reply`, `<entity>.<fact>.event` or `.feed`, or `error`."""
    model: type[Message]
    mode: Mode


ERROR = WireMessage("error", ErrorBody, "serialization")


def describe_request(endpoint: Endpoint[Message, Message]) -> WireMessage:
    """Return the request message of an endpoint."""
    return WireMessage(f"{endpoint.service}.{endpoint.name}.request", endpoint.request, "validation")


def describe_reply(endpoint: Endpoint[Message, Message]) -> WireMessage:
    """Return the reply message of an endpoint."""
    return WireMessage(f"{endpoint.service}.{endpoint.name}.reply", endpoint.reply, "serialization")


def describe_event(event: Event[Message] | Feed[Message]) -> WireMessage:
    """Return the message of an event or a feed."""
    kind = "event" if isinstance(event, Event) else "feed"
    return WireMessage(f"{event.entity}.{event.fact}.{kind}", event.body, "serialization")


def list_wire_messages() -> Sequence[WireMessage]:
    """Return every message, in the order of the catalogue."""
    requests = [message for endpoint in ENDPOINTS for message in (describe_request(endpoint), describe_reply(endpoint))]
    return [*requests, *map(describe_event, EVENTS), *map(describe_event, FEEDS), ERROR]


def build_schema(message: WireMessage) -> JsonValue:
    """Return the self-contained JSON Schema of one message."""
    return message.model.model_json_schema(mode=message.mode)


@dataclass(frozen=True, slots=True)
class Schemas:
    """JSON Schemas of all messages, with each shared part once."""

    components: Mapping[str, JsonValue]
    """Schemas by name. They refer to one another as `#/components/schemas/<name>`."""
    names: Mapping[tuple[type[Message], Mode], str]

    def get_component(self, message: WireMessage) -> str:
        """Return the name of the component that describes a message."""
        return self.names[message.model, message.mode]


def build_schemas() -> Schemas:
    """Return the schemas of every message in the catalogue."""
    wanted = list({(message.model, message.mode): None for message in list_wire_messages()})
    references, definitions = models_json_schema(wanted, ref_template=_REFERENCE)
    names = {(model, mode): str(references[model, mode]["$ref"]).rpartition("/")[2] for model, mode in wanted}
    return Schemas(definitions["$defs"], names)
