"""The table of bus users says what the code of the services does: nothing is missing, and nothing is left over."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TypeVar

import pytest
import yaml

import skillbus.contracts
from skillbus.contracts.bus_users import ADMINISTRATION, BETWEEN_SERVICES, BUS_USERS, JETSTREAM_DOMAIN, Zone
from skillbus.contracts.catalogue import ENDPOINTS
from skillbus.contracts.documents.nats_accounts import make_inbox_prefix
from skillbus.contracts.endpoint import Endpoint, Event, Feed, WorkLine
from skillbus.contracts.resources import (
    Consumer,
    KeyValueBucket,
    ObjectBucket,
    Stream,
)

from .tree import ROOT

USERS = {user.name: user for user in BUS_USERS}
SERVICES = sorted(folder.name for folder in (ROOT / "services").iterdir())
DeclaredT = TypeVar("DeclaredT")


@cache
def list_imports(source: Path) -> Sequence[tuple[str, str]]:
    """Return module and name of all that a file imports from contracts, also by attributes of imported modules."""
    return list(_find_imports(source))


def _find_imports(source: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(source.read_text())
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("skillbus.contracts"):
            for alias in node.names:
                yield node.module, alias.name
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def list_sources(service: str) -> Iterator[Path]:
    """Files of a service, and those of `skillbus.common.chat` that it imports: they send requests for it."""
    shared = ROOT / "libs/common/src/skillbus/common/chat"
    own = list((ROOT / "services" / service / "src").rglob("*.py"))
    code = "\n".join(source.read_text() for source in own)
    yield from own
    yield from (source for source in shared.glob("*.py") if f"skillbus.common.chat.{source.stem} import" in code)


def list_named(service: str, kind: type[DeclaredT]) -> list[DeclaredT]:
    """Return the declarations of a kind that the code of a service names."""
    modules = {module.name for module in walk_packages(skillbus.contracts.__path__, "skillbus.contracts.")}
    found = []
    for source in list_sources(service):
        for module, name in list_imports(source):
            if module in modules and isinstance(named := getattr(import_module(module), name, None), kind):
                found.append(named)
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_the_calls_of_a_service_are_those_that_its_code_names(service: str) -> None:
    named = {endpoint.subject for endpoint in list_named(service, Endpoint) if endpoint.service != service}
    declared = {endpoint.subject for endpoint in USERS[service].calls}
    assert named - declared == set(), f"add the calls to {service} in contracts/bus_users.py"
    assert declared - named == set(), f"remove the calls from {service} in contracts/bus_users.py"


@pytest.mark.parametrize("service", SERVICES)
def test_the_work_lines_that_a_service_asks_are_those_that_its_code_names(service: str) -> None:
    named = {line.pattern for line in list_named(service, WorkLine) if line.service != service}
    assert named == {line.pattern for line in USERS[service].asks}


@pytest.mark.parametrize("service", [name for name in SERVICES if not USERS[name].provisions])
def test_the_events_and_feeds_that_a_service_hears_are_those_that_its_code_names(service: str) -> None:
    user = USERS[service]
    consumed = {subject for consumer in user.consumes for subject in consumer.subjects}
    named = {event.pattern for event in list_named(service, Event) if event.service != service}
    heard = {event.pattern for event in user.hears}
    assert named - heard <= consumed
    assert heard <= named
    feeds = {feed.pattern for feed in list_named(service, Feed) if feed.service != service}
    assert feeds == {feed.pattern for feed in user.follows}


@pytest.mark.parametrize("service", [name for name in SERVICES if not USERS[name].provisions])
def test_the_streams_and_buckets_of_a_service_are_those_that_its_code_names(service: str) -> None:
    user = USERS[service]
    assert set(list_named(service, Consumer)) == set(user.consumes)
    assert set(list_named(service, KeyValueBucket)) == set(user.keeps_keys)
    assert set(list_named(service, ObjectBucket)) == {*user.reads_objects, *user.writes_objects}
    assert set(list_named(service, Stream)) == {*user.appends_to, *user.reads_streams}


@pytest.mark.parametrize("service", SERVICES)
def test_compose_gives_a_service_its_own_key_and_the_settings_of_its_zone(service: str) -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    declared = compose["services"][service]
    user, seed = USERS[service], f"nats-{service}.seed"
    settings = {name: value for name, value in declared["environment"].items() if name.startswith("SKILLBUS_NATS_")}
    assert settings == {
        "SKILLBUS_NATS_URL": "${SKILLBUS_NATS_URL:-nats://nats:4222}",
        "SKILLBUS_NATS_REPLICAS": "${SKILLBUS_NATS_REPLICAS:-1}",
        "SKILLBUS_NATS_PROVISION": str(user.provisions).lower(),
        "SKILLBUS_NATS_DISK": "/",
        "SKILLBUS_NATS_SEED_FILE": f"/etc/skillbus/{seed}",
        "SKILLBUS_NATS_INBOX_PREFIX": make_inbox_prefix(service),
        **({} if user.zone is Zone.CORE else {"SKILLBUS_NATS_JETSTREAM_DOMAIN": JETSTREAM_DOMAIN}),
    }
    seeds = [secret["source"] for secret in declared["secrets"] if secret["source"].endswith(".seed")]
    assert seeds == [seed]
    assert seed in compose["secrets"]


def test_every_service_is_a_user_of_the_bus() -> None:
    assert set(SERVICES) <= set(USERS)


def test_clients_may_call_everything_but_administration_and_what_services_ask_each_other() -> None:
    [client] = [user for user in BUS_USERS if user.zone is Zone.CLIENTS]
    closed = {endpoint.subject for endpoint in (*ADMINISTRATION, *BETWEEN_SERVICES)}
    assert {endpoint.subject for endpoint in client.calls} == {endpoint.subject for endpoint in ENDPOINTS} - closed
