"""A skillbus behind HTTP that keeps everything in memory and runs nothing."""

import asyncio
import hashlib
import io
import json
import zipfile
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path
from urllib.parse import unquote

import httpx

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode

Json = dict[str, object]


def problem(code: ErrorCode, detail: str, details: Json | None = None) -> httpx.Response:
    """An error as the gateway writes it."""
    known = ERROR_CLASSES[code]
    document = {
        "type": f"urn:skillbus:error:{code}",
        "title": known.title,
        "status": known.status,
        "detail": detail,
        "instance": "/api",
        "code": code,
        "retryable": known.retryable,
        "details": details or {},
    }
    return httpx.Response(known.status, json=document, headers={"Content-Type": "application/problem+json"})


def skill_record(name: str, **changed: object) -> Json:
    """An installed skill as the API lists it."""
    usual: Json = {
        "project": "default",
        "name": name,
        "description": f"{name} 的说明",
        "version": "1.0.0",
        "digest": "0" * 64,
        "content_digest": "1" * 64,
        "size_bytes": 2048,
        "installed_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "indexed": True,
    }
    return usual | changed


def hit(name: str, **changed: object) -> Json:
    """A search result."""
    usual: Json = {
        "id": f"skill:{name}",
        "name": name,
        "description": "自动分析 Git 改动并生成提交信息",
        "score": 0.87,
        "cosine": 0.62,
        "tool_type": "skill",
        "reasons": [{"side": "lexical", "rank": 1, "score": 3.5, "terms": ["提交"]}],
    }
    return usual | changed


def artifact(name: str, content: bytes, *, url: str | None = None, sha256: str | None = None) -> Json:
    """A file of a run: in the reply, or at `url`."""
    return {
        "name": name,
        "size_bytes": len(content),
        "sha256": sha256 or hashlib.sha256(content).hexdigest(),
        "content": None if url else b64encode(content).decode(),
        "url": url,
    }


def run_reply(**changed: object) -> Json:
    """What a run gave."""
    usual: Json = {
        "run_id": "r-1",
        "status": "ok",
        "exit_code": 0,
        "stdout": "done\n",
        "stderr": "",
        "result": None,
        "artifacts": [],
        "duration_ms": 12.3,
        "truncated": False,
        "isolation": "bubblewrap",
    }
    return usual | changed


def run_record(run_id: str, **changed: object) -> Json:
    """What is remembered of a run."""
    limits = {"wall_s": 60, "cpu_s": 60, "memory_bytes": 536870912, "processes": 64, "output_bytes": 10485760}
    used = {"waited_ms": 1.5, "wall_ms": 123.4, "cpu_ms": 45.6, "peak_bytes": 12_000_000, "output_bytes": 5}
    usual: Json = {
        "run_id": run_id,
        "skill": "greet",
        "content_digest": "1" * 64,
        "action": "run",
        "state": "ok",
        "began_at": "2026-01-01T00:00:00Z",
        "ends_by": "2026-01-01T00:01:00Z",
        "exit_code": 0,
        "isolation": "full",
        "limits": limits | {"artifacts": 64, "artifacts_bytes": 33554432, "work_bytes": 67108864},
        "used": used | {"artifacts": 0, "artifacts_bytes": 0},
    }
    return usual | changed


