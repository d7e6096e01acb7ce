"""Last work of an act: its answer waits for it, and it goes on while the act is recorded.

Recording waits for the stream, and so does most last work: together they take as long as one of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class _Act:
    """An act that is being carried out."""

    task: asyncio.Task[object] | None
    last_work: list[asyncio.Task[None]] = field(default_factory=list)


_act: ContextVar[_Act | None] = ContextVar("skillbus_act", default=None)


@asynccontextmanager
async def wait_for_last_work() -> AsyncGenerator[None]:
    """Carry out an act. At the end, wait for its last work, and raise what that raises."""
    act = _Act(asyncio.current_task())
    token = _act.set(act)
    try:
        yield
    finally:
        _act.reset(token)
        for work in act.last_work:
            await work


async def finish_before_answer(work: Coroutine[object, object, None]) -> None:
    """Start the last work of the act that this task carries out. Elsewhere, do it and wait for its end."""
    act = _act.get()
    if act is None or act.task is not asyncio.current_task():
        await work
    else:
        act.last_work.append(asyncio.create_task(work))
