"""Isolation by bubblewrap, a system call filter, rlimits inside and a watchdog outside."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.cleanup import Clearing
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.adapters.bubblewrap.pool import WarmPool
from skillbus.sandbox.adapters.bubblewrap.prepared import Prepared
from skillbus.sandbox.adapters.bubblewrap.probe import Probe
from skillbus.sandbox.adapters.bubblewrap.profile import Warm
from skillbus.sandbox.adapters.bubblewrap.slots import Slot
from skillbus.sandbox.adapters.bubblewrap.starter import Profile, Starter, Wanted
from skillbus.sandbox.adapters.bubblewrap.supervision import supervise
from skillbus.sandbox.adapters.egress.proxy import open_egress
from skillbus.sandbox.adapters.kernel.watchdog import Watchdog, process_tree
from skillbus.sandbox.adapters.supervision.admission import CachedProbe, check_run
from skillbus.sandbox.adapters.supervision.protocol import STDIN_MAX, encode_job
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.metering import Metering
from skillbus.sandbox.domain.network import EgressPolicy, HostPort
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import ISOLATING, Level, RunControl, RunOutcome, RunSpec

UIDS: Final = range(64001, 64065)
"""Users of the runs when the service is root: one each, so that no two runs share a user."""
FORKS: Final = 32
"""Runs that share an interpreter's address layout; its start takes as much as a script's, of which this is a part."""
_NODE_IDLE_S: Final = 300.0
"""A Node that waits holds four times the memory of a Python: it is there while Node is used."""


class BubblewrapIsolation:
    """`Isolation` on this machine. At most `len(uids)` runs at a time when the service is root; more wait.

    When a run has returned, and its `ends` are closed, none of its processes is left. What started them, its folder
    and its user are cleared away right behind it: see `settled`.
    """

    def __init__(  # noqa: PLR0913 - each by its name, and each has a default
        self,
        *,
        installation: Installation | None = None,
        uids: range = UIDS,
        start_s: float = 10.0,
        profile: Profile | None = None,
        levels: Sequence[Level] = ISOLATING,
        refused_for_s: float = 10.0,
        warm: int = 0,
        metering: Metering | None = None,
        egress: EgressPolicy | None = None,
        forks: int = FORKS,
    ) -> None:
        """`warm` sandboxes wait for runs, from the first probe that holds until it is closed.

        `egress` bounds what runs with a network may move, and where to. `forks` is how many runs at most have forks of
        the same interpreter, and with it its address layout.

        Raises:
            ValueError: `levels` names none, or one that bubblewrap does not make.
        """
        if not levels or not set(levels) <= set(ISOLATING):
            raise ValueError(
                f"bubblewrap isolates at the levels {', '.join(ISOLATING)}, not at {', '.join(levels) or 'none at all'}"
            )
        metering = metering or Watchdog()
        self._egress = egress
        self._starter = Starter(
            installation=installation,
            profile=profile or Profile(),
            metering=metering,
            uids=uids,
            start_s=start_s,
            forks=forks,
        )
        probe = Probe(levels, uids if os.geteuid() == 0 else None, metering, partial(self._run, control=RunControl()))
        self._probe = CachedProbe(lambda: probe.find_level(self._starter.host), refused_for_s)
        usual = WarmPool(partial(self._start_warm, Warm.USUAL), warm)
        node = WarmPool(partial(self._start_warm, Warm.NODE), min(warm, 1), _NODE_IDLE_S)
        self._pools = {Runtime.PYTHON: usual, Runtime.BASH: usual, Runtime.NODE: node}
        self._clearing = Clearing()

    async def probe(self) -> IsolationReport:
        """See `Isolation.probe`."""
        report = await self._probe.get()
        self._pools[Runtime.PYTHON].open()
        return report

    @property
    def waiting(self) -> int:
        """Sandboxes that have started and wait for a run."""
        return sum(map(len, set(self._pools.values())))

    @property
    def lacking(self) -> int:
        """Those that have not, and are to."""
        return sum(pool.lacks for pool in set(self._pools.values()))

    @property
    def waiting_pids(self) -> frozenset[int]:
        """Their processes, in the host's numbering."""
        return frozenset(process_tree(pid for pool in self._pools.values() for pid in pool.pids))

    async def settled(self) -> None:
        """Wait until everything of the runs that have returned is cleared away."""
        await self._clearing.settled()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.settled()
        for pool in set(self._pools.values()):
            await pool.close()
        self._starter.close()

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        """See `Isolation.run`."""
        report = await self.probe()
        check_run(spec)
        return await self._run(spec, report.level, control or RunControl())

    async def _run(self, spec: RunSpec, level: Level, control: RunControl) -> RunOutcome:
        if spec.network:
            sockets = min(spec.limits.sockets, spec.limits.network_sockets)
            spec = replace(spec, limits=replace(spec.limits, sockets=sockets))
        job = encode_job(spec, str(self._starter.host.interpreter(spec.runtime)))
        await self._clearing.keep_up()
        behind = AsyncExitStack()
        pool = self._pools[spec.runtime]
        pool.run_begins()
        behind.callback(pool.run_ended)
        try:
            async with AsyncExitStack() as ways_out:
                ready = await self._prepared(spec, level, ways_out)
                behind.push_async_callback(ready.end)
                async with AsyncExitStack() as ends:
                    (control.ends or ends).push_async_callback(ready.sandbox.end)
                    await ready.slot.fill(spec.skill_root, spec.files)
                    return await supervise(ready, job, spec, control)
        finally:
            self._clearing.later(behind.aclose)

    async def _prepared(self, spec: RunSpec, level: Level, ways_out: AsyncExitStack) -> Prepared:
        """One that waits, if it is as this run wants it; none does before a level was found."""
        usual = spec.limits.sizes == Limits().sizes and spec.layer is None and not spec.network
        usual = usual and self._probe.report is not None
        if usual and not (spec.runtime is Runtime.NODE and len(spec.stdin) > STDIN_MAX):
            pool = self._pools[spec.runtime]
            pool.open()
            if ready := await pool.take():
                return ready
        way_out = partial(self._way_out, spec.network, ways_out) if spec.network else None
        return await self._starter.start(Wanted(level, spec.limits, spec.layer, way_out=way_out))

    async def _start_warm(self, warm: Warm) -> Prepared:
        return await self._starter.start(Wanted((await self.probe()).level, Limits(), warm=warm))

    async def _way_out(
        self, network: tuple[HostPort, ...], ways_out: AsyncExitStack, slot: Slot, uid: int | None
    ) -> Path:
        """The socket of a run's proxy, until the run is over."""
        opened = open_egress(frozenset(network), self._egress, folder=slot.skill.parent, owner=uid)
        try:
            return await ways_out.enter_async_context(opened)
        except OSError as error:
            raise SandboxBroken(f"the run's way to the network could not be made: {error}") from error
