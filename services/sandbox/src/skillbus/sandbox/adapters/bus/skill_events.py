"""Skills as they are installed, heard from the indexer's events."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.skills import SKILL_INSTALLED, SKILL_UPDATED, SkillChanged

_HEARD_MAX: Final = 256
"""Waiting; of more at once, those that come last are prepared by their first run."""

log = structlog.get_logger(__name__)


@asynccontextmanager
async def preparing(bus: Bus, prepare: Callable[[str, str], Awaitable[tuple[str, ...]]]) -> AsyncGenerator[None]:
    """Call `prepare(project, name)` for each skill that is installed or updated, one after the other.

    No durable consumer: each replica has packages of its own, and what is missed is done by the first run.
    """
    heard: asyncio.Queue[SkillChanged] = asyncio.Queue(_HEARD_MAX)

    async def hear(message: Msg) -> None:
        try:
            heard.put_nowait(decode(SkillChanged, message.data))
        except (RequestError, asyncio.QueueFull) as error:
            log.warning("installed_skill_not_heard", subject=message.subject, error=repr(error))

    subscriptions = [await bus.client.subscribe(event.pattern, cb=hear) for event in (SKILL_INSTALLED, SKILL_UPDATED)]
    preparing_all = asyncio.create_task(_prepare_all(heard, prepare), name="sandbox-preparing")
    try:
        yield
    finally:
        preparing_all.cancel()
        await asyncio.wait([preparing_all])
        for subscription in subscriptions:
            with suppress(NatsError):  # a connection that is closed or drains has forgotten it
                await subscription.unsubscribe()


async def _prepare_all(
    heard: "asyncio.Queue[SkillChanged]", prepare: Callable[[str, str], Awaitable[tuple[str, ...]]]
) -> None:
    while True:
        skill = await heard.get()
        try:
            refused = await prepare(skill.project, skill.name)
        except (RequestError, OSError) as error:
            refused = (str(error),)
        if refused:
            log.warning("skill_not_prepared", project=skill.project, skill=skill.name, reasons=refused)
