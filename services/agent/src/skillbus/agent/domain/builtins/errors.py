"""What can go wrong in a builtin tool, beside `ArgumentsInvalidError` and `ToolUnknownError` of the whole agent.

AgentError
└── ToolFailedError   the tool understood, and has no result: its answer says why
"""

from skillbus.agent.domain.errors import AgentError


class ToolFailedError(AgentError):
    """The message is for the model: it says what is wrong or what to do instead."""
