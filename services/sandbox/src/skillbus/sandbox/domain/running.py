"""From a request to a run: which script, with which arguments, in which limits."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from skillbus.contracts.indexer import ArgsMode, EntryPoint
from skillbus.contracts.sandbox import RunSkill
from skillbus.sandbox.domain.arguments import check_argv, input_from_args
from skillbus.sandbox.domain.errors import ArgumentsInvalid
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.run import RunOutcome, RunSpec
from skillbus.sandbox.domain.schema import check_args
from skillbus.sandbox.domain.skill import Skills, entry_point_of


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
            at_most_s: How long the caller waits, in seconds.

        Raises:
            SandboxError: It was not run, and why.
            RequestError: The skill cannot be had.
        """
        skill = await self._skills.get(request.project, request.name)
        entry = entry_point_of(skill, request.action)
        argv, stdin = input_of(request, entry)
        wall_s = min(request.timeout_s or self._limits.wall_s, self._limits.wall_s)
        async with self._slots, self._skills.unpacked(skill) as folder:
            spec = RunSpec(
                skill_root=folder,
                script=entry.script,
                runtime=entry.runtime,
                argv=argv,
                stdin=stdin,
                files=files,
                limits=replace(self._limits, wall_s=min(wall_s, at_most_s)),
            )
            return await self._isolation.run(spec)


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
