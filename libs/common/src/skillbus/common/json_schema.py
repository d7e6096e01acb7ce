"""Check of arguments against an untrusted input schema, in bounded time.

References cannot leave the schema. Checking takes a bounded number of steps: references that fork at every level and
lists of millions of alternatives end at the budget.

Patterns are matched in linear time. Python's engine backtracks: `a?a?a?…aaa` would take longer than the age of the
universe, and no rule about the spelling of a pattern finds all such cases. The engine of pydantic (Rust's `regex`)
never backtracks. It knows no look-around and no back references, and bounds the size of a compiled pattern.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import Final

from cachetools import LRUCache, cached
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from pydantic import JsonValue
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

PATTERN_MAX: Final = 1024
"""Characters of a pattern."""
MATCHED_MAX: Final = 64 * 1024
"""Characters of a matched text: with the largest pattern that compiles it takes well below a second."""
STEPS_MAX: Final = 200_000
"""Budget of about two seconds of one core; a schema of 100 properties over a table of 1,000 rows takes half of it."""
_REFUSED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""For these jsonschema follows every reference again without counting steps, and matches with Python's engine."""
_QUOTED_CHARACTERS: Final = 128
_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Memory of the schemas that are kept prepared: preparing one takes a hundred times as long as using it."""

Keyword = Callable[[Validator, JsonValue, JsonValue, Mapping[str, JsonValue]], Iterator[ValidationError] | None]


class MisfitError(Exception):
    """Arguments that do not fit; `path` is the place in them, like `$.rows[2].name`."""

    def __init__(self, problem: str, path: str = "$") -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem
        self.path = path


class UnusableSchemaError(Exception):
    """A schema that is invalid, refers elsewhere, or is too expensive to check; `path` is the place in it."""

    def __init__(self, problem: str, path: str = "$") -> None:
        super().__init__(f"input schema at {path}: {problem}")
        self.problem = problem
        self.path = path


def check_schema(schema: Mapping[str, JsonValue]) -> None:
    """Check that `check_args` can use a schema: its draft, its keywords, its patterns and its references.

    Raises:
        UnusableSchemaError: With the path in the schema.
    """
    with suppress(MisfitError):
        check_args(schema, {})
    resolver = Registry().resolver_with_root(Resource.from_contents(dict(schema), default_specification=DRAFT202012))
    for path, reference in _references(dict(schema), "$"):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            target = reference[:_QUOTED_CHARACTERS]
            raise UnusableSchemaError(f"it refers to {target!r}, which it does not hold", path) from error


def check_args(schema: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> None:
    """Check that `args` fit `schema`, a JSON Schema of the draft that it names, 2020-12 by default.

    It may take seconds: call it in a thread.

    Raises:
        MisfitError: With the path of the first misfit.
        UnusableSchemaError: The schema itself cannot be used.
    """
    try:
        error = _prepare_check(json.dumps(dict(schema))).find_misfit(args)
    except SchemaError as error_in_schema:
        raise UnusableSchemaError(_short(error_in_schema.message), error_in_schema.json_path) from error_in_schema
    except Unresolvable as unresolvable:
        raise UnusableSchemaError(f"it refers to {unresolvable.ref!r}, which it does not hold") from unresolvable
    except RecursionError as recursion:
        raise UnusableSchemaError("it, or the arguments, nest without end") from recursion
    if error is not None:
        raise MisfitError(_short(error.message), error.json_path)


class _SchemaCheck:
    """Checks against one schema, which jsonschema has accepted. A second thread waits for the first."""

    def __init__(self, text: str) -> None:
        """Prepare the schema of that JSON text. Raises UnusableSchemaError or SchemaError."""
        self.size_bytes = 45 * 1024 + 5 * len(text)  # measured
        self._patterns: dict[str, SchemaValidator] = {}
        self._steps = STEPS_MAX
        self._lock = Lock()
        schema = json.loads(text)
        self._compile_patterns(schema, "$")
        self._validator = self._make_validator(schema)
        self._patterns.clear()

    def find_misfit(self, args: Mapping[str, JsonValue]) -> ValidationError | None:
        """Return the first misfit of the arguments, None if they fit."""
        with self._lock:
            self._steps = STEPS_MAX
            try:
                _check_keys(dict(args), "$")
                return next(iter(self._validator.iter_errors(args)), None)
            finally:
                self._patterns.clear()  # a compiled pattern may take megabytes

    def _make_validator(self, schema: dict[str, JsonValue]) -> Validator:
        plain = validator_for(schema, default=Draft202012Validator)
        plain.check_schema(schema)
        own: dict[str, Keyword] = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": _unique_items,
        }
        keywords = {name: self._counted(keyword) for name, keyword in {**plain.VALIDATORS, **own}.items()}
        bounded: type[Validator] = extend(plain, keywords)  # type: ignore[no-untyped-call]  # jsonschema's own
        return bounded(schema, registry=Registry())

    def _compile_patterns(self, schema: JsonValue, path: str) -> None:
        """Compile all patterns in advance, so that an error names its place in the schema."""
        for key, value in _items(schema):
            here = f"{path}.{key}"
            if key == "pattern" and isinstance(value, str):
                self._compile_pattern(value, here)
            elif key == "patternProperties" and isinstance(value, dict):
                for pattern in value:
                    self._compile_pattern(pattern, here)
            elif key in _REFUSED and isinstance(value, bool | dict) and not path.endswith(".properties"):
                raise UnusableSchemaError("this keyword is not supported: name the properties and items", here)
            self._compile_patterns(value, here)

    def _compile_pattern(self, pattern: str, path: str = "$") -> SchemaValidator:
        problem = f"pattern {pattern[:80]!r} cannot be used"
        if len(pattern) > PATTERN_MAX:
            raise UnusableSchemaError(f"{problem}: it is longer than {PATTERN_MAX} characters", path)
        try:
            if pattern not in self._patterns:
                self._patterns[pattern] = SchemaValidator(core_schema.str_schema(pattern=pattern))
        except PatternError as error:
            # The last line names the construct that the engine does not support.
            reason = str(error).strip().splitlines()[-1].removeprefix("error: ").strip()
            raise UnusableSchemaError(f"{problem}: {reason}", path) from error
        return self._patterns[pattern]

    def _counted(self, keyword: Keyword) -> Keyword:
        def counted(
            validator: Validator, value: JsonValue, instance: JsonValue, schema: Mapping[str, JsonValue]
        ) -> Iterator[ValidationError]:
            self._spend(1 + _size(value) + _size(instance))
            yield from keyword(validator, value, instance, schema) or ()

        return counted

    def _pattern(
        self, _: Validator, pattern: JsonValue, instance: JsonValue, __: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, str) or not isinstance(pattern, str):
            return
        if len(instance) > MATCHED_MAX:
            yield ValidationError(f"{len(instance)} characters are over the {MATCHED_MAX} that a pattern is matched on")
        elif not self._compile_pattern(pattern).isinstance_python(instance):
            yield ValidationError(f"{_short(repr(instance))} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Validator, properties: JsonValue, instance: JsonValue, _: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict) or not isinstance(properties, dict):
            return
        for (pattern, subschema), (key, value) in itertools.product(properties.items(), instance.items()):
            if self._names(pattern, key):
                yield from _check_child(validator, key, value, subschema)

    def _additional_properties(
        self, validator: Validator, allowed: JsonValue, instance: JsonValue, schema: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        named, patterns = _object(schema.get("properties")), _object(schema.get("patternProperties"))
        others = (key for key in instance if key not in named and not any(self._names(name, key) for name in patterns))
        for key in others:
            if isinstance(allowed, dict):
                yield from _check_child(validator, key, instance[key], allowed)
            elif allowed is False:
                yield ValidationError(f"there is no property {key[:_QUOTED_CHARACTERS]!r}")

    def _names(self, pattern: str, key: str) -> bool:
        self._spend(1)
        return self._compile_pattern(pattern).isinstance_python(key)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise UnusableSchemaError(
                f"checking these arguments takes more than {STEPS_MAX} steps: simplify the schema"
            )


@cached(LRUCache(_KEPT_BYTES, getsizeof=lambda check: check.size_bytes), lock=Lock())
def _prepare_check(text: str) -> _SchemaCheck:
    """Return the check against the schema of that JSON text."""
    return _SchemaCheck(text)


def _unique_items(
    _: Validator, wanted: JsonValue, instance: JsonValue, __: Mapping[str, JsonValue]
) -> Iterator[ValidationError]:
    """Compare items by hash: jsonschema compares each item with each other one."""
    if wanted is True and isinstance(instance, list) and len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError("the items are not all different")


def _check_child(validator: Validator, key: str, value: JsonValue, schema: JsonValue) -> Iterator[ValidationError]:
    """Yield the errors of the value of a key."""
    for error in validator.evolve(schema=schema).iter_errors(value):
        error.path.appendleft(key)
        yield error


def _hashable(value: JsonValue) -> object:
    """Return equal objects for values that JSON Schema considers equal: 1 and 1.0, but not 1 and true."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return (type(value), value) if isinstance(value, bool | str) else value


def _references(schema: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the target of each reference."""
    for key, value in _items(schema):
        here = f"{path}.{key}"
        if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
            yield here, value
        yield from _references(value, here)


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _size(value: JsonValue) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _check_keys(args: JsonValue, path: str) -> None:
    for key, value in _items(args):
        if len(key) > MATCHED_MAX:
            raise MisfitError(f"a key of {len(key)} characters; the limit is {MATCHED_MAX}", path)
        _check_keys(value, f"{path}.{key}")


def _items(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(index), item) for index, item in enumerate(value))


def _short(message: str) -> str:
    return message if len(message) <= 400 else f"{message[:400]}…"
