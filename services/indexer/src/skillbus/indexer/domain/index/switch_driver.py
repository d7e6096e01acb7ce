"""Driver of an index switch: carries out what its record says.

Every step can be repeated, and a replica that takes over repeats the current one: it creates the collection if it is
missing, writes the entries that it lacks, and compares it with the record. Only the record holds the progress.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Final, Generic

import structlog

from skillbus.common.background import FailureLog, finish_within
from skillbus.common.records import WriteConflictError
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import SwitchPhase
from skillbus.indexer.domain.errors import IndexerError
from skillbus.indexer.domain.index.batches import open_task_group
from skillbus.indexer.domain.index.differences import SETTLE_S, Backfill
from skillbus.indexer.domain.index.ports import Entries, EntryT, WritableCollections
from skillbus.indexer.domain.index.switch_decisions import SwitchDecisions
from skillbus.indexer.domain.index.switch_record import (
    StoredSwitch,
    SwitchAnnouncer,
    Switches,
    SwitchLease,
    advance_phase,
    complete_switch,
    finish_keeping,
    record_problem,
    record_progress,
    set_owner,
    try_announce,
)

_PROGRESS_S: Final = 2.0
_PROGRESS_SHARE: Final = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SwitchTiming:
    """Durations of a switch, in seconds."""

    keep_s: float
    """Time for which the old collection is kept and written after a switch."""
    lease_s: float
    """Time after which a replica that did not renew its lease loses it."""
    retry_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0)
    """Delays before retries when something is unavailable; the last one is used again and again."""
    settle_s: tuple[float, ...] = SETTLE_S


@dataclass(frozen=True, slots=True)
class SwitchPorts(Generic[EntryT]):
    """Dependencies of a driver."""

    alias: str
    collections: WritableCollections[EntryT]
    entries: Entries[EntryT]
    switches: Switches
    announcer: SwitchAnnouncer
    now: Callable[[], datetime]


class SwitchDriver(Generic[EntryT]):
    """Carries out the switches of one alias, if no other replica does. Methods raise IndexerError, RequestError."""

    def __init__(
        self, ports: SwitchPorts[EntryT], owner: str, timing: SwitchTiming, on_moved: Callable[[], None]
    ) -> None:
        self._ports = ports
        self._owner = owner
        self._timing = timing
        self._on_moved = on_moved
        self._seen: tuple[int, datetime] | None = None
        """Last seen revision of the record, and the moment when it was first seen."""
        self._progress_at = 0.0
        """Monotonic time of the last report of progress."""
        self._woken = asyncio.Event()
        self._driving = self._stopped = False
        self._settled: tuple[str, SwitchPhase] | None = None

    def wake(self) -> None:
        """Run the next round at once, because the record was written."""
        self._woken.set()

    def stop(self) -> None:
        """End the current round soon. Cancellation is not enough: before Python 3.12 nats-py can swallow one."""
        self._stopped = True
        self._woken.set()

    async def wait_for_work(self, at_most_s: float) -> None:
        """Wait until the driver is woken, or the time has passed."""
        await finish_within(self._woken.wait(), at_most_s)
        self._woken.clear()

    async def run_round(self) -> float:
        """Do what the record says. Return the number of seconds until the next round is due."""
        ports = self._ports
        # List the collections before the record is read: the record then has every listed collection of a switch.
        names, live = await ports.collections.list_names(), await ports.collections.find_live()
        stored = await ports.switches.load(ports.alias)
        if stored is not None and stored.record.running:
            if not self._is_free(stored):
                return self._timing.lease_s / 3
            await self._delete_unneeded(stored, names, live)
            await self._drive(stored)
            return 0.0
        if stored is not None and live is not None:
            live = await self._follow_record(stored, names, live)
            stored = await self._end_keeping(stored, names)
        await self._delete_unneeded(stored, names, live)
        return self._seconds_to_next_round(stored)

    async def release_lease(self) -> None:
        """Let another replica take over a switch that was interrupted here. Otherwise the lease expires by itself."""
        if not self._driving:
            return
        stored = await self._ports.switches.load(self._ports.alias)
        if stored is not None and stored.record.owner == self._owner:
            with suppress(WriteConflictError):
                await self._ports.switches.save(self._ports.alias, set_owner(stored.record, None), stored.revision)

    def _is_free(self, stored: StoredSwitch) -> bool:
        """Return True if nobody else holds the lease. An abandoned one stands still for the duration of a lease.

        The duration is measured by the clock of this machine, because clocks of two machines may differ.
        """
        if stored.record.owner in {None, self._owner}:
            return True
        if self._seen is None or self._seen[0] != stored.revision:
            self._seen = (stored.revision, self._ports.now())
        return self._ports.now() - self._seen[1] >= timedelta(seconds=self._timing.lease_s)

    async def _drive(self, stored: StoredSwitch) -> None:
        lease = SwitchLease(self._ports.switches, self._ports.alias, self._owner, stored)
        self._driving = True
        try:
            await lease.renew_lease()
            log.info("index_switch_driven", target=lease.record.target.collection, phase=lease.switch.phase)
            async with open_task_group() as tasks:
                renewing = tasks.create_task(self._keep_lease(lease))
                await self._carry_out(lease)
                renewing.cancel()
            self._driving = lease.record.running  # a round that was stopped has a lease to release
        except WriteConflictError:
            log.info("index_switch_left", target=lease.record.target.collection, phase=lease.switch.phase)
            self._driving = False

    async def _keep_lease(self, lease: SwitchLease) -> None:
        """Renew the lease while a step runs. A lost lease ends the step."""
        while lease.record.running and not self._stopped:
            await self.wait_for_work(self._timing.lease_s / 3)
            try:
                await lease.renew_lease()
            except WriteConflictError:
                raise
            except RequestError as error:
                log.warning("lease_not_renewed", reason=str(error))

    async def _carry_out(self, lease: SwitchLease) -> None:
        tries = 0
        while lease.record.running and not self._stopped:
            before = lease.switch.done, lease.switch.phase
            try:
                await self._run_phase(lease)
            except WriteConflictError:
                raise
            except (IndexerError, RequestError) as error:
                moved = (lease.switch.done, lease.switch.phase) != before
                tries = 0 if moved else tries
                await self._report_problem(lease, str(error))
                await asyncio.sleep(self._timing.retry_s[min(tries, len(self._timing.retry_s) - 1)])
                tries += 1

    async def _run_phase(self, lease: SwitchLease) -> None:
        """Complete the current phase and enter the next."""
        ports, target = self._ports, lease.record.target
        # In every phase: the store may have lost the collection, or another replica may have deleted it as unneeded.
        await ports.collections.ensure_collection(target)
        report = partial(self._report_progress, lease)
        self._progress_at = time.monotonic()
        backfill = Backfill(ports.collections, ports.entries, target.collection, report, self._timing.settle_s)
        match lease.switch.phase:
            case SwitchPhase.BUILDING:
                await lease.update_record(lambda record: advance_phase(record, SwitchPhase.BACKFILLING))
            case SwitchPhase.BACKFILLING:
                await backfill.write_missing()
                await lease.update_record(lambda record: advance_phase(record, SwitchPhase.VERIFYING))
            case _:
                await backfill.verify()
                # A replica that lost the lease during the verification must not move the alias.
                await lease.renew_lease()
                await ports.collections.point_alias(target.collection)
                await lease.update_record(lambda record: complete_switch(record, ports.now(), self._timing.keep_s))
                log.info("index_switched", target=target.collection, entries=lease.switch.total)
        await try_announce(ports.announcer, ports.alias, lease.switch)

    async def _report_progress(self, lease: SwitchLease, done: int, total: int) -> None:
        """Record and publish the progress, at most every 5 % or 2 s."""
        known, now = lease.switch, time.monotonic()
        share = abs(done - known.done) / max(total, 1)
        news = total != known.total or known.problem is not None or share >= _PROGRESS_SHARE
        if not news and (done == known.done or now - self._progress_at < _PROGRESS_S):
            return
        self._progress_at = now
        await lease.update_record(lambda record: record_progress(record, done, total))
        await try_announce(self._ports.announcer, self._ports.alias, lease.switch)

    async def _report_problem(self, lease: SwitchLease, problem: str) -> None:
        log.warning("index_switch_hindered", phase=lease.switch.phase, reason=problem)
        if lease.switch.problem == problem:
            return
        try:
            await lease.update_record(lambda record: record_problem(record, problem))
        except WriteConflictError:
            raise
        except RequestError as error:
            log.warning("switch_not_recorded", reason=str(error))
            return
        await try_announce(self._ports.announcer, self._ports.alias, lease.switch)

    async def _follow_record(self, stored: StoredSwitch, names: frozenset[str], live: str) -> str:
        """Point the alias where the record says. The writer of the record may have died before it moved the alias."""
        record = stored.record
        belongs = record.searched
        if belongs is not None and belongs != live and belongs in names:
            await self._ports.collections.point_alias(belongs)
            log.warning("alias_followed_the_record", collection=belongs, before=live)
            live = belongs
        if self._settled != (settled := (record.switch.id, record.switch.phase)):
            # A write to this collection may have failed while it was not live: compare it now.
            self._settled = settled
            self._on_moved()
        return live

    async def _end_keeping(self, stored: StoredSwitch, names: frozenset[str]) -> StoredSwitch:
        """End the keeping of the old collection when its time is over, or when the collection is gone."""
        switch = stored.record.switch
        if switch.phase is not SwitchPhase.KEPT:
            return stored
        gone = switch.source is None or switch.source.collection not in names
        if not gone and switch.kept_until is not None and self._ports.now() < switch.kept_until:
            return stored
        done = await self._ports.switches.save(self._ports.alias, finish_keeping(stored.record), stored.revision)
        await try_announce(self._ports.announcer, self._ports.alias, done.record.switch)
        return done

    async def _delete_unneeded(self, stored: StoredSwitch | None, names: frozenset[str], live: str | None) -> None:
        """Delete collections that nobody needs. Without a live one, the first is just being filled."""
        if live is None:
            return
        needed = stored.record.list_needed(self._ports.now()) if stored else frozenset()
        for collection in sorted(names - needed - {live}):
            await self._ports.collections.delete_collection(collection)
            log.info("collection_removed", collection=collection)

    def _seconds_to_next_round(self, stored: StoredSwitch | None) -> float:
        if stored is None:
            return self._timing.lease_s
        ends = [*stored.record.leaving.values()]
        if (kept_until := stored.record.switch.kept_until) is not None:
            ends.append(kept_until)
        now = self._ports.now()
        coming = [(end - now).total_seconds() for end in ends if end > now]
        return min([self._timing.lease_s, *coming])


class SwitchTask(Generic[EntryT]):
    """Keeps an index on the default model, and carries out its switches."""

    def __init__(
        self, decisions: SwitchDecisions, driver: SwitchDriver[EntryT], retry_s: Sequence[float] = (2.0,)
    ) -> None:
        """Make the task. `retry_s` are the delays after failures; the last one is used again and again."""
        self._decisions = decisions
        self._driver = driver
        self._retry_s = retry_s
        self._failures = FailureLog(IndexerError)
        self._stopped = False

    def stop(self) -> None:
        """End `run` soon."""
        self._stopped = True
        self._driver.stop()

    async def run(self) -> None:
        """Run until `stop` is called. At the end another replica may take over the switch at once."""
        failures = 0
        try:
            while not self._stopped:
                next_check_s = next_round_s = self._retry_s[min(failures, len(self._retry_s) - 1)]
                with self._failures.guard("follow_default_model"):
                    await self._decisions.index.open_if_needed()
                    await self._decisions.follow_default_model()
                    next_check_s = inf
                with self._failures.guard("switch_index"):
                    next_round_s = await self._driver.run_round()
                failures = 0 if next_check_s == inf else failures + 1
                await self._driver.wait_for_work(min(next_check_s, next_round_s))
        finally:
            with self._failures.guard("release_switch"):
                await self._driver.release_lease()
