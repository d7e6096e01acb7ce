"""Providers of embedding models, and their models: what the embedder keeps in SQL. They belong to no project.

In an update a field that is absent stays as it is, and an empty text clears one that may be absent.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import WITHOUT_NUL, Empty, Message, PlainText


class ProviderKind(StrEnum):
    """Which protocol a provider speaks."""

    OPENAI = "openai"
    """`POST /embeddings`, as OpenAI, vLLM, LM Studio, text-embeddings-inference and many others have it."""
    OLLAMA = "ollama"
    DASHSCOPE = "dashscope"
    ANTHROPIC = "anthropic"
    """Has no embeddings: its models are passed over."""
    LOCAL = "local"
    """Models in the embedder's own process, or in a child of it."""


class LocalRuntime(StrEnum):
    """What computes a local model."""

    USE = "use"
    """`use-multilingual-v3` in numpy, the default."""
    E5 = "e5"
    """`multilingual-e5-small` in C, in a child process."""
    ONNX = "onnx"
    """A directory with `model.onnx` and `tokenizer.json`; without a path, the `all-MiniLM-L6-v2` of a package."""
    FASTEMBED = "fastembed"
    """Any model that fastembed knows; it is fetched from a model hub when it is first used."""


_ENVIRONMENT_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_PART_OF_AN_ADDRESS: Final = re.compile(r"[\s\x00-\x20\x7f?#\\]")


def _base_url(value: str) -> str:
    if not value:
        return value
    parts = _split(value)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("is no address like https://api.example.com/v1")
    if "@" in parts.netloc or _NO_PART_OF_AN_ADDRESS.search(value):
        raise ValueError("holds a user, a query, a fragment or white space: keys are given by reference in api_key")
    return value.rstrip("/")


def _split(value: str) -> SplitResult | None:
    """None if it cannot be read. Python's own errors quote what they were given, and it may hold a key."""
    try:
        parts = urlsplit(value)
        usable = parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _secret_reference(value: str) -> str:
    kind, _, place = value.partition(":")
    if value and (kind not in {"env", "file"} or not place):
        raise ValueError("is no reference: give env:NAME or file:PATH, never the key itself")
    if kind == "env" and not _ENVIRONMENT_VARIABLE.fullmatch(place):
        raise ValueError("names no environment variable: give env:NAME, never the key itself")
    return value


ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^\S+$"), WITHOUT_NUL]
BaseUrl = Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL, AfterValidator(_base_url)]
"""Without user, query and fragment, so that no key can stand in it."""
SecretReference = Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL, AfterValidator(_secret_reference)]
"""Where a key is: `env:NAME`, an environment variable of the embedder, or `file:PATH`. The key is never stored."""
Prefix = Annotated[str, StringConstraints(max_length=2_000), WITHOUT_NUL]
RelativePath = Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL]


class ProviderFields(Message):
    """How a provider is reached."""

    kind: ProviderKind
    base_url: BaseUrl | None = None
    """The kind's own address if absent; `local` and `anthropic` have none."""
    api_key: SecretReference | None = None
    timeout_s: float = Field(default=10.0, gt=0, le=300)
    """For one request to it as a whole."""
    max_concurrency: int = Field(default=4, ge=1, le=64)
    """Requests to it at the same time."""
    max_batch_texts: int | None = Field(default=None, ge=1, le=2048)
    """Texts of one request; the kind's own limit if absent."""
    enabled: bool = True


class CreateProvider(ProviderFields):
    """A new provider."""

    name: ProviderName


class ProviderRecord(ProviderFields):
    """A provider as it is kept: also one that was taken by older rules."""

    name: ProviderName
    base_url: Annotated[PlainText, AfterValidator(lambda value: value.rstrip("/"))] | None = None
    api_key: PlainText | None = None
    version: int
    """Counts its changes, from 1."""
    created_at: datetime
    updated_at: datetime


