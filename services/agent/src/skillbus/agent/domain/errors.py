"""What can go wrong with a server, and with a call of a tool.

    AgentError
    ├── ServerUnknownError       no server of that name is registered
    ├── ServerNotAllowedError    this deployment starts no processes for servers
    ├── ServerFailedError        a server cannot be had, or not in time, or says what MCP does not
    ├── CallTimedOutError        a call was not answered in time; it may or may not have been done
    ├── ToolUnknownError         neither the catalogue nor a server has such a tool
    ├── ToolNotCallableError     it waits in quarantine, or is disabled
    ├── ToolExternalError        others provide it, and skillbus cannot call it
    ├── ArgumentsInvalidError    the arguments do not fit the tool's schema
    └── SchemaUnusableError      the tool's schema cannot be used to check them

That a tool says it failed is no error: it is an answer with `is_error`.
"""


class AgentError(Exception):
    """Base of all errors of the agent."""


class ServerUnknownError(AgentError):
    """No such server."""


class ServerNotAllowedError(AgentError):
    """A server that has to be started, where that is not allowed; the message says how to allow it."""


class ServerFailedError(AgentError):
    """What a server did or did not do; the message is for operators and holds none of its secrets."""


class CallTimedOutError(AgentError):
    """A call that is not waited for any longer."""


class ToolUnknownError(AgentError):
    """No such tool."""


class ToolNotCallableError(AgentError):
    """A tool that is there and must not be called; the message says what to do."""


class ToolExternalError(AgentError):
    """The tool is only described in the catalogue: others provide it."""

    def __init__(self, message: str, provided_by: str = "") -> None:
        super().__init__(message)
        self.provided_by = provided_by


class ArgumentsInvalidError(AgentError):
    """Arguments that do not fit; `path` is the place in them, like `$.rows[2].name`."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class SchemaUnusableError(AgentError):
    """A schema that is not valid, refers elsewhere, or is too costly to check."""
