"""What programs in Node can do; what holds for every language is in `test_programs.py`."""

import json
import shutil

import pytest

from skillbus.sandbox.domain.run.result import NESTING_MAX

from .conftest import CALLS, CodeMode

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]


async def test_a_program_calls_tools_and_its_last_expression_is_the_answer(code_mode: CodeMode) -> None:
    called = await code_mode.call(
        """
const found = await call_tool("builtin:calculate", { expression: "6 * 7" });
console.log("about to answer");
({ result: found.structured.result, keys: Object.keys(found).sort() })
""",
        language="node",
    )
    assert not called.is_error, called
    keys = ["content", "duration_ms", "id", "is_error", "run_id", "structured", "truncated"]
    assert called.structured == {"result": "42", "keys": keys}
    assert called.text.startswith("about to answer\n")


async def test_calls_are_made_at_once_within_the_limits_and_errors_are_toolerrors(code_mode: CodeMode) -> None:
    called = await code_mode.call(
        f"""
const calls = [...Array({CALLS - 3}).keys()].map((n) => call_tool("builtin:calculate", {{ expression: `${{n}} + 1` }}));
const results = (await Promise.all(calls)).map((one) => Number(one.structured.result));
const code = (promise) => promise.then(() => "done", (error) => [error instanceof ToolError, error.code]);
const [hit] = await search_tools("add numbers", {{ limit: 3 }});
const schema = await tool_schema(hit.id);
const others = await Promise.all([
  code(call_tool("builtin:run_code", {{ code: "1" }})), code(call_tool("builtin:platform"))]);
[results.reduce((a, b) => a + b), schema.parameters.required, ...others]
""",
        language="node",
    )
    numbers = range(1, CALLS - 2)
    assert called.structured == [sum(numbers), ["expression"], [True, "forbidden"], [True, "limit"]], called


async def test_errors_show_the_program_and_nothing_of_ours(code_mode: CodeMode) -> None:
    raised = await code_mode.call(
        "console.log('before');\nasync function f() {\n  null.x;\n}\nawait f()", language="node"
    )
    assert raised.is_error
    assert "before" in raised.text
    assert "program.js:3:" in raised.text
    assert "skillbus_program" not in raised.text
    assert "SyntaxError" in (await code_mode.call("const = 1", language="node")).text
    late = await code_mode.call("setTimeout(() => { throw new Error('late') }, 1); 1", language="node")
    assert late.is_error
    assert "late" in late.text


async def test_standard_input_is_empty_and_a_program_ends_when_it_waits_for_nothing(code_mode: CodeMode) -> None:
    called = await code_mode.call(
        """
let read = 0;
for await (const chunk of process.stdin) read += chunk.length;
setTimeout(() => console.log("later"), 1);
await call_tool("builtin:platform");
[read, process.cwd(), require("path").basename("/a/b"), (await import("node:os")).EOL]
""",
        language="node",
    )
    assert called.structured == [0, "/work", "b", "\n"], called
    assert "later" in called.text


async def test_a_child_program_inherits_no_tool_channel(code_mode: CodeMode) -> None:
    called = await code_mode.call(
        """
const child = require("child_process").spawnSync("ls", ["/proc/self/fd"], { stdio: ["inherit", "pipe", "pipe"] });
[child.stdout.toString(), (await call_tool("builtin:calculate", { expression: "1" })).is_error]
""",
        language="node",
    )
    assert called.structured == ["0\n1\n2\n3\n", False], called  # 3 is the folder that `ls` reads


async def test_calls_that_are_refused_leave_their_places_to_others(code_mode: CodeMode) -> None:
    called = await code_mode.call(
        f"""
const calls = [...Array({5 * CALLS}).keys()].map(() => call_tool("builtin:calculate", {{ expression: "1" }}));
(await Promise.allSettled(calls)).map((one) => one.reason?.code ?? "done")
""",
        language="node",
    )
    assert called.structured == ["done"] * CALLS + ["limit"] * (4 * CALLS), called.text


async def test_a_program_that_ends_before_its_answer_has_failed(code_mode: CodeMode) -> None:
    called = await code_mode.call("console.log('before'); await new Promise(() => {}); 1", language="node")
    assert called.is_error
    assert "before" in called.text
    assert "exit code 13" in called.text
    assert "awaits a promise that nothing settles" in called.text


async def test_values_that_the_service_would_refuse_are_printed(code_mode: CodeMode) -> None:
    deepest = "[" * NESTING_MAX + "]" * NESTING_MAX
    programs = [r"'\ud800'", r"({a: '\\ud800\ud83d\ude00'})", deepest, f"[{deepest}]"]
    lone, pair, deep, deeper = [await code_mode.call(program, language="node") for program in programs]
    assert (lone.structured, lone.text.lower()) == (None, r"'\ud800'" + "\n")
    assert pair.structured == {"a": "\\ud800\U0001f600"}
    assert deep.structured == json.loads(deepest)
    assert (deeper.structured, deeper.is_error) == (None, False)
    assert deeper.text.startswith("[")
