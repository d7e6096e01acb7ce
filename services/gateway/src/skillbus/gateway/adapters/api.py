"""The HTTP application: routes, API documentation, access control, and the layers around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import JsonValue
from pydantic.json_schema import models_json_schema
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from skillbus.common.admission.gate import AdmissionGate
from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.contracts.http import OpenAiErrorBody, Problem
from skillbus.contracts.indexer.commands import CommandSpec
from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.contracts.learner.knowledge import KnowledgeDraft
from skillbus.gateway.adapters.admission_layer import AdmissionLayer
from skillbus.gateway.adapters.body_limit import BodyLimit, LimitOf
from skillbus.gateway.adapters.boundary import Boundary, HttpMetrics
from skillbus.gateway.adapters.closed_schemas import close_body_schemas
from skillbus.gateway.adapters.guard import Guard, record_refusal
from skillbus.gateway.adapters.mcp.endpoint import MCP_PATH, McpEndpoint
from skillbus.gateway.adapters.problem_response import ShowProblem, add_error_handlers, make_problem_response
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.rate_limit import RateLimiter
from skillbus.gateway.settings import GatewaySettings

_FORM_BYTES: Final = 64 * 1024
"""Size that a form may add to its package."""
_DESCRIPTION: Final = """skillbus keeps tools of every type: skills, tools of MCP servers, builtin tools, and your own.
It finds the few tools that fit a query in any language, calls them, and runs skills in a sandbox.
It also keeps a team's knowledge with its versions, finds it, and writes it as context for a model.
Spoken commands are resolved to the devices of a home and to the commands that these carry out.

Errors are problem documents (RFC 9457) with a `code` from a closed set.
Below `/v1`, which follows OpenAI's API, errors have OpenAI's form."""


@dataclass(frozen=True, slots=True)
class PageFiles:
    """Parts of the pages that are no routes."""

    start: str
    """Page that the root leads to."""
    path: str
    """Path of the files."""
    folder: Path
    show_problem: ShowProblem


class _KeptFiles(StaticFiles):
    """Files whose addresses name their content, so that browsers keep them."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


class GatewayApi(FastAPI):
    """FastAPI application that also documents problem documents and keys."""

    cookie_name: str | None = None
    """Name of the cookie of a session; None on a gateway without a key."""

    body_routes: Sequence[BaseRoute] = ()
    """Routes that may take a JSON body."""

    def openapi(self) -> dict[str, JsonValue]:
        if self.openapi_schema is None:
            document: dict[str, JsonValue] = super().openapi()
            _add_components(document, self.cookie_name)
            close_body_schemas(document, self.body_routes)
        return self.openapi_schema or {}


def build_app(
    router: APIRouter,
    tags: Sequence[Mapping[str, str]],
    settings: GatewaySettings,
    authenticator: Authenticator,
    recorder: ActRecorder,
    metrics: HttpMetrics,
    mcp: McpEndpoint | None = None,
    pages: PageFiles | None = None,
) -> ASGIApp:
    """Return the application with its layers, outermost first: boundary, body limit, guard, admission, routes."""
    app = GatewayApi(
        title="skillbus",
        version="0.1.0",
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "The gateway that serves this document."}],
        openapi_tags=[dict(tag) for tag in tags],
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.cookie_name = authenticator.session_cookie.name if authenticator.needs_key else None
    app.body_routes = router.routes
    show_problem = pages.show_problem if pages else lambda _, problem: make_problem_response(problem)
    add_error_handlers(app, router, record_refusal, show_problem)
    if mcp is not None:  # first: the routes are compared with a path one after the other
        app.router.routes.append(Route(MCP_PATH, mcp))
    app.router.routes.extend(router.routes)  # `include_router` would make each route again, and match it twice
    _add_docs_page(app, pages.start if pages else "/docs")
    if pages is not None:
        # Compressed, unlike pages: those hold a token of the session beside what others wrote.
        app.mount(pages.path, GZipMiddleware(_KeptFiles(directory=pages.folder)), name="assets")
    limiter = RateLimiter(settings.requests_per_minute, settings.runs_at_once, settings.suggestions_per_hour)
    admitted = AdmissionLayer(app, AdmissionGate("http", metrics.admission), show_problem)
    return Boundary(
        BodyLimit(Guard(admitted, authenticator, limiter, recorder, show_problem), make_body_limits(settings)), metrics
    )


def _add_docs_page(app: FastAPI, start: str) -> None:
    """Serve the page `/docs`: Swagger UI from an installed package, so that it works without the internet.

    The root leads to `start`.
    """

    async def lead_to_start() -> RedirectResponse:
        return RedirectResponse(start)

    async def show_docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="skillbus",
            swagger_js_url="/docs/assets/swagger-ui-bundle.js",
            swagger_css_url="/docs/assets/swagger-ui.css",
            swagger_favicon_url="/docs/assets/favicon.png",
        )

    app.add_api_route("/", lead_to_start, include_in_schema=False)
    app.add_api_route("/docs", show_docs, include_in_schema=False)
    # Uses only the files of the package: its own application would add ReDoc and another page.
    app.mount("/docs/assets", StaticFiles(packages=[("fastapi_offline", "static")]), name="docs-assets")


def make_body_limits(settings: GatewaySettings) -> LimitOf:
    """Return a function from method and path to the largest body in bytes."""

    others = {
        **{("PUT", f"/api/{things}"): settings.tools_body_bytes for things in ("tools", "devices", "commands")},
        ("POST", "/api/knowledge/import"): settings.knowledge_body_bytes,
        ("POST", "/v1/embeddings"): settings.embeddings_body_bytes,
    }

    def limit_of(method: str, path: str) -> int:
        if method == "POST" and path in {"/api/skills", "/api/skills/check"}:
            return settings.package_bytes + _FORM_BYTES
        runs = (("/api/skills/", "/run"), ("/api/tools/", "/call"))
        if path == MCP_PATH or (
            method == "POST" and any(path.startswith(start) and path.endswith(end) for start, end in runs)
        ):
            return settings.run_body_bytes
        if method == "POST" and path.startswith("/api/learn/"):
            return settings.learning_body_bytes
        return others.get((method, path), settings.body_bytes)

    return limit_of


def _add_components(document: dict[str, JsonValue], cookie_name: str | None) -> None:
    components = document.setdefault("components", {})
    if not isinstance(components, dict):
        raise TypeError("the components of an OpenAPI document must be an object")
    schemas = components.setdefault("schemas", {})
    _, documents = models_json_schema(
        [
            (Problem, "serialization"),
            (OpenAiErrorBody, "serialization"),
            (ToolDescription, "validation"),
            (KnowledgeDraft, "validation"),
            (Device, "validation"),
            (CommandSpec, "validation"),
        ],
        ref_template="#/components/schemas/{model}",
    )
    if isinstance(schemas, dict):
        schemas.update(documents["$defs"])
    if cookie_name is not None:
        cookie = "The cookie of `POST /api/session`. Requests but GET, HEAD and OPTIONS also need `X-CSRF-Token`."
        described = "The owner's key, or an API key. `x-role` of an operation is the role that the key needs."
        components["securitySchemes"] = {
            "apiKey": {"type": "http", "scheme": "bearer", "description": described},
            "session": {"type": "apiKey", "in": "cookie", "name": cookie_name, "description": cookie},
        }
        document["security"] = [{"apiKey": []}, {"session": []}]
