"""Tens of thousands of mappings that nobody uses, in each of many processes: memory of the kernel for them."""

import ctypes
import os
import sys
import time

from tests.abuse.payloads.verdict import LIBC, done, through

CHILDREN, MAPPINGS, HELD_S = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
PRIVATE_ANONYMOUS = 0x22
LIBC.mmap.restype = ctypes.c_long
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
made = sum(LIBC.mmap(None, 4096, number % 2, PRIVATE_ANONYMOUS, -1, 0) != -1 for number in range(MAPPINGS))
for _ in range(CHILDREN):
    if os.fork() == 0:
        time.sleep(HELD_S)
        os._exit(0)
if all(os.wait()[1] == 0 for _ in range(CHILDREN)) and made == MAPPINGS:
    through("kept every mapping")
done()
