"""A socket of a service of the host that is in no file system, and so behind no mount."""

import socket

from tests.abuse.payloads.verdict import attempt, canaries, done

name = canaries()["abstract"]
attempt("connected to an abstract socket", socket.socket(socket.AF_UNIX).connect, f"\0{name}")
attempt(
    "sent to an abstract socket", socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto, b"x", f"\0{name}-datagrams"
)
done()
