"""`skillbus open`, and the address that it opens."""

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from skillbus.cli.session import Session, remote_command
from skillbus.contracts.gateway.sessions import LoginLink, LoginLinkBody

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

Print = Annotated[bool, typer.Option("--print", help="Print the link instead of opening it.")]
Page = Annotated[str, typer.Option("--page", metavar="PATH", help="Page to open, such as /knowledge.")]


@remote_command("skillbus open --print")
async def open_pages(session: Session, page: Page = "/", only_print: Print = False) -> None:
    """Open the pages in a browser, logged in with the rights of your key.

    The link works once, within an hour. Without a browser on this machine it is printed.
    """
    address = await make_login_address(session.connection, page)
    opened = not only_print and not session.output.as_json and webbrowser.open(address)
    session.output.show_result({"url": address}, lambda: Text("Opened in the browser." if opened else address))


async def make_login_address(connection: "ApiConnection", page: str = "/") -> str:
    """Return an address that logs a browser in, once, and leads to a page."""
    body = LoginLinkBody(next=page).model_dump()
    link = await connection.request(LoginLink, "POST", "/api/session/links", json=body)
    return connection.client.url.rstrip("/") + link.path
