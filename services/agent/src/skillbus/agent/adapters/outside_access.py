"""Means that sessions with MCP servers have to reach beyond this process."""

from dataclasses import dataclass

from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.secrets import Secrets


@dataclass(frozen=True, slots=True)
class OutsideAccess:
    """Secrets and addresses, as the settings allow them."""

    secrets: Secrets
    addresses: AddressRule
