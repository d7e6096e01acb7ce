"""Runs of skills in the sandbox, and the files of calls in the object store."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Final

import structlog

from skillbus.agent.domain.chat.tool_result import RESULT_FILE
from skillbus.common.bus.caller import Caller
from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, RunSelector
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, SkillRan

_CANCEL_ATTEMPTS: Final = 5
_CANCEL_PAUSE_S: Final = 0.1
_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Largest output that a sandbox can be set to."""

log = structlog.get_logger(__name__)


class BusSkillRuns:
    """Implements `SkillRuns`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def run(self, request: RunSkill, within_s: float, cancelled: asyncio.Event) -> SkillRan:
        running = self._caller.call(RUN_SKILL, request, timeout_s=within_s)
        selector = RunSelector(project=request.project, run_id=request.run_id or "")
        return await call_until_cancelled(self._caller, running, selector, cancelled)


async def call_until_cancelled(
    caller: Caller, call: Coroutine[object, object, SkillRan], run: RunSelector, cancelled: asyncio.Event
) -> SkillRan:
    """Return the reply of a request that runs something. When `cancelled` is set, end the run; its reply comes then."""
    running, leaving = asyncio.ensure_future(call), asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await _cancel_run(caller, run)
        return await running
    finally:
        running.cancel()
        leaving.cancel()
        await asyncio.wait({running, leaving})


async def _cancel_run(caller: Caller, run: RunSelector) -> None:
    """Cancel a run. The attempts are repeated, because its sandbox may not have it yet."""
    for _ in range(_CANCEL_ATTEMPTS):
        try:
            await caller.call(CANCEL_RUN, run)
        except RequestError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                # The run ends at its limit anyway.
                log.warning("run_not_cancelled", run_id=run.run_id, code=error.code)
                return
            await asyncio.sleep(_CANCEL_PAUSE_S)
        else:
            return


class BusCallFiles:
    """Implements `CallFiles`, `ResultStore` and `ResultReader` on the bucket `runs`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, project: str, run_id: str, name: str, data: bytes) -> None:
        await self._store.put(f"calls/{project}/{run_id}/{name}", data)

    async def read_result(self, project: str, run_id: str) -> bytes:
        """Implement `ResultReader`."""
        return await self._store.get(f"calls/{project}/{run_id}/{RESULT_FILE}", _OUTPUT_BYTES)

    async def read_start(self, content: Content, max_bytes: int) -> bytes:
        if content.object_name is None:
            return (content.inline or b"")[:max_bytes]
        opened, start = await self._store.open(content.object_name, _OUTPUT_BYTES), bytearray()
        async with aclosing(opened.pieces) as pieces:
            async for piece in pieces:
                start += piece
                if len(start) >= max_bytes:
                    break
        return bytes(start[:max_bytes])
