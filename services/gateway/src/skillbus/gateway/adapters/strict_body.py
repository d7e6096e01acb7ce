"""Strict validation of JSON bodies: exact JSON types, and no unknown fields outside `/v1`. See ADR 0029."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from fastapi import params
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.config import ExtraValues
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.contracts.message import Empty
from skillbus.gateway.domain.openai import OPENAI_PREFIX

_UNKNOWN: Final = "extra_forbidden"


class InvalidBodyError(HTTPException):
    """The body does not fit its route. An HTTPException, because FastAPI passes these on while it reads a body."""

    def __init__(self, errors: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(ERROR_CLASSES[ErrorCode.INVALID_REQUEST].status)
        self.errors = errors
        """Errors as pydantic describes them, with `body` before each place."""


class StrictBody:
    """Validator of the JSON body of a route."""

    def __init__(
        self, annotation: Any, query_names: frozenset[str], *, accepts_unknown: bool = False, is_read: bool = True
    ) -> None:
        self._annotation = annotation
        self._query_names = query_names
        self._adapter = TypeAdapter[Any](annotation)
        self.accepts_unknown = accepts_unknown
        self.is_read = is_read
        """True if the handler takes the body. Otherwise it has no fields, so that none is ignored."""

    @classmethod
    def from_route(cls, route: APIRoute) -> "StrictBody | None":
        """Return the validator for a route, or None if its handler or a form reads the body."""
        field, query_names = route.body_field, frozenset(one.alias for one in route.dependant.query_params)
        if field is None and route.methods != {"GET"} and "requestBody" not in (route.openapi_extra or {}):
            return cls(Empty | None, query_names, is_read=False)
        if field is None or isinstance(field.field_info, params.Form):
            return None
        if len(route.dependant.body_params) > 1:
            raise ValueError(f"{route.path}: a JSON body is one parameter of its handler")
        accepts_unknown = route.path.startswith(OPENAI_PREFIX)
        return cls(field.field_info.annotation, query_names, accepts_unknown=accepts_unknown)

    def validate_value(self, value: object) -> object:
        """Return the model of a parsed JSON value, which FastAPI takes as it is. Raises InvalidBodyError."""
        try:
            return self._validate(value)
        except ValidationError as error:
            if not _write_whole_numbers(value, error.errors(include_url=False)):
                raise self._refuse(error) from error
        try:
            return self._validate(value)
        except ValidationError as error:
            raise self._refuse(error) from error

    def _validate(self, value: object) -> object:
        # Only from JSON does pydantic know that a date is a text and a tuple is an array, also when it is strict.
        extra: ExtraValues | None = None if self.accepts_unknown else "forbid"
        return self._adapter.validate_json(to_json(value), strict=True, extra=extra)

    def _refuse(self, error: ValidationError) -> InvalidBodyError:
        found = error.errors(include_url=False, include_input=False)
        return InvalidBodyError([self._describe(item) for item in found])

    def _describe(self, error: Mapping[str, Any]) -> dict[str, Any]:
        place: tuple[str | int, ...] = error["loc"]
        told: dict[str, Any] = {**error, "loc": ("body", *place)}
        if error["type"] == _UNKNOWN:
            hint = self._find_hint(place[:-1], str(place[-1]))
            told |= {"type": "unknown_field", "msg": f"There is no such field: {hint}"}
        return told

    def _find_hint(self, place: tuple[str | int, ...], name: str) -> str:
        known = sorted(_list_fields(self._annotation, place))
        if near := get_close_matches(name, known, 1):
            return f"do you mean `{near[0]}`?"
        if not place and name in self._query_names:
            return "it is a parameter of the query."
        return f"the fields are {', '.join(known)}." if known else "this request has no body."


def _write_whole_numbers(body: Any, errors: Sequence[Mapping[str, Any]]) -> bool:
    """Replace `5.0` by `5` where an integer is expected: to JSON they are one number. Return True after any."""
    is_changed = False
    for error in errors:
        number, place = error["input"], error["loc"]
        if error["type"] == "int_type" and place and isinstance(number, float) and number.is_integer():
            holder = body
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = int(number)
            is_changed = True
    return is_changed


def _list_fields(annotation: object, place: Sequence[str | int]) -> frozenset[str]:
    """Return the names of the fields at a place of a body."""
    models = list(_list_models(annotation))
    for step in place:
        inner = [field.annotation for model in models for name, field in model.model_fields.items() if name == step]
        # A step without a field is the position in a list or the key of a mapping.
        models = [found for one in inner for found in _list_models(one)] if inner else models
    return frozenset(name for model in models for name in model.model_fields)


def _list_models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _list_models(part)
