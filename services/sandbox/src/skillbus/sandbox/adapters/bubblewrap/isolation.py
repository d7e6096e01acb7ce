"""Isolation by bubblewrap, a system call filter, resource limits inside the sandbox and metering outside."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from contextvars import Context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.adapters.bubblewrap.pool import ProjectPools, WarmPool
from skillbus.sandbox.adapters.bubblewrap.probe import LevelProbe
from skillbus.sandbox.adapters.bubblewrap.process import SandboxProcess
from skillbus.sandbox.adapters.bubblewrap.profile import Warm
from skillbus.sandbox.adapters.bubblewrap.run_folder import RunFolder
from skillbus.sandbox.adapters.bubblewrap.starter import ReadySandbox, SandboxProfile, SandboxStarter
from skillbus.sandbox.adapters.egress.proxy import open_egress
from skillbus.sandbox.adapters.kernel.watchdog import Watchdog, list_process_tree
from skillbus.sandbox.adapters.supervision.admission import CachedProbe, check_run
from skillbus.sandbox.adapters.supervision.follower import RunFollower
from skillbus.sandbox.adapters.supervision.protocol import (
    NODE_STDIN_MAX,
    AgentReport,
    ProtocolError,
    encode_job,
    read_report,
)
from skillbus.sandbox.adapters.supervision.tool_channel import open_tool_channel
from skillbus.sandbox.domain.egress_policy import EgressPolicy, HostPort
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.isolation import IsolationReport, Metering
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import ISOLATING, IsolationLevel, RunControl, RunOutcome, RunSpec
from skillbus.sandbox.domain.run.tool_calls import ToolAccess

USER: Final = 64001
"""User id of the runs of every root service. It should belong to no account."""
FORKS: Final = 32
"""Runs that share one interpreter and its address layout. Starting one costs as much CPU time as a script."""
_DELAY_S: Final = 0.005
"""Pause before a cleanup, so that the reply goes out first unless the machine is busy."""
_PENDING_MAX: Final = 32
"""Cleanups that may be pending before the next run has to wait."""

log = structlog.get_logger(__name__)


class BubblewrapIsolation:
    """`Isolation` on this machine.

    When a run has returned and its `ends` are closed, none of its processes is left. Its folder and its meter are
    released in the background: see `wait_until_clean`.
    """

    def __init__(  # noqa: PLR0913 - all by keyword, all with a default
        self,
        *,
        installation: Installation | None = None,
        user: int = USER,
        start_s: float = 10.0,
        profile: SandboxProfile | None = None,
        levels: Sequence[IsolationLevel] = ISOLATING,
        refused_for_s: float = 10.0,
        warm: int = 0,
        metering: Metering | None = None,
        egress: EgressPolicy | None = None,
        forks: int = FORKS,
    ) -> None:
        """Create it; nothing starts before the first probe, which is repeated after `refused_for_s` if it fails.

        If absent, `installation` is looked up, and `metering` is by a watchdog. `user` is the user id of the runs when
        the service is root; otherwise they have the service's own. Tests replace `profile` to weaken a sandbox.
        `levels` are tried in their order. `warm` sandboxes wait for runs from the first successful probe on. At most
        `forks` runs share one interpreter and its address layout.
        """
        if not levels or not set(levels) <= set(ISOLATING):
            raise ValueError(
                f"bubblewrap isolates at the levels {', '.join(ISOLATING)}, not at {', '.join(levels) or 'none at all'}"
            )
        metering = metering or Watchdog()
        run_user = user if os.geteuid() == 0 else None
        self._egress = egress
        self._starter = SandboxStarter(
            installation=installation,
            profile=profile or SandboxProfile(),
            metering=metering,
            user=run_user,
            start_s=start_s,
            forks=forks,
        )
        probe = LevelProbe(levels, run_user, metering, partial(self._run, control=RunControl()))
        self._probe = CachedProbe(lambda: probe.find_level(self._starter.host), refused_for_s)
        self._cleanup = RunCleanup()
        self._pools = ProjectPools(self._start_warm, warm, self._starter.retire_server, self._cleanup.schedule)

    async def probe(self) -> IsolationReport:
        report = await self._probe.get_report()
        self._pools.open_first(DEFAULT_PROJECT)
        return report

    @property
    def waiting(self) -> int:
        """Number of warm sandboxes that are ready."""
        return sum(map(len, self._pools.list_pools()))

    @property
    def missing(self) -> int:
        """Number of warm sandboxes that still have to start."""
        return sum(pool.missing for pool in self._pools.list_pools())

    @property
    def waiting_pids(self) -> frozenset[int]:
        """Processes of the warm sandboxes, in the host's numbering."""
        return frozenset(list_process_tree(pid for pool in self._pools.list_pools() for pid in pool.pids))

    async def wait_until_clean(self) -> None:
        """Wait until everything of the runs that have returned is cleaned up."""
        await self._cleanup.wait_until_done()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as ends:  # each of them, also if another one fails
            ends.callback(self._starter.close)
            ends.push_async_callback(self._pools.close)
            await self.wait_until_clean()

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        report = await self.probe()
        check_run(spec)
        return await self._run(spec, report.level, control or RunControl())

    async def _run(self, spec: RunSpec, level: IsolationLevel, control: RunControl) -> RunOutcome:
        if spec.network:
            sockets = min(spec.limits.sockets, spec.limits.network_sockets)
            spec = replace(spec, limits=replace(spec.limits, sockets=sockets))
        interpreter = str(self._starter.host.get_interpreter(spec.runtime))
        job = encode_job(spec, interpreter, channel=control.tools is not None)
        await self._cleanup.wait_for_room()
        behind = AsyncExitStack()
        # A waiting Node has started, and cannot get a tool channel any more.
        runtime = Runtime.PYTHON if control.tools is not None else spec.runtime
        pool = self._pools.begin_run(spec.project, runtime)
        behind.callback(self._pools.end_run, pool)
        try:
            async with AsyncExitStack() as egress:
                ready = await self._get_sandbox(pool, spec, level, egress)
                behind.push_async_callback(ready.end)
                async with AsyncExitStack() as ends:
                    (control.ends or ends).push_async_callback(ready.sandbox.end)
                    await ready.folder.fill(spec.skill_root, spec.files)
                    report, meter = AgentReport(), ready.meter
                    follower = RunFollower(ready.sandbox, spec.limits, meter, control)
                    meter.limit(spec.limits)
                    await follower.follow_run(_talk(ready.sandbox, job, spec, report, follower, control.tools))
                    return follower.make_outcome(report, ready.level)
        finally:
            self._cleanup.schedule(behind.aclose)

    async def _get_sandbox(
        self, pool: WarmPool, spec: RunSpec, level: IsolationLevel, egress: AsyncExitStack
    ) -> ReadySandbox:
        """Return a warm sandbox if one fits the run, else start one. During the probe there are no warm ones."""
        fits = spec.limits.sizes == Limits().sizes and spec.layer is None and not spec.network
        fits = fits and self._probe.report is not None
        if fits and not (spec.runtime is Runtime.NODE and len(spec.stdin) > NODE_STDIN_MAX):
            pool.open()
            if ready := await pool.take_sandbox():
                return ready
        opening = partial(self._open_egress, spec.network, egress) if spec.network else None
        return await self._starter.start_sandbox(
            level, spec.limits, spec.project, layer=spec.layer, open_egress=opening
        )

    async def _start_warm(self, project: str, warm: Warm) -> ReadySandbox:
        return await self._starter.start_sandbox((await self.probe()).level, Limits(), project, warm=warm)

    async def _open_egress(self, network: tuple[HostPort, ...], stack: AsyncExitStack, folder: RunFolder) -> Path:
        """Open the egress proxy of a run, until the run is over, and return its socket."""
        opened = open_egress(frozenset(network), self._egress, folder=folder.path, owner=self._starter.user)
        try:
            return await stack.enter_async_context(opened)
        except OSError as error:
            raise SandboxBroken(f"the run's egress proxy could not be opened: {error}") from error


