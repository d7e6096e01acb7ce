"""The builtin tools on real things."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from skillbus.agent.adapters.builtins.bus_tool_finder import BusToolFinder
from skillbus.agent.adapters.builtins.disk_files import Allowance, DiskFiles
from skillbus.agent.adapters.builtins.machine import ThisMachine
from skillbus.agent.domain.builtins.all_of_them import BuiltinTools
from skillbus.agent.domain.builtins.calculate import CALCULATE
from skillbus.agent.domain.builtins.date_and_time import datetime_tool
from skillbus.agent.domain.builtins.file_tools import list_files_tool, read_file_tool, write_file_tool
from skillbus.agent.domain.builtins.platform import platform_tool
from skillbus.agent.domain.builtins.search_tools import search_tool
from skillbus.agent.domain.builtins.tool import BuiltinTool
from skillbus.common.bus.caller import Caller


def builtin_tools(
    caller: Caller, files: Path, *, allowance: Allowance | None = None, without: Collection[str] = ()
) -> BuiltinTools:
    """All builtin tools but those named in `without`; the files of projects lie in folders of `files`."""
    disk = DiskFiles(files, allowance or Allowance())
    tools: tuple[BuiltinTool, ...] = (
        CALCULATE,
        datetime_tool(lambda: datetime.now(UTC)),
        search_tool(BusToolFinder(caller)),
        platform_tool(ThisMachine()),
        read_file_tool(disk),
        write_file_tool(disk),
        list_files_tool(disk),
    )
    return BuiltinTools(tool for tool in tools if tool.description.name not in without)
