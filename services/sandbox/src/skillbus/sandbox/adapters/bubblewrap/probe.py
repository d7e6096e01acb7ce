"""Probe: finds the strongest isolation level of this machine by running a check in the real sandbox."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.adapters.bubblewrap.profile import ENVIRONMENT
from skillbus.sandbox.adapters.bubblewrap.run_folder import remove_left_folders
from skillbus.sandbox.adapters.host import is_open_to_all, run_in_thread
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.domain.errors import SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport, Metering
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunOutcome, RunSpec

_LIMITS: Final = Limits(wall_s=30.0)
_ATTEMPTS: Final = 2
"""Attempts at each level: a machine that starts all services at once can fail a level that holds a second later."""
_ADVICE: Final = (
    "No skill is run without isolation. On a host, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "and on Ubuntu an AppArmor profile with `userns,`); in a container, give it its seccomp and AppArmor options."
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LevelProbe:
    """Search for the strongest level that this machine can provide."""

    levels: Sequence[IsolationLevel]
    """Allowed levels, strongest first."""
    user: int | None
    """User of the runs; None if it is the service's own."""
    metering: Metering
    run: Callable[[RunSpec, IsolationLevel], Awaitable[RunOutcome]]

    async def find_level(self, host: Installation) -> IsolationReport:
        """Return a report on the first level that holds. Raises SandboxUnavailable with all reasons if none does."""
        self._check_user_change(host)
        owners = frozenset({os.geteuid()} if self.user is None else {os.geteuid(), self.user})
        await run_in_thread(partial(remove_left_folders, owners))
        if self.user is not None:
            await run_in_thread(partial(end_left_processes, self.user))
        metering = self.metering.prepare()
        ask = partial(
            subprocess.run, [host.bwrap, "--version"], capture_output=True, text=True, check=False, timeout=10
        )
        answer = await run_in_thread(ask)
        version = f"{host.bwrap}: {(answer.stdout or answer.stderr).strip()}"
        failures: dict[str, list[IsolationLevel]] = {}
        for level in self.levels:
            reason = await self._try_level_again(level)
            if reason is None:
                return IsolationReport(level, version, host.runtimes, (*host.notes, metering, *_describe(failures)))
            failures.setdefault(reason, []).append(level)
        raise SandboxUnavailable("; ".join((f"this machine cannot isolate ({version})", *_describe(failures), _ADVICE)))

    def _check_user_change(self, host: Installation) -> None:
        if self.user is None:
            return
        if host.setpriv is None:
            raise SandboxUnavailable(
                "setpriv is missing: install util-linux, or run the service as a user other than root"
            )
        if host.python_prefix is not None and not is_open_to_all(host.python_prefix):
            raise SandboxUnavailable(
                f"the only Python is in {host.python_prefix}, which the user of the runs cannot enter: install "
                "Debian's package python3, or run the service as a user other than root"
            )

    async def _try_level_again(self, level: IsolationLevel) -> str | None:
        """Return why `level` failed in each of a few attempts; None if it held in one."""
        reason = None
        for attempt in range(1, _ATTEMPTS + 1):
            reason = await self._try_level(level)
            if reason is None:
                return None
            log.warning("sandbox_level_failed", level=level, attempt=attempt, reason=reason)
        return reason

    async def _try_level(self, level: IsolationLevel) -> str | None:
        """Run the self-check at `level`. Return why it failed; None if it passed."""
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


def end_left_processes(user: int) -> None:
    """Kill the processes of sandboxes of `user` that have lost their parent: process 1 of the machine has adopted them.

    When a service is killed in the first millisecond of a start, the child of bubblewrap waits for bubblewrap forever.
    """
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended
            found = dict(line.split(":", 1) for line in folder.joinpath("status").read_text().splitlines())
            is_adopted = int(found["PPid"]) == 1 and len(found.get("NSpid", "").split()) > 1
            if is_adopted and int(found["Uid"].split()[0]) == user:
                os.kill(int(folder.name), signal.SIGKILL)
                log.warning("sandbox_process_left", pid=int(folder.name))


def _describe(failures: Mapping[str, Sequence[IsolationLevel]]) -> Iterator[str]:
    """Yield each reason once, with the levels that it rules out."""
    for reason, levels in failures.items():
        yield f"{', '.join(f'level {level}' for level in levels)}: does not hold here: {reason}"
