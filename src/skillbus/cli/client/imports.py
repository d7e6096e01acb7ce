"""Client for imports of tools and knowledge."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.paths import KNOWLEDGE, TOOLS
from skillbus.contracts.http import KnowledgeImported, ToolsImported

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_IMPORT_S: Final = 600.0
"""Seconds between two parts of an upload: it may have to wait for a slow model, or for a learner that restarts."""
_NDJSON: Final = b"application/x-ndjson"
_MARKDOWN: Final = b"text/markdown"


@dataclass(frozen=True, slots=True)
class ImportsClient:
    """Each method is one request."""

    connection: ApiConnection
    actor: str | None = None
    """Author of the items, for history and audit. The server records `http` when absent."""

    async def import_tools(self, descriptions: AsyncIterable[bytes], params: Mapping[str, str]) -> ToolsImported:
        """Import NDJSON or a JSON array. The reply counts all outcomes and lists only problems."""
        return await self.connection.request(
            ToolsImported,
            "PUT",
            TOOLS,
            params={"only": "problems", **params, **self.connection.scope},
            content=descriptions,
            headers={b"Content-Type": _NDJSON},
            wait_s=_IMPORT_S,
        )

    async def import_items(self, items: AsyncIterable[bytes], params: Mapping[str, str]) -> KnowledgeImported:
        """Import NDJSON or a JSON array. The reply counts all outcomes and lists only problems."""
        return await self._import_knowledge(items, _NDJSON, {"only": "problems", **params})

    async def import_markdown(self, text: bytes, params: Mapping[str, str]) -> KnowledgeImported:
        """Import one item from Markdown with front matter. The reply lists its outcome."""

        async def stream_text() -> AsyncIterator[bytes]:
            yield text

        return await self._import_knowledge(stream_text(), _MARKDOWN, params)

    async def _import_knowledge(
        self, body: AsyncIterable[bytes], media_type: bytes, params: Mapping[str, str]
    ) -> KnowledgeImported:
        headers = {b"Content-Type": media_type} | ({b"Skillbus-Actor": self.actor.encode()} if self.actor else {})
        return await self.connection.request(
            KnowledgeImported,
            "POST",
            f"{KNOWLEDGE}/import",
            params={**params, **self.connection.scope},
            content=body,
            headers=headers,
            wait_s=_IMPORT_S,
        )
