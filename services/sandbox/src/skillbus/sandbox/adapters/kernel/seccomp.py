"""The system call filter, compiled to classic BPF.

A deny list under a ceiling: calls newer than the table answer ENOSYS, and so do the gaps in it, so that what future
kernels add is closed until it is looked at. What Docker's default profile closes is closed here as well (a test).
Features that programs probe for and do without also answer ENOSYS, forbidden socket families EAFNOSUPPORT, the rest
EPERM; a call of a foreign ABI kills the process. `sendto`, `setsockopt` and `socketpair` stay open: asyncio's wakeups
need them. Only a socket's buffer cannot be made larger, which is kernel memory that no limit of a process covers; that
option is ignored rather than refused, for it is but a wish everywhere.

Of a run that may reach the network, the filter lets TCP through and nothing else of the internet's families: no
datagrams, no raw sockets, no other protocol over a stream (MPTCP, SCTP, SMC), and of TCP's and IP's options only what
clients set, so that those that load code into the kernel (as TLS) stay closed.
"""

import errno
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from skillbus.sandbox.adapters.kernel.syscalls import CEILING, FCHMODAT2, Architecture

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
"""Loads line disciplines, modules that few look after, for any terminal; the sandbox has some of its own."""
# SO_SNDBUF and SO_RCVBUF of asm-generic/socket.h; the FORCE ones want a capability.
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
"""Those that may be set, by their level."""

UNKNOWN: Final = frozenset(
    {"clone3", "memfd_create", "memfd_secret", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd"}
)
"""Answer ENOSYS: libraries ask for them and go another way. memfd pages are in no process's memory figures."""
CHECKED: Final = frozenset({"clone", "socket", "socketpair", "ioctl", "personality", "setsockopt"})
"""Allowed or not by an argument."""

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def denied(architecture: Architecture) -> frozenset[str]:
    """The calls that answer EPERM whatever their arguments."""
    return frozenset(architecture.numbers) - UNKNOWN - CHECKED


def filter_program(architecture: Architecture, *, network: bool = False) -> tuple[Instruction, ...]:
    """The filter, an instruction an item; with `network`, TCP is open."""
    return tuple(_program(architecture, network=network))


def compile_filter(architecture: Architecture, *, network: bool = False) -> bytes:
    """The filter as an array of `struct sock_filter`, which is what bubblewrap reads."""
    program = filter_program(architecture, network=network)
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


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
        yield from _rule(name, number, network=network)
    yield (RETURN, 0, 0, ALLOW)


def _rule(name: str, number: int, *, network: bool) -> Iterator[Instruction]:
    body = tuple(_NETWORK[name]() if network and name in _NETWORK else _verdict(name))
    yield (JUMP_EQUAL, 0, len(body), number)
    yield from body


def _verdict(name: str) -> Iterator[Instruction]:
    """Instructions that end in a verdict. Arguments are compared by their low 32 bits: all that the kernel reads."""
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
        case "setsockopt":
            # By the name alone: options 7 and 8 of other levels belong to families that are closed.
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
    """Goes on behind it when the accumulator is one of `values`."""
    for index, value in enumerate(values):
        yield (JUMP_EQUAL, len(values) - index, 0, value)
    yield otherwise


_NETWORK: Final[Mapping[str, Callable[[], Iterator[Instruction]]]] = {
    "socket": _tcp_socket,
    "setsockopt": _tcp_options,
}
"""What is judged otherwise when TCP is open."""
