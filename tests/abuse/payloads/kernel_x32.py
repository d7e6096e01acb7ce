"""The calls of the x32 ABI: the same entry, other numbers. Only the filter ends a process for one."""

import os

from tests.abuse.payloads.verdict import call, done, through

for number in (39, 41, 101, 165, 272, 520):
    child = os.fork()
    if child == 0:
        call(number | 0x40000000, 0, 0, 0, 0, 0, 0)
        os._exit(0)
    if os.WIFEXITED(os.waitpid(child, 0)[1]):
        through("a call of x32 was answered")
done()
