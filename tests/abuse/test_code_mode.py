"""Programs of code mode that misuse their tool channel. Agent, sandbox, bus and the tool that they call are real."""

import pytest
from tests.integration.code_mode.conftest import CALLS, CodeMode

from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.message import DEFAULT_PROJECT

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.serial]

FRAMES = """
import json, os, socket
channel = socket.socket(fileno=os.dup(3))
SEARCH = {"method": "call_tool", "id": "builtin:search_tools", "action": None, "arguments": {"query": "of a program"}}
def frame(number, **fields):
    body = json.dumps({**SEARCH, **fields}).encode()
    return len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + body
def receive():
    head = channel.recv(8, socket.MSG_WAITALL)
    return json.loads(channel.recv(int.from_bytes(head[:4], "big"), socket.MSG_WAITALL))
"""
"""The beginning of a program that goes around the library. Its searches are counted."""


async def run(code_mode: CodeMode, program: str, project: str = DEFAULT_PROJECT) -> ToolCalled:
    """Run a hostile program, and then an honest one, which must not notice."""
    code_mode.searches.clear()
    called = await code_mode.call(FRAMES + program, timeout_s=10, project=project)
    made = len(code_mode.searches)
    honest = await code_mode.call("len(await search_tools('anything'))")
    assert (honest.structured, honest.is_error) == (1, False), honest
    assert len(code_mode.searches) == made + 1, "a call came after the program's end"
    return called


async def test_a_flood_of_calls_ends_its_program(code_mode: CodeMode) -> None:
    called = await run(code_mode, "for number in range(1_000_000): channel.sendall(frame(number))")
    assert called.is_error
    assert f"more than {CALLS} tool calls" in called.text
    assert len(code_mode.searches) <= CALLS + 1


async def test_a_flood_of_bytes_ends_its_program(code_mode: CodeMode) -> None:
    called = await run(code_mode, "for number in range(99): channel.sendall(frame(number, text='x' * 900_000))")
    assert called.is_error
    assert "bytes of tool calls" in called.text


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ("b'\\xff' * 4096", "a frame of 4294967295 bytes"),
        ("bytes(8)", "a frame of 0 bytes"),
        ("frame(3) + frame(3)", "number 3 twice"),
    ],
)
async def test_a_forged_frame_ends_its_program(forged: str, said: str, code_mode: CodeMode) -> None:
    called = await run(code_mode, f"channel.sendall({forged})\nwhile channel.recv(1 << 20): pass\n'went on'")
    assert (called.is_error, called.structured) == (True, None)
    assert said in called.text
    assert len(code_mode.searches) <= 2


async def test_a_request_that_a_program_makes_up_gets_nothing_that_its_caller_may_not_have(
    code_mode: CodeMode,
) -> None:
    called = await run(
        code_mode,
        """
asked = [
    {"project": "default"},
    {"arguments": {"query": "x", "project": "default"}},
    {"id": "mcp:friendly/add", "arguments": {"a": 1, "b": 2}},
    {"id": "builtin:run_code", "arguments": {"code": "1"}},
    {"method": "remove_tool"},
    {"method": "skillbus.v1.indexer.remove_tools", "id": "*"},
]
got = []
for number, fields in enumerate(asked):
    channel.sendall(frame(number, **fields))
    reply = receive()
    got.append((reply.get("error") or {}).get("code") or reply["result"]["is_error"])
got
""",
        project="other",
    )
    assert isinstance(called.structured, list), called
    assert {search.project for search in code_mode.searches[:-1]} <= {"other"}
    assert False not in called.structured[1:], called.structured


async def test_a_channel_that_is_kept_open_is_of_no_use_after_the_end_of_its_program(code_mode: CodeMode) -> None:
    called = await run(
        code_mode,
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        number = 0
        while True:
            channel.sendall(frame(number := number + 1))
            receive()
    os._exit(0)
os.wait()
"the program ends"
""",
    )
    assert (called.structured, called.is_error) == ("the program ends", False), called


async def test_forks_that_write_into_one_another_get_no_more_calls_than_one(code_mode: CodeMode) -> None:
    called = await run(
        code_mode,
        """
children = []
for child in range(8):
    children.append(os.fork())
    if not children[-1]:
        try:
            for number in range(1000):
                channel.send(frame(1000 * child + number)[: 60 + child])
        finally:
            os._exit(0)
for child in children:
    os.waitpid(child, 0)
"all have ended"
""",
    )
    assert called.structured in ("all have ended", None)
    assert len(code_mode.searches) <= CALLS + 1
