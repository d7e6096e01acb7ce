"""Operations on the registry of providers and models, and OpenAI's API."""

from collections.abc import Sequence
from typing import Final, Literal

from skillbus.client.operation import ReplyParser, custom_operation, ignore_reply, json_operation, prepare_fields
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    ModelRecord,
    ModelSelector,
    ModelsListed,
    ProviderRecord,
    ProviderSelector,
    ProvidersListed,
    ProviderTested,
    TestProvider,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.http import ModelTested, OpenAiEmbeddings, OpenAiModel, OpenAiModels
from skillbus.contracts.message import Empty

_PROVIDERS: Final = "/api/embedding/providers"
_PROVIDER: Final = "/api/embedding/providers/{name}"
_MODELS: Final = "/api/embedding/models"
_MODEL: Final = "/api/embedding/models/{id}"
_EMBEDDING_S: Final = 300.0
_PROBE_S: Final = 330.0
"""Time to wait where a provider must answer first: its own timeout may be up to 300 s."""


def _prepare_embeddings(
    input: str | Sequence[str],  # noqa: A002 (OpenAI's name)
    *,
    model: str,
    dimensions: int | None = None,
    input_type: Literal["query", "document"] | None = None,
) -> PreparedRequest:
    texts = input if isinstance(input, str) else list(input)
    optional = {"dimensions": dimensions, "input_type": input_type}
    given = {name: value for name, value in optional.items() if value is not None}
    return PreparedRequest({"input": texts, "model": model, **given})


def _prepare_model(model: str) -> PreparedRequest:
    return PreparedRequest({"model": model})


class EmbeddingOperations:
    """Providers and models of embeddings and chats, and OpenAI's API."""

    list_providers = json_operation("GET", _PROVIDERS, Empty, ProvidersListed)
    """List all providers, ordered by name. Replies hold references to keys, never keys."""
    create_provider = json_operation("POST", _PROVIDERS, CreateProvider, ProviderRecord)
    """Register a provider. `api_key` is a reference, `env:NAME` or `file:PATH` on the server, never the key."""
    get_provider = json_operation("GET", _PROVIDER, ProviderSelector, ProviderRecord)
    """Return one provider."""
    update_provider = json_operation("PATCH", _PROVIDER, UpdateProvider, ProviderRecord)
    """Change a provider. Fields that are not given stay, an empty text clears."""
    delete_provider = custom_operation(HttpRoute("DELETE", _PROVIDER), prepare_fields(ProviderSelector), ignore_reply)
    """Delete a provider that has no models."""
    test_provider = json_operation("POST", f"{_PROVIDER}/test", TestProvider, ProviderTested, timeout_s=_PROBE_S)
    """Test a provider by asking it for one vector, bypassing every cache. `ok` and `error` hold the result."""
    list_models = json_operation("GET", _MODELS, Empty, ModelsListed)
    """List all models: embedding models, then chat models, of each kind the default first."""
    create_model = json_operation("POST", _MODELS, CreateModel, ModelRecord, timeout_s=_PROBE_S)
    """Register a model of a provider. An embedding model without `dimensions` is asked for one vector; `kind="chat"`
    registers a model that answers chats."""
    get_default_model = json_operation("GET", f"{_MODELS}/default", Empty, ModelRecord)
    """Return the default embedding model, which embeds texts when a request names no model."""
    get_model = json_operation("GET", _MODEL, ModelSelector, ModelRecord)
    """Return one model."""
    update_model = json_operation("PATCH", _MODEL, UpdateModel, ModelRecord, timeout_s=_PROBE_S)
    """Change a model. Fields that are not given stay, an empty text clears. `is_default=True` makes it the
    default of its kind, and that of embeddings switches the indexes."""
    test_model = json_operation("POST", f"{_MODEL}/test", ModelSelector, ModelTested, timeout_s=_PROBE_S)
    """Test a model by asking it for one vector or one short answer. `ok` and `error` hold the result."""
    delete_model = custom_operation(HttpRoute("DELETE", _MODEL), prepare_fields(ModelSelector), ignore_reply)
    """Delete a model that is not the default. The last chat model can be deleted, too."""
    create_embeddings = custom_operation(
        HttpRoute("POST", "/v1/embeddings", timeout_s=_EMBEDDING_S, is_idempotent=True),
        _prepare_embeddings,
        ReplyParser(OpenAiEmbeddings),
    )
    """Embed texts, as in OpenAI's API. The reply names the model that made the vectors."""
    list_openai_models = json_operation("GET", "/v1/models", Empty, OpenAiModels)
    """List the models that embed texts and those that answer chats, in OpenAI's format."""
    get_openai_model = custom_operation(
        HttpRoute("GET", "/v1/models/{model}"), _prepare_model, ReplyParser(OpenAiModel)
    )
    """Return one model that embeds texts or answers chats, in OpenAI's format."""
