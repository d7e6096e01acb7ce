"""HTTP API: its paths, and the parsing of its replies and problem documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from skillbus.cli.errors import ProblemError, StrangeReplyError
from skillbus.contracts.errors import ErrorCode

if TYPE_CHECKING:
    import httpx

DEAD_LETTERS: Final = "/api/dead-letters"
EMBEDDINGS: Final = "/v1/embeddings"
INDEXES: Final = "/api/indexes"
KEYS: Final = "/api/keys"
KNOWLEDGE: Final = "/api/knowledge"
MCP_SERVERS: Final = "/api/mcp-servers"
MODELS: Final = "/api/embedding/models"
PROVIDERS: Final = "/api/embedding/providers"
RUNS: Final = "/api/runs"
SKILLS: Final = "/api/skills"
TOOLS: Final = "/api/tools"

IMPORT_S: Final = 600.0
"""Seconds between two parts of an upload: it may have to wait for a slow model, or for a learner that restarts."""
MCP_S: Final = 330.0
"""Seconds to wait where an MCP server must answer first: its own timeout may be up to 300 s."""
NDJSON: Final = b"application/x-ndjson"

ReplyT = TypeVar("ReplyT", bound=BaseModel)

_UNAVAILABLE: Final = "Try again in a moment. `skillbus status` shows which service is missing."

ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.INVALID_REQUEST: "Correct the fields named above. `--help` shows the bounds.",
    ErrorCode.UNAUTHORIZED: "Give a key with --api-key or SKILLBUS_API_KEY, or the server's folder with SKILLBUS_DATA.",
    ErrorCode.FORBIDDEN: "If it is disabled, run `skillbus skills enable NAME`; otherwise use another key.",
    ErrorCode.SKILL_NOT_FOUND: "`skillbus list` shows the installed skills, `skillbus install PATH` adds one.",
    ErrorCode.NOT_FOUND: "Check the name, and --project if the command has it.",
    ErrorCode.UNKNOWN_ACTION: "`skillbus list --json` shows the actions of each skill.",
    ErrorCode.CONFLICT: "Do what the message says. If it names nothing to do, try again.",
    ErrorCode.PRECONDITION_FAILED: "Read the item again with `skillbus knowledge show ID`, and give its new version.",
    ErrorCode.NO_ENTRY_POINT: "The skill has no script. Its SKILL.md instructs a model instead.",
    ErrorCode.NOT_CALLABLE: "Call it where its provider says. skillbus only finds it.",
    ErrorCode.PAYLOAD_TOO_LARGE: "Make it smaller, or raise the limit in the server's settings.",
    ErrorCode.SKILL_REJECTED: "Correct the package and install it again.",
    ErrorCode.INVALID_ARGUMENTS: "Correct --args. `skillbus tools show ID` shows the schema.",
    ErrorCode.DEPENDENCIES_UNAVAILABLE: "Correct the skill's requirements, or check that uv, npm and their index work.",
    ErrorCode.RUNTIME_MISSING: "Install that language on the machine of the sandbox.",
    ErrorCode.OVERLOADED: "Try again in a moment, or start more replicas of the service.",
    ErrorCode.INTERNAL: "Read the server's log.",
    ErrorCode.UNAVAILABLE: _UNAVAILABLE,
    ErrorCode.MODEL_UNAVAILABLE: "`skillbus providers test NAME` shows whether its provider answers.",
    ErrorCode.VECTOR_STORE_UNAVAILABLE: _UNAVAILABLE,
    ErrorCode.SANDBOX_UNAVAILABLE: "Do what the message says; the machine is checked again every ten seconds.",
    ErrorCode.DEADLINE_EXCEEDED: "Try again, or give it more time.",
}
"""Next step of the caller, for every code that a server sends."""


def join_path(base: str, *names: str) -> str:
    """Append names as segments. Dots are quoted too: HTTP clients remove the segments `.` and `..`."""
    return "/".join((base, *(quote(name, safe="").replace(".", "%2E") for name in names)))


def parse_reply(reply: type[ReplyT], text: str | bytes, response: httpx.Response) -> ReplyT:
    """Parse a reply, or a part of one that arrives as a stream.

    Raises:
        StrangeReplyError: The text is not a reply of this type.
    """
    try:
        return reply.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole reply"
        raise build_strange_reply(response, f"its reply does not parse: {where}: {first['msg']}") from error


def build_strange_reply(response: httpx.Response, problem: str) -> StrangeReplyError:
    """Build the error for a response that skillbus does not send."""
    return StrangeReplyError(
        f"{response.url.copy_with(query=None)}: {problem}",
        "Check that --url is the address of a skillbus server of this version.",
    )


def parse_problem(content: bytes, response: httpx.Response) -> ProblemError | StrangeReplyError:
    """Build the error from a problem document, or from an error in OpenAI's form, which the paths below /v1 send."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and isinstance(problem.get("error"), dict):
        problem = {"detail": problem["error"].get("message"), "code": problem["error"].get("code")}
    if not isinstance(problem, dict) or not {"title", "detail", "code"} & problem.keys():
        return build_strange_reply(response, f"it answered {response.status_code} without a problem document")
    status = problem.get("status")
    code = str(problem.get("code") or "")
    advice = ADVICE[ErrorCode(code)] if code in set(ErrorCode) else ""
    return ProblemError(problem, status if isinstance(status, int) else response.status_code, advice)
