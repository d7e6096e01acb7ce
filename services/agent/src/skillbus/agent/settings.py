"""Settings of the agent."""

from pathlib import Path
from typing import Self

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.contracts.message import DEFAULT_PROJECT, Project


class AgentSettings(BaseSettings):
    """Read from `SKILLBUS_AGENT_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_AGENT_", frozen=True)

    data: Path = Path("data/agent")
    """Holds `files`, where the builtin tools read and write files, one folder a project."""
    stdio_servers: bool = False
    """Whether MCP servers may be registered that the agent starts as processes of its own."""
    poll_every_s: float = Field(default=300.0, ge=1.0, allow_inf_nan=False)
    """How often the tools of a server are listed that does not say that they changed."""
    secrets_folder: Path = Path("/run/secrets")
    """The only folder below which a `file:PATH` of a header or variable may lie."""
    builtin_projects: tuple[Project, ...] = (DEFAULT_PROJECT,)
    """Projects in whose catalogue the builtin tools are, beside those that have MCP servers; as a JSON list."""
    without_builtins: tuple[str, ...] = ()
    """Names of builtin tools that are not offered, as a JSON list."""

    def on_ones_own_machine(self) -> Self:
        """The same where whoever registers a server can start it as well without us, unless it is set otherwise."""
        if "stdio_servers" in self.model_fields_set:
            return self
        return self.model_copy(update={"stdio_servers": True})
