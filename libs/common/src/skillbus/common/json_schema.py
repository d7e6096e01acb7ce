"""Arguments against an input schema that a stranger wrote.

The schema is not trusted. References cannot leave it. Its patterns are matched by an engine that does not backtrack
(`patterns`). And checking takes a bounded number of steps, whatever the schema makes of the arguments: references that
fork at every level, and lists of millions of alternatives, end at the budget.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from pydantic import JsonValue
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from skillbus.common.patterns import MATCHED_MAX, Pattern, UnusablePattern

STEPS_MAX: Final = 200_000
"""About two seconds of one core; a schema of 100 properties over a table of 1,000 rows takes half of it."""
_REFUSED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""jsonschema follows every reference again for these, past any count of steps, and matches with Python's engine."""
_SHOWN: Final = 128

Keyword = Callable[[Validator, JsonValue, JsonValue, Mapping[str, JsonValue]], Iterator[ValidationError] | None]


class MisfitError(Exception):
    """Arguments that do not fit; `path` is the place in them, like `$.rows[2].name`."""

    def __init__(self, problem: str, path: str = "$") -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem
        self.path = path


class UnusableSchemaError(Exception):
    """A schema that is not valid, refers elsewhere, or is too costly to check; `path` is the place in it."""

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
            raise UnusableSchemaError(f"it refers to {reference[:_SHOWN]!r}, which it does not hold", path) from error


def check_args(schema: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> None:
    """Check that `args` fit `schema`, a JSON Schema of the draft that it names, 2020-12 by default.

    It may take seconds: not for the event loop's thread.

    Raises:
        MisfitError: With the path of the first misfit.
        UnusableSchemaError: The schema itself cannot be used.
    """
    check = _Check()
    try:
        check.patterns_of(dict(schema), "$")
        _check_keys(dict(args), "$")
        error = next(iter(check.validator(schema).iter_errors(args)), None)
    except SchemaError as error_in_schema:
        raise UnusableSchemaError(_short(error_in_schema.message), error_in_schema.json_path) from error_in_schema
    except Unresolvable as unresolvable:
        raise UnusableSchemaError(f"it refers to {unresolvable.ref!r}, which it does not hold") from unresolvable
    except RecursionError as recursion:
        raise UnusableSchemaError("it, or the arguments, nest without end") from recursion
    if error is not None:
        raise MisfitError(_short(error.message), error.json_path)


@dataclass(slots=True)
class _Check:
    """One check: its patterns, and what is left of its steps."""

    patterns: dict[str, Pattern] = field(default_factory=dict)
    steps: int = STEPS_MAX

    def validator(self, schema: Mapping[str, JsonValue]) -> Validator:
        plain = validator_for(schema, default=Draft202012Validator)
        plain.check_schema(dict(schema))
        own: dict[str, Keyword] = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": _unique_items,
        }
        keywords = {name: self._counted(keyword) for name, keyword in {**plain.VALIDATORS, **own}.items()}
        bounded: type[Validator] = extend(plain, keywords)  # type: ignore[no-untyped-call]  # jsonschema's own
        return bounded(dict(schema), registry=Registry())

    def patterns_of(self, schema: JsonValue, path: str) -> None:
        """Compile every pattern before any is needed, so that the error names its place."""
        for key, value in _items(schema):
            here = f"{path}.{key}"
            if key == "pattern" and isinstance(value, str):
                self._compiled(value, here)
            elif key == "patternProperties" and isinstance(value, dict):
                for pattern in value:
                    self._compiled(pattern, here)
            elif key in _REFUSED and isinstance(value, bool | dict) and not path.endswith(".properties"):
                raise UnusableSchemaError("this keyword is not supported: name the properties and items", here)
            self.patterns_of(value, here)

    def _compiled(self, pattern: str, path: str = "$") -> Pattern:
        try:
            if pattern not in self.patterns:
                self.patterns[pattern] = Pattern(pattern)
        except UnusablePattern as error:
            raise UnusableSchemaError(f"pattern {pattern[:80]!r} cannot be used: {error}", path) from error
        return self.patterns[pattern]

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
        elif not self._compiled(pattern).is_in(instance):
            yield ValidationError(f"{_short(repr(instance))} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Validator, properties: JsonValue, instance: JsonValue, _: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict) or not isinstance(properties, dict):
            return
        for (pattern, subschema), (key, value) in itertools.product(properties.items(), instance.items()):
            if self._names(pattern, key):
                yield from _under(validator, key, value, subschema)

    def _additional_properties(
        self, validator: Validator, allowed: JsonValue, instance: JsonValue, schema: Mapping[str, JsonValue]
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        named, patterns = _object(schema.get("properties")), _object(schema.get("patternProperties"))
        others = (key for key in instance if key not in named and not any(self._names(name, key) for name in patterns))
        for key in others:
            if isinstance(allowed, dict):
                yield from _under(validator, key, instance[key], allowed)
            elif allowed is False:
                yield ValidationError(f"there is no property {key[:_SHOWN]!r}")

    def _names(self, pattern: str, key: str) -> bool:
        self._spend(1)
        return self._compiled(pattern).is_in(key)

    def _spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise UnusableSchemaError(
                f"checking these arguments takes more than {STEPS_MAX} steps: simplify the schema"
            )


def _unique_items(
    _: Validator, wanted: JsonValue, instance: JsonValue, __: Mapping[str, JsonValue]
) -> Iterator[ValidationError]:
    """By hash: jsonschema compares each with each."""
    if wanted is True and isinstance(instance, list) and len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError("the items are not all different")


def _under(validator: Validator, key: str, value: JsonValue, schema: JsonValue) -> Iterator[ValidationError]:
    """What is wrong with the value of a key."""
    for error in validator.evolve(schema=schema).iter_errors(value):
        error.path.appendleft(key)
        yield error


def _hashable(value: JsonValue) -> object:
    """Equal for what JSON Schema takes as equal: 1 and 1.0, but not 1 and true."""
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
