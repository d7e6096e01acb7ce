"""Memory of processes, and of the kernel for them."""

from dataclasses import replace
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import MIB

from ..model import USUAL, Abuse, Weakening
from ..weakening import UNFILTERED

_MEMORY: Final = frozenset({RunStatus.MEMORY})
_HELD: Final = "10"
"""Seconds for which memory is held: as long as it takes to be ended for it. Who is not ended need not hold it."""


def _raised(shows: str, *argv: str) -> Weakening:
    return Weakening("its limit raised", (shows,), limits=USUAL, argv=argv)


def _tree(kind: str) -> Abuse:
    return Abuse(
        f"memory_of_a_tree.py: {kind}",
        "memory_of_a_tree.py",
        f"the whole tree's, {kind}",
        _raised("every process kept its part", kind, "4", "40", "0"),
        (kind, "4", "40", _HELD),
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
        Weakening(
            "their number raised", ("kept every socket",), limits=replace(USUAL, sockets=10_000), argv=("6", "0")
        ),
        ("6", _HELD),
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
        _raised("kept every mapping", "20", "30000", "0"),
        ("20", "30000", _HELD),
        replace(USUAL, memory_bytes=144 * MIB),
        _MEMORY,
    ),
    Abuse(
        "memory_of_page_tables.js",
        "memory_of_page_tables.js",
        "page tables count",
        _raised("kept the page tables", "40000", "0"),
        ("40000", _HELD),
        replace(USUAL, memory_bytes=128 * MIB),
        _MEMORY,
    ),
    Abuse(
        "memory_of_buffers.js",
        "memory_of_buffers.js",
        "Node's memory outside its heap",
        _raised("kept every buffer", "160", "0"),
        ("160", f"{_HELD}000"),
        replace(USUAL, memory_bytes=128 * MIB),
        _MEMORY,
    ),
)
