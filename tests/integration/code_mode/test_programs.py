"""What programs of `run_code` can do, and what they cannot: the tool, the agent, the sandbox and the bus are real."""

import asyncio
import json
from uuid import uuid4

import pytest

from skillbus.common.bus.events import subscribe_to_feed
from skillbus.contracts.agent.tool_calls import CANCEL_CALL, CallSelector
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import ToolState
from skillbus.contracts.sandbox.program_runs import CALLS_AT_ONCE, PROGRAM_CALLED
from skillbus.contracts.sandbox.run_history import (
    GET_RUN,
    LIST_RUNS,
    RUN_PRINTED,
    ListRuns,
    RunEventKind,
    RunSelector,
    RunState,
)
from skillbus.sandbox.domain.run.result import NESTING_MAX

from .conftest import CALLS, CodeMode

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEEPEST = "[" * NESTING_MAX + "]" * NESTING_MAX
REFUSALS = """
async def code(*call, **arguments):
    try:
        return await call_tool(*call, **arguments)
    except ToolError as error:
        return error.code
"""
"""The beginning of a program that asks how it is refused."""


async def test_a_program_calls_a_tool_and_its_last_expression_is_the_answer(code_mode: CodeMode) -> None:
    called = await code_mode.call("""
found = await call_tool("builtin:calculate", expression="6 * 7")
print("about to answer")
{"result": found["structured"]["result"], "keys": sorted(found)}
""")
    assert not called.is_error, called
    assert called.structured == {
        "result": "42",
        "keys": ["content", "duration_ms", "id", "is_error", "run_id", "structured", "truncated"],
    }
    printed, value = called.content
    assert printed == {"type": "text", "text": "about to answer\n"}
    assert isinstance(value, dict)
    assert str(value["text"]).startswith('{"result":"42"')


@pytest.mark.parametrize(
    ("program", "structured", "text"),
    [
        ("1 + 2", 3, "3"),
        ("[1, (2, None)]", [1, [2, None]], "[1,[2,null]]"),
        ("'北京'", "北京", '"北京"'),
        ("print('a')", None, "a\n"),
        ("{3}", None, "{3}\n"),
        ("x = 1", None, ""),
        ("# nothing", None, ""),
        (r"'\ud800'", None, "'\\ud800'\n"),
        (r"{'a': '\ud83d' + '\ude00'}", {"a": "\U0001f600"}, '{"a":"\U0001f600"}'),
        (f"import json; json.loads('{DEEPEST}')", json.loads(DEEPEST), DEEPEST),
        (f"import json; json.loads('[{DEEPEST}]')", None, f"[{DEEPEST}]\n"),
        ("'x' * 300_000", None, None),
    ],
)
async def test_values_of_all_kinds_are_answers(
    program: str, structured: object, text: str | None, code_mode: CodeMode
) -> None:
    called = await code_mode.call(program)
    assert (called.is_error, called.structured) == (False, structured)
    if text is not None:
        assert called.text == text
    else:
        assert called.truncated
        assert called.text.startswith('"xxx')


async def test_calls_are_made_at_once_and_more_than_allowed_are_refused_in_the_program(code_mode: CodeMode) -> None:
    called = await code_mode.call(f"""
import asyncio
calls = [call_tool("builtin:calculate", expression=f"{{number}} + 1") for number in range({CALLS + 2})]
results = await asyncio.gather(*calls, return_exceptions=True)
[one["structured"]["result"] if isinstance(one, dict) else one.code for one in results]
""")
    assert called.structured == [*(str(number + 1) for number in range(CALLS)), "limit", "limit"], called.text
    assert CALLS > 2 * CALLS_AT_ONCE


