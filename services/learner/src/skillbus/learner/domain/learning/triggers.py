"""Events that start learning: parsed logs and finished test runs."""

from dataclasses import dataclass
from hashlib import sha256

from skillbus.contracts.endpoint import CALLERS
from skillbus.contracts.learner.learning_jobs import (
    LearningFile,
    LearningInputKind,
    LearningStarted,
    LogParsed,
    RunFinished,
    StartLearning,
)
from skillbus.contracts.message import Content
from skillbus.learner.domain.learning.jobs import LearningJobs


@dataclass(frozen=True, slots=True)
class LearningTriggers:
    """Starts a job for each event with `enable_learning`. An event that comes twice starts one job."""

    jobs: LearningJobs

    async def learn_from_log(self, event: LogParsed, identity: str) -> LearningStarted:
        """Learn from parsed logs. `identity` is the last token of the event's subject."""
        return await self._start(event, LearningInputKind.LOGS, identity)

    async def learn_from_run(self, event: RunFinished, identity: str) -> LearningStarted:
        """Learn from the reports of a test run. `identity` is the last token of the event's subject."""
        context = event.context
        named = context if context.run else context.model_copy(update={"run": identity})
        return await self._start(event.model_copy(update={"context": named}), LearningInputKind.TESTS, identity)

    async def _start(self, event: LogParsed | RunFinished, what: LearningInputKind, identity: str) -> LearningStarted:
        files = event.files
        if event.text:
            content = event.text.encode()
            inline = Content(size_bytes=len(content), sha256=sha256(content).hexdigest(), inline=content)
            files = (LearningFile(name=event.name or identity, content=inline), *files)
        request = StartLearning(
            project=event.project,
            what=what,
            source=event.source,
            files=files,
            task=event.task or identity,
            context=event.context,
            enable_learning=event.enable_learning,
            actor=CALLERS,
        )
        return await self.jobs.start_job(request)
