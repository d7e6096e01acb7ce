"""Values of the gateway: API keys and their roles. The gateway answers HTTP and has no requests on the bus."""

from typing import Final

SERVICE: Final = "gateway"
