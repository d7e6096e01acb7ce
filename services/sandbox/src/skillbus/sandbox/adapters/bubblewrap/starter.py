"""Starts sandboxes: each with a folder, a system call filter and an agent."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkPlan, ForkServer
from skillbus.sandbox.adapters.bubblewrap.installation import Installation, find_installation
from skillbus.sandbox.adapters.bubblewrap.process import SandboxPipes, SandboxProcess, SandboxStart, start_process
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
"""Opens the egress proxy of a run, whose files lie in that folder; returns the proxy's socket."""

_SECCOMP: Final = "seccomp"

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

    async def end(self) -> None:
        """Kill its processes, then release everything that belongs to it."""
        async with AsyncExitStack() as whatever_fails:
            whatever_fails.push_async_callback(run_in_thread, self.folder.remove)
            whatever_fails.push_async_callback(self.meter.leave)
            whatever_fails.push_async_callback(self.sandbox.reap)
            await self.sandbox.end()


async def start_ready(
    start: SandboxStart, server: ForkServer, *, meter: Meter, folder: RunFolder, level: IsolationLevel, within_s: float
) -> ReadySandbox:
    """Start a sandbox and wait until its agent is ready. It then owns `folder`. On failure no process is left.

    Raises:
        SandboxBroken: The sandbox cannot be started, or its agent is not ready after `within_s` seconds.
    """
    try:
        sandbox = start_process(start)
    except OSError as error:
        raise SandboxBroken(f"the sandbox could not be started: {error}") from error
    try:
        pids = await _enter_agent(sandbox, start, server, within_s)
        await meter.enter(pids)
    except BaseException:
        try:
            await sandbox.end()
        finally:
            await sandbox.reap()
            await meter.leave()
        raise
    return ReadySandbox(sandbox, pids, meter, folder, level)


async def _enter_agent(
    sandbox: SandboxProcess, start: SandboxStart, server: ForkServer, within_s: float
) -> tuple[int, ...]:
    try:
        async with asyncio.timeout(within_s):
            return await sandbox.attach(), await sandbox.enter_agent(server, start.entry)
    except TimeoutError as error:
        server.give_up()  # it may be what hangs; another one starts in milliseconds
        raise SandboxBroken(
            f"the sandbox did not start in {within_s:g} s: the machine is overloaded or hangs"
        ) from error
    except (OSError, ValueError) as error:
        sandbox.kill()
        async with asyncio.timeout(within_s):
            printed = await sandbox.stderr.read(_ERRORS_MAX)
        reason = printed.decode(errors="replace").strip() or f"it ended without an error message ({error!r})"
        raise SandboxBroken(f"the sandbox did not start: {reason}") from error


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """Functions and sources that every sandbox is made from. Tests replace them to weaken a sandbox."""

    build_command: Callable[[SandboxPlan], Sequence[str]] = build_command
    build_entry: Callable[[SandboxPlan], AgentEntry] = build_entry
    sources: Mapping[str, str] = field(default_factory=read_agent_sources)
    """Source text of the agent's modules."""


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """Properties of a sandbox to start."""

    level: IsolationLevel
    limits: Limits
    layer: Path | None = None
    """Packages to show."""
    warm: Warm | None = None
    open_egress: OpenEgress | None = None
    """None without network access."""


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
        self._server: ForkServer | None = None
        self._ended_servers: list[ForkServer] = []
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

    async def start_sandbox(self, wanted: SandboxRequest) -> ReadySandbox:
        """Start a sandbox whose agent waits for a job.

        Raises:
            SandboxBroken: The sandbox did not start.
            SandboxUnavailable: The interpreter of the agent does not start.
        """
        host = self.host
        server = await self._open_server(host)
        async with AsyncExitStack() as undo:
            folder = RunFolder.create(self.user, self._folder)
            undo.push_async_callback(run_in_thread, folder.remove)
            egress = None if wanted.open_egress is None else await wanted.open_egress(folder)
            with _opened_program(host if self.user is not None else None) as (bwrap, libraries):
                plan = SandboxPlan(
                    installation=host,
                    level=wanted.level,
                    limits=wanted.limits,
                    skill_root=folder.skill,
                    given_root=folder.given,
                    descriptors=InheritedDescriptors(bwrap, libraries),
                    user=self.user,
                    layer=wanted.layer,
                    egress=egress,
                    warm=wanted.warm,
                )
                start = SandboxStart(
                    command=partial(_complete_command, self._profile, plan),
                    contents={
                        INIT: self._init,
                        **({NODE_BOOT: self._node_boot} if wanted.warm is Warm.NODE else {}),
                        _SECCOMP: self._filter(network=egress is not None),
                        **({} if egress is None else {RELAY: self._relay}),
                        **ETC,
                    },
                    owner=self.user,
                    environment={} if libraries is None else {"LD_LIBRARY_PATH": f"/proc/self/fd/{libraries}"},
                    entry=self._profile.build_entry(plan),
                )
                meter = self._metering.create_meter()
                ready = await start_ready(
                    start, server, meter=meter, folder=folder, level=wanted.level, within_s=self._start_s
                )
            undo.pop_all()
            return ready

    async def _open_server(self, host: Installation) -> ForkServer:
        async with self._readying:
            if self._server is not None and self._server.is_running():
                return self._server
            if self._server is not None:
                log.warning("fork_server_ended", said=self._server.read_errors())
                self._ended_servers.append(self._server)  # its forks go on, and it reaps them
                self._server = None
            self._folder = find_shared_folder()
            self._init = assemble_first_process(host.architecture)
            plan = ForkPlan(
                command=(*change_user(host, self.user), str(host.get_interpreter(Runtime.PYTHON))),
                environment={**ENVIRONMENT, "PWD": SKILL},
                sources=self._profile.sources,
                filters=(self._filter(network=False), self._filter(network=True)),
                forks=self._forks,
            )
            self._server = await ForkServer.open(plan, self._start_s)
            return self._server

    def close(self) -> None:
        """End the fork servers. No sandbox may be running any more."""
        servers = (*self._ended_servers, self._server)
        self._ended_servers, self._server = [], None
        for server in servers:
            if server is not None:
                server.close()

    def _filter(self, *, network: bool) -> bytes:
        if network not in self._filters:
            self._filters[network] = compile_filter(self.host.architecture, network=network)
        return self._filters[network]


def _complete_command(
    profile: SandboxProfile, plan: SandboxPlan, pipes: SandboxPipes, contents: Mapping[str, int]
) -> tuple[Sequence[str], tuple[int, ...]]:
    descriptors = replace(
        plan.descriptors,
        info=pipes.their_info,
        seccomp=contents[_SECCOMP],
        files={path: descriptor for path, descriptor in contents.items() if path != _SECCOMP},
    )
    return profile.build_command(replace(plan, descriptors=descriptors)), descriptors.list_open()


@contextmanager
def _opened_program(host: Installation | None) -> Iterator[tuple[int | None, int | None]]:
    """Open the wheel's bubblewrap and its library folder, for a user who cannot enter the folders above them."""
    if host is None or host.libraries is None:
        yield None, None
        return
    with ExitStack() as stack:
        opened = []
        for path in (host.bwrap, host.libraries):
            opened.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
            stack.callback(os.close, opened[-1])
        yield opened[0], opened[1]
