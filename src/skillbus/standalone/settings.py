"""Settings of the one-process server."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.gateway.settings import GatewaySettings


class StandaloneSettings(BaseSettings):
    """Settings from variables `SKILLBUS_*`. Options of the command line override them."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_", frozen=True)

    data: Path = Path("data")
    """Data directory: skills, vectors, databases, NATS."""
    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8080, ge=0, le=65_535)
    """Port of the HTTP API. 0 takes a free one."""
    owner_key: SecretStr | None = None
    """Key that every HTTP request must carry. Default: the gateway's own setting; without either, HTTP is served on
    loopback only."""

    def build_gateway_settings(self) -> GatewaySettings:
        """Return the settings of the gateway, including its own variables `SKILLBUS_GATEWAY_*`."""
        settings = GatewaySettings(host=self.http_host, port=self.http_port)
        return settings if self.owner_key is None else settings.model_copy(update={"owner_key": self.owner_key})
