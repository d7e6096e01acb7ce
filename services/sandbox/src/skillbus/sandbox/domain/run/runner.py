"""From a request to a run: which script, with which arguments, in which limits."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Skill
from skillbus.contracts.sandbox.skill_runs import RunSkill, RunStatus
from skillbus.sandbox.domain.errors import ArgumentsInvalid, DependenciesUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.network import HostPort
from skillbus.sandbox.domain.packages.dependencies import Dependencies, NoDependencies
from skillbus.sandbox.domain.run.arguments import check_argv, input_from_args
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.schema import check_args
from skillbus.sandbox.domain.run.skill_limits import limits_of
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec
from skillbus.sandbox.domain.skill import Skills, entry_point_of

_LEAST_S: Final = 0.1
"""A run that is begun has at least this."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a request means for the skill as it is installed now."""

    skill: Skill
    entry: EntryPoint
    argv: tuple[str, ...]
    stdin: bytes
    limits: Limits


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended, and how long it waited before it began, in milliseconds."""

    outcome: RunOutcome
    waited_ms: float


class Runner:
    """Runs actions of skills, `slots` at a time."""

    def __init__(
        self,
        skills: Skills,
        isolation: Isolation,
        limits: Limits,
        slots: int,
        ceiling: Limits | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._skills = skills
        self._isolation = isolation
        self._limits = limits
        self._ceiling = ceiling or limits
        self._dependencies = dependencies or NoDependencies()
        self._slots = asyncio.Semaphore(slots)
        self.running = 0
        self.waiting = 0

    async def order(self, request: RunSkill, until: float) -> Order:
        """What is to be run, in which limits; `until` is when the caller stops waiting, a time of the loop.

        Raises:
            SandboxError: It cannot be run, and why.
            RequestError: The skill cannot be had.
        """
        skill = await self._skills.get(request.project, request.name)
        entry = entry_point_of(skill, request.action)
        # A schema may take long to check; without one there is nothing that could.
        checked = entry.input_schema is not None
        argv, stdin = await asyncio.to_thread(input_of, request, entry) if checked else input_of(request, entry)
        limits = limits_of(skill.limits, self._limits, self._ceiling)
        wall_s = min(request.timeout_s or limits.wall_s, limits.wall_s, _left_s(until))
        return Order(skill, entry, argv, stdin, replace(limits, wall_s=wall_s))

    async def run(
        self,
        request: RunSkill,
        order: Order,
        files: Mapping[str, bytes],
        until: float,
        control: RunControl | None = None,
    ) -> Ran:
        """Run an action to its end or to a limit.

        Args:
            request: What was asked for.
            order: What that means.
            files: The request's files.
            until: When the caller stops waiting, a time of the loop; waiting for a slot counts.
            control: Hears what it prints, and ends it; one that waits is then never begun.

        Raises:
            SandboxError: It was not run, and why.
            RequestError: The skill cannot be had, or no slot was free in time.
        """
        control = control or RunControl()
        began = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            try:
                folder = await stack.enter_async_context(self._skills.unpacked(order.skill))
            except RequestError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                # Updated since it was looked up: the package of before is gone, and the one of now is what is meant.
                order = await self.order(request, until)
                folder = await stack.enter_async_context(self._skills.unpacked(order.skill))
            # Before it has a slot: packages that are slow to come keep no other run waiting.
            entry, left_s = order.entry, _left_s(until)
            try:
                layer = await stack.enter_async_context(
                    self._dependencies.layer(folder, entry.script, entry.runtime, left_s, control.cancelled)
                )
            except DependenciesUnavailable:
                if control.cancelled.is_set():
                    return Ran(await self._never_begun(), _ms_since(began))
                raise
            has_slot = await stack.enter_async_context(self._slot(until, control.cancelled))
            waited_ms = _ms_since(began)
            if not has_slot:
                return Ran(await self._never_begun(), waited_ms)
            spec = _spec(order, folder, layer, files, until)
            return Ran(await self._isolation.run(spec, control), waited_ms)

    async def _never_begun(self) -> RunOutcome:
        level = (await self._isolation.probe()).level
        return RunOutcome(
            RunStatus.CANCELLED, None, b"", b"", (), 0.0, 0.0, False, level, "cancelled before it was begun"
        )

    @asynccontextmanager
    async def _slot(self, until: float, cancelled: asyncio.Event) -> AsyncGenerator[bool]:
        """A slot, or none when it was cancelled before; whoever waits until the caller is gone is dropped."""
        if not await self._acquired(until, cancelled):
            yield False
            return
        self.running += 1
        try:
            yield True
        finally:
            self.running -= 1
            self._slots.release()

    async def _acquired(self, until: float, cancelled: asyncio.Event) -> bool:
        if cancelled.is_set():
            return False
        if not self._slots.locked():
            return await self._slots.acquire()
        self.waiting += 1
        try:
            acquired = await self._acquired_before(until, cancelled)
        finally:
            self.waiting -= 1
        if not acquired and not cancelled.is_set():
            raise RequestError(
                ErrorCode.DEADLINE_EXCEEDED, "No slot was free for the run before its deadline: try again later."
            )
        return acquired

    async def _acquired_before(self, until: float, cancelled: asyncio.Event) -> bool:
        acquiring = asyncio.ensure_future(self._slots.acquire())
        leaving = asyncio.ensure_future(cancelled.wait())
        left_s = until - asyncio.get_running_loop().time()
        try:
            await asyncio.wait({acquiring, leaving}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            acquiring.add_done_callback(self._give_back)
            raise
        finally:
            acquiring.cancel()
            leaving.cancel()
        await asyncio.wait({acquiring, leaving})
        return not acquiring.cancelled()

    def _give_back(self, acquiring: asyncio.Task[Literal[True]]) -> None:
        if not acquiring.cancelled():
            self._slots.release()


def _spec(order: Order, folder: Path, layer: Path | None, files: Mapping[str, bytes], until: float) -> RunSpec:
    return RunSpec(
        skill_root=folder,
        script=order.entry.script,
        runtime=order.entry.runtime,
        argv=order.argv,
        stdin=order.stdin,
        files=files,
        network=tuple(map(HostPort.parse, order.skill.network_approved)),
        layer=layer,
        limits=replace(order.limits, wall_s=min(order.limits.wall_s, _left_s(until))),
    )


def _left_s(until: float) -> float:
    return max(until - asyncio.get_running_loop().time(), _LEAST_S)


def _ms_since(began: float) -> float:
    return 1000 * (asyncio.get_running_loop().time() - began)


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
