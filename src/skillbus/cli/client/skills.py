"""A typed client of the HTTP API."""

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import BinaryIO
from urllib.parse import quote, urljoin, urlsplit

import httpx
from pydantic import JsonValue

from skillbus.cli.client.connection import exchange, parsed
from skillbus.cli.client.replies import Installed, Ran, SystemStatus
from skillbus.cli.errors import StrangeReplyError
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import SkillsListed
from skillbus.contracts.retriever.tool_search import ToolsFound

JsonObject = dict[str, JsonValue]
JsonMembers = dict[str, object]

_PAGE = 200
_RUN_S = 90.0
"""Longer than the sandbox's own wall clock of a run, which ends it with a proper answer."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the server is, and as whom we speak to it."""

    url: str
    key: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run to ask for. `files` are contents by base name."""

    name: str
    action: str | None = None
    args: JsonObject | None = None
    argv: tuple[str, ...] | None = None
    stdin: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    timeout_s: float | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """Each method is one request, but for `skills`; all raise the errors of `skillbus.cli.errors`."""

    http: httpx.AsyncClient
    project: str | None = None

    async def install(self, filename: str, package: bytes | BinaryIO) -> Installed:
        """Upload a package."""
        response = await exchange(
            self.http,
            "POST",
            "/api/skills",
            files={"package": (filename, package, "application/zip")},
            data=self._scope(),
        )
        return parsed(Installed, response)

    async def skills(self, only: Mapping[str, str] | None = None) -> tuple[Skill, ...]:
        """The whole catalogue, page after page, or what of it the filters `only` leave."""
        found: list[Skill] = []
        after: str | None = None
        while True:
            where = {"limit": str(_PAGE), **(only or {})} | self._scope() | ({"after": after} if after else {})
            page = parsed(SkillsListed, await exchange(self.http, "GET", "/api/skills", params=where))
            found += page.skills
            if page.next is None or page.next == after:
                return tuple(found)
            after = page.next

    async def remove(self, name: str) -> None:
        """Uninstall a skill."""
        await exchange(self.http, "DELETE", _skill_path(name), params=self._scope())

    async def run(self, order: RunOrder) -> Ran:
        """Run a skill and wait for its end."""
        path, body, wait_s = run_request(order)
        return parsed(Ran, await exchange(self.http, "POST", path, params=self._scope(), json=body, wait_s=wait_s))

    async def search(
        self,
        query: str,
        *,
        limit: int = 5,
        threshold: float | None = None,
        only: Mapping[str, Sequence[str]] | None = None,
        explain: bool = False,
    ) -> ToolsFound:
        """The tools that fit, best first. `only` is of `tool_types`, `tags` and `sources`."""
        body: dict[str, object] = {"query": query, "limit": limit, **self._scope()}
        body |= {name: list(values) for name, values in (only or {}).items() if values}
        body |= {"threshold": threshold} if threshold is not None else {}
        body |= {"explain": True} if explain else {}
        return parsed(ToolsFound, await exchange(self.http, "POST", "/api/tools/search", json=body))

    async def status(self) -> SystemStatus:
        """How every service is, and what the indexer holds."""
        return parsed(SystemStatus, await exchange(self.http, "GET", "/api/status"))

    async def fetch(self, url: str) -> bytes:
        """An artifact's content, from this server and no other: the key must not travel elsewhere."""
        base = str(self.http.base_url)
        if _origin(urljoin(base, url)) != _origin(base):
            raise StrangeReplyError(f"an artifact lies at {url}, which is another server", "Fetch it by hand.")
        return (await exchange(self.http, "GET", url)).content

    def _scope(self) -> dict[str, str]:
        return {"project": self.project} if self.project else {}


def run_request(order: RunOrder) -> tuple[str, JsonMembers, float]:
    """Path and body of the request for a run, and how long its answer may take in seconds."""
    members: JsonMembers = {
        "action": order.action,
        "args": order.args,
        "argv": order.argv,
        "stdin": order.stdin,
        "timeout_s": order.timeout_s,
        "files": {name: b64encode(content).decode() for name, content in order.files.items()} or None,
        "run_id": order.run_id,
    }
    body = {name: value for name, value in members.items() if value is not None}
    return f"{_skill_path(order.name)}/run", body, max(_RUN_S, (order.timeout_s or 0) + 30)


@asynccontextmanager
async def open_client(remote: Remote, transport: httpx.AsyncBaseTransport | None = None) -> AsyncIterator[Client]:
    """A client for the length of a command. Proxies of the environment are for other machines than this one.

    Raises:
        ValueError: `remote.url` is no address of an HTTP server.
    """
    headers = {"Accept": "application/json"}
    if remote.key:
        headers["Authorization"] = f"Bearer {remote.key}"
    async with httpx.AsyncClient(
        base_url=checked_url(remote.url),
        headers=headers,
        transport=transport,
        trust_env=not _is_loopback(remote.url),
    ) as http:
        yield Client(http, remote.project)


def checked_url(url: str) -> str:
    """The address, if it is one.

    Raises:
        ValueError: it is not.
    """
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no address: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise ValueError(f"{url!r} is no address like http://127.0.0.1:8080")
    return url


def checked_key(key: str | None) -> str | None:
    """The key, if a header can carry it.

    Raises:
        ValueError: it cannot.
    """
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ValueError("a key is of printable ASCII characters")
    return key


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _skill_path(name: str) -> str:
    return f"/api/skills/{quote(name, safe='')}"
