"""Composition root of the agent."""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from skillbus.agent.adapters.bus_calls import BusCallFiles, BusSkillRuns
from skillbus.agent.adapters.bus_catalogue import BusCatalogue
from skillbus.agent.adapters.bus_functions import BusFunctions
from skillbus.agent.adapters.bus_programs import BusProgramLines, BusProgramRuns, announce_program_call
from skillbus.agent.adapters.bus_servers import KvServers, announce_server, open_server_changes
from skillbus.agent.adapters.bus_turns import BusTurnLines, KvTurns, TurnFeed
from skillbus.agent.adapters.chat_models.models import HttpChatModels
from skillbus.agent.adapters.disk_files import DiskFiles, FileQuota
from skillbus.agent.adapters.disk_operator_file import DiskOperatorFile
from skillbus.agent.adapters.outside_access import OutsideAccess
from skillbus.agent.domain.auditor import CallableAuditor
from skillbus.agent.domain.builtins.calculate import CALCULATE
from skillbus.agent.domain.builtins.date_time import make_datetime_tool
from skillbus.agent.domain.builtins.files import make_list_files_tool, make_read_file_tool, make_write_file_tool
from skillbus.agent.domain.builtins.platform import PLATFORM
from skillbus.agent.domain.builtins.publisher import BuiltinPublisher
from skillbus.agent.domain.builtins.reading import make_read_result_tool, make_read_skill_tool
from skillbus.agent.domain.builtins.run_code import make_run_code_tool
from skillbus.agent.domain.builtins.spoken_command import make_resolve_command_tool
from skillbus.agent.domain.builtins.tool import BuiltinTool, BuiltinTools
from skillbus.agent.domain.builtins.tool_finder import make_search_tool
from skillbus.agent.domain.chat.engine import EnginePorts, ReActEngine
from skillbus.agent.domain.chat.model_test import ChatModelTester
from skillbus.agent.domain.chat.step_calls import StepCaller
from skillbus.agent.domain.chat.turns import TurnPorts, TurnRegistry
from skillbus.agent.domain.ports import Registration, ReportSlowStart, ToolSession
from skillbus.agent.domain.programs.runner import ProgramRunner
from skillbus.agent.domain.programs.session import ProgramLimits
from skillbus.agent.domain.servers.follower import FollowerPorts, FollowTiming
from skillbus.agent.domain.servers.operator_servers import OperatorServers
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.agent.domain.tool_caller import ToolCaller
from skillbus.agent.errors_on_the_wire import to_wire
from skillbus.agent.service.chats import ChatHandlers
from skillbus.agent.service.tools_and_servers import AgentHandlers
from skillbus.agent.settings import AgentSettings
from skillbus.common.background import run_in_background
from skillbus.common.bus.caller import Caller
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import CancelLines
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.common.tools.skill_files import SkillFiles
from skillbus.contracts import agent as contract
from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
)
from skillbus.contracts.agent.tool_calls import (
    AUDIT_CALLABLE,
    CALL_TOOL,
    CANCEL_CALL,
    CANCEL_CALL_SIGNALS,
    LIST_BUILTINS,
)
from skillbus.contracts.embedder.chat_models import FIND_CHAT_MODELS, ChatModel, FindChatModels
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import LIST_HOMES
from skillbus.contracts.indexer.skills import GET_SKILL
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.contracts.retriever.command_resolution import RESOLVE_COMMAND
from skillbus.contracts.retriever.knowledge_search import BUILD_CONTEXT, BuildContext, ContextBuilt
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS
from skillbus.providers.client import ProviderClients

_MIB: Final = 1024 * 1024


@asynccontextmanager
async def open_agent(bus: Bus, settings: AgentSettings) -> AsyncGenerator[ServiceHealth]:
    """Run the agent on the bus, following the registered servers, while the context is open."""
    files = BusCallFiles(await open_object_store(bus, RUN_FILES))
    skills = SkillFiles(partial(bus.caller.call, GET_SKILL), await open_object_store(bus, PACKAGES))
    builtins = make_builtin_tools(
        bus.caller,
        settings.data / "files",
        make_run_code_tool(_make_program_runner(bus, settings, files).run),
        make_read_skill_tool(skills),
        make_read_result_tool(files),
        without=settings.without_builtins,
    )
    publisher = BuiltinPublisher(BusCatalogue(bus.caller), builtins.describe())
    for project in settings.builtin_projects:
        publisher.add_project(project)
    # A project that gets tools of a server gets the builtin ones too.
    catalogue = BusCatalogue(bus.caller, on_put=publisher.add_project)
    outside = OutsideAccess(settings.build_secrets(), settings.address_rule)
    file = None if settings.mcp_file is None else DiskOperatorFile(settings.mcp_file)
    operator_servers = OperatorServers(file, KvServers(bus), _get_time)
    ports = FollowerPorts(
        store=operator_servers,
        open_session=partial(_open_session, outside=outside, servers=operator_servers),
        catalogue=catalogue,
        announce=partial(announce_server, bus),
        now=_get_time,
    )
    servers = ServerRegistry(ports, FollowTiming(poll_every_s=settings.poll_every_s))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(run_in_background(publisher))
        await stack.enter_async_context(servers.follow_all(await stack.enter_async_context(open_server_changes(bus))))
        lines = CancelLines(bus.client, CANCEL_CALL_SIGNALS)
        caller = ToolCaller(catalogue, servers, builtins, BusSkillRuns(bus.caller), files, lines)
        turns = await stack.enter_async_context(open_turns(bus, settings, builtins, caller, files))
        auditor = CallableAuditor(catalogue, servers, builtins, publisher)
        handlers = AgentHandlers(servers, operator_servers, builtins, caller, auditor)
        routes = [
            route(REGISTER_MCP_SERVER, handlers.register_mcp_server),
            route(LIST_MCP_SERVERS, handlers.list_mcp_servers),
            route(GET_MCP_SERVER, handlers.get_mcp_server),
            route(REFRESH_MCP_SERVER, handlers.refresh_mcp_server),
            route(REMOVE_MCP_SERVER, handlers.remove_mcp_server),
            route(LIST_BUILTINS, handlers.list_builtins),
            route(CALL_TOOL, handlers.call_tool),
            route(CANCEL_CALL, handlers.cancel_call),
            route(AUDIT_CALLABLE, handlers.audit_callable),
            *ChatHandlers(turns, _make_model_tester(bus, settings), settings.approval_s).list_routes(),
        ]
        health = ServiceHealth(contract.SERVICE, (handlers.check_mcp_file,))
        await stack.enter_async_context(serve_routes(bus, contract.SERVICE, routes, health, to_wire))
        stack.callback(turns.end_turns)  # first, so that no chat holds the drain of its requests up
        yield health


