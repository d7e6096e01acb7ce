"""`python probe.py PORT PATH`: exits 0 when http://127.0.0.1:PORT/PATH answers 200, else says what it answered.

For health checks in images without curl. Only `socket` is imported: it runs every few seconds in every container.
"""

import socket
import sys

TIMEOUT_S = 3.0


def probe(port: int, path: str) -> str:
    """The status line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode("ascii"))
        with connection.makefile("rb") as answer:
            return answer.readline().decode("latin-1").strip()


if __name__ == "__main__":
    line = probe(int(sys.argv[1]), sys.argv[2])
    if line.split(" ")[1:2] != ["200"]:
        sys.exit(line)
