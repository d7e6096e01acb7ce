"""Test of a chat model."""

from typing import Final

from pydantic import Field

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import Message


class TestChatModel(Message):
    """Test whether a chat model answers, by one short chat without tools."""

    __test__ = False  # pytest would take its name for a test

    id: str = Field(min_length=1, max_length=300)
    """Id of a chat model, its name, or `provider/name`."""


class ChatModelTested(Message):
    """Result of a test of a chat model."""

    ok: bool
    """True if the model answered."""
    provider: str
    model: str
    took_ms: float
    error: str | None = None
    """Reason why it did not answer. It holds no key."""


TEST_CHAT_MODEL: Final = Endpoint(
    service=SERVICE,
    name="test_chat_model",
    request=TestChatModel,
    reply=ChatModelTested,
    summary="Test a chat model by asking it for one short answer, over a new connection to its provider.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.MODEL_UNAVAILABLE),
    timeout_s=60.0,
    example={"id": "qwen3:8b"},
    act=AuditedAct("id", details=("ok",)),
)
