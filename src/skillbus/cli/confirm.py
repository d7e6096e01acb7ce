"""The question before something is removed."""

import sys
from collections.abc import Sequence

import typer


def confirm_removal(names: Sequence[str], *, as_json: bool) -> None:
    """Ask; where nobody can answer, that is wrong usage."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask: say --yes", param_hint="--yes")
    typer.confirm(f"Remove {', '.join(names)}?", abort=True, err=True)
