"""The part of skillbus's HTTP API that is about tools, MCP servers and audits, in memory."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

import httpx

from skillbus.cli.server.launcher import Externals
from skillbus.contracts.errors import ErrorCode

from .fake_server import Json, problem, skill_record

WHEN = "2026-01-01T00:00:00Z"


def tool_record(tool_id: str, **changed: object) -> Json:
    """A tool as the catalogue records it."""
    tool: Json = {"id": tool_id, "name": "read_file", "description": "Reads a file.", "tool_type": "mcp"}
    usual: Json = {"tool": tool, "state": "active", "digest": "a" * 64, "created_at": WHEN, "updated_at": WHEN}
    return usual | changed


def summary(tool_id: str, **changed: object) -> Json:
    """A tool in a list."""
    usual: Json = {"id": tool_id, "name": tool_id, "description": "读文件", "tool_type": "mcp", "source": "mcp:files"}
    return usual | {"state": "active", "findings": 0, "updated_at": WHEN} | changed


def server_record(name: str, **changed: object) -> Json:
    """A registered MCP server."""
    usual: Json = {"name": name, "transport": "http", "address": "https://mcp.example.com/mcp", "timeout_s": 20}
    return usual | {"state": "connected", "tools": 3, "registered_at": WHEN} | changed


def import_report(**changed: object) -> Json:
    """What became of an import."""
    counts = {"created": 2, "updated": 0, "unchanged": 0, "quarantined": 0, "rejected": 0}
    usual: Json = {"total": 2, "counts": counts, "indexed": True, "results": []}
    return usual | changed


def audit_report(**changed: object) -> Json:
    """An audit in which all agrees."""
    index = {"catalogued": 5, "inactive": 1, "indexed": 5, "differences": []}
    calls = {"callable": 3, "catalogued": 3, "silent": [], "differences": []}
    usual: Json = {"project": "default", "agrees": True, "index": index, "calls": calls, "missing": [], "repaired": []}
    return usual | changed


@dataclass
class FakeTools:
    """`answers` by the last word of a path, or by method and path; what was asked is kept."""

    tools: dict[str, Json] = field(default_factory=dict)
    listed: list[Json] = field(default_factory=list)
    page_size: int = 1000
    answers: dict[str, Json | httpx.Response] = field(default_factory=dict)
    answer_next: Callable[[], httpx.Response] | None = None
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    queries: list[httpx.QueryParams] = field(default_factory=list)

    def externals(self) -> Externals:
        """What a command is given."""
        return Externals(transport=httpx.MockTransport(self._answer))

    def body(self) -> Json:
        """The JSON body of the last request."""
        content: Json = json.loads(self.requests[-1][2])
        return content

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        path = unquote(request.url.raw_path.decode().partition("?")[0])
        self.requests.append((request.method, path, await request.aread()))
        self.queries.append(request.url.params)
        if self.answer_next is not None:
            next_answer = self.answer_next()
            await asyncio.sleep(0)  # where a caller that is interrupted notices it
            return next_answer
        for key in (f"{request.method} {path}", path.rsplit("/", 1)[-1]):
            if key in self.answers:
                answer = self.answers[key]
                return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)
        if (request.method, path) == ("GET", "/api/tools"):
            return self._list(request.url.params)
        if path.startswith("/api/tools/"):
            return self._tool(request.method, path.removeprefix("/api/tools/"))
        if path.startswith("/api/skills/"):
            return httpx.Response(200, json=skill_record("greet", enabled=not path.endswith("disable"), pinned=True))
        return problem(ErrorCode.NOT_FOUND, "There is nothing at this path.")

    def _list(self, where: httpx.QueryParams) -> httpx.Response:
        rest = [it for it in self.listed if str(it["id"]) > where.get("after", "")]
        page = rest[: min(self.page_size, int(where["limit"]))]
        following = page[-1]["id"] if len(rest) > len(page) else None
        return httpx.Response(200, json={"tools": page, "total": len(self.listed), "next": following})

    def _tool(self, method: str, rest: str) -> httpx.Response:
        name, _, step = rest.rpartition("/")
        tool_id = name if step in {"accept", "enable", "disable"} else rest
        if tool_id not in self.tools:
            return problem(ErrorCode.NOT_FOUND, f"There is no tool {tool_id!r}.")
        return httpx.Response(200, json={"ids": [tool_id]} if method == "DELETE" else self.tools[tool_id])
