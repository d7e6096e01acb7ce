"""A segment of shared memory of the host, which any user may attach to."""

from tests.abuse.payloads.verdict import LIBC, canaries, done, through

key = canaries()["segment"]
if LIBC.shmget(key, 4096, 0) >= 0:
    through("found a segment of the host")
done()
