"""Threads, which count as processes do."""

import sys
import threading

from tests.abuse.payloads.verdict import done, through

stop = threading.Event()
threading.stack_size(64 << 10)
made = []
try:
    for _ in range(int(sys.argv[1])):
        made.append(threading.Thread(target=stop.wait))
        made[-1].start()
except RuntimeError:
    made.pop()
else:
    through("made every thread")
stop.set()
for thread in made:
    thread.join()
done()