class ProviderChanges(Message):
    """What of a provider is to be otherwise."""

    base_url: BaseUrl | None = None
    api_key: SecretReference | None = None
    timeout_s: float | None = Field(default=None, gt=0, le=300)
    max_concurrency: int | None = Field(default=None, ge=1, le=64)
    max_batch_texts: int | None = Field(default=None, ge=1, le=2048)
    enabled: bool | None = None


class UpdateProvider(ProviderChanges):
    """Changes of a provider."""

    name: ProviderName


class ProviderSelector(Message):
    """One provider."""

    name: ProviderName


class ProvidersListed(Message):
    """All providers, by name."""

    providers: tuple[ProviderRecord, ...]


class TestProvider(Message):
    """A request for one vector, to see whether a provider answers."""

    __test__ = False  # pytest would take its name for a test

    name: ProviderName
    model: ModelName | None = None
    """The name of any model that it may have; the first that is registered for it if absent."""


class ProviderTested(Message):
    """What came of it."""

    ok: bool
    model: str | None
    dimensions: int | None = None
    took_ms: float
    error: str | None = None
    """Why not, and what to do."""


class Calibration(Message):
    """How cosine and lexical evidence become a `score`: σ(slope · logit(cosine) + lexical · BM25/idf₁ + offset)."""

    slope: float = Field(gt=0, le=1_000)
    lexical: float = Field(ge=0, le=1_000)
    offset: float = Field(ge=-1_000, le=1_000)


class ModelFields(Message):
    """What a model is and how it is asked."""

    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    """Found out by asking the provider when absent."""
    request_dimensions: bool = False
    """Whether `dimensions` is sent along, to models that can shorten their vectors."""
    priority: int = Field(default=100, ge=0, le=10_000)
    """Its place among those that are tried when the default model cannot be had: lower first."""
    enabled: bool = True
    api_path: PlainText | None = Field(default=None, pattern=r"^/[\w./-]*$", max_length=200)
    """Path below the provider's address; the kind's own if absent."""
    max_chars: int | None = Field(default=None, ge=1, le=100_000)
    """What follows in a longer text is not sent; the kind's own limit if absent."""
    query_prefix: Prefix = ""
    document_prefix: Prefix = ""
    runtime: LocalRuntime | None = None
    """Of a local model; told by its name if absent."""
    path: RelativePath | None = None
    """Of a local ONNX model: its directory, relative to the model folder of the embedder."""
    calibration: Calibration | None = None
    """A neutral map, under which the score is the cosine, if absent and none is known for the model."""


class CreateModel(ModelFields):
    """A new model."""

    provider: ProviderName
    name: ModelName
    is_default: bool = False


class ModelRecord(ModelFields):
    """A model as it is kept."""

    id: str
    """32 hex digits."""
    provider: ProviderName
    name: ModelName
    is_default: bool
    fingerprint: str | None
    """Of its vectors; absent until its dimensions are known."""
    version: int
    created_at: datetime
    updated_at: datetime


class ModelChanges(Message):
    """What of a model is to be otherwise. `is_default: true` makes it the default in place of the one that is."""

    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    request_dimensions: bool | None = None
    priority: int | None = Field(default=None, ge=0, le=10_000)
    enabled: bool | None = None
    is_default: bool | None = None
    api_path: PlainText | None = Field(default=None, pattern=r"^(/[\w./-]*)?$", max_length=200)
    max_chars: int | None = Field(default=None, ge=1, le=100_000)
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None
    path: RelativePath | None = None
    calibration: Calibration | None = None


class UpdateModel(ModelChanges):
    """Changes of a model. `is_default: true` makes it the default in place of the one that is."""

    id: str


class ModelSelector(Message):
    """One model, by its id, its name, or `provider/name`."""

    id: str = Field(min_length=1, max_length=300)


class ModelsListed(Message):
    """All models: the default first, then in the order in which they are tried."""

    models: tuple[ModelRecord, ...]