async def test_calls_that_are_refused_or_cancelled_leave_their_places_to_others(code_mode: CodeMode) -> None:
    refused = await code_mode.call(
        f"""
import asyncio
calls = [call_tool("builtin:calculate", expression="1") for _ in range({5 * CALLS})]
results = await asyncio.gather(*calls, return_exceptions=True)
[getattr(one, "code", "done") for one in results]
""",
        timeout_s=10,
    )
    assert refused.structured == ["done"] * CALLS + ["limit"] * (4 * CALLS), refused.text
    cancelled = await code_mode.call(
        f"""
import asyncio
tasks = [asyncio.create_task(call_tool("builtin:calculate", expression="1")) for _ in range(250)]
await asyncio.sleep(0)
for task in tasks[{CALLS_AT_ONCE}:]:
    task.cancel()
(await call_tool("builtin:calculate", expression="1 + 1"))["structured"]["result"]
""",
        timeout_s=10,
    )
    assert cancelled.structured == "2", cancelled.text


async def test_asyncio_run_works_in_a_program_without_top_level_await(code_mode: CodeMode) -> None:
    called = await code_mode.call("""
import asyncio
async def main():
    first = asyncio.create_task(call_tool("builtin:calculate", expression="1 + 1"))
    await asyncio.sleep(0)
    return (await first)["structured"]["result"]
[asyncio.run(main()), asyncio.run(main())]
""")
    assert called.structured == ["2", "2"], called


async def test_a_program_searches_tools_and_reads_their_schemas(code_mode: CodeMode) -> None:
    called = await code_mode.call("""
[hit] = await search_tools("add numbers", limit=3)
schema = await tool_schema(hit["id"])
[schema["id"], schema["parameters"]["required"], sorted(schema)]
""")
    keys = ["description", "id", "name", "parameters", "stub", "tool_type"]
    assert called.structured == ["builtin:calculate", ["expression"], keys], called
    assert (code_mode.searches[-1].query, code_mode.searches[-1].limit) == ("add numbers", 3)


async def test_calls_are_refused_as_they_are_outside_and_a_program_starts_no_other(code_mode: CodeMode) -> None:
    code_mode.tools.set_state("builtin:platform", ToolState.DISABLED)
    try:
        called = await code_mode.call(
            REFUSALS
            + """
failed = await code("builtin:calculate", expression="1 / 0")
described = None
try:
    await tool_schema("builtin:platform")
except ToolError as error:
    described = error.code
[
    failed["is_error"],
    await code("builtin:platform"),
    described,
    await code("builtin:no_such_tool"),
    await code("external"),
    await code("builtin:calculate", wrong=1),
    await code("builtin:run_code", code="1"),
    await code(" "),
]
"""
        )
    finally:
        code_mode.tools.set_state("builtin:platform", ToolState.ACTIVE)
    refused = [True, "forbidden", "forbidden", "not_found", "not_found", "invalid_arguments", "forbidden"]
    assert called.structured == [*refused, "invalid_request"], called


async def test_a_program_has_the_project_of_its_caller_whatever_it_sends(code_mode: CodeMode) -> None:
    """The project is no part of what a program can send; one in its place is refused or ignored."""
    code_mode.searches.clear()
    called = await code_mode.call(
        REFUSALS
        + """
await search_tools("x")
[await code("builtin:search_tools", query="x", project="default"), await code("mcp:friendly/add")]
""",
        project="other",
    )
    assert called.structured == ["invalid_arguments", "not_found"]
    assert [search.project for search in code_mode.searches] == ["other"]


async def test_a_program_waits_for_skills_though_each_needs_a_slot(code_mode: CodeMode) -> None:
    """There is one slot for programs and one for skills: three programs and their skills take turns."""
    await code_mode.skills.put("echo", "import sys; print(sys.argv[1:])")
    program = 'r = await call_tool("skill:echo", **{"_": "hello"}); [r["content"][0]["text"], r["is_error"]]'
    answers = await asyncio.gather(*(code_mode.call(program) for _ in range(3)))
    assert [called.structured for called in answers] == [["['hello']\n", False]] * 3


async def test_an_error_names_the_line_of_the_program_and_nothing_of_ours(code_mode: CodeMode) -> None:
    raised = await code_mode.call("print('before')\nasync def f():\n    return 1 / 0\nawait f()")
    assert raised.is_error
    assert "before" in raised.text
    assert "failed with exit code 1" in raised.text
    assert "line 3, in f\n    return 1 / 0" in raised.text
    assert "skillbus_program" not in raised.text
    refused = await code_mode.call("1 +")
    assert refused.is_error
    assert "SyntaxError" in refused.text
    forgot = await code_mode.call('call_tool("builtin:platform")')
    assert "write `await` before it" in forgot.text
    left = await code_mode.call("import sys; print('x'); sys.exit(3)")
    assert "exit code 3" in left.text


