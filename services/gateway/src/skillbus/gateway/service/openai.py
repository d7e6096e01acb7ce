"""Embeddings and models in OpenAI's format, for existing clients of that API."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Path, Request, Response
from starlette.responses import StreamingResponse

from skillbus.contracts.embedder.embedding import EMBED_TEXTS
from skillbus.contracts.embedder.registry import LIST_MODELS, LIST_PROVIDERS, ModelRecord, ProviderRecord
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import OpenAiEmbeddings, OpenAiModel, OpenAiModels
from skillbus.contracts.message import Empty, PlainText
from skillbus.gateway.domain.openai import (
    PART_FLOATS,
    EmbeddingsBody,
    TextEmbedder,
    find_openai_model,
    list_openai_models,
    write_embeddings,
)
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter
from skillbus.gateway.service.runs.disconnection import CLIENT_CLOSED_REQUEST, CallerLeftError, await_while_connected

_JSON: Final = "application/json"
_EXAMPLE: Final = {"model": "use-multilingual-v3", "input": ["帮我提交代码", "commit my changes"]}
OpenAiModelInPath = Annotated[
    PlainText, Path(min_length=1, max_length=300, description="Name as in `model` of a request.")
]


@dataclass(frozen=True, slots=True)
class OpenAiRoutes:
    """Handlers of the OpenAI API."""

    caller: BusCaller
    embedder: TextEmbedder

    async def create_embeddings(self, body: EmbeddingsBody, request: Request) -> Response:
        """Embed texts, as in OpenAI's API. The reply names the model that made the vectors."""
        try:
            vectors = await await_while_connected(request, self.embedder.embed_texts(body))
        except CallerLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        parts = write_embeddings(vectors, base64=body.encoding_format == "base64")
        if sum(matrix.count * matrix.dim for matrix in vectors.matrices) <= PART_FLOATS:
            return Response(b"".join(parts), media_type=_JSON)
        return StreamingResponse(parts, media_type=_JSON)  # written in a thread, part by part

    async def list_openai_models(self) -> OpenAiModels:
        """List the models that embed texts and those that answer chats, of each kind the default first."""
        return list_openai_models(*await self._list_registered())

    async def get_openai_model(self, model: OpenAiModelInPath) -> OpenAiModel:
        """Return one model that embeds texts or answers chats."""
        return find_openai_model(*await self._list_registered(), model)

    async def _list_registered(self) -> tuple[tuple[ProviderRecord, ...], tuple[ModelRecord, ...]]:
        providers, models = await asyncio.gather(
            self.caller.call(LIST_PROVIDERS, Empty()), self.caller.call(LIST_MODELS, Empty())
        )
        return providers.providers, models.models


def add_openai_routes(router: DocumentedRouter, routes: OpenAiRoutes) -> None:
    """Add the routes of the OpenAI API."""
    reply: Documented = {HTTPStatus.OK.value: {"model": OpenAiEmbeddings}}
    model_errors = (*LIST_MODELS.errors, ErrorCode.NOT_FOUND)
    router.with_replies(reply).add(
        "POST", "/v1/embeddings", Role.RUNNER, routes.create_embeddings, EMBED_TEXTS.errors, example=_EXAMPLE
    )
    router.add("GET", "/v1/models", Role.READER, routes.list_openai_models, LIST_MODELS.errors)
    router.add("GET", "/v1/models/{model:path}", Role.READER, routes.get_openai_model, model_errors)
