"""Carries out what the record of a switch says.

Each step can be done again, and is done from the start by whoever takes over: the collection is made if it is missing,
filled with what it lacks, compared with the record. Nothing but the record tells how far it is.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import SwitchPhase
from skillbus.indexer.domain.errors import IndexerError, SwitchConflictError
from skillbus.indexer.domain.index.backfill import Filling
from skillbus.indexer.domain.index.batches import together
from skillbus.indexer.domain.index.differences import SETTLE_S
from skillbus.indexer.domain.index.ports import Entries, EntryT, FilledCollections
from skillbus.indexer.domain.index.switch_lease import LeaseWatch, SwitchLease
from skillbus.indexer.domain.index.switch_record import (
    StoredSwitch,
    SwitchAnnouncer,
    Switches,
    advanced,
    announce,
    finished,
    hindered,
    owned,
    progressed,
    switched,
)

_PROGRESS_S: Final = 2.0
_PROGRESS_SHARE: Final = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SwitchTiming:
    """All in seconds."""

    keep_s: float = 3600.0
    """How long the old collection is kept and written."""
    lease_s: float = 15.0
    """A replica that has not renewed its lease for so long has lost it."""
    retry_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0)
    """Before each further try when something cannot be had; the last one again and again."""
    settle_s: tuple[float, ...] = SETTLE_S


@dataclass(frozen=True, slots=True)
class SwitchPorts(Generic[EntryT]):
    """What a driver works with."""

    alias: str
    collections: FilledCollections[EntryT]
    entries: Entries[EntryT]
    switches: Switches
    announcer: SwitchAnnouncer
    now: Callable[[], datetime]


class SwitchDriver(Generic[EntryT]):
    """Carries out switches of one alias, if no other replica does."""

    def __init__(
        self, ports: SwitchPorts[EntryT], owner: str, timing: SwitchTiming, on_moved: Callable[[], None]
    ) -> None:
        self._ports = ports
        self._owner = owner
        self._timing = timing
        self._on_moved = on_moved
        self._watch = LeaseWatch(owner, timing.lease_s, ports.now)
        self._woken = asyncio.Event()
        self._driving = False
        self._settled: tuple[str, SwitchPhase] | None = None

    def wake(self) -> None:
        """Look again at once: the record was written."""
        self._woken.set()

    async def rest(self, at_most_s: float) -> None:
        """Wait until there may be something to do."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(at_most_s, 0)):
                await self._woken.wait()
        self._woken.clear()

    async def look(self) -> float:
        """Do what is to be done; tells in how many seconds to look again.

        Raises:
            IndexerError, RequestError: Not now.
        """
        ports = self._ports
        # Before the record, so that a collection that is seen here was recorded, if it is of a switch, before that.
        names, live = await ports.collections.names(), await ports.collections.live()
        stored = await ports.switches.get(ports.alias)
        if stored is not None and stored.record.running:
            if not self._watch.may_take(stored):
                return self._timing.lease_s / 3
            await self._sweep(stored, names, live)
            await self._run(stored)
            return 0.0
        if stored is not None and live is not None:
            live = await self._follow(stored, names, live)
            stored = await self._finish(stored, names)
        await self._sweep(stored, names, live)
        return self._next_look(stored)

    async def release(self) -> None:
        """Let another replica take over at once a switch that was cut short here.

        Raises:
            RequestError: Nobody can be told; the lease runs out by itself.
        """
        if not self._driving:
            return
        stored = await self._ports.switches.get(self._ports.alias)
        if stored is not None and stored.record.owner == self._owner:
            with suppress(SwitchConflictError):
                await self._ports.switches.put(self._ports.alias, owned(stored.record, None), stored.revision)

    async def _run(self, stored: StoredSwitch) -> None:
        lease = SwitchLease(self._ports.switches, self._ports.alias, self._owner, stored)
        self._driving = True
        try:
            await lease.renew()
            log.info("index_switch_driven", target=lease.record.target.collection, phase=lease.switch.phase)
            async with together() as tasks:
                renewing = tasks.create_task(self._keep(lease))
                await self._carry_out(lease)
                renewing.cancel()
        except SwitchConflictError:
            log.info("index_switch_left", target=lease.record.target.collection, phase=lease.switch.phase)
        self._driving = False

    async def _keep(self, lease: SwitchLease) -> None:
        """Renew the lease, also when a step takes long; that it was lost ends the step."""
        while True:
            await self.rest(self._timing.lease_s / 3)
            try:
                await lease.renew()
            except RequestError as error:
                log.warning("lease_not_renewed", reason=str(error))

    async def _carry_out(self, lease: SwitchLease) -> None:
        tries = 0
        while lease.record.running:
            before = lease.switch.done, lease.switch.phase
            try:
                await self._step(lease)
            except SwitchConflictError:
                raise
            except (IndexerError, RequestError) as error:
                moved = (lease.switch.done, lease.switch.phase) != before
                tries = 0 if moved else tries
                await self._hindered(lease, str(error))
                await asyncio.sleep(self._timing.retry_s[min(tries, len(self._timing.retry_s) - 1)])
                tries += 1

    async def _step(self, lease: SwitchLease) -> None:
        """To the next phase."""
        ports, target = self._ports, lease.record.target
        # In every phase: the store may have lost it, and a replica that swept old collections may have taken it.
        await ports.collections.ensure(target)
        report = _Progress(lease, ports.alias, ports.announcer)
        filling = Filling(ports.collections, ports.entries, target.collection, report, self._timing.settle_s)
        match lease.switch.phase:
            case SwitchPhase.BUILDING:
                await lease.update(lambda record: advanced(record, SwitchPhase.BACKFILLING))
            case SwitchPhase.BACKFILLING:
                await filling.backfill()
                await lease.update(lambda record: advanced(record, SwitchPhase.VERIFYING))
            case _:
                await filling.verify()
                await lease.renew()  # whoever lost the lease while it verified must not move the alias
                await ports.collections.point_alias(target.collection)
                await lease.update(lambda record: switched(record, ports.now(), self._timing.keep_s))
                log.info("index_switched", target=target.collection, entries=lease.switch.total)
        await announce(ports.announcer, ports.alias, lease.switch)

    async def _hindered(self, lease: SwitchLease, problem: str) -> None:
        log.warning("index_switch_hindered", phase=lease.switch.phase, reason=problem)
        if lease.switch.problem == problem:
            return
        try:
            await lease.update(lambda record: hindered(record, problem))
        except RequestError as error:
            log.warning("switch_not_recorded", reason=str(error))
            return
        await announce(self._ports.announcer, self._ports.alias, lease.switch)

    async def _follow(self, stored: StoredSwitch, names: frozenset[str], live: str) -> str:
        """Have the alias point where the record says: who wrote the record may have died before it moved the alias."""
        record = stored.record
        belongs = record.searched
        if belongs is not None and belongs != live and belongs in names:
            await self._ports.collections.point_alias(belongs)
            log.warning("alias_followed_the_record", collection=belongs, before=live)
            live = belongs
        if self._settled != (settled := (record.switch.id, record.switch.phase)):
            # A write to this collection may have failed while it was not the searched one: compare it now.
            self._settled = settled
            self._on_moved()
        return live

    async def _finish(self, stored: StoredSwitch, names: frozenset[str]) -> StoredSwitch:
        """End the keeping of the old collection when its time is over, or when it is gone."""
        switch = stored.record.switch
        if switch.phase is not SwitchPhase.KEPT:
            return stored
        gone = switch.source is None or switch.source.collection not in names
        if not gone and switch.kept_until is not None and self._ports.now() < switch.kept_until:
            return stored
        done = await self._ports.switches.put(self._ports.alias, finished(stored.record), stored.revision)
        await announce(self._ports.announcer, self._ports.alias, done.record.switch)
        return done

    async def _sweep(self, stored: StoredSwitch | None, names: frozenset[str], live: str | None) -> None:
        """Remove what nobody needs. Where nothing is searched yet, the first collection is just being made."""
        if live is None:
            return
        needed = stored.record.named(self._ports.now()) if stored else frozenset()
        for collection in sorted(names - needed - {live}):
            await self._ports.collections.delete(collection)
            log.info("collection_removed", collection=collection)

    def _next_look(self, stored: StoredSwitch | None) -> float:
        if stored is None:
            return self._timing.lease_s
        ends = [*stored.record.leaving.values()]
        if (kept_until := stored.record.switch.kept_until) is not None:
            ends.append(kept_until)
        now = self._ports.now()
        coming = [(end - now).total_seconds() for end in ends if end > now]
        return min([self._timing.lease_s, *coming])


class _Progress:
    """Writes down how far a switch is, and says so: at most every 5 % or 2 s."""

    def __init__(self, lease: SwitchLease, alias: str, announcer: SwitchAnnouncer) -> None:
        self._lease = lease
        self._alias = alias
        self._announcer = announcer
        self._at = time.monotonic()

    async def __call__(self, done: int, total: int) -> None:
        known, now = self._lease.switch, time.monotonic()
        share = abs(done - known.done) / max(total, 1)
        news = total != known.total or known.problem is not None or share >= _PROGRESS_SHARE
        if not news and (done == known.done or now - self._at < _PROGRESS_S):
            return
        self._at = now
        await self._lease.update(lambda record: progressed(record, done, total))
        await announce(self._announcer, self._alias, self._lease.switch)
