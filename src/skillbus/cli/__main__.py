"""The `skillbus` command.

Exit codes: 0 success; 1 failure, with the reason printed; 2 wrong usage; 3 the server cannot be reached. A run
with another status than `ok` exits with 1, also if the skill's own exit code is 0.
"""

import errno
import gc
import io
import os
import sys
from typing import Annotated

import typer

from skillbus.cli.command_tree import LazyGroup, end_at_closed_pipe
from skillbus.cli.errors import EXIT_FAILED

_ABOUT = "Find and run tools for LLM agents: skills, MCP tools, builtin tools and your own."
_EPILOG = "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 server not reachable."


def create_app() -> typer.Typer:
    """Build the command. Its help is plain text: Rich's help takes 0.2 s of CPU."""
    app = typer.Typer(
        name="skillbus",
        cls=LazyGroup,
        help=f"{_ABOUT}\n\n\b\nExample:\n  $ skillbus up\n  $ skillbus search 'commit my changes'",
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_accept_root_options)
    return app


def main() -> None:
    """Run the command line of this process."""
    # Imports make no garbage, and collecting takes a sixth of a command's time. Commands enable it when they begin.
    gc.disable()
    # skillbus has no pydantic plugins, and the search for them takes a tenth of a help page's CPU time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        # A character that the stream's encoding lacks must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if os.environ.get("_SKILLBUS_COMPLETE") == "complete_bash":
            from skillbus.cli.completion import complete_in_bash  # noqa: PLC0415 (only completion needs it)

            complete_in_bash(create_app(), os.environ)
        with end_at_closed_pipe():
            create_app()()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        sys.stderr.write(f"Error: cannot write to standard output: {error.strerror}\n")
        # Python writes the rest of its buffer at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 (slow to import; only --version needs it)

        typer.echo(version("skillbus"))
        raise typer.Exit


def _accept_root_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Accept the options before the name of a command."""


if __name__ == "__main__":
    main()
