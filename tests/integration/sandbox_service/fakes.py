"""An isolation whose runs last as long as a test wants."""

import asyncio

from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec
from skillbus.sandbox.domain.run.tool_calls import ToolAccess


class HeldIsolation:
    """Runs nothing: each run notes its spec, says the text of its script, and ends when `go_on` is set."""

    def __init__(self) -> None:
        self.specs: list[RunSpec] = []
        self.begun = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def probe(self) -> IsolationReport:
        return IsolationReport(IsolationLevel.FULL, "fake")

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        self.specs.append(spec)
        self.begun.release()
        control = control or RunControl()
        if control.hear is not None:
            control.hear(OutputStream.STDOUT, b"begun\n")
        if await self._cancelled_before_it_may_go_on(control.cancelled):
            return RunOutcome(RunStatus.CANCELLED, None, b"begun\n", b"", (), 1.0, 1.0, False, IsolationLevel.FULL)
        said = (spec.skill_root / spec.script).read_bytes()
        return RunOutcome(RunStatus.OK, 0, said, b"", (), 1.0, 1.0, False, IsolationLevel.FULL)

    async def _cancelled_before_it_may_go_on(self, cancelled: asyncio.Event) -> bool:
        waits = {asyncio.ensure_future(self.go_on.wait()), asyncio.ensure_future(cancelled.wait())}
        async with asyncio.timeout(5):
            _, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        return cancelled.is_set()


class CallingIsolation(HeldIsolation):
    """Runs nothing: each program makes one request, and prints the reply."""

    def __init__(self, request: bytes) -> None:
        super().__init__()
        self.request = request
        self.tools: ToolAccess | None = None

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        assert control is not None
        assert control.tools is not None
        self.tools = control.tools
        reply = await control.tools.ask(self.request)
        return RunOutcome(RunStatus.OK, 0, reply, b"", (), 1.0, 1.0, False, IsolationLevel.FULL)


class NoIsolation:
    """A machine that cannot isolate."""

    async def probe(self) -> IsolationReport:
        raise SandboxUnavailable("user namespaces are closed: open them")

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        raise SandboxUnavailable("user namespaces are closed: open them")
