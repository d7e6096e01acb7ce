"""The registry of providers and their models, which the embedder keeps in SQL. It belongs to no project.

In an update, an absent field stays as it is, and an empty text clears an optional field.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.embedder import SERVICE
from skillbus.contracts.embedder.provider_address import BaseUrl, SecretReference
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import WITHOUT_NUL, Empty, Message, PlainText


class ProviderKind(StrEnum):
    """Protocol of a provider."""

    OPENAI = "openai"
    """`POST /embeddings` and `POST /chat/completions` of OpenAI, vLLM, LM Studio and others."""
    OLLAMA = "ollama"
    """`POST /api/embed` of Ollama, and OpenAI's protocol below its `/v1` for chats."""
    DASHSCOPE = "dashscope"
    """OpenAI's protocol at Alibaba's address."""
    ANTHROPIC = "anthropic"
    """Messages API of Anthropic. It offers no embeddings."""
    GEMINI = "gemini"
    """OpenAI's protocol at Google's address."""
    LOCAL = "local"
    """Embedding models that run in the embedder's process or in a child process."""


class ModelKind(StrEnum):
    """Task of a model."""

    EMBEDDING = "embedding"
    """Makes vectors of texts. The embedder calls it."""
    CHAT = "chat"
    """Answers chats. The agent calls it."""


class LocalRuntime(StrEnum):
    """Implementation of a local model."""

    USE = "use"
    """`use-multilingual-v3` in numpy, the default."""
    E5 = "e5"
    """`multilingual-e5-small` in C, in a child process."""
    ONNX = "onnx"
    """Folder with `model.onnx` and `tokenizer.json`. Without `path`, the packaged `all-MiniLM-L6-v2`."""
    FASTEMBED = "fastembed"
    """Any model that fastembed knows. It is downloaded from a model hub at first use."""


ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^\S+$"), WITHOUT_NUL]
Prefix = Annotated[str, StringConstraints(max_length=2_000), WITHOUT_NUL]
RelativePath = Annotated[str, StringConstraints(max_length=500), WITHOUT_NUL]


class ProviderFields(Message):
    """Settings of a provider."""

    kind: ProviderKind
    base_url: BaseUrl | None = None
    """Address of the API. Absent means the usual address of the kind; `local` has none."""
    api_key: SecretReference | None = None
    """Reference to the key: `file:PATH`, or `env:NAME` for an environment variable of the embedder, and of the agent
    for chat models. The operator lists in `SKILLBUS_SECRETS` which references there are, and the hosts that each may be
    sent to."""
    timeout_s: float = Field(default=10.0, gt=0, le=300)
    """Timeout of one request to the provider, in seconds."""
    max_concurrency: int | None = Field(default=None, ge=1, le=64)
    """Requests to the provider at the same time. Absent means 4 for texts to embed, and 32 for chats."""
    max_batch_texts: int | None = Field(default=None, ge=1, le=2048)
    """Texts to embed in one request to the provider. Absent means the limit of the kind."""
    enabled: bool = True
    """False skips the provider's models."""


class CreateProvider(ProviderFields):
    """New provider."""

    name: ProviderName


class ProviderRecord(ProviderFields):
    """Registered provider. It may have been registered under older, weaker rules."""

    name: ProviderName
    base_url: Annotated[PlainText, AfterValidator(lambda value: value.rstrip("/"))] | None = None
    api_key: PlainText | None = None
    version: int
    """Number of changes, starting at 1."""
    created_at: datetime
    updated_at: datetime


class ProviderChanges(Message):
    """Changed settings of a provider. The fields mean the same as in `CreateProvider`."""

    base_url: BaseUrl | None = None
    api_key: SecretReference | None = None
    timeout_s: float | None = Field(default=None, gt=0, le=300)
    max_concurrency: int | None = Field(default=None, ge=1, le=64)
    max_batch_texts: int | None = Field(default=None, ge=1, le=2048)
    enabled: bool | None = None


class UpdateProvider(ProviderChanges):
    """Change of a provider. The fields mean the same as in `CreateProvider`.

    A change of `base_url` must give `api_key` again, if the provider has one: the key is not sent to an address that it
    was not given for."""

    name: ProviderName


