"""`python -m skillbus.agent`: the agent alone, against `SKILLBUS_NATS_URL`."""

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.runner import run

if __name__ == "__main__":
    run(lambda bus: open_agent(bus, AgentSettings()), "agent")
