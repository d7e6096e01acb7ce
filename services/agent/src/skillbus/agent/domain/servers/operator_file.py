"""The operator's file `mcp.json`: MCP servers in the format of `claude_desktop_config.json`.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "env:KEY"}},
                    "other": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "env:OTHER"}}}}

An entry may also have `project`, `timeout_s`, `start_timeout_s` and `disabled`. Other keys are ignored.
"""

import json
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, TypeAdapter, ValidationError

from skillbus.agent.domain.servers.registration import FileServerRecord, ServerKey
from skillbus.contracts.agent.mcp_servers import McpServerName, McpTransport, RegisterMcpServer, ServerTimeout
from skillbus.contracts.message import WITHOUT_NUL, ProjectMessage
from skillbus.contracts.validation import describe_error

MCP_FILE: Final = "mcp.json"
"""Name of the file in the data folder of standalone."""
SERVERS_MEMBER: Final = "mcpServers"


class OperatorFileError(Exception):
    """The file cannot be used. The message names the place and what to do, and shows no value of the file."""


def _check_variables(value: dict[str, str]) -> dict[str, str]:
    if bad := [name for name in value if not name or "=" in name or "\0" in name]:
        raise ValueError(f"{bad[0][:50]!r} is not the name of an environment variable")
    return value


_Text = Annotated[str, StringConstraints(max_length=32_000), WITHOUT_NUL]


class CommandServer(ProjectMessage):
    """Server that the agent starts as a child process. Only the operator's file has such servers."""

    name: McpServerName
    command: Annotated[_Text, StringConstraints(min_length=1)]
    args: Annotated[tuple[_Text, ...], Field(max_length=1_000)] = ()
    env: Annotated[dict[str, _Text], Field(max_length=200), AfterValidator(_check_variables)] = Field(
        default_factory=dict
    )
    """Environment variables. Values `env:NAME` and `file:PATH` are references to secrets."""
    timeout_s: ServerTimeout = 20.0
    start_timeout_s: Annotated[float, Field(ge=0.5, le=3_600.0, allow_inf_nan=False)] = 300.0
    """Time for the first start, in which `npx` or `uvx` may download a package. Later starts have `timeout_s`."""


OperatorServer: TypeAlias = RegisterMcpServer | CommandServer
_NAME: Final[TypeAdapter[str]] = TypeAdapter(McpServerName)


def parse_operator_file(content: bytes) -> dict[ServerKey, OperatorServer]:
    """Return the servers of a file, without the disabled ones. Raises OperatorFileError."""
    servers: dict[ServerKey, OperatorServer] = {}
    for name, entry in parse_entries(content).items():
        server = parse_server(name, entry)
        if not (isinstance(entry, dict) and entry.get("disabled") is True):
            servers[ServerKey(server.project, server.name)] = server
    return servers


def parse_entries(content: bytes, member: str = SERVERS_MEMBER) -> dict[str, JsonValue]:
    """Return the unchecked entries in a member of a file by name. Raises OperatorFileError."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        place = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "bad text"
        raise OperatorFileError(f"it is not JSON ({place}): correct it") from None
    entries = document.get(member, {}) if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise OperatorFileError(f'it is not an object like {{"{SERVERS_MEMBER}": {{"name": {{"command": "npx"}}}}}}')
    return entries


def parse_server(name: str, entry: JsonValue) -> OperatorServer:
    """Return the server of one entry. Raises OperatorFileError."""
    where = f"{SERVERS_MEMBER}.{name[:80]}"
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise OperatorFileError(f"{where}: a name has a-z, 0-9, - and _, at most 64 of them: rename it") from None
    if not isinstance(entry, dict) or (entry.get("url") is None) == (entry.get("command") is None):
        raise OperatorFileError(f"{where}: give either `command`, of a program to start, or `url`, of a running server")
    kind = CommandServer if entry.get("url") is None else RegisterMcpServer
    members = {member: entry[member] for member in kind.model_fields if entry.get(member) is not None}
    try:
        return kind.model_validate({**members, "name": name})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join((where, *(str(part)[:80] for part in first["loc"])))
        raise OperatorFileError(f"{place}: {describe_error(first)}") from None


def build_record(server: OperatorServer) -> FileServerRecord:
    """Return what is stored and shown of a server: neither values of headers nor of variables."""
    common = FileServerRecord(project=server.project, name=server.name, timeout_s=server.timeout_s, in_file=True)
    if isinstance(server, CommandServer):
        address = " ".join((server.command, *server.args))
        return common.model_copy(update={"address": address, "env_names": tuple(sorted(server.env))})
    update = {"transport": McpTransport.HTTP, "address": server.url, "header_names": tuple(sorted(server.headers))}
    return common.model_copy(update=update)
