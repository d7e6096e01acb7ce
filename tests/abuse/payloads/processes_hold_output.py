"""An orphan that keeps standard output open: the result must not wait for it."""

import os
import sys
import time

from tests.abuse.payloads.verdict import done, through

if os.fork() == 0:
    os.setsid()
    time.sleep(float(sys.argv[1]))
    through("the result waited for an orphan")
    os._exit(0)
done()
