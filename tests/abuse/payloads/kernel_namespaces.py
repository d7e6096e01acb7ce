"""New namespaces, in which a user becomes root and the kernel's attack surface opens."""

import ctypes
import os
import struct
from pathlib import Path

from tests.abuse.payloads.verdict import LIBC, attempt, call, done, numbers, processes, through

FLAGS = {
    "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000,
    "net": 0x40000000,
}  # fmt: skip
TIME, USER, SIGCHLD = 0x80, FLAGS["user"], 17
CALLS = numbers(
    {"clone": 56, "unshare": 272, "setns": 308, "clone3": 435},
    {"clone": 220, "unshare": 97, "setns": 268, "clone3": 435},
)


def clones(number: int, *arguments: int) -> bool:
    """Whether a clone worked; its child ends at once."""
    result, _ = call(number, *arguments)
    if result == 0:
        os._exit(0)
    if result > 0:
        os.waitpid(result, 0)
    return result > 0


for name, flag in FLAGS.items():
    if any(clones(CALLS["clone"], wanted | SIGCHLD, 0, 0, 0, 0) for wanted in (flag, flag | USER, flag | 1 << 40)):
        through(f"cloned into a new {name} namespace")
for name, flag in {**FLAGS, "time": TIME}.items():
    child = os.fork()
    if child == 0:
        os._exit(0 if call(CALLS["unshare"], flag)[0] == 0 or call(CALLS["unshare"], flag | USER)[0] == 0 else 1)
    if os.waitpid(child, 0)[1] == 0:
        through(f"unshared the {name} namespace")
structure = ctypes.create_string_buffer(struct.pack("<8Q", USER, 0, 0, 0, SIGCHLD, 0, 0, 0), 64)
if clones(CALLS["clone3"], ctypes.addressof(structure), 64):
    through("cloned by clone3")
for process in processes():
    for kind in ("user", "mnt", "net"):
        try:
            descriptor = os.open(process / "ns" / kind, os.O_RDONLY)
        except OSError:
            continue
        if LIBC.setns(descriptor, 0) == 0:
            through(f"joined a {kind} namespace")
attempt("named users of the namespace", Path("/proc/self/uid_map").write_text, "0 65534 1")
done()
