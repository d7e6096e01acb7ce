"""Relay from the sandbox's loopback to the unix socket of its egress proxy. Never imported by the service.

Programs expect a proxy at a host and port; the egress proxy listens on a unix socket. The relay copies bytes without
parsing them. The agent runs it in a separate process, on the sandbox's own Python (3.8 or newer).
"""

from __future__ import annotations

import select
import socket

PROXY = "/egress"
CHUNK = 64 * 1024
CONNECTIONS_MAX = 16
"""Connections at once, as many as the proxy allows; more wait. Each takes two of the run's 96 sockets."""


class ConnectionEnd:
    """One end of a connection, and the bytes that wait to go to it."""

    other: ConnectionEnd

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.end, self.pending, self.is_open, self.sent_eof = end, b"", True, False

    def list_events(self) -> int:
        """Return the events to poll for. Nothing is read while the other end has pending bytes."""
        reading = select.POLLIN if self.is_open and not self.other.pending else 0
        return reading | (select.POLLOUT if self.pending else 0)

    def read_chunk(self) -> None:
        """Read a chunk and write it to the other end."""
        self.other.pending = self.end.recv(CHUNK)
        self.is_open = bool(self.other.pending)
        self.other.write_pending()

    def write_pending(self) -> None:
        """Write as many pending bytes as possible; after the last ones, shut the direction down."""
        if self.pending:
            try:
                self.pending = self.pending[self.end.send(self.pending) :]
            except BlockingIOError:
                return
        if not (self.pending or self.other.is_open or self.sent_eof):
            self.sent_eof = True
            self.end.shutdown(socket.SHUT_WR)

    def is_done(self) -> bool:
        """Return True if both directions are shut down."""
        return self.sent_eof and self.other.sent_eof


class Relay:
    """Relay of all connections of the sandbox to its proxy."""

    def __init__(self, entry: socket.socket) -> None:
        self.entry, self.poll = entry, select.poll()
        self.ends: dict[int, ConnectionEnd] = {}

    def run(self) -> None:
        """Relay connections until killed."""
        while True:
            self.poll.register(self.entry, select.POLLIN if len(self.ends) < 2 * CONNECTIONS_MAX else 0)
            for descriptor, event in self.poll.poll():
                if descriptor == self.entry.fileno():
                    self.accept_connection()
                elif descriptor in self.ends:
                    self.serve_end(self.ends[descriptor], event)

    def accept_connection(self) -> None:
        """Accept a connection and connect it to the proxy."""
        client, _ = self.entry.accept()
        proxy = socket.socket(socket.AF_UNIX)
        try:
            proxy.connect(PROXY)
        except OSError:
            client.close()
            proxy.close()
            return
        pair = ConnectionEnd(client), ConnectionEnd(proxy)
        pair[0].other, pair[1].other = pair[1], pair[0]
        for one in pair:
            self.ends[one.end.fileno()] = one
            self.watch_end(one)

    def serve_end(self, one: ConnectionEnd, event: int) -> None:
        """Copy bytes from and to an end. A broken end closes the other one too."""
        wanted, broken = one.list_events(), event & (select.POLLHUP | select.POLLERR)
        try:
            if wanted & select.POLLIN and (event & select.POLLIN or broken):
                one.read_chunk()
            if wanted & select.POLLOUT and (event & select.POLLOUT or broken):
                one.write_pending()
        except BlockingIOError:
            return
        except OSError:
            self.drop_pair(one)
            return
        if one.is_done():
            self.drop_pair(one)
            return
        self.watch_end(one)
        self.watch_end(one.other)

    def watch_end(self, one: ConnectionEnd) -> None:
        """Poll an end for its events. Without any it is not polled: the kernel would report a hang-up endlessly."""
        self.poll.register(one.end, 0)
        if wanted := one.list_events():
            self.poll.register(one.end, wanted)
        else:
            self.poll.unregister(one.end)

    def drop_pair(self, one: ConnectionEnd) -> None:
        """Close both ends of a connection."""
        for each in (one, one.other):
            self.poll.register(each.end, 0)
            self.poll.unregister(each.end)
            del self.ends[each.end.fileno()]
            each.end.close()


def run_relay(listener: int) -> None:
    """Relay the connections of a listening socket, given by its descriptor, until killed."""
    Relay(socket.socket(fileno=listener)).run()
