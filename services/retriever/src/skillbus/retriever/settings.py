"""Settings of the retriever."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.contracts.agent.chat import AUTO_MODEL


class RetrieverSettings(BaseSettings):
    """Settings from `SKILLBUS_RETRIEVER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_RETRIEVER_", frozen=True)

    data: Path = Path("data")
    """Data folder; `tokenizers` below it is the default folder of tokenizers."""
    tokenizers: Path | None = None
    """Folder of the tokenizers that contexts can be counted with: `<name>.json` files in the format of Hugging Face."""
    contexts_at_once: int = Field(default=2, ge=1)
    """Contexts that are written at the same time, each in a thread. Others wait."""
    candidates: int = Field(default=20, ge=10, le=1000)
    """Tools that each side of the search gives to the ranking, at least; never less than three times the limit.

    On the dev tools 16, 32 and 100 of each side find the same: recall@5 differs by less than 0.0001.
    """
    fits: float = Field(default=0.55, ge=0.0, lt=1.0)
    """Score that the best of 1,500 tools or more must reach where a request names no threshold, or nothing is found.
    Fewer tools need less, see `compute_least_evidence`."""
    knowledge_candidates: int = Field(default=20, ge=10, le=1000)
    """Like `candidates`, for the knowledge base."""
    knowledge_fits: float = Field(default=0.02, ge=0.0, lt=1.0)
    """Like `fits`, for the knowledge base."""
    waiting_uses: int = Field(default=1024, ge=1)
    """Uses of knowledge that wait to be published; of more, the oldest are dropped with a warning."""
    gather_uses_s: float = Field(default=1.0, ge=0.0, le=60.0)
    """Seconds that a use waits for others, to be published together with them."""
    cached_queries: int = Field(default=1024, ge=1)
    """Embedded queries in the cache, some 8 kB each, and 2 kB a sentence."""
    cached_devices: int = Field(default=30_000, ge=1)
    """Devices of the homes in the cache, together; 5 kB each. Five aliases count as one more."""
    parser_model: str = Field(default=AUTO_MODEL, max_length=300)
    """Chat model that reads sentences: `auto`, the default one of the registry, or `provider/name`. Empty means none:
    only the grammar reads, and nothing leaves the service."""
    parser_threshold: float = Field(default=0.75, ge=0.0, le=1.0)
    """Confidence of the grammar below which the parser `auto` asks the chat model."""
    parser_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """Seconds that the chat model may take for one sentence; the grammar's reading is returned then."""
    parser_answers: int = Field(default=1024, ge=1)
    """Answers of the chat model in the cache, some 2 kB each."""
    permits: int = Field(default=256, ge=1)
    """Requests of each kind at the same time; more are refused with 429."""

    def tokenizer_folder(self) -> Path:
        """Return the folder of tokenizers; it need not exist."""
        return self.tokenizers or self.data / "tokenizers"
