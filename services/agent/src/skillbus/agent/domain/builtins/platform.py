"""The tool `platform`."""

import os
import platform
import sys
from typing import Final

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, make_tool
from skillbus.agent.domain.tool_answer import ToolAnswer


class PlatformArguments(BuiltinArguments):
    """No arguments."""


async def _describe_machine(_project: str, _arguments: PlatformArguments) -> ToolAnswer:
    """Return the kind of the machine, but no host name, user, folder or address."""
    facts = {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "byte_order": sys.byteorder,
        "cpus": str(os.cpu_count() or 1),
    }
    return ToolAnswer("\n".join(f"{name}: {value}" for name, value in facts.items()), structured={**facts})


PLATFORM: Final = make_tool(
    BuiltinProfile(
        name="platform",
        english="Tell what system skillbus runs on: operating system (Linux, Windows or macOS), processor architecture "
        "and Python version.",
        chinese="平台信息：返回当前运行环境的操作系统、处理器架构和 Python 版本。",
        tags=("system", "environment", "系统", "环境"),
        examples=(
            "Which operating system are you running on?",
            "What CPU architecture is this machine?",
            "你运行在什么操作系统上",
            "当前环境的 Python 版本是多少",
        ),
    ),
    PlatformArguments,
    _describe_machine,
)
