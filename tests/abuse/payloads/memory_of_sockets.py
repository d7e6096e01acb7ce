"""Unix sockets filled and kept, from a few processes: memory of the kernel, in no process's figures."""

import os
import socket
import sys
import time

from tests.abuse.payloads.verdict import done, through

PROCESSES, HELD_S = int(sys.argv[1]), float(sys.argv[2])


def hoard() -> None:
    kept = []
    try:
        while True:
            pair = socket.socketpair()
            kept.append(pair)
            pair[0].setblocking(False)
            try:
                while True:
                    pair[0].send(bytes(32768))
            except BlockingIOError:
                continue
    except OSError:
        time.sleep(HELD_S)


for _ in range(PROCESSES):
    if os.fork() == 0:
        hoard()
        os._exit(0)
if all(os.wait()[1] == 0 for _ in range(PROCESSES)):
    through("kept every socket")
done()
