"""Base class of settings, which operators write: an unknown name is an error."""

from pydantic import BaseModel, ConfigDict


class Thresholds(BaseModel):
    """Thresholds of one kind of files."""

    model_config = ConfigDict(frozen=True, extra="forbid")
