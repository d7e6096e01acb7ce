"""Projects of the knowledge base, and the audit of what is done in them."""

from typing import Final

from pydantic import Field

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import ANYBODY, Actor, Instant, KnowledgeId
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project


class KnowledgeAuditEntry(Message):
    """Somebody did something."""

    sequence: int
    at: Instant
    actor: str
    action: str
    """A `ChangeKind`, `imported`, `exported`, `parent_set`."""
    project: Project
    id: str | None = None
    version: int | None = None
    digest: str | None = None
    """Of what it became."""
    reason: str = ""


class ListKnowledgeAudit(Message):
    """A page of the audit, oldest first. It only grows."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId | None = None
    after: int = Field(default=0, ge=0, le=2**63 - 1)
    limit: int = Field(default=100, ge=1, le=1000)


class KnowledgeAuditListed(Message):
    """A page of the audit; `next` is the `after` of the next one."""

    entries: tuple[KnowledgeAuditEntry, ...]
    next: int | None = None


class SetKnowledgeParent(Message):
    """Where a project looks beside its own items: in those of its parent, and of that one's."""

    project: Project
    parent: Project | None = None
    """None: nowhere else."""
    actor: Actor = ANYBODY


class GetKnowledgeProject(Message):
    """One project."""

    project: Project = DEFAULT_PROJECT


class KnowledgeProject(Message):
    """A project and those above it."""

    project: Project
    parents: tuple[Project, ...] = ()
    """Nearest first; at most eight."""


LIST_KNOWLEDGE_AUDIT: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge_audit",
    request=ListKnowledgeAudit,
    reply=KnowledgeAuditListed,
    summary="Who did what, and when.",
    example={"limit": 10},
)


SET_KNOWLEDGE_PARENT: Final = Endpoint(
    service=SERVICE,
    name="set_knowledge_parent",
    request=SetKnowledgeParent,
    reply=KnowledgeProject,
    summary="Let a project inherit the items of another, or of none.",
    raises=(ErrorCode.CONFLICT,),
    example={"project": "team-a", "parent": "default"},
)


GET_KNOWLEDGE_PROJECT: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_project",
    request=GetKnowledgeProject,
    reply=KnowledgeProject,
    summary="The projects whose items a project inherits.",
    example={"project": "default"},
)
