"""Starts sandboxes: each with a folder, a system call filter and an agent."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.descriptors import make_memory_file
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkPlan, ForkServer
from skillbus.sandbox.adapters.bubblewrap.installation import Installation, find_installation
from skillbus.sandbox.adapters.bubblewrap.launcher import InheritedNumbers, Launcher
from skillbus.sandbox.adapters.bubblewrap.process import SandboxPipes, SandboxProcess
from skillbus.sandbox.adapters.bubblewrap.profile import (
    ENVIRONMENT,
    ETC,
    INIT,
    NODE_BOOT,
    RELAY,
    SKILL,
    AgentEntry,
    InheritedDescriptors,
    SandboxPlan,
    Warm,
    build_command,
    build_entry,
    change_user,
)
from skillbus.sandbox.adapters.bubblewrap.run_folder import RunFolder
from skillbus.sandbox.adapters.host import find_shared_folder, run_in_thread
from skillbus.sandbox.adapters.inside import read_agent_sources, read_program
from skillbus.sandbox.adapters.kernel.first_process import assemble_first_process
from skillbus.sandbox.adapters.kernel.seccomp import compile_filter
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.isolation import Meter, Metering
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel

_ERRORS_MAX: Final = 64 * 1024
OpenEgress = Callable[[RunFolder], Awaitable[Path]]
"""Opens the egress proxy of a run, with its files in that folder; returns the proxy's socket."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ReadySandbox:
    """Sandbox for one run. Its owner must `end` it."""

    sandbox: SandboxProcess
    pids: tuple[int, ...]
    """Process 1 and the agent, in the host's numbering: the roots of all process trees of the sandbox."""
    meter: Meter
    """Entered."""
    folder: RunFolder
    level: IsolationLevel
    launcher: Launcher
    resources: AsyncExitStack
    """Ends the processes, then releases everything that belongs to the sandbox."""

    def is_running(self) -> bool:
        """Return False if the sandbox has ended, or ends in this moment because its launcher has."""
        return self.launcher.is_running() and self.sandbox.is_running()

    async def end(self) -> None:
        """Kill its processes, then release everything that belongs to it."""
        await self.resources.aclose()


@dataclass(frozen=True, slots=True)
class Helpers:
    """Programs that start a sandbox."""

    server: ForkServer
    launcher: Launcher

    def have_ended(self) -> bool:
        """Return True if one of them has ended: another one may start what it did not."""
        return self.server.has_ended() or not self.launcher.is_running()


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """Functions and sources that every sandbox is made from. Tests replace them to weaken a sandbox."""

    build_command: Callable[[SandboxPlan], Sequence[str]] = build_command
    build_entry: Callable[[SandboxPlan], AgentEntry] = build_entry
    sources: Mapping[str, str] = field(default_factory=read_agent_sources)
    """Source text of the agent's modules."""


