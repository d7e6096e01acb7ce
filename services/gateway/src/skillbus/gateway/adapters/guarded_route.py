"""Routes that check the caller's role, and bind each request to one project of the caller's key.

A request names its project in the path, the query, a form or the JSON body. It is checked here, and an absent one is
filled in, before the handler sees the request. So handlers need no code for it, and a new route cannot forget it. See
ADR 0026.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from typing import Any, Final, get_args
from urllib.parse import parse_qsl, urlencode

from fastapi import params
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from skillbus.common.bus import headers as bus_headers
from skillbus.contracts.errors import RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.gateway.adapters.guard import admit_suggestion, declare_act, hold_run, hold_stream, make_origin
from skillbus.gateway.adapters.problem_response import BodyRefusedError
from skillbus.gateway.adapters.strict_json import StrictJsonRoute, StrictRequest
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.access.route_rule import RouteRule

_PROJECT: Final = "project"
_AUDITED_ROLES: Final = frozenset({Role.EDITOR, Role.ADMIN})
"""Roles of routes at which a refused key is recorded in the audit log."""


class ProjectPlace(StrEnum):
    """Part of a request from which its handler takes the project."""

    PATH = "path"
    QUERY = "query"
    FORM = "form"
    BODY = "body"


class GuardedRoute(StrictJsonRoute):
    """Route with a `RouteRule` in its `openapi_extra`. A route without one cannot be made."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.rule = RouteRule.from_openapi(self.openapi_extra or {})
        self.project_place = _find_project_place(self)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or raise RequestError before its body is read."""
        if self.rule.role is None or scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        caller = get_caller(scope)
        if self.rule.role in _AUDITED_ROLES:
            declare_act(scope, self.operation_id or self.name)
        caller.check_role(self.rule.role)
        if self.rule.needs_all_projects:
            caller.check_all_projects()
        if self.rule.is_suggestion:
            admit_suggestion(scope)
        with ExitStack() as stack:
            stack.callback(bus_headers.origin.reset, bus_headers.origin.set(make_origin(scope)))
            if self.rule.is_run:
                stack.enter_context(hold_run(scope))
            if self.rule.is_stream:
                stack.enter_context(hold_stream(scope))
            bound = bus_headers.project.set(None)
            stack.callback(bus_headers.project.reset, bound)
            if self.project_place in {ProjectPlace.PATH, ProjectPlace.QUERY}:
                named = _list_named(scope)
                project = _bind_project(scope, named)
                if self.project_place is ProjectPlace.QUERY and not named and not caller.has_all_projects:
                    scope["query_string"] += b"&" + urlencode({_PROJECT: project}).encode()
            await super().handle(scope, receive, send)

    def choose_request_class(self) -> type[StrictRequest]:
        """Return the class that finds the project in the body, if it is there."""
        return _BoundRequest if self.project_place in {ProjectPlace.BODY, ProjectPlace.FORM} else StrictRequest


class _BoundRequest(StrictRequest):
    """Request whose body names the project."""

    def bind_value(self, value: object) -> object:
        if isinstance(value, dict):
            given = value.get(_PROJECT)
            project = self._bind([given] if isinstance(given, str) else [])
            if given is None and (_list_named(self.scope) or not get_caller(self.scope).has_all_projects):
                value[_PROJECT] = project
        return value

    async def _get_form(self, **limits: Any) -> FormData:
        form = await super()._get_form(**limits)
        given = [value for value in form.getlist(_PROJECT) if isinstance(value, str)]
        try:
            project = self._bind(given)
        except HTTPException:
            await form.close()  # FastAPI does not know it yet
            raise
        return form if given else FormData([*form.multi_items(), (_PROJECT, project)])

    def _bind(self, in_body: Sequence[str]) -> str:
        try:
            return _bind_project(self.scope, [*_list_named(self.scope), *in_body])
        except RequestError as error:
            raise BodyRefusedError(error) from error


def _list_named(scope: Scope) -> list[str]:
    """Return the projects that path and query name."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    named = [value for name, value in query if name == _PROJECT]
    in_path = scope["path_params"].get(_PROJECT)
    return named if in_path is None else [*named, str(in_path)]


def _bind_project(scope: Scope, named: Sequence[str]) -> str:
    project = get_caller(scope).choose_project(named)
    bus_headers.project.set(project)
    return project


def _find_project_place(route: StrictJsonRoute) -> ProjectPlace | None:
    places: tuple[tuple[ProjectPlace, Iterable[Any]], ...] = (
        (ProjectPlace.PATH, route.dependant.path_params),
        (ProjectPlace.QUERY, route.dependant.query_params),
        (ProjectPlace.BODY, route.dependant.body_params),
    )
    for place, fields in places:
        for field in fields:
            if field.alias == _PROJECT or _has_project(field.field_info):
                return ProjectPlace.FORM if isinstance(field.field_info, params.Form) else place
    return None


def _has_project(field: FieldInfo) -> bool:
    kinds = (field.annotation, *get_args(field.annotation))
    return any(
        inspect.isclass(kind) and issubclass(kind, BaseModel) and _PROJECT in kind.model_fields for kind in kinds
    )
