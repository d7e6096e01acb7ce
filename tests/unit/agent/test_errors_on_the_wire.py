"""Every error of the agent has a code of the contract."""

import pytest

from skillbus.agent.domain import errors
from skillbus.agent.errors_on_the_wire import to_wire
from skillbus.contracts.errors import ErrorCode

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.AgentError)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not errors.AgentError])
def test_an_error_is_more_than_internal(kind: type[errors.AgentError]) -> None:
    wire = to_wire(kind("said"))
    assert wire is not None
    assert wire.code is not ErrorCode.INTERNAL
    assert "said" in wire.message


def test_arguments_that_do_not_fit_tell_their_place() -> None:
    wire = to_wire(errors.ArgumentsInvalidError("is no number", "$.a"))
    assert wire is not None
    assert wire.details == {"path": "$.a"}


def test_a_call_of_an_external_tool_names_its_provider() -> None:
    wire = to_wire(errors.ToolExternalError("is external", provided_by="Acme"))
    assert wire is not None
    assert (wire.code, wire.details, wire.retryable) == (ErrorCode.NOT_CALLABLE, {"provided_by": "Acme"}, False)


def test_a_call_that_may_have_been_done_is_not_to_be_repeated_blindly() -> None:
    wire = to_wire(errors.CallTimedOutError("late"))
    assert wire is not None
    assert (wire.code, wire.retryable) == (ErrorCode.DEADLINE_EXCEEDED, False)


def test_what_is_not_the_agents_is_left_alone() -> None:
    assert to_wire(ValueError()) is None
