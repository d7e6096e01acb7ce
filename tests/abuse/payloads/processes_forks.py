"""Children that only sleep, until no more can be made; this many at most, whatever the limit."""

import os
import sys
import time

from tests.abuse.payloads.verdict import done, through

made = 0
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0:
            time.sleep(6)
            os._exit(0)
    except BlockingIOError:
        break
    made += 1
if made >= int(sys.argv[1]):
    through("made every child")
done()
