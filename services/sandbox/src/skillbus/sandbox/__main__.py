"""`python -m skillbus.sandbox`: the sandbox alone, against `SKILLBUS_NATS_URL`."""

from skillbus.common.runner import run
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox

if __name__ == "__main__":
    run(lambda bus: open_sandbox(bus, SandboxSettings()), "sandbox")
