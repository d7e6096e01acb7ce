"""Which metering a machine has: cgroups where a part of their tree was delegated, a watchdog elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from skillbus.sandbox.adapters.kernel.cgroup import Cgroups
from skillbus.sandbox.adapters.kernel.delegation import NotDelegatedError, find_delegated
from skillbus.sandbox.adapters.kernel.watchdog import Watchdog
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.metering import Meter, Metering

AUTOMATIC: Final = "auto"
OFF: Final = "off"

log = structlog.get_logger(__name__)


class ChosenMetering:
    """`Metering` as the operator wants it: `auto`, `off` (no cgroup), or the folder of a cgroup that is ours.

    With `auto` a watchdog takes the place of a cgroup that cannot be had, and says why. What was asked for by name is
    had or refused: a folder, and `cpus`, which only a cgroup can hold.
    """

    def __init__(
        self, wanted: str = AUTOMATIC, cpus: float | None = None, find: Callable[[], Path] = find_delegated
    ) -> None:
        self._wanted = wanted
        self._cpus = cpus
        self._find = find
        self._chosen: Metering = Watchdog()

    def prepare(self) -> str:
        """See `Metering.prepare`."""
        try:
            self._chosen, held = self._cgroups()
        except NotDelegatedError as reason:
            if self._wanted not in {AUTOMATIC, OFF} or self._cpus is not None:
                raise SandboxUnavailable(
                    f"SKILLBUS_SANDBOX_CGROUP or _CPUS asks for a cgroup, which cannot be had: {reason}"
                ) from reason
            self._chosen = Watchdog()
            held = f"{self._chosen.prepare()} ({reason})"
        log.info("sandbox_metering", held=held)
        return held

    def meter(self) -> Meter:
        """See `Metering.meter`."""
        return self._chosen.meter()

    def _cgroups(self) -> tuple[Metering, str]:
        if self._wanted == OFF:
            raise NotDelegatedError("cgroups are switched off")
        cgroups = Cgroups(self._find() if self._wanted == AUTOMATIC else Path(self._wanted), self._cpus)
        return cgroups, cgroups.prepare()
