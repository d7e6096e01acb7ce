"""What a reply that holds no vectors means, and whose fault it is."""

import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

_EXCERPT_CHARS: Final = 200
_TEXT_STATUSES: Final = frozenset({400, 413, 422})
_KEY_STATUSES: Final = frozenset({401, 403})
_BUSY_STATUSES: Final = frozenset({408, 429})
_NOT_THE_TEXTS: Final = frozenset({
    "access_denied", "account_deactivated", "arrearage", "billing_hard_limit_reached", "billing_not_active",
    "insufficient_quota", "invalid_api_key", "invalid_model", "model_not_found", "modelnotfound", "notfounderror",
})  # fmt: skip
"""Codes and types of errors, in lower case, that stay whatever is sent and however often."""
_INPUT: Final = "input"


class Blame(Enum):
    """Whom a failure says something about."""

    PROVIDER = auto()
    REQUEST = auto()
    """What the registry says of the model or the provider; the provider is well."""
    TEXTS = auto()
    CALLER = auto()
    """He waited less long than the provider may take."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there are no vectors. `reason` continues "provider x …" and holds no key."""

    reason: str
    blame: Blame = Blame.PROVIDER
    again: bool = False
    """Whether the same request may fare better in a moment."""
    status: int | None = None
    retry_after: str | None = None
    """The header, as it came."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, for what is said about it."""

    model: str
    path: str
    key_reference: str | None
    key: SecretStr | None
    """To be taken out of what the provider says."""


@dataclass(frozen=True, slots=True)
class _Complaint:
    message: str
    codes: frozenset[str]
    param: str


def failure_of(status: int, headers: dict[str, str], body: bytes, asked: Asked) -> Failure:
    """What a status other than 2xx means. `headers` with names in lower case; `body` may be cut."""
    if 300 <= status < 400:
        return Failure(_redirect(_without_key(headers.get("location", ""), asked.key)), Blame.REQUEST, status=status)
    if status in _KEY_STATUSES:
        return Failure(_rejected_key(status, asked.key_reference), Blame.REQUEST, status=status)
    complaint = _complaint(body, asked.key)
    said = _excerpt(complaint.message)
    if complaint.codes & _NOT_THE_TEXTS:
        return Failure(f"refused the request, whatever its texts ({status}){said}", Blame.REQUEST, status=status)
    if status == 404:
        reason = f"has no model {asked.model}, or nothing at {asked.path} (404){said}"
        return Failure(reason, Blame.REQUEST, status=status)
    if status in _TEXT_STATUSES:
        return _refused(status, complaint, said)
    return _unwell(status, headers, complaint, said)


def _refused(status: int, complaint: _Complaint, said: str) -> Failure:
    if complaint.param and not complaint.param.startswith(_INPUT):
        reason = f"refused parameter {complaint.param[:40]} ({status}){said}"
        return Failure(reason, Blame.REQUEST, status=status)
    return Failure(f"refused the texts ({status}){said}", Blame.TEXTS, status=status)


def _unwell(status: int, headers: dict[str, str], complaint: _Complaint, said: str) -> Failure:
    # Ollama's answer to a text of which its model makes NaN; other texts of the batch pass (ollama/ollama#9639).
    if status == 500 and "unsupported value: NaN" in complaint.message:
        return Failure("made NaN of a text (500)", Blame.TEXTS, status=status)
    again = status >= 500 or status in _BUSY_STATUSES
    return Failure(f"answered {status}{said}", again=again, status=status, retry_after=headers.get("retry-after"))


def _redirect(location: str) -> str:
    """Names the host alone: a path or a query may hold what nobody should read."""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f"redirects to {(host or 'another path')[:100]}, which is not followed; register the address itself"


def _rejected_key(status: int, reference: str | None) -> str:
    if reference is None:
        return f"wants a key ({status}), and none is registered; set its api_key"
    return f"does not accept the key {reference} ({status}); check what it refers to"


def _complaint(body: bytes, key: SecretStr | None) -> _Complaint:
    """What servers say in one of these: {"error": {…}}, {"error": "…"}, {"detail": "…"} or the fields at the top."""
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return _Complaint("", frozenset(), "")
    fields = document if isinstance(document, dict) else {}
    if isinstance(fields.get("error"), dict):
        fields = fields["error"]
    texts = {str(name): _without_key(value, key) for name, value in fields.items() if isinstance(value, str)}
    codes = frozenset(texts[name].lower() for name in ("code", "type") if name in texts)
    message = next((texts[name] for name in ("message", "error", "detail") if name in texts), "")
    return _Complaint(message, codes, texts.get("param", ""))


def _excerpt(message: str) -> str:
    """What the provider says, in one short line."""
    words = " ".join("".join(char if char.isprintable() else " " for char in message).split())
    return f": {words[:_EXCERPT_CHARS]}" if words else ""


def _without_key(said: str, key: SecretStr | None) -> str:
    return said.replace(key.get_secret_value(), "[key]") if key else said
