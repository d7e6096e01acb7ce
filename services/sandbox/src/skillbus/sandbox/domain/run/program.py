"""Programs that a model wrote, run as the only action of a skill that nobody installs."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime, Skill
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.program_runs import (
    CALLS_AT_ONCE,
    FRAME_BYTES,
    PROGRAM_NAME,
    ProgramLanguage,
    RunProgram,
)
from skillbus.contracts.sandbox.skill_runs import RunSkill
from skillbus.sandbox.domain.isolation import Isolation, IsolationReport
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec

ANSWER_NAME: Final = ".skillbus-answer.json"
"""File among the artifacts in which the program that runs the model's program leaves the answer."""


@dataclass(frozen=True, slots=True)
class _Language:
    runtime: Runtime
    script: str
    """Name of our program that runs the model's."""
    file: str
    """Name of the model's program among the files of the run."""


_LANGUAGES: Final = {
    ProgramLanguage.PYTHON: _Language(Runtime.PYTHON, "skillbus_program.py", "program.py"),
    ProgramLanguage.NODE: _Language(Runtime.NODE, "skillbus_program.cjs", "program.js"),
}


def make_run(request: RunProgram) -> RunSkill:
    """Return the request to run a program as a skill's action."""
    code = request.code.encode()
    digest = hashlib.sha256(code).hexdigest()
    return RunSkill(
        project=request.project,
        name=PROGRAM_NAME,
        action=request.language.value,
        argv=tuple(map(str, (request.calls, request.call_bytes, FRAME_BYTES, CALLS_AT_ONCE))),
        files={_LANGUAGES[request.language].file: Content(size_bytes=len(code), sha256=digest, inline=code)},
        timeout_s=request.timeout_s,
        run_id=request.run_id,
        stream=request.stream,
    )


class ProgramSource:
    """`SkillSource` of the skill that runs programs. Its files are ours and lie in `folder`."""

    def __init__(self, folder: Path, sources: dict[ProgramLanguage, str]) -> None:
        """`sources` are the texts of our programs."""
        self._folder = folder
        self._sources = sources
        digest = hashlib.sha256("\0".join(sources.values()).encode()).hexdigest()
        began = datetime.now(UTC)
        points = (
            EntryPoint(action=name, script=language.script, runtime=language.runtime, args_mode=ArgsMode.ARGV)
            for name, language in _LANGUAGES.items()
        )
        self._skill = Skill(
            name=PROGRAM_NAME,
            description="Runs programs that call tools.",
            digest=digest,
            content_digest=digest,
            size_bytes=0,
            entry_points=tuple(points),
            installed_at=began,
            updated_at=began,
        )

    def write_files(self) -> None:
        """Write the files of the skill. Blocking."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, source in self._sources.items():
            path = self._folder / _LANGUAGES[name].script
            path.write_text(source)
            path.chmod(0o644)

    async def get_skill(self, project: str, _name: str) -> Skill:
        return self._skill.model_copy(update={"project": project})

    @asynccontextmanager
    async def unpack_skill(self, _skill: Skill) -> AsyncGenerator[Path]:
        yield self._folder


class ProgramIsolation:
    """`Isolation` that takes the answer of a program out of its artifacts."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation

    async def probe(self) -> IsolationReport:
        return await self._isolation.probe()

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        outcome = await self._isolation.run(spec, control)
        answers: Sequence[bytes] = [one.content for one in outcome.artifacts if one.name == ANSWER_NAME]
        kept = tuple(one for one in outcome.artifacts if one.name != ANSWER_NAME)
        return replace(outcome, artifacts=kept, answer=answers[0] if answers else None)
