"""Reports of pytest-json-report, read one test after another."""

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from pydantic import JsonValue

from skillbus.learning.json_stream import JsonElement, JsonStreamError, iterate_json
from skillbus.learning.test_runs.builder import BRANCH_NAMES, COMMIT_NAMES, RunBuilder, parse_time
from skillbus.learning.test_runs.failures.quotes import find_json_quote
from skillbus.learning.test_runs.values import COLLECTION, TestRun, UnreadableRunError

_CHUNK_BYTES: Final = 256 * 1024
_STAGES: Final = ("setup", "call", "teardown")
_ARRAYS: Final = (("tests",), ("collectors",))
_KNOWN: Final = frozenset({"tests", "collectors", "summary", "exitcode"})
_SKIP_REASON: Final = re.compile(r"Skipped: (?P<reason>.*?)['\"]?\)?$", re.DOTALL)


def read_pytest_json(file: str, stream: BinaryIO) -> TestRun:
    """Return the results in a report of pytest-json-report. Raises UnreadableRunError."""
    run = RunBuilder(file, "pytest_json")
    keys: set[str] = set()
    try:
        for element in iterate_json(_read_text(stream), _ARRAYS):
            keys |= set(element.path[:1])
            _add_element(run, element)
    except JsonStreamError as error:
        raise UnreadableRunError(str(error)) from error
    if len(keys & _KNOWN) < 2:
        raise UnreadableRunError("The JSON is no report of pytest-json-report: it has no `tests` and `summary`.")
    return run.build()


def _read_text(stream: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    while chunk := stream.read(_CHUNK_BYTES):
        yield decoder.decode(chunk)


def _add_element(run: RunBuilder, element: JsonElement) -> None:
    value = element.value
    if element.path == ("created",) and isinstance(value, int | float):
        run.started = parse_time(value)
    elif element.path == ("root",) and isinstance(value, str):
        run.root = value
    elif element.path == ("environment",) and isinstance(value, dict):
        _read_environment(run, value)
    elif element.path == ("tests",) and isinstance(value, dict):
        _add_test(run, value, element)
    elif element.path == ("collectors",) and isinstance(value, dict) and value.get("outcome") == "failed":
        text = _get_text(value, "longrepr")
        run.cases += 1
        run.add_failure(
            _get_text(value, "nodeid") or "collection", text, "", "", _QuoteFinder(element), stage=COLLECTION
        )


def _read_environment(run: RunBuilder, environment: Mapping[str, JsonValue]) -> None:
    for name, value in environment.items():
        if not isinstance(value, str):
            continue
        if COMMIT_NAMES.fullmatch(name):
            run.commit = run.commit or value
        elif BRANCH_NAMES.fullmatch(name):
            run.branch = run.branch or value


class _QuoteFinder:
    """Finder of quotes in one element of the report."""

    def __init__(self, element: JsonElement) -> None:
        self._element = element

    def __call__(self, text: str) -> tuple[int, str]:
        return find_json_quote(self._element.text, self._element.line, text)


def _add_test(run: RunBuilder, test: Mapping[str, JsonValue], element: JsonElement) -> None:
    run.cases += 1
    name, outcome = _get_text(test, "nodeid") or "unnamed", _get_text(test, "outcome")
    find_quote = _QuoteFinder(element)
    stages = {stage: part for stage in _STAGES if isinstance(part := test.get(stage), dict)}
    if outcome in {"failed", "error", "rerun"}:
        failed = [stage for stage, part in stages.items() if _get_text(part, "outcome") in {"failed", "rerun"}]
        for stage in failed or ["call"]:
            part = stages.get(stage, {})
            crash = part.get("crash")
            message = _get_text(crash, "message") if isinstance(crash, dict) else ""
            output = _get_text(part, "stdout") + _get_text(part, "stderr")
            run.add_failure(name, _get_text(part, "longrepr"), message, "", find_quote, stage, output)
    elif outcome == "skipped":
        text = next((_get_text(part, "longrepr") for part in stages.values() if part.get("outcome") == "skipped"), "")
        match = _SKIP_REASON.search(text)
        run.add_skip(name, match["reason"] if match else text, find_quote)
    elif outcome in {"passed", "xpassed"}:
        run.add_pass(name)


def _get_text(part: Mapping[str, JsonValue], name: str) -> str:
    value = part.get(name)
    return value if isinstance(value, str) else ""
