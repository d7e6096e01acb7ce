"""`python -m skillbus.embedder`: runs the embedder alone against `SKILLBUS_NATS_URL`."""

from skillbus.common.runner import run
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder

if __name__ == "__main__":
    run(lambda bus: open_embedder(bus, EmbedderSettings()), "embedder")
