"""What commands share: the options `--json --url --key --project`, the client, and how errors become exit codes.

A command is an async function of a `Session` or a `ServerSession` and of its own options. `remote` and `local` make
of it what Typer wants: a plain function that has the shared options too. What is slow to import is imported when a
command runs, so that `skillbus --help` need not wait for it.
"""

import asyncio
import inspect
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from skillbus.cli.errors import CliError
from skillbus.cli.output import Output, open_output
from skillbus.cli.server.launcher import Outside

if TYPE_CHECKING:
    from skillbus.cli.client.knowledge import KnowledgeClient
    from skillbus.cli.client.models import ModelsClient
    from skillbus.cli.client.runs import RunsClient
    from skillbus.cli.client.skills import Client
    from skillbus.cli.client.tools import ToolsClient

ARGV: Final = "skillbus.argv"
"""Where the words after `--` are kept in Typer's context."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout, and nothing else.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", envvar=["SKILLBUS_KEY", "SKILLBUS_OWNER_KEY"], help="API key; the first that is set."),
]
ProjectOption = Annotated[
    str | None, typer.Option("--project", help="Whose skills, tools and knowledge; the server decides if absent.")
]

DEFAULT_URL: Final = "http://127.0.0.1:8080"

ValueT = TypeVar("ValueT")
Command = Callable[..., Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True)
class Session:
    """For a command that asks a server."""

    output: Output
    client: "Client"
    argv: tuple[str, ...] | None
    """The words after `--`; absent when there was no `--`."""

    @property
    def models(self) -> "ModelsClient":
        """The client of providers, models and indexes, over the same connection."""
        from skillbus.cli.client.models import ModelsClient  # noqa: PLC0415 (slow)

        return ModelsClient(self.client.http)

    @property
    def tools(self) -> "ToolsClient":
        """The client of the catalogue of tools, MCP servers and the audit, over the same connection."""
        from skillbus.cli.client.tools import ToolsClient  # noqa: PLC0415 (slow)

        return ToolsClient(self.client.http, self.client.project)

    @property
    def knowledge(self) -> "KnowledgeClient":
        """The client of the knowledge base, over the same connection."""
        from skillbus.cli.client.knowledge import KnowledgeClient  # noqa: PLC0415 (slow)

        return KnowledgeClient(self.client.http, self.client.project)

    @property
    def runs(self) -> "RunsClient":
        """The client of runs, over the same connection."""
        from skillbus.cli.client.runs import RunsClient  # noqa: PLC0415 (slow)

        return RunsClient(self.client)


@dataclass(frozen=True, slots=True)
class ServerSession:
    """For a command that is a server."""

    output: Output
    outside: Outside


def remote(command: Command, *, of_project: bool = True, url_option: str = "--url") -> Callable[..., None]:
    """A command that asks a server; `of_project` if what it asks about belongs to one.

    `url_option` is what the server's address is called where `--url` is the command's own.
    """

    def run(
        ctx: typer.Context,
        url: str = DEFAULT_URL,
        key: KeyOption = None,
        project: ProjectOption = None,
        as_json: JsonOption = False,
        **own: object,
    ) -> None:
        from skillbus.cli.client.skills import Remote, checked_key, checked_url, open_client  # noqa: PLC0415 (slow)

        outside = ctx.ensure_object(Outside)
        where = Remote(_checked(checked_url, url, url_option), _checked(checked_key, key, "--key"), project)

        async def ask(output: Output) -> None:
            async with open_client(where, outside.transport) as client:
                await command(Session(output, client, ctx.meta.get(ARGV)), **own)

        _perform(ask, asyncio.run, as_json=as_json)

    run.__annotations__["url"] = Annotated[
        str, typer.Option(url_option, envvar="SKILLBUS_URL", help="Where the skillbus server is.")
    ]
    return _with_options_of(command, run, without=() if of_project else ("project",))


def _checked(check: Callable[[ValueT], ValueT], value: ValueT, option: str) -> ValueT:
    try:
        return check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def local(command: Command) -> Callable[..., None]:
    """A command that is a server, on the event loop of the services."""

    def run(ctx: typer.Context, as_json: JsonOption = False, **own: object) -> None:
        from skillbus.common.runner import run_loop  # noqa: PLC0415 (slow)

        outside = ctx.ensure_object(Outside)

        async def serve(output: Output) -> None:
            await command(ServerSession(output, outside), **own)

        _perform(serve, run_loop, as_json=as_json)

    return _with_options_of(command, run)


def _perform(
    work: Callable[[Output], Coroutine[object, object, None]],
    run_loop: Callable[[Coroutine[object, object, None]], None],
    *,
    as_json: bool,
) -> None:
    output = open_output(as_json=as_json)
    try:
        run_loop(work(output))
    except CliError as error:
        output.fail(error)
        raise typer.Exit(error.exit_code) from error


def _with_options_of(command: Command, run: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    """`run` with the name, the help and the options of `command` before its own, for Typer to read."""
    own = list(inspect.signature(command).parameters.values())[1:]
    all_shared = inspect.signature(run).parameters.values()
    shared = [it for it in all_shared if it.kind is not it.VAR_KEYWORD and it.name not in without]
    parameters = [it.replace(kind=inspect.Parameter.KEYWORD_ONLY) for it in (*own, *shared)]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {it.name: it.annotation for it in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
