"""Routes: method and path of an operation, and where the fields of its request go."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from skillbus.client.call import Call, SentParts, join_path

HEADERS: Final[Mapping[str, str]] = {"actor": "Skillbus-Actor", "expected_version": "If-Match"}
"""Headers that carry fields of a request."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_IDEMPOTENT: Final = frozenset({"GET", "PUT"})
"""Methods that are sent again after a lost reply. A repeated DELETE would answer that there is nothing to delete."""
_IN_PATH: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """Fields of a request as JSON values, and what the route cannot derive from them."""

    fields: Mapping[str, object]
    parts: SentParts = field(default_factory=SentParts)
    """Body that is not JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    """Longest silence of the server, in seconds. None means the route's."""


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """Method and path. Fields that the path names go there, the others to headers, to the query or into the body."""

    method: str
    path: str
    in_query: Collection[str] = ()
    """Fields that go to the query although the request has a body."""
    in_header: Collection[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names over HTTP of fields with another name in the contracts."""
    in_form: Collection[str] = ()
    """Fields that go into a form, beside its file."""
    fixed_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters that every call of the operation has."""
    timeout_s: float | None = None
    """Longest silence of the server, in seconds. None means the client's."""
    is_idempotent: bool | None = None
    """True if the call may be sent again after its reply was lost. None means that the method decides."""

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the fields in the path."""
        return tuple(_IN_PATH.findall(self.path))

    def place_field(self, name: str) -> tuple[str, str]:
        """Return where a field goes, `path`, `header`, `form`, `query` or `body`, and its name there."""
        sent_as = self.renamed.get(name, name)
        if name in self.path_names:
            return "path", name
        if name in self.in_header:
            return "header", HEADERS[name]
        if name in self.in_form:
            return "form", sent_as
        if name in self.in_query or self.method not in _WITH_BODY:
            return "query", sent_as
        return "body", sent_as

    def build_call(self, prepared: PreparedRequest) -> Call:
        """Return the call for a request. None is left out, except in the body."""
        placed: dict[str, dict[str, object]] = {"path": {}, "header": {}, "form": {}, "query": {}, "body": {}}
        for name, value in prepared.fields.items():
            place, sent_as = self.place_field(name)
            if value is not None or place == "body":
                placed[place][sent_as] = value
        query = {name: _format_query(value) for name, value in placed["query"].items()}
        parts = SentParts(params={**query, **self.fixed_query})
        headers = {name: _format_header(name, value) for name, value in placed["header"].items()}
        if placed["form"]:
            parts["data"] = {name: str(value) for name, value in placed["form"].items()}
        if placed["body"]:
            parts["json"] = placed["body"]
        parts.update(prepared.parts)
        if headers or prepared.headers:
            parts["headers"] = {name.encode(): text.encode() for name, text in {**headers, **prepared.headers}.items()}
        path = _IN_PATH.sub(lambda match: join_path("", str(placed["path"][match[1]]))[1:], self.path)
        is_idempotent = self.method in _IDEMPOTENT if self.is_idempotent is None else self.is_idempotent
        return Call(self.method, path, parts, prepared.timeout_s or self.timeout_s, is_idempotent)


def _format_query(value: object) -> str | list[str]:
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_header(name: str, value: object) -> str:
    return f'"{value}"' if name == HEADERS["expected_version"] else str(value)
