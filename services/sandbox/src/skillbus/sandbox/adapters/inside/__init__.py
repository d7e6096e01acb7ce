"""Programs that have the user of the runs and the sandbox's own interpreter. The service reads them as text.

No module of the service imports them, except for type checking.
"""

from importlib.resources import files
from typing import Final

AGENT: Final = ("agent", "agent_python", "agent_sandbox", "agent_run")
"""Modules of the bubblewrap agent, in the order of their dependencies."""


def read_program(file: str) -> str:
    """Return the source text of one file of this folder."""
    return files(__name__).joinpath(file).read_text()


def read_agent_sources() -> dict[str, str]:
    """Return the source text of each module of the bubblewrap agent, by module name."""
    return {name: read_program(f"{name}.py") for name in AGENT}
