"""The system call filter, compiled to classic BPF.

The filter is a deny list with a ceiling. System calls newer than the table, and gaps in it, return ENOSYS: additions of
future kernels stay closed until somebody has reviewed them. Everything that Docker's default profile denies is denied
here too (a test compares them). Features that programs probe for and can do without return ENOSYS, forbidden socket
families EAFNOSUPPORT, other denied calls EPERM; a call of a foreign ABI kills the process. Nothing reports what others
do with a file: no inotify, no fanotify, no directory notification and no lease, since `/usr` is the host's.
`sendto`, `setsockopt` and `socketpair` stay open, because asyncio needs them to wake its loop. Requests for larger
socket buffers are ignored: buffers are kernel memory that no limit of a process covers, and programs treat the option
as a hint anyway.

For a run with network access the filter allows TCP and nothing else of the internet families: no datagrams, no raw
sockets, no other stream protocol (MPTCP, SCTP, SMC). It allows only the TCP and IP options that clients commonly set:
options that load code into the kernel, such as TLS, are closed.
"""

import errno
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from skillbus.sandbox.adapters.kernel.denied_syscalls import CEILING, FCHMODAT2, Architecture

KILL: Final = 0x80000000
ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000

# linux/bpf_common.h: the four instructions that this filter is made of.
LOAD: Final = 0x20
JUMP_EQUAL: Final = 0x15
JUMP_AT_LEAST: Final = 0x35
JUMP_ANY_BIT: Final = 0x45
RETURN: Final = 0x06

# struct seccomp_data of linux/seccomp.h: nr, arch, instruction pointer, six 64-bit arguments (little-endian).
_NR: Final = 0
_ARCH: Final = 4
_ARG0: Final = 16
_ARG1: Final = 24
_ARG2: Final = 32

# CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET of linux/sched.h.
_CLONE_NEW: Final = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_TIOCSETD: Final = 0x5423
"""Loads line disciplines, which are rarely maintained kernel modules, for any terminal; the sandbox has terminals."""
# F_SETLEASE, F_NOTIFY and F_SET_FILE_RW_HINT of linux/fcntl.h. Later commands include directory delegations.
_SETLEASE: Final = 1024
_NOTIFY: Final = 1026
_LAST_COMMAND: Final = 1038
# SO_SNDBUF and SO_RCVBUF of asm-generic/socket.h; their FORCE variants need a capability.
_SNDBUF: Final = 7
_RCVBUF: Final = 8
_PERSONALITY_QUERY: Final = 0xFFFFFFFF
_STREAMS: Final = tuple(
    socket.SOCK_STREAM | flags
    for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
)
_OPTIONS: Final = {
    socket.IPPROTO_IP: (socket.IP_TOS,),
    socket.IPPROTO_IPV6: (socket.IPV6_V6ONLY, socket.IPV6_TCLASS),
    socket.IPPROTO_TCP: (
        *(socket.TCP_NODELAY, socket.TCP_CORK, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT),
        *(socket.TCP_QUICKACK, socket.TCP_USER_TIMEOUT),
    ),
}
"""Socket options that may be set, by level."""

