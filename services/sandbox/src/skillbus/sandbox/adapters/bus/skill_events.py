"""Preparation of skills when the indexer announces that they are installed."""

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
"""Longest queue; skills beyond it are prepared by their first run."""

log = structlog.get_logger(__name__)


@asynccontextmanager
async def prepare_installed_skills(
    bus: Bus, prepare: Callable[[str, str], Awaitable[tuple[str, ...]]]
) -> AsyncGenerator[None]:
    """Call `prepare(project, name)` for each skill that is installed or updated, one after the other.

    There is no durable consumer: each replica has its own packages, and the first run prepares a skill that was missed.
    """
    heard: asyncio.Queue[SkillChanged] = asyncio.Queue(_HEARD_MAX)
    closing = asyncio.Event()

    async def hear(message: Msg) -> None:
        try:
            heard.put_nowait(decode(SkillChanged, message.data))
        except (RequestError, asyncio.QueueFull) as error:
            log.warning("skill_event_dropped", subject=message.subject, error=repr(error))

    subscriptions = [await bus.client.subscribe(event.pattern, cb=hear) for event in (SKILL_INSTALLED, SKILL_UPDATED)]
    preparing_all = asyncio.create_task(_prepare_all(heard, prepare, closing), name="sandbox-preparing")
    try:
        yield
    finally:
        closing.set()  # an error of the preparation can take the place of the cancellation
        preparing_all.cancel()
        await asyncio.wait([preparing_all])
        for subscription in subscriptions:
            with suppress(NatsError):  # a connection that is closed or drains has forgotten it
                await subscription.unsubscribe()


async def _prepare_all(
    heard: "asyncio.Queue[SkillChanged]",
    prepare: Callable[[str, str], Awaitable[tuple[str, ...]]],
    closing: asyncio.Event,
) -> None:
    while not closing.is_set():
        skill = await heard.get()
        try:
            refused = await prepare(skill.project, skill.name)
        except (RequestError, OSError) as error:
            refused = (str(error),)
        if refused:
            log.warning("skill_preparation_failed", project=skill.project, skill=skill.name, reasons=refused)
