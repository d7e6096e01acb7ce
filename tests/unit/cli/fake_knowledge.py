"""The part of skillbus's HTTP API that is about knowledge, in memory."""

import json
from dataclasses import dataclass, field
from urllib.parse import unquote

import httpx

from skillbus.cli.server.launcher import Externals
from skillbus.contracts.errors import ErrorCode

from .fake_server import Json, problem

WHEN = "2026-01-01T00:00:00Z"
KNOWLEDGE = "/api/knowledge"


def item_record(item_id: str, **changed: object) -> Json:
    """An item as the record has it."""
    usual: Json = {"type": "business_rule", "title": "直播接口需要 game-id", "content": "缺少时返回 400。"}
    usual |= {"scope": "/api/live/*", "tags": ["auth", "game-id"], "priority": 5, "source": "manual"}
    usual |= {"id": item_id, "project": "default", "status": "active", "version": 1, "digest": "d" * 64}
    usual |= {"created_at": WHEN, "created_by": "lin", "updated_at": WHEN, "updated_by": "lin"}
    return usual | changed


def summary(item_id: str, **changed: object) -> Json:
    """An item in a list."""
    item = item_record(item_id, **changed)
    kept = ("id", "project", "type", "title", "scope", "tags", "priority", "source", "status", "version")
    return {name: item[name] for name in (*kept, "created_at", "updated_at", "updated_by")} | {"excerpt": "缺少时"}


def written(item_id: str, **changed: object) -> Json:
    """What became of an item."""
    return {"item": item_record(item_id, **changed), "indexed": True, "repeated": False}


def found_item(item_id: str, **changed: object) -> Json:
    """A hit of a search."""
    reason = {"side": "lexical", "rank": 1, "score": 7.0, "terms": ["header"], "parts": ["content"]}
    usual: Json = {"item": item_record(item_id), "score": 0.98, "cosine": 0.44, "scope_match": "exact"}
    return usual | {"reasons": [reason]} | changed


def found(*hits: Json, **changed: object) -> Json:
    """The answer of a search."""
    usual: Json = {"results": list(hits), "request_id": "q-1", "model": "use-multilingual", "took_ms": 4.2}
    return usual | changed


def built(text: str = "## business_rule\n缺少 game-id 时返回 400。", **changed: object) -> Json:
    """A context."""
    placed = {"id": "i-1", "version": 1, "project": "default", "type": "business_rule", "title": "t", "scope": ""}
    placed |= {"content": "c", "score": 0.9, "priority": 5, "tokens": 30}
    usual: Json = {"text": text, "tokens": 42, "budget_tokens": 300, "counted_by": "upper_bound", "items": [placed]}
    usual |= {"omitted": {"over_budget": 2, "alike": 1}, "request_id": "q-1", "took_ms": 3.0}
    return usual | changed


def usage_record(item_id: str, **changed: object) -> Json:
    """How an item is used."""
    rate = {"share": 0.75, "low": 0.3, "high": 0.95, "count": 4}
    usual: Json = {"id": item_id, "title": "game-id", "shown": 9, "applied": 2, "helpful": 3, "unhelpful": 1}
    return usual | {"rate": rate, "scenes": {"chat": 2}, "last_used_at": WHEN} | changed


def import_report(**changed: object) -> Json:
    """What became of an import."""
    counts = {"created": 1, "updated": 0, "unchanged": 0, "rejected": 0}
    result: Json = {"line": 1, "id": "i-1", "outcome": "created", "version": 1}
    return {"total": 1, "counts": counts, "indexed": True, "results": [result]} | changed


@dataclass
class FakeKnowledge:
    """`answers` by method and the rest of a path, or by the rest alone; what was asked is kept."""

    items: dict[str, Json] = field(default_factory=dict)
    page_size: int = 1000
    answers: dict[str, Json | httpx.Response] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)

    def externals(self) -> Externals:
        """What a command is given."""
        return Externals(transport=httpx.MockTransport(self.answer))

    def body(self, at: int = -1) -> Json:
        """The JSON body of a request that came."""
        content: Json = json.loads(self.requests[at].content)
        return content

    def asked(self) -> list[str]:
        """Each request, as method and the rest of its path."""
        return [f"{it.method} {_rest(it)}" for it in self.requests]

    async def answer(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        rest = _rest(request)
        for key in (f"{request.method} {rest}", rest):
            if key in self.answers:
                answer = self.answers[key]
                return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)
        if (request.method, rest) == ("GET", ""):
            return self._list(request.url.params)
        if (request.method, rest) == ("GET", "/export"):
            return httpx.Response(200, text="".join(f"{json.dumps(it)}\n" for it in self.items.values()))
        if request.method == "GET" and rest.removeprefix("/") in self.items:
            return self._get(request, self.items[rest.removeprefix("/")])
        return problem(ErrorCode.NOT_FOUND, f"project 'default' has no item {rest.removeprefix('/')!r}")

    def _list(self, where: httpx.QueryParams) -> httpx.Response:
        rest = [it for it in self.items if it > where.get("after", "")]
        page = rest[: min(self.page_size, int(where["limit"]))]
        following = page[-1] if len(rest) > len(page) else None
        listed = [summary(it) for it in page]
        return httpx.Response(200, json={"items": listed, "total": len(self.items), "next": following})

    def _get(self, request: httpx.Request, item: Json) -> httpx.Response:
        if "markdown" not in request.headers["Accept"]:
            return httpx.Response(200, json=item)
        return httpx.Response(200, text=f"---\nid: {item['id']}\n---\n\n{item['content']}\n")


def _rest(request: httpx.Request) -> str:
    return unquote(request.url.raw_path.decode().partition("?")[0]).removeprefix(KNOWLEDGE)