@dataclass
class FakeServer:
    """Answers as the gateway does. `skills` by name; New ones are indexed after `polls_until_indexed` listings."""

    skills: dict[str, Json] = field(default_factory=dict)
    hits: list[Json] = field(default_factory=list)
    ran: Json | httpx.Response = field(default_factory=run_reply)
    told: list[tuple[str, str]] = field(default_factory=list)
    """What a run prints to those who follow it: stream and text."""
    breaks_off_with: httpx.Response | None = None
    """The problem that a followed run ends with, instead of its reply."""
    on_run: Callable[[], None] | None = None
    """Called when a run has begun, which then lasts until somebody ends it."""
    history: list[Json] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    ready: bool = True
    isolates: bool = True
    calls_tools: bool = True
    keeps_knowledge: bool = True
    page_size: int = 1000
    polls_until_indexed: int = 0
    rejects: dict[str, httpx.Response] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    run_ended: asyncio.Event = field(default_factory=asyncio.Event)
    knows: Callable[[httpx.Request], Awaitable[httpx.Response]] | None = None
    """Answers what is asked about knowledge."""

    def transport(self) -> httpx.MockTransport:
        """What carries a client's requests here."""
        return httpx.MockTransport(self._route)

    def body(self, at: int = -1) -> Json:
        """The JSON body of a request that came."""
        content: Json = json.loads(self.requests[at].content)
        return content

    async def _route(self, request: httpx.Request) -> httpx.Response:
        if self.knows is not None and request.url.path.startswith("/api/knowledge"):
            return await self.knows(request)
        return await self._answer(request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        method, path = request.method, unquote(request.url.path)
        routes: dict[tuple[str, str], Callable[[httpx.Request], httpx.Response]] = {
            ("POST", "/api/skills"): self._install,
            ("GET", "/api/skills"): self._list,
            ("GET", "/api/runs"): self._list_runs,
            ("POST", "/api/tools/search"): self._search,
            ("GET", "/api/status"): self._status,
            ("POST", "/api/session/links"): self._make_link,
        }
        routes |= {("GET", f"/api/skills/{name}"): self._show for name in self.skills}
        if (method, path) in routes:
            return routes[method, path](request)
        if path.startswith("/api/runs/") and path not in self.files:
            return self._one_run(method, path.rsplit("/", 1)[-1])
        if method == "DELETE":
            return self._remove(path.rsplit("/", 1)[-1])
        if path.endswith("/run"):
            return await self._run(request)
        if path in self.files:
            return httpx.Response(200, content=self.files[path])
        return problem(ErrorCode.NOT_FOUND, "no such path")

    def _make_link(self, request: httpx.Request) -> httpx.Response:
        page = json.loads(request.content)["next"]
        link = {"path": f"/login?token=t&next={page}", "expires_at": "2026-01-01T00:00:00Z"}
        return httpx.Response(201, json=link)

    def _install(self, request: httpx.Request) -> httpx.Response:
        header = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        package = next(
            part for part in message_from_bytes(header + request.content).walk() if part.get_filename() is not None
        )
        name = Path(package.get_filename() or "").stem
        if name in self.rejects:
            return self.rejects[name]
        payload = package.get_payload(decode=True)
        assert isinstance(payload, bytes)
        assert zipfile.is_zipfile(io.BytesIO(payload))
        outcome = "updated" if name in self.skills else "installed"
        self.skills[name] = skill_record(name, indexed=False)
        warnings = [{"code": "no_version", "message": "没有版本", "where": "SKILL.md"}]
        return httpx.Response(201, json=self.skills[name] | {"outcome": outcome, "warnings": warnings})

    def _list(self, request: httpx.Request) -> httpx.Response:
        if self.polls_until_indexed == 0:
            self.skills = {name: skill | {"indexed": True} for name, skill in self.skills.items()}
        self.polls_until_indexed -= 1
        names = sorted(name for name in self.skills if name > request.url.params.get("after", ""))
        page = names[: self.page_size]
        following = page[-1] if len(names) > len(page) else None
        listed = [self.skills[name] for name in page]
        return httpx.Response(200, json={"skills": listed, "total": len(self.skills), "next": following})

    def _search(self, _: httpx.Request) -> httpx.Response:
        found = {"results": self.hits, "degraded": None, "model": "use-multilingual", "took_ms": 3.2}
        return httpx.Response(200, json=found)

    def _status(self, _: httpx.Request) -> httpx.Response:
        held = {
            "skills": len(self.skills),
            "tools": 7,
            "waiting": 0,
            "points": 3,
            "collection": "tools_x",
            "model": "use",
        }
        services = [{"name": "nats", "ready": self.ready, "detail": "" if self.ready else "not connected"}]
        why = "" if self.isolates else "isolation: user namespaces are off"
        services.append({"name": "sandbox", "ready": self.isolates, "detail": why})
        lost = "" if self.calls_tools else "No agent is running"
        services.append({"name": "agent", "ready": self.calls_tools, "detail": lost})
        lost = "" if self.keeps_knowledge else "No learner is running"
        services.append({"name": "learner", "ready": self.keeps_knowledge, "detail": lost})
        return httpx.Response(200, json={"ready": self.ready, "services": services, "indexer": held})

    def _show(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=self.skills[request.url.path.rsplit("/", 1)[-1]])

    def _remove(self, name: str) -> httpx.Response:
        if self.skills.pop(name, None) is None:
            return problem(ErrorCode.SKILL_NOT_FOUND, f"No skill {name} is installed.")
        return httpx.Response(200, json={"name": name, "digest": "0" * 64})

    async def _run(self, request: httpx.Request) -> httpx.Response:
        if self.on_run is not None:
            self.on_run()
            await asyncio.wait_for(self.run_ended.wait(), 5)
        if isinstance(self.ran, httpx.Response):
            return self.ran
        if "stream" not in request.url.params:
            return httpx.Response(200, json=self.ran)
        events: list[tuple[str, Json]] = [("begun", {"run_id": self.ran["run_id"]})]
        events += [("output", {"number": 1, "stream": stream, "text": text}) for stream, text in self.told]
        last = self.breaks_off_with
        events.append(("reply", self.ran) if last is None else ("error", json.loads(last.content)))
        text = ": still there\n\n".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
        return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})

    def _list_runs(self, request: httpx.Request) -> httpx.Response:
        where = request.url.params
        begin, limit = int(where.get("after", 0)), min(int(where["limit"]), self.page_size)
        fitting = [run for run in self.history if where.get("state") in {None, run["state"]}]
        more = str(begin + limit) if begin + limit < len(fitting) else None
        return httpx.Response(200, json={"runs": fitting[begin : begin + limit], "next": more})

    def _one_run(self, method: str, run_id: str) -> httpx.Response:
        if method == "DELETE":
            self.run_ended.set()
            return httpx.Response(200, json={"run_id": run_id, "ending": True})
        found = [run for run in self.history if run["run_id"] == run_id]
        return httpx.Response(200, json=found[0]) if found else problem(ErrorCode.NOT_FOUND, "there is no such run")
