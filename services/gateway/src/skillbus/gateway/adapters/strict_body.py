"""Strict validation of JSON bodies: exact JSON types, and no unknown fields outside `/v1`. See ADR 0029."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from fastapi import params
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
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

    def __init__(self, annotation: Any, *, accepts_unknown: bool) -> None:
        self._annotation = annotation
        self._adapter = TypeAdapter[Any](annotation)
        self.accepts_unknown = accepts_unknown

    @classmethod
    def from_route(cls, route: APIRoute) -> "StrictBody | None":
        """Return the validator for a route, or None if FastAPI reads no JSON body for it."""
        field = route.body_field
        if field is None or isinstance(field.field_info, params.Form):
            return None
        if len(route.dependant.body_params) > 1:
            raise ValueError(f"{route.path}: a JSON body is one parameter of its handler")
        return cls(field.field_info.annotation, accepts_unknown=route.path.startswith(OPENAI_PREFIX))

    def validate_value(self, value: object) -> object:
        """Return the model of a parsed JSON value, which FastAPI takes as it is. Raises InvalidBodyError."""
        try:
            # Only from JSON does pydantic know that a date is a text and a tuple is an array, also when it is strict.
            return self._adapter.validate_json(
                to_json(value), strict=True, extra=None if self.accepts_unknown else "forbid"
            )
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            raise InvalidBodyError([self._describe(item) for item in found]) from error

    def _describe(self, error: Mapping[str, Any]) -> dict[str, Any]:
        place: tuple[str | int, ...] = error["loc"]
        message = error["msg"]
        if error["type"] == _UNKNOWN:
            known = sorted(_list_fields(self._annotation, place[:-1]))
            near = get_close_matches(str(place[-1]), known, 1)
            hint = f"do you mean `{near[0]}`?" if near else f"the fields are {', '.join(known)}."
            message = f"There is no such field: {hint}"
        return {**error, "loc": ("body", *place), "msg": message}


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
