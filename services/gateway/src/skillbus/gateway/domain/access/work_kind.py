"""Choice of the requests that are admitted under load, and as which kind of work."""

from dataclasses import dataclass
from typing import Final

from skillbus.common.admission.fair_queue import WorkKind

_ALWAYS: Final = ("/metrics", "/api/status", "/api/session", "/api/session/links", "/api/limits")
"""Paths by which people and programs find out what is wrong, log in, and leave."""
_FOLLOWED: Final = "/v1/chat/runs/"
_RUNS: Final = ("/run", "/call", "/v1/chat/completions")
_IMPORTS: Final = frozenset({"/api/tools", "/api/devices", "/api/commands"})
_CANCELLED: Final = ("/api/runs/", "/api/learn/jobs/")


@dataclass(frozen=True, slots=True)
class AdmittedWork:
    """Kind of work of a request."""

    kind: WorkKind
    is_sample: bool
    """True if the time that the request takes tells how loaded the server is."""


_READ: Final = AdmittedWork(WorkKind.READ, is_sample=True)
_MCP: Final = AdmittedWork(WorkKind.READ, is_sample=False)
"""Requests of MCP clients are searches and runs alike."""
_IMPORT: Final = AdmittedWork(WorkKind.IMPORT, is_sample=False)
_RUN: Final = AdmittedWork(WorkKind.RUN, is_sample=False)


def find_work(method: str, path: str) -> AdmittedWork | None:
    """Return the kind of work of a request; None for one that is always let in.

    Streams that follow work are always let in: they wait for what others do, and each key may have so many. So are
    cancellations, which end work.
    """
    if _is_always_let_in(method, path):
        return None
    if path == "/mcp":
        return _MCP
    if method == "POST" and (path.endswith(_RUNS) or path.startswith("/api/learn/")):
        return _RUN
    is_import = (
        path in {"/api/knowledge/import", "/api/knowledge/export"}
        or (method == "PUT" and path in _IMPORTS)
        or (method == "POST" and path.startswith(("/api/skills", "/api/indexes/")))
    )
    return _IMPORT if is_import else _READ


def _is_always_let_in(method: str, path: str) -> bool:
    is_stream = method == "GET" and (path == "/mcp" or path.endswith("/events"))
    is_cancelling = method == "DELETE" and (path == "/mcp" or path.startswith(_CANCELLED))
    return path in _ALWAYS or path.startswith(_FOLLOWED) or is_stream or is_cancelling
