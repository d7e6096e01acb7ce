"""The tool `platform`."""

from collections.abc import Callable, Mapping
from typing import Final

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, FunctionTool
from skillbus.agent.domain.tool_answer import ToolAnswer


class PlatformArguments(BuiltinArguments):
    """No arguments."""


ABOUT: Final = BuiltinProfile(
    name="platform",
    english="Tell what system skillbus runs on: operating system (Linux, Windows or macOS), processor architecture and "
    "Python version.",
    chinese="平台信息：返回当前运行环境的操作系统、处理器架构和 Python 版本。",
    tags=("system", "environment", "系统", "环境"),
    examples=(
        "Which operating system are you running on?",
        "What CPU architecture is this machine?",
        "你运行在什么操作系统上",
        "当前环境的 Python 版本是多少",
    ),
)


def make_platform_tool(list_facts: Callable[[], Mapping[str, str]]) -> FunctionTool[PlatformArguments]:
    """Make the tool. `list_facts` returns facts that do not identify the machine, its users, folders or network."""

    async def run(_project: str, _arguments: PlatformArguments) -> ToolAnswer:
        facts = list_facts()
        return ToolAnswer("\n".join(f"{name}: {value}" for name, value in facts.items()), structured={**facts})

    return FunctionTool(ABOUT, PlatformArguments, run)
