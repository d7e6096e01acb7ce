"""Runner of skills: resolves a request to a script, arguments and limits, and runs it in a slot."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Skill
from skillbus.contracts.sandbox.skill_runs import RunSkill, RunStatus
from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.domain.errors import ArgumentsInvalid, DependenciesUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.packages.dependencies import Dependencies, NoDependencies
from skillbus.sandbox.domain.run.arguments import build_input, check_args, check_argv
from skillbus.sandbox.domain.run.limits import Limits, resolve_limits
from skillbus.sandbox.domain.run.slots import RunSlots
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec
from skillbus.sandbox.domain.skill import SkillSource, find_entry_point

FetchFiles = Callable[[], Awaitable[Mapping[str, bytes]]]
"""Fetches the files of a run. Raises RequestError."""
_LEAST_S: Final = 0.1
"""Shortest time limit of a run that has started."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A request resolved against the installed skill."""

    skill: Skill
    entry: EntryPoint
    argv: tuple[str, ...]
    stdin: bytes
    limits: Limits


class SkillRunner:
    """Runs actions of skills, at most `slots` at a time."""

    def __init__(
        self,
        skills: SkillSource,
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
        self._slots = RunSlots(slots)
        self.running = 0
        self.waiting = 0

    async def plan_run(self, request: RunSkill, until: float) -> PlannedRun:
        """Resolve a request to a script, arguments and limits. `until` is the caller's deadline, in loop time.

        Raises:
            SandboxError: The request cannot be run.
            RequestError: The skill is not available.
        """
        skill = await self._skills.get_skill(request.project, request.name)
        entry = find_entry_point(skill, request.action)
        # Checking against a schema may take seconds.
        checked = entry.input_schema is not None
        argv, stdin = (
            await asyncio.to_thread(resolve_input, request, entry) if checked else resolve_input(request, entry)
        )
        limits = resolve_limits(skill.limits, self._limits, self._ceiling)
        wall_s = min(request.timeout_s or limits.wall_s, limits.wall_s, _left_s(until))
        return PlannedRun(skill, entry, argv, stdin, replace(limits, wall_s=wall_s))

    async def run(
        self,
        request: RunSkill,
        order: PlannedRun,
        fetch_files: FetchFiles,
        until: float,
        control: RunControl | None = None,
        *,
        caller: str = "",
    ) -> RunOutcome:
        """Run an action, as planned by `plan_run`, to its end or to a limit.

        Waiting for a slot counts against `until`, the caller's deadline in loop time. Callers that wait get slots in
        turn. The files are fetched once there is a slot: a run that waits holds none. `control` also cancels a run
        that still waits for a slot.

        Raises:
            SandboxError: The action was not run.
            RequestError: The skill is not available, or no slot was free in time.
        """
        control = control or RunControl()
        began = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            try:
                folder = await stack.enter_async_context(self._skills.unpack_skill(order.skill))
            except RequestError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                # The skill was updated after the lookup, and its old package is gone: plan with the new one.
                order = await self.plan_run(request, until)
                folder = await stack.enter_async_context(self._skills.unpack_skill(order.skill))
            # Before taking a slot, so that slow installation of packages delays no other run.
            entry, left_s = order.entry, _left_s(until)
            try:
                layer = await stack.enter_async_context(
                    self._dependencies.open_layer(folder, entry.script, entry.runtime, left_s, control.cancelled)
                )
            except DependenciesUnavailable:
                if control.cancelled.is_set():
                    return await self._cancel_before_start(_ms_since(began))
                raise
            has_slot = await stack.enter_async_context(self._slot(until, control.cancelled, caller))
            waited_ms = _ms_since(began)
            if not has_slot:
                return await self._cancel_before_start(waited_ms)
            spec = RunSpec(
                skill_root=folder,
                script=entry.script,
                runtime=entry.runtime,
                argv=order.argv,
                stdin=order.stdin,
                files=await fetch_files(),
                network=tuple(map(HostPort.parse, order.skill.network_approved)),
                project=request.project,
                layer=layer,
                limits=replace(order.limits, wall_s=min(order.limits.wall_s, _left_s(until))),
            )
            return replace(await self._isolation.run(spec, control), waited_ms=waited_ms)

    async def _cancel_before_start(self, waited_ms: float) -> RunOutcome:
        level = (await self._isolation.probe()).level
        return RunOutcome(
            RunStatus.CANCELLED,
            exit_code=None,
            stdout=b"",
            stderr=b"",
            artifacts=(),
            duration_ms=0.0,
            cpu_ms=0.0,
            truncated=False,
            level=level,
            detail="cancelled before it started",
            waited_ms=waited_ms,
        )

    @asynccontextmanager
    async def _slot(self, until: float, cancelled: asyncio.Event, caller: str) -> AsyncGenerator[bool]:
        """Yield True with a slot, False if the run was cancelled first. A wait ends at the caller's deadline."""
        if not await self._acquire(until, cancelled, caller):
            yield False
            return
        self.running += 1
        try:
            yield True
        finally:
            self.running -= 1
            self._slots.give_back()

    async def _acquire(self, until: float, cancelled: asyncio.Event, caller: str) -> bool:
        if cancelled.is_set():
            return False
        if self._slots.take_free():
            return True
        turn = self._slots.wait_for_turn(caller)
        leaving = asyncio.ensure_future(cancelled.wait())
        left_s = until - asyncio.get_running_loop().time()
        either: tuple[asyncio.Future[Any], ...] = (turn, leaving)
        self.waiting += 1
        try:
            await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not turn.cancel():
                self._slots.give_back()
            raise
        finally:
            self.waiting -= 1
            leaving.cancel()
        if not turn.cancel():
            return True
        if not cancelled.is_set():
            raise RequestError(
                ErrorCode.DEADLINE_EXCEEDED, "No sandbox slot became free before the deadline: try again later."
            )
        return False


def _left_s(until: float) -> float:
    return max(until - asyncio.get_running_loop().time(), _LEAST_S)


def _ms_since(began: float) -> float:
    return 1000 * (asyncio.get_running_loop().time() - began)


def resolve_input(request: RunSkill, entry: EntryPoint) -> tuple[tuple[str, ...], bytes]:
    """Return the command line and the standard input of the script.

    Raises:
        ArgumentsInvalid: The arguments do not fit the action.
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
    argv, stdin = build_input(entry.args_mode, args, entry.input_schema)
    if stdin and given:
        raise ArgumentsInvalid("this action reads its arguments from standard input: give args or stdin", "$.stdin")
    return argv, stdin or given