class ProviderSelector(Message):
    """Name of the wanted provider."""

    name: ProviderName


class ProvidersListed(Message):
    """All providers, ordered by name."""

    providers: tuple[ProviderRecord, ...]


class TestProvider(Message):
    """Test whether a provider replies, by one embedding."""

    __test__ = False  # pytest would take its name for a test

    name: ProviderName
    model: ModelName | None = None
    """Name of any embedding model of the provider. Absent means the first registered one."""


class ProviderTested(Message):
    """Result of a provider test."""

    ok: bool
    """True if the provider returned a vector."""
    model: str | None
    dimensions: int | None = None
    took_ms: float
    error: str | None = None


class Calibration(Message):
    """Map from cosine and lexical evidence to a score: σ(slope · logit(cosine) + lexical · BM25/idf₁ + offset)."""

    slope: float = Field(gt=0, le=1_000)
    lexical: float = Field(ge=0, le=1_000)
    offset: float = Field(ge=-1_000, le=1_000)


class ModelFields(Message):
    """Settings of a model. A chat model has only `priority`, `enabled` and `api_path`."""

    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    """Length of the vectors. Absent means that the provider is asked for one vector to find out."""
    request_dimensions: bool = False
    """True asks the provider for vectors of `dimensions`. For models that can shorten their vectors."""
    priority: int = Field(default=100, ge=0, le=10_000)
    """Order in which models of one kind are tried when the default model is not available; lowest first."""
    enabled: bool = True
    api_path: PlainText | None = Field(default=None, pattern=r"^/[\w./-]*$", max_length=200)
    """Path below the provider's address. Absent means the usual path of the kind."""
    max_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Longest text that is sent, in characters; longer texts are cut. Absent means the limit of the kind."""
    query_prefix: Prefix = ""
    """Text that the model expects before a query."""
    document_prefix: Prefix = ""
    """Text that the model expects before a document."""
    runtime: LocalRuntime | None = None
    """Implementation of a local model. Absent means that the name decides."""
    path: RelativePath | None = None
    """Folder of a local ONNX model, relative to the embedder's model folder."""
    calibration: Calibration | None = None
    """Map from cosines to scores. Absent means the known map of the model, or a neutral one: score equals cosine."""


class CreateModel(ModelFields):
    """New model."""

    provider: ProviderName
    name: ModelName
    kind: ModelKind = ModelKind.EMBEDDING
    """Task of the model, which never changes. `anthropic` offers no embeddings, `local` no chat models."""
    is_default: bool = False
    """True makes it the default model of its kind. The first chat model is the default anyway."""


class ModelRecord(ModelFields):
    """Registered model."""

    id: str
    """32 hexadecimal digits."""
    provider: ProviderName
    name: ModelName
    kind: ModelKind = ModelKind.EMBEDDING
    is_default: bool
    """True for one embedding model, and for one chat model if there is any."""
    fingerprint: str | None
    """Identity of the vectors. Absent until their dimensions are known, and for chat models."""
    version: int
    """Number of changes, starting at 1."""
    created_at: datetime
    updated_at: datetime


class ModelChanges(Message):
    """Changed settings of a model, with the fields of `CreateModel`. `is_default` can only be set to true."""

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
    """Change of a model, with the fields of `CreateModel`. `is_default` can only be set to true."""

    id: str


class ModelSelector(Message):
    """Wanted model: its id, its name, or `provider/name`."""

    id: str = Field(min_length=1, max_length=300)


class ModelsListed(Message):
    """All models, embedding models first: of each kind the default, then the others in the order of being tried."""

    models: tuple[ModelRecord, ...]


class RegistryEntryDeleted(Message):
    """Deleted provider or model."""

    name: str


class DefaultModelChanged(Message):
    """New default embedding model, or new vectors of it."""

    id: str
    provider: ProviderName
    name: ModelName
    fingerprint: str
    dimensions: int


_MISSING = (ErrorCode.NOT_FOUND,)
_CLASHES = (ErrorCode.NOT_FOUND, ErrorCode.CONFLICT)

