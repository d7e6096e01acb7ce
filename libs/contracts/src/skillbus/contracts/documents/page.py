"""`docs/contracts.md`: the guide with its quoted programs, followed by the reference, with tables of fields."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from skillbus.contracts import resources
from skillbus.contracts.bus_users import BUS_USERS, Zone
from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.documents.schemas import (
    Schemas,
    WireMessage,
    build_schemas,
    describe_event,
    describe_reply,
    describe_request,
)
from skillbus.contracts.endpoint import CALLERS, Endpoint, Event, Feed
from skillbus.contracts.errors import ERROR_CLASSES
from skillbus.contracts.message import Message

_OF_CLIENTS: Final = frozenset(
    endpoint.subject for user in BUS_USERS if user.zone is Zone.CLIENTS for endpoint in user.calls
)
_TYPE_NAMES: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "object",
}


class SchemaNode(BaseModel):
    """Part of a JSON Schema, with the keywords that pydantic writes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ref: str | None = Field(default=None, alias="$ref")
    type: str | None = None
    any_of: tuple["SchemaNode", ...] = Field(default=(), alias="anyOf")
    items: "SchemaNode | None" = None
    values: "SchemaNode | bool | None" = Field(default=None, alias="additionalProperties")
    properties: dict[str, "SchemaNode"] = Field(default_factory=dict)
    required: tuple[str, ...] = ()
    enum: tuple[JsonValue, ...] = ()
    const: JsonValue = None
    default: JsonValue = None
    description: str = ""
    format: str | None = None
    encoding: str | None = Field(default=None, alias="contentEncoding")
    pattern: str | None = None
    min_length: int | None = Field(default=None, alias="minLength")
    max_length: int | None = Field(default=None, alias="maxLength")
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = Field(default=None, alias="exclusiveMinimum")
    min_items: int | None = Field(default=None, alias="minItems")
    max_items: int | None = Field(default=None, alias="maxItems")
    max_properties: int | None = Field(default=None, alias="maxProperties")

    @property
    def target(self) -> str:
        """Name of the component that it refers to."""
        return (self.ref or "").rpartition("/")[2]


def make_anchor(name: str) -> str:
    """Return the anchor of a type on the page."""
    return f"type-{name.lower()}"


def format_field_table(node: SchemaNode, *, request: bool) -> str:
    """Return the fields of an object as a Markdown table. Limits and defaults are shown for requests only."""
    if not node.properties:
        return "No fields: `{}`, or an empty body." if request else "No fields: `{}`."
    head = ("field", "type", "limits", "default", "meaning") if request else ("field", "type", "meaning")
    rows = [_row(name, field, name in node.required, request=request) for name, field in node.properties.items()]
    return format_table(head, rows)


def _row(name: str, field: SchemaNode, required: bool, *, request: bool) -> tuple[str, ...]:
    meaning = " ".join(field.description.split())
    if not request:
        return (f"`{name}`", format_type(field), meaning)
    if required:
        default = "**required**"
    elif "default" not in field.model_fields_set:
        default = "`{}`" if field.type == "object" else "none"
    else:
        default = "absent" if field.default is None else f"`{json.dumps(field.default, ensure_ascii=False)}`"
    return (f"`{name}`", format_type(field), ", ".join(_limits(field)), default, meaning)


def format_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def format_type(node: SchemaNode) -> str:
    """Return the type of a value, with links to the types that it consists of."""
    if node.ref:
        return "any JSON" if node.target == "JsonValue" else f"[{node.target}](#{make_anchor(node.target)})"
    if node.any_of:
        return " or ".join(format_type(choice) for choice in node.any_of if choice.type != "null")
    if node.enum or "const" in node.model_fields_set:
        return " or ".join(f"`{json.dumps(value)}`" for value in (node.enum or (node.const,)))
    if node.type == "array":
        return f"list of {format_type(node.items)}" if node.items else "list"
    if isinstance(node.values, SchemaNode):
        return f"object of {format_type(node.values)}"
    return _format_simple_type(node)


