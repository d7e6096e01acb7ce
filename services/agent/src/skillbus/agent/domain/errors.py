"""Errors of servers and of tool calls.

    AgentError
    ├── ServerUnknownError       no server of that name is registered
    ├── ServerInFileError        the server is in the operator's file, which no request changes
    ├── ServerFailedError        a server cannot be reached, is too slow, or violates the protocol
    ├── CallTimedOutError        a call was not answered in time; it may or may not have been done
    ├── ToolUnknownError         neither the catalogue nor a server has such a tool
    ├── ToolNotCallableError     the tool is in quarantine or disabled
    ├── ApprovalMissingError     the call needs the approval of a person, who cannot be asked
    ├── CallDeniedError          a person denied the call, or nobody answered in time
    ├── ToolExternalError        the tool belongs to another system, and skillbus cannot call it
    ├── ArgumentsInvalidError    the arguments do not fit the tool's schema
    ├── SchemaUnusableError      the tool's schema cannot be used to check arguments
    ├── ModelFailedError         no chat model answered in full
    │   └── ModelBusyError       the providers of all of them have too many requests
    ├── ModelRefusedError        a chat model refuses the request
    ├── TurnUnknownError         no turn with this id is under way, or ended a short time ago
    ├── TurnClashError           a turn with this id exists
    ├── ForeignTurnError         somebody else started the turn
    ├── NothingWaitsError        no such call waits for an approval
    └── TurnCancelledError       the turn was cancelled
    BuiltinFailedError           a builtin tool has no result; it becomes the tool's answer

A tool that reports a failure is no error: its answer has `is_error`.
"""

LAST_WORDS_SEPARATOR = " / "
"""Text between the lines of a server's last output, in the message of its failure."""


class AgentError(Exception):
    """Base of all errors of the agent."""


class ServerUnknownError(AgentError):
    """No such server."""


class ServerInFileError(AgentError):
    """A request to change a server of the operator's file; the message says how to change it."""


class ServerFailedError(AgentError):
    """A failure of a server. The message is for operators and holds none of the server's secrets."""


class CallTimedOutError(AgentError):
    """A call that was not answered in time."""


class ToolUnknownError(AgentError):
    """No such tool."""


class ToolNotCallableError(AgentError):
    """A tool that must not be called now; the message says what to do."""


class ApprovalMissingError(AgentError):
    """A call that needs an approval which nobody can give; the message says what to do."""


class CallDeniedError(AgentError):
    """A call that was not approved; the message says by whom or why."""


class ToolExternalError(AgentError):
    """A tool that the catalogue only describes; `provided_by` names its provider."""

    def __init__(self, message: str, provided_by: str = "") -> None:
        super().__init__(message)
        self.provided_by = provided_by


class ArgumentsInvalidError(AgentError):
    """Arguments that do not fit; `path` is the place in them, like `$.rows[2].name`."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class SchemaUnusableError(AgentError):
    """A schema that is invalid, refers elsewhere, or is too expensive to check."""


class ModelFailedError(AgentError):
    """A failure of chat models. The message names each model that was asked and holds no key."""


class ModelBusyError(ModelFailedError):
    """Every chat model that was asked answered 429."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """Time after which the first of them wants the next request, if it says one."""


class ModelRefusedError(AgentError):
    """A request that a chat model refuses. The message holds an excerpt of the provider's reason."""


class TurnUnknownError(AgentError):
    """No such turn."""


class TurnClashError(AgentError):
    """A second turn with the id of another."""


class ForeignTurnError(AgentError):
    """A decision about the turn of somebody else."""


class NothingWaitsError(AgentError):
    """A decision about a call that does not wait, or no longer."""


class TurnCancelledError(AgentError):
    """A turn that was cancelled before its end."""


class BuiltinFailedError(Exception):
    """A builtin tool has no result. The message is for the model: what is wrong, or what to do instead."""
