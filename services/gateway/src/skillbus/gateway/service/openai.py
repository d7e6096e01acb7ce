"""Embeddings and models as OpenAI's API has them, for the clients that there are for it."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import StreamingResponse

from skillbus.contracts.embedder.embedding import EMBED_TEXTS
from skillbus.contracts.embedder.registry import LIST_MODELS, LIST_PROVIDERS, ModelRecord, ProviderRecord
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.http import OpenAiEmbeddings, OpenAiModel, OpenAiModels
from skillbus.contracts.message import Empty, PlainText
from skillbus.gateway.domain.openai.embeddings import EmbeddingsBody, TextEmbedder
from skillbus.gateway.domain.openai.replies import PART_FLOATS, embedding_parts, model_list, model_object
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.disconnection import CallerLeftError, while_connected
from skillbus.gateway.service.documented_router import WITH_BODY, Documented, Errors, body_example, documented_errors

_JSON: Final = "application/json"
_CLIENT_CLOSED_REQUEST: Final = 499
"""What nginx logs for it; nobody gets this answer."""
_EXAMPLE: Final = {"model": "use-multilingual-v3", "input": ["帮我提交代码", "commit my changes"]}
ModelInPath = Annotated[PlainText, Path(min_length=1, max_length=300, description="As `model` of `/v1/embeddings`.")]


@dataclass(frozen=True, slots=True)
class OpenAiRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    embedder: TextEmbedder

    async def create_embeddings(self, body: EmbeddingsBody, request: Request) -> Response:
        """Embed texts, as OpenAI does. The answer names the model that made the vectors."""
        try:
            embedded = await while_connected(request, self.embedder.embed(body))
        except CallerLeftError:
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        parts = embedding_parts(embedded, base64=body.encoding_format == "base64")
        if sum(matrix.count * matrix.dim for matrix in embedded.matrices) <= PART_FLOATS:
            return Response(b"".join(parts), media_type=_JSON)
        return StreamingResponse(parts, media_type=_JSON)  # written in a thread, part by part

    async def list_openai_models(self) -> OpenAiModels:
        """The models that texts can be embedded with, the default first."""
        return model_list(*await self._registered())

    async def get_openai_model(self, model: ModelInPath) -> OpenAiModel:
        """One of them."""
        return model_object(*await self._registered(), model)

    async def _registered(self) -> tuple[tuple[ProviderRecord, ...], tuple[ModelRecord, ...]]:
        providers, models = await asyncio.gather(
            self.caller.call(LIST_PROVIDERS, Empty()), self.caller.call(LIST_MODELS, Empty())
        )
        return providers.providers, models.models


def add_openai_routes(router: APIRouter, routes: OpenAiRoutes) -> None:
    """Put them under their paths."""
    router.add_api_route(
        "/v1/embeddings",
        routes.create_embeddings,
        methods=["POST"],
        responses=_answers((*EMBED_TEXTS.errors, *WITH_BODY), OpenAiEmbeddings),
        operation_id=routes.create_embeddings.__name__,
        openapi_extra=body_example(_EXAMPLE),
    )
    for path, handler, errors in (
        ("/v1/models", routes.list_openai_models, LIST_MODELS.errors),
        ("/v1/models/{model:path}", routes.get_openai_model, (*LIST_MODELS.errors, ErrorCode.NOT_FOUND)),
    ):
        router.add_api_route(path, handler, methods=["GET"], responses=_answers(errors), operation_id=handler.__name__)


def _answers(errors: Errors, reply: type[OpenAiEmbeddings] | None = None) -> Documented:
    answers = documented_errors(errors, _JSON, "OpenAiErrorBody")
    return answers if reply is None else {HTTPStatus.OK.value: {"model": reply}, **answers}
