"""`docs/contracts.md`: the guide, with its examples put in, and the reference below it."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from skillbus.contracts import resources
from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.documents.fields import Node, anchor, field_table, table
from skillbus.contracts.documents.schemas import (
    Schemas,
    WireMessage,
    all_schemas,
    fact_of,
    reply_of,
    request_of,
    told_of,
)
from skillbus.contracts.endpoint import Endpoint, Event, Feed
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.contracts.message import Message

_PLACE: Final = re.compile(r"^\{\{ (?P<what>\w+)(?: (?P<name>\S+))? \}\}$", re.MULTILINE)
_FENCES: Final[Mapping[str, str]] = {".mjs": "js", ".json": "json"}
_DAY_S: Final = 86_400


def contracts_page(root: Path) -> str:
    """The whole page; `root` is the checkout that holds the quoted programs."""
    guide = Path(__file__).with_name("guide.md").read_text(encoding="utf-8")
    schemas = all_schemas()
    parts: Mapping[str, Callable[[], str]] = {
        "overview": _overview,
        "requests": lambda: "\n\n".join(_endpoint(endpoint, schemas) for endpoint in ENDPOINTS),
        "events": lambda: "\n\n".join(_event(event, schemas) for event in EVENTS),
        "feeds": lambda: "\n\n".join(_feed(feed, schemas) for feed in FEEDS),
        "types": lambda: _types(schemas),
        "errors": _errors,
        "streams": _streams,
        "buckets": _buckets,
        "consumers": _consumers,
    }

    def filled(place: re.Match[str]) -> str:
        name = place["name"]
        return parts[place["what"]]() if name is None else _quoted(root / name)

    return _PLACE.sub(filled, guide)


def _quoted(file: Path) -> str:
    return f"```{_FENCES[file.suffix]}\n{file.read_text(encoding='utf-8').rstrip()}\n```"


def _overview() -> str:
    rows = [(f"[`{e.subject}`](#{_heading(e)})", e.summary) for e in ENDPOINTS]
    return table(("subject", "what it does"), rows)


def _heading(endpoint: Endpoint[Message, Message]) -> str:
    return f"{endpoint.service}-{endpoint.name}"


def _endpoint(endpoint: Endpoint[Message, Message], schemas: Schemas) -> str:
    again = "may be sent again when no reply came" if endpoint.idempotent else "is not sent again when no reply came"
    waits = f"Callers wait {endpoint.timeout_s:g} s unless they say otherwise; a request {again}."
    parts = (
        f'<a id="{_heading(endpoint)}"></a>',
        f"### {endpoint.service}: {endpoint.name}",
        endpoint.summary,
        f"Subject `{endpoint.subject}`, queue group `{endpoint.service}`. {waits}",
        "**Request**",
        field_table(_node(schemas, request_of(endpoint)), request=True),
        "**Reply**",
        field_table(_node(schemas, reply_of(endpoint)), request=False),
        f"**Errors**: {_codes(endpoint.raises)}[those of every request](#errors).",
        f"```sh\n{_command(endpoint)}\n```",
    )
    return "\n\n".join(parts)


def _codes(codes: tuple[ErrorCode, ...]) -> str:
    return "".join(f"`{code}` ({_class(code)}), " for code in codes) + ("and " if codes else "")


def _class(code: ErrorCode) -> str:
    return f"{ERROR_CLASSES[code].status}, {'retryable' if ERROR_CLASSES[code].retryable else 'not retryable'}"


def _command(endpoint: Endpoint[Message, Message]) -> str:
    body = json.dumps(endpoint.example, ensure_ascii=False)
    return f"nats req {endpoint.subject} {shlex.quote(body)} --timeout {endpoint.timeout_s:g}s"


def _event(event: Event[Message], schemas: Schemas) -> str:
    node = _node(schemas, fact_of(event))
    subject = event.subject("<identity>")
    said = f"{event.summary} Subject `{subject}`, published by the {event.service}."
    return f"### {event.entity}.{event.fact}\n\n{said}\n\n{field_table(node, request=False)}"


def _feed(feed: Feed[Message], schemas: Schemas) -> str:
    subject = feed.subject("<identity>")
    said = f"{feed.summary} Subject `{subject}`, published by the {feed.service}, kept by nobody."
    return f"### {feed.entity}.{feed.fact}\n\n{said}\n\n{field_table(_node(schemas, told_of(feed)), request=False)}"


def _node(schemas: Schemas, message: WireMessage) -> Node:
    return Node.model_validate(schemas.components[schemas.name_of(message)])


def _types(schemas: Schemas) -> str:
    """What fields are made of: everything that is not itself a whole request, and everything that fields name."""
    nodes = {name: Node.model_validate(schema) for name, schema in schemas.components.items()}
    named = {target for node in nodes.values() for field in node.properties.values() for target in _targets(field)}
    return "\n\n".join(_type(name, nodes[name]) for name in sorted(named - {"JsonValue"}))


def _targets(node: Node) -> set[str]:
    below = [
        *node.any_of,
        *([node.items] if node.items else []),
        *([node.values] if isinstance(node.values, Node) else []),
    ]
    return {node.target} - {""} | {target for part in below for target in _targets(part)}


def _type(name: str, node: Node) -> str:
    meaning = " ".join(node.description.split())
    if node.enum:
        body = f"One of {', '.join(f'`{json.dumps(value)}`' for value in node.enum)}."
    elif node.type == "array":
        body = "A list of rows, each a list of numbers; in msgpack a map, see [vectors](#vectors-as-msgpack)."
    else:
        body = field_table(node, request=True)
    return f'<a id="{anchor(name)}"></a>\n\n### {name}\n\n{meaning}\n\n{body}'


def _errors() -> str:
    rows = [
        (f"`{code}`", str(what.status), "yes" if what.retryable else "no", f"{what.title}.")
        for code, what in ERROR_CLASSES.items()
    ]
    return table(("code", "status", "retryable", "meaning"), rows)


def _streams() -> str:
    rows = [
        (
            f"`{stream.name}`",
            ", ".join(f"`{subject}`" for subject in stream.subjects),
            _days(stream.max_age_s),
            _at_most(stream),
            f"{stream.duplicate_window_s / 60:g} min",
        )
        for stream in resources.STREAMS
    ]
    return table(("stream", "subjects", "kept", "at most", "repetitions known for"), rows)


def _at_most(stream: resources.Stream) -> str:
    each = ", the last message of each subject" if stream.last_of_a_subject else ""
    return f"{_bytes(stream.max_bytes)}{f', {stream.max_messages:,} messages' * (stream.max_messages >= 0)}{each}"


def _buckets() -> str:
    objects = [
        (
            f"`{bucket.name}`",
            "object store",
            _days(bucket.ttl_s) if bucket.ttl_s else "until deleted",
            _bytes(bucket.max_bytes),
        )
        for bucket in resources.OBJECT_BUCKETS
    ]
    keys = [
        (f"`{bucket.name}`", "key-value", f"the last {bucket.history} values of a key", "no limit")
        for bucket in resources.KEY_VALUE_BUCKETS
    ]
    return table(("bucket", "kind", "kept", "at most"), [*objects, *keys])


def _consumers() -> str:
    rows = [
        (
            f"`{consumer.name}`",
            f"`{consumer.stream}`",
            ", ".join(f"`{subject}`" for subject in consumer.subjects),
            f"{consumer.ack_wait_s:g} s",
            str(consumer.concurrency),
        )
        for consumer in resources.CONSUMERS
    ]
    return table(("consumer", "stream", "hears", "ack wait", "at a time, each replica"), rows)


def _days(seconds: float) -> str:
    days = seconds / _DAY_S
    return f"{days:g} day{'' if days == 1 else 's'}"


def _bytes(count: int) -> str:
    return "no limit" if count < 0 else f"{count / 1024 / 1024:g} MiB"
