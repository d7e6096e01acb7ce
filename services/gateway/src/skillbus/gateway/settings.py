"""Settings of the gateway, from `SKILLBUS_GATEWAY_*`."""

from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

_MIB: Final = 1024 * 1024


class GatewaySettings(BaseSettings):
    """Settings of the gateway."""

    # Hides inputs, so that a key never ends up in an error message.
    model_config = SettingsConfigDict(
        env_prefix="SKILLBUS_GATEWAY_", frozen=True, env_ignore_empty=True, hide_input_in_errors=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8080, ge=0, le=65_535)
    """Port to listen on. 0 means a free port."""
    owner_key: SecretStr | None = None
    """Key of the owner, who may do everything. Callers send it as `Authorization: Bearer <key>`."""
    owner_key_file: Path | None = None
    """File that holds the key, instead of `owner_key`."""
    no_key: bool = False
    """True serves requests without a key, on loopback only. Without it and without a key the gateway does not start."""
    tls_certificate: Path | None = None
    """File with the certificate chain, as PEM. With it and `tls_private_key` the gateway serves HTTPS only."""
    tls_private_key: Path | None = None
    """File with the private key of the certificate, as PEM, without a password."""
    tls_in_front: bool = False
    """True says that TLS ends in front of the gateway, for example at a proxy. Needed to serve HTTP beyond loopback."""
    requests_per_minute: int = Field(default=6_000, ge=1)
    """Most requests of each API key in a minute, in each replica. The owner's key has no limit."""
    runs_at_once: int = Field(default=64, ge=1)
    """Most runs of each API key at the same time, in each replica."""
    suggestions_per_hour: int = Field(default=60, ge=1)
    """Most knowledge items that each API key may suggest in an hour, in each replica."""
    package_bytes: int = Field(default=20 * _MIB, ge=1)
    """Largest skill package."""
    run_body_bytes: int = Field(default=32 * _MIB, ge=1)
    """Largest body of a run or a call, including its files in base64."""
    embeddings_body_bytes: int = Field(default=16 * _MIB, ge=1)
    """Largest body of a request for embeddings, which may have 2048 texts."""
    tools_body_bytes: int = Field(default=64 * _MIB, ge=1)
    """Largest body of an import of tools, devices or commands, which is never held in memory as a whole."""
    knowledge_body_bytes: int = Field(default=64 * _MIB, ge=1)
    """Largest body of a knowledge import, which is never held in memory as a whole."""
    learning_body_bytes: int = Field(default=4096 * _MIB, ge=1)
    """Largest body of files to learn from, which is never held in memory as a whole."""
    body_bytes: int = Field(default=_MIB, ge=1)
    """Largest body of every other request."""
    artifact_bytes: int = Field(default=64 * _MIB, ge=1)
    """Largest artifact that can be fetched."""
    upload_patience_s: float = Field(default=20.0, ge=0)
    """Time for which an upload, or a batch of an import, is retried while the bus or a service is away."""
    health_timeout_s: float = Field(default=1.0, gt=0)
    """Timeout of the health check of each service."""
