"""Calls between the main process and a worker, over a real pair of sockets."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest

from skillbus.standalone.workers.channel import ChannelClosedError, Handlers, ProcessChannel, open_channel
from skillbus.vectors import CollectionMissing


class _Answers:
    """Functions of the other end."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def echo(self, value: object) -> object:
        return value

    async def fail(self) -> None:
        raise CollectionMissing("tools")

    async def wait(self) -> str:
        await self.may_end.wait()
        return "waited"


@pytest.fixture
async def answers() -> _Answers:
    return _Answers()


@pytest.fixture
async def ends(answers: _Answers) -> AsyncGenerator[tuple[ProcessChannel, ProcessChannel]]:
    """The end that calls, and the one that answers."""
    one, other = socket.socketpair()
    handlers: Handlers = {"echo": answers.echo, "fail": answers.fail, "wait": answers.wait}
    async with AsyncExitStack() as stack:
        caller = await stack.enter_async_context(open_channel(one, {}))
        yield caller, await stack.enter_async_context(open_channel(other, handlers))


async def test_values_of_any_size_come_back_as_they_were(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    for value in (None, {"a": [1, 2.5, "三"]}, b"x" * 5_000_000):
        assert await ends[0].call("echo", value) == value


async def test_a_slow_call_holds_up_no_other(ends: tuple[ProcessChannel, ProcessChannel], answers: _Answers) -> None:
    slow = asyncio.ensure_future(ends[0].call("wait"))
    assert await asyncio.gather(*(ends[0].call("echo", number) for number in range(100))) == list(range(100))
    answers.may_end.set()
    assert await slow == "waited"


async def test_an_error_arrives_with_its_class_its_message_and_its_attributes(
    ends: tuple[ProcessChannel, ProcessChannel],
) -> None:
    with pytest.raises(CollectionMissing, match="no vector collection or alias 'tools'") as caught:
        await ends[0].call("fail")
    assert caught.value.name == "tools"


async def test_who_waits_for_a_process_that_ends_learns_it(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    waiting = asyncio.ensure_future(ends[0].call("wait"))
    await ends[0].call("echo", "it has begun")
    ends[1].close()
    with pytest.raises(ChannelClosedError):
        await waiting
    with pytest.raises(ChannelClosedError):
        await ends[0].call("echo", 1)


async def test_the_answer_to_a_cancelled_call_is_no_fault(
    ends: tuple[ProcessChannel, ProcessChannel], answers: _Answers
) -> None:
    waiting = asyncio.ensure_future(ends[0].call("wait"))
    await ends[0].call("echo", "it has begun")
    waiting.cancel()
    answers.may_end.set()
    assert await ends[0].call("echo", "still open") == "still open"
