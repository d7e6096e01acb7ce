"""Tasks that go on until they are stopped, whatever they meet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.indexer.domain.errors import IndexerError
from skillbus.indexer.domain.index.ports import EntryT
from skillbus.indexer.domain.index.switch_decisions import SwitchDecisions
from skillbus.indexer.domain.index.switch_driver import SwitchDriver
from skillbus.indexer.domain.skill.reconciler import Reconciler

_LOOK_AGAIN_S: Final = (2.0,)
_WATCH_AGAIN_S: Final = 5.0

log = structlog.get_logger(__name__)


async def keep_reconciled(
    parts: Mapping[str, Callable[[], Awaitable[object]]],
    every_s: float,
    wanted: asyncio.Event,
    stop: asyncio.Event,
    again_s: Sequence[float] = (inf,),
) -> None:
    """Do all of `parts`, by name, now, every `every_s` seconds and when it is `wanted`.

    It ends when `stop` is set by someone who then sets `wanted` too.
    What cannot be done is tried again after `again_s` already, the last of them again and again.

    Cancelling alone is not enough to end it: before Python 3.12 `asyncio.wait_for`, which nats-py waits with, can
    swallow a cancellation that comes together with what it waits for.
    """
    tries, said = 0, dict[str, str]()
    while not stop.is_set():
        wanted.clear()
        failed = len(parts)
        for name, part in parts.items():
            with going_on(name, said):
                await part()
                failed -= 1
        wait_s = min(every_s, again_s[min(tries, len(again_s) - 1)]) if failed else every_s
        tries = tries + 1 if failed else 0
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await wanted.wait()


async def keep_switching(
    decisions: SwitchDecisions,
    driver: SwitchDriver[EntryT],
    stop: asyncio.Event,
    again_s: Sequence[float] = _LOOK_AGAIN_S,
) -> None:
    """Take the index to the default model whenever that is another one, until `stop` is set, which wakes the driver.

    What cannot be done is tried again after `again_s`, the last of them again and again.
    """
    tries, said = 0, dict[str, str]()
    while not stop.is_set():
        considered_in_s = looked_in_s = again_s[min(tries, len(again_s) - 1)]
        with going_on("consider_models", said):
            await decisions.index.opened()
            await decisions.consider()
            considered_in_s = inf
        with going_on("switch_models", said):
            looked_in_s = await driver.look()
        tries = 0 if considered_in_s == inf else tries + 1
        await driver.rest(min(considered_in_s, looked_in_s))


async def follow_folders(
    reconciler: Reconciler, watch: Callable[[], AsyncIterator[set[Path]]], stop: asyncio.Event
) -> None:
    """Look at each folder that changes, until `stop` is set; a watch that ends in an error is begun again."""
    while not stop.is_set():
        with going_on("watch_folders"):
            async for folders in watch():
                for folder in sorted(folders):
                    with going_on("look_at_folder", None, folder=folder.name):
                        await reconciler.look_at(folder)
        with suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_AGAIN_S):
                await stop.wait()


@contextmanager
def going_on(task: str, said: dict[str, str] | None = None, **values: str) -> Generator[None]:
    """Supervise one round of a task: what it meets is logged, and the next round comes.

    `said` keeps what the last round was postponed for, by task: the same again is no warning.
    """
    said = {} if said is None else said
    try:
        yield
    except (IndexerError, RequestError) as error:
        warn = log.debug if said.get(task) == str(error) else log.warning
        warn("task_postponed", task=task, reason=str(error), **values)
        said[task] = str(error)
    except Exception:
        log.exception("task_failed", task=task, **values)
    else:
        said.pop(task, None)