class SandboxStarter:
    """Starts sandboxes on this machine, as `user` if the service is root."""

    def __init__(
        self,
        *,
        installation: Installation | None,
        profile: SandboxProfile,
        metering: Metering,
        user: int | None,
        start_s: float,
        forks: int,
    ) -> None:
        self.user = user
        self._installation = installation
        self._profile = profile
        self._metering = metering
        self._start_s = start_s
        self._forks = forks
        self._servers: dict[str, ForkServer] = {}
        """Fork servers by project."""
        self._ended_servers: list[ForkServer] = []
        self._launcher: Launcher | None = None
        self._former_launchers: list[Launcher] = []
        self._init = b""
        self._folder: Path | None = None
        self._readying = asyncio.Lock()
        self._filters: dict[bool, bytes] = {}
        """System call filters, by whether they allow the network."""
        self._relay = read_program("relay.py").encode()
        self._node_boot = read_program("node_boot.cjs").encode()

    @property
    def host(self) -> Installation:
        """The programs of this machine. Raises SandboxUnavailable if some are missing."""
        if self._installation is None:
            self._installation = find_installation()
        return self._installation

    async def start_sandbox(
        self,
        level: IsolationLevel,
        limits: Limits,
        project: str,
        *,
        layer: Path | None = None,
        warm: Warm | None = None,
        open_egress: OpenEgress | None = None,
    ) -> ReadySandbox:
        """Start a sandbox for a run of `project`, with an agent that waits for a job. On failure no process is left.

        `layer` holds the packages to show; without `open_egress` there is no network.

        Raises:
            SandboxBroken: The sandbox did not start.
            SandboxUnavailable: The interpreter of the agent does not start.
        """
        async with AsyncExitStack() as resources:
            folder = RunFolder.create(self.user, self._folder)
            resources.push_async_callback(run_in_thread, folder.remove)
            plan = SandboxPlan(
                installation=self.host,
                level=level,
                limits=limits,
                skill_root=folder.skill,
                given_root=folder.given,
                layer=None if layer is None else layer.absolute(),
                egress=None if open_egress is None else await open_egress(folder),
                warm=warm,
            )
            meter = self._metering.create_meter()
            resources.push_async_callback(meter.leave)
            helpers = await self._open_helpers(project)
            try:
                sandbox, pids = await self._start_with(helpers, plan, resources)
            except SandboxBroken:
                if not helpers.have_ended():
                    raise
                helpers = await self._open_helpers(project)
                sandbox, pids = await self._start_with(helpers, plan, resources)
            await meter.enter(pids)
            return ReadySandbox(sandbox, pids, meter, folder, level, helpers.launcher, resources.pop_all())

    async def _start_with(
        self, helpers: Helpers, plan: SandboxPlan, resources: AsyncExitStack
    ) -> tuple[SandboxProcess, tuple[int, ...]]:
        """Start a sandbox with an agent that is ready. Return it, and the process ids of process 1 and of the agent."""
        entry = self._profile.build_entry(plan)
        try:
            sandbox = await self._start_process(plan, helpers.launcher)
        except OSError as error:
            raise SandboxBroken(f"the sandbox could not be started: {error}") from error
        for release in (sandbox.reap, sandbox.end):  # in the opposite order
            resources.push_async_callback(release)
        return sandbox, await self._enter_agent(sandbox, entry, helpers)

    async def _start_process(self, plan: SandboxPlan, launcher: Launcher) -> SandboxProcess:
        """Start a sandbox, which dies with the launcher."""
        contents = {INIT: self._init, **ETC}
        if plan.warm is Warm.NODE:
            contents[NODE_BOOT] = self._node_boot
        if plan.egress is not None:
            contents[RELAY] = self._relay
        pipes = SandboxPipes(self.user)
        try:
            with ExitStack() as files, pipes.of_bwrap:
                inherited = InheritedNumbers(pipes.of_init, pipes.of_init, pipes.their_stderr)
                bwrap, libraries = self._open_program(files, inherited)
                descriptors = InheritedDescriptors(
                    bwrap=bwrap,
                    info=inherited.add(pipes.their_info),
                    seccomp=inherited.add(make_memory_file(files, self._filter(network=plan.egress is not None))),
                    files={path: inherited.add(make_memory_file(files, content)) for path, content in contents.items()},
                )
                command = self._profile.build_command(replace(plan, descriptors=descriptors))
                environment = {} if libraries is None else {"LD_LIBRARY_PATH": f"/proc/self/fd/{libraries}"}
                async with asyncio.timeout(self._start_s):
                    await launcher.launch_program(command, environment, inherited, pipes.their_launched)
            return SandboxProcess(pipes)
        except TimeoutError as error:
            pipes.close()
            self._retire_launcher(launcher)
            raise self._report_hang() from error
        except BaseException:
            pipes.close()
            raise

    def _open_program(self, files: ExitStack, inherited: InheritedNumbers) -> tuple[int | None, int | None]:
        """Open the wheel's bubblewrap and its library folder, for a user who cannot enter the folders above them.

        Returns their numbers in bubblewrap.
        """
        if self.user is None or self.host.libraries is None:
            return None, None
        opened = []
        for path in (self.host.bwrap, self.host.libraries):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            files.callback(os.close, descriptor)
            opened.append(inherited.add(descriptor))
        return opened[0], opened[1]

    async def _enter_agent(self, sandbox: SandboxProcess, entry: AgentEntry, helpers: Helpers) -> tuple[int, ...]:
        """Return the process ids of process 1 and of the agent, once the agent is ready."""
        try:
            async with asyncio.timeout(self._start_s):
                return await sandbox.attach(), await sandbox.enter_agent(helpers.server, entry)
        except TimeoutError as error:
            if sandbox.pid == 0:
                self._retire_launcher(helpers.launcher)  # it may be what hangs; another one starts in milliseconds
            else:
                helpers.server.give_up()  # the same
            raise self._report_hang() from error
        except (OSError, ValueError) as error:
            sandbox.kill()
            async with asyncio.timeout(self._start_s):
                printed = await sandbox.stderr.read(_ERRORS_MAX)
            reason = printed.decode(errors="replace").strip() or f"it ended without an error message ({error!r})"
            raise SandboxBroken(f"the sandbox did not start: {reason}") from error

    def _report_hang(self) -> SandboxBroken:
        return SandboxBroken(f"the sandbox did not start in {self._start_s:g} s: the machine is overloaded or hangs")

    async def _open_helpers(self, project: str) -> Helpers:
        async with self._readying:
            return Helpers(await self._open_server(project), self._open_launcher())

    def _open_launcher(self) -> Launcher:
        if self._launcher is not None and not self._launcher.is_running():
            log.warning("launcher_ended")
            self._launcher.close()
            self._launcher = None
        if self._launcher is None:
            self._launcher = Launcher(self._find_interpreter())
        return self._launcher

    def _retire_launcher(self, launcher: Launcher) -> None:
        """Let another launcher start the next sandboxes. Those of this one would end with it."""
        if self._launcher is launcher:
            self._former_launchers.append(launcher)
            self._launcher = None

    def _find_interpreter(self) -> tuple[str, ...]:
        """Return the command of a Python with the user of the runs."""
        return *change_user(self.host, self.user), str(self.host.get_interpreter(Runtime.PYTHON))

    async def _open_server(self, project: str) -> ForkServer:
        self._reap_servers()
        server = self._servers.get(project)
        if server is not None and server.is_running():
            return server
        if server is not None:
            log.warning("fork_server_ended", said=server.read_errors())
            self.retire_server(project)
        self._folder = find_shared_folder()
        self._init = assemble_first_process(self.host.architecture)
        plan = ForkPlan(
            command=self._find_interpreter(),
            environment={**ENVIRONMENT, "PWD": SKILL},
            sources=self._profile.sources,
            filters=(self._filter(network=False), self._filter(network=True)),
            forks=self._forks,
        )
        server = self._servers[project] = await ForkServer.open(plan, self._start_s)
        return server

    def retire_server(self, project: str) -> None:
        """Let the fork server of a project end, if it has one: its forks go on, and it ends after them."""
        if server := self._servers.pop(project, None):
            server.give_up()
            self._ended_servers.append(server)

    def _reap_servers(self) -> None:
        for server in [server for server in self._ended_servers if server.has_ended()]:
            self._ended_servers.remove(server)
            server.close()

    def close(self) -> None:
        """End the launcher and the fork servers. No sandbox may be running any more."""
        if self._launcher is not None:
            self._retire_launcher(self._launcher)
        launchers, servers = self._former_launchers, (*self._ended_servers, *self._servers.values())
        self._former_launchers, self._ended_servers, self._servers = [], [], {}
        for launcher in launchers:
            launcher.close()
        for server in servers:
            server.close()

    def _filter(self, *, network: bool) -> bytes:
        if network not in self._filters:
            self._filters[network] = compile_filter(self.host.architecture, network=network)
        return self._filters[network]
