"""From the sandbox's loopback to the socket of its proxy: run by the agent in a process of its own, never imported.

Programs speak to a proxy at a host and a port; the way out is a unix socket. It passes bytes on and understands none.
For the sandbox's own Python (3.8 or newer).
"""

from __future__ import annotations

import select
import socket

PROXY = "/egress"
CHUNK = 64 * 1024
CONNECTIONS_MAX = 16
"""What the proxy takes at once; more wait. Each is two sockets, of the 96 that the run may have."""


class Side:
    """One end of a connection, and what is still to be said to it."""

    other: Side

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.end, self.pending, self.hears, self.told_end = end, b"", True, False

    def wants(self) -> int:
        """What to wait for: no more is read than the other end takes."""
        reading = select.POLLIN if self.hears and not self.other.pending else 0
        return reading | (select.POLLOUT if self.pending else 0)

    def read(self) -> None:
        """What it says is the other's to be told."""
        self.other.pending = self.end.recv(CHUNK)
        self.hears = bool(self.other.pending)
        self.other.write()

    def write(self) -> None:
        """As much as it takes; when there will be no more, it is told so."""
        if self.pending:
            try:
                self.pending = self.pending[self.end.send(self.pending) :]
            except BlockingIOError:
                return
        if not (self.pending or self.other.hears or self.told_end):
            self.told_end = True
            self.end.shutdown(socket.SHUT_WR)

    def is_done(self) -> bool:
        """In both directions."""
        return self.told_end and self.other.told_end


class Relay:
    """All connections of the sandbox to its proxy."""

    def __init__(self, entry: socket.socket) -> None:
        self.entry, self.poll = entry, select.poll()
        self.sides: dict[int, Side] = {}

    def run(self) -> None:
        """Until killed."""
        while True:
            self.poll.register(self.entry, select.POLLIN if len(self.sides) < 2 * CONNECTIONS_MAX else 0)
            for descriptor, event in self.poll.poll():
                if descriptor == self.entry.fileno():
                    self.take()
                elif descriptor in self.sides:
                    self.serve(self.sides[descriptor], event)

    def take(self) -> None:
        """One connection more."""
        client, _ = self.entry.accept()
        proxy = socket.socket(socket.AF_UNIX)
        try:
            proxy.connect(PROXY)
        except OSError:
            client.close()
            proxy.close()
            return
        pair = Side(client), Side(proxy)
        pair[0].other, pair[1].other = pair[1], pair[0]
        for side in pair:
            self.sides[side.end.fileno()] = side
            self.watch(side)

    def serve(self, side: Side, event: int) -> None:
        """Pass on what can be; a broken end breaks the other."""
        wanted, broken = side.wants(), event & (select.POLLHUP | select.POLLERR)
        try:
            if wanted & select.POLLIN and (event & select.POLLIN or broken):
                side.read()
            if wanted & select.POLLOUT and (event & select.POLLOUT or broken):
                side.write()
        except BlockingIOError:
            return
        except OSError:
            self.drop(side)
            return
        if side.is_done():
            self.drop(side)
            return
        self.watch(side)
        self.watch(side.other)

    def watch(self, side: Side) -> None:
        """An end that nothing is wanted of is not watched: the kernel would tell of its hanging up without cease."""
        self.poll.register(side.end, 0)
        if wanted := side.wants():
            self.poll.register(side.end, wanted)
        else:
            self.poll.unregister(side.end)

    def drop(self, side: Side) -> None:
        """Both ends."""
        for each in (side, side.other):
            self.poll.register(each.end, 0)
            self.poll.unregister(each.end)
            del self.sides[each.end.fileno()]
            each.end.close()


def run(listener: int) -> None:
    """With a listening socket, by its descriptor; until killed."""
    Relay(socket.socket(fileno=listener)).run()
