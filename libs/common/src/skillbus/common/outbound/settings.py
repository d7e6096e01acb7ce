"""Settings of a service that connects to what callers register."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.common.outbound.addresses import LOOPBACK, AddressRule
from skillbus.common.outbound.secret_grants import SETTING, SecretGrants
from skillbus.common.secrets import Secrets


class OutboundSettings(BaseSettings):
    """Settings that the embedder and the agent share. Each reads them with its own prefix, except `secrets`."""

    # Hides inputs, so that a secret written instead of its name never ends up in an error message.
    model_config = SettingsConfigDict(hide_input_in_errors=True)

    secrets: str = Field(default="", validation_alias=SETTING)
    """Secrets that references may name, and where each may be sent: `NAME=host,host; file:PATH=host`."""
    secrets_folder: Path = Path("/run/secrets")
    """The only folder from which `file:PATH` references are read."""
    private_addresses: str = ""
    """Names, addresses and networks that are not public and may be connected to, separated by commas."""

    @field_validator("secrets")
    @classmethod
    def _are_grants(cls, text: str) -> str:
        SecretGrants.parse(text)
        return text

    @field_validator("private_addresses")
    @classmethod
    def _are_addresses(cls, text: str) -> str:
        AddressRule.parse(text)
        return text

    @property
    def address_rule(self) -> AddressRule:
        """Rule for all connections of the service."""
        return AddressRule.parse(self.private_addresses, f"{self.model_config['env_prefix']}PRIVATE_ADDRESSES")

    def build_secrets(self) -> Secrets:
        """Return what resolves references in this process."""
        return Secrets(SecretGrants.parse(self.secrets), folder=self.secrets_folder)

    def open_loopback(self) -> Self:
        """Allow loopback unless configured otherwise: on one's own machine Ollama and MCP servers listen there."""
        if "private_addresses" in self.model_fields_set:
            return self
        return self.model_copy(update={"private_addresses": LOOPBACK})
