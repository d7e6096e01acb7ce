"""Settings of the agent."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from skillbus.common.outbound.settings import OutboundSettings
from skillbus.contracts.agent.approvals import APPROVAL_S_MAX
from skillbus.contracts.message import DEFAULT_PROJECT, Project
from skillbus.contracts.sandbox.program_runs import CALLS_MAX


class AgentSettings(OutboundSettings):
    """Settings read from `SKILLBUS_AGENT_*`, and `SKILLBUS_SECRETS`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_AGENT_", frozen=True, populate_by_name=True)

    data: Path = Path("data/agent")
    """Data folder. Its subfolder `files` has one folder of files for each project that uses the builtin tools."""
    mcp_file: Path | None = None
    """The operator's file of MCP servers, in the format of `claude_desktop_config.json`. Servers that the agent starts
    as processes come from this file alone. In standalone it is `mcp.json` in the data folder."""
    poll_every_s: float = Field(default=300.0, ge=1.0, allow_inf_nan=False)
    """Interval in which the tools of a server are listed that does not report changes."""
    builtin_projects: tuple[Project, ...] = (DEFAULT_PROJECT,)
    """Projects that get the builtin tools, as a JSON list. Projects with MCP servers always get them."""
    program_calls: int = Field(default=200, ge=0, le=CALLS_MAX)
    """Tool calls that a program of `run_code` may make."""
    program_calls_mib: int = Field(default=64, ge=1, le=1024)
    """Size limit for all requests of a program together, and for all replies together."""
    approval_s: float = Field(default=600.0, gt=0, le=APPROVAL_S_MAX)
    """Longest time that a turn may wait for the approvals of its calls, in all."""
    without_builtins: tuple[str, ...] = ()
    """Names of builtin tools that are switched off, as a JSON list."""

    @field_validator("mcp_file", mode="before")
    @classmethod
    def _parse_mcp_file(cls, given: object) -> object:
        """Read an empty variable as no file."""
        return None if given == "" else given

    def on_ones_own_machine(self, mcp_file: Path) -> Self:
        """Follow this file and allow loopback unless configured otherwise."""
        settings = self.open_loopback()
        if settings.mcp_file is not None:
            return settings
        return settings.model_copy(update={"mcp_file": mcp_file})
