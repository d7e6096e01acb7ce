"""Settings of the retriever."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class RetrieverSettings(BaseSettings):
    """Read from `SKILLBUS_RETRIEVER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_RETRIEVER_", frozen=True)

    candidates: int = Field(default=20, ge=10, le=1000)
    """How many tools each side of the search gives to the ranking, at least; never less than twice the limit.

    On the dev tools 16, 32 and 100 of each side find the same: recall@5 differs by less than 0.0001.
    """
    fits: float = Field(default=0.55, ge=0.0, lt=1.0)
    """Where a request names no threshold, nothing is found when the best tool has a score below this: among 1,500 tools
    or more. Among fewer it needs less, see `domain/fitting.py`."""
    cached_queries: int = Field(default=1024, ge=1)
    """Embedded requests that are remembered, some 8 kB each, and 2 kB a sentence."""
    permits: int = Field(default=256, ge=1)
    """Searches at the same time; more are refused with 429."""