class RegistryEntryDeleted(Message):
    """It is gone."""

    name: str


class DefaultModelChanged(Message):
    """The default model is another one, or makes other vectors than before."""

    id: str
    provider: ProviderName
    name: ModelName
    fingerprint: str
    dimensions: int


_MISSING = (ErrorCode.NOT_FOUND,)
_CLASHES = (ErrorCode.NOT_FOUND, ErrorCode.CONFLICT)

LIST_PROVIDERS: Final = Endpoint(
    service=SERVICE,
    name="list_providers",
    request=Empty,
    reply=ProvidersListed,
    summary="All providers of embedding models.",
)
GET_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="get_provider",
    request=ProviderSelector,
    reply=ProviderRecord,
    summary="One provider.",
    raises=_MISSING,
    example={"name": "local"},
)
CREATE_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="create_provider",
    request=CreateProvider,
    reply=ProviderRecord,
    summary="Add a provider.",
    raises=(ErrorCode.CONFLICT,),
    idempotent=False,
    example={"name": "openai", "kind": "openai", "api_key": "env:OPENAI_API_KEY"},
)
UPDATE_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="update_provider",
    request=UpdateProvider,
    reply=ProviderRecord,
    summary="Change a provider; the next text is embedded by what it is then.",
    raises=_CLASHES,
    example={"name": "local", "enabled": True},
)
DELETE_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="delete_provider",
    request=ProviderSelector,
    reply=RegistryEntryDeleted,
    summary="Remove a provider that has no models.",
    raises=_CLASHES,
    idempotent=False,
    example={"name": "openai"},
)
TEST_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="test_provider",
    request=TestProvider,
    reply=ProviderTested,
    summary="Ask a provider for one vector, past every cache.",
    raises=_MISSING,
    timeout_s=30.0,
    example={"name": "local"},
)
LIST_MODELS: Final = Endpoint(
    service=SERVICE,
    name="list_models",
    request=Empty,
    reply=ModelsListed,
    summary="All embedding models.",
)
GET_MODEL: Final = Endpoint(
    service=SERVICE,
    name="get_model",
    request=ModelSelector,
    reply=ModelRecord,
    summary="One model.",
    raises=_MISSING,
    example={"id": "use-multilingual-v3"},
)
GET_DEFAULT_MODEL: Final = Endpoint(
    service=SERVICE,
    name="get_default_model",
    request=Empty,
    reply=ModelRecord,
    summary="The default model, which is made first when there is none.",
)
CREATE_MODEL: Final = Endpoint(
    service=SERVICE,
    name="create_model",
    request=CreateModel,
    reply=ModelRecord,
    summary="Add a model of a provider.",
    raises=(*_CLASHES, ErrorCode.MODEL_UNAVAILABLE),
    idempotent=False,
    timeout_s=30.0,
    example={"provider": "local", "name": "all-MiniLM-L6-v2"},
)
UPDATE_MODEL: Final = Endpoint(
    service=SERVICE,
    name="update_model",
    request=UpdateModel,
    reply=ModelRecord,
    summary="Change a model, or make it the default; the next text is embedded by what it is then.",
    raises=(*_CLASHES, ErrorCode.MODEL_UNAVAILABLE),
    timeout_s=30.0,
    example={"id": "use-multilingual-v3", "is_default": True},
)
DELETE_MODEL: Final = Endpoint(
    service=SERVICE,
    name="delete_model",
    request=ModelSelector,
    reply=RegistryEntryDeleted,
    summary="Remove a model that is not the default.",
    raises=_CLASHES,
    idempotent=False,
    example={"id": "all-MiniLM-L6-v2"},
)

DEFAULT_MODEL_CHANGED: Final = Event(
    SERVICE, "model", "default_changed", DefaultModelChanged, "Texts are embedded by another model from now on."
)