LIST_PROVIDERS: Final = Endpoint(
    SERVICE, "list_providers", Empty, ProvidersListed, "List all providers of models.", is_read=True
)
GET_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="get_provider",
    request=ProviderSelector,
    reply=ProviderRecord,
    summary="Return one provider.",
    is_read=True,
    raises=_MISSING,
    example={"name": "local"},
)
CREATE_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="create_provider",
    request=CreateProvider,
    reply=ProviderRecord,
    summary="Register a provider.",
    raises=(ErrorCode.CONFLICT,),
    idempotent=False,
    stores_data=True,
    example={"name": "openai", "kind": "openai", "api_key": "env:OPENAI_API_KEY"},
    act=AuditedAct("name", details=("kind",)),
)
UPDATE_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="update_provider",
    request=UpdateProvider,
    reply=ProviderRecord,
    summary="Change a provider. The change applies to the next request to it.",
    raises=_CLASHES,
    stores_data=True,
    example={"name": "local", "enabled": True},
    act=AuditedAct("name", names_fields=True),
)
DELETE_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="delete_provider",
    request=ProviderSelector,
    reply=RegistryEntryDeleted,
    summary="Delete a provider that has no models.",
    raises=_CLASHES,
    idempotent=False,
    example={"name": "openai"},
    act=AuditedAct("name"),
)
TEST_PROVIDER: Final = Endpoint(
    service=SERVICE,
    name="test_provider",
    request=TestProvider,
    reply=ProviderTested,
    summary="Test a provider by asking it for one vector, bypassing every cache.",
    raises=_MISSING,
    timeout_s=30.0,
    example={"name": "local"},
    act=AuditedAct("name", details=("ok",)),
)
LIST_MODELS: Final = Endpoint(
    service=SERVICE,
    name="list_models",
    request=Empty,
    reply=ModelsListed,
    summary="List all models: those that embed texts, and those that answer chats.",
    is_read=True,
)
GET_MODEL: Final = Endpoint(
    service=SERVICE,
    name="get_model",
    request=ModelSelector,
    reply=ModelRecord,
    summary="Return one model.",
    is_read=True,
    raises=_MISSING,
    example={"id": "use-multilingual-v3"},
)
GET_DEFAULT_MODEL: Final = Endpoint(
    service=SERVICE,
    name="get_default_model",
    request=Empty,
    reply=ModelRecord,
    summary="Return the default embedding model. If there is none, it is created first.",
)
CREATE_MODEL: Final = Endpoint(
    service=SERVICE,
    name="create_model",
    request=CreateModel,
    reply=ModelRecord,
    summary="Register an embedding model or a chat model of a provider.",
    raises=(*_CLASHES, ErrorCode.MODEL_UNAVAILABLE),
    idempotent=False,
    stores_data=True,
    timeout_s=30.0,
    example={"provider": "local", "name": "all-MiniLM-L6-v2"},
    act=AuditedAct("name", details=("provider", "kind", "is_default")),
)
UPDATE_MODEL: Final = Endpoint(
    service=SERVICE,
    name="update_model",
    request=UpdateModel,
    reply=ModelRecord,
    summary="Change a model, or make it the default of its kind. The change applies to the next use of it.",
    raises=(*_CLASHES, ErrorCode.MODEL_UNAVAILABLE),
    stores_data=True,
    timeout_s=30.0,
    example={"id": "use-multilingual-v3", "is_default": True},
    act=AuditedAct("id", made="name", details=("is_default",), names_fields=True),
)
DELETE_MODEL: Final = Endpoint(
    service=SERVICE,
    name="delete_model",
    request=ModelSelector,
    reply=RegistryEntryDeleted,
    summary="Delete a model that is not the default. The last chat model can be deleted, too.",
    raises=_CLASHES,
    idempotent=False,
    example={"id": "all-MiniLM-L6-v2"},
    act=AuditedAct("id", made="name"),
)
DEFAULT_MODEL_CHANGED: Final = Event(
    SERVICE,
    "model",
    "default_changed",
    DefaultModelChanged,
    "Another model, or a changed one, embeds texts from now on.",
)
