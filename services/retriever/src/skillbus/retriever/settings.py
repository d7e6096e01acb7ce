"""Settings of the retriever."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class RetrieverSettings(BaseSettings):
    """Read from `SKILLBUS_RETRIEVER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_RETRIEVER_", frozen=True)

    data: Path = Path("data")
    """Holds `tokenizers` unless that says otherwise."""
    tokenizers: Path | None = None
    """The folder of the tokenizers whose tokens contexts can be counted in: each a `<name>.json` in the format of
    Hugging Face."""
    contexts_at_once: int = Field(default=2, ge=1)
    """Contexts that are written at the same time, each in a thread; and as many more with templates of callers, each
    with a process. Others wait."""
    candidates: int = Field(default=20, ge=10, le=1000)
    """How many tools each side of the search gives to the ranking, at least; never less than twice the limit.

    On the dev tools 16, 32 and 100 of each side find the same: recall@5 differs by less than 0.0001.
    """
    fits: float = Field(default=0.55, ge=0.0, lt=1.0)
    """Where a request names no threshold, nothing is found when the best tool has a score below this: among 1,500 tools
    or more. Among fewer it needs less, see `domain/threshold.py`."""
    knowledge_candidates: int = Field(default=20, ge=10, le=1000)
    """As `candidates`, of the knowledge base."""
    knowledge_fits: float = Field(default=0.02, ge=0.0, lt=1.0)
    """As `fits`, for knowledge: among 1,500 items or more."""
    cached_items: int = Field(default=256, ge=1)
    """Items of knowledge that the index lacks, and whose vectors are remembered until it has them: some 10 kB each."""
    waiting_uses: int = Field(default=1024, ge=1)
    """Uses of knowledge that wait to be told to the learner; of more, the oldest are dropped with a warning."""
    gather_uses_s: float = Field(default=1.0, ge=0.0, le=60.0)
    """How long a use waits for others, to be told together with them."""
    cached_queries: int = Field(default=1024, ge=1)
    """Embedded requests that are remembered, some 8 kB each, and 2 kB a sentence."""
    permits: int = Field(default=256, ge=1)
    """Searches of each kind at the same time; more are refused with 429."""

    def tokenizer_folder(self) -> Path:
        """Where tokenizers lie; nothing need be there."""
        return self.tokenizers or self.data / "tokenizers"
