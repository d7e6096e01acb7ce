"""How sandboxes are started: each from its plan, with a folder, a user and a filter of system calls."""

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
from skillbus.sandbox.adapters.bubblewrap.few_mounts import FewMounts, FewMountsError
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkPlan, ForkServer
from skillbus.sandbox.adapters.bubblewrap.installation import Installation, find_installation
from skillbus.sandbox.adapters.bubblewrap.prepared import Prepared, prepare
from skillbus.sandbox.adapters.bubblewrap.process import Ends, Start
from skillbus.sandbox.adapters.bubblewrap.profile import (
    ENVIRONMENT,
    ETC,
    INIT,
    NODE_BOOT,
    RELAY,
    SKILL,
    Descriptors,
    Entry,
    Plan,
    Warm,
    command_line,
    entry_of,
)
from skillbus.sandbox.adapters.bubblewrap.slots import Slot
from skillbus.sandbox.adapters.host_folders import find_shared_folder
from skillbus.sandbox.adapters.inside import read_agent_sources, read_program
from skillbus.sandbox.adapters.kernel.first_process import first_process
from skillbus.sandbox.adapters.kernel.seccomp import compile_filter
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.metering import Metering
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import Level

WayOut = Callable[[Slot, int | None], Awaitable[Path]]

_SECCOMP: Final = "seccomp"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Profile:
    """What every sandbox is made by."""

    command_line: Callable[[Plan], Sequence[str]] = command_line
    """Makes it."""
    entry_of: Callable[[Plan], Entry] = entry_of
    """How its agent enters it."""
    sources: Mapping[str, str] = field(default_factory=read_agent_sources)
    """Of the agent."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sandbox is to be like."""

    level: Level
    limits: Limits
    layer: Path | None = None
    """Packages that it shows."""
    warm: Warm | None = None
    way_out: WayOut | None = None
    """Makes its way to the network."""


