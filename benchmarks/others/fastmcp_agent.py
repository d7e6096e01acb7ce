"""The side of FastMCP in `chat_turns_beside_others.py`, in an environment of its own: its `mcp` is newer than ours.

Reads a JSON object from standard input: `url` of the upstream, `tools`, `questions`, `rounds`, and prints its figures.
A small loop asks the model, calls the tools that it names over FastMCP's client in memory, and stops at a text.
"""

import asyncio
import json
import sys
import time
from typing import Any

import httpx
from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool, ToolResult

TOP = 10


class PlainTool(Tool):
    """Tool of the catalogue. Each answers with the same number."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content=str(391), structured_content={"result": 391})


def open_server(tools: list[dict[str, Any]], transform: Any) -> FastMCP:
    server: FastMCP = FastMCP("catalogue")
    for tool in tools:
        parameters = tool.get("parameters") or {"type": "object", "properties": {}}
        server.add_tool(PlainTool(name=tool["name"], description=tool["description"], parameters=parameters))
    server.add_transform(transform)
    return server


async def take_turn(mcp: Client, http: httpx.AsyncClient, url: str, question: str) -> tuple[int, int]:
    """Return the steps of a turn and the tokens that were sent."""
    listed = await mcp.list_tools()
    tools = [
        {
            "type": "function",
            "function": {"name": it.name, "description": it.description, "parameters": it.input_schema},
        }
        for it in listed
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    steps = tokens = 0
    while True:
        body = {"model": "m", "messages": messages, "tools": tools}
        reply = (await http.post(f"{url}/v1/chat/completions", json=body)).json()
        steps, tokens = steps + 1, tokens + reply["usage"]["prompt_tokens"]
        message = reply["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return steps, tokens
        for call in message["tool_calls"]:
            result = await mcp.call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            text = "\n".join(getattr(part, "text", "") for part in result.content)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


async def measure_turns(given: dict[str, Any], transform: Any) -> dict[str, Any]:
    async with Client(open_server(given["tools"], transform)) as mcp, httpx.AsyncClient(timeout=60) as http:
        for _ in range(3):
            steps, tokens = await take_turn(mcp, http, given["url"], given["question"])
        took, cpu = [], []
        for _ in range(given["rounds"]):
            began, used = time.perf_counter(), time.process_time()
            await take_turn(mcp, http, given["url"], given["question"])
            took.append((time.perf_counter() - began) * 1e3)
            cpu.append((time.process_time() - used) * 1e3)
    return {"took_ms": took, "cpu_ms": cpu, "steps": steps, "tokens": tokens}


async def search(given: dict[str, Any]) -> list[list[str]]:
    """Return the names that its search finds for each question."""
    found = []
    async with Client(open_server(given["judged_tools"], BM25SearchTransform(max_results=TOP))) as mcp:
        for question in given["questions"]:
            result = await mcp.call_tool("search_tools", {"query": question})
            hits = json.loads(result.content[0].text) if result.content else []
            found.append([hit["name"] for hit in hits])
    return found


async def main() -> None:
    given = json.load(sys.stdin)
    figures = {
        "search": await measure_turns(given, BM25SearchTransform(max_results=TOP)),
        "code mode": await measure_turns(given, CodeMode()),
    }
    found = await search(given) if given["questions"] else []
    json.dump({"figures": figures, "found": found}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
