"""The tool `platform`."""

from typing import Final, Protocol

from pydantic import JsonValue

from skillbus.agent.domain.builtins.tool import BuiltinAnswer, BuiltinArguments, BuiltinProfile, FunctionTool


class MachineInfo(Protocol):
    """Facts about the machine, but nothing that identifies it, its users, its folders or its network."""

    def list_facts(self) -> dict[str, str]:
        """Return the facts by name, in the order of the answer."""


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


def make_platform_tool(machine: MachineInfo) -> FunctionTool[PlatformArguments]:
    async def run(_project: str, _arguments: PlatformArguments) -> BuiltinAnswer:
        facts = machine.list_facts()
        structured: dict[str, JsonValue] = dict(facts)
        return BuiltinAnswer("\n".join(f"{name}: {value}" for name, value in facts.items()), structured)

    return FunctionTool(ABOUT, PlatformArguments, run)
