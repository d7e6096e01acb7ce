"""A server whose tool waits until its call is cancelled, and tells by files when it began and when it was cancelled."""

from pathlib import Path

import anyio
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("lingering")


@mcp.tool()
async def linger(folder: str) -> str:
    """Wait for the cancellation of the call."""
    try:
        Path(folder, "begun").touch()
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(folder, "cancelled").touch()
        raise
    return "never"


if __name__ == "__main__":
    mcp.run()
