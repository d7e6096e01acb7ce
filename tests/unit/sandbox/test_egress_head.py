"""The first lines of a request to the proxy of a run."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillbus.sandbox.adapters.egress.head import parse_head
from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.domain.errors import EgressRefused


def lines(*parts: str) -> bytes:
    return "\r\n".join((*parts, "", "")).encode("latin-1")


def test_a_tunnel_is_to_the_place_that_connect_names_whatever_the_headers_say() -> None:
    asked = parse_head(lines("CONNECT Example.org:443 HTTP/1.1", "Host: other.example:443", "Content-Length: 5"))
    assert (asked.place, asked.head, asked.body_bytes) == (HostPort("example.org", 443), None, 0)


def test_a_request_goes_on_to_the_host_of_its_target_without_what_is_meant_for_the_proxy() -> None:
    asked = parse_head(
        lines(
            "POST HTTP://Example.org:8080/a/b?c=http://d HTTP/1.1",
            "Host: other.example",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Hop, Content-Length",
            "X-Hop: 1",
            "X-Kept:  two words ",
            "Content-Length: 12",
        )
    )
    assert asked.place == HostPort("example.org", 8080)
    assert asked.body_bytes == 12
    assert asked.head == lines(
        "POST /a/b?c=http://d HTTP/1.1",
        "host: example.org:8080",
        "x-kept: two words",
        "content-length: 12",
        "connection: close",
    )


@pytest.mark.parametrize(
    ("target", "place", "line"),
    [
        ("http://example.org", HostPort("example.org", 80), b"GET / HTTP/1.1\r\nhost: example.org\r\n"),
        ("http://example.org?q", HostPort("example.org", 80), b"GET /?q HTTP/1.1\r\nhost: example.org\r\n"),
        ("http://[2001:db8::1]/", HostPort("2001:db8::1", 80), b"GET / HTTP/1.1\r\nhost: [2001:db8::1]\r\n"),
    ],
)
def test_a_target_without_port_or_path_means_port_80_and_the_root(target: str, place: HostPort, line: bytes) -> None:
    asked = parse_head(lines(f"GET {target} HTTP/1.1"))
    assert asked.place == place
    assert asked.head is not None
    assert asked.head.startswith(line)


@pytest.mark.parametrize(
    "head",
    [
        *(
            lines(""),
            lines("GET"),
            lines("GET http://a/ HTTP/2"),
            lines("get http://a/ HTTP/1.1"),
            b"\x16\x03\x01\r\n\r\n",
        ),
        *(lines("GET  http://a/ HTTP/1.1"), lines("GET http://a/ b HTTP/1.1"), lines("GET http://a/\tb HTTP/1.1")),
        *(lines("GET / HTTP/1.1", "Host: a"), lines("GET https://a/ HTTP/1.1"), lines("GET ftp://a/ HTTP/1.1")),
        *(lines("GET http://user@a/ HTTP/1.1"), lines("GET http://a/#b HTTP/1.1"), lines("GET http:///b HTTP/1.1")),
        *(lines("GET http://a%2eb/ HTTP/1.1"), lines("GET http://*.a/ HTTP/1.1"), lines("GET http://127.1/ HTTP/1.1")),
        *(lines("CONNECT a HTTP/1.1"), lines("CONNECT a: HTTP/1.1"), lines("CONNECT http://a:1 HTTP/1.1")),
        *(lines("CONNECT u@a:1 HTTP/1.1"), lines("CONNECT a:1/ HTTP/1.1"), lines("CONNECT *:443 HTTP/1.1")),
        *(
            lines("GET http://a/ HTTP/1.1", "X : 1"),
            lines("GET http://a/ HTTP/1.1", " folded"),
            lines("GET http://a/ HTTP/1.1", ":"),
        ),
        *(lines("GET http://a/ HTTP/1.1", "X: 1\nHost: b"), lines("GET http://a/ HTTP/1.1", "X: 1\rHost: b")),
        *(
            lines("GET http://a/ HTTP/1.1\nX: b"),
            lines("GET http://a/ HTTP/1.1", "X: \0"),
            lines("GET http://a/ HTTP/1.1", "no colon"),
        ),
        lines("POST http://a/ HTTP/1.1", "Content-Length: 1", "Content-Length: 1"),
        lines("POST http://a/ HTTP/1.1", "Content-Length: 1, 1"),
        lines("POST http://a/ HTTP/1.1", "Content-Length: +1"),
        lines("POST http://a/ HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"),
        lines("POST http://a/ HTTP/1.1", "Transfer-Encoding: identity"),
    ],
)
def test_a_request_that_is_no_http_or_could_be_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(EgressRefused) as refused:
        parse_head(head)
    assert refused.value.verdict == "malformed"
    assert refused.value.status in {400, 411}


WORDS = (
    *(b"GET ", b"CONNECT ", b"http://a.example/", b"a.example:443", b" HTTP/1.1", b"\r\n", b"\n", b"\r", b": ", b" "),
    *(b"Host: b.example", b"Content-Length: 1", b"Transfer-Encoding: chunked", b"Connection: host"),
    *(b"\t", b"\0", b"\xff", b"X"),
)


@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(WORDS), max_size=20).map(b"".join)))
@example(b"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\nConnection: host\r\n\r\n")
def test_whatever_is_said_is_refused_or_leaves_one_host_and_no_line_that_is_not_one(said: bytes) -> None:
    reason = ""
    try:
        head = (asked := parse_head(said)).head
    except EgressRefused as refused:
        head, reason = None, str(refused)
    assert reason.isprintable()
    if head is not None:
        lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        assert not any(set(b"\r\n\0") & set(line) for line in lines)
        assert [line for line in lines if line.lower().startswith(b"host:")] == [b"host: " + asked.place.host.encode()]
        assert lines[-1] == b"connection: close"
