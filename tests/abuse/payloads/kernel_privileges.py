"""What a process may do: capabilities, in each of their sets, other users, programs that change the user."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import LIBC, attempt, done, through

GET_SECCOMP, CAPBSET_READ, GET_NO_NEW_PRIVS = 21, 23, 39
if os.getuid() == 0 or os.geteuid() == 0 or 0 in os.getgroups():
    through("runs as root")
if LIBC.prctl(GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
    through("may gain privileges by a program")
if LIBC.prctl(GET_SECCOMP, 0, 0, 0, 0) != 2:
    through("no filter")
if any(LIBC.prctl(CAPBSET_READ, number, 0, 0, 0) == 1 for number in range(41)):
    through("a capability can be gained")
for identity in (0, 1, 1000):
    attempt("became another user", os.setuid, identity)
    attempt("became another group", os.setgid, identity)
attempt("joined groups", os.setgroups, [0])
try:
    status = Path("/proc/self/status").read_text().splitlines()
    if any(int(line.split(":")[1], 16) for line in status if line.startswith("Cap")):
        through("has capabilities")
except FileNotFoundError:
    pass
done()