def _format_simple_type(node: SchemaNode) -> str:
    if node.encoding:
        return f"{node.encoding} (bytes in msgpack)"
    if node.format == "date-time":
        return "time (RFC 3339)"
    return _TYPE_NAMES[node.type] if node.type else "any JSON"


def _limits(node: SchemaNode) -> Iterator[str]:
    for choice in node.any_of:
        yield from _limits(choice)
    yield from _span(node.min_length, node.max_length, " characters")
    yield from _span(node.min_items, node.max_items, " entries")
    yield from _span(None, node.max_properties, " entries")
    yield from _span(node.minimum, node.maximum, "")
    if node.above is not None:
        yield f"> {node.above:g}"
    if node.pattern:
        yield f"`{node.pattern}`"
    if node.items:
        yield from (f"each {limit}" for limit in _limits(node.items))


def _span(low: float | None, high: float | None, unit: str) -> Iterator[str]:
    if low is not None and high is not None:
        yield f"{low:,g} to {high:,g}{unit}"
    elif low is not None:
        yield f"≥ {low:,g}{unit}"
    elif high is not None:
        yield f"≤ {high:,g}{unit}"


_PLACE: Final = re.compile(r"^\{\{ (?P<what>\w+)(?: (?P<name>\S+))? \}\}$", re.MULTILINE)
_FENCES: Final[Mapping[str, str]] = {".mjs": "js", ".json": "json"}
_DAY_S: Final = 86_400


def build_page(root: Path) -> str:
    """Return the whole page. `root` is the checkout that holds the quoted programs."""
    guide = Path(__file__).with_name("guide.md").read_text(encoding="utf-8")
    schemas = build_schemas()
    parts: Mapping[str, Callable[[], str]] = {
        "overview": _overview,
        "requests": lambda: "\n\n".join(_endpoint(endpoint, schemas) for endpoint in ENDPOINTS),
        "events": lambda: "\n\n".join(_event(event, schemas) for event in EVENTS),
        "feeds": lambda: "\n\n".join(_event(feed, schemas) for feed in FEEDS),
        "types": lambda: _types(schemas),
        "errors": _errors,
        "streams": _streams,
        "buckets": _buckets,
        "consumers": _consumers,
    }

    def fill(place: re.Match[str]) -> str:
        if place["name"] is None:
            return parts[place["what"]]()
        file = root / place["name"]
        return f"```{_FENCES[file.suffix]}\n{file.read_text(encoding='utf-8').rstrip()}\n```"

    return _PLACE.sub(fill, guide)


def _overview() -> str:
    rows = [(f"[`{endpoint.subject}`](#{_heading(endpoint)})", endpoint.summary) for endpoint in ENDPOINTS]
    return format_table(("subject", "what it does"), rows)


def _heading(endpoint: Endpoint[Message, Message]) -> str:
    return f"{endpoint.service}-{endpoint.name}"


def _endpoint(endpoint: Endpoint[Message, Message], schemas: Schemas) -> str:
    repeat = "may be sent again" if endpoint.idempotent else "must not be sent again"
    if endpoint.is_read:
        repeat = "may be sent again, and [while its answer is late](#hedged-requests)"
    delivery = f"Default timeout {endpoint.timeout_s:g} s. A request without a reply {repeat}."
    command = shlex.quote(json.dumps(endpoint.example, ensure_ascii=False))
    classes = ((code, ERROR_CLASSES[code]) for code in endpoint.own_errors)
    raised = [f"`{code}` ({known.status}, {'' if known.retryable else 'not '}retryable), " for code, known in classes]
    errors = "".join([*raised, "and " if raised else ""])
    closed = "" if endpoint.subject in _OF_CLIENTS else " The user `client` of a deployment may not send it."
    recorded = " It is recorded in the [audit log](#audit-log)." if endpoint.act else ""
    parts = (
        f'<a id="{_heading(endpoint)}"></a>',
        f"### {endpoint.service}: {endpoint.name}",
        endpoint.summary,
        f"Subject `{endpoint.subject}`, queue group `{endpoint.service}`. {delivery}{closed}{recorded}",
        "**Request**",
        format_field_table(_node(schemas, describe_request(endpoint)), request=True),
        "**Reply**",
        format_field_table(_node(schemas, describe_reply(endpoint)), request=False),
        f"**Errors**: {errors}[those of every request](#errors).",
        f"```sh\nnats req {endpoint.subject} {command} --timeout {endpoint.timeout_s:g}s\n```",
    )
    return "\n\n".join(parts)


