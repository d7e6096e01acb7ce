"""JUnit XML of all dialects, read as a stream: pytest, Surefire with reruns, Gradle, Jest, Mocha, nested suites.

Entities are refused, so that neither an XML bomb nor an external entity has an effect.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from xml.parsers import expat

from skillbus.learning.test_runs.builder import BRANCH_NAMES, COMMIT_NAMES, TEXT_CHARACTERS, RunBuilder
from skillbus.learning.test_runs.failures.frames import is_test_class
from skillbus.learning.test_runs.failures.quotes import find_xml_quote
from skillbus.learning.test_runs.values import CALL, COLLECTION, TestRun, UnreadableRunError

_CHUNK_BYTES: Final = 64 * 1024
_WINDOW_BYTES: Final = 1024 * 1024
"""Most bytes of one test case that are kept for quotes."""
_DEPTH: Final = 100
_DECLARED: Final = re.compile(rb"<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.-]{1,40})[\"']")
_FAILED: Final = frozenset({"failure", "error"})
_AGAIN: Final = frozenset({"flakyFailure", "flakyError", "rerunFailure", "rerunError"})
_TEXTS: Final = _FAILED | _AGAIN | {"skipped"}
_BAD_STATUS: Final = frozenset({"failed", "failure", "fail", "error", "broken"})
_SKIP_STATUS: Final = frozenset({"skipped", "disabled", "notrun", "ignored", "pending"})
_COLLECTION_FAILED: Final = re.compile(r"collection (?:failure|error)")
_STAGED: Final = re.compile(r"failed (?:on|at) (setup|teardown)|error at (setup|teardown) of", re.IGNORECASE)


def read_junit(file: str, stream: BinaryIO) -> TestRun:
    """Return the results in a JUnit XML file. Raises UnreadableRunError."""
    reader = _JunitReader(file)
    decoder: codecs.IncrementalDecoder | None = None
    try:
        while chunk := stream.read(_CHUNK_BYTES):
            if decoder is None:
                decoder = _make_decoder(chunk)
            reader.feed(decoder.decode(chunk).encode("utf-8", "replace"))
        return reader.close()
    except expat.ExpatError as error:
        raise UnreadableRunError(f"The XML is broken: {error}.") from error


def _make_decoder(start: bytes) -> codecs.IncrementalDecoder:
    """Return the decoder of the encoding that a byte order mark or the declaration names."""
    name = "utf-8-sig"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    elif declared := _DECLARED.search(start[:400]):
        name = declared[1].decode("ascii").lower()
        name = {"utf-8": "utf-8-sig", "gb2312": "gb18030", "gbk": "gb18030"}.get(name, name)
        if name.startswith(("utf-16", "utf-32")):  # written by .NET; the declaration could not be read as bytes then
            name = "utf-8-sig"
    try:
        b"<".decode(name, "replace")  # refuses codecs that are not of texts
        decoder = codecs.getincrementaldecoder(name)("replace")
    except (LookupError, UnicodeError) as error:
        raise UnreadableRunError(f"The encoding {name} of the XML is unknown.") from error
    return decoder


@dataclass(slots=True)
class _Attempt:
    """Failed, skipped or repeated attempt inside a test case."""

    tag: str
    message: str
    kind: str
    text: list[str] = field(default_factory=list)
    characters: int = 0


@dataclass(slots=True)
class _TestCase:
    """Test case while it is read."""

    names: dict[str, str]
    line: int
    attempts: list[_Attempt] = field(default_factory=list)


class _JunitReader:
    """State of the parser."""

    def __init__(self, file: str) -> None:
        self._run = RunBuilder(file, "junit")
        self._suites: list[dict[str, str]] = []
        self._case: _TestCase | None = None
        self._attempt: _Attempt | None = None
        self._tags: list[str] = []
        self._window = bytearray()
        self._window_start = 0
        """Place in the file at which the window begins."""
        self._case_start = 0
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_entity
        parser.ExternalEntityRefHandler = self._refuse_external

    def feed(self, data: bytes) -> None:
        """Parse a piece of the file."""
        self._window += data
        self._parser.Parse(data, False)
        keep = self._case_start - self._window_start if self._case else len(self._window)
        if keep > 0:
            del self._window[:keep]
            self._window_start += keep
        if len(self._window) > _WINDOW_BYTES + _CHUNK_BYTES:
            del self._window[_WINDOW_BYTES:]
            self._window_start = -(1 << 62)  # No longer in step with the file: no quote is looked for in it.

    def close(self) -> TestRun:
        """Return the run. Raises an error if the XML is not complete."""
        self._parser.Parse(b"", True)
        return self._run.build()

    @staticmethod
    def _refuse_entity(*_: object) -> None:
        raise UnreadableRunError("The XML declares or uses entities: they are refused.")

    @staticmethod
    def _refuse_external(*_: object) -> int:
        raise UnreadableRunError("The XML refers to external entities: they are refused.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        self._tags.append(tag)
        if len(self._tags) > _DEPTH:
            raise UnreadableRunError(f"The XML nests deeper than {_DEPTH} elements.")
        if len(self._tags) == 1 and tag not in {"testsuites", "testsuite", "testrun", "testsuites-list"}:
            raise UnreadableRunError(f"The XML is no test report: it begins with <{tag[:50]}>.")
        if tag in {"testsuite", "testsuites"}:
            self._suites.append(attributes)
            self._run.started = self._run.started or attributes.get("timestamp", "")
        elif tag == "testcase":
            self._case = _TestCase(attributes, self._parser.CurrentLineNumber)
            self._case_start = self._parser.CurrentByteIndex
        elif tag == "property":
            self._read_property(attributes.get("name", ""), attributes.get("value", ""))
        elif tag in _TEXTS and self._attempt is None:
            self._start_attempt(tag, attributes)

    def _start_attempt(self, tag: str, attributes: dict[str, str]) -> None:
        if self._case is None:  # An error of the suite itself.
            self._case = _TestCase({"name": self._suites[-1].get("name", "") if self._suites else ""}, 0)
            self._case.names["collection"] = "true"
            self._case.line, self._case_start = self._parser.CurrentLineNumber, self._parser.CurrentByteIndex
        self._attempt = _Attempt(tag, attributes.get("message", "")[:TEXT_CHARACTERS], attributes.get("type", ""))
        self._parser.CharacterDataHandler = self._add_text

    def _read_property(self, name: str, value: str) -> None:
        if value and COMMIT_NAMES.fullmatch(name.strip()):
            self._run.commit = self._run.commit or value.strip()
        elif value and BRANCH_NAMES.fullmatch(name.strip()):
            self._run.branch = self._run.branch or value.strip()

    def _add_text(self, text: str) -> None:
        attempt = self._attempt
        if attempt is not None and self._tags[-1] not in {"system-out", "system-err"}:
            attempt.text.append(text[: max(0, TEXT_CHARACTERS - attempt.characters)])
            attempt.characters += len(text)

    def _end(self, name: str) -> None:
        tag = self._tags.pop()
        case, attempt = self._case, self._attempt
        if attempt is not None and case is not None and tag == attempt.tag:
            case.attempts.append(attempt)
            self._attempt = None
            self._parser.CharacterDataHandler = None
            if "collection" in case.names and tag != "skipped":
                self._finish_case(case)
        elif tag == "testcase" and case is not None:
            self._finish_case(case)
        elif tag in {"testsuite", "testsuites"} and self._suites:
            self._suites.pop()

    def _finish_case(self, case: _TestCase) -> None:
        self._case = None
        run, names = self._run, case.names
        run.cases += 1
        test = self._name_test(names)
        find_quote = self._make_quote_finder(case)
        status = (names.get("status") or names.get("result") or "").lower()
        tags = {attempt.tag for attempt in case.attempts}
        for attempt in case.attempts[:50]:
            text = "".join(attempt.text)
            if attempt.tag == "skipped":
                if not tags & _FAILED:
                    run.add_skip(test, attempt.message or text, find_quote)
            else:
                stage = _find_stage(names, attempt)
                run.add_failure(test, text, attempt.message, attempt.kind, find_quote, stage)
        if not tags & _TEXTS and status in _BAD_STATUS:
            run.add_failure(test, "", f"status: {status}", "", find_quote)
        elif not tags & _TEXTS and status in _SKIP_STATUS:
            run.add_skip(test, status, find_quote)
        elif not tags & (_FAILED | {"skipped", "rerunFailure", "rerunError"}):
            run.add_pass(test)

    def _make_quote_finder(self, case: _TestCase) -> Callable[[str], tuple[int, str]]:
        def find_quote(text: str) -> tuple[int, str]:
            start = self._case_start - self._window_start
            end = self._parser.CurrentByteIndex - self._window_start
            if not 0 <= start <= end <= len(self._window):
                return find_xml_quote("", case.line, text)
            return find_xml_quote(self._window[start:end].decode("utf-8", "replace"), case.line, text)

        return find_quote

    def _name_test(self, names: dict[str, str]) -> str:
        """Return the id of a test: pytest's node id if pytest wrote the report, else class and name."""
        name = names.get("name", "").strip() or "unnamed"
        owner = (names.get("classname") or names.get("class") or "").strip()
        suite = self._suites[-1].get("name", "").strip() if self._suites else ""
        top = self._suites[0].get("name", "") if self._suites else ""
        if suite.startswith("pytest") or top.startswith("pytest"):
            return _name_pytest(owner, name, names.get("file", ""))
        if re.search(r"[/\\]|\.[cm]?[jt]sx?$", suite) and suite not in owner:
            owner = f"{suite}::{owner}" if owner else suite
        return f"{owner or suite}::{name}" if owner or suite else name


def _find_stage(names: dict[str, str], attempt: _Attempt) -> str:
    if "collection" in names or _COLLECTION_FAILED.fullmatch(attempt.message.strip()):
        return COLLECTION
    match = _STAGED.match(attempt.message.strip()) if attempt.tag == "error" else None
    return (match[1] or match[2]).lower() if match else CALL


def _name_pytest(owner: str, name: str, file: str) -> str:
    """Return the node id of `tests.test_api.TestApi` and `test_get`."""
    if not owner:
        return name
    parts = owner.split(".")
    first_class = next((place for place, part in enumerate(parts) if place and is_test_class(part)), len(parts))
    path = "/".join(parts[:first_class]) + ".py"
    if file.endswith(".py") and file.removesuffix(".py").replace("/", ".").endswith(".".join(parts[:first_class])):
        path = file.replace("\\", "/")
    return "::".join([path, *parts[first_class:], name])
