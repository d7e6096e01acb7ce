"""Descriptors that nobody has open: sent over a socket, and never taken."""

import socket
import sys

from tests.abuse.payloads.verdict import done, through

sent, pairs = 0, []
try:
    while sent < int(sys.argv[1]):
        pair = socket.socketpair()
        pairs.append(pair)
        pair[0].setblocking(False)
        try:
            while sent < int(sys.argv[1]):
                socket.send_fds(pair[0], [b"x"], [0] * 50)
                sent += 50
        except BlockingIOError:
            continue
except OSError:
    pass
if sent >= int(sys.argv[1]):
    through("sent every descriptor")
done()