async def test_a_fork_of_a_program_and_a_program_that_it_starts_cannot_call(code_mode: CodeMode) -> None:
    called = await code_mode.call(
        REFUSALS
        + """
import os, subprocess, sys
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, (await code("builtin:platform")).encode())
    os._exit(0)
os.wait()
started = subprocess.run(
    [sys.executable, "-c", "import os; print([f for f in os.listdir('/proc/self/fd')], os.read(0, 1))"],
    capture_output=True, text=True)
[os.read(reading, 99).decode(), started.stdout]
"""
    )
    assert called.structured == ["forbidden", "['0', '1', '2', '3'] b''\n"], called


async def test_a_program_is_a_run_with_files_a_record_and_events(code_mode: CodeMode) -> None:
    run_id, client = uuid4().hex, code_mode.bus.client
    program = (
        REFUSALS
        + """
open("/work/out/a.txt", "w").write("a")
print("one")
await code("builtin:calculate", expression="1 + 1")
await code("builtin:no_such_tool")
{"a": 1}
"""
    )
    async with (
        subscribe_to_feed(client, RUN_PRINTED, run_id) as events,
        subscribe_to_feed(client, PROGRAM_CALLED, run_id) as calls,
    ):
        called = await code_mode.call(program, run_id=run_id, stream=True)
        kinds = [(await anext(events)).kind for _ in range(3)]
        first, second = [await anext(calls) for _ in range(2)]
    assert kinds == [RunEventKind.BEGUN, RunEventKind.OUTPUT, RunEventKind.ENDED]
    assert (first.number, first.id, first.code) == (1, "builtin:calculate", None)
    assert (second.number, second.id, second.code) == (2, "builtin:no_such_tool", "not_found")
    [link] = [part for part in called.content if isinstance(part, dict) and part["type"] == "resource_link"]
    assert link["uri"] == f"skillbus://runs/{run_id}/a.txt"
    record = await code_mode.bus.caller.call(GET_RUN, RunSelector(run_id=run_id))
    assert (record.state, record.skill, record.action) == (RunState.OK, "run-code", "python")
    assert [file.name for file in record.artifacts] == ["a.txt"]


async def test_a_cancelled_program_ends_and_so_does_the_skill_that_it_waits_for(code_mode: CodeMode) -> None:
    await code_mode.skills.put("sleep", "import time; print('asleep', flush=True); time.sleep(60)")
    run_id = uuid4().hex
    calling = asyncio.create_task(code_mode.call('await call_tool("skill:sleep")', run_id=run_id))
    while True:
        runs = (await code_mode.bus.caller.call(LIST_RUNS, ListRuns(skill="sleep"))).runs
        if runs:
            break
    cancelled = await code_mode.bus.caller.call(CANCEL_CALL, CallSelector(run_id=run_id))
    called = await calling
    assert (cancelled.ending, called.is_error) == (True, True)
    assert "cancelled" in called.text
    record = await code_mode.bus.caller.call(GET_RUN, RunSelector(run_id=runs[0].run_id))
    assert record.state is RunState.CANCELLED


async def test_a_program_ends_at_its_time(code_mode: CodeMode) -> None:
    called = await code_mode.call("print('x', flush=True)\nwhile True: pass", timeout_s=0.2)
    assert called.is_error
    assert "0.2 s of time, the limit" in called.text


@pytest.mark.parametrize(
    "arguments", [{}, {"code": ""}, {"code": "1", "language": "cobol"}, {"code": "a\0b"}, {"code": "1", "more": 1}]
)
async def test_wrong_arguments_are_refused_before_anything_runs(
    arguments: dict[str, object], code_mode: CodeMode
) -> None:
    with pytest.raises(RequestError) as refused:
        await code_mode.call(**{"code": "", **arguments}, arguments=arguments)  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_ARGUMENTS
