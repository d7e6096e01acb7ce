"""Settings of skillbus in one process."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.gateway.settings import GatewaySettings


class StandaloneSettings(BaseSettings):
    """Read from `SKILLBUS_*`, beneath what the command line says."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_", frozen=True)

    data: Path = Path("data")
    """Everything that is kept lies below it: skills, vectors, NATS."""
    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8080, ge=0, le=65_535)
    """0 takes a free one."""
    owner_key: SecretStr | None = None
    """Asked of every HTTP request when set; without it, the gateway's own setting of it counts, or HTTP stays on
    loopback."""

    def gateway(self) -> GatewaySettings:
        """Settings of the gateway: what is set for it alone holds too, and its key above all."""
        settings = GatewaySettings(host=self.http_host, port=self.http_port)
        return settings if self.owner_key is None else settings.model_copy(update={"owner_key": self.owner_key})
