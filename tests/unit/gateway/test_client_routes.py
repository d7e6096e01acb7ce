"""The Python client has a method for every route, and puts every parameter where the OpenAPI document says."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from skillbus.client.operation import AnyOperation, Operation, ReplyParser
from skillbus.client.route import HEADERS
from skillbus.client.skillbus_client import GROUPS, AsyncSkillbus, Skillbus
from skillbus.contracts.learner.items import KnowledgeChanges
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.gateway.domain.chat.completions import ChatCompletionBody

from .fakes import KEY, World

WITHOUT_METHOD: Final = {
    "healthz": "for load balancers; clients call get_status",
    "readyz": "for load balancers; clients call get_status",
    "metrics": "for Prometheus",
    "create_session": "for browsers; clients send a key",
    "end_session": "for browsers; clients send a key",
    "create_login_link": "for `skillbus open`; clients send a key",
}
SHARED: Final = {
    "follow_skill": "run_skill",
    "follow_tool": "call_tool",
    "stream_chat_completion": "create_chat_completion",
}
"""Operations that use the route of another one."""
NOT_OFFERED: Final = {
    "create_embeddings": {"encoding_format", "user"},  # vectors are floats; `user` is ignored
    "get_knowledge": {"If-None-Match"},  # the client keeps no copy to compare with
    "import_knowledge": {"first_line"},  # for parts of a larger import, which the command line sends
    **{key: {"first_line"} for key in ("put_tools", "put_devices", "put_commands")},
    **{key: {"name"} for key in ("learn_from_logs", "learn_from_tests", "learn_from_files")},  # files are a form
    "review_knowledge": {"Skillbus-Actor"},  # `actor` of the body
    "create_knowledge": {"Skillbus-Actor", "Idempotency-Key"},  # `actor` and `idempotency_key` of the body
    "suggest_knowledge": {"Skillbus-Actor", "Idempotency-Key"},
    "update_knowledge": set(KnowledgeItem.model_fields) - set(KnowledgeChanges.model_fields),  # ignored
    "run_skill": {"stream"},  # follow_skill sends it
    "call_tool": {"stream"},  # follow_tool sends it
    "create_chat_completion": set(ChatCompletionBody.model_fields) - {"messages", "model", "tools"},  # in `fields`
    "follow_chat_run": {"last-event-id"},  # for browsers; the same as `after`
}
"""Parameters of a route that its method lacks."""
CONTENT: Final = {
    "put_tools": {"tools"},
    "put_devices": {"devices"},
    "put_commands": {"commands"},
    "import_knowledge": {"items"},
    **{key: {"files"} for key in ("learn_from_logs", "learn_from_tests", "learn_from_files")},
    "create_chat_completion": {"options", "fields"},
    "stream_chat_completion": {"options", "fields"},
}
"""Parameters that are the whole body, or fields of it under other names."""

OPERATIONS: Final = {
    name: value for group in GROUPS for name, value in vars(group).items() if isinstance(value, AnyOperation)
}


async def read_document() -> dict[str, Any]:
    async with World(key=KEY).client() as client:
        document: dict[str, Any] = (await client.get("/openapi.json")).json()
    return document


def list_documented(document: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, members in methods.items():
            yield members["operationId"], method.upper(), re.sub(r":path\}", "}", path), members


def list_places(document: dict[str, Any], members: dict[str, Any]) -> set[tuple[str, str]]:
    """Where the document takes which value: `("query", "limit")`."""
    places = {(parameter["in"], parameter["name"]) for parameter in members.get("parameters", ())}
    for media_type, content in members.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        reference = next((one["$ref"] for one in (schema, *schema.get("anyOf", ())) if "$ref" in one), None)
        if reference is not None:
            kind = "form" if media_type == "multipart/form-data" else "body"
            properties = document["components"]["schemas"][reference.rsplit("/", 1)[-1]]["properties"]
            places |= {(kind, name) for name in properties}
    return places


async def test_every_route_has_a_method_of_its_name() -> None:
    documented = {name: (method, path) for name, method, path, _ in list_documented(await read_document())}
    routes = {name: (operation.route.method, operation.route.path) for name, operation in OPERATIONS.items()}
    assert {name: routes.get(name) for name in documented.keys() - WITHOUT_METHOD} == {
        name: route for name, route in documented.items() if name not in WITHOUT_METHOD
    }
    assert {SHARED[name]: routes[name] for name in routes.keys() - documented.keys()} == {
        name: routes[name] for name in SHARED.values()
    }


async def test_every_parameter_goes_where_the_document_says() -> None:
    document = await read_document()
    members = {name: members for name, _, _, members in list_documented(document)}
    wrong: dict[str, set[tuple[str, str]]] = {}
    for name, operation in OPERATIONS.items():
        route_name = SHARED.get(name, name)
        documented = list_places(document, members[route_name])
        given = operation.signature.parameters.keys() - CONTENT.get(name, set())
        sent = {operation.route.place_field(parameter) for parameter in given}
        missing = {place for place in documented - sent if place[1] not in NOT_OFFERED.get(route_name, ())}
        if differences := (sent - documented) | missing:
            wrong[name] = differences
    assert wrong == {}


async def test_every_reply_is_parsed_as_the_model_of_the_document() -> None:
    wrong = {}
    for name, _, _, members in list_documented(await read_document()):
        replies = [reply for status, reply in members["responses"].items() if status.startswith("2")]
        schema = replies[0].get("content", {}).get("application/json", {}).get("schema", {})
        documented = schema.get("$ref", "").rsplit("/", 1)[-1]
        if name in OPERATIONS and name_reply(OPERATIONS[name]) != documented:
            wrong[name] = documented
    assert wrong == {}


def name_reply(operation: AnyOperation) -> str:
    if isinstance(operation, Operation) and isinstance(operation.parse, ReplyParser):
        return operation.parse.reply.__name__
    return ""


def test_the_headers_of_the_client_are_those_of_the_routes() -> None:
    assert set(HEADERS.values()) == {"Skillbus-Actor", "If-Match"}


@pytest.mark.parametrize("kind", [Skillbus, AsyncSkillbus])
def test_both_clients_have_every_operation(kind: type[Skillbus | AsyncSkillbus]) -> None:
    client = kind("http://127.0.0.1:1", "key")
    for name, operation in OPERATIONS.items():
        method = getattr(client, name)
        assert (method.__name__, method.__signature__) == (name, operation.signature)
