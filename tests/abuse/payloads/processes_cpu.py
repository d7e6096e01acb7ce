"""Time of the processor beyond its limit, with the warning of it ignored."""

import signal
import sys
import time

from tests.abuse.payloads.verdict import done, through

signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while time.process_time() < float(sys.argv[1]):
    pass
through("used so much of the processor")
done()
