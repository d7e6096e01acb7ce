"""MCP servers as operators add them: in the file mcp.json, which the agent follows."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from skillbus.cli.tools.mcp_file import put_entries, remove_entry
from skillbus.common.bus.caller import Caller
from skillbus.contracts.agent.mcp_servers import (
    REFRESH_MCP_SERVER,
    REMOVE_MCP_SERVER,
    McpServer,
    McpServerSelector,
)
from skillbus.contracts.errors import ErrorCode, RequestError


async def add_entry(caller: Caller, file: Path, name: str, **entry: JsonValue) -> McpServer:
    """Write an entry into the file, and return the server when the agent has read it and listed its tools."""
    put_entries(file, {name: entry})
    selector = McpServerSelector(name=name, project=str(entry.get("project", "default")))
    return await caller.call(REFRESH_MCP_SERVER, selector)


async def add_script(caller: Caller, file: Path, name: str, words: Sequence[object], **entry: JsonValue) -> McpServer:
    """Add a server that is a script in Python."""
    return await add_entry(caller, file, name, command=sys.executable, args=[str(word) for word in words], **entry)


async def remove_server(caller: Caller, file: Path, name: str) -> None:
    """Remove an entry from the file, and return when the agent has stopped the server and removed its tools."""
    remove_entry(file, name)
    try:
        await caller.call(REMOVE_MCP_SERVER, McpServerSelector(name=name))
    except RequestError as error:
        if error.code is not ErrorCode.NOT_FOUND:  # the agent saw the file first
            raise
