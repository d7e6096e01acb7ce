"""Limits of a run."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; times in seconds, sizes in bytes.

    The defaults are measured: ordinary Python, Node and bash skills run, and every attack of the abuse suite is held.
    """

    wall_s: float = 60.0
    cpu_s: int = 60
    """CPU time of each process."""
    memory_bytes: int = 512 * MIB
    """Memory of the whole process tree, polled. Also the address space of each Python or bash process."""
    node_data_bytes: int = 768 * MIB
    """Data segment of a Node process: V8 reserves gigabytes of address space, which therefore cannot be limited."""
    processes: int = 64
    """Processes and threads."""
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
    """Replaces `sockets` for a run with a network: one end of a TCP connection buffers up to 5 MiB (measured)."""
    sockets: int = 512
    """Sockets of the whole tree. Each buffers 208 KiB by default; the seccomp filter allows no larger buffer."""
    input_bytes: int = 64 * MIB
    """Standard input and files together."""
    input_files: int = 64

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the file systems, which are fixed when a sandbox starts."""
        return self.work_bytes, self.tmp_bytes, self.shm_bytes
