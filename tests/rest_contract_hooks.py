"""Hooks of schemathesis for the REST API, loaded through `SCHEMATHESIS_HOOKS`.

They put existing names from `REST_CONTRACT_KNOWN` (JSON, lists by path parameter) into paths, so that not every reply
is 404, and require that every status is documented, although `default` documents the form of all errors.
"""

import json
import os
from typing import Any

import schemathesis

_KNOWN: dict[str, list[str]] = json.loads(os.environ.get("REST_CONTRACT_KNOWN", "{}"))


@schemathesis.serializer("application/x-ndjson", "text/markdown")
def as_it_is(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """Return a body of type text unchanged."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.hook
def before_call(_: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Replace two of three names in paths by existing ones, in turn. Names that are not ASCII stay."""
    for parameter, names in _KNOWN.items():
        given = (case.path_parameters or {}).get(parameter)
        turn = sum(map(ord, given)) if isinstance(given, str) else 0
        if isinstance(given, str) and given.isascii() and turn % 3:
            case.path_parameters[parameter] = names[turn % len(names)]


@schemathesis.check
def every_status_is_documented(
    _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """Check that the status of a reply is documented, unless the path does not exist."""
    documented = set(case.operation.definition.raw["responses"])
    if case.method.upper() == case.operation.method.upper() and str(response.status_code) not in documented - {
        "default"
    }:
        is_no_path = response.status_code == 404 and "There is nothing at this path" in response.text
        assert is_no_path, f"{response.status_code} is not documented"
