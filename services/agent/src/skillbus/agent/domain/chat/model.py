"""Interface to chat models, whatever their provider."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillbus.contracts.agent.chat import ChatMessage, ChatOptions, FinishReason, FunctionDefinition, TokenUsage
from skillbus.contracts.embedder.chat_models import ChatModel


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[FunctionDefinition, ...] = ()
    """Functions that the model may call. `options.tool_choice` applies to these."""
    options: ChatOptions = field(default_factory=ChatOptions)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Whole answer of a model."""

    provider: str
    model: str
    message: ChatMessage
    """Message of the assistant: its text, its tool calls, and `upstream` if the provider wants something back."""
    finish_reason: FinishReason
    usage: TokenUsage


class ChatModels(Protocol):
    """Chat models of all providers."""

    def stream_answer(self, models: Sequence[ChatModel], call: ModelCall) -> AsyncGenerator[str | ModelAnswer]:
        """Ask the first model that answers, and yield the text as it comes, then the whole answer.

        The next model is asked if one fails before its first text. Closing the generator cancels the request.

        Raises:
            ModelBusyError: Every model answered that there are too many requests.
            ModelFailedError: No model answered, or one broke off after its first text.
            ModelRefusedError: A model refuses this request, and any other model would get the same.
        """
