"""Choice of metering: cgroups where a part of the cgroup tree is delegated to this service, a watchdog elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from skillbus.sandbox.adapters.kernel.cgroup import Cgroups, NotDelegatedError, find_delegated
from skillbus.sandbox.adapters.kernel.watchdog import Watchdog
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Meter, Metering

AUTOMATIC: Final = "auto"
OFF: Final = "off"


class ChosenMetering:
    """`Metering` chosen by the operator: `auto`, `off` (no cgroup), or the folder of a cgroup.

    With `auto`, a watchdog replaces a cgroup that is not usable, and the report says why. An explicit choice has no
    replacement: if the folder, or `cpus`, which only a cgroup can limit, is not usable, every run is refused.
    """

    def __init__(
        self, wanted: str = AUTOMATIC, cpus: float | None = None, find: Callable[[], Path] = find_delegated
    ) -> None:
        self._wanted = wanted
        self._cpus = cpus
        self._find = find
        self._chosen: Metering = Watchdog()

    def prepare(self) -> str:
        try:
            cgroups = self._find_cgroups()
            self._chosen, description = cgroups, cgroups.prepare()
        except NotDelegatedError as reason:
            if self._wanted not in {AUTOMATIC, OFF} or self._cpus is not None:
                raise SandboxUnavailable(
                    f"SKILLBUS_SANDBOX_CGROUP or _CPUS needs a cgroup, and none is usable: {reason}"
                ) from reason
            self._chosen = Watchdog()
            description = f"{self._chosen.prepare()} ({reason})"
        return description

    def create_meter(self) -> Meter:
        return self._chosen.create_meter()

    def _find_cgroups(self) -> Cgroups:
        if self._wanted == OFF:
            raise NotDelegatedError("cgroups are switched off")
        return Cgroups(self._find() if self._wanted == AUTOMATIC else Path(self._wanted), self._cpus)
