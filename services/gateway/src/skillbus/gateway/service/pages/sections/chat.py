"""Page of chats with a model that finds and calls tools by itself."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastapi import Request, Response

from skillbus.contracts.embedder.registry import LIST_MODELS, LIST_PROVIDERS, ModelKind, ProviderKind
from skillbus.contracts.errors import RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import OpenAiModel
from skillbus.contracts.message import DEFAULT_PROJECT, Empty
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.openai import list_openai_models
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.pages.rendering import render_page
from skillbus.gateway.service.pages.sections.system import may_run_system

CHAT_PAGE: Final = "/chat"
_KINDS: Final = tuple(kind for kind in ProviderKind if kind is not ProviderKind.LOCAL)
"""Kinds of providers that answer chats."""


class _Example(NamedTuple):
    """Settings of a provider and a model, shown where nothing is typed yet. A local provider needs no key."""

    address: str
    model: str
    key: str = ""


_EXAMPLES: Final[Mapping[ProviderKind, _Example]] = {
    ProviderKind.OPENAI: _Example("https://api.openai.com/v1", "gpt-5-mini", "env:OPENAI_API_KEY"),
    ProviderKind.OLLAMA: _Example("http://127.0.0.1:11434", "qwen3:8b"),
    ProviderKind.DASHSCOPE: _Example(
        "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen-flash", "env:DASHSCOPE_API_KEY"
    ),
    ProviderKind.ANTHROPIC: _Example("https://api.anthropic.com", "claude-sonnet-4-5", "env:ANTHROPIC_API_KEY"),
    ProviderKind.GEMINI: _Example(
        "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash", "env:GEMINI_API_KEY"
    ),
}


@dataclass(frozen=True, slots=True)
class ChatPages:
    """Handlers of the page of chats. What is said in them is kept in the browser alone."""

    caller: BusCaller

    async def show_chat(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the chats of this browser, or how to add a model if there is none."""
        caller = get_caller(request.scope)
        models, problem = await self._list_models()
        context = {
            "models": models,
            "problem": problem,
            "kinds": _KINDS,
            "examples": _EXAMPLES,
            "can_run": caller.role.includes(Role.RUNNER),
            "can_add_model": may_run_system(caller),
        }
        return render_page(request, "chat/chat.html", context, project=project)

    async def _list_models(self) -> tuple[tuple[OpenAiModel, ...], RequestError | None]:
        """Return the models that answer chats, or why they are not known. Chats may be answered all the same."""
        try:
            providers, models = await asyncio.gather(
                self.caller.call(LIST_PROVIDERS, Empty()), self.caller.call(LIST_MODELS, Empty())
            )
        except RequestError as error:
            return (), error
        listed = list_openai_models(providers.providers, models.models).data
        return tuple(model for model in listed if model.kind is ModelKind.CHAT), None
