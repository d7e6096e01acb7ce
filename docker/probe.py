"""`python probe.py PORT PATH [tls]`: exits 0 when 127.0.0.1:PORT answers 200 to PATH, else says what it answered.

For health checks in images without curl. Only `socket` is imported, and `ssl` for a server with TLS: it runs every few
seconds in every container.
"""

import socket
import sys

TIMEOUT_S = 3.0


def probe(port: int, path: str, *, tls: bool = False) -> str:
    """Return the status line of the answer."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    if tls:
        import ssl  # noqa: PLC0415

        context = ssl.create_default_context()
        # The certificate has the public name of the server, and the connection does not leave the container.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = context.wrap_socket(connection)
    with connection, connection.makefile("rb") as answer:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode("ascii"))
        return answer.readline().decode("latin-1").strip()


if __name__ == "__main__":
    line = probe(int(sys.argv[1]), sys.argv[2], tls="tls" in sys.argv[3:])
    if line.split(" ")[1:2] != ["200"]:
        sys.exit(line)