async def _talk(
    sandbox: SandboxProcess,
    job: bytes,
    spec: RunSpec,
    report: AgentReport,
    follower: RunFollower,
    tools: ToolAccess | None,
) -> None:
    def break_off(error: ProtocolError) -> None:
        follower.end_run(RunStatus.KILLED, f"the sandbox broke its protocol: {error}")

    try:
        async with open_tool_channel(tools, break_off) as channel:
            await sandbox.send_job(job, spec.stdin, channel)
            await read_report(sandbox.control, spec.limits, report)
            if report.complete:
                sandbox.finish()
    except ConnectionError:
        return  # the sandbox is gone: what it has reported is all there is
    except ProtocolError as error:
        break_off(error)


class RunCleanup:
    """Background tasks that clean up after runs."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def schedule(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` soon, also if the calling task is cancelled."""
        task = asyncio.create_task(_run_later(work), name="sandbox-cleanup", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_room(self) -> None:
        """Wait while too many cleanups are pending."""
        while len(self._tasks) >= _PENDING_MAX:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def wait_until_done(self) -> None:
        """Wait until no cleanup is pending."""
        while self._tasks:
            await asyncio.wait(self._tasks)


async def _run_later(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await asyncio.sleep(_DELAY_S)
    finally:  # also when the loop is being closed
        try:
            await work()
        except Exception:  # no caller waits for the result: the log is the only place to report it
            log.exception("sandbox_cleanup_failed")
