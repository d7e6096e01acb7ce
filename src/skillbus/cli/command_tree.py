"""Commands of Typer, made from the table when they are called.

`skillbus --help` therefore costs what Typer costs, and a command module can import all it needs.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import CompletionItem, TyperCommand, TyperGroup  # type: ignore[attr-defined]  # its public module
from typer.main import get_command

from skillbus.cli.command_table import COMMANDS, RENAMED, CommandEntry, Entries, GroupEntry

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter  # the types in the signatures of Typer's own methods


TRAILING_WORDS: Final = "skillbus.trailing_words"
"""Key of the words after `--` in Typer's context."""


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A command for the command tree."""

    callback: Callable[..., None]
    help: str
    """Text of the `--help` page: the command's docstring and its example."""
    trailing_words: str | None = None
    """Name of the words after `--` in the usage line; None if the command takes none."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of options that are accepted and not shown."""


def _explain_unknown(group: str, word: str) -> str:
    """Return the message on a word that is no command of a group."""
    words = f"{group} {word}"
    if words in RENAMED:
        return f"`{words}` is `{RENAMED[words]}` now."
    from skillbus.cli.near_names import find_near_names, format_question  # noqa: PLC0415 (only for a mistake)

    # The commands of all groups, since a verb may have been looked for in another one; those of this group first.
    near = find_near_names(word, sorted(_list_paths(COMMANDS), key=lambda path: not path.startswith(group)))
    return " ".join((f"No such command {word!r}.", *([format_question(near)] if near else [])))


def _list_paths(entries: Entries) -> list[str]:
    """Return all commands below these as they are typed."""
    groups = [(name, entry.commands) for name, entry in entries.items() if isinstance(entry, GroupEntry)]
    words = [*entries, *(f"{group} {name}" for group, commands in groups for name in commands)]
    return [f"skillbus {path}" for path in words]


@contextmanager
def end_at_closed_pipe() -> Iterator[None]:
    """End this process as others end when nobody reads their output any more: by SIGPIPE, without a word.

    Typer would exit with 1, which says that a command failed.
    """
    try:
        yield
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)


class LazyGroup(TyperGroup):
    """Group that lists its entries without importing them, and imports a command when it is called."""

    entries: Entries = COMMANDS
    default = ""
    default_takes_words = False

    @end_at_closed_pipe()
    def make_context(
        self, info_name: str | None, args: list[str], parent: "Context | None" = None, **extra: Any
    ) -> "Context":
        """Parse the words. A help page is printed meanwhile."""
        return super().make_context(info_name, args, parent, **extra)

    @end_at_closed_pipe()
    def invoke(self, ctx: "Context") -> object:
        """Run the command."""
        return super().invoke(ctx)

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Put the name of the default command before options, and in place of nothing."""
        if self.default and (not args or (args[0] != "--help" and self.is_for_default(args[0]))):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def is_for_default(self, word: str) -> bool:
        """Return True if the first word belongs to the default command."""
        return word.startswith("-") or (self.default_takes_words and word not in self.entries)

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the names of the commands in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Return a command, imported at its first use."""
        entry = self.entries.get(cmd_name)
        if cmd_name not in self.commands and entry is not None:
            self.commands[cmd_name] = load_command(cmd_name, entry)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: "Context", args: list[str]) -> tuple[str | None, "Command | None", list[str]]:
        """Return the command that the words name. Others are refused with the new name, or with near ones."""
        if args[0] not in self.entries and not args[0].startswith("-"):
            ctx.fail(_explain_unknown(ctx.command_path, args[0]))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: "Context", incomplete: str) -> list[CompletionItem]:
        """Return the entries and options that begin with the text."""
        names = [name for name in self.entries if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.entries[name].help) for name in names]
        return [*found, *super(TyperGroup, self).shell_complete(ctx, incomplete)]

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the table of commands from their help lines."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])


class LazyCommand(TyperCommand):
    """Command that keeps the words after `--` apart and knows other spellings of its options."""

    spec: CliCommand

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the words before `--`."""
        if self.spec.trailing_words is not None and "--" in args:
            at = args.index("--")
            ctx.meta[TRAILING_WORDS] = tuple(args[at + 1 :])
            args = args[:at]
        for alias, option in self.spec.aliases.items():
            args = [option + arg.removeprefix(alias) if arg.partition("=")[0] == alias else arg for arg in args]
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # Typer passes on what pydantic says about values.
            message = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
            error.message = message.replace("Input should be", "must be", 1)
            raise

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        """Return the pieces of the usage line."""
        pieces = super().collect_usage_pieces(ctx)
        return pieces if self.spec.trailing_words is None else [*pieces, f"[-- {self.spec.trailing_words}]"]


def load_command(name: str, entry: CommandEntry | GroupEntry) -> "Command":
    """Import a command, or build a group, which imports its commands later."""
    if isinstance(entry, GroupEntry):
        help_page = f"{entry.help}\n\n\b\nExample:\n  $ {entry.example}"
        group = LazyGroup(name=name, help=help_page, no_args_is_help=True, rich_markup_mode=None)
        group.entries, group.default = entry.commands, entry.default
        group.default_takes_words = entry.default_takes_words
        return group
    module, _, function = entry.target.partition(":")
    spec = getattr(import_module(f"skillbus.cli.{module}"), function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=LazyCommand, help=spec.help)(spec.callback)
    command = get_command(app)
    if not isinstance(command, LazyCommand):
        raise TypeError(f"Typer built {type(command)} for {name}")
    command.spec = spec
    return command
