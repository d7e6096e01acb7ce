"""The catalogue is complete and agrees with itself."""

import ast
from typing import Final

import pytest

from skillbus.contracts import (
    agent,
    embedder,
    index_switch,
    indexer,
    knowledge,
    knowledge_bulk,
    knowledge_index,
    knowledge_items,
    knowledge_projects,
    knowledge_search,
    knowledge_usage,
    knowledge_versions,
    network_approval,
    registry,
    resources,
    retriever,
    runs,
    sandbox,
    tools,
)
from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.endpoint import Endpoint, Event, Feed
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.contracts.message import Message

from .tree import distributions

MODULES: Final = (
    *(agent, embedder, registry, indexer, index_switch, network_approval, retriever, runs, sandbox, tools),
    *(knowledge, knowledge_bulk, knowledge_index, knowledge_items, knowledge_projects, knowledge_search),
    *(knowledge_usage, knowledge_versions),
)


def test_every_error_code_has_a_class() -> None:
    assert set(ERROR_CLASSES) == set(ErrorCode)


def test_every_contract_that_a_module_defines_is_in_the_catalogue() -> None:
    defined = [value for module in MODULES for value in vars(module).values()]
    assert {e.subject for e in defined if isinstance(e, Endpoint)} == {e.subject for e in ENDPOINTS}
    assert {e.pattern for e in defined if isinstance(e, Event)} == {e.pattern for e in EVENTS}
    assert {f.subject("*") for f in defined if isinstance(f, Feed)} == {f.subject("*") for f in FEEDS}


def test_no_subject_is_given_twice() -> None:
    subjects = [endpoint.subject for endpoint in ENDPOINTS] + [event.pattern for event in EVENTS]
    subjects += [feed.subject("*") for feed in FEEDS]
    assert len(set(subjects)) == len(subjects)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.subject)
def test_the_example_of_a_request_follows_its_contract(endpoint: Endpoint[Message, Message]) -> None:
    example = endpoint.request.model_validate(endpoint.example)
    assert endpoint.example.keys() <= example.model_fields_set


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.subject)
def test_no_error_is_listed_twice(endpoint: Endpoint[Message, Message]) -> None:
    assert len(set(endpoint.errors)) == len(endpoint.errors)


def names_in(service: str) -> set[str]:
    """Every name and attribute that the code of a service uses."""
    member = next(one for one in distributions() if one.name == f"skillbus-{service}")
    nodes = [node for file in member.modules for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
        node.id for node in nodes if isinstance(node, ast.Name)
    }


@pytest.mark.parametrize("event", [*EVENTS, *FEEDS], ids=lambda event: event.subject("*"))
def test_every_event_is_known_to_the_service_that_publishes_it(event: Event[Message] | Feed[Message]) -> None:
    constant = next(name for module in MODULES for name, value in vars(module).items() if value is event)
    assert constant in names_in(event.service)


def test_every_event_goes_into_the_stream_of_events() -> None:
    prefix = resources.EVENTS.subjects[0].removesuffix(">")
    assert all(event.pattern.startswith(prefix) for event in EVENTS)


def test_consumers_hear_streams_that_are_made() -> None:
    streams = {stream.name for stream in resources.STREAMS} | {bucket.stream for bucket in resources.OBJECT_BUCKETS}
    assert {consumer.stream for consumer in resources.CONSUMERS} <= streams


def test_no_stream_keeps_what_is_only_told() -> None:
    kept = [subject.removesuffix(">").removesuffix("*") for stream in resources.STREAMS for subject in stream.subjects]
    assert not [feed for feed in FEEDS for prefix in kept if feed.subject("*").startswith(prefix)]
