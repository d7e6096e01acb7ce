"""The builtin tools with their adapters."""

import os
import platform
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from skillbus.agent.adapters.disk_files import DiskFiles, FileQuota
from skillbus.agent.domain.builtins.calculate import CALCULATE
from skillbus.agent.domain.builtins.date_time import make_datetime_tool
from skillbus.agent.domain.builtins.files import make_list_files_tool, make_read_file_tool, make_write_file_tool
from skillbus.agent.domain.builtins.platform import make_platform_tool
from skillbus.agent.domain.builtins.tool import BuiltinTool, BuiltinTools
from skillbus.agent.domain.builtins.tool_finder import make_search_tool
from skillbus.common.bus.caller import Caller
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS


def list_machine_facts() -> dict[str, str]:
    """Return the kind of the machine, but no host name, user, folder or address."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "byte_order": sys.byteorder,
        "cpus": str(os.cpu_count() or 1),
    }


def make_builtin_tools(
    caller: Caller, files: Path, *, quota: FileQuota | None = None, without: Collection[str] = ()
) -> BuiltinTools:
    """Make all builtin tools except those in `without`. The files of each project are in a folder of `files`."""
    disk = DiskFiles(files, quota or FileQuota())
    tools: tuple[BuiltinTool, ...] = (
        CALCULATE,
        make_datetime_tool(lambda: datetime.now(UTC)),
        make_search_tool(lambda request: caller.call(SEARCH_TOOLS, request)),
        make_platform_tool(list_machine_facts),
        make_read_file_tool(disk),
        make_write_file_tool(disk),
        make_list_files_tool(disk),
    )
    return BuiltinTools(tool for tool in tools if tool.description.name not in without)
