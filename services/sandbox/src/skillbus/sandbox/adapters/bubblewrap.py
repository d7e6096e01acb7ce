"""Isolation by bubblewrap, a system call filter, rlimits inside and a watchdog outside."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final, Self

import structlog

from skillbus.contracts.indexer import Runtime
from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.adapters.agent_code import compile_agent
from skillbus.sandbox.adapters.conversation import STDIN_MAX, encode_job
from skillbus.sandbox.adapters.egress import open_egress
from skillbus.sandbox.adapters.installation import Installation, find_installation
from skillbus.sandbox.adapters.pool import WarmPool
from skillbus.sandbox.adapters.prepared import Prepared, prepare
from skillbus.sandbox.adapters.process import Ends, Start
from skillbus.sandbox.adapters.profile import (
    ENVIRONMENT,
    ETC,
    NODE_BOOT,
    RELAY,
    Descriptors,
    Plan,
    Warm,
    command_line,
)
from skillbus.sandbox.adapters.scripts import check_script
from skillbus.sandbox.adapters.seccomp import compile_filter
from skillbus.sandbox.adapters.slots import Slot, in_thread, is_open_to_all, sweep
from skillbus.sandbox.adapters.supervision import supervise
from skillbus.sandbox.adapters.watchdog import Watchdog
from skillbus.sandbox.domain.errors import SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.metering import Metering
from skillbus.sandbox.domain.network import EgressPolicy, HostPort
from skillbus.sandbox.domain.run import ISOLATING, Level, RunControl, RunOutcome, RunSpec, check_names

Profile = Callable[[Plan], Sequence[str]]
WayOut = Callable[[Slot, int | None], Awaitable[Path | None]]

UIDS: Final = range(64001, 64065)
"""Users of the runs when the service is root: one each, so that no two runs share a user."""
_PROBE_LIMITS: Final = Limits(wall_s=30.0)
_ATTEMPTS: Final = 2
"""Of each level. A machine that starts all its services at once can fail one that holds a second later."""
_SECCOMP: Final = "seccomp"
_NODE_IDLE_S: Final = 300.0
"""A Node that waits holds four times the memory of a Python: it is there while Node is used."""
_ADVICE: Final = (
    "Nothing is run without isolation. On a host, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "and on Ubuntu an AppArmor profile with `userns,`); in a container, give it its seccomp and AppArmor options."
)

log = structlog.get_logger(__name__)


class BubblewrapIsolation:
    """`Isolation` on this machine. At most `len(uids)` runs at a time when the service is root; more wait."""

    def __init__(  # noqa: PLR0913 - each by its name, and each has a default
        self,
        *,
        installation: Installation | None = None,
        uids: range = UIDS,
        start_s: float = 10.0,
        profile: Profile = command_line,
        levels: Sequence[Level] = ISOLATING,
        refused_for_s: float = 10.0,
        warm: int = 0,
        metering: Metering | None = None,
        egress: EgressPolicy | None = None,
    ) -> None:
        """`warm` sandboxes wait for runs, from the first probe that holds until it is closed.

        `egress` bounds what runs with a network may move, and where to.
        """
        self._installation = installation
        self._start_s = start_s
        self._profile = profile
        self._levels = levels
        self._metering = metering or Watchdog()
        self._egress = egress
        self._users = frozenset((*uids, os.geteuid()))
        """Whose runs these are."""
        self._uids: asyncio.LifoQueue[int] | None = None
        if os.geteuid() == 0:
            self._uids = asyncio.LifoQueue()
            for uid in reversed(uids):
                self._uids.put_nowait(uid)
        self._agent: Mapping[str, bytes] = {}
        self._filters: dict[bool, bytes] = {}
        """By whether they open the network."""
        self._relay = files(__package__).joinpath("relay.py").read_bytes()
        self._node_boot = files(__package__).joinpath("node_boot.cjs").read_bytes()
        self._probing = asyncio.Lock()
        self._found: IsolationReport | None = None
        self._refused: SandboxUnavailable | None = None
        self._refused_for_s = refused_for_s
        self._refused_until = 0.0
        usual = WarmPool(partial(self._prepare_warm, Warm.USUAL), warm)
        node = WarmPool(partial(self._prepare_warm, Warm.NODE), min(warm, 1), _NODE_IDLE_S)
        self._pools = {Runtime.PYTHON: usual, Runtime.BASH: usual, Runtime.NODE: node}

    async def probe(self) -> IsolationReport:
        """See `Isolation.probe`. A level that was found stands while the service runs; a refusal for ten seconds."""
        async with self._probing:
            if self._found is None:
                if self._refused is not None and time.monotonic() < self._refused_until:
                    raise self._refused.with_traceback(None)
                self._found = await self._look()
        self._pools[Runtime.PYTHON].open()
        return self._found

    async def _look(self) -> IsolationReport:
        try:
            found = await self._find_level()
        except SandboxUnavailable as unavailable:
            log.error("sandbox_unavailable", reason=str(unavailable))  # noqa: TRY400 - the reason is whole without it
            self._refused, self._refused_until = unavailable, time.monotonic() + self._refused_for_s
            raise
        log.info("sandbox_ready", isolation=found.level, engine=found.engine, notes=found.notes)
        return found

    @property
    def waiting(self) -> int:
        """Sandboxes that have started and wait for a run."""
        return sum(map(len, set(self._pools.values())))

    @property
    def waiting_pids(self) -> frozenset[int]:
        """Their processes, in the host's numbering."""
        return frozenset(pid for pool in self._pools.values() for pid in pool.pids)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for pool in set(self._pools.values()):
            await pool.close()

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        """See `Isolation.run`."""
        report = await self.probe()
        check_names(spec)
        check_script(spec)
        return await self._run(spec, report.level, control or RunControl())

    def _host(self) -> Installation:
        if self._installation is None:
            self._installation = find_installation()
        return self._installation

    async def _find_level(self) -> IsolationReport:
        host = self._host()
        if self._uids is not None and host.setpriv is None:
            raise SandboxUnavailable(
                "setpriv is missing: install util-linux, or run the service as a user other than root"
            )
        if self._uids is not None and host.python_prefix is not None and not is_open_to_all(host.python_prefix):
            raise SandboxUnavailable(
                f"the only Python is in {host.python_prefix}, where the users of the runs cannot go: install Debian's "
                "package python3, or run the service as a user other than root"
            )
        await in_thread(partial(sweep, self._users))
        held = self._metering.prepare()
        version = await in_thread(partial(_version, host))
        reasons: dict[str, list[Level]] = {}
        for level in self._levels:
            reason = await self._try_again(level)
            if reason is None:
                return IsolationReport(level, version, host.runtimes, (*host.notes, held, *_said(reasons)))
            reasons.setdefault(reason, []).append(level)
        raise SandboxUnavailable("; ".join((f"this machine cannot isolate ({version})", *_said(reasons), _ADVICE)))

    async def _try_again(self, level: Level) -> str | None:
        """Why `level` did not hold in any of a few attempts; None when it held in one."""
        reason = None
        for attempt in range(1, _ATTEMPTS + 1):
            reason = await self._try(level)
            if reason is None:
                return None
            log.warning("sandbox_level_failed", level=level, attempt=attempt, reason=reason)
        return reason

    async def _try(self, level: Level) -> str | None:
        """Why `level` does not hold here, found by running the self-check in it; None when it does."""
        with tempfile.TemporaryDirectory(prefix="skillbus-probe-") as folder:
            root = Path(folder)
            root.chmod(0o755)
            root.joinpath("check.py").write_bytes(files(__package__).joinpath("self_check.py").read_bytes())
            known = ",".join((*ENVIRONMENT, "PWD", "LC_CTYPE"))
            try:
                outcome = await self._run(
                    RunSpec(root, "check.py", Runtime.PYTHON, (known,), limits=_PROBE_LIMITS), level, RunControl()
                )
            except SandboxBroken as broken:
                return str(broken)
        if outcome.status is RunStatus.OK and outcome.stdout == b"isolated\n":
            return None
        return f"{outcome.status}: {outcome.detail} {outcome.stderr.decode(errors='replace').strip()}"

    async def _run(self, spec: RunSpec, level: Level, control: RunControl) -> RunOutcome:
        if spec.network:
            sockets = min(spec.limits.sockets, spec.limits.network_sockets)
            spec = replace(spec, limits=replace(spec.limits, sockets=sockets))
        job = encode_job(spec, str(self._host().interpreter(spec.runtime)))
        pool = self._pools[spec.runtime]
        pool.run_begins()
        try:
            async with AsyncExitStack() as ways_out:
                ready = await self._prepared(spec, level, ways_out)
                try:
                    await ready.slot.fill(spec.skill_root, spec.files)
                except BaseException:
                    await ready.end()
                    raise
                return await supervise(ready, job, spec, control)
        finally:
            pool.run_ended()

    async def _prepared(self, spec: RunSpec, level: Level, ways_out: AsyncExitStack) -> Prepared:
        """One that waits, if it is as this run wants it; none does before a level was found."""
        usual = spec.limits.sizes == Limits().sizes and spec.layer is None and not spec.network
        usual = usual and self._found is not None
        if usual and not (spec.runtime is Runtime.NODE and len(spec.stdin) > STDIN_MAX):
            pool = self._pools[spec.runtime]
            pool.open()
            if ready := await pool.take():
                return ready
        return await self._prepare(level, spec.limits, spec.layer, None, partial(self._way_out, spec.network, ways_out))

    async def _prepare_warm(self, warm: Warm) -> Prepared:
        return await self._prepare((await self.probe()).level, Limits(), None, warm)

    async def _prepare(
        self, level: Level, limits: Limits, layer: Path | None, warm: Warm | None, way_out: WayOut | None = None
    ) -> Prepared:
        host = self._host()
        if not self._agent:
            self._agent = await in_thread(partial(compile_agent, host.interpreter(Runtime.PYTHON)))
        async with AsyncExitStack() as undo:
            uid = None if self._uids is None else await self._uids.get()
            undo.callback(give_back := partial(self._give_back, uid))
            slot = Slot.make(uid)
            undo.push_async_callback(slot.remove)
            egress = None if way_out is None else await way_out(slot, uid)
            with _opened(host if uid is not None else None) as (bwrap, libraries):
                plan = Plan(
                    installation=host,
                    level=level,
                    limits=limits,
                    skill_root=slot.skill,
                    given_root=slot.given,
                    descriptors=Descriptors(bwrap, libraries),
                    uid=uid,
                    layer=layer,
                    egress=egress,
                    warm=warm,
                )
                library_path = {} if libraries is None else {"LD_LIBRARY_PATH": f"/proc/self/fd/{libraries}"}
                command = partial(_command, self._profile, plan)
                begun = Start(command, self._contents(egress), uid, library_path)
                ready = await prepare(begun, self._metering.meter(), slot, level, self._start_s, give_back)
            undo.pop_all()
            return ready

    async def _way_out(
        self, network: tuple[HostPort, ...], ways_out: AsyncExitStack, slot: Slot, uid: int | None
    ) -> Path | None:
        """The socket of a run's proxy, until the run is over; None for a run without a network."""
        if not network:
            return None
        opened = open_egress(frozenset(network), self._egress, folder=slot.skill.parent, owner=uid)
        try:
            return await ways_out.enter_async_context(opened)
        except OSError as error:
            raise SandboxBroken(f"the run's way to the network could not be made: {error}") from error

    def _give_back(self, uid: int | None) -> None:
        if self._uids is not None and uid is not None:
            self._uids.put_nowait(uid)

    def _filter(self, *, network: bool) -> bytes:
        if network not in self._filters:
            self._filters[network] = compile_filter(self._host().architecture, network=network)
        return self._filters[network]

    def _contents(self, egress: Path | None) -> Mapping[str, bytes]:
        return {
            **self._agent,
            NODE_BOOT: self._node_boot,
            _SECCOMP: self._filter(network=egress is not None),
            **({} if egress is None else {RELAY: self._relay}),
            **ETC,
        }


def _command(
    profile: Profile, plan: Plan, ends: Ends, contents: Mapping[str, int]
) -> tuple[Sequence[str], tuple[int, ...]]:
    descriptors = replace(
        plan.descriptors,
        control=ends.their_control,
        info=ends.their_info,
        seccomp=contents[_SECCOMP],
        files={path: descriptor for path, descriptor in contents.items() if path != _SECCOMP},
    )
    return profile(replace(plan, descriptors=descriptors)), descriptors.inherited()


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


def _said(reasons: Mapping[str, Sequence[Level]]) -> Iterator[str]:
    """Each reason once, with the levels that it keeps from holding."""
    for reason, levels in reasons.items():
        yield f"{', '.join(f'level {level}' for level in levels)}: does not hold here: {reason}"


def _version(host: Installation) -> str:
    done = subprocess.run([host.bwrap, "--version"], capture_output=True, text=True, check=False, timeout=10)
    return f"{host.bwrap}: {(done.stdout or done.stderr).strip()}"
