"""Every process that can be signalled, with a signal that cannot be refused: only in a namespace of its own."""

import os
import signal
import sys
import time

from tests.abuse.payloads.verdict import canaries, done

pid = canaries()["pid"]
if sys.argv[1:] == ["everyone"]:
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
    os.kill(-1, signal.SIGKILL)
else:  # where the namespace is the host's, on the one process that is there for it
    os.kill(pid, signal.SIGKILL)
done()
