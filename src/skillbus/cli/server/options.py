"""Options of the commands that are a server."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

HostOption = Annotated[str, typer.Option("--host", envvar="SKILLBUS_HTTP_HOST", help="Address to listen on.")]
LogOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar="SKILLBUS_LOG_LEVEL", case_sensitive=False, help="What to log to stderr."),
]

DEFAULT_DATA: Final = Path("data")
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8080
