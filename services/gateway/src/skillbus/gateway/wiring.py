"""Composition root of the gateway."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp

from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import subscribe_to_feed
from skillbus.common.bus.objects import ObjectStore, open_object_store
from skillbus.common.http_server import PortInUseError, TlsFiles, serve_http
from skillbus.common.runner import StartError
from skillbus.common.tools.skill_files import SkillFiles
from skillbus.contracts.agent.turns import TURN_ADVANCED
from skillbus.contracts.endpoint import Health, HealthCheck
from skillbus.contracts.indexer.index_switch import SWITCH_PROGRESSED
from skillbus.contracts.indexer.skills import GET_SKILL
from skillbus.contracts.learner.learning_jobs import LEARNING_ADVANCED
from skillbus.contracts.resources import LEARNING_FILES, PACKAGES, RUN_FILES
from skillbus.contracts.sandbox.run_history import RUN_PRINTED
from skillbus.gateway.adapters.api import PageFiles, build_app
from skillbus.gateway.adapters.boundary import HttpMetrics
from skillbus.gateway.adapters.bus_discovery import BusDiscovery
from skillbus.gateway.adapters.guarded_route import GuardedRoute
from skillbus.gateway.adapters.keys.kv_api_keys import open_api_keys
from skillbus.gateway.adapters.keys.kv_login_links import KvLoginLinks
from skillbus.gateway.adapters.keys.kv_sessions import open_sessions
from skillbus.gateway.adapters.mcp.endpoint import McpEndpoint, open_mcp_endpoint
from skillbus.gateway.adapters.problem_response import make_problem_response
from skillbus.gateway.adapters.project_caller import ProjectCaller
from skillbus.gateway.adapters.start_checks import CheckedStart, check_start
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.login_link import LoginLinks
from skillbus.gateway.domain.access.session import SessionCookie, SessionRing
from skillbus.gateway.domain.access.session_registry import SessionRegistry
from skillbus.gateway.domain.audit import SystemAuditor
from skillbus.gateway.domain.chat.turn_runner import RemoteTurnRunner
from skillbus.gateway.domain.imports.home_importer import HomeImporter
from skillbus.gateway.domain.imports.tool_importer import ToolImporter
from skillbus.gateway.domain.knowledge import KnowledgeImporter
from skillbus.gateway.domain.learning.job_follower import JobFollower
from skillbus.gateway.domain.learning.uploader import LearningUploader
from skillbus.gateway.domain.package_installer import PackageInstaller
from skillbus.gateway.domain.readiness import Readiness
from skillbus.gateway.domain.runs.run_watcher import RunWatcher
from skillbus.gateway.domain.runs.skill_runner import RemoteSkillRunner
from skillbus.gateway.domain.runs.tool_calls import RemoteToolCaller
from skillbus.gateway.domain.switch_follower import SwitchFollower
from skillbus.gateway.service.access.sessions import SessionRoutes
from skillbus.gateway.service.pages.login import LoginPages
from skillbus.gateway.service.pages.rendering import ASSETS, ASSETS_PATH
from skillbus.gateway.service.pages.router import show_page_problem
from skillbus.gateway.service.pages.sections.start import START_PAGE
from skillbus.gateway.service.router import TAGS, GatewayParts, build_router
from skillbus.gateway.service.system import SystemRoutes, render_registry
from skillbus.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class Gateway:
    """Running gateway."""

    url: str
    """Address that it listens on, with the actual port."""
    readiness: Readiness

    async def health(self) -> Health:
        """Return the health of the whole system."""
        return await self.readiness.check_health()


@dataclass(frozen=True, slots=True)
class ObjectStores:
    """Buckets that the gateway uses."""

    packages: ObjectStore
    run_files: ObjectStore
    learning_files: ObjectStore


@dataclass(frozen=True, slots=True)
class GatewayGroup:
    """Gateways of several processes with one address, as one of them sees it."""

    serve: Callable[[ASGIApp, TlsFiles | None], AbstractAsyncContextManager[str]]
    """Serves the application while its context is open, in the way of this process, and yields the URL of all."""
    check_processes: Callable[[], Awaitable[HealthCheck]]
    """Returns which of the processes run."""
    render_metrics: Callable[[], Awaitable[bytes]]
    """Returns the metrics of all processes."""


@asynccontextmanager
async def open_gateway(
    bus: Bus, settings: GatewaySettings, checked: CheckedStart | None = None, group: GatewayGroup | None = None
) -> AsyncGenerator[Gateway]:
    """Serve HTTP while the context is open. When it closes, the current requests are finished.

    `checked` is the result of `check_start` if the caller has called it before. With `group`, other processes serve at
    the same address.

    Raises:
        StartError: The address is in use, or strangers could use it or read keys there, or the key cannot be used.
            Its cause is the reason.
    """
    if checked is None:
        checked = await check_start(settings)
    ring, session_ring = KeyRing(), SessionRing()
    check_processes = None if group is None else group.check_processes
    readiness = Readiness(bus.caller, bus.client, bus.disk, check_processes, timeout_s=settings.health_timeout_s)
    render_metrics = partial(render_registry, bus.metrics.registry) if group is None else group.render_metrics
    # Opened before the keys, whose reading is repeated with a line in the log: the buckets may not be made yet.
    stores = ObjectStores(
        await open_object_store(bus, PACKAGES),
        await open_object_store(bus, RUN_FILES),
        await open_object_store(bus, LEARNING_FILES),
    )
    try:
        async with (
            open_api_keys(bus, ring) as keys,
            open_sessions(bus, session_ring) as sessions,
            open_mcp_endpoint(settings.body_bytes, settings.run_body_bytes) as mcp,
        ):
            cookie = SessionCookie(is_secure=settings.tls_in_front or checked.tls is not None)
            authenticator = Authenticator(checked.owner_digest, ring, session_ring, cookie, keys.note_use)
            registry = SessionRegistry(sessions, authenticator)
            links = LoginLinks(KvLoginLinks(bus), authenticator, registry)
            system = SystemRoutes(readiness, SystemAuditor(ProjectCaller(bus.caller)), render_metrics)
            app = _build_app(bus, settings, stores, authenticator, KeyRegistry(keys), links, system, mcp)
            serve = _serve_alone(settings) if group is None else group.serve
            async with serve(app, checked.tls) as url:
                yield Gateway(url, readiness)
    except PortInUseError as error:
        raise StartError(str(error)) from error


def _serve_alone(settings: GatewaySettings) -> Callable[[ASGIApp, TlsFiles | None], AbstractAsyncContextManager[str]]:
    # Starlette and uvicorn declare different types for ASGI messages; they are the same at run time.
    return lambda app, tls: serve_http(app, settings.host, settings.port, tls)  # type: ignore[arg-type]


def _build_app(
    bus: Bus,
    settings: GatewaySettings,
    stores: ObjectStores,
    authenticator: Authenticator,
    keys: KeyRegistry,
    links: LoginLinks,
    system: SystemRoutes,
    mcp: McpEndpoint,
) -> ASGIApp:
    packages, run_files = stores.packages, stores.run_files
    caller = ProjectCaller(bus.caller)
    installer = PackageInstaller(
        caller,
        packages,
        max_bytes=settings.package_bytes,
        patience_s=settings.upload_patience_s,
    )
    open_feed = partial(subscribe_to_feed, bus.client, RUN_PRINTED)
    runner = RemoteSkillRunner(caller, run_files, open_feed, artifact_bytes=settings.artifact_bytes)
    recorder = ActRecorder(AuditStream(bus), "gateway")
    parts = GatewayParts(
        caller,
        installer,
        SkillFiles(partial(caller.call, GET_SKILL), packages),
        runner,
        RunWatcher(caller, open_feed),
        RemoteToolCaller(caller, run_files, open_feed, file_bytes=settings.artifact_bytes),
        ToolImporter(caller, patience_s=settings.upload_patience_s),
        HomeImporter(caller, patience_s=settings.upload_patience_s),
        KnowledgeImporter(caller, patience_s=settings.upload_patience_s),
        LearningUploader(caller, stores.learning_files),
        JobFollower(caller, partial(subscribe_to_feed, bus.client, LEARNING_ADVANCED)),
        SwitchFollower(caller, partial(subscribe_to_feed, bus.client, SWITCH_PROGRESSED, "*")),
        BusDiscovery(bus.client),
        keys,
        SessionRoutes(links.sessions, links, authenticator.session_cookie),
        LoginPages(links, authenticator.session_cookie, START_PAGE),
        RemoteTurnRunner(caller, partial(subscribe_to_feed, bus.client, TURN_ADVANCED)),
        recorder,
        system,
    )
    router = build_router(parts, GuardedRoute)
    pages = PageFiles(START_PAGE, ASSETS_PATH, ASSETS, partial(show_page_problem, make_problem_response))
    metrics = HttpMetrics(bus.metrics.registry, bus.metrics.admission)
    return build_app(router, TAGS, settings, authenticator, recorder, metrics, mcp, pages)
