"""Structured answers of chat models: what is asked, the ways to ask it, and JSON found in what comes back."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, Protocol

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode

_FENCED: Final = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)


class AnswerMode(StrEnum):
    """Way to ask for a structured answer."""

    NATIVE = "native"
    """`response_format` with a JSON Schema."""
    TOOL = "tool"
    """Arguments of a function that the model must call."""
    PROMPTED = "prompted"
    """JSON in the text, with the schema in the prompt."""


@dataclass(frozen=True, slots=True)
class StructuredQuestion:
    """Question to a chat model, and the JSON Schema of its answer."""

    system: str
    """Instructions of ours."""
    content: str
    """Message of the user. Texts of others stand in it between fences."""
    function: str
    """Name of the function that the model calls with its answer."""
    description: str
    """Description of that function."""
    schema: dict[str, JsonValue]
    max_tokens: int
    """Most tokens of the answer."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Answer of a model, before it is read."""

    text: str
    model: str
    """`provider/name` of the model that answered."""
    tokens: int


class ModelSilentError(Exception):
    """The model did not answer. The text says why."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.MODEL_UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = code
        """`invalid_request` if the provider refuses the question in this form."""


class StructuredChat(Protocol):
    """Asks a chat model for one answer."""

    async def ask_model(self, model: str, question: StructuredQuestion, mode: AnswerMode) -> RawAnswer:
        """Return the text of the answer, or the arguments of the call. Raises ModelSilentError."""


def find_json_objects(text: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the JSON objects that a text may mean: all of it, a fenced block, and what the outer braces hold."""
    fenced = _FENCED.search(text)
    outer = text[text.find("{") : text.rfind("}") + 1]
    for content in dict.fromkeys((text, fenced[1] if fenced else "", outer)):
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def fence_text(text: str, label: str) -> str:
    """Return a text between fences that it cannot contain, so that it cannot end them and go on as instructions."""
    fence = f"{label}-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return f"<{fence}>\n{text}\n</{fence}>"
