"""The audit log as administrators read it. The indexer answers for all services."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.audit_log import SUBJECT_CHARACTERS, ActName, AuditFact
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import WITHOUT_NUL, Message, Project

MAX_AUDIT_FACTS: Final = 200
SEQUENCE_MAX: Final = 2**53


class ListAuditLog(Message):
    """Query for one page of the audit log, newest fact first."""

    project: Project | None = None
    """List only facts about this project. Absent lists all, also those about the whole system."""
    act: ActName | None = None
    """List only this act, such as `install_skill`."""
    actor: Annotated[str, StringConstraints(min_length=1, max_length=100), WITHOUT_NUL] | None = None
    """List only acts of this actor: `owner`, or the id of an API key."""
    subject: Annotated[str, StringConstraints(min_length=1, max_length=SUBJECT_CHARACTERS), WITHOUT_NUL] | None = None
    """List only acts that name this thing, such as the name of a skill."""
    before: Annotated[int, Field(ge=1, le=SEQUENCE_MAX)] | None = None
    """List only older facts: `next` of the previous page."""
    limit: int = Field(default=100, ge=1, le=MAX_AUDIT_FACTS)


class AuditEntry(AuditFact):
    """Fact in the audit log."""

    sequence: int
    """Number of the fact. Numbers increase, and none is used again."""


class AuditLogListed(Message):
    """One page of the audit log. It can be shorter than `limit`, also empty, although more facts follow."""

    facts: tuple[AuditEntry, ...]
    next: int | None = None
    """Value of `before` for the next page. Absent on the last page."""


LIST_AUDIT_LOG: Final = Endpoint(
    service=SERVICE,
    name="list_audit_log",
    request=ListAuditLog,
    reply=AuditLogListed,
    summary="List the administrative acts: who did what, when, and from where. Newest first.",
    is_read=True,
    example={"limit": 20},
)
