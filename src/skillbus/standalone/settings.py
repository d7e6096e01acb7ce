"""Settings of skillbus in one process, or in a few that share a data directory."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ByteSize, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.common.bus.disk_space import MIB
from skillbus.common.runner import StartError
from skillbus.gateway.adapters.start_checks import CheckedStart
from skillbus.gateway.settings import GatewaySettings
from skillbus.standalone.nats_server import NatsAddress

MAX_WORKERS: Final = 64
"""Each one holds a copy of the vectors, and repeats every write."""
COPIES_FOLDER: Final = "workers"
"""Folder of the data directory for the copies of the vectors, which are made at each start."""


class StandaloneSettings(BaseSettings):
    """Settings from variables `SKILLBUS_*`. Options of the command line override them."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_", frozen=True)

    data: Path = Path("data")
    """Data directory: skills, vectors, databases, NATS."""
    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8080, ge=0, le=65_535)
    """Port of the HTTP API. 0 takes a free one."""
    owner_key: SecretStr | None = None
    """Key of the owner, who may do everything. Default: the gateway's own setting, or else the file `owner.key` of the
    data directory, which the first start makes."""
    disk_max: ByteSize | None = Field(default=None, ge=64 * MIB)
    """Size of the data directory, such as `2GiB`, up to which new data is accepted; without it only the free space of
    the disk counts."""
    workers: int = Field(default=1, ge=1, le=MAX_WORKERS)
    """Processes that answer HTTP and search, one for each core. The first one has all other services too."""
    log_level: str = "INFO"
    no_key: bool = False
    """True serves HTTP without a key: on loopback only, and without commands of MCP servers."""

    def build_gateway_settings(self) -> GatewaySettings:
        """Return the settings of the gateway, including its own variables `SKILLBUS_GATEWAY_*`.

        Raises:
            StartError: A key is set, and `no_key` too.
        """
        settings = GatewaySettings(host=self.http_host, port=self.http_port)
        if self.owner_key is not None:
            settings = settings.model_copy(update={"owner_key": self.owner_key})
        if not self.no_key:
            return settings.model_copy(update={"no_key": False})
        if settings.owner_key is not None or settings.owner_key_file is not None:
            raise StartError("an owner's key is set, and --no-key too: remove one of them")
        return settings.model_copy(update={"no_key": True})


@dataclass(frozen=True, slots=True)
class StandalonePlan:
    """Everything that a process needs to start its services."""

    settings: StandaloneSettings
    gateway: GatewaySettings
    checked: CheckedStart
    nats: NatsAddress = field(repr=False)
