"""Pages that are in no process's figures: files in memory and segments that nobody maps."""

import os

from tests.abuse.payloads.verdict import LIBC, attempt, call, done, numbers, through

CALLS = numbers({"memfd_secret": 447, "memfd_create": 319}, {"memfd_secret": 447, "memfd_create": 279})


def hoard() -> None:
    for _ in range(2):
        descriptor = os.memfd_create("hoard")
        for _ in range(8):
            os.write(descriptor, bytes(1 << 20))


attempt("filled files in memory", hoard)
for name, number in CALLS.items():
    if call(number, 0, 0)[1] != 38:
        through(f"{name} is there")
for _ in range(2):
    segment = LIBC.shmget(0, 8 << 20, 0o1600)
    if segment >= 0:
        through("made a segment that nobody maps")
        LIBC.shmctl(segment, 0, None)
if LIBC.msgget(0, 0o600) >= 0:
    through("made a message queue")
if LIBC.semget(0, 200, 0o600) >= 0:
    through("made semaphores")
done()
