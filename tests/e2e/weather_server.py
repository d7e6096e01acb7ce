"""An MCP server over stdio, as the SDK's examples are written: two tools."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("weather")


@server.tool()
def forecast(city: str) -> str:
    """Weather forecast of a city. 查询城市的天气预报。"""
    return f"{city}: rain"


@server.tool()
def air_quality(city: str) -> str:
    """Air quality of a city. 查询城市的空气质量。"""
    return f"{city}: good"


if __name__ == "__main__":
    server.run()
