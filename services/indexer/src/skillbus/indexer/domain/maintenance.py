"""Background tasks of the indexer: switches of models, and changes of the folders."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from math import inf
from pathlib import Path
from typing import Final, Generic

from skillbus.common.background import FailureLog, finish_within
from skillbus.indexer.domain.errors import IndexerError
from skillbus.indexer.domain.index.ports import EntryT
from skillbus.indexer.domain.index.switch_decisions import SwitchDecisions
from skillbus.indexer.domain.index.switch_driver import SwitchDriver
from skillbus.indexer.domain.skill.reconciler import SkillReconciler

_SWITCH_RETRY_S: Final = (2.0,)
_WATCH_RETRY_S: Final = 5.0


class SwitchTask(Generic[EntryT]):
    """Keeps an index on the default model, and carries out its switches."""

    def __init__(
        self, decisions: SwitchDecisions, driver: SwitchDriver[EntryT], retry_s: Sequence[float] = _SWITCH_RETRY_S
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
        self._driver.wake()

    async def run(self) -> None:
        """Run until `stop` is called. At the end another replica may take over the switch at once."""
        failures = 0
        try:
            while not self._stopped:
                next_check_s = next_round_s = self._retry_s[min(failures, len(self._retry_s) - 1)]
                with self._failures.guard("follow_default_model"):
                    await self._decisions.open_index()
                    await self._decisions.follow_default_model()
                    next_check_s = inf
                with self._failures.guard("switch_index"):
                    next_round_s = await self._driver.run_round()
                failures = 0 if next_check_s == inf else failures + 1
                await self._driver.wait_for_work(min(next_check_s, next_round_s))
        finally:
            with self._failures.guard("release_switch"):
                await self._driver.release_lease()


class FolderTask:
    """Checks each skill folder that changes. A watch that fails is started again."""

    def __init__(self, reconciler: SkillReconciler, watch: Callable[[asyncio.Event], AsyncIterator[set[Path]]]) -> None:
        """Make the task. `watch` yields sets of changed folders until its event is set."""
        self._reconciler = reconciler
        self._watch = watch
        self._failures = FailureLog(IndexerError)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop` is called."""
        while not self._stop.is_set():
            with self._failures.guard("watch_folders"):
                async for folders in self._watch(self._stop):
                    for folder in sorted(folders):
                        with self._failures.guard("check_folder", folder=folder.name):
                            await self._reconciler.check_folder(folder)
            await finish_within(self._stop.wait(), _WATCH_RETRY_S)