def _event(event: Event[Message] | Feed[Message], schemas: Schemas) -> str:
    fields = format_field_table(_node(schemas, describe_event(event)), request=False)
    stored = "" if isinstance(event, Event) else ", not stored"
    publisher = "callers" if event.service == CALLERS else f"the {event.service}"
    subject = f"Subject `{event.subject('<identity>')}`, published by {publisher}{stored}."
    return f"### {event.entity}.{event.fact}\n\n{event.summary} {subject}\n\n{fields}"


def _node(schemas: Schemas, message: WireMessage) -> SchemaNode:
    return SchemaNode.model_validate(schemas.components[schemas.get_component(message)])


def _types(schemas: Schemas) -> str:
    """Describe every type that the fields of messages refer to."""
    nodes = {name: SchemaNode.model_validate(schema) for name, schema in schemas.components.items()}
    named = {target for node in nodes.values() for field in node.properties.values() for target in _targets(field)}
    return "\n\n".join(_type(name, nodes[name]) for name in sorted(named - {"JsonValue"}))


def _targets(node: SchemaNode) -> set[str]:
    below = [
        *node.any_of,
        *([node.items] if node.items else []),
        *([node.values] if isinstance(node.values, SchemaNode) else []),
    ]
    return {node.target} - {""} | {target for part in below for target in _targets(part)}


def _type(name: str, node: SchemaNode) -> str:
    meaning = " ".join(node.description.split())
    if node.enum:
        body = f"One of {', '.join(f'`{json.dumps(value)}`' for value in node.enum)}."
    elif node.type == "array":
        body = "A list of rows, each a list of numbers. In msgpack a map, see [vectors](#vectors-as-msgpack)."
    else:
        body = format_field_table(node, request=True)
    return f'<a id="{make_anchor(name)}"></a>\n\n### {name}\n\n{meaning}\n\n{body}'


def _errors() -> str:
    rows = [
        (f"`{code}`", str(known.status), "yes" if known.retryable else "no", f"{known.title}.")
        for code, known in ERROR_CLASSES.items()
    ]
    return format_table(("code", "status", "retryable", "meaning"), rows)


def _streams() -> str:
    rows = []
    for stream in resources.STREAMS:
        subjects = ", ".join(f"`{subject}`" for subject in stream.subjects)
        messages = f", {stream.max_messages:,} messages" if stream.max_messages >= 0 else ""
        each = _format_each(stream.messages_of_a_subject)
        limit = f"{_bytes(stream.max_bytes)}{messages}{each}"
        window = f"{stream.duplicate_window_s / 60:g} min"
        rows.append((f"`{stream.name}`", subjects, _days(stream.max_age_s), limit, window))
    return format_table(("stream", "subjects", "kept for", "limit", "duplicate window"), rows)


def _format_each(messages: int) -> str:
    if messages < 0:
        return ""
    return f", the last {'message' if messages == 1 else f'{messages:,} messages'} of each subject"


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
    return format_table(("bucket", "kind", "kept for", "limit"), [*objects, *keys])


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
    return format_table(("consumer", "stream", "subjects", "ack wait", "messages at a time per replica"), rows)


def _days(seconds: float) -> str:
    days = seconds / _DAY_S
    return f"{days:g} day{'' if days == 1 else 's'}"


def _bytes(count: int) -> str:
    return "no limit" if count < 0 else f"{count / 1024 / 1024:g} MiB"
