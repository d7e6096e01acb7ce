"""The part of skillbus's HTTP API that is about models, in memory. Each listing of indexes takes a switch further."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

import httpx

from skillbus.cli.server.launcher import Externals
from skillbus.contracts.errors import ErrorCode

from .fake_server import Json, problem

WHEN = "2026-01-01T00:00:00Z"


def provider_record(name: str, **changed: object) -> Json:
    usual: Json = {"name": name, "kind": "openai", "version": 1, "created_at": WHEN, "updated_at": WHEN}
    return usual | changed


def model_record(name: str, **changed: object) -> Json:
    usual: Json = {
        "id": name.replace("/", "").ljust(32, "0"),
        "provider": "local",
        "name": name,
        "is_default": False,
        "fingerprint": f"f-{name}",
        "dimensions": 512,
        "version": 1,
        "created_at": WHEN,
        "updated_at": WHEN,
    }
    return usual | changed


def index_model(name: str) -> Json:
    return {"collection": f"tools_{name}", "fingerprint": f"f-{name}", "name": name, "dimensions": 512}


def step(phase: str, done: int = 0, *, source: str = "old", target: str = "new", **changed: object) -> Json:
    """The state of the index `tools` at one step of a change."""
    live = target if phase in {"kept", "done"} else source
    switch: Json = {
        "id": "1",
        "phase": phase,
        "source": index_model(source),
        "target": index_model(target),
        "done": done,
        "total": 10,
        "started_at": WHEN,
    }
    return {"alias": "tools", "live": index_model(live), "switch": switch | changed}


STILL: Json = {"alias": "tools", "live": index_model("old"), "switch": None}


@dataclass
class FakeModels:
    """`steps` are what listings of the indexes answer, one after the other; the last stays."""

    models: list[Json] = field(default_factory=lambda: [model_record("old", is_default=True), model_record("new")])
    providers: list[Json] = field(default_factory=lambda: [provider_record("remote", api_key="env:KEY")])
    steps: list[Json | httpx.Response] = field(default_factory=lambda: [STILL])
    others: list[Json] = field(default_factory=list)
    """Listed beside it."""
    tested: Json = field(default_factory=lambda: {"ok": True, "model": "m", "dimensions": 8, "took_ms": 12.4})
    on_listing: Callable[[], None] = lambda: None
    requests: list[tuple[str, str, object]] = field(default_factory=list)

    def externals(self) -> Externals:
        return Externals(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = unquote(request.url.path)
        body: Json = json.loads(request.content) if request.content else {}
        self.requests.append((request.method, path, body))
        if path == "/api/indexes":
            return self._indexes()
        if request.method == "DELETE":
            return httpx.Response(204)
        if path.startswith("/api/indexes/"):
            first = self.steps[0]
            return first if isinstance(first, httpx.Response) else httpx.Response(200, json=first)
        if path.endswith("/test"):
            return httpx.Response(200, json=self.tested)
        listed = self.providers if path.startswith("/api/embedding/providers") else self.models
        return self._registered(request.method, path, body, listed)

    def _registered(self, method: str, path: str, body: Json, listed: list[Json]) -> httpx.Response:
        kind, _, name = path.removeprefix("/api/embedding/").partition("/")
        if method == "POST":
            make: Callable[..., Json] = provider_record if kind == "providers" else model_record
            return httpx.Response(201, json=make(**body))
        if not name:
            return httpx.Response(200, json={kind: listed})
        wanted = "old" if name == "default" else name
        for record in listed:
            if wanted in {record["name"], f"{record.get('provider')}/{record['name']}"}:
                return httpx.Response(200, json=record | body)
        return problem(ErrorCode.NOT_FOUND, f"no model {name!r} is registered")

    def _indexes(self) -> httpx.Response:
        self.on_listing()
        now = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return now if isinstance(now, httpx.Response) else httpx.Response(200, json={"indexes": [now, *self.others]})
