"""The filter's verdicts, by running its instructions as the kernel would."""

import ctypes
import ctypes.util
import errno
import json
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.kernel.denied_syscalls import ARCHITECTURES, CEILING, FCHMODAT2, Architecture
from skillbus.sandbox.adapters.kernel.seccomp import (
    ALLOW,
    JUMP_ANY_BIT,
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    KILL,
    LOAD,
    RETURN,
    UNKNOWN,
    compile_filter,
)

CHECKED = {"clone", "socket", "socketpair", "ioctl", "personality", "setsockopt", "fcntl"}
"""Calls that are allowed or denied by an argument."""
DOCKER = Path(__file__).parents[3] / "deploy" / "seccomp-sandbox.json"
AARCH64, X86_64 = ARCHITECTURES["aarch64"], ARCHITECTURES["x86_64"]
EVERY = pytest.mark.parametrize("architecture", [X86_64, AARCH64], ids=lambda architecture: architecture.name)


def verdict(
    architecture: Architecture, number: int, *args: int, audit: int | None = None, network: bool = False
) -> int:
    """Interpret the compiled filter on one `struct seccomp_data`."""
    values = (*args, 0, 0, 0, 0, 0, 0)[:6]
    call = struct.pack("<IIQ6Q", number, architecture.audit if audit is None else audit, 0, *values)
    program = list(struct.iter_unpack("<HBBI", compile_filter(architecture, network=network)))
    at, accumulator = 0, 0
    for _ in range(len(program)):
        code, true, false, constant = program[at]
        at += 1
        if code == LOAD:
            accumulator = int(struct.unpack_from("<I", call, constant)[0])
        elif code == RETURN:
            return int(constant)
        else:
            holds = {
                JUMP_EQUAL: accumulator == constant,
                JUMP_AT_LEAST: accumulator >= constant,
                JUMP_ANY_BIT: bool(accumulator & constant),
            }[code]
            at += true if holds else false
    raise AssertionError("the filter ends without a verdict")


def _denied(architecture: Architecture) -> frozenset[str]:
    """Calls that return EPERM for all arguments."""
    return frozenset(architecture.numbers) - UNKNOWN - CHECKED


def errno_of(found: int) -> int | None:
    return found & 0xFFFF if found & 0xFFFF0000 == 0x00050000 else None


@EVERY
def test_every_denied_call_answers_eperm_whatever_its_arguments(architecture: Architecture) -> None:
    for name in _denied(architecture):
        assert errno_of(verdict(architecture, architecture.numbers[name], 1, 1)) == errno.EPERM, name
    assert {"unshare", "setns", "mount", "pivot_root", "ptrace", "bpf", "keyctl", "shmget", "mq_open"} <= _denied(
        architecture
    )


@EVERY
def test_features_that_programs_probe_for_look_absent(architecture: Architecture) -> None:
    for name in UNKNOWN & architecture.numbers.keys():
        assert errno_of(verdict(architecture, architecture.numbers[name])) == errno.ENOSYS, name


@EVERY
def test_calls_newer_than_the_table_look_absent_but_fchmodat2(architecture: Architecture) -> None:
    for number in (CEILING + 1, CEILING + 5, 463, 511, 547, 2**20):
        assert errno_of(verdict(architecture, number)) == errno.ENOSYS, number
    futex_waitv = 449
    assert verdict(architecture, futex_waitv) == ALLOW
    assert verdict(architecture, FCHMODAT2) == ALLOW


@EVERY
def test_calls_that_a_later_kernel_puts_into_a_gap_look_absent(architecture: Architecture) -> None:
    for gap in architecture.gaps:
        for number in gap:
            assert errno_of(verdict(architecture, number)) == errno.ENOSYS, number
    last_before, pidfd_send_signal = architecture.gaps[-1].start - 1, architecture.gaps[-1].stop
    rseq_or_kexec = ALLOW if architecture is X86_64 else 0x00050000 | errno.EPERM
    assert verdict(architecture, last_before) == rseq_or_kexec
    assert verdict(architecture, pidfd_send_signal) == ALLOW


@EVERY
def test_a_foreign_abi_kills_the_process(architecture: Architecture) -> None:
    """Also that of the other architecture: its numbers mean other calls."""
    i386, arm, riscv64 = 0x40000003, 0x40000028, 0xC00000F3
    other = AARCH64 if architecture is X86_64 else X86_64
    for audit in (i386, arm, riscv64, other.audit, 0):
        assert verdict(architecture, 1, audit=audit) == KILL, hex(audit)


