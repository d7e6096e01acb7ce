"""What to do about each error code."""

from typing import Final

from skillbus.contracts.errors import ErrorCode

_UNAVAILABLE = "Try again in a moment; `skillbus status` shows what is missing."

ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.INVALID_REQUEST: "Correct what the lines above name; `--help` shows the bounds.",
    ErrorCode.UNAUTHORIZED: "Give a key with --key or SKILLBUS_KEY.",
    ErrorCode.FORBIDDEN: "Enable it again if it is disabled (`skillbus skills enable`), or use a key that may.",
    ErrorCode.SKILL_NOT_FOUND: "`skillbus list` shows what is installed, `skillbus install PATH` adds a skill.",
    ErrorCode.NOT_FOUND: "Check the name, and the --project where there is one.",
    ErrorCode.UNKNOWN_ACTION: "`skillbus list --json` shows the actions of each skill.",
    ErrorCode.CONFLICT: "Do what it says; if it names nothing to do, try again.",
    ErrorCode.PRECONDITION_FAILED: "Look at it as it is now, and say its version: `skillbus knowledge show ID`.",
    ErrorCode.NO_ENTRY_POINT: "Read its SKILL.md: it tells a model what to do, and has no script to run.",
    ErrorCode.NOT_CALLABLE: "Call it where its provider says; skillbus only finds it.",
    ErrorCode.PAYLOAD_TOO_LARGE: "Make it smaller, or raise the limit in the server's settings.",
    ErrorCode.SKILL_REJECTED: "Correct the package and install it again.",
    ErrorCode.INVALID_ARGUMENTS: "Correct --args; `skillbus tools show ID` or `skillbus list --json` shows the schema.",
    ErrorCode.DEPENDENCIES_UNAVAILABLE: "Correct what the skill declares, or see to uv, npm and the index they use.",
    ErrorCode.RUNTIME_MISSING: "Install that language on the machine of the sandbox.",
    ErrorCode.OVERLOADED: "Try again in a moment, or start more replicas of the service.",
    ErrorCode.INTERNAL: "Look into the server's log.",
    ErrorCode.UNAVAILABLE: _UNAVAILABLE,
    ErrorCode.MODEL_UNAVAILABLE: "`skillbus providers test NAME` shows whether its provider answers; or try again.",
    ErrorCode.VECTOR_STORE_UNAVAILABLE: _UNAVAILABLE,
    ErrorCode.SANDBOX_UNAVAILABLE: "Nothing runs without isolation: allow user namespaces, or install bubblewrap.",
    ErrorCode.DEADLINE_EXCEEDED: "Try again, or give it longer.",
}
"""Total: every code that the server can answer with."""


def advice_on(code: str) -> str:
    """What to do, or "" for a code that this version does not know."""
    try:
        return ADVICE[ErrorCode(code)]
    except ValueError:
        return ""
