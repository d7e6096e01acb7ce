"""From a request to a run: which script, with which arguments, in which limits."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer import ArgsMode, EntryPoint, Skill
from skillbus.contracts.sandbox import RunSkill
from skillbus.sandbox.domain.arguments import check_argv, input_from_args
from skillbus.sandbox.domain.errors import ArgumentsInvalid
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.run import RunOutcome, RunSpec
from skillbus.sandbox.domain.schema import check_args
from skillbus.sandbox.domain.skill import Skills, entry_point_of

_LEAST_S: Final = 0.1
"""A run that is begun has at least this."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What a request means for the skill as it is installed now."""

    skill: Skill
    entry: EntryPoint
    argv: tuple[str, ...]
    stdin: bytes


class Runner:
    """Runs actions of skills, `slots` at a time."""

    def __init__(self, skills: Skills, isolation: Isolation, limits: Limits, slots: int) -> None:
        self._skills = skills
        self._isolation = isolation
        self._limits = limits
        self._slots = asyncio.Semaphore(slots)

    async def run(self, request: RunSkill, files: Mapping[str, bytes], at_most_s: float) -> RunOutcome:
        """Run an action to its end or to a limit.

        Args:
            request: What to run.
            files: The request's files.
            at_most_s: How long the caller waits, in seconds; waiting for a slot counts.

        Raises:
            SandboxError: It was not run, and why.
            RequestError: The skill cannot be had, or no slot was free in time.
        """
        until = asyncio.get_running_loop().time() + at_most_s
        order = await self._order(request)
        async with self._slot(until), AsyncExitStack() as stack:
            try:
                folder = await stack.enter_async_context(self._skills.unpacked(order.skill))
            except RequestError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                # Updated since it was looked up: the package of before is gone, and the one of now is what is meant.
                order = await self._order(request)
                folder = await stack.enter_async_context(self._skills.unpacked(order.skill))
            return await self._isolation.run(self._spec(request, order, folder, files, until))

    async def _order(self, request: RunSkill) -> _Order:
        skill = await self._skills.get(request.project, request.name)
        entry = entry_point_of(skill, request.action)
        return _Order(skill, entry, *await asyncio.to_thread(input_of, request, entry))

    def _spec(
        self, request: RunSkill, order: _Order, folder: Path, files: Mapping[str, bytes], until: float
    ) -> RunSpec:
        left_s = max(until - asyncio.get_running_loop().time(), _LEAST_S)
        wall_s = min(request.timeout_s or self._limits.wall_s, self._limits.wall_s, left_s)
        return RunSpec(
            skill_root=folder,
            script=order.entry.script,
            runtime=order.entry.runtime,
            argv=order.argv,
            stdin=order.stdin,
            files=files,
            limits=replace(self._limits, wall_s=wall_s),
        )

    @asynccontextmanager
    async def _slot(self, until: float) -> AsyncGenerator[None]:
        """A slot; whoever waits until the caller is gone is dropped."""
        try:
            async with asyncio.timeout_at(until):
                await self._slots.acquire()
        except TimeoutError:
            raise RequestError(
                ErrorCode.DEADLINE_EXCEEDED, "No slot was free for the run before its deadline: try again later."
            ) from None
        try:
            yield
        finally:
            self._slots.release()


def input_of(request: RunSkill, entry: EntryPoint) -> tuple[tuple[str, ...], bytes]:
    """Arguments and standard input of the script.

    Raises:
        ArgumentsInvalid: They do not fit the action.
        SchemaInvalid: The action's input schema cannot be used.
    """
    given = (request.stdin or "").encode(errors="surrogatepass")
    if request.argv is not None:
        if entry.args_mode is ArgsMode.STDIN_JSON:
            raise ArgumentsInvalid("this action reads its arguments as JSON from standard input: give args", "$.argv")
        return check_argv(request.argv), given
    if request.args is None and given:
        return (), given
    args = request.args or {}
    if entry.input_schema is not None and (request.args is not None or entry.args_mode is ArgsMode.STDIN_JSON):
        check_args(entry.input_schema, args)
    argv, stdin = input_from_args(entry.args_mode, args, entry.input_schema)
    if stdin and given:
        raise ArgumentsInvalid("this action reads its arguments from standard input: give args or stdin", "$.stdin")
    return argv, stdin or given
