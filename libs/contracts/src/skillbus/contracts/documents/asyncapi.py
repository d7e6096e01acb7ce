"""`docs/asyncapi.yaml`: the catalogue as an AsyncAPI 3.0 document, from the viewpoint of skillbus.

An operation `receive` is a request that skillbus replies to, or an event that it handles; `send` is an event or a feed
that it publishes.
"""

from importlib.metadata import version
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.documents.schemas import (
    ERROR,
    Schemas,
    WireMessage,
    build_schemas,
    describe_event,
    describe_reply,
    describe_request,
)
from skillbus.contracts.endpoint import CALLERS, VERSION, Endpoint, Event, Feed
from skillbus.contracts.message import JSON, MSGPACK, Message

Object = dict[str, JsonValue]

_DESCRIPTION: Final = (
    "Requests through the NATS services API, events in JetStream. docs/contracts.md explains the same for people: "
    "errors, vectors as msgpack, uploads through the object store, and delivery guarantees."
)
_BINDING_VERSION: Final = "0.1.0"
_HEADERS: Final[Object] = {
    "Content-Type": {"type": "string", "enum": [JSON, MSGPACK], "default": JSON},
    "Accept": {
        "type": "string",
        "enum": [JSON, MSGPACK],
        "description": "Content type of the reply. The default is the request's.",
    },
    "Skillbus-Deadline-Ms": {
        "type": "string",
        "pattern": "^[0-9]+$",
        "description": "Unix time in ms at which the caller stops waiting. After it, work is not started.",
    },
    "traceparent": {"type": "string", "description": "W3C trace context."},
    "Nats-Service-Error": {"type": "string", "description": "Error message in ASCII, at most 200 characters."},
    "Nats-Service-Error-Code": {"type": "string", "pattern": "^[0-9]{3}$", "description": "Status of the error code."},
    "Nats-Msg-Id": {"type": "string", "description": "The same for every attempt to publish one event."},
    "Skillbus-Project": {"type": "string", "description": "Project of the event."},
}


def build_asyncapi_document() -> Object:
    """Return the document."""
    schemas = build_schemas()
    channels: Object = {}
    operations: Object = {}
    for endpoint in ENDPOINTS:
        _add_request(endpoint, channels, operations)
    published: tuple[Event[Message] | Feed[Message], ...] = (*EVENTS, *FEEDS)
    for event in published:
        _add_event(event, channels, operations)
    return {
        "asyncapi": "3.0.0",
        "id": "urn:skillbus:" + VERSION,
        "info": {
            "title": "skillbus",
            "version": version("skillbus-contracts"),
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": JSON,
        "servers": {
            "nats": {
                "host": "{host}:{port}",
                "protocol": "nats",
                "variables": {
                    "host": {"default": "127.0.0.1"},
                    "port": {
                        "default": "4222",
                        "description": "A standalone skillbus writes its port to connection.json.",
                    },
                },
                "security": [_to("securitySchemes", "token"), _to("securitySchemes", "user")],
            }
        },
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": _messages(schemas),
            "schemas": dict(schemas.components),
            "securitySchemes": {
                "token": {"type": "httpApiKey", "in": "header", "name": "auth_token", "description": "NATS token."},
                "user": {"type": "userPassword", "description": "NATS user and password."},
            },
        },
    }


def _to(kind: str, name: str) -> Object:
    return {"$ref": f"#/components/{kind}/{name}"}


def _add_request(endpoint: Endpoint[Message, Message], channels: Object, operations: Object) -> None:
    key = f"{endpoint.service}.{endpoint.name}"
    request, reply = describe_request(endpoint).name, describe_reply(endpoint).name
    channels[key] = {"address": endpoint.subject, "messages": {request: _to("messages", request)}}
    channels[f"{key}.reply"] = {
        "address": None,
        "description": "Inbox that the request names as its reply subject.",
        "messages": {reply: _to("messages", reply), ERROR.name: _to("messages", ERROR.name)},
    }
    answers: list[JsonValue] = [{"$ref": f"#/channels/{key}.reply/messages/{name}"} for name in (reply, ERROR.name)]
    operations[key] = {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{key}"},
        "summary": endpoint.summary,
        "messages": [{"$ref": f"#/channels/{key}/messages/{request}"}],
        "bindings": {"nats": {"queue": endpoint.service, "bindingVersion": _BINDING_VERSION}},
        "reply": {"channel": {"$ref": f"#/channels/{key}.reply"}, "messages": answers},
        "x-errors": [str(code) for code in endpoint.errors],
        "x-idempotent": endpoint.idempotent,
        "x-read": endpoint.is_read,
        "x-timeout-s": endpoint.timeout_s,
    }


def _add_event(event: Event[Message] | Feed[Message], channels: Object, operations: Object) -> None:
    key, message = f"{event.entity}.{event.fact}", describe_event(event).name
    channels[key] = {
        "address": event.subject("{identity}"),
        "parameters": {"identity": {"description": "Name of the thing that the event is about; * for all."}},
        "messages": {message: _to("messages", message)},
    }
    operations[key] = {
        "action": "receive" if event.service == CALLERS else "send",
        "channel": {"$ref": f"#/channels/{key}"},
        "summary": event.summary,
        "messages": [{"$ref": f"#/channels/{key}/messages/{message}"}],
        "x-publisher": event.service,
        "x-kept": isinstance(event, Event),
    }


def _messages(schemas: Schemas) -> Object:
    messages: Object = {ERROR.name: _message(ERROR, schemas, "Nats-Service-Error", "Nats-Service-Error-Code")}
    for endpoint in ENDPOINTS:
        request, reply = describe_request(endpoint), describe_reply(endpoint)
        asked = _message(request, schemas, "Content-Type", "Accept", "Skillbus-Deadline-Ms", "traceparent")
        example = endpoint.request.model_validate(endpoint.example).model_dump(mode="json", exclude_unset=True)
        asked["examples"] = [{"payload": example}]
        messages |= {request.name: asked, reply.name: _message(reply, schemas, "Content-Type")}
    for event in EVENTS:
        fact = describe_event(event)
        messages[fact.name] = _message(fact, schemas, "Content-Type", "Nats-Msg-Id", "Skillbus-Project", "traceparent")
    for message in map(describe_event, FEEDS):
        messages[message.name] = _message(message, schemas, "Content-Type")
    return messages


def _message(message: WireMessage, schemas: Schemas, *headers: str) -> Object:
    component = schemas.get_component(message)
    return {
        "name": message.model.__name__,
        "title": " ".join((message.model.__doc__ or "").split()),
        "headers": {"type": "object", "properties": {name: _HEADERS[name] for name in headers}},
        "payload": _to("schemas", component),
    }
