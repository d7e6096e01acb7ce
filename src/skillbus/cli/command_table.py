"""Table of all commands: name, module and help line.

A command's module is imported only when the command is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


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
    "open": CommandEntry("server.open_command:open_pages", "Open the pages in a browser, logged in."),
    "demo": CommandEntry("demo.commands:run_demo", "Start everything and play through the examples."),
    "init-deploy": CommandEntry(
        "deployment.commands:init_deployment", "Make the keys and certificates of a Compose deployment."
    ),
    "install": CommandEntry("skills.installer:install_skills", "Install skills, or update installed ones."),
    "search": CommandEntry("tools.commands:search_tools", "Find the tools that fit a request."),
    "call": CommandEntry("tools.call_command:call_tool", "Call a tool of any type."),
    "run": CommandEntry("runs.commands:run_skill", "Run a skill in the sandbox."),
    "resolve": CommandEntry(
        "homes.resolve_command:resolve_command", "Resolve a spoken command to devices and their commands."
    ),
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
    "homes": GroupEntry(
        "List homes.",
        "skillbus homes list",
        {"list": CommandEntry("homes.device_commands:list_homes", "List the homes of the project.")},
    ),
    "devices": GroupEntry(
        "Import, list and remove the devices of homes.",
        "skillbus devices import devices.jsonl --home home",
        {
            "import": CommandEntry("homes.importer:import_devices", "Import devices of homes."),
            "list": CommandEntry("homes.device_commands:list_devices", "List devices by home and id."),
            "remove": CommandEntry("homes.device_commands:remove_devices", "Remove devices of a home."),
        },
    ),
    "commands": GroupEntry(
        "Manage the command library: what devices can be told to do.",
        "skillbus commands search '再亮一点'",
        {
            "import": CommandEntry("homes.importer:import_commands", "Import commands into the library."),
            "list": CommandEntry("homes.library_commands:list_commands", "List the commands of the library by id."),
            "search": CommandEntry("homes.library_commands:search_commands", "Find the commands that fit a query."),
            "remove": CommandEntry("homes.library_commands:remove_commands", "Remove commands from the library."),
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
            "installed": CommandEntry(
                "evaluate.installed_command:evaluate_installed", "Measure how well what is installed is found."
            ),
            "logs": CommandEntry("evaluate.commands:evaluate_logs", "Measure how well log templates are mined."),
            "agent": CommandEntry(
                "evaluate.commands:evaluate_agent", "Measure whether chats are shown the right tools."
            ),
            "queryir": CommandEntry(
                "evaluate.queryir_commands:evaluate_queryir", "Measure how well spoken commands are understood."
            ),
            "commands": CommandEntry(
                "evaluate.queryir_commands:evaluate_commands", "Measure how well commands of a library are found."
            ),
        },
    ),
    "bench": CommandEntry(
        "load.commands:measure_load", "Measure how many searches a running server answers, and how fast."
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
