"""Embedding models."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Response

from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    DELETE_MODEL,
    GET_DEFAULT_MODEL,
    GET_MODEL,
    LIST_MODELS,
    UPDATE_MODEL,
    CreateModel,
    ModelChanges,
    ModelRecord,
    ModelSelector,
    ModelsListed,
    UpdateModel,
)
from skillbus.contracts.message import Empty, PlainText
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, DocumentedRouter

_MODELS: Final = "/api/embedding/models"
_MODEL: Final = f"{_MODELS}/{{id:path}}"
"""Names of models hold slashes, and so does `provider/name`."""
ModelInPath = Annotated[
    PlainText, Path(min_length=1, max_length=300, description="The model's id, its name, or `provider/name`.")
]


@dataclass(frozen=True, slots=True)
class ModelRoutes:
    """The handlers, over what they need."""

    caller: BusCaller

    async def list_models(self) -> ModelsListed:
        """All models: the default first, then in the order in which they are tried."""
        return await self.caller.call(LIST_MODELS, Empty())

    async def create_model(self, body: CreateModel, response: Response) -> ModelRecord:
        """Add a model of a provider. Without `dimensions`, the provider is asked for one vector."""
        created = await self.caller.call(CREATE_MODEL, body)
        response.headers["Location"] = f"{_MODELS}/{created.id}"
        return created

    async def get_default_model(self) -> ModelRecord:
        """The model that embeds what names no other."""
        return await self.caller.call(GET_DEFAULT_MODEL, Empty())

    async def get_model(self, id: ModelInPath) -> ModelRecord:  # noqa: A002 (the name in the path)
        """One model."""
        return await self.caller.call(GET_MODEL, ModelSelector(id=id))

    async def update_model(self, id: ModelInPath, body: ModelChanges) -> ModelRecord:  # noqa: A002
        """Change a model: what is absent stays, an empty text clears. `is_default: true` makes it the default.

        Another default model takes every index to its vectors: `GET /api/indexes` says how far.
        """
        changes = UpdateModel.model_validate({**body.model_dump(exclude_unset=True), "id": id})
        return await self.caller.call(UPDATE_MODEL, changes)

    async def delete_model(self, id: ModelInPath) -> None:  # noqa: A002
        """Remove a model that is not the default."""
        await self.caller.call(DELETE_MODEL, ModelSelector(id=id))


def add_model_routes(to: DocumentedRouter, routes: ModelRoutes) -> None:
    """Put them under their paths. `default` comes before the names: a model of that name is asked for by its id."""
    created, changed = CREATE_MODEL, UPDATE_MODEL
    create_errors, change_errors = (*created.errors, *WITH_BODY), (*changed.errors, *WITH_BODY)
    to.add("GET", _MODELS, routes.list_models, LIST_MODELS.errors)
    to.add("POST", _MODELS, routes.create_model, create_errors, status=201, example=created.example)
    to.add("GET", f"{_MODELS}/default", routes.get_default_model, GET_DEFAULT_MODEL.errors)
    to.add("GET", _MODEL, routes.get_model, GET_MODEL.errors)
    to.add("PATCH", _MODEL, routes.update_model, change_errors, example={"is_default": True})
    to.add("DELETE", _MODEL, routes.delete_model, DELETE_MODEL.errors, status=204)
