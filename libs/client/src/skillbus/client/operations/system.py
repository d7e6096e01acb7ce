"""Operations on the system: MCP servers, indexes, dead letters, API keys, status and audit."""

from typing import Final

from skillbus.client.operation import (
    ReplyParser,
    StateEvents,
    custom_operation,
    json_operation,
    stream_operation,
)
from skillbus.client.operations.runs import SILENCE_S
from skillbus.client.operations.tools import CALL_S
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.agent.mcp_servers import (
    ListMcpServers,
    McpServer,
    McpServerRemoved,
    McpServerSelector,
    McpServersListed,
    RegisterMcpServer,
)
from skillbus.contracts.gateway.api_keys import ApiKeyCreated, ApiKeyRevoked, ApiKeysListed, CreateApiKey
from skillbus.contracts.gateway.sessions import SessionStatus
from skillbus.contracts.http import AuditOrder, AuditReport, SystemStatus
from skillbus.contracts.indexer.audit_log import AuditLogListed, ListAuditLog
from skillbus.contracts.indexer.dead_letters import (
    DeadLetter,
    DeadLetterDropped,
    DeadLetterReplayed,
    DeadLetterSelector,
    DeadLettersListed,
    ListDeadLetters,
)
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexSelector, IndexState
from skillbus.contracts.message import Empty, ProjectMessage

_SERVERS: Final = "/api/mcp-servers"
_SERVER: Final = "/api/mcp-servers/{name}"
_LETTERS: Final = "/api/dead-letters"
_LETTER: Final = "/api/dead-letters/{sequence}"
_AUDIT_S: Final = 300.0


def _prepare_key(key_id: str) -> PreparedRequest:
    return PreparedRequest({"key_id": key_id})


def _prepare_nothing() -> PreparedRequest:
    return PreparedRequest({})


class McpServerOperations:
    """MCP servers."""

    register_mcp_server = json_operation(
        "POST", _SERVERS, RegisterMcpServer, McpServer, timeout_s=CALL_S, is_idempotent=True
    )
    """Register an MCP server by `url`, add its tools to the catalogue, and follow its changes.

    A server with the same name is replaced. One that does not reply is registered anyway: see `state`.
    """
    list_mcp_servers = json_operation("GET", _SERVERS, ListMcpServers, McpServersListed)
    """List the MCP servers of a project with their states."""
    get_mcp_server = json_operation("GET", _SERVER, McpServerSelector, McpServer)
    """Return one MCP server with its state."""
    refresh_mcp_server = json_operation(
        "POST",
        f"{_SERVER}/refresh",
        McpServerSelector,
        McpServer,
        in_query=("project",),
        timeout_s=CALL_S,
        is_idempotent=True,
    )
    """List the tools of an MCP server again, now."""
    remove_mcp_server = json_operation("DELETE", _SERVER, McpServerSelector, McpServerRemoved)
    """Remove an MCP server, and its tools from the catalogue."""


class SystemOperations:
    """The system as a whole: status, audit, audit log, indexes, dead letters and API keys."""

    get_status = json_operation("GET", "/api/status", Empty, SystemStatus)
    """Return the readiness of every service, with warnings, and the state of the index."""
    get_audit = json_operation("GET", "/api/audit", ProjectMessage, AuditReport, timeout_s=_AUDIT_S)
    """Compare catalogue, knowledge base, vectors and callable tools without changing anything."""
    audit_and_fix = json_operation(
        "POST", "/api/audit", AuditOrder, AuditReport, timeout_s=_AUDIT_S, is_idempotent=True
    )
    """Compare catalogue, knowledge base, vectors and callable tools. With `fix`, repair the differences first."""
    list_audit_log = json_operation("GET", "/api/audit-log", ListAuditLog, AuditLogListed)
    """List the administrative acts, newest first: who did what, when, and from where."""
    list_indexes = json_operation("GET", "/api/indexes", Empty, IndexesListed)
    """List the indexes with their models and the progress of their switches."""
    follow_indexes = stream_operation(
        HttpRoute("GET", "/api/indexes/events", timeout_s=SILENCE_S),
        _prepare_nothing,
        StateEvents(IndexesListed),
    )
    """Follow switches: yield the indexes at each step, last when no index is switched."""
    start_switch = json_operation("POST", "/api/indexes/{alias}/switch", IndexSelector, IndexState)
    """Start the switch of an index to the default model. It continues after this reply."""
    roll_back = json_operation("POST", "/api/indexes/{alias}/rollback", IndexSelector, IndexState)
    """Roll the last switch back to the old collection, or abort a running switch."""
    list_dead_letters = json_operation("GET", _LETTERS, ListDeadLetters, DeadLettersListed)
    """List the events that consumers gave up on, oldest first."""
    get_dead_letter = json_operation("GET", _LETTER, DeadLetterSelector, DeadLetter)
    """Return a dead letter with its event."""
    replay_dead_letter = json_operation("POST", f"{_LETTER}/replay", DeadLetterSelector, DeadLetterReplayed)
    """Publish the event again, and delete the dead letter once the event is stored."""
    drop_dead_letter = json_operation("DELETE", _LETTER, DeadLetterSelector, DeadLetterDropped)
    """Delete a dead letter without replaying it."""
    create_api_key = json_operation("POST", "/api/keys", CreateApiKey, ApiKeyCreated)
    """Make an API key. `key` is its text, which is shown only in this reply."""
    list_api_keys = json_operation("GET", "/api/keys", Empty, ApiKeysListed)
    """List the keys that the caller may revoke, newest first, with their last use."""
    revoke_api_key = custom_operation(
        HttpRoute("DELETE", "/api/keys/{key_id}"), _prepare_key, ReplyParser(ApiKeyRevoked)
    )
    """Revoke a key and all keys that it made. They are refused at once, and stay in the list for 30 days."""
    get_session = json_operation("GET", "/api/session", Empty, SessionStatus)
    """Return who the key belongs to and what it may do."""
