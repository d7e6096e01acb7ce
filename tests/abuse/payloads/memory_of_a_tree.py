"""Processes that each stay below the limit of one: private memory, or shared memory that belongs to none of them."""

import mmap
import os
import sys
import time

from tests.abuse.payloads.verdict import done, through

KIND, CHILDREN, MIB, HELD_S = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
for _ in range(CHILDREN):
    if os.fork() == 0:
        area = mmap.mmap(-1, MIB << 20, mmap.MAP_PRIVATE if KIND == "private" else mmap.MAP_SHARED)
        for at in range(0, len(area), 4096):
            area[at] = 1
        time.sleep(HELD_S)
        os._exit(0)
taken = sum(os.wait()[1] == 0 for _ in range(CHILDREN))
if taken == CHILDREN:
    through("every process kept its part")
done()
