"""Checks before a run: which level the machine offers, and whether the run's script and names are acceptable."""

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable

import structlog

from skillbus.sandbox.domain.errors import RunRejected, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.spec import RunSpec, check_names

log = structlog.get_logger(__name__)


class CachedProbe:
    """Result of probing the machine. A success is kept for good, a refusal for `refused_for_s` seconds."""

    def __init__(self, probe: Callable[[], Awaitable[IsolationReport]], refused_for_s: float) -> None:
        self._probe = probe
        self._probing = asyncio.Lock()
        self._refused_for_s = refused_for_s
        self._refused: SandboxUnavailable | None = None
        self._refused_until = 0.0
        self.report: IsolationReport | None = None
        """The report of the successful probe; None before."""

    async def get_report(self) -> IsolationReport:
        """Return the report, probing if needed. Raises SandboxUnavailable if the machine cannot isolate runs."""
        async with self._probing:
            if self.report is not None:
                return self.report
            if self._refused is not None and time.monotonic() < self._refused_until:
                raise self._refused.with_traceback(None)
            try:
                self.report = await self._probe()
            except SandboxUnavailable as refused:
                self._refused, self._refused_until = refused, time.monotonic() + self._refused_for_s
                log.error("sandbox_unavailable", reason=str(refused))  # noqa: TRY400 - the reason names the machine
                raise
        log.info("sandbox_ready", isolation=self.report.level, engine=self.report.engine, notes=self.report.notes)
        return self.report


def check_run(spec: RunSpec) -> None:
    """Check the file names of a run, and that its script is a regular file inside the skill.

    Raises:
        RunRejected: A name is unsafe, the script does not exist, or a link leads out of the skill.
    """
    check_names(spec)
    if _has_no_links(spec):
        return
    root = os.path.realpath(spec.skill_root)
    script = os.path.realpath(os.path.join(root, spec.script))  # noqa: PTH118 - pathlib takes four times as long
    if not script.startswith(f"{root}/") or not os.path.isfile(script):  # noqa: PTH113 - the same
        raise RunRejected(f"script {spec.script!r} is not a file of the skill")


def _has_no_links(spec: RunSpec) -> bool:
    """Return True if no part of the script's path is a link: the usual case, answered without resolving paths."""
    path = str(spec.skill_root)
    *folders, name = spec.script.split("/")
    try:
        for folder in folders:
            path = f"{path}/{folder}"
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                return False
        return stat.S_ISREG(os.lstat(f"{path}/{name}").st_mode)
    except OSError:
        return False
