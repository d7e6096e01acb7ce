"""One socket with a larger buffer than sockets have: it got through when it holds half as much again."""

import socket

from tests.abuse.payloads.verdict import done, through


def held(wanted: int) -> int:
    pair = socket.socketpair()
    pair[0].setblocking(False)
    if wanted:
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wanted)
        pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    size = 0
    try:
        while True:
            size += pair[0].send(bytes(32768))
    except BlockingIOError:
        return size


if held(8 << 20) > 1.5 * held(0):
    through("a socket holds more than others")
done()
