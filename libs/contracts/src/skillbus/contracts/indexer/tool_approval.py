"""Tools whose calls by agents need the approval of a person."""

from typing import Final

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer.tools import CatalogueTool, ToolId
from skillbus.contracts.message import ProjectMessage


class SetToolApproval(ProjectMessage):
    """Decision of an operator whether calls of a tool need an approval. It stays when the description changes."""

    id: ToolId
    required: bool
    """True lets agents call the tool only when a person approves the call. False lets them call it without, also if
    its MCP server states `destructiveHint`."""


SET_TOOL_APPROVAL: Final = Endpoint(
    service=SERVICE,
    name="set_tool_approval",
    request=SetToolApproval,
    reply=CatalogueTool,
    summary="Decide whether an agent's calls of a tool or a skill wait for the approval of a person.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={"id": "skill:calculate", "required": True},
    act=AuditedAct("id", details=("required",)),
)
