"""Client for the knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.http_api import IMPORT_S, KNOWLEDGE, NDJSON, join_path, parse_reply
from skillbus.contracts.learner.items import KnowledgeListed, KnowledgeSummary, KnowledgeWritten
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.projects import KnowledgeProject
from skillbus.contracts.learner.usage import ItemUsage, KnowledgeStats
from skillbus.contracts.learner.versions import (
    KnowledgeDiffed,
    KnowledgeReviewed,
    KnowledgeVersion,
    KnowledgeVersionsListed,
)
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.retriever.knowledge_search import ContextBuilt, KnowledgeFound

if TYPE_CHECKING:
    import httpx

    from skillbus.cli.client.connection import ApiConnection
    from skillbus.contracts.http import KnowledgeImported

_PAGE_SIZE: Final = 200
_SILENCE_S: Final = 60.0
_MARKDOWN: Final = "text/markdown"

Filters = Mapping[str, str | Sequence[str]]
Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class KnowledgeClient:
    """Each method is one request, except the lists."""

    connection: ApiConnection
    actor: str | None = None
    """Author of changes, for history and audit. The server records `http` when absent."""

    async def list_items(self, filters: Filters, limit: int) -> tuple[tuple[KnowledgeSummary, ...], int]:
        """Return the first `limit` matching items, newest change first, and the number of all matching items."""
        pages = await self.connection.list_pages(
            KnowledgeListed,
            KNOWLEDGE,
            filters,
            lambda page: (len(page.items), page.next),
            page_size=_PAGE_SIZE,
            limit=limit,
        )
        return tuple(item for page in pages for item in page.items), pages[-1].total

    async def get_item(self, item_id: str, at: Mapping[str, str]) -> KnowledgeItem:
        """Return one item, at a `version` or as it was at a time `as_of` if one of them is given."""
        params = {**at, **self.connection.scope}
        return await self.connection.request(KnowledgeItem, "GET", join_path(KNOWLEDGE, item_id), params=params)

    async def get_markdown(self, item_id: str, at: Mapping[str, str]) -> str:
        """Return one item as Markdown with front matter."""
        params, headers = {**at, **self.connection.scope}, {"Accept": _MARKDOWN}
        response = await self.connection.send("GET", join_path(KNOWLEDGE, item_id), params=params, headers=headers)
        return response.content.decode("utf-8", errors="replace")

    async def create_item(self, item: Body) -> KnowledgeWritten:
        body = {**item, **self.connection.scope}
        return await self.connection.request(KnowledgeWritten, "POST", KNOWLEDGE, json=body, headers=self._headers())

    async def update_item(self, item_id: str, changes: Body, expected: int | None) -> KnowledgeWritten:
        """Change an item; with `expected`, only if it is at this version."""
        return await self._write("PUT", join_path(KNOWLEDGE, item_id), changes, expected)

    async def archive_item(self, item_id: str, expected: int | None, reason: str | None) -> None:
        """Archive an item, so that searches do not find it."""
        params = self.connection.scope | ({"reason": reason} if reason else {})
        headers = self._headers(expected)
        await self.connection.send("DELETE", join_path(KNOWLEDGE, item_id), params=params, headers=headers)

    async def restore_item(self, item_id: str, body: Body, expected: int | None) -> KnowledgeWritten:
        """Take an item out of the archive, or write its state at a `version` as a new version."""
        return await self._write("POST", join_path(KNOWLEDGE, item_id, "restore"), body, expected)

    async def list_versions(self, item_id: str, limit: int) -> tuple[tuple[KnowledgeVersion, ...], int]:
        """Return the newest `limit` versions of an item, and the number of all its versions."""
        path = join_path(KNOWLEDGE, item_id, "history")
        pages = await self.connection.list_pages(
            KnowledgeVersionsListed,
            path,
            {},
            lambda page: (len(page.versions), page.next),
            page_size=_PAGE_SIZE,
            limit=limit,
            cursor="before",
        )
        return tuple(version for page in pages for version in page.versions), pages[-1].total

    async def compare_versions(self, item_id: str, from_version: int, to_version: int) -> KnowledgeDiffed:
        """Return the differences between two versions."""
        params = {"from": str(from_version), "to": str(to_version)} | self.connection.scope
        return await self.connection.request(
            KnowledgeDiffed, "GET", join_path(KNOWLEDGE, item_id, "diff"), params=params
        )

    async def review_items(self, body: Body) -> KnowledgeReviewed:
        body = {**body, **self.connection.scope}
        path = f"{KNOWLEDGE}/review"
        return await self.connection.request(KnowledgeReviewed, "POST", path, json=body, headers=self._headers())

    async def search_items(self, body: Body) -> KnowledgeFound:
        """Return the hits for a query, best first."""
        body = {**body, **self.connection.scope}
        return await self.connection.request(KnowledgeFound, "POST", f"{KNOWLEDGE}/search", json=body)

    async def build_context(self, body: Body) -> ContextBuilt:
        """Build a context for a model from the hits for a query."""
        body = {**body, **self.connection.scope}
        return await self.connection.request(ContextBuilt, "POST", f"{KNOWLEDGE}/context", json=body)

    async def send_feedback(self, item_id: str, body: Body) -> ItemUsage:
        """Record whether an item helped."""
        path, params = join_path(KNOWLEDGE, item_id, "feedback"), self.connection.scope
        return await self.connection.request(ItemUsage, "POST", path, params=params, json=body, headers=self._headers())

    async def get_usage(self, item_id: str) -> ItemUsage:
        """Return how often an item was shown, applied and found helpful."""
        path = join_path(KNOWLEDGE, item_id, "usage")
        return await self.connection.request(ItemUsage, "GET", path, params=self.connection.scope)

    async def get_stats(self, params: Mapping[str, str]) -> KnowledgeStats:
        """Return counts and usage reports of the knowledge base."""
        params = {**params, **self.connection.scope}
        return await self.connection.request(KnowledgeStats, "GET", f"{KNOWLEDGE}/stats", params=params)

    async def get_parents(self) -> KnowledgeProject:
        """Return the projects whose items this project inherits."""
        return await self.connection.request(KnowledgeProject, "GET", self._project_path())

    async def set_parent(self, parent: str | None) -> KnowledgeProject:
        """Let this project inherit the items of another project, or of none."""
        body, headers = {"parent": parent}, self._headers()
        return await self.connection.request(KnowledgeProject, "PUT", self._project_path(), json=body, headers=headers)

    async def import_items(self, items: AsyncIterable[bytes], params: Mapping[str, str]) -> KnowledgeImported:
        """Import NDJSON or a JSON array. The reply counts all outcomes and lists only problems."""
        return await self._import_knowledge(items, NDJSON, {"only": "problems", **params})

    async def import_markdown(self, text: bytes, params: Mapping[str, str]) -> KnowledgeImported:
        """Import one item from Markdown with front matter. The reply lists its outcome."""

        async def stream_text() -> AsyncIterator[bytes]:
            yield text

        return await self._import_knowledge(stream_text(), _MARKDOWN.encode(), params)

    @asynccontextmanager
    async def export_items(self, filters: Filters) -> AsyncIterator[AsyncIterator[str]]:
        """Open the export: one JSON line for each item, as they arrive. A lost connection raises `NoAnswerError`."""
        params = {**filters, **self.connection.scope}
        path = f"{KNOWLEDGE}/export"
        async with self.connection.stream("GET", path, params=params, silence_s=_SILENCE_S) as response:
            yield _iterate_items(response)

    async def _import_knowledge(
        self, body: AsyncIterable[bytes], media_type: bytes, params: Mapping[str, str]
    ) -> KnowledgeImported:
        from skillbus.contracts.http import KnowledgeImported  # noqa: PLC0415 (slow to import, and only needed here)

        return await self.connection.request(
            KnowledgeImported,
            "POST",
            f"{KNOWLEDGE}/import",
            params={**params, **self.connection.scope},
            content=body,
            headers={b"Content-Type": media_type, **self._headers()},
            wait_s=IMPORT_S,
        )

    async def _write(self, method: str, path: str, body: Body, expected: int | None) -> KnowledgeWritten:
        params, headers = self.connection.scope, self._headers(expected)
        return await self.connection.request(KnowledgeWritten, method, path, params=params, json=body, headers=headers)

    def _project_path(self) -> str:
        return join_path(KNOWLEDGE, "projects", self.connection.project or DEFAULT_PROJECT)

    def _headers(self, expected: int | None = None) -> dict[bytes, bytes]:
        """Build the headers that name the actor and the expected version; bytes, because an actor may be in UTF-8."""
        headers = {b"Skillbus-Actor": self.actor.encode()} if self.actor else {}
        return headers | ({b"If-Match": f'"{expected}"'.encode()} if expected is not None else {})


async def _iterate_items(response: httpx.Response) -> AsyncIterator[str]:
    r"""Yield checked lines. Only `\n` ends a line of NDJSON: the texts may hold other line separators."""
    rest = ""
    async for chunk in response.aiter_text():
        *lines, rest = (rest + chunk).split("\n")
        for line in lines:
            parse_reply(KnowledgeItem, line, response)
            yield line
    if rest:
        parse_reply(KnowledgeItem, rest, response)
        yield rest
