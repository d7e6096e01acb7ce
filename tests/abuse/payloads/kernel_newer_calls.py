"""Calls that are newer than the filter's table: they must look as if this kernel had none of them."""

import sys

from tests.abuse.payloads.verdict import call, done, through

FCHMODAT2 = 452
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 60):
    if number != FCHMODAT2 and call(number, -1, 0, -1, 0, -1, 0)[1] != 38:
        through("a call of a newer kernel")
        through(f"call {number}")
done()
