"""The HTTP application: routes, their documentation, and the layers around them."""

from typing import Final

from fastapi import APIRouter, FastAPI
from pydantic import JsonValue
from pydantic.json_schema import models_json_schema
from starlette.types import ASGIApp

from skillbus.contracts.http import OpenAiErrorBody, Problem
from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.contracts.learner.knowledge import KnowledgeDraft
from skillbus.gateway.adapters.body_limit import BodyLimit, LimitOf
from skillbus.gateway.adapters.boundary import Boundary
from skillbus.gateway.adapters.docs_page import add_docs
from skillbus.gateway.adapters.guard import Guard
from skillbus.gateway.adapters.http_metrics import HttpMetrics
from skillbus.gateway.adapters.problem_response import answer_errors
from skillbus.gateway.domain.access import Access
from skillbus.gateway.settings import GatewaySettings

_FORM_BYTES: Final = 64 * 1024
"""What a form may add to the package in it."""
_DESCRIPTION: Final = """Keep tools of any kind: skills, those of MCP servers, builtin ones, and your own.
Find the few that fit a request in any language, call them, and run skills in a sandbox.
Keep what a team knows, with its versions, and find it, or have it written as a context for a model.

Every error is a problem document (RFC 9457) whose `code` is one of a closed set;
below `/v1`, where the API is OpenAI's, an error is as OpenAI writes it."""


class GatewayApi(FastAPI):
    """FastAPI with what its documentation cannot derive: problem documents, and the owner's key."""

    with_key = False

    def openapi(self) -> dict[str, JsonValue]:
        if self.openapi_schema is None:
            document: dict[str, JsonValue] = super().openapi()
            _add_components(document, with_key=self.with_key)
        return self.openapi_schema or {}


def build_app(router: APIRouter, settings: GatewaySettings, access: Access, metrics: HttpMetrics) -> ASGIApp:
    """The application with all its layers, outermost first: boundary, body limit, guard, routes."""
    app = GatewayApi(
        title="skillbus",
        version="0.1.0",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.with_key = access.key_digest is not None
    answer_errors(app, router)
    app.include_router(router)
    add_docs(app)
    return Boundary(BodyLimit(Guard(app, access), body_limits(settings)), metrics)


def body_limits(settings: GatewaySettings) -> LimitOf:
    """How large the body of a request may be."""

    def limit_of(method: str, path: str) -> int:
        if method == "POST" and path in {"/api/skills", "/api/skills/check"}:
            return settings.package_bytes + _FORM_BYTES
        if method == "POST" and path.startswith("/api/skills/") and path.endswith("/run"):
            return settings.run_body_bytes
        if method == "PUT" and path == "/api/tools":
            return settings.tools_body_bytes
        if method == "POST" and path == "/api/knowledge/import":
            return settings.knowledge_body_bytes
        if path == "/v1/embeddings":
            return settings.embeddings_body_bytes
        return settings.body_bytes

    return limit_of


def _add_components(document: dict[str, JsonValue], *, with_key: bool) -> None:
    components = document.setdefault("components", {})
    if not isinstance(components, dict):
        raise TypeError("the components of an OpenAPI document are an object")
    schemas = components.setdefault("schemas", {})
    _, documents = models_json_schema(
        [
            (Problem, "serialization"),
            (OpenAiErrorBody, "serialization"),
            (ToolDescription, "validation"),
            (KnowledgeDraft, "validation"),
        ],
        ref_template="#/components/schemas/{model}",
    )
    if isinstance(schemas, dict):
        schemas.update(documents["$defs"])
    if with_key:
        components["securitySchemes"] = {"ownerKey": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"ownerKey": []}]
