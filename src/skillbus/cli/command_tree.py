"""All commands: name, module and help line. A command's module is imported only when the command is called.

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

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter  # the types in the signatures of Typer's own methods


TRAILING_WORDS: Final = "skillbus.trailing_words"
"""Key of the words after `--` in Typer's context."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command for the command tree."""

    callback: Callable[..., None]
    help: str
    """Text of the `--help` page: the command's docstring and its example."""
    trailing_words: str | None = None
    """Name of the words after `--` in the usage line; None if the command takes none."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of options that are accepted and not shown."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: where its function is, and its line in the help page of its group."""

    target: str
    """`module:function` below `skillbus.cli`."""
    help: str


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group of commands."""

    help: str
    example: str
    commands: Mapping[str, CommandEntry]
    default: str = ""
    """Command that is meant if the group's name stands alone or with options."""
    default_takes_words: bool = False
    """True if the default command is meant also by a word that is no command of the group."""


Entries = Mapping[str, CommandEntry | GroupEntry]

COMMANDS: Final[Entries] = {
    "up": CommandEntry("server.commands:start_server", "Run every service in one process until SIGINT or SIGTERM."),
    "demo": CommandEntry("demo.commands:run_demo", "Start everything and play through the examples."),
    "init-deploy": CommandEntry(
        "deployment.commands:init_deployment", "Make the keys and certificates of a Compose deployment."
    ),
    "install": CommandEntry("skills.installer:install_skills", "Install skills, or update installed ones."),
    "search": CommandEntry("tools.commands:search_tools", "Find the tools that fit a request."),
    "call": CommandEntry("tools.call_command:call_tool", "Call a tool of any type."),
    "run": CommandEntry("runs.commands:run_skill", "Run a skill in the sandbox."),
    "chat": CommandEntry("chat.commands:chat_with_model", "Chat with a model that finds and calls tools."),
    "audit": GroupEntry(
        "Compare catalogue, indexes and callable tools, or show who did what.",
        "skillbus audit --fix",
        {
            "compare": CommandEntry(
                "server.commands:audit_system", "Compare catalogue, indexes and callable tools: `skillbus audit`."
            ),
            "log": CommandEntry("server.audit_log_commands:list_audit_log", "List administrative acts, newest first."),
        },
        default="compare",
    ),
    "status": CommandEntry("server.commands:show_status", "Show whether every service is ready."),
    "dead-letters": GroupEntry(
        "List, replay and drop events that could not be handled.",
        "skillbus dead-letters list",
        {
            "list": CommandEntry("server.dead_letter_commands:list_dead_letters", "List dead letters, oldest first."),
            "show": CommandEntry("server.dead_letter_commands:show_dead_letter", "Show a dead letter with its event."),
            "replay": CommandEntry("server.dead_letter_commands:replay_dead_letters", "Publish events again."),
            "drop": CommandEntry(
                "server.dead_letter_commands:drop_dead_letters", "Delete dead letters without a replay."
            ),
        },
    ),
    "knowledge": GroupEntry(
        "Write, search and review knowledge items.",
        "skillbus knowledge search 'headers of the live API' --scope '/api/live/*'",
        {
            "list": CommandEntry("knowledge.commands:list_items", "List items, newest change first."),
            "show": CommandEntry("knowledge.commands:show_item", "Show an item, also at an earlier version or time."),
            "add": CommandEntry(
                "knowledge.write_commands:add_item", "Create an item from options or from a Markdown file."
            ),
            "update": CommandEntry(
                "knowledge.write_commands:update_item", "Change an item, which makes a new version."
            ),
            "archive": CommandEntry(
                "knowledge.commands:archive_item", "Archive an item: searches do not find it any more."
            ),
            "restore": CommandEntry(
                "knowledge.commands:restore_item", "Restore an archived item or an earlier version."
            ),
            "history": CommandEntry("knowledge.commands:list_versions", "List the versions of an item, newest first."),
            "diff": CommandEntry(
                "knowledge.commands:compare_versions", "Show the differences between two versions of an item."
            ),
            "proposals": CommandEntry(
                "knowledge.review_commands:list_proposals", "List the learned items that wait for review."
            ),
            "proposal": CommandEntry(
                "knowledge.review_commands:show_proposal", "Show a learned item with its evidence."
            ),
            "review": CommandEntry(
                "knowledge.review_commands:review_items", "Approve, reject, merge, supersede or snooze pending items."
            ),
            "search": CommandEntry("knowledge.search_commands:search_items", "Find the items that fit a query."),
            "context": CommandEntry(
                "knowledge.search_commands:build_context", "Build a context for a model from the hits."
            ),
            "feedback": CommandEntry("knowledge.commands:rate_item", "Record whether an item helped."),
            "usage": CommandEntry("knowledge.commands:show_usage", "Show how an item is used and rated."),
            "stats": CommandEntry(
                "knowledge.commands:show_stats", "Show counts, unused and stale items, and failed queries."
            ),
            "project": CommandEntry("knowledge.commands:manage_parents", "Show or set the parent of the project."),
            "import": CommandEntry("knowledge.importer:import_knowledge", "Import items from files."),
            "export": CommandEntry(
                "knowledge.exporter:export_knowledge", "Save items for `skillbus knowledge import`."
            ),
        },
    ),
    "learn": GroupEntry(
        "Learn from logs, traffic and test runs.",
        "skillbus learn logs/ test-results/ --source payments",
        {
            "files": CommandEntry("learn.commands:learn_files", "Learn from files and folders: `skillbus learn PATH`."),
            "jobs": CommandEntry("learn.commands:list_jobs", "List the jobs, newest first."),
            "show": CommandEntry("learn.commands:show_job", "Show a job with its files and items."),
            "cancel": CommandEntry("learn.commands:cancel_job", "Cancel a job."),
            "sources": CommandEntry("learn.commands:manage_sources", "List or switch sources that are off."),
        },
        default="files",
        default_takes_words=True,
    ),
    "tools": GroupEntry(
        "Manage tools of any type.",
        "skillbus tools list --type mcp",
        {
            "list": CommandEntry("tools.commands:list_tools", "List the tools of the catalogue by id."),
            "show": CommandEntry("tools.commands:show_tool", "Show a tool with its findings and pending changes."),
            "import": CommandEntry("tools.importer:import_tools", "Import descriptions of external tools."),
            "remove": CommandEntry("tools.commands:remove_tools", "Remove tools from the catalogue."),
            "accept": CommandEntry("tools.commands:accept_tool", "Accept a quarantined tool."),
            "enable": CommandEntry("tools.commands:enable_tool", "Enable a disabled tool."),
            "disable": CommandEntry("tools.commands:disable_tool", "Disable a tool: it is neither found nor called."),
            "require-approval": CommandEntry(
                "tools.commands:require_approval", "Let agents call a tool only when a person approves the call."
            ),
        },
    ),
    "skills": GroupEntry(
        "List, show, make, check, import, roll back, pin, disable and remove skills.",
        "skillbus skills show git-commit",
        {
            "list": CommandEntry("skills.commands:list_skills", "List the installed skills."),
            "show": CommandEntry("skills.commands:show_skill", "Show an installed skill."),
            "import": CommandEntry("skills.installer:install_skills", "Import a folder of skills: `skillbus install`."),
            "remove": CommandEntry("skills.commands:remove_skills", "Remove skills with their files and history."),
            "new": CommandEntry("skills.template:create_skill", "Make the folder of a new skill."),
            "check": CommandEntry("skills.commands:check_skill", "Validate a skill without installing it."),
            "history": CommandEntry("skills.commands:list_packages", "List the packages installed under a name."),
            "rollback": CommandEntry("skills.commands:roll_back_skill", "Return to an earlier package of a skill."),
            "pin": CommandEntry("skills.commands:pin_skill", "Keep a skill at its current package."),
            "unpin": CommandEntry("skills.commands:unpin_skill", "Allow updates of a pinned skill again."),
            "enable": CommandEntry("skills.commands:enable_skill", "Enable a disabled skill."),
            "disable": CommandEntry("skills.commands:disable_skill", "Disable a skill: it is neither found nor run."),
            "network": CommandEntry("skills.commands:manage_network", "Show or approve the network places of a skill."),
        },
    ),
    "runs": GroupEntry(
        "List, show and cancel the runs of the last day.",
        "skillbus runs list --skill git-commit --state failed",
        {
            "list": CommandEntry("runs.history:list_runs", "List runs, newest first."),
            "show": CommandEntry("runs.history:show_run", "Show a run, and save its files."),
            "cancel": CommandEntry("runs.history:cancel_run", "End a run."),
        },
    ),
    "mcp": GroupEntry(
        "Add MCP servers and use their tools; be an MCP server.",
        "skillbus mcp add files -- npx -y @modelcontextprotocol/server-filesystem /tmp",
        {
            "add": CommandEntry("tools.mcp_commands:add_server", "Add an MCP server by URL or command."),
            "import": CommandEntry("tools.mcp_importer:import_servers", "Take over the servers of a desktop client."),
            "list": CommandEntry("tools.mcp_commands:list_servers", "List the MCP servers and their state."),
            "show": CommandEntry("tools.mcp_commands:show_server", "Show an MCP server."),
            "refresh": CommandEntry("tools.mcp_commands:refresh_server", "List an MCP server's tools again."),
            "remove": CommandEntry("tools.mcp_commands:remove_server", "Remove an MCP server and its tools."),
            "serve": CommandEntry("tools.mcp_serve:serve_stdio", "Be an MCP server on standard input and output."),
        },
    ),
    "keys": GroupEntry(
        "Make, list and revoke API keys.",
        "skillbus keys create --label 'build server' --role runner --project default --expires 30d",
        {
            "create": CommandEntry("keys.commands:create_key", "Make a key and show it once."),
            "list": CommandEntry("keys.commands:list_keys", "List the keys with their last use."),
            "revoke": CommandEntry("keys.commands:revoke_keys", "Revoke keys: they are refused at once."),
        },
    ),
    "eval": GroupEntry(
        "Measure the quality of search and of log templates on judged data.",
        "skillbus eval tools --corpus tools.jsonl --queries queries.jsonl",
        {
            "tools": CommandEntry("evaluate.commands:evaluate_tools", "Measure how well tools are found."),
            "knowledge": CommandEntry("evaluate.commands:evaluate_knowledge", "Measure how well knowledge is found."),
            "logs": CommandEntry("evaluate.commands:evaluate_logs", "Measure how well log templates are mined."),
            "agent": CommandEntry(
                "evaluate.commands:evaluate_agent", "Measure whether chats are shown the right tools."
            ),
        },
    ),
    "providers": GroupEntry(
        "Manage providers of embedding models and chat models.",
        "skillbus providers add openai --kind openai --api-key env:OPENAI_API_KEY",
        {
            "list": CommandEntry("models.provider_commands:list_providers", "List the providers of models."),
            "add": CommandEntry("models.provider_commands:add_provider", "Add a provider."),
            "update": CommandEntry("models.provider_commands:update_provider", "Change a provider."),
            "remove": CommandEntry("models.provider_commands:remove_provider", "Remove a provider that has no models."),
            "test": CommandEntry("models.provider_commands:try_provider", "Request one vector from a provider."),
        },
    ),
    "models": GroupEntry(
        "Manage embedding models and chat models.",
        "skillbus models add openai gpt-5 --chat",
        {
            "list": CommandEntry("models.commands:list_models", "List the models for embeddings and for chats."),
            "add": CommandEntry("models.commands:add_model", "Add a model of a provider."),
            "update": CommandEntry("models.commands:update_model", "Change a model."),
            "remove": CommandEntry("models.commands:remove_model", "Remove a model that is not the default."),
            "test": CommandEntry("models.commands:try_model", "Make a test call of a model."),
            "default": CommandEntry("models.commands:choose_default", "Show the default model, or choose another one."),
            "calibrate": CommandEntry("models.commands:calibrate_model", "Fit a model's scores to judged data."),
        },
    ),
    "index": GroupEntry(
        "Show and switch the model of each index.",
        "skillbus index switch tools",
        {
            "list": CommandEntry("models.commands:list_indexes", "Show the model of each index and its last switch."),
            "switch": CommandEntry("models.commands:switch_index", "Switch an index to the default model."),
            "rollback": CommandEntry("models.commands:roll_back_index", "Undo the last switch of an index."),
        },
    ),
}


RENAMED: Final[Mapping[str, str]] = {
    "skillbus list": "skillbus skills list",
    "skillbus remove": "skillbus skills remove",
    "skillbus import": "skillbus skills import`, `skillbus tools import` or `skillbus knowledge import",
    "skillbus export": "skillbus knowledge export",
    "skillbus index status": "skillbus index list",
    "skillbus tools call": "skillbus call",
}
"""Commands that had another name, by that name."""


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

    spec: CommandSpec

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the words before `--`."""
        if self.spec.trailing_words is not None and "--" in args:
            at = args.index("--")
            ctx.meta[TRAILING_WORDS] = tuple(args[at + 1 :])
            args = args[:at]
        for alias, option in self.spec.aliases.items():
            args = [option + arg.removeprefix(alias) if arg.partition("=")[0] == alias else arg for arg in args]
        return super().parse_args(ctx, args)

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
