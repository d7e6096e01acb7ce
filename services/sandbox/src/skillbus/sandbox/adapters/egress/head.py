"""Parser of the request head that a run sends to its proxy.

HTTP is parsed strictly. A request that two parsers could understand differently is refused: bare line ends, folded
headers, a body with two lengths or in chunks. A connection carries one request; only a tunnel continues after it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skillbus.sandbox.domain.egress_policy import EgressVerdict, HostPort
from skillbus.sandbox.domain.errors import EgressRefused

END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_ABSOLUTE: Final = re.compile(r"http://([^/?#]+)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_HTTP_PORT: Final = 80
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
# RFC 9110, 7.6.1, with the older proxy headers, and Host, which is replaced.
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"}
    | {b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"}
)


@dataclass(frozen=True, slots=True)
class EgressRequest:
    """Request of a run to its proxy."""

    place: HostPort
    head: bytes | None = None
    """Head that is forwarded to the place; None for a tunnel, which forwards everything unchanged."""
    body_bytes: int = 0


def parse_head(head: bytes) -> EgressRequest:
    """Parse the head of a request, up to and including the empty line. Raises EgressRefused if it is ambiguous."""
    first, *lines = head.removesuffix(END).split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise refuse_malformed("the first line is not an HTTP/1 request to a proxy")
    method, target, version = line.groups()
    headers = list[tuple[bytes, bytes]]()
    for text in lines:
        header = _HEADER.fullmatch(text)
        if header is None:
            raise refuse_malformed("a header is not name: value on one line")
        headers.append((header[1].lower(), header[2]))
    if method == b"CONNECT":
        return EgressRequest(_place(target.decode("ascii")))
    absolute = _ABSOLUTE.fullmatch(target.decode("ascii"))
    if absolute is None:
        raise refuse_malformed("the target must be a full http://host/path; use CONNECT for https")
    place = _place(absolute[1], _HTTP_PORT)
    path = (absolute[2] or "/") + (absolute[3] or "")
    named = {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
    dropped = _HOP_BY_HOP | (named - {b"content-length"})
    host = str(place).removesuffix(f":{_HTTP_PORT}").encode()
    kept = (b"%s: %s" % header for header in headers if header[0] not in dropped)
    own = (b"%s %s %s" % (method, path.encode(), version), b"host: " + host, *kept, b"connection: close", b"", b"")
    return EgressRequest(place, b"\r\n".join(own), _body_bytes(headers))


def refuse_malformed(reason: str, status: int = 400) -> EgressRefused:
    """Return the error for a malformed request."""
    return EgressRefused(EgressVerdict.MALFORMED, status, reason)


def _place(authority: str, default_port: int | None = None) -> HostPort:
    try:
        return HostPort.parse(authority, default_port)
    except ValueError as error:
        raise refuse_malformed(str(error)) from error


def _body_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise refuse_malformed("a chunked body cannot be forwarded: send a Content-Length", 411)
    lengths = [value for name, value in headers if name == b"content-length"]
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise refuse_malformed("Content-Length must occur once, as a number")
    return int(lengths[0])
