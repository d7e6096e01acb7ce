"""Schemas of request bodies in the OpenAPI document: closed, because unknown fields are refused. See ADR 0029."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from starlette.routing import BaseRoute

from skillbus.gateway.adapters.strict_body import StrictBody
from skillbus.gateway.adapters.strict_json import StrictJsonRoute

_PREFIX: Final = "#/components/schemas/"
Schema = dict[str, Any]


def close_body_schemas(document: Schema, routes: Sequence[BaseRoute]) -> None:
    """Forbid additional properties in the schemas of bodies.

    A schema that a reply uses too gets a closed copy for bodies: clients must accept new fields in replies.
    """
    schemas: Schema = document.get("components", {}).get("schemas", {})
    bodies = list(_list_bodies(document, routes))
    closed = {name for body in bodies for name in _list_references(body, schemas)}
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    others = [{**operation, "requestBody": None} for operation in operations] + [
        operation["requestBody"] for operation in operations if operation.get("requestBody") not in (None, *bodies)
    ]
    shared = closed & {name for other in others for name in _list_references(other, schemas)}
    renamed = {f"{_PREFIX}{name}": f"{_PREFIX}{name}-Input" for name in shared}
    for name in closed:
        schema = _rename(schemas[name], renamed)
        if "properties" in schema:
            schema["additionalProperties"] = False
        schemas[f"{name}-Input" if name in shared else name] = schema
    for body in bodies:
        body.update(_rename(body, renamed))


def _list_bodies(document: Schema, routes: Sequence[BaseRoute]) -> Iterator[Schema]:
    for route in routes:
        if isinstance(route, StrictJsonRoute) and route.include_in_schema:
            body = StrictBody.from_route(route)
            if body is not None and body.is_read and not body.accepts_unknown:
                for method in route.methods or ():
                    yield document["paths"][route.path_format][method.lower()]["requestBody"]


def _list_references(value: object, schemas: Schema, seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of the schemas that a part of the document refers to, directly or through others."""
    found = set[str]()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(reference := value.get("$ref"), str):
        name = reference.removeprefix(_PREFIX)
        if name not in seen:
            found |= {name} | _list_references(schemas[name], schemas, seen | {name})
    return found.union(*(_list_references(one, schemas, seen) for one in inner))


def _rename(value: Any, renamed: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: renamed.get(one, one) if key == "$ref" and isinstance(one, str) else _rename(one, renamed)
            for key, one in value.items()
        }
    return [_rename(one, renamed) for one in value] if isinstance(value, list) else value
