"""Ports of the host's loopback, where its services listen; other addresses lead nowhere but there either."""

import socket

from tests.abuse.payloads.verdict import attempt, canaries, done

planted = canaries()


def connect(family: int, address: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as out:
        out.settimeout(2)
        out.connect((address, planted["tcp"]))


def send(family: int, address: str) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as out:
        out.sendto(b"canary", (address, planted["udp"]))


for address in ("127.0.0.1", "127.1.2.3", "0.0.0.0"):
    attempt(f"connected to {address}", connect, socket.AF_INET, address)
    attempt(f"sent to {address}", send, socket.AF_INET, address)
for address in ("::1", "::ffff:127.0.0.1"):
    attempt(f"connected to {address}", connect, socket.AF_INET6, address)
attempt("connected by name", socket.create_connection, ("localhost", planted["tcp"]), 2)
done()
