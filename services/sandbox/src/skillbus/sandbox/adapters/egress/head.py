"""The first lines that a run says to its proxy: which place it means, and what of them goes on to it.

HTTP is read narrowly. A request that two readers could take for two different things is refused: bare line ends,
folded headers, a body of two lengths or in chunks. One request a connection; only a tunnel goes on after it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skillbus.sandbox.domain.errors import EgressRefused
from skillbus.sandbox.domain.network import HostPort, Verdict

END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_ABSOLUTE: Final = re.compile(r"http://([^/?#]+)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_HTTP_PORT: Final = 80
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
# RFC 9110, 7.6.1, with the older proxy headers, and Host, which is written anew.
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"}
    | {b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"}
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run asks its proxy for."""

    place: HostPort
    head: bytes | None = None
    """What goes on to the place; absent for a tunnel, through which everything goes as it is."""
    body_bytes: int = 0


def read_head(head: bytes) -> Asked:
    """What the first lines, up to and with the empty one, ask for.

    Raises:
        EgressRefused: They are not HTTP, or could be read in two ways.
    """
    first, *lines = head.removesuffix(END).split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise malformed("the first line is no HTTP/1 request to a proxy")
    method, target, version = line.groups()
    headers = [_header(header) for header in lines]
    if method == b"CONNECT":
        return Asked(_place(target.decode("ascii")))
    absolute = _ABSOLUTE.fullmatch(target.decode("ascii"))
    if absolute is None:
        raise malformed("the target must be http://host/path in full; https goes by CONNECT")
    place = _place(absolute[1], _HTTP_PORT)
    path = (absolute[2] or "/") + (absolute[3] or "")
    own = b"%s %s %s" % (method, path.encode(), version)
    return Asked(place, _rewritten(own, place, headers), _body_bytes(headers))


def malformed(reason: str, status: int = 400) -> EgressRefused:
    """A request that is not answered by any place."""
    return EgressRefused(Verdict.MALFORMED, status, reason)


def _header(line: bytes) -> tuple[bytes, bytes]:
    header = _HEADER.fullmatch(line)
    if header is None:
        raise malformed("a header is not of the form name: value in one line")
    return header[1].lower(), header[2]


def _place(authority: str, default_port: int | None = None) -> HostPort:
    try:
        return HostPort.parse(authority, default_port)
    except ValueError as error:
        raise malformed(str(error)) from error


def _body_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise malformed("a body in chunks cannot be passed on: send its Content-Length", 411)
    lengths = [value for name, value in headers if name == b"content-length"]
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise malformed("Content-Length must be there once, as a number")
    return int(lengths[0])


def _rewritten(first: bytes, place: HostPort, headers: list[tuple[bytes, bytes]]) -> bytes:
    named = {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
    dropped = _HOP_BY_HOP | (named - {b"content-length"})
    host = str(place).removesuffix(f":{_HTTP_PORT}").encode()
    kept = (b"%s: %s" % header for header in headers if header[0] not in dropped)
    return b"\r\n".join((first, b"host: " + host, *kept, b"connection: close", b"", b""))
