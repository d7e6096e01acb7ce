"""Classification of failed requests: the reason, the side at fault, and the benefit of a retry.

The reason has our own words and the status: the body of an error answer is foreign, and whoever may register an address
could read internal services through it. An excerpt is logged at debug.
"""

import json
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from pydantic import SecretStr

from skillbus.common.secrets import redact_text

_EXCERPT_CHARS: Final = 500
_INPUT_STATUSES: Final = frozenset({400, 413, 422})
_KEY_STATUSES: Final = frozenset({401, 403})
_BUSY_STATUSES: Final = frozenset({408, 429})
_INDEPENDENT_OF_INPUT: Final = frozenset({
    "access_denied", "account_deactivated", "arrearage", "billing_hard_limit_reached", "billing_not_active",
    "insufficient_quota", "invalid_api_key", "invalid_model", "model_not_found", "modelnotfound", "notfounderror",
})  # fmt: skip
"""Error codes and types, in lower case, that no other input and no retry would change."""
# What Anthropic answers with 400 and the type of any bad request.
_UNPAID: Final = "credit balance is too low"


class Blame(Enum):
    """The side at fault."""

    PROVIDER = auto()
    REQUEST = auto()
    """The registration of the model or provider. The provider itself works."""
    INPUT = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a missing answer. `reason` continues "provider <name> …" and holds no key."""

    reason: str
    blame: Blame = Blame.PROVIDER
    retryable: bool = False
    """True if the same request may succeed in a moment."""
    status: int | None = None
    retry_after: str | None = None
    """The `Retry-After` header as received."""
    complaint: str = field(default="", repr=False)
    """Excerpt of the foreign answer, without the key: for the log, and for the sender of a refused input."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Facts about a request that its failure reports, and the key to redact from it."""

    model: str
    path: str
    key_reference: str | None
    key: SecretStr | None
    input_fields: tuple[str, ...] | None = ("input",)
    """Fields of the body that hold the input. None means all."""


@dataclass(frozen=True, slots=True)
class _Complaint:
    message: str = ""
    codes: frozenset[str] = frozenset()
    param: str = ""


def classify_failure(status: int, headers: dict[str, str], body: bytes, context: RequestContext) -> Failure:
    """Classify a reply with a status other than 2xx. Header names are in lower case; `body` may be cut."""
    if 300 <= status < 400:
        reason = f"redirects ({status}), which is not followed; register the address that it redirects to"
        return Failure(reason, Blame.REQUEST, status=status)
    if status in _KEY_STATUSES:
        reason = f"does not accept the key {context.key_reference} ({status}); check what it refers to"
        if context.key_reference is None:
            reason = f"requires a key ({status}), and none is registered; set its api_key"
        return Failure(reason, Blame.REQUEST, status=status)
    complaint = _parse_complaint(body, context.key)
    words = " ".join("".join(char if char.isprintable() else " " for char in complaint.message).split())
    failure = _classify_complaint(status, headers, complaint, context)
    return replace(failure, complaint=words[:_EXCERPT_CHARS])


def _classify_complaint(
    status: int, headers: dict[str, str], complaint: _Complaint, context: RequestContext
) -> Failure:
    known = sorted(complaint.codes & _INDEPENDENT_OF_INPUT)
    if _UNPAID in complaint.message:
        known = ["credit balance"]
    if known:
        reason = f"refused the request, whatever its input ({status}, {known[0]})"
        return Failure(reason, Blame.REQUEST, status=status)
    if status == 404:
        reason = f"has no model {context.model}, or nothing at {context.path} (404)"
        return Failure(reason, Blame.REQUEST, status=status)
    fields = context.input_fields
    if status in _INPUT_STATUSES and fields and complaint.param and not complaint.param.startswith(fields):
        return Failure(f"refused a parameter other than the input ({status})", Blame.REQUEST, status=status)
    if status in _INPUT_STATUSES:
        return Failure(f"refused the input ({status})", Blame.INPUT, status=status)
    # Ollama's answer if its model computes NaN for one input; other inputs of the batch pass (ollama/ollama#9639).
    if status == 500 and "unsupported value: NaN" in complaint.message:
        return Failure("computed NaN for an input (500)", Blame.INPUT, status=status)
    retryable = status >= 500 or status in _BUSY_STATUSES
    retry_after = headers.get("retry-after")
    return Failure(f"answered {status}", retryable=retryable, status=status, retry_after=retry_after)


def _parse_complaint(body: bytes, key: SecretStr | None) -> _Complaint:
    """Parse an error body: {"error": {…}}, {"error": "…"}, {"detail": "…"}, or the fields at the top."""
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return _Complaint()
    fields = document if isinstance(document, dict) else {}
    if isinstance(fields.get("error"), dict):
        fields = fields["error"]
    texts = {str(name): _redact_key(value, key) for name, value in fields.items() if isinstance(value, str)}
    codes = frozenset(texts[name].lower() for name in ("code", "type") if name in texts)
    message = next((texts[name] for name in ("message", "error", "detail") if name in texts), "")
    return _Complaint(message, codes, texts.get("param", ""))


def _redact_key(text: str, key: SecretStr | None) -> str:
    return redact_text(text, [key], min_characters=1) if key else text
