"""Projects of the knowledge base, and their audit log."""

from typing import Final

from pydantic import Field

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import ANYBODY, Actor, Instant, KnowledgeId
from skillbus.contracts.message import Message, Project, ProjectMessage


class KnowledgeAuditEntry(Message):
    """Entry of the audit log. An action on one item has its id, and its version and digest after the action."""

    sequence: int
    """Number of the entry. Numbers increase."""
    at: Instant
    actor: str
    action: str
    """A `KnowledgeChangeKind`, `imported`, `exported` or `parent_set`."""
    project: Project
    id: str | None = None
    version: int | None = None
    digest: str | None = None
    reason: str = ""


class ListKnowledgeAudit(ProjectMessage):
    """Query for one page of the audit log, oldest entry first. Entries are never changed or deleted."""

    id: KnowledgeId | None = None
    after: int = Field(default=0, ge=0, le=2**63 - 1)
    limit: int = Field(default=100, ge=1, le=1000)


class KnowledgeAuditListed(Message):
    """One page of the audit log."""

    entries: tuple[KnowledgeAuditEntry, ...]
    next: int | None = None


class SetKnowledgeParent(Message):
    """Parent of a project. A project inherits the items of its parent and of the parent's parents."""

    project: Project
    parent: Project | None = None
    """Parent project. Absent removes the parent."""
    actor: Actor = ANYBODY


class GetKnowledgeProject(ProjectMessage):
    """Name of the wanted project."""


class KnowledgeProject(Message):
    """Project and its parents."""

    project: Project
    parents: tuple[Project, ...] = ()
    """Parents, nearest first; at most eight."""


LIST_KNOWLEDGE_AUDIT: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge_audit",
    request=ListKnowledgeAudit,
    reply=KnowledgeAuditListed,
    summary="List the audit log: who changed what, and when.",
    is_read=True,
    example={"limit": 10},
)
SET_KNOWLEDGE_PARENT: Final = Endpoint(
    service=SERVICE,
    name="set_knowledge_parent",
    request=SetKnowledgeParent,
    reply=KnowledgeProject,
    summary="Set the parent project from which a project inherits items, or remove it.",
    raises=(ErrorCode.CONFLICT,),
    stores_data=True,
    example={"project": "team-a", "parent": "default"},
    act=AuditedAct("project", details=("parent",)),
)
GET_KNOWLEDGE_PROJECT: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_project",
    request=GetKnowledgeProject,
    reply=KnowledgeProject,
    summary="Return the parent projects from which a project inherits items.",
    is_read=True,
    example={"project": "default"},
)