def test_an_x32_call_kills_the_process() -> None:
    assert verdict(X86_64, 0x40000000 | 39) == KILL
    assert verdict(X86_64, 0xFFFFFFFF) == KILL


@EVERY
def test_the_kernel_would_take_the_program(architecture: Architecture) -> None:
    """As its own check: no more than 4096 instructions, each jump forward to one of them, a verdict at the end."""
    program = list(struct.iter_unpack("<HBBI", compile_filter(architecture)))
    assert len(program) <= 4096
    assert program[-1][0] == RETURN
    for at, (code, true, false, constant) in enumerate(program):
        assert code in {LOAD, RETURN, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT}
        assert at + 1 + max(true, false) < len(program) or code == RETURN
        assert code != LOAD or (constant % 4 == 0 and constant < 64)


@EVERY
def test_only_unix_sockets_can_be_made(architecture: Architecture) -> None:
    for call in ("socket", "socketpair"):
        number = architecture.numbers[call]
        assert verdict(architecture, number, 1) == ALLOW
        for family in (0, 2, 10, 16, 17, 38, 40, 44):
            assert errno_of(verdict(architecture, number, family)) == errno.EAFNOSUPPORT, family


@EVERY
def test_processes_and_threads_can_be_made_but_no_namespace(architecture: Architecture) -> None:
    number = architecture.numbers["clone"]
    sigchld, thread = 17, 0x003D0F00
    assert verdict(architecture, number, sigchld) == ALLOW
    assert verdict(architecture, number, thread) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert errno_of(verdict(architecture, number, sigchld | flag)) == errno.EPERM, hex(flag)


@EVERY
def test_terminal_injection_is_refused_also_with_high_bits_set(architecture: Architecture) -> None:
    number = architecture.numbers["ioctl"]
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32, 0x541C | 1 << 63, 0x5423, 0x5423 | 1 << 32):
        assert errno_of(verdict(architecture, number, 0, request)) == errno.EPERM, hex(request)
    assert verdict(architecture, number, 0, 0x5413) == ALLOW


@EVERY
def test_nothing_reports_what_others_do_with_a_file(architecture: Architecture) -> None:
    for name in ("inotify_init1", "inotify_add_watch", "inotify_rm_watch"):
        assert errno_of(verdict(architecture, architecture.numbers[name])) == errno.ENOSYS, name
    fcntl, (set_lease, notify, newer) = architecture.numbers["fcntl"], (1024, 1026, 1039)
    for command in (set_lease, notify, notify | 1 << 32):
        assert errno_of(verdict(architecture, fcntl, 3, command)) == errno.EPERM, command
    assert errno_of(verdict(architecture, fcntl, 3, newer)) == errno.EINVAL
    for command in (*range(17), 1025, 1030, 1031, 1033, 1038):
        assert verdict(architecture, fcntl, 3, command) == ALLOW, command


@EVERY
def test_the_personality_can_be_asked_but_not_changed(architecture: Architecture) -> None:
    number = architecture.numbers["personality"]
    assert verdict(architecture, number, 0) == ALLOW
    assert verdict(architecture, number, 0xFFFFFFFF) == ALLOW
    assert errno_of(verdict(architecture, number, 0x0040000)) == errno.EPERM


@EVERY
def test_a_socket_s_buffer_cannot_grow_and_programs_do_not_notice(architecture: Architecture) -> None:
    number, level = architecture.numbers["setsockopt"], 1
    for option in (7, 8, 7 | 1 << 32):
        assert errno_of(verdict(architecture, number, 3, level, option)) == 0
    for option in (1, 2, 9, 16, 20, 21):
        assert verdict(architecture, number, 3, level, option) == ALLOW


def test_what_interpreters_live_on_is_allowed() -> None:
    read, write, mmap, execve, futex, sendto, setsockopt, openat = 0, 1, 9, 59, 202, 44, 54, 257
    for number in (read, write, mmap, execve, futex, sendto, setsockopt, openat):
        assert verdict(X86_64, number) == ALLOW, number


@pytest.fixture(scope="session")
def libseccomp() -> ctypes.CDLL:
    path = ctypes.util.find_library("seccomp")
    if path is None:
        pytest.skip("libseccomp is not installed (Debian: apt-get install libseccomp2)")
    library = ctypes.CDLL(path)
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    return library


