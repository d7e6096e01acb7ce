"""Paths of the HTTP API."""

from typing import Final
from urllib.parse import quote

AUDIT: Final = "/api/audit"
DEAD_LETTERS: Final = "/api/dead-letters"
EMBEDDINGS: Final = "/v1/embeddings"
INDEXES: Final = "/api/indexes"
KNOWLEDGE: Final = "/api/knowledge"
MCP_SERVERS: Final = "/api/mcp-servers"
MODELS: Final = "/api/embedding/models"
PROVIDERS: Final = "/api/embedding/providers"
RUNS: Final = "/api/runs"
SKILLS: Final = "/api/skills"
STATUS: Final = "/api/status"
TOOLS: Final = "/api/tools"


def join_path(base: str, *names: str) -> str:
    """Append names as segments. Dots are quoted too: HTTP clients remove the segments `.` and `..`."""
    return "/".join((base, *(quote(name, safe="").replace(".", "%2E") for name in names)))
