"""Settings of the gateway, read from `SKILLBUS_GATEWAY_*`."""

from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

_MIB: Final = 1024 * 1024


class GatewaySettings(BaseSettings):
    """What an operator can choose."""

    # Inputs are hidden so that a key never ends up in an error message.
    model_config = SettingsConfigDict(
        env_prefix="SKILLBUS_GATEWAY_", frozen=True, env_ignore_empty=True, hide_input_in_errors=True
    )

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65_535)
    """0 takes a free one."""
    owner_key: SecretStr | None = None
    """What callers send as `Authorization: Bearer <key>`; needed to listen on anything but loopback."""
    owner_key_file: Path | None = None
    """A file that holds the key, instead of `owner_key`."""
    package_bytes: int = Field(default=20 * _MIB, ge=1)
    """The largest skill package."""
    run_body_bytes: int = Field(default=32 * _MIB, ge=1)
    """The largest body of a run, base64 of its files included."""
    embeddings_body_bytes: int = Field(default=16 * _MIB, ge=1)
    """The largest body of a request for embeddings, which may hold 2048 texts."""
    tools_body_bytes: int = Field(default=64 * _MIB, ge=1)
    """The largest body of descriptions of tools, which is never held as a whole."""
    knowledge_body_bytes: int = Field(default=64 * _MIB, ge=1)
    """The largest body of items of knowledge to import, which is never held as a whole."""
    body_bytes: int = Field(default=_MIB, ge=1)
    """The largest body of every other request."""
    artifact_bytes: int = Field(default=64 * _MIB, ge=1)
    """The largest artifact that can be fetched."""
    upload_patience_s: float = Field(default=20.0, ge=0)
    """How long an upload, or a part of an import, waits for a bus or an indexer that is away."""
    health_timeout_s: float = Field(default=1.0, gt=0)
    """How long each service has to say whether it is ready."""
