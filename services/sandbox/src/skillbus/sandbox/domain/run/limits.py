"""What one run may use."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; times in seconds, sizes in bytes.

    The defaults were measured: they let ordinary Python, Node and bash skills run, and hold each attack tried on them.
    """

    wall_s: float = 60.0
    cpu_s: int = 60
    """Of each process."""
    memory_bytes: int = 512 * MIB
    """Of the whole tree, polled; a Python or bash process has it as its address space as well."""
    node_data_bytes: int = 768 * MIB
    """Data segment of a Node process: V8 reserves gigabytes of address space, so that cannot be limited."""
    processes: int = 64
    """Threads count."""
    open_files: int = 128
    file_bytes: int = 32 * MIB
    output_bytes: int = 10 * MIB
    """Standard output and standard error together."""
    artifacts: int = 64
    artifacts_bytes: int = 32 * MIB
    work_bytes: int = 64 * MIB
    tmp_bytes: int = 64 * MIB
    shm_bytes: int = 16 * MIB
    inodes: int = 20_000
    """Files of all writable file systems together: tmpfs inodes are kernel memory that no rlimit covers."""
    network_sockets: int = 96
    """Instead of the next where a run has a network: one end of a TCP connection buffers up to 5 MiB, measured."""
    sockets: int = 512
    """Of the whole tree. One buffers 208 KiB by Linux's default, and the filter lets it ask for no more."""
    input_bytes: int = 64 * MIB
    """Standard input and files together."""
    input_files: int = 64

    @property
    def sizes(self) -> tuple[int, ...]:
        """What is fixed when a sandbox starts: the sizes of its file systems."""
        return self.work_bytes, self.tmp_bytes, self.shm_bytes
