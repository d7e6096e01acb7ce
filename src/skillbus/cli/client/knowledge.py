"""A typed client of what the HTTP API has on knowledge."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import httpx

from skillbus.cli.client.connection import exchange, opened, parsed, parsed_text
from skillbus.cli.client.replies import KnowledgeImported
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

_KNOWLEDGE: Final = "/api/knowledge"
_PAGE: Final = 200
_IMPORT_S: Final = 600.0
"""Between two parts of a body: what is imported may wait for a learner that starts again."""
_SILENCE_S: Final = 60.0
_NDJSON: Final = "application/x-ndjson"
_MARKDOWN: Final = "text/markdown"

Where = Mapping[str, str | Sequence[str]]
Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class KnowledgeClient:
    """Each method is one request, but for the lists; all raise the errors of `skillbus.cli.errors`."""

    http: httpx.AsyncClient
    project: str | None = None
    actor: str | None = None
    """Who does it, for history and audit; the server says `http` if absent."""

    def acting(self, actor: str | None) -> "KnowledgeClient":
        """The same, on behalf of somebody."""
        return replace(self, actor=actor)

    async def items(self, only: Where, limit: int) -> tuple[tuple[KnowledgeSummary, ...], int]:
        """The first items, newest change first, page after page, and how many there are in all."""
        found: list[KnowledgeSummary] = []
        after: dict[str, str] = {}
        while True:
            size = {"limit": str(min(_PAGE, limit - len(found)))}
            response = await exchange(self.http, "GET", _KNOWLEDGE, params={**only, **size, **self._scope(), **after})
            page = parsed(KnowledgeListed, response)
            found += page.items
            if len(found) >= limit or page.next is None or page.next == after.get("after"):
                return tuple(found), page.total
            after = {"after": page.next}

    async def item(self, item_id: str, when: Mapping[str, str]) -> KnowledgeItem:
        """One item; `when` is a `version`, or a time `as_of`."""
        response = await exchange(self.http, "GET", _item(item_id), params={**when, **self._scope()})
        return parsed(KnowledgeItem, response)

    async def markdown(self, item_id: str, when: Mapping[str, str]) -> str:
        """The same as Markdown with front matter."""
        where, headers = {**when, **self._scope()}, {"Accept": _MARKDOWN}
        response = await exchange(self.http, "GET", _item(item_id), params=where, headers=headers)
        return response.content.decode("utf-8", errors="replace")

    async def create(self, item: Body) -> KnowledgeWritten:
        """A new item."""
        body = {**item, **self._scope()}
        response = await exchange(self.http, "POST", _KNOWLEDGE, json=body, headers=self._by())
        return parsed(KnowledgeWritten, response)

    async def update(self, item_id: str, changes: Body, expected: int | None) -> KnowledgeWritten:
        """Change an item, if it still is at the version that is expected."""
        headers = self._by(expected)
        response = await exchange(self.http, "PUT", _item(item_id), params=self._scope(), json=changes, headers=headers)
        return parsed(KnowledgeWritten, response)

    async def archive(self, item_id: str, expected: int | None, reason: str | None) -> None:
        """Have an item found no more."""
        where = self._scope() | ({"reason": reason} if reason else {})
        await exchange(self.http, "DELETE", _item(item_id), params=where, headers=self._by(expected))

    async def restore(self, item_id: str, body: Body, expected: int | None) -> KnowledgeWritten:
        """Take an item out of the archive, or make it what it was at a `version`."""
        path, headers = f"{_item(item_id)}/restore", self._by(expected)
        response = await exchange(self.http, "POST", path, params=self._scope(), json=body, headers=headers)
        return parsed(KnowledgeWritten, response)

    async def history(self, item_id: str, limit: int) -> tuple[tuple[KnowledgeVersion, ...], int]:
        """The newest versions of an item, page after page, and how many there are in all."""
        found: list[KnowledgeVersion] = []
        before: dict[str, str] = {}
        while True:
            where = {"limit": str(min(_PAGE, limit - len(found)))} | self._scope() | before
            response = await exchange(self.http, "GET", f"{_item(item_id)}/history", params=where)
            page = parsed(KnowledgeVersionsListed, response)
            found += page.versions
            if len(found) >= limit or page.next is None or str(page.next) == before.get("before"):
                return tuple(found), page.total
            before = {"before": str(page.next)}

    async def diff(self, item_id: str, from_version: int, to_version: int) -> KnowledgeDiffed:
        """What differs between two versions."""
        where = {"from": str(from_version), "to": str(to_version)} | self._scope()
        return parsed(KnowledgeDiffed, await exchange(self.http, "GET", f"{_item(item_id)}/diff", params=where))

    async def review(self, body: Body) -> KnowledgeReviewed:
        """Approve or reject pending items."""
        said = {**body, **self._scope()}
        response = await exchange(self.http, "POST", f"{_KNOWLEDGE}/review", json=said, headers=self._by())
        return parsed(KnowledgeReviewed, response)

    async def search(self, body: Body) -> KnowledgeFound:
        """The items that fit, best first."""
        response = await exchange(self.http, "POST", f"{_KNOWLEDGE}/search", json={**body, **self._scope()})
        return parsed(KnowledgeFound, response)

    async def context(self, body: Body) -> ContextBuilt:
        """A context for a model, out of what fits."""
        response = await exchange(self.http, "POST", f"{_KNOWLEDGE}/context", json={**body, **self._scope()})
        return parsed(ContextBuilt, response)

    async def feedback(self, item_id: str, body: Body) -> ItemUsage:
        """Say whether an item helped."""
        path = f"{_item(item_id)}/feedback"
        response = await exchange(self.http, "POST", path, params=self._scope(), json=body, headers=self._by())
        return parsed(ItemUsage, response)

    async def usage(self, item_id: str) -> ItemUsage:
        """How an item is used."""
        return parsed(ItemUsage, await exchange(self.http, "GET", f"{_item(item_id)}/usage", params=self._scope()))

    async def stats(self, asked: Mapping[str, str]) -> KnowledgeStats:
        """The knowledge base in numbers."""
        where = {**asked, **self._scope()}
        return parsed(KnowledgeStats, await exchange(self.http, "GET", f"{_KNOWLEDGE}/stats", params=where))

    async def parents(self) -> KnowledgeProject:
        """The projects whose items this one inherits."""
        return parsed(KnowledgeProject, await exchange(self.http, "GET", self._project()))

    async def set_parent(self, parent: str | None) -> KnowledgeProject:
        """Let this project inherit the items of another, or of none."""
        body: dict[str, object] = {"parent": parent}
        response = await exchange(self.http, "PUT", self._project(), json=body, headers=self._by())
        return parsed(KnowledgeProject, response)

    async def import_items(self, body: AsyncIterable[bytes], wishes: Mapping[str, str]) -> KnowledgeImported:
        """Write items, NDJSON or an array; what went well is only counted in the reply."""
        return await self._import(body, _NDJSON, {"only": "problems", **wishes})

    async def import_markdown(self, text: bytes, wishes: Mapping[str, str]) -> KnowledgeImported:
        """Write one item with front matter; the reply tells of it whatever became of it."""

        async def whole() -> AsyncIterator[bytes]:
            yield text

        return await self._import(whole(), _MARKDOWN, wishes)

    @asynccontextmanager
    async def exported(self, only: Where) -> AsyncIterator[AsyncIterator[str]]:
        """All items, a line each, while they come. One that breaks off raises `NoAnswerError` at its end."""
        where = {**only, **self._scope()}
        async with opened(self.http, "GET", f"{_KNOWLEDGE}/export", params=where, wait_s=_SILENCE_S) as response:
            yield _checked_lines(response)

    async def _import(
        self, body: AsyncIterable[bytes], media_type: str, wishes: Mapping[str, str]
    ) -> KnowledgeImported:
        headers = {**self._by(), "Content-Type": media_type}
        path, where = f"{_KNOWLEDGE}/import", {**wishes, **self._scope()}
        response = await exchange(
            self.http, "POST", path, params=where, content=body, headers=_utf8(headers), wait_s=_IMPORT_S
        )
        return parsed(KnowledgeImported, response)

    def _scope(self) -> dict[str, str]:
        return {"project": self.project} if self.project else {}

    def _project(self) -> str:
        return f"{_KNOWLEDGE}/projects/{_segment(self.project or DEFAULT_PROJECT)}"

    def _by(self, expected: int | None = None) -> Mapping[str, str]:
        """The headers that say who does it, and at which version."""
        by = {"Skillbus-Actor": self.actor} if self.actor else {}
        return _utf8(by | ({"If-Match": f'"{expected}"'} if expected is not None else {}))


async def _checked_lines(response: httpx.Response) -> AsyncIterator[str]:
    """Its lines, each of them an item. Ends of lines are those of NDJSON: a text may hold other ones."""
    held = ""
    async for chunk in response.aiter_text():
        *lines, held = (held + chunk).split("\n")
        for line in lines:
            parsed_text(KnowledgeItem, line, response)
            yield line
    if held:
        parsed_text(KnowledgeItem, held, response)
        yield held


def _utf8(headers: Mapping[str, str]) -> Mapping[str, str]:
    return httpx.Headers(headers, encoding="utf-8")


def _item(item_id: str) -> str:
    return f"{_KNOWLEDGE}/{_segment(item_id)}"


def _segment(name: str) -> str:
    # Dots too: a client takes a segment of one or two of them out of a path.
    return quote(name, safe="").replace(".", "%2E")
