"""The chat models of the registry, with their providers, for services that call them."""

from typing import Final

from pydantic import Field

from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import Message

CHAT_MODELS_MAX: Final = 16
"""The default chat model and its fallbacks in one reply."""


class FindChatModels(Message):
    """Wanted chat models."""

    model: str | None = Field(default=None, min_length=1, max_length=300)
    """Name of a chat model, `provider/name`, or its id. Absent means the default model and its fallbacks."""


class ChatModel(Message):
    """Chat model and its provider."""

    model: ModelRecord
    provider: ProviderRecord


class ChatModelsFound(Message):
    """Chat models in the order in which they are tried. Disabled ones are left out."""

    models: tuple[ChatModel, ...]
    """1 to 16. One if a model was named."""


FIND_CHAT_MODELS: Final = Endpoint(
    service=SERVICE,
    name="find_chat_models",
    request=FindChatModels,
    reply=ChatModelsFound,
    summary="Return a chat model, or the default one with its fallbacks, and the addresses of their providers.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND, ErrorCode.MODEL_UNAVAILABLE),
    example={},
)
