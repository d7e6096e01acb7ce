"""A typed client of what the HTTP API has on tools of any kind, MCP servers and the audit."""

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import httpx
from pydantic import JsonValue

from skillbus.cli.client.connection import exchange, parsed
from skillbus.cli.client.replies import Audit, ToolsImported
from skillbus.contracts.agent.mcp_servers import McpServer, McpServerRemoved, McpServersListed, RegisterMcpServer
from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import SkillChecked, SkillHistory
from skillbus.contracts.indexer.tools import CatalogueTool, ToolsListed, ToolsRemoved, ToolSummary

_TOOLS: Final = "/api/tools"
_SERVERS: Final = "/api/mcp-servers"
_PAGE: Final = 1000
_IMPORT_S: Final = 600.0
"""Between two parts of a body: a slow model may embed some hundreds of descriptions first."""
_AUDIT_S: Final = 600.0
_SERVER_S: Final = 330.0
"""A server may be given 300 s to answer."""


@dataclass(frozen=True, slots=True)
class ToolsClient:
    """Each method is one request, but for `tools`; all raise the errors of `skillbus.cli.errors`."""

    http: httpx.AsyncClient
    project: str | None = None

    async def import_tools(self, body: AsyncIterable[bytes], wishes: Mapping[str, str]) -> ToolsImported:
        """Describe tools; what went well is only counted in the reply."""
        headers = {"Content-Type": "application/x-ndjson"}
        where = {"only": "problems", **wishes} | self._scope()
        response = await exchange(
            self.http, "PUT", _TOOLS, params=where, content=body, headers=headers, wait_s=_IMPORT_S
        )
        return parsed(ToolsImported, response)

    async def tools(self, only: Mapping[str, str | Sequence[str]], limit: int) -> tuple[tuple[ToolSummary, ...], int]:
        """The first tools of the catalogue by id, page after page, and how many there are in all."""
        found: list[ToolSummary] = []
        after: dict[str, str] = {}
        while True:
            size = {"limit": str(min(_PAGE, limit - len(found)))}
            response = await exchange(self.http, "GET", _TOOLS, params={**only, **size, **self._scope(), **after})
            page = parsed(ToolsListed, response)
            found += page.tools
            if len(found) >= limit or page.next is None or page.next == after.get("after"):
                return tuple(found), page.total
            after = {"after": page.next}

    async def tool(self, tool_id: str) -> CatalogueTool:
        """One tool."""
        return parsed(CatalogueTool, await exchange(self.http, "GET", _tool(tool_id), params=self._scope()))

    async def remove_tool(self, tool_id: str) -> None:
        """Take a tool out of the catalogue."""
        await exchange(self.http, "DELETE", _tool(tool_id), params=self._scope())

    async def remove_source(self, source: str) -> ToolsRemoved:
        """Take all tools of a source out of the catalogue."""
        where = {"source": source} | self._scope()
        return parsed(ToolsRemoved, await exchange(self.http, "DELETE", _TOOLS, params=where))

    async def accept(self, tool_id: str, digest: str) -> CatalogueTool:
        """Accept a quarantined tool as it was looked at."""
        path = f"{_tool(tool_id)}/accept"
        response = await exchange(self.http, "POST", path, params=self._scope(), json={"digest": digest})
        return parsed(CatalogueTool, response)

    async def set_state(self, tool_id: str, *, enabled: bool) -> CatalogueTool:
        """Disable or enable a tool."""
        path = f"{_tool(tool_id)}/{'enable' if enabled else 'disable'}"
        return parsed(CatalogueTool, await exchange(self.http, "POST", path, params=self._scope()))

    async def call(self, tool_id: str, arguments: Mapping[str, JsonValue]) -> ToolCalled:
        """Call an MCP or a builtin tool."""
        path, body = f"{_tool(tool_id)}/call", {"arguments": dict(arguments)}
        response = await exchange(self.http, "POST", path, params=self._scope(), json=body, wait_s=_SERVER_S)
        return parsed(ToolCalled, response)

    async def register(self, server: RegisterMcpServer) -> McpServer:
        """Register an MCP server, or replace the one of its name."""
        body = server.model_dump(mode="json", exclude_unset=True) | self._scope()
        return parsed(McpServer, await exchange(self.http, "POST", _SERVERS, json=body, wait_s=_SERVER_S))

    async def servers(self) -> McpServersListed:
        """The MCP servers."""
        return parsed(McpServersListed, await exchange(self.http, "GET", _SERVERS, params=self._scope()))

    async def server(self, name: str) -> McpServer:
        """One MCP server."""
        return parsed(McpServer, await exchange(self.http, "GET", _server(name), params=self._scope()))

    async def refresh(self, name: str) -> McpServer:
        """List an MCP server's tools again."""
        path = f"{_server(name)}/refresh"
        response = await exchange(self.http, "POST", path, params=self._scope(), wait_s=_SERVER_S)
        return parsed(McpServer, response)

    async def remove_server(self, name: str) -> McpServerRemoved:
        """Remove an MCP server and its tools."""
        return parsed(McpServerRemoved, await exchange(self.http, "DELETE", _server(name), params=self._scope()))

    async def audit(self, *, fix: bool) -> Audit:
        """Compare catalogue, vectors and what can be called."""
        body: dict[str, object] = {"fix": fix, **self._scope()}
        return parsed(Audit, await exchange(self.http, "POST", "/api/audit", json=body, wait_s=_AUDIT_S))

    async def check_skill(self, filename: str, package: bytes) -> SkillChecked:
        """What the validation says of a package."""
        files = {"package": (filename, package, "application/zip")}
        response = await exchange(self.http, "POST", "/api/skills/check", files=files, data=self._scope())
        return parsed(SkillChecked, response)

    async def skill_history(self, name: str) -> SkillHistory:
        """The packages of a skill, the current one first."""
        return parsed(SkillHistory, await exchange(self.http, "GET", _skill(name, "history"), params=self._scope()))

    async def roll_back_skill(self, name: str, content_digest: str | None) -> Skill:
        """Go back to an earlier package: the one before if no digest is given."""
        body: dict[str, object] = {} if content_digest is None else {"content_digest": content_digest}
        path = _skill(name, "rollback")
        return parsed(Skill, await exchange(self.http, "POST", path, params=self._scope(), json=body))

    async def change_skill(self, name: str, step: str) -> Skill:
        """`pin`, `unpin`, `enable` or `disable` it."""
        return parsed(Skill, await exchange(self.http, "POST", _skill(name, step), params=self._scope()))

    async def skill(self, name: str) -> Skill:
        """An installed skill."""
        path = f"/api/skills/{quote(name, safe='')}"
        return parsed(Skill, await exchange(self.http, "GET", path, params=self._scope()))

    async def approve_network(self, name: str, approved: Sequence[str]) -> Skill:
        """What of the network its runs may reach from now on."""
        body: dict[str, object] = {"approved": list(approved)}
        path = _skill(name, "network")
        return parsed(Skill, await exchange(self.http, "PUT", path, params=self._scope(), json=body))

    def _scope(self) -> dict[str, str]:
        return {"project": self.project} if self.project else {}


def _tool(tool_id: str) -> str:
    # Dots too: a client takes a segment of one or two of them out of a path.
    return f"{_TOOLS}/{quote(tool_id, safe='').replace('.', '%2E')}"


def _server(name: str) -> str:
    return f"{_SERVERS}/{quote(name, safe='')}"


def _skill(name: str, step: str) -> str:
    return f"/api/skills/{quote(name, safe='')}/{step}"
