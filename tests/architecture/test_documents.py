"""The generated documents are up to date, and AsyncAPI's own schema accepts them."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import jsonschema
import pytest
import yaml

from skillbus.common.bus import events, headers
from skillbus.common.bus.events import DELAYS_S
from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.documents.asyncapi import build_asyncapi_document
from skillbus.contracts.documents.generation import (
    ASYNCAPI,
    PAGE,
    SNAPSHOTS,
    build_documents,
    format_yaml,
    write_documents,
)

from .tree import ROOT

HEADERS: Final = {
    value for name, value in vars(headers).items() if name.isupper() and isinstance(value, str)
} | {events.SUBJECT_HEADER, events.ERROR_HEADER}  # fmt: skip


@pytest.fixture(scope="module")
def expected() -> Mapping[PurePosixPath, str]:
    """The documents that the contracts generate; made here, for every worker of a test run collects this module."""
    return build_documents(ROOT)


@pytest.fixture(scope="module")
def asyncapi(expected: Mapping[PurePosixPath, str]) -> Mapping[str, Any]:
    document: Mapping[str, Any] = yaml.load(expected[ASYNCAPI], Loader=yaml.CSafeLoader)
    return document


def difference(path: PurePosixPath, generated: str) -> str:
    """Return the diff between a committed file and the generated one; empty if they are equal."""
    file = ROOT / path
    committed = file.read_text(encoding="utf-8") if file.is_file() else ""
    lines = difflib.unified_diff(
        committed.splitlines(),
        generated.splitlines(),
        f"{path} committed",
        f"{path} from the contracts",
        lineterm="",
    )
    return "\n".join(lines)


def test_the_committed_documents_are_those_that_the_contracts_generate(expected: Mapping[PurePosixPath, str]) -> None:
    differences = [diff for path, generated in expected.items() if (diff := difference(path, generated))]
    if differences:
        advice = "If you mean to change the contracts, accept the differences with: make contracts"
        pytest.fail("\n\n".join((*differences, advice)), pytrace=False)


def test_no_schema_of_a_removed_message_is_kept(expected: Mapping[PurePosixPath, str]) -> None:
    kept = {SNAPSHOTS / file.name for file in (ROOT / SNAPSHOTS).iterdir()}
    assert kept <= expected.keys(), "remove them with: make contracts"


def test_writing_updates_a_checkout_to_the_contracts(tmp_path: Path, expected: Mapping[PurePosixPath, str]) -> None:
    """One schema differs, one is missing, and one belongs to a removed message."""
    write_documents(tmp_path, expected)
    missing, differs, gone = (
        tmp_path / SNAPSHOTS / f"{name}.json" for name in ("error", "skill.indexed.event", "gone")
    )
    missing.unlink()
    differs.write_text("{}")
    gone.write_text("{}")

    changed = write_documents(tmp_path, expected)

    assert {path.name for path in changed} == {missing.name, differs.name, gone.name}
    assert {path: (tmp_path / path).read_text(encoding="utf-8") for path in expected} == expected
    assert not gone.exists()
    assert not write_documents(tmp_path, expected)


def test_the_asyncapi_document_is_valid(asyncapi: Mapping[str, Any]) -> None:
    schema = json.loads((ROOT / "tests/architecture/asyncapi/3.0.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(asyncapi)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**asyncapi, "operations": {"x": {"action": "ask"}}})


def references(value: object) -> set[str]:
    match value:
        case {"$ref": str(target), **rest}:
            return {target} | references(rest)
        case dict():
            return {target for part in value.values() for target in references(part)}
        case list():
            return {target for part in value for target in references(part)}
    return set()


def test_the_asyncapi_document_has_no_dangling_reference() -> None:
    document = build_asyncapi_document()
    found = references(document)
    assert found
    for target in found:
        place: object = document
        for step in target.removeprefix("#/").split("/"):
            assert isinstance(place, dict)
            assert step in place, target
            place = place[step]


def test_the_asyncapi_document_has_every_request_event_and_feed(asyncapi: Mapping[str, Any]) -> None:
    addresses = {channel["address"] for channel in asyncapi["channels"].values()} - {None}
    told = {event.subject("{identity}") for event in EVENTS} | {feed.subject("{identity}") for feed in FEEDS}
    assert addresses == {e.subject for e in ENDPOINTS} | told
    assert len(asyncapi["operations"]) == len(ENDPOINTS) + len(told)


def test_the_documents_name_the_headers_that_the_bus_uses(
    expected: Mapping[PurePosixPath, str], asyncapi: Mapping[str, Any]
) -> None:
    guide, messages = expected[PAGE], asyncapi["components"]["messages"]
    described = {name for message in messages.values() for name in message["headers"]["properties"]}
    assert {name for name in HEADERS if f"`{name}`" not in guide} == set()
    assert described - HEADERS == set()


def test_the_page_states_the_delays_between_retries(expected: Mapping[PurePosixPath, str]) -> None:
    *first, last = (f"{delay:g} s" for delay in DELAYS_S)
    assert f"after {', '.join(first)} and {last}," in expected[PAGE]


@pytest.mark.parametrize(
    "value",
    [
        {"a": [{"b": 1, "c": []}, [1, [2]], "x", {}], "no": None, "1": True},
        "line\nbreak: \"quoted\" 'and' # 中文 \t\\",
        {"key: with # signs": {"": "- no list"}, "~": "~", "yes": "yes"},
        [],
    ],
)
def test_yaml_reads_what_was_written(value: object) -> None:
    assert yaml.safe_load(format_yaml(value)) == value  # type: ignore[arg-type]  # JSON all of it
