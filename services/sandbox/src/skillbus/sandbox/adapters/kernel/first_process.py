"""Process 1 of every sandbox: six system calls, in machine code because every run starts one.

    close_range(3, 65535, 0)                    keeps nothing of the host that bubblewrap was started from
    rt_sigaction(SIGCHLD, {SIG_IGN}, NULL, 8)   the kernel reaps orphans by itself
    prctl(PR_SET_DUMPABLE, 0)                   no process of the sandbox can inspect it
    write(1, …, 1)                              signals to its agent that the sandbox is made
    read(0, …, 1)                               waits until the agent has ended
    exit_group(0)                               ends, and with it every process of the sandbox

It handles no signal, so the kernel delivers none that is sent from inside. Sources: System V ABI of x86-64 and AArch64,
`include/uapi/linux/elf.h`, elf(5); system call numbers as in `syscalls.py`.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from skillbus.sandbox.adapters.kernel.denied_syscalls import Architecture


class _Address(Enum):
    """Address that is known once the program is assembled."""

    ACTION = auto()
    """Address of `struct sigaction`, the only data: the handler is SIG_IGN, which is 1; all other fields are 0."""
    STACK = auto()


_Call = tuple[str, tuple[int | _Address, ...]]
_CALLS: Final[tuple[_Call, ...]] = (
    ("close_range", (3, 0xFFFF, 0)),
    ("rt_sigaction", (17, _Address.ACTION, 0, 8)),
    ("prctl", (4, 0)),
    ("write", (1, _Address.ACTION, 1)),
    ("read", (0, _Address.STACK, 1)),
    ("exit_group", (0,)),
)
_ACTION: Final = struct.pack("<4Q", 1, 0, 0, 0)
_BASE: Final = 0x400000
_PAGE: Final = 0x10000
"""Largest page size of these processors."""
_HEADERS: Final = 64 + 2 * 56
_LOAD, _STACK, _EXECUTABLE, _WRITABLE, _READABLE = 1, 0x6474E551, 1, 2, 4


def _x86_64(number: int, arguments: tuple[int | _Address, ...], action: int) -> bytes:
    """Assemble one call. `action` is the distance from its first byte to the data."""
    code = b"\xb8" + struct.pack("<I", number)  # mov eax, number
    into = (b"\xbf", b"\xbe", b"\xba", b"\x41\xba")  # mov edi / esi / edx / r10d, value
    for register, value in zip(into, arguments, strict=False):
        if value is _Address.ACTION:
            code += b"\x48\x8d\x35" + struct.pack("<i", action - len(code) - 7)  # lea rsi, [rip + …]
        elif value is _Address.STACK:
            code += b"\x48\x89\xe6"  # mov rsi, rsp
        else:
            code += register + struct.pack("<I", value)
    return code + b"\x0f\x05"  # syscall


def _aarch64(number: int, arguments: tuple[int | _Address, ...], action: int) -> bytes:
    """Assemble one call. `action` is the distance from its first byte to the data."""
    words = [0xD2800000 | number << 5 | 8]  # mov x8, number
    for register, value in enumerate(arguments):
        if value is _Address.ACTION:
            away = action - 4 * len(words)
            words.append(0x10000000 | (away & 3) << 29 | (away >> 2 & 0x7FFFF) << 5 | register)  # adr xN, …
        elif value is _Address.STACK:
            words.append(0x910003E0 | register)  # mov xN, sp
        else:
            words.append(0xD2800000 | value << 5 | register)  # mov xN, value
    return struct.pack(f"<{len(words) + 1}I", *words, 0xD4000001)  # svc #0


@dataclass(frozen=True, slots=True)
class _Machine:
    """Instruction set of one processor."""

    elf: int
    """Machine number EM_* of the ELF header."""
    numbers: Mapping[str, int]
    call: Callable[[int, tuple[int | _Address, ...], int], bytes]


_MACHINES: Final = {
    "x86_64": _Machine(
        62,
        {"close_range": 436, "rt_sigaction": 13, "prctl": 157, "write": 1, "read": 0, "exit_group": 231},
        _x86_64,
    ),
    "aarch64": _Machine(
        183,
        {"close_range": 436, "rt_sigaction": 134, "prctl": 167, "write": 64, "read": 63, "exit_group": 94},
        _aarch64,
    ),
}


def assemble_first_process(architecture: Architecture) -> bytes:
    """Return the program as a static ELF file of about 300 bytes."""
    machine = _MACHINES[architecture.name]

    def assembled(end: int) -> bytes:
        code = b""
        for name, arguments in _CALLS:
            code += machine.call(machine.numbers[name], arguments, end - len(code))
        return code

    code = assembled(len(assembled(0)))
    size = _HEADERS + len(code) + len(_ACTION)
    kinds = b"\x7fELF" + bytes((2, 1, 1))  # 64 bits, little-endian, version 1
    elf = struct.pack("<16sHHIQQQIHHHHHH", kinds, 2, machine.elf, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    whole = struct.pack("<IIQQQQQQ", _LOAD, _READABLE | _EXECUTABLE, 0, _BASE, _BASE, size, size, _PAGE)
    stack = struct.pack("<IIQQQQQQ", _STACK, _READABLE | _WRITABLE, 0, 0, 0, 0, 0, 16)  # not executable
    return elf + whole + stack + code + _ACTION
