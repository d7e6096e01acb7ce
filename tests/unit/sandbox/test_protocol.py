"""What the host believes of what the agent's socket brings."""

import asyncio

import pytest

from skillbus.sandbox.adapters.supervision.protocol import AgentReport, ProtocolError, read_report
from skillbus.sandbox.domain.run.limits import Limits

LIMITS = Limits(artifacts=2, artifacts_bytes=100)
EXIT = b"X" + (12).to_bytes(4, "big") + b"".join(value.to_bytes(4, "big", signed=True) for value in (0, 0, 7))
END = b"E" + bytes(4)


def artifact(name: bytes, content: bytes) -> bytes:
    payload = len(name).to_bytes(2, "big") + name + content
    return b"A" + len(payload).to_bytes(4, "big") + payload


async def heard(stream: bytes) -> AgentReport:
    reader, told = asyncio.StreamReader(), AgentReport()
    reader.feed_data(stream)
    reader.feed_eof()
    await read_report(reader, LIMITS, told)
    return told


async def test_an_honest_account_is_taken_down() -> None:
    told = await heard(EXIT + artifact(b"a/b.txt", b"hi") + END)
    assert told.exit is not None
    assert (told.exit.exit_code, told.exit.signal, told.exit.cpu_ms) == (0, 0, 7.0)
    assert [(a.name, a.content) for a in told.artifacts] == [("a/b.txt", b"hi")]
    assert told.complete


@pytest.mark.parametrize("name", [b"../x", b"/x", b"a\nb", b"\xff", b"", b"a\\b"])
async def test_a_hostile_artifact_name_is_left_out_and_said(name: bytes) -> None:
    told = await heard(EXIT + artifact(name, b"hi") + artifact(b"good", b"") + END)
    assert [a.name for a in told.artifacts] == ["good"]
    assert told.left_out


async def test_a_name_given_twice_counts_once() -> None:
    told = await heard(EXIT + artifact(b"a", b"1") + artifact(b"a", b"2") + END)
    assert [a.content for a in told.artifacts] == [b"1"]


@pytest.mark.parametrize(
    "stream",
    [
        artifact(b"a", b"before the end"),
        END,
        EXIT + EXIT,
        b"X" + (3).to_bytes(4, "big") + b"abc",
        EXIT + b"Z" + bytes(4),
        EXIT + b"A" + b"\xff\xff\xff\xff",
        EXIT + artifact(b"a", b"x" * 101),
        EXIT + artifact(b"a", b"x" * 60) + artifact(b"b", b"x" * 60),
        EXIT + artifact(b"a", b"") + artifact(b"b", b"") + artifact(b"c", b""),
    ],
)
async def test_an_account_that_breaks_the_protocol_or_a_limit_is_refused(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        await heard(stream)


async def test_a_socket_that_closes_early_leaves_what_was_told() -> None:
    told = await heard(EXIT + artifact(b"a", b"1") + b"A\0\0")
    assert len(told.artifacts) == 1
    assert not told.complete
