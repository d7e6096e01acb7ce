"""What schemathesis cannot know of the REST API by itself; it loads this by `SCHEMATHESIS_HOOKS`.

Names of things that are there, from `REST_CONTRACT_KNOWN` (JSON, lists by path parameter), so that it sees more than
404; and that every status must be documented by itself, though `default` documents the form of all errors.
"""

import json
import os
from typing import Any

import schemathesis

_KNOWN: dict[str, list[str]] = json.loads(os.environ.get("REST_CONTRACT_KNOWN", "{}"))


@schemathesis.serializer("application/x-ndjson", "text/markdown")
def as_it_is(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """Bodies that the schema calls text."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.hook
def before_call(_: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Two of three names in paths become those of things that are there, by turns; odd ones stay odd."""
    for parameter, names in _KNOWN.items():
        given = (case.path_parameters or {}).get(parameter)
        turn = sum(map(ord, given)) if isinstance(given, str) else 0
        if isinstance(given, str) and given.isascii() and turn % 3:
            case.path_parameters[parameter] = names[turn % len(names)]


@schemathesis.check
def every_status_is_documented(
    _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """404 and 405 are those of paths and methods that the API does not have."""
    documented = set(case.operation.definition.raw["responses"])
    if case.method.upper() == case.operation.method.upper() and str(response.status_code) not in documented - {
        "default"
    }:
        is_no_path = response.status_code == 404 and "There is nothing at this path" in response.text
        assert is_no_path, f"{response.status_code} is not documented"
