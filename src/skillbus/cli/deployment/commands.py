"""`skillbus init-deploy`."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from skillbus.cli.deployment.secrets_folder import SecretsFolder
from skillbus.cli.output import format_number
from skillbus.cli.session import LocalSession, server_command

DEFAULT_FOLDER: Final = Path("deploy/secrets")
_NATS_HOSTS: Final = ("nats", "localhost", "127.0.0.1")

FolderOption = Annotated[Path, typer.Option("--folder", file_okay=False, help="Folder to write the files into.")]
TlsOption = Annotated[bool, typer.Option("--tls", help="Make certificates for the NATS server too.")]
HostOption = Annotated[
    list[str] | None, typer.Option("--tls-host", help="Another name or address of the NATS server. Repeatable.")
]
RotateOption = Annotated[bool, typer.Option("--rotate", help="Replace every key and certificate that exists.")]


@server_command("skillbus init-deploy")
async def init_deployment(
    session: LocalSession,
    folder: FolderOption = DEFAULT_FOLDER,
    tls: TlsOption = False,
    tls_host: HostOption = None,
    rotate: RotateOption = False,
) -> None:
    """Make the secrets of a Compose deployment: keys of every bus user, of Qdrant and of the gateway.

    Existing files stay as they are, so that it is safe to repeat the command: after an update it adds what is missing.
    With --rotate everything is made new; restart all containers then. No secret is printed.
    """
    made = SecretsFolder(folder, rotate=rotate)
    made.write_all((*_NATS_HOSTS, *(tls_host or ())) if tls or tls_host else ())
    facts: dict[str, object] = {"folder": str(folder), "written": made.written}
    session.output.show_result(facts, lambda: Text(_describe(folder, len(made.written))))


def _describe(folder: Path, count: int) -> str:
    if not count:
        return f"{folder} is complete: nothing was written."
    start = "docker compose up --build --detach --wait --force-recreate"
    return f"Wrote {format_number(count, 'file')} to {folder}, the only copy. Next: {start}"
