"""The `skillbus` command.

Exit codes: 0 it worked; 1 it failed, and what is printed says why; 2 it was called wrongly; 3 the server cannot be
reached. A run whose status is not `ok` is 1, whatever the skill's own exit code was.
"""

import io
import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from skillbus.cli.demo.commands import demo
from skillbus.cli.evaluate import commands as evaluate
from skillbus.cli.knowledge import commands as knowledge
from skillbus.cli.knowledge import search_commands as knowledge_search
from skillbus.cli.knowledge import write_commands as knowledge_edit
from skillbus.cli.knowledge.exporter import export_knowledge
from skillbus.cli.knowledge.importer import import_knowledge
from skillbus.cli.mcp import commands as mcp
from skillbus.cli.models import commands as models
from skillbus.cli.models import indexes as index
from skillbus.cli.models import providers
from skillbus.cli.models.calibrate import calibrate
from skillbus.cli.runs.commands import runs
from skillbus.cli.runs.run import WithArgv, run
from skillbus.cli.server.audit import audit
from skillbus.cli.server.status import status
from skillbus.cli.server.up import up
from skillbus.cli.session import Command, local, remote
from skillbus.cli.skills import commands as skills
from skillbus.cli.skills.catalogue import list_skills, remove
from skillbus.cli.skills.install import install
from skillbus.cli.tools import commands as tools
from skillbus.cli.tools.importer import import_tools
from skillbus.cli.tools.search import search

_PROVIDERS: Final[Mapping[str, Command]] = {
    "list": providers.list_providers,
    "add": providers.add,
    "update": providers.update,
    "remove": providers.remove,
    "test": providers.try_out,
}
_MODELS: Final[Mapping[str, Command]] = {
    "list": models.list_models,
    "add": models.add,
    "update": models.update,
    "remove": models.remove,
    "default": models.default,
    "calibrate": calibrate,
}
_TOOLS: Final[Mapping[str, Command]] = {
    "list": tools.list_tools,
    "show": tools.show,
    "remove": tools.remove,
    "accept": tools.accept,
    "enable": tools.enable,
    "disable": tools.disable,
    "call": tools.call,
}
_SKILLS: Final[Mapping[str, Command]] = {
    "check": skills.check,
    "history": skills.history,
    "rollback": skills.rollback,
    "pin": skills.pin,
    "unpin": skills.unpin,
    "enable": skills.enable,
    "disable": skills.disable,
    "network": skills.network,
}
_MCP: Final[Mapping[str, Command]] = {
    "list": mcp.list_servers,
    "show": mcp.show,
    "refresh": mcp.refresh,
    "remove": mcp.remove,
}
_INDEX: Final[Mapping[str, Command]] = {"status": index.status, "switch": index.switch, "rollback": index.rollback}
_KNOWLEDGE: Final[Mapping[str, Command]] = {
    "list": knowledge.list_items,
    "show": knowledge.show,
    "add": knowledge_edit.add,
    "update": knowledge_edit.update,
    "archive": knowledge.archive,
    "restore": knowledge.restore,
    "history": knowledge.history,
    "diff": knowledge.diff,
    "review": knowledge.review,
    "search": knowledge_search.search,
    "context": knowledge_search.context,
    "feedback": knowledge.feedback,
    "usage": knowledge.usage,
    "stats": knowledge.stats,
    "project": knowledge.project,
}
_IMPORTS: Final[Mapping[str, Command]] = {"tools": import_tools, "knowledge": import_knowledge}
_EXPORTS: Final[Mapping[str, Command]] = {"knowledge": export_knowledge}
_EPILOG = "Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly, 3 the server cannot be reached."


def create_app() -> typer.Typer:
    """The command with its subcommands. Help is plain text: Rich's costs 0.2 s of CPU."""
    app = typer.Typer(
        name="skillbus",
        help="Finds and runs tools for LLM agents: skills, those of MCP servers, builtin ones, and your own.",
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    app.command("up")(local(up))
    app.command("demo")(local(demo))
    app.command("install")(remote(install))
    app.command("search")(remote(search))
    app.command("run", cls=WithArgv)(remote(run))
    app.command("runs")(remote(runs))
    app.command("list")(remote(list_skills))
    app.command("remove")(remote(remove))
    app.command("audit")(remote(audit))
    app.command("status")(remote(status))
    app.add_typer(_group("Tools that others describe, and knowledge.", _IMPORTS, of_project=True), name="import")
    app.add_typer(_group("Knowledge, to be kept elsewhere.", _EXPORTS, of_project=True), name="export")
    app.add_typer(
        _group("What there is to know: found by meaning and scope.", _KNOWLEDGE, of_project=True), name="knowledge"
    )
    app.add_typer(_group("Tools of any kind.", _TOOLS, of_project=True), name="tools")
    app.add_typer(_group("The life of an installed skill.", _SKILLS, of_project=True), name="skills")
    servers = _group("MCP servers, whose tools are found and called as any.", _MCP, of_project=True)
    servers.command("add", cls=mcp.WithCommand)(remote(mcp.add, url_option="--server"))
    app.add_typer(servers, name="mcp")
    app.add_typer(evaluate.commands(), name="eval")
    app.add_typer(_group("Providers of embedding models.", _PROVIDERS), name="providers")
    app.add_typer(_group("Embedding models.", _MODELS), name="models")
    app.add_typer(_group("What is searched, and its change to another model.", _INDEX), name="index")
    return app


def _group(about: str, commands: Mapping[str, Command], *, of_project: bool = False) -> typer.Typer:
    group = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)
    for name, command in commands.items():
        group.command(name)(remote(command, of_project=of_project))
    return group


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # What an encoding other than UTF-8 cannot write must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    create_app()()


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 (slow)

        typer.echo(version("skillbus"))
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Finds and runs tools for LLM agents: skills, those of MCP servers, builtin ones, and your own."""


if __name__ == "__main__":
    main()
