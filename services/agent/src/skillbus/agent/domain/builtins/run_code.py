"""The tool `run_code`: its description and arguments. `ProgramRunner` runs the programs."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal

from pydantic import Field

from skillbus.agent.domain.builtins.tool import (
    ID_PREFIX,
    BuiltinArguments,
    BuiltinProfile,
    BuiltinTool,
    OuterCall,
    make_calling_tool,
)
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.sandbox.program_runs import CODE_CHARACTERS, RUN_CODE


class RunCodeArguments(BuiltinArguments):
    code: Annotated[
        str,
        Field(
            min_length=1,
            max_length=CODE_CHARACTERS,
            description="The program. It can use `await call_tool(id, **arguments)` (Node: `call_tool(id, {...})`), "
            "which returns `content`, `structured` and `is_error`, `await search_tools(query)` and "
            "`await tool_schema(id)`. What it prints and the value of its last expression are the answer. It has no "
            "network and no files.",
        ),
    ]
    language: Annotated[Literal["python", "node"], Field(description="Language of the program.")] = "python"
    timeout_s: Annotated[
        float | None,
        Field(gt=0, le=3600, description="Longest time of the program in seconds; the sandbox's if absent."),
    ] = None


ABOUT: Final = BuiltinProfile(
    name=RUN_CODE.removeprefix(ID_PREFIX),
    english="Run a program that calls several tools and works with their results, so that only its answer is returned.",
    chinese="运行程序：执行一段可调用多个工具并处理其结果的程序，只返回最终答案。",
    tags=("code", "program", "程序", "编程"),
    examples=(
        "Run a Python program that calls a tool for each of these items.",
        "Call many tools in a loop and combine their results.",
        "写一段 Python 程序批量调用工具并汇总结果",
    ),
)


RunProgramCode = Callable[[OuterCall, RunCodeArguments], Awaitable[ToolAnswer]]
"""Runs the program of a call."""


def make_run_code_tool(run: RunProgramCode) -> BuiltinTool:
    return make_calling_tool(ABOUT, RunCodeArguments, run)
