"""A socket of a service of the host, by its path."""

import socket

from tests.abuse.payloads.verdict import attempt, canaries, done

path = canaries()["unix"]
for at in (path, f"/proc/self/root{path}", f"/skill/../..{path}"):
    attempt("connected to a socket of the host", socket.socket(socket.AF_UNIX).connect, at)
done()
