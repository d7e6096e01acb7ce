"""Arguments against an input schema that a skill's author wrote.

The schema is not trusted: references cannot leave it, and since its patterns are matched in this process, those which
can take exponential time (a repeated group, a back reference) are refused, and the others see short strings only.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from skillbus.sandbox.domain.arguments import Json
from skillbus.sandbox.domain.errors import ArgumentsInvalid, SchemaInvalid

PATTERN_MAX: Final = 256
PATTERN_REPEATS_MAX: Final = 3
MATCHED_MAX: Final = 1024
"""Characters: three unbounded repeats over them stay below a second or two in the worst case."""
_REPEATED_GROUP: Final = re.compile(r"\)\s*[*+{]|\\[1-9]|\(\?P=")
_REPEAT: Final = re.compile(r"(?<!\\)[*+]|\{\d*,\d*\}")


def check_args(schema: Mapping[str, Json], args: Mapping[str, Json]) -> None:
    """Whether `args` fit `schema`, a JSON Schema of the draft that it names, 2020-12 by default.

    Raises:
        ArgumentsInvalid: with the path of the first misfit.
        SchemaInvalid: when the schema itself cannot be used.
    """
    try:
        _check_patterns(dict(schema), "$")
        _check_keys(dict(args), "$")
        error = next(iter(_validator(schema).iter_errors(args)), None)
    except SchemaError as error_in_schema:
        raise SchemaInvalid(_short(error_in_schema.message), error_in_schema.json_path) from error_in_schema
    except Unresolvable as unresolvable:
        raise SchemaInvalid(f"it refers to {unresolvable.ref!r}, which it does not hold") from unresolvable
    except RecursionError as recursion:
        raise SchemaInvalid("it, or the arguments, nest without end") from recursion
    if error is not None:
        raise ArgumentsInvalid(_short(error.message), error.json_path)


def _validator(schema: Mapping[str, Json]) -> Validator:
    plain = validator_for(schema, default=Draft202012Validator)
    plain.check_schema(dict(schema))
    bounded: type[Validator] = extend(plain, {"pattern": _pattern})  # type: ignore[no-untyped-call]  # jsonschema's own
    return bounded(dict(schema), registry=Registry())


def _pattern(
    validator: Validator, pattern: str, instance: Json, schema: Mapping[str, Json]
) -> Iterator[ValidationError]:
    del validator, schema
    if not isinstance(instance, str):
        return
    if len(instance) > MATCHED_MAX:
        yield ValidationError(f"{len(instance)} characters are too many to match a pattern; the limit is {MATCHED_MAX}")
    elif re.search(pattern, instance) is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_patterns(schema: Json, path: str) -> None:
    for key, value in _items(schema):
        here = f"{path}.{key}"
        if key == "pattern" and isinstance(value, str):
            _check_pattern(value, here)
        elif key == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                _check_pattern(pattern, here)
        _check_patterns(value, here)


def _check_pattern(pattern: str, path: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise SchemaInvalid(f"pattern {pattern[:80]!r} is not a regular expression: {error}", path) from error
    costly = _REPEATED_GROUP.search(pattern) or len(_REPEAT.findall(pattern)) > PATTERN_REPEATS_MAX
    if costly or len(pattern) > PATTERN_MAX:
        raise SchemaInvalid(
            f"pattern {pattern[:80]!r} can take too long to match: use no repeated group, no back reference, "
            f"at most {PATTERN_REPEATS_MAX} repeats and {PATTERN_MAX} characters",
            path,
        )


def _check_keys(args: Json, path: str) -> None:
    for key, value in _items(args):
        if len(key) > MATCHED_MAX:
            raise ArgumentsInvalid(f"a key of {len(key)} characters; the limit is {MATCHED_MAX}", path)
        _check_keys(value, f"{path}.{key}")


def _items(value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(index), item) for index, item in enumerate(value))


def _short(message: str) -> str:
    return message if len(message) <= 400 else f"{message[:400]}…"