def _make_model_tester(bus: Bus, settings: AgentSettings) -> ChatModelTester:
    @asynccontextmanager
    async def open_models() -> AsyncGenerator[HttpChatModels]:
        async with ProviderClients(settings.build_secrets(), settings.address_rule) as clients:
            yield HttpChatModels(clients)

    return ChatModelTester(partial(_find_chat_models, bus), open_models)


async def _find_chat_models(bus: Bus, wanted: str | None) -> Sequence[ChatModel]:
    return (await bus.caller.call(FIND_CHAT_MODELS, FindChatModels(model=wanted), allow_local=True)).models


def _make_program_runner(bus: Bus, settings: AgentSettings, files: BusCallFiles) -> ProgramRunner:
    return ProgramRunner(
        runs=BusProgramRuns(bus.caller),
        lines=BusProgramLines(bus),
        files=files,
        catalogue=BusCatalogue(bus.caller),
        limits=ProgramLimits(settings.program_calls, settings.program_calls_mib * _MIB),
        to_wire=to_wire,
        announce=partial(announce_program_call, bus.client),
    )


def make_builtin_tools(caller: Caller, files: Path, *more: BuiltinTool, without: Collection[str] = ()) -> BuiltinTools:
    """Make all builtin tools, with `more` and except those in `without`. `files` has a folder for each project."""
    disk = DiskFiles(files, FileQuota())
    tools = (
        CALCULATE,
        make_datetime_tool(_get_time),
        make_search_tool(lambda request: caller.call(SEARCH_TOOLS, request, allow_local=True)),
        make_resolve_command_tool(
            lambda request: caller.call(RESOLVE_COMMAND, request, allow_local=True),
            lambda request: caller.call(LIST_HOMES, request, allow_local=True),
        ),
        PLATFORM,
        make_read_file_tool(disk),
        make_write_file_tool(disk),
        make_list_files_tool(disk),
        *more,
    )
    return BuiltinTools(tool for tool in tools if tool.description.name not in without)


def _open_session(
    registration: Registration,
    on_change: Callable[[], None],
    report_slow_start: ReportSlowStart | None,
    *,
    outside: OutsideAccess,
    servers: OperatorServers,
) -> AbstractAsyncContextManager[ToolSession]:
    # The MCP SDK is imported with the first session: it takes memory and a second.
    from skillbus.agent.adapters.mcp.session import open_mcp_session  # noqa: PLC0415

    return open_mcp_session(servers.find_server(registration), on_change, report_slow_start, outside)


def _get_time() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def open_turns(
    bus: Bus, settings: AgentSettings, builtins: BuiltinTools, caller: ToolCaller, files: BusCallFiles
) -> AsyncGenerator[TurnRegistry]:
    """Open the registry of turns. Leaving the context closes the connections to all models."""

    async def build_knowledge(request: BuildContext) -> ContextBuilt:
        return await bus.caller.call(BUILD_CONTEXT, request, allow_local=True)

    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(ProviderClients(settings.build_secrets(), settings.address_rule))
        feed = TurnFeed(bus)
        await stack.enter_async_context(feed.run())
        finder = BusFunctions(bus.caller, builtins)
        stack.push_async_callback(finder.close)
        ports = EnginePorts(
            models=HttpChatModels(clients),
            finder=finder,
            build_knowledge=build_knowledge,
            turns=KvTurns(bus),
            caller=StepCaller(caller.call, finder, files),
        )
        turns = TurnRegistry(
            ReActEngine(ports),
            TurnPorts(
                find_models=partial(_find_chat_models, bus),
                finder=finder,
                lines=BusTurnLines(bus),
                publish=feed.publish,
                announce=feed.announce,
                describe_error=_describe_error,
            ),
        )
        stack.push_async_callback(turns.close)
        yield turns


def _describe_error(error: Exception) -> RequestError:
    """Return the error that the caller of a turn gets."""
    if isinstance(error, RequestError):
        return error
    return to_wire(error) or RequestError(ErrorCode.INTERNAL, "The agent failed; see its log.")
