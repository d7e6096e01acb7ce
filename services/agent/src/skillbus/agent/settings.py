"""Settings of the agent."""

from pathlib import Path
from typing import Self

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from skillbus.common.outbound.settings import OutboundSettings
from skillbus.contracts.message import DEFAULT_PROJECT, Project


class AgentSettings(OutboundSettings):
    """Settings read from `SKILLBUS_AGENT_*`, and `SKILLBUS_SECRETS`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_AGENT_", frozen=True, populate_by_name=True)

    data: Path = Path("data/agent")
    """Data folder. Its subfolder `files` has one folder of files for each project that uses the builtin tools."""
    stdio_servers: bool = False
    """Allow registration of MCP servers that the agent starts as processes."""
    poll_every_s: float = Field(default=300.0, ge=1.0, allow_inf_nan=False)
    """Interval in which the tools of a server are listed that does not report changes."""
    builtin_projects: tuple[Project, ...] = (DEFAULT_PROJECT,)
    """Projects that get the builtin tools, as a JSON list. Projects with MCP servers always get them."""
    without_builtins: tuple[str, ...] = ()
    """Names of builtin tools that are switched off, as a JSON list."""

    def on_ones_own_machine(self) -> Self:
        """Allow stdio servers and loopback unless configured otherwise: its users can run commands here anyway."""
        settings = self.open_loopback()
        if "stdio_servers" in self.model_fields_set:
            return settings
        return settings.model_copy(update={"stdio_servers": True})
