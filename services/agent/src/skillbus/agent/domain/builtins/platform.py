"""The tool `platform`."""

from typing import Final, Protocol

from pydantic import JsonValue

from skillbus.agent.domain.builtins.tool import About, Answer, Arguments, Builtin


class Machine(Protocol):
    """What may be told of the machine: nothing that names it, its users, its folders or its network."""

    def facts(self) -> dict[str, str]:
        """Name of a fact to what it is, in the order to tell them."""
        ...


class Platform(Arguments):
    """Nothing."""


ABOUT: Final = About(
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


def platform_tool(machine: Machine) -> Builtin[Platform]:
    """The tool for this machine."""

    async def run(_project: str, _asked: Platform) -> Answer:
        facts = machine.facts()
        structured: dict[str, JsonValue] = dict(facts)
        return Answer("\n".join(f"{name}: {value}" for name, value in facts.items()), structured)

    return Builtin(ABOUT, Platform, run)
