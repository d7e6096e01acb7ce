"""A skillbus behind HTTP that keeps everything in memory and runs nothing."""

import hashlib
import io
import json
import zipfile
from base64 import b64encode
from collections.abc import Callable
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


@dataclass
class FakeServer:
    """Answers as the gateway does. `skills` by name; New ones are indexed after `polls_until_indexed` listings."""

    skills: dict[str, Json] = field(default_factory=dict)
    hits: list[Json] = field(default_factory=list)
    ran: Json | httpx.Response = field(default_factory=run_reply)
    files: dict[str, bytes] = field(default_factory=dict)
    ready: bool = True
    isolates: bool = True
    calls_tools: bool = True
    page_size: int = 1000
    polls_until_indexed: int = 0
    rejects: dict[str, httpx.Response] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)

    def transport(self) -> httpx.MockTransport:
        """What carries a client's requests here."""
        return httpx.MockTransport(self._answer)

    def body(self, at: int = -1) -> Json:
        """The JSON body of a request that came."""
        content: Json = json.loads(self.requests[at].content)
        return content

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        method, path = request.method, unquote(request.url.path)
        routes: dict[tuple[str, str], Callable[[httpx.Request], httpx.Response]] = {
            ("POST", "/api/skills"): self._install,
            ("GET", "/api/skills"): self._list,
            ("POST", "/api/tools/search"): self._search,
            ("GET", "/api/status"): self._status,
        }
        if (method, path) in routes:
            return routes[method, path](request)
        if method == "DELETE":
            return self._remove(path.rsplit("/", 1)[-1])
        if path.endswith("/run"):
            return self.ran if isinstance(self.ran, httpx.Response) else httpx.Response(200, json=self.ran)
        if path in self.files:
            return httpx.Response(200, content=self.files[path])
        return problem(ErrorCode.NOT_FOUND, "no such path")

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
        return httpx.Response(200, json={"ready": self.ready, "services": services, "indexer": held})

    def _remove(self, name: str) -> httpx.Response:
        if self.skills.pop(name, None) is None:
            return problem(ErrorCode.SKILL_NOT_FOUND, f"No skill {name} is installed.")
        return httpx.Response(200, json={"name": name, "digest": "0" * 64})
