"""Recognition of a file's format from its name and its first bytes."""

import json
import re
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from skillbus.learning.sources.text_lines import decode_text, is_binary

START_BYTES: Final = 65_536
"""Bytes at the start of a file that recognition needs."""
_DOCUMENTS: Final = re.compile(
    r"\.(?:md|rst|csv|tsv|html?|css|toml|ya?ml|ini|lock|svg|ipynb|py|js|ts|java|go|rs|c|h|cpp|sh|sql)"
)
"""Endings of text files that are no logs."""
_SUITE: Final = re.compile(r"<(?:\w+:)?testsuites?[\s>/]", re.IGNORECASE)
_XML: Final = re.compile(r"\s*<(?:\?xml|!--|!DOCTYPE|\w)", re.IGNORECASE)
_HAR: Final = re.compile(r'"log"\s*:\s*\{')
_PYTEST_JSON: Final = re.compile(r'"(?:tests|collectors|exitcode)"\s*:')
_RUN_LIST: Final = re.compile(r'\s*\[\s*\{[^{}\[\]]*"run"\s*:')
_PATH_NAMES: Final = re.compile(r'"(?:path|url|uri|request_uri|request)"\s*:', re.IGNORECASE)
_STATUS_NAMES: Final = re.compile(r'"(?:status|status_code|statuscode|response)"\s*:', re.IGNORECASE)


class FileFormat(StrEnum):
    """Format that learning reads."""

    LOG = "log"
    ACCESS_LOG = "access_log"
    """Calls of an HTTP interface as JSON, one a line."""
    HAR = "har"
    JUNIT = "junit"
    PYTEST_JSON = "pytest_json"
    RUN_LIST = "run_list"
    """JSON list with the commit and time of each test run."""


class UnknownFormatError(Exception):
    """The file is of no format that learning reads. The message says what it seems to be."""


def recognize_format(name: str, start: bytes) -> FileFormat:
    """Return the format of a file that begins with these bytes. Raises UnknownFormatError."""
    if is_binary(start):
        raise UnknownFormatError("it is binary")
    text = decode_text(start)
    if _SUITE.search(text) and _XML.match(text):
        return FileFormat.JUNIT
    if text.lstrip()[:1] in {"{", "["}:
        return _recognize_json(text.lstrip(), _ending(name))
    ending = _ending(name)
    if ending == ".xml":
        raise UnknownFormatError("it is XML without a test suite")
    if _DOCUMENTS.fullmatch(ending):
        raise UnknownFormatError(f"files that end with {ending} are not read")
    return FileFormat.LOG


def _ending(name: str) -> str:
    return PurePosixPath(name.rpartition("!")[2].removesuffix(".gz")).suffix.lower()


def _recognize_json(text: str, ending: str) -> FileFormat:
    """Return the format of JSON: a document, or one value a line."""
    first_line = text.partition("\n")[0]
    if ending != ".har" and not _begins_har(first_line) and _is_object(first_line):
        if _PATH_NAMES.search(first_line) and _STATUS_NAMES.search(first_line):
            return FileFormat.ACCESS_LOG
        if "\n" in text.strip():
            return FileFormat.LOG
    if ending == ".har" or _HAR.match(text, 1) or _begins_har(text):
        return FileFormat.HAR
    if text.startswith("{") and _PYTEST_JSON.search(text) and '"summary"' in text:
        return FileFormat.PYTEST_JSON
    if _RUN_LIST.match(text):
        return FileFormat.RUN_LIST
    if ending in {".log", ".out", ".err", ".txt", ""}:
        return FileFormat.LOG
    raise UnknownFormatError("it is JSON of another kind than HAR, pytest-json-report or one call a line")


def _begins_har(text: str) -> bool:
    return _HAR.search(text, 0, 2_000) is not None and '"entries"' in text


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