class Starter:
    """Starts sandboxes on this machine; when the service is root at most `len(uids)` at a time, more wait."""

    def __init__(
        self,
        *,
        installation: Installation | None,
        profile: Profile,
        metering: Metering,
        uids: range,
        start_s: float,
        forks: int,
    ) -> None:
        self._installation = installation
        self._profile = profile
        self._metering = metering
        self._start_s = start_s
        self._forks = forks
        self._free: asyncio.LifoQueue[int] | None = None
        if os.geteuid() == 0:
            self._free = asyncio.LifoQueue()
            for uid in reversed(uids):
                self._free.put_nowait(uid)
        self._server: ForkServer | None = None
        self._former: list[ForkServer] = []
        self._init = b""
        self._folder: Path | None = None
        self._mounts: FewMounts | None = None
        self._readying = asyncio.Lock()
        self._filters: dict[bool, bytes] = {}
        """By whether they open the network."""
        self._relay = read_program("relay.py").encode()
        self._node_boot = read_program("node_boot.cjs").encode()

    @property
    def host(self) -> Installation:
        """What the machine has. Raises SandboxUnavailable when that is not enough."""
        if self._installation is None:
            self._installation = find_installation()
        return self._installation

    async def start(self, wanted: Wanted) -> Prepared:
        """One that waits for its job.

        Raises:
            SandboxBroken: It did not start.
            SandboxUnavailable: The interpreter of its agent does not.
        """
        host = self.host
        server = await self._get_ready(host)
        async with AsyncExitStack() as undo:
            uid = None if self._free is None else await self._free.get()
            undo.callback(give_back := partial(self._give_back, uid))
            slot = Slot.make(uid, self._folder)
            undo.push_async_callback(run_in_thread, slot.remove)
            egress = None if wanted.way_out is None else await wanted.way_out(slot, uid)
            with _opened(host if uid is not None else None) as (bwrap, libraries):
                plan = Plan(
                    installation=host,
                    level=wanted.level,
                    limits=wanted.limits,
                    skill_root=slot.skill,
                    given_root=slot.given,
                    descriptors=Descriptors(bwrap, libraries),
                    uid=uid,
                    mounts=self._mounts_for(wanted),
                    layer=wanted.layer,
                    egress=egress,
                    warm=wanted.warm,
                )
                library_path = {} if libraries is None else {"LD_LIBRARY_PATH": f"/proc/self/fd/{libraries}"}
                command = partial(_command, self._profile, plan)
                entry = self._profile.entry_of(plan)
                begun = Start(command, self._contents(egress, wanted.warm), uid, library_path, entry)
                ready = await prepare(
                    begun,
                    server,
                    meter=self._metering.meter(),
                    slot=slot,
                    level=wanted.level,
                    start_s=self._start_s,
                    give_back=give_back,
                )
            undo.pop_all()
            return ready

    async def _get_ready(self, host: Installation) -> ForkServer:
        async with self._readying:
            if self._server is not None and self._server.is_running():
                return self._server
            if self._server is not None:
                log.warning("fork_server_ended", said=self._server.words())
                self._former.append(self._server)  # what it forked goes on, and is buried by it
                self._server = None
            self._folder = folder = find_shared_folder()
            if self._free is not None and self._mounts is None:
                try:
                    self._mounts = await run_in_thread(partial(FewMounts.open, host, folder))
                except FewMountsError as error:
                    log.info("sandboxes_start_among_all_mounts", reason=str(error))
            self._init = first_process(host.architecture)
            plan = ForkPlan(
                path=host.interpreter(Runtime.PYTHON),
                environment={**ENVIRONMENT, "PWD": SKILL},
                sources=self._profile.sources,
                filters=(self._filter(network=False), self._filter(network=True)),
                forks=self._forks,
            )
            self._server = await ForkServer.open(plan, self._start_s)
            return self._server

    def _mounts_for(self, wanted: Wanted) -> str | None:
        """Where it begins; packages may lie on a mount that is not there."""
        return None if self._mounts is None or wanted.layer is not None else self._mounts.path

    def close(self) -> None:
        """Nothing is started any more, and nothing that was is left."""
        servers = (*self._former, self._server)
        self._former, self._server = [], None
        for server in servers:
            if server is not None:
                server.close()
        if self._mounts is not None:
            self._mounts.close()
            self._mounts = None

    def _give_back(self, uid: int | None) -> None:
        if self._free is not None and uid is not None:
            self._free.put_nowait(uid)

    def _contents(self, egress: Path | None, warm: Warm | None) -> Mapping[str, bytes]:
        return {
            INIT: self._init,
            **({NODE_BOOT: self._node_boot} if warm is Warm.NODE else {}),
            _SECCOMP: self._filter(network=egress is not None),
            **({} if egress is None else {RELAY: self._relay}),
            **ETC,
        }

    def _filter(self, *, network: bool) -> bytes:
        if network not in self._filters:
            self._filters[network] = compile_filter(self.host.architecture, network=network)
        return self._filters[network]


def _command(
    profile: Profile, plan: Plan, ends: Ends, contents: Mapping[str, int]
) -> tuple[Sequence[str], tuple[int, ...]]:
    descriptors = replace(
        plan.descriptors,
        info=ends.their_info,
        seccomp=contents[_SECCOMP],
        files={path: descriptor for path, descriptor in contents.items() if path != _SECCOMP},
    )
    return profile.command_line(replace(plan, descriptors=descriptors)), descriptors.inherited()


@contextmanager
def _opened(host: Installation | None) -> Iterator[tuple[int | None, int | None]]:
    """The wheel's program and its library's folder, opened for a user who may not be able to walk to them."""
    if host is None or host.libraries is None:
        yield None, None
        return
    with ExitStack() as stack:
        opened = []
        for path in (host.bwrap, host.libraries):
            opened.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
            stack.callback(os.close, opened[-1])
        yield opened[0], opened[1]
