"""The catalogue is complete and agrees with itself."""

import ast
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Final

import skillbus.contracts
from skillbus.contracts import resources
from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS
from skillbus.contracts.endpoint import CALLERS, Endpoint, Event, Feed
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.contracts.message import Message

from .tree import distributions

_SUMMARIES: Final = ("catalogue", "resources", "documents")
"""Modules that list what others define."""


def contract_modules() -> Iterator[ModuleType]:
    for found in walk_packages(skillbus.contracts.__path__, "skillbus.contracts."):
        if found.name.split(".")[2] not in _SUMMARIES:
            yield import_module(found.name)


MODULES: Final = tuple(contract_modules())


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
    assert not [subject for subject, times in Counter(subjects).items() if times > 1]


def test_the_examples_of_requests_follow_their_contracts() -> None:
    unknown = {
        endpoint.subject: extra
        for endpoint in ENDPOINTS
        if (extra := endpoint.example.keys() - endpoint.request.model_validate(endpoint.example).model_fields_set)
    }
    assert not unknown


def test_no_error_is_listed_twice() -> None:
    assert not [endpoint.subject for endpoint in ENDPOINTS if len(set(endpoint.errors)) != len(endpoint.errors)]


def names_in(service: str) -> set[str]:
    """Return every name and attribute that the code of a service uses."""
    member = next(one for one in distributions() if one.name == f"skillbus-{service}")
    nodes = [node for file in member.modules for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
        node.id for node in nodes if isinstance(node, ast.Name)
    }


def test_every_event_is_known_to_the_service_that_publishes_it() -> None:
    constants = {
        id(value): name for module in MODULES for name, value in vars(module).items() if isinstance(value, Event | Feed)
    }
    published: tuple[Event[Message] | Feed[Message], ...] = (*EVENTS, *FEEDS)
    names = {service: names_in(service) for service in {event.service for event in published} - {CALLERS}}
    own = [event for event in published if event.service != CALLERS]
    assert not [event.summary for event in own if constants[id(event)] not in names[event.service]]


def test_every_event_goes_into_the_stream_of_events() -> None:
    prefix = resources.EVENTS.subjects[0].removesuffix(">")
    assert all(event.pattern.startswith(prefix) for event in EVENTS)


def test_consumers_hear_streams_that_are_made() -> None:
    streams = {stream.name for stream in resources.STREAMS} | {bucket.stream for bucket in resources.OBJECT_BUCKETS}
    assert {consumer.stream for consumer in resources.CONSUMERS} <= streams


def test_no_stream_keeps_what_is_only_told() -> None:
    kept = [subject.removesuffix(">").removesuffix("*") for stream in resources.STREAMS for subject in stream.subjects]
    assert not [feed for feed in FEEDS for prefix in kept if feed.subject("*").startswith(prefix)]
