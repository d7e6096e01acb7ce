"""Options that commands on homes share."""

from typing import Annotated

import typer

from skillbus.cli.completion import complete_home

Home = Annotated[
    str | None, typer.Option("--home", metavar="NAME", help="Only of this home.", autocompletion=complete_home)
]
TextIn = Annotated[str | None, typer.Option("--text", help="Only those with this text in id, names or descriptions.")]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of rows.")]

PAGE_SIZE = 1000
