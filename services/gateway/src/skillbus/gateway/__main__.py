"""`python -m skillbus.gateway`: run the gateway as a separate process."""

from skillbus.common.runner import run
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import open_gateway


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    run(lambda bus: open_gateway(bus, GatewaySettings()), "gateway")


if __name__ == "__main__":
    main()
