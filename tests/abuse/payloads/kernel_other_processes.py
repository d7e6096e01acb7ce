"""Into the memory of another process: of process 1, which is not filtered by its own will, and of a neighbour."""

import os
import time

from tests.abuse.payloads.verdict import call, done, numbers, processes, through

CALLS = numbers(
    {
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "pidfd_getfd": 438,
        "process_madvise": 440,
    },
    {
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "pidfd_getfd": 438,
        "process_madvise": 440,
    },
)
child = os.fork()
if child == 0:
    time.sleep(5)
    os._exit(0)
ATTACH, SEIZE = 16, 0x4206
for name, pid in {"process 1": 1, "a neighbour": child, "its parent": os.getppid()}.items():
    if call(CALLS["ptrace"], SEIZE, pid, 0, 0)[0] == 0 or call(CALLS["ptrace"], ATTACH, pid, 0, 0)[0] == 0:
        through(f"traced {name}")
    for other in ("process_vm_readv", "process_vm_writev"):
        if call(CALLS[other], pid, 0, 0, 0, 0, 0)[0] == 0:
            through(f"{other} of {name}")
    if call(CALLS["kcmp"], pid, os.getpid(), 2, 0, 0)[0] >= 0:
        through(f"compared itself to {name}")
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        continue
    if call(CALLS["pidfd_getfd"], descriptor, 0, 0)[0] >= 0:
        through(f"took a descriptor of {name}")
for process in processes():
    try:
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        if status["Seccomp"] != "2" or status["NoNewPrivs"] != "1":
            through("a process without a filter")
        if process.name in ("1", str(os.getppid())):
            os.close(os.open(process / "mem", os.O_RDWR))
            through("opened the memory of process 1")
    except OSError:
        continue
os.kill(child, 9)
os.waitpid(child, 0)
done()