def names_of(library: ctypes.CDLL, architecture: Architecture) -> Mapping[int, str]:
    """Every call below the ceiling that libseccomp knows, by its number."""
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    names = {}
    for number in range(CEILING + 1):
        name = library.seccomp_syscall_resolve_num_arch(ctypes.c_uint32(architecture.audit), number)
        if name is not None:
            names[number] = ctypes.string_at(name).decode()
            free(name)
    return names


@EVERY
def test_the_numbers_are_those_of_libseccomp(architecture: Architecture, libseccomp: ctypes.CDLL) -> None:
    names = names_of(libseccomp, architecture)
    for name, number in architecture.numbers.items():
        found = libseccomp.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(architecture.audit), name.encode())
        assert found == number, name
        assert names[number] == name


@EVERY
def test_every_number_below_the_ceiling_is_one_that_libseccomp_names_or_in_a_gap(
    architecture: Architecture, libseccomp: ctypes.CDLL
) -> None:
    in_gaps = {number for gap in architecture.gaps for number in gap}
    assert set(range(CEILING + 1)) - in_gaps <= names_of(libseccomp, architecture).keys()


@EVERY
def test_what_docker_s_default_profile_closes_is_closed_here_too(
    architecture: Architecture, libseccomp: ctypes.CDLL
) -> None:
    """By the profile for the sandbox's container, which says where it goes beyond Docker's own."""
    rules = json.loads(DOCKER.read_text())["syscalls"]
    docker = {name for rule in rules if not rule["comment"].startswith("more") for name in rule["names"]}
    names = names_of(libseccomp, architecture)
    allowed = {name for number, name in names.items() if verdict(architecture, number) == ALLOW}
    assert len(allowed) > 200
    assert allowed - docker <= {"clone"}


@EVERY
def test_with_a_network_tcp_is_open_and_nothing_else_of_the_internet(architecture: Architecture) -> None:
    def opened(*args: int) -> int | None:
        return errno_of(verdict(architecture, architecture.numbers["socket"], *args, network=True))

    for family in (socket.AF_INET, socket.AF_INET6):
        for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
            assert opened(family, socket.SOCK_STREAM | flags, 0) is None
            assert opened(family, socket.SOCK_STREAM | flags, socket.IPPROTO_TCP) is None
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, 10, 0x101, 0x80002):
            assert opened(family, kind, 0) == errno.EPROTONOSUPPORT
        for protocol in (socket.IPPROTO_SCTP, 256, 262, socket.IPPROTO_UDP):  # 256 is SMC, 262 MPTCP
            assert opened(family, socket.SOCK_STREAM, protocol) == errno.EPROTONOSUPPORT
    for other in (socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, 38, 43, 44):  # ALG, SMC, XDP
        assert opened(other, socket.SOCK_STREAM, 0) == errno.EAFNOSUPPORT
    assert opened(socket.AF_UNIX, socket.SOCK_DGRAM, 0) is None


@EVERY
def test_with_a_network_only_the_options_that_clients_set_can_be_set(architecture: Architecture) -> None:
    def set_option(level: int, name: int) -> int | None:
        return errno_of(verdict(architecture, architecture.numbers["setsockopt"], 3, level, name, network=True))

    for name in (socket.SO_KEEPALIVE, socket.SO_REUSEADDR, socket.SO_LINGER, socket.SO_RCVTIMEO):
        assert set_option(socket.SOL_SOCKET, name) is None
    assert set_option(socket.SOL_SOCKET, socket.SO_SNDBUF) == set_option(socket.SOL_SOCKET, socket.SO_RCVBUF) == 0
    assert set_option(socket.IPPROTO_TCP, socket.TCP_NODELAY) is None
    assert set_option(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) is None
    tcp_congestion, tcp_ulp, tcp_md5sig = 13, 31, 14
    for name in (tcp_congestion, tcp_ulp, tcp_md5sig):
        assert set_option(socket.IPPROTO_TCP, name) == errno.ENOPROTOOPT
    for level, name in ((socket.IPPROTO_IP, 64), (socket.IPPROTO_IP, 35), (132, 1), (282, 1)):
        assert set_option(level, name) == errno.ENOPROTOOPT


@EVERY
def test_with_a_network_every_other_call_is_judged_as_without(architecture: Architecture) -> None:
    for name, number in architecture.numbers.items():
        if name in {"socket", "setsockopt"}:
            continue
        for args in ((0, 0, 0), (1, 1, 1), (0x10000000, 0x5412, 0)):
            assert verdict(architecture, number, *args, network=True) == verdict(architecture, number, *args)
