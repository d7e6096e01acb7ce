"""One run from the agent's first word to the last of its processes."""

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.prepared import Prepared
from skillbus.sandbox.adapters.bubblewrap.process import SandboxProcess
from skillbus.sandbox.adapters.supervision.follower import Ending, Following
from skillbus.sandbox.adapters.supervision.protocol import ProtocolError, Told, listen
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec


async def supervise(ready: Prepared, job: bytes, spec: RunSpec, control: RunControl) -> RunOutcome:
    """Hand the job over and see the run to its end. Whoever began the sandbox waits for the end of its processes."""
    sandbox, told = ready.sandbox, Told()
    following = Following.of(sandbox, spec.limits, ready.meter, control)
    ready.meter.limit(spec.limits)
    await following.follow(control.cancelled, _talk(sandbox, job, spec, told, following.ending))
    return following.outcome(told, ready.level)


async def _talk(sandbox: SandboxProcess, job: bytes, spec: RunSpec, told: Told, ending: Ending) -> None:
    try:
        await sandbox.send(job, spec.stdin)
        await listen(sandbox.control, spec.limits, told)
        if told.complete:
            sandbox.finish()
    except ConnectionError:
        return  # the sandbox is gone: what it told before is what there is
    except ProtocolError as error:
        ending.end(RunStatus.KILLED, f"the sandbox broke its protocol: {error}")
