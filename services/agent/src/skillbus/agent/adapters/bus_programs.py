"""Programs on the bus: their runs in the sandbox, and the lines on which their tool calls come."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.agent.adapters.bus_calls import call_until_cancelled
from skillbus.common.bus.caller import Caller
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_to_feed
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.program_runs import (
    PROGRAM_CALLED,
    PROGRAM_CALLS,
    RUN_PROGRAM,
    ProgramCalled,
    RunProgram,
)
from skillbus.contracts.sandbox.run_history import RunSelector
from skillbus.contracts.sandbox.skill_runs import SkillRan

AnswerT = TypeVar("AnswerT")

log = structlog.get_logger(__name__)


class BusProgramRuns:
    """Implements `ProgramRuns`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def run(self, request: RunProgram, within_s: float, cancelled: asyncio.Event) -> SkillRan:
        running = self._caller.call(RUN_PROGRAM, request, timeout_s=within_s)
        selector = RunSelector(project=request.project, run_id=request.run_id)
        return await call_until_cancelled(self._caller, running, selector, cancelled)


class BusProgramLines:
    """Implements `ProgramLines`, for the sandbox of this process and for those on the bus."""

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._local_lines = bus.local_lines

    @asynccontextmanager
    async def listen(self, line: str, answer: Callable[[bytes], Coroutine[Any, Any, bytes]], /) -> AsyncGenerator[None]:
        subject, context, tasks = PROGRAM_CALLS.subject(line), contextvars.copy_context(), set[asyncio.Task[object]]()

        def start(work: Coroutine[object, object, AnswerT]) -> asyncio.Task[AnswerT]:
            # Each call has the deadline and the trace of the call that started the program.
            task = asyncio.create_task(work, context=context.copy())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return task

        async def reply(message: Msg) -> None:
            try:
                await message.respond(await answer(message.data))
            except NatsError as error:
                log.warning("program_call_not_answered", error=repr(error))

        async def on_request(message: Msg) -> None:
            start(reply(message))

        async def on_local_request(body: bytes) -> bytes:
            return await asyncio.shield(start(answer(body)))  # it ends with the program, as over the bus

        try:
            subscription = await self._client.subscribe(subject, cb=on_request)
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is unavailable: {error}") from error
        self._local_lines[subject] = on_local_request
        try:
            yield
        finally:
            del self._local_lines[subject]
            with suppress(NatsError):  # a connection that closes takes its subscriptions along
                await subscription.unsubscribe()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def announce_program_call(client: Client, called: ProgramCalled) -> None:
    """Publish the end of a tool call to those who follow the program now."""
    try:
        await publish_to_feed(client, PROGRAM_CALLED, called.run_id, called)
    except NatsError as error:  # the call has ended all the same
        log.warning("program_call_not_announced", run_id=called.run_id, error=repr(error))
