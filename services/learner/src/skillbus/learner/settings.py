"""Settings of the learner."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.learning.job import ExtractionSettings


class LearnerSettings(BaseSettings):
    """Settings from the environment variables `SKILLBUS_LEARNER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_LEARNER_", frozen=True)

    data: Path = Path("data")
    """Folder of `knowledge.db`, which is used unless `database_url` is set."""
    database_url: Annotated[SecretStr | None, BeforeValidator(lambda value: value or None)] = None
    """Database of the knowledge base: `sqlite:///path` or `postgresql://user:password@host/name`."""
    wait_indexed_s: float = Field(default=2.0, ge=0, le=30)
    """Time in seconds that the reply to a write waits for the index."""
    keep_usage_days: int = Field(default=180, ge=1, le=3_650)
    """Days that searches and contexts are kept for statistics. Feedback is kept."""

    learning_jobs_at_once: int = Field(default=1, ge=0, le=16)
    """Jobs of learning that one replica runs at the same time. 0 leaves them to other replicas."""
    learning_memory_mib: int = Field(default=1_024, ge=128)
    """Memory in MiB that reading the files of one job may take."""
    learning_cpu_s: int = Field(default=3_600, ge=1)
    """CPU time in seconds that reading the files of one job may take."""
    learning_lease_s: float = Field(default=30.0, ge=1, le=600)
    """Time in seconds after which the job of a killed replica is begun again."""

    learning_thresholds: ExtractionSettings = ExtractionSettings()
    """Thresholds of logs, traffic and test runs, as JSON: `{"logs": {"min_warnings": 3}, "max_items": 50}`."""
    learning_model: str = ""
    """Chat model that reads the redacted digest of each job: `auto`, the default one of the registry, or
    `provider/name`. Empty means none: only the rules learn, and nothing leaves the service."""
    learning_model_timeout_s: float = Field(default=120.0, ge=1, le=600)
    """Time in seconds that one request to the chat model may take."""
    learning_digest_tokens: int = Field(default=6_000, ge=500, le=100_000)
    """Most tokens of a digest, estimated as UTF-8 bytes / 3."""
    learning_budget_tokens: int = Field(default=30_000, ge=1)
    """Tokens of one job after which the chat model is not asked again."""

    def record_url(self) -> str:
        """Return the URL of the database, with its password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data.absolute() / 'knowledge.db'}"
