"""HTTP API as the command line uses it: its paths, and the errors of the client as errors of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel

from skillbus.cli.errors import CliError, NoAnswerError, ProblemError, StrangeReplyError, UnreachableError
from skillbus.client import call
from skillbus.client.errors import ApiError, NoReplyError, ServerUnreachableError, SkillbusError, UnexpectedReplyError
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode

if TYPE_CHECKING:
    import httpx

CHAT_RUNS: Final = "/v1/chat/runs"
CHAT_COMPLETIONS: Final = "/v1/chat/completions"
COMMANDS: Final = "/api/commands"
CONTEXT: Final = "/api/context"
DEAD_LETTERS: Final = "/api/dead-letters"
DEVICES: Final = "/api/devices"
EMBEDDINGS: Final = "/v1/embeddings"
HOMES: Final = "/api/homes"
INDEXES: Final = "/api/indexes"
KEYS: Final = "/api/keys"
KNOWLEDGE: Final = "/api/knowledge"
LEARNING: Final = "/api/learn"
LEARNING_JOBS: Final = "/api/learn/jobs"
LEARNING_SOURCES: Final = "/api/learn/sources"
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
    ErrorCode.FORBIDDEN: "Use a key that may do this, or have it enabled by somebody who may.",
    ErrorCode.SKILL_NOT_FOUND: "`skillbus install PATH` adds a skill.",
    ErrorCode.NOT_FOUND: "Check the name, and --project if the command has it.",
    ErrorCode.UNKNOWN_ACTION: "`skillbus skills list --json` shows the actions of each skill.",
    ErrorCode.CONFLICT: "Do what the message says. If it names nothing to do, try again.",
    ErrorCode.PRECONDITION_FAILED: "Read the item again with `skillbus knowledge show ID`, and give its new version.",
    ErrorCode.NO_ENTRY_POINT: "The skill has no script. Its SKILL.md instructs a model instead.",
    ErrorCode.NOT_CALLABLE: "",
    ErrorCode.APPROVAL_REQUIRED: "Call it yourself with `skillbus call`, or approve it in `skillbus chat`.",
    ErrorCode.CANCELLED: "Somebody ended it, or its caller went away. Start it again if that was not meant.",
    ErrorCode.PAYLOAD_TOO_LARGE: "Make it smaller, or raise the limit in the server's settings.",
    ErrorCode.SKILL_REJECTED: "Correct the package and install it again.",
    ErrorCode.INVALID_ARGUMENTS: "Correct the arguments. `skillbus tools show ID` shows their schema.",
    ErrorCode.DEPENDENCIES_UNAVAILABLE: "Correct the skill's requirements, or check that uv, npm and their index work.",
    ErrorCode.RUNTIME_MISSING: "Install that language on the machine of the sandbox.",
    ErrorCode.STORAGE_FULL: "Free space on the disk of the server; it accepts data again without a restart.",
    ErrorCode.OVERLOADED: "Try again in a moment, or start more replicas of the service.",
    ErrorCode.INTERNAL: "Read the server's log.",
    ErrorCode.UNAVAILABLE: _UNAVAILABLE,
    ErrorCode.MODEL_UNAVAILABLE: "`skillbus models list` shows the models, `skillbus models test NAME` tests one.",
    ErrorCode.VECTOR_STORE_UNAVAILABLE: _UNAVAILABLE,
    ErrorCode.SANDBOX_UNAVAILABLE: "Do what the message says; the machine is checked again every ten seconds.",
    ErrorCode.DEADLINE_EXCEEDED: "Try again, or give it more time.",
}
"""Next step of the caller, for every code that a server sends."""


def parse_reply(reply: type[ReplyT], text: str | bytes, response: httpx.Response) -> ReplyT:
    """Parse a reply, or a part of one that arrives as a stream.

    Raises:
        StrangeReplyError: The text is not a reply of this type.
    """
    try:
        return call.parse_reply(reply, text, response)
    except SkillbusError as error:
        raise make_cli_error(error) from error


def build_strange_reply(response: httpx.Response, problem: str) -> CliError:
    """Build the error for a response that skillbus does not send."""
    return make_cli_error(call.build_unexpected(response, problem))


def parse_problem(content: bytes, response: httpx.Response) -> CliError:
    """Build the error from a problem document, or from an error in OpenAI's form, which the paths below /v1 send."""
    return make_cli_error(call.build_error(content, response))


def make_cli_error(error: SkillbusError) -> CliError:
    """Return the error of the command line, with the next step of its user, for an error of the client."""
    match error:
        case ApiError():
            if error.code not in set(ErrorCode):
                return ProblemError(error.document, error.status, "")
            code = ErrorCode(error.code)
            # Errors in OpenAI's form have no title.
            return ProblemError({"title": ERROR_CLASSES[code].title} | error.document, error.status, ADVICE[code])
        case ServerUnreachableError():
            return UnreachableError(
                f"no server answers at {error.url} ({error.reason})",
                "Start it with `skillbus up`, or give its address with --url or SKILLBUS_URL.",
            )
        case UnexpectedReplyError():
            advice = "Check that --url is the address of a skillbus server of this version."
            return StrangeReplyError(f"{error.url}: {error.problem}", advice)
        case NoReplyError() if error.timeout_s is not None:
            return NoAnswerError(str(error), "Try again, or read the server's log.")
        case _:
            return NoAnswerError(str(error), "`skillbus status` shows whether the server is still running.")
