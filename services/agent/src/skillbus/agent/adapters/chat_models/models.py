"""Chat models that are reached over HTTP."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import structlog

from skillbus.agent.adapters.chat_models.anthropic_wire import ANTHROPIC_WIRE
from skillbus.agent.adapters.chat_models.openai_wire import OPENAI_WIRE
from skillbus.agent.adapters.chat_models.wire import ChatWire
from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.agent.domain.errors import ModelBusyError, ModelFailedError, ModelRefusedError
from skillbus.common.secrets import SecretUnreadableError
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ProviderKind, ProviderRecord
from skillbus.providers.client import ProviderClients
from skillbus.providers.errors import (
    InputRefusedError,
    ProviderBusyError,
    ProviderError,
    ProviderFailedError,
    ReplyFormatError,
)

_WIRES: Final[Mapping[ProviderKind, ChatWire]] = {
    ProviderKind.OPENAI: OPENAI_WIRE,
    ProviderKind.OLLAMA: OPENAI_WIRE,
    ProviderKind.DASHSCOPE: OPENAI_WIRE,
    ProviderKind.GEMINI: OPENAI_WIRE,
    ProviderKind.ANTHROPIC: ANTHROPIC_WIRE,
}
_KEPT_PROVIDERS: Final = 64
"""Providers whose connections and breakers are kept between calls."""


class HttpChatModels:
    """Implementation of `ChatModels`. It keeps the client of each provider until the provider's record changes."""

    def __init__(self, clients: ProviderClients) -> None:
        self._clients = clients
        self._kept: dict[str, ProviderRecord] = {}

    async def stream_answer(self, models: Sequence[ChatModel], call: ModelCall) -> AsyncGenerator[str | ModelAnswer]:
        """See `ChatModels.stream_answer`."""
        problems, busy = list[str](), list[ProviderBusyError]()
        for candidate in models:
            attempt = _Attempt(candidate)
            try:
                async with aclosing(self._ask_model(candidate, call)) as pieces:
                    async for piece in pieces:
                        attempt.note_piece(piece)
                        yield piece
                attempt.outcome = "answered"
            except InputRefusedError as error:
                attempt.outcome = "refused"
                problem = _describe_refusal(candidate, error)
            except (ProviderError, SecretUnreadableError, ReplyFormatError) as error:
                attempt.outcome = "failed"
                problem = _describe_failure(candidate, error)
                if isinstance(error, ProviderBusyError):
                    busy.append(error)
            else:
                return
            finally:
                attempt.log_end()
            if attempt.has_text:
                raise ModelFailedError(f"{problem}; a part of its answer had come")
            if attempt.outcome == "refused":
                raise ModelRefusedError(problem)
            problems.append(problem)
        problem = "; ".join(problems) or "no chat model is given"
        if busy and len(busy) == len(problems):
            waits_s = [error.retry_after_s for error in busy if error.retry_after_s is not None]
            raise ModelBusyError(problem, min(waits_s, default=None))
        raise ModelFailedError(problem)

    async def _ask_model(self, candidate: ChatModel, call: ModelCall) -> AsyncGenerator[str | ModelAnswer]:
        wire = _WIRES.get(candidate.provider.kind)
        if wire is None:
            raise ProviderFailedError(
                candidate.provider.name, f"has no chat models: its kind is {candidate.provider.kind}"
            )
        request = wire.build_request(candidate, call)
        reader = wire.open_reader(candidate)
        await self._keep_client(candidate.provider)
        client = await self._clients.acquire_client(candidate.provider)
        try:
            async with aclosing(client.stream(request, reader.parse_event)) as events:
                async for event in events:
                    if text := reader.read_event(event):
                        yield text
            yield reader.finish()
        finally:
            await self._clients.release_client(candidate.provider)

    async def _keep_client(self, provider: ProviderRecord) -> None:
        """Hold the client of this version of a provider, and let go of the one before."""
        if self._kept.get(provider.name) == provider:
            return
        await self._clients.acquire_client(provider)
        dropped = [self._kept.pop(provider.name, None)]
        self._kept[provider.name] = provider
        if len(self._kept) > _KEPT_PROVIDERS:
            dropped.append(self._kept.pop(next(iter(self._kept))))
        for record in filter(None, dropped):
            await self._clients.release_client(record)


class _Attempt:
    """One model's try to answer, for the log."""

    def __init__(self, candidate: ChatModel) -> None:
        self._candidate = candidate
        self._started = time.perf_counter()
        self._first_text_ms: float | None = None
        self._answer: ModelAnswer | None = None
        self.outcome = "cancelled"

    @property
    def has_text(self) -> bool:
        """True if text of the answer has been passed on."""
        return self._first_text_ms is not None

    def note_piece(self, piece: str | ModelAnswer) -> None:
        """Note what the model sent."""
        if isinstance(piece, ModelAnswer):
            self._answer = piece
        elif self._first_text_ms is None:
            self._first_text_ms = self._measure_ms()

    def log_end(self) -> None:
        """Log the end of the attempt."""
        answer = self._answer
        structlog.get_logger().info(
            "chat_model_called",
            provider=self._candidate.provider.name,
            model=self._candidate.model.name,
            outcome=self.outcome,
            first_text_ms=self._first_text_ms,
            took_ms=self._measure_ms(),
            prompt_tokens=answer.usage.prompt_tokens if answer else None,
            completion_tokens=answer.usage.completion_tokens if answer else None,
            calls=len(answer.message.tool_calls) if answer else None,
        )

    def _measure_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1e3, 1)


def _describe_failure(candidate: ChatModel, error: ProviderError | SecretUnreadableError | ReplyFormatError) -> str:
    reason = f"provider {candidate.provider.name} {error}" if isinstance(error, ReplyFormatError) else str(error)
    return f"model {candidate.model.name}: {reason}"


def _describe_refusal(candidate: ChatModel, error: InputRefusedError) -> str:
    said = f": {error.complaint}" if error.complaint else ""
    return f"model {candidate.model.name}: {error}{said}"
