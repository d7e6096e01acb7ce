"""Parts of all commands: the options --json, --url, --api-key and --project, the connection, and the exit codes.

A command is an async function that takes a `Session` or a `LocalSession` and its options. The decorators
`remote_command` and `server_command` make from it what the command tree needs: a plain function that has the shared
options too, and the text of its `--help` page with its example.
"""

import asyncio
import gc
import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeVar

import typer

from skillbus.cli.command_tree import TRAILING_WORDS, CliCommand
from skillbus.cli.errors import EXIT_FAILED, CliError, ProblemError
from skillbus.cli.output import CommandOutput, clean_line, open_output
from skillbus.cli.server.launcher import Externals
from skillbus.client.local_server import (
    DATA_VARIABLE,
    KEY_VARIABLES,
    URL_VARIABLE,
    find_data_directory,
    find_server,
)

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection
    from skillbus.cli.completion import NameList

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout, and nothing else.")]
_KEY_HELP: Final = "API key of the server. Default: the one that a server on this machine wrote down."
_URL_HELP: Final = "Address of the server. Default: the one on this machine: see --data."
_KEY_OPTION: Final = "--api-key"
_SHORT_KEY_OPTION: Final = "--key"
ProjectOption = Annotated[str | None, typer.Option("--project", help="Project to use. Default: chosen by the server.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar=DATA_VARIABLE,
        file_okay=False,
        help="Data directory of a server on this machine. Default: ./data, or else that of the one started last.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

NameT = TypeVar("NameT", str, int)
ValueT = TypeVar("ValueT")
CommandFunction = Callable[..., Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True)
class Session:
    """Context of a command that asks a server."""

    output: CommandOutput
    connection: "ApiConnection"
    trailing_words: tuple[str, ...] | None
    """The words after `--`; None without a `--`."""
    data: Path
    """Data directory of the server on this machine, whether one runs there or not."""
    names: "tuple[tuple[str, NameList], ...]" = ()
    """Arguments that name things on the server, with the lists of these things."""

    async def add_hint(self, error: ProblemError) -> None:
        """Add names near to one that the server does not know."""
        from skillbus.cli.client.name_hints import add_name_hint  # noqa: PLC0415 (only for a mistake)

        await add_name_hint(self.connection, error, self.names)

    def confirm_removal(self, names: Sequence[str]) -> None:
        """Ask before things are removed. Without a terminal, refuse and name --yes."""
        self.confirm(f"Remove {', '.join(map(clean_line, names))}?")

    def confirm(self, question: str, hint: str = "--yes") -> None:
        """Ask a question and abort unless the answer is yes. Without a terminal, refuse and name the option `hint`."""
        if self.output.as_json or not sys.stdin.isatty():
            raise typer.BadParameter(f"there is no terminal to ask at: add {hint}", param_hint="--yes")
        typer.confirm(question, abort=True, err=True)

    def fail(self, error: CliError) -> NoReturn:
        """Exit with the code of an error after the result is printed. In JSON, the result alone says what failed."""
        if not self.output.as_json:
            self.output.print_error(error)
        raise typer.Exit(error.exit_code)

    async def apply_each(
        self, wanted: Sequence[NameT], act: Callable[[NameT], Awaitable[object]], key: str, outcome: str = "removed"
    ) -> None:
        """Act on things one after the other, also after one fails; then exit with 1.

        In JSON, `key` names each thing, and `outcome` is the result of those that did not fail.
        """
        results: list[dict[str, object]] = []
        for name in wanted:
            shown = clean_line(str(name))
            try:
                await act(name)
            except ProblemError as error:
                await self.add_hint(error)
                results.append({key: name, "outcome": "failed", "error": error.document()})
                if not self.output.as_json:
                    self.output.print_note(f"{shown}: not {outcome}", "red")
                    self.output.print_error(error)
                continue
            results.append({key: name, "outcome": outcome})
            self.output.print_text(f"{shown}: {outcome}")
        if self.output.as_json:
            self.output.show_result({"results": results}, str)
        if any(result["outcome"] == "failed" for result in results):
            raise typer.Exit(EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class LocalSession:
    """Context of a command that starts a server in this process."""

    output: CommandOutput
    externals: Externals


def remote_command(
    example: str,
    *,
    has_project: bool = True,
    url_option: str = "--url",
    key_option: str = _KEY_OPTION,
    trailing_words: str | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Callable[[CommandFunction], CliCommand]:
    """Decorate a command that asks a server.

    Args:
        example: A command line for the help page.
        has_project: False where the data belongs to no project.
        url_option: Name of the server's address, for a command with another `--url`.
        key_option: Name of the server's key, for a command with another `--api-key`.
        trailing_words: See `CliCommand`.
        aliases: See `CliCommand`.
    """

    def decorate(command: CommandFunction) -> CliCommand:
        parameters = inspect.signature(command).parameters

        def run(
            ctx: typer.Context,
            url: str | None = None,
            key: str | None = None,
            data: DataOption = None,
            project: ProjectOption = None,
            as_json: JsonOption = False,
            **own: object,
        ) -> None:
            # httpx takes 0.1 s of CPU to import, half of it for HTTP/2 and its own command line, which are not used.
            with _hide_modules("click", "h2"):
                import_module("httpcore")  # which httpx imports later
                from skillbus.cli.client.connection import Remote, open_connection  # noqa: PLC0415
                from skillbus.cli.client.id_beginnings import complete_ids  # noqa: PLC0415
                from skillbus.cli.completion import find_names  # noqa: PLC0415
                from skillbus.client.connection import check_key, check_url  # noqa: PLC0415

            externals, data = ctx.ensure_object(Externals), data or find_data_directory()
            server = find_server(url, _check(check_key, key, key_option), data)
            remote = Remote(_check(check_url, server.url, url_option), server.key, project)

            async def ask(output: CommandOutput) -> None:
                async with open_connection(remote, externals.transport) as connection:
                    given = await complete_ids(connection, parameters, own)
                    names = tuple(find_names(parameters, given))
                    session = Session(output, connection, ctx.meta.get(TRAILING_WORDS), data, names)
                    await _run_with_hints(command, session, given)

            _run_command(ask, asyncio.run, as_json=as_json)

        url_type = Annotated[str | None, typer.Option(url_option, envvar=URL_VARIABLE, help=_URL_HELP)]
        key_type = Annotated[str | None, typer.Option(key_option, envvar=list(KEY_VARIABLES), help=_KEY_HELP)]
        _add_options(run, command, {"url": url_type, "key": key_type}, left_out=() if has_project else ("project",))
        spellings = {_SHORT_KEY_OPTION: _KEY_OPTION} if key_option == _KEY_OPTION else {}
        return CliCommand(run, _format_help(command, example), trailing_words, {**spellings, **(aliases or {})})

    return decorate


def server_command(example: str) -> Callable[[CommandFunction], CliCommand]:
    """Decorate a command that starts a server. It runs on the event loop of the services. `example` is for its help."""

    def decorate(command: CommandFunction) -> CliCommand:
        def run(ctx: typer.Context, as_json: JsonOption = False, **own: object) -> None:
            from skillbus.common.runner import run_loop  # noqa: PLC0415 (imports uvloop, structlog and prometheus)

            externals = ctx.ensure_object(Externals)
            _run_command(lambda output: command(LocalSession(output, externals), **own), run_loop, as_json=as_json)

        _add_options(run, command, {})
        return CliCommand(run, _format_help(command, example))

    return decorate


async def _run_with_hints(command: CommandFunction, session: Session, own: Mapping[str, object]) -> None:
    try:
        await command(session, **own)
    except ProblemError as error:
        await session.add_hint(error)
        raise


@contextmanager
def _hide_modules(*names: str) -> Iterator[None]:
    """Let imports of optional modules fail, unless the module is imported already."""
    modules: MutableMapping[str, object] = sys.modules  # type: ignore[assignment]  # None makes an import fail
    hidden = [name for name in names if name not in modules]
    modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]


def _check(check: Callable[[ValueT], ValueT], value: ValueT, option: str) -> ValueT:
    try:
        return check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _run_command(
    work: Callable[[CommandOutput], Coroutine[object, object, None]],
    run_loop: Callable[[Coroutine[object, object, None]], None],
    *,
    as_json: bool,
) -> None:
    output = open_output(as_json=as_json)
    # `main` disables collections while modules are imported. None of these modules becomes garbage: a collection that
    # looks at them takes a tenth of a search.
    gc.freeze()
    gc.enable()
    try:
        run_loop(work(output))
    except CliError as error:
        output.print_error(error)
        raise typer.Exit(error.exit_code) from error


def _format_help(command: CommandFunction, example: str) -> str:
    # Lines after \b are not wrapped.
    return f"{inspect.getdoc(command)}\n\n\b\nExample:\n  $ {example}"


def _add_options(
    run: Callable[..., None], command: CommandFunction, types: Mapping[str, object], left_out: Collection[str] = ()
) -> None:
    """Give `run` the signature that Typer reads: the options of `command` first, then the shared ones."""
    own = list(inspect.signature(command).parameters.values())[1:]
    shared = [
        parameter.replace(annotation=types.get(parameter.name, parameter.annotation))
        for parameter in inspect.signature(run).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in left_out
    ]
    parameters = [it.replace(kind=inspect.Parameter.KEYWORD_ONLY) for it in (*own, *shared)]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {it.name: it.annotation for it in parameters}
    run.__name__ = command.__name__
