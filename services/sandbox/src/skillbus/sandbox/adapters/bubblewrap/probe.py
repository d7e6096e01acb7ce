"""Which level of isolation holds on this machine: found by running a check in the real sandbox, strongest first."""

import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.adapters.bubblewrap.orphans import end_orphans
from skillbus.sandbox.adapters.bubblewrap.profile import ENVIRONMENT
from skillbus.sandbox.adapters.bubblewrap.slots import sweep
from skillbus.sandbox.adapters.host_folders import is_open_to_all
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.metering import Metering
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import Level, RunOutcome, RunSpec

_LIMITS: Final = Limits(wall_s=30.0)
_ATTEMPTS: Final = 2
"""Of each level. A machine that starts all its services at once can fail one that holds a second later."""
_ADVICE: Final = (
    "Nothing is run without isolation. On a host, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "and on Ubuntu an AppArmor profile with `userns,`); in a container, give it its seccomp and AppArmor options."
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Probe:
    """Looks at a machine."""

    levels: Sequence[Level]
    """That may be used, from the strongest down."""
    uids: range | None
    """Users of the runs; None when they are the service's own."""
    metering: Metering
    run: Callable[[RunSpec, Level], Awaitable[RunOutcome]]

    async def find_level(self, host: Installation) -> IsolationReport:
        """The first that holds.

        Raises:
            SandboxUnavailable: None does; the message says why, and what to do.
        """
        self._check_user_can_be_changed(host)
        await run_in_thread(partial(end_orphans, self.uids or ()))
        await run_in_thread(partial(sweep, frozenset((*(self.uids or ()), os.geteuid()))))
        held = self.metering.prepare()
        version = await run_in_thread(partial(_version, host))
        reasons: dict[str, list[Level]] = {}
        for level in self.levels:
            reason = await self._try_again(level)
            if reason is None:
                return IsolationReport(level, version, host.runtimes, (*host.notes, held, *_said(reasons)))
            reasons.setdefault(reason, []).append(level)
        raise SandboxUnavailable("; ".join((f"this machine cannot isolate ({version})", *_said(reasons), _ADVICE)))

    def _check_user_can_be_changed(self, host: Installation) -> None:
        if self.uids is None:
            return
        if host.setpriv is None:
            raise SandboxUnavailable(
                "setpriv is missing: install util-linux, or run the service as a user other than root"
            )
        if host.python_prefix is not None and not is_open_to_all(host.python_prefix):
            raise SandboxUnavailable(
                f"the only Python is in {host.python_prefix}, where the users of the runs cannot go: install Debian's "
                "package python3, or run the service as a user other than root"
            )

    async def _try_again(self, level: Level) -> str | None:
        """Why `level` did not hold in any of a few attempts; None when it held in one."""
        reason = None
        for attempt in range(1, _ATTEMPTS + 1):
            reason = await self._try(level)
            if reason is None:
                return None
            log.warning("sandbox_level_failed", level=level, attempt=attempt, reason=reason)
        return reason

    async def _try(self, level: Level) -> str | None:
        """Why `level` does not hold here, found by running the self-check in it; None when it does."""
        with tempfile.TemporaryDirectory(prefix="skillbus-probe-") as folder:
            root = Path(folder)
            root.chmod(0o755)
            root.joinpath("check.py").write_text(read_program("self_check.py"))
            known = ",".join((*ENVIRONMENT, "PWD", "LC_CTYPE"))
            try:
                outcome = await self.run(RunSpec(root, "check.py", Runtime.PYTHON, (known,), limits=_LIMITS), level)
            except SandboxBroken as broken:
                return str(broken)
        if outcome.status is RunStatus.OK and outcome.stdout == b"isolated\n":
            return None
        return f"{outcome.status}: {outcome.detail} {outcome.stderr.decode(errors='replace').strip()}"


def _said(reasons: Mapping[str, Sequence[Level]]) -> Iterator[str]:
    """Each reason once, with the levels that it keeps from holding."""
    for reason, levels in reasons.items():
        yield f"{', '.join(f'level {level}' for level in levels)}: does not hold here: {reason}"


def _version(host: Installation) -> str:
    done = subprocess.run([host.bwrap, "--version"], capture_output=True, text=True, check=False, timeout=10)
    return f"{host.bwrap}: {(done.stdout or done.stderr).strip()}"
