"""What comes from a sandbox: as it comes, and to its end when nobody is left who could send more."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator

import pytest
import uvloop

from skillbus.sandbox.adapters.bubblewrap.descriptors import IncomingStream

Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    made: Loop = request.param
    return made


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


def test_it_is_read_as_it_comes_and_ends_with_its_writer(loop: Loop, pipe: tuple[int, int]) -> None:
    async def read() -> list[bytes]:
        reading, writing = pipe
        incoming = IncomingStream(reading)
        later = asyncio.get_running_loop().call_later
        later(0.01, os.write, writing, b"ab")
        later(0.02, os.write, writing, b"c")
        later(0.03, os.close, writing)
        return [await incoming.read(1), await incoming.readexactly(2), await incoming.read(9), await incoming.read(9)]

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(read()) == [b"a", b"bc", b"", b""]


def test_when_its_writers_are_known_to_be_dead_what_is_in_it_is_read_and_no_end_is_waited_for(
    loop: Loop, pipe: tuple[int, int]
) -> None:
    async def read() -> list[bytes]:
        reading, writing = pipe
        incoming = IncomingStream(reading)
        waiting = asyncio.ensure_future(incoming.read(9))
        await asyncio.sleep(0)
        os.write(writing, b"last")
        incoming.finish()
        return [await waiting, await incoming.read(9)]

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(read()) == [b"last", b""]


def test_fewer_bytes_than_wanted_are_an_error_with_what_there_was(loop: Loop, pipe: tuple[int, int]) -> None:
    async def read() -> None:
        reading, writing = pipe
        os.write(writing, b"abc")
        os.close(writing)
        await IncomingStream(reading).readexactly(4)

    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(asyncio.IncompleteReadError) as caught:
        runner.run(read())
    assert caught.value.partial == b"abc"


def test_the_other_side_gone_with_what_was_sent_to_it_unread_is_an_end(loop: Loop) -> None:
    async def read() -> bytes:
        ours, theirs = socket.socketpair()
        with ours:
            ours.sendall(b"unread")
            theirs.close()
            return await IncomingStream(ours.fileno()).read(9)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(read()) == b""


def test_nobody_is_woken_after_it_was_stopped(loop: Loop, pipe: tuple[int, int]) -> None:
    async def read() -> bool:
        reading, writing = pipe
        incoming = IncomingStream(reading)
        waiting = asyncio.ensure_future(incoming.read(9))
        await asyncio.sleep(0)
        incoming.stop()
        os.write(writing, b"late")
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        waiting.cancel()
        return bool(done)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(read()) is False
