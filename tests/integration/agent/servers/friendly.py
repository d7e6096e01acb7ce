"""A server over stdio as the SDK's own examples write one."""

from mcp.server.fastmcp import FastMCP

mcp = FastMCP("friendly")


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers. 把两个数相加。"""
    return a + b


@mcp.tool()
def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ValueError(reason)


if __name__ == "__main__":
    mcp.run()
