"""Every case, by class."""

from typing import Final

from . import artifacts, confusion, files, kernel, memory, network, output, persistence, processes, secrets

ABUSES: Final = (
    *files.ABUSES,
    *artifacts.ABUSES,
    *secrets.ABUSES,
    *processes.ABUSES,
    *memory.ABUSES,
    *output.ABUSES,
    *network.ABUSES,
    *kernel.ABUSES,
    *persistence.ABUSES,
    *confusion.ABUSES,
)
BY_NAME: Final = {abuse.name: abuse for abuse in ABUSES}
