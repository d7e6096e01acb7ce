"""Memory of processes, and of the kernel for them."""

from dataclasses import replace
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import MIB

from ..model import USUAL, Abuse, Weakening
from ..weakening import UNFILTERED

_MEMORY: Final = frozenset({RunStatus.MEMORY})


def _tree(kind: str) -> Abuse:
    return Abuse(
        f"memory_of_a_tree.py: {kind}",
        "memory_of_a_tree.py",
        f"the whole tree's, {kind}",
        Weakening("its limit raised", ("every process kept its part",), limits=USUAL),
        (kind, "4", "40"),
        replace(USUAL, memory_bytes=96 * MIB),
        _MEMORY,
    )


ABUSES: Final = (
    Abuse(
        "memory_of_one.py",
        "memory_of_one.py",
        "one process's",
        Weakening("its limit raised", ("took it all",), limits=USUAL),
        ("96",),
        replace(USUAL, memory_bytes=64 * MIB),
    ),
    _tree("private"),
    _tree("shared"),
    Abuse(
        "memory_without_a_process.py",
        "memory_without_a_process.py",
        "no memory that belongs to no process: files in memory, segments, queues",
        Weakening("without the filter", ("filled files in memory", "made a segment that nobody maps"), UNFILTERED),
    ),
    Abuse(
        "memory_of_pipes.py",
        "memory_of_pipes.py",
        "pipes, by the number of open files",
        Weakening("their number raised", ("the pipes hold more",), limits=USUAL),
        ("20",),
        replace(USUAL, open_files=32),
    ),
    Abuse(
        "memory_of_sockets.py",
        "memory_of_sockets.py",
        "sockets of the tree are counted",
        Weakening("their number raised", ("kept every socket",), limits=replace(USUAL, sockets=10_000)),
        ("6", "1.5"),
        ends_by=_MEMORY,
    ),
    Abuse(
        "memory_of_one_socket.py",
        "memory_of_one_socket.py",
        "and none holds more than others",
        Weakening("without the filter", ("a socket holds more than others",), UNFILTERED),
    ),
    Abuse(
        "memory_of_descriptors_in_flight.py",
        "memory_of_descriptors_in_flight.py",
        "descriptors that nobody has open are limited",
        Weakening("open files raised", ("sent every descriptor",), limits=replace(USUAL, open_files=1024)),
        ("400",),
        replace(USUAL, open_files=64),
    ),
    Abuse(
        "memory_of_mappings.py",
        "memory_of_mappings.py",
        "mappings count, used or not",
        Weakening("its limit raised", ("kept every mapping",), limits=USUAL),
        ("20", "30000"),
        replace(USUAL, memory_bytes=144 * MIB),
        _MEMORY,
    ),
    Abuse(
        "memory_of_page_tables.js",
        "memory_of_page_tables.js",
        "page tables count",
        Weakening("its limit raised", ("kept the page tables",), limits=USUAL),
        ("40000", "1"),
        replace(USUAL, memory_bytes=128 * MIB),
        _MEMORY,
    ),
    Abuse(
        "memory_of_buffers.js",
        "memory_of_buffers.js",
        "Node's memory outside its heap",
        Weakening("its limit raised", ("kept every buffer",), limits=USUAL),
        ("160",),
        replace(USUAL, memory_bytes=128 * MIB),
        _MEMORY,
    ),
)