UNKNOWN: Final = frozenset(
    {
        *("clone3", "memfd_create", "memfd_secret", "userfaultfd"),
        *("io_uring_setup", "io_uring_enter", "io_uring_register"),
        *("inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch"),
    }
)
"""Calls that return ENOSYS: libraries probe for them and fall back. memfd pages count in no process's memory."""

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def compile_filter(architecture: Architecture, *, network: bool = False) -> bytes:
    """Return the filter as an array of `struct sock_filter`, as bubblewrap reads it. With `network`, TCP is allowed."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in _program(architecture, network=network))


def _program(architecture: Architecture, *, network: bool) -> Iterator[Instruction]:
    yield (LOAD, 0, 0, _ARCH)
    yield (JUMP_EQUAL, 1, 0, architecture.audit)
    yield (RETURN, 0, 0, KILL)
    yield (LOAD, 0, 0, _NR)
    if architecture.foreign_bit is not None:
        yield (JUMP_AT_LEAST, 0, 1, architecture.foreign_bit)
        yield (RETURN, 0, 0, KILL)
    yield (JUMP_EQUAL, 0, 1, FCHMODAT2)
    yield (RETURN, 0, 0, ALLOW)
    yield (JUMP_AT_LEAST, 0, 1, CEILING + 1)
    yield (RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    for gap in architecture.gaps:
        yield from ((JUMP_AT_LEAST, 0, 2, gap.start), (JUMP_AT_LEAST, 1, 0, gap.stop))
        yield (RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    for name, number in sorted(architecture.numbers.items()):
        body = tuple(_NETWORK[name]() if network and name in _NETWORK else _verdict(name))
        yield from ((JUMP_EQUAL, 0, len(body), number), *body)
    yield (RETURN, 0, 0, ALLOW)


def _verdict(name: str) -> Iterator[Instruction]:
    """Yield instructions that end in a verdict. They compare the low 32 bits of arguments: the kernel reads no more."""
    eperm = (RETURN, 0, 0, _ERRNO | errno.EPERM)
    allow = (RETURN, 0, 0, ALLOW)
    match name:
        case "clone":
            yield from ((LOAD, 0, 0, _ARG0), (JUMP_ANY_BIT, 0, 1, _CLONE_NEW), eperm, allow)
        case "socket" | "socketpair":
            family = (RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT)
            yield from ((LOAD, 0, 0, _ARG0), (JUMP_EQUAL, 1, 0, socket.AF_UNIX), family, allow)
        case "ioctl":
            yield (LOAD, 0, 0, _ARG1)
            yield from ((JUMP_EQUAL, 2, 0, _TIOCSTI), (JUMP_EQUAL, 1, 0, _TIOCLINUX), (JUMP_EQUAL, 0, 1, _TIOCSETD))
            yield from (eperm, allow)
        case "fcntl":
            newer = (RETURN, 0, 0, _ERRNO | errno.EINVAL)
            yield from ((LOAD, 0, 0, _ARG1), (JUMP_AT_LEAST, 0, 1, _LAST_COMMAND + 1), newer)
            yield from ((JUMP_EQUAL, 1, 0, _SETLEASE), (JUMP_EQUAL, 0, 1, _NOTIFY), eperm, allow)
        case "setsockopt":
            # Compared by option number alone: options 7 and 8 of other levels belong to closed families.
            ignored = (RETURN, 0, 0, _ERRNO)
            yield (LOAD, 0, 0, _ARG2)
            yield from ((JUMP_EQUAL, 1, 0, _SNDBUF), (JUMP_EQUAL, 0, 1, _RCVBUF), ignored, allow)
        case "personality":
            yield (LOAD, 0, 0, _ARG0)
            yield from ((JUMP_EQUAL, 2, 0, 0), (JUMP_EQUAL, 1, 0, _PERSONALITY_QUERY), eperm, allow)
        case _ if name in UNKNOWN:
            yield (RETURN, 0, 0, _ERRNO | errno.ENOSYS)
        case _:
            yield eperm


def _tcp_socket() -> Iterator[Instruction]:
    refused, allow = (RETURN, 0, 0, _ERRNO | errno.EPROTONOSUPPORT), (RETURN, 0, 0, ALLOW)
    yield from ((LOAD, 0, 0, _ARG0), (JUMP_EQUAL, 0, 1, socket.AF_UNIX), allow)
    yield from ((JUMP_EQUAL, 2, 0, socket.AF_INET), (JUMP_EQUAL, 1, 0, socket.AF_INET6))
    yield from ((RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT), (LOAD, 0, 0, _ARG1), *_one_of(_STREAMS, refused))
    yield from ((LOAD, 0, 0, _ARG2), *_one_of((0, socket.IPPROTO_TCP), refused), allow)


def _tcp_options() -> Iterator[Instruction]:
    refused, allow = (RETURN, 0, 0, _ERRNO | errno.ENOPROTOOPT), (RETURN, 0, 0, ALLOW)
    yield (LOAD, 0, 0, _ARG1)
    of_sockets = tuple(_verdict("setsockopt"))
    yield from ((JUMP_EQUAL, 0, len(of_sockets), socket.SOL_SOCKET), *of_sockets)
    for level, names in _OPTIONS.items():
        body = ((LOAD, 0, 0, _ARG2), *_one_of(names, refused), allow)
        yield from ((JUMP_EQUAL, 0, len(body), level), *body)
    yield refused


def _one_of(values: Sequence[int], otherwise: Instruction) -> Iterator[Instruction]:
    """Yield instructions that continue behind them if the accumulator is one of `values`."""
    for index, value in enumerate(values):
        yield (JUMP_EQUAL, len(values) - index, 0, value)
    yield otherwise


_NETWORK: Final[Mapping[str, Callable[[], Iterator[Instruction]]]] = {
    "socket": _tcp_socket,
    "setsockopt": _tcp_options,
}
"""Rules of calls that differ when TCP is allowed."""
