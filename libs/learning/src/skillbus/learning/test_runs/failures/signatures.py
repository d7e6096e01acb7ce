"""Signatures: what failures with the same cause have in common.

A signature is the type of the innermost cause, the last frame in the project outside tests, and the message without
numbers, addresses and long values. An assertion says little: there the error text inside its message counts, and if it
only compares two values, the function of the test.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skillbus.learning.test_runs.failures.frames import PROJECT, TEST
from skillbus.learning.test_runs.values import RunFrame, TestFailure

_MASKS: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"(?<![\w/])(?:[A-Za-z]:)?(?:[/\\][\w.@~<>-]+){2,}"), "<path>"),
    (re.compile(r"\b(?=\w*\d)[0-9a-fA-F]{8,}\b"), "<hex>"),
    (re.compile(r"b?'[^'\n]{40,}'|b?\"[^\"\n]{40,}\""), "<text>"),
)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_STATUS: Final = re.compile(r"(?<!\d)[1-5]\d\d(?!\d)|(?P<other>\d+(?:\.\d+)?)")
_SAYS_STATUS: Final = re.compile(r"status|\bHTTP\b|<Response \[", re.IGNORECASE)
_COMPARISON: Final = re.compile(
    r"^assert\b|(?:==|!=|<=|>=| is not | is | not in | in | > | < )"
    r"|\bexpected\b.*\b(?:but|got|found|to|actual|received)\b"
    r"|^expect\(|^expected\b|\breceived\b|^(?:assertion )?failed\.?$|^$",
    re.IGNORECASE | re.DOTALL,
)
_GENERIC: Final = re.compile(
    r"(?:Assertion\w*|ComparisonFailure|Failed|Failure|HTTP\w*|\w*ResponseError|\w*StatusError|Error|Exception|)"
)
_QUOTE: Final = r"\\{0,3}[\"']"
_FIELDS: Final = tuple(
    re.compile(
        rf"{_QUOTE}(?:{names}){_QUOTE}\s{{0,3}}[:=]\s{{0,3}}(?P<quote>{_QUOTE})(?P<text>(?:(?!(?P=quote)).){{3,400}}?)(?P=quote)",
        re.IGNORECASE,
    )
    for names in (
        "detail|details",
        "error_?message|error_?description|errmsg",
        "message|msg",
        "error|reason|title|cause",
    )
)
_INVALID_FIELD: Final = re.compile(
    rf"{_QUOTE}loc{_QUOTE}\s{{0,3}}:\s{{0,3}}[\[(](?P<place>[^\])]{{1,200}})[\])][^{{}}]{{0,60}}?"
    rf"{_QUOTE}msg{_QUOTE}\s{{0,3}}:\s{{0,3}}(?P<quote>{_QUOTE})(?P<text>(?:(?!(?P=quote)).){{3,300}}?)(?P=quote)"
)
"""Error of a field, as FastAPI and pydantic report it."""
_INNER_ERROR: Final = re.compile(r"(?<=[\s:\"'(])(?P<text>(?:\w+\.)*\w+(?:Error|Exception): [^\n\"]{3,300})")


@dataclass(frozen=True, slots=True, order=True)
class FailureSignature:
    """Identity of a cause."""

    exception: str
    location: str
    message: str


def find_embedded_error(exception: str, text: str) -> str:
    """Return the error text inside the message of an assertion or HTTP error: a detail, or another exception."""
    if not is_generic(exception):
        return ""
    if match := _INVALID_FIELD.search(text):
        place = re.sub(r"[^\w.]+", ".", match["place"]).strip(".")
        return f"{place}: {match['text'].strip()}"
    for pattern in _FIELDS:
        if match := pattern.search(text):
            return match["text"].strip()
    found = (match["text"].strip() for match in _INNER_ERROR.finditer(text))
    return next((error for error in found if error.partition(":")[0].rpartition(".")[2] != exception), "")


def get_signature(failure: TestFailure) -> FailureSignature:
    """Return the signature of a failure."""
    if failure.embedded:
        return FailureSignature(failure.exception, "", mask_message(failure.embedded))
    frame = get_location(failure.frames)
    message = mask_message(get_statement(failure.message), keeps_status="status" in failure.assertion.lower())
    if frame is not None:
        return FailureSignature(failure.exception, f"{frame.module}:{frame.function}", message)
    place = _get_test_place(failure) if is_comparison(failure.exception, failure.message) else ""
    return FailureSignature(failure.exception, place, message)


def get_statement(message: str) -> str:
    """Return the first line of a message, with those that follow a colon."""
    said: list[str] = []
    for line in message.splitlines():
        said.append(line.strip())
        if not line.rstrip().endswith(":"):
            break
    return " ".join(said).lstrip(": ")


def get_location(frames: Iterable[RunFrame]) -> RunFrame | None:
    """Return the last frame in the project outside tests; None if there is none."""
    return next((frame for frame in reversed(tuple(frames)) if frame.place == PROJECT), None)


def is_generic(exception: str) -> bool:
    """Return True for a type that says nothing about the cause: an assertion, an HTTP error, or no type."""
    return _GENERIC.fullmatch(exception) is not None


def is_comparison(exception: str, message: str) -> bool:
    """Return True if a failure only says that two values differ, or nothing."""
    return is_generic(exception) and _COMPARISON.search(message.partition("\n")[0].strip()) is not None


def mask_message(message: str, *, keeps_status: bool = False) -> str:
    """Return a message without numbers, addresses, paths and long values. Statuses of HTTP stay."""
    keeps_status = keeps_status or _SAYS_STATUS.search(message) is not None
    for pattern, mask in _MASKS:
        message = pattern.sub(mask, message)
    if keeps_status:
        return _STATUS.sub(lambda match: "#" if match["other"] else match.group(), message).strip()[:300]
    return _NUMBER.sub("#", message).strip()[:300]


def _get_test_place(failure: TestFailure) -> str:
    """Return the test's function and the name of its file, without folders and parameters."""
    frame = next((frame for frame in failure.frames if frame.place == TEST), None)
    if frame is not None and frame.function and "<" not in frame.function:
        return f"{frame.module.rpartition('.')[2]}:{frame.function}"
    return failure.test.partition("[")[0]
