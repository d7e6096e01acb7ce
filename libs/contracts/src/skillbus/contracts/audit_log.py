"""Facts of the audit log, and the declaration of the acts that are recorded in it (ADR 0028).

A fact says who did what, when, and from where. It holds ids, choices from closed sets and names of fields. It never
holds the content of a request, a secret, or the text of an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import Message

SUBJECTS_MAX: Final = 10
"""Most things of one fact that are named. `count` counts all of them."""
SUBJECT_CHARACTERS: Final = 200
CORE_ACCOUNT: Final = "CORE"
"""NATS account of the gateway, whose word about the caller is believed."""
AGENT_ACCOUNT: Final = "AGENT"
"""NATS account of the agent, which passes on the address of whoever asked it."""
_EVERY_PROJECT: Final = "*"
_UNCHANGED: Final = frozenset({"unchanged", "rejected"})


class AuditDoor(StrEnum):
    """Way by which an act reached skillbus."""

    HTTP = "http"
    """A request to the gateway. `actor` is the key that it checked, and `address` is the address of its client."""
    BUS = "bus"
    """A request on the bus. `actor` is what the caller says about itself: nobody checked it."""
    BUCKET = "bucket"
    """An upload to the bucket `skills`, whose writer is not known."""
    FOLDER = "folder"
    """A folder under `data/skills`, whose writer is not known."""


class AuditOutcome(StrEnum):
    """End of an act."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was changed. `code` says why."""
    FAILED = "failed"
    """A service failed or was away. It may or may not have been done."""


class AuditFact(Message):
    """Fact about one administrative act."""

    at: datetime
    act: str
    """Name of the request, such as `install_skill`."""
    outcome: AuditOutcome
    code: ErrorCode | None = None
    """Error that the caller got. Absent for what was done."""
    project: str | None = None
    """Project of the act. Absent for what concerns several projects or the whole system."""
    subjects: tuple[str, ...] = ()
    """Names or ids of what was changed, at most ten, each cut at 200 characters."""
    count: int = 0
    """Number of things that were changed."""
    details: dict[str, bool | str | tuple[str, ...]] = Field(default_factory=dict)
    """Choices of the act, such as `action` of a review, and `fields`: the names of changed fields."""
    service: str
    """Service that carried the act out and recorded it."""
    door: AuditDoor
    actor: str | None = None
    """`owner`, `local` on a gateway without a key, or the id of an API key. By the door `bus` it is what the caller
    says, by default the name of its connection."""
    address: str | None = None
    """Address of the HTTP client. By the door `bus` it is what the agent says, for a call that it passed on."""
    account: str | None = None
    """NATS account that the request came from, as the server says. Absent if it came from the service's own account."""
    trace_id: str | None = None
    """Trace id of the request, which its log lines have too."""


@dataclass(frozen=True, slots=True)
class AuditedAct:
    """Declaration that a request is an administrative act, and what of it the fact names.

    A request is recorded when it was refused, and when it was done and changed something.
    """

    subject: str = ""
    """Field of the request that names what is changed."""
    made: str = ""
    """Path in the reply of what was changed, such as `skill.name`. If the act is done, it comes before `subject`. An
    entry with an outcome that changed nothing is left out, and without any entry there is no fact."""
    details: tuple[str, ...] = ()
    """Fields of the request or the reply with a choice from a closed set, or with an id."""
    names_fields: bool = False
    """True adds the names of the request's other fields that were given."""
    only_with: str = ""
    """Field without which the request changes nothing, such as `fix`."""
    not_with: str = ""
    """Field with which the request changes nothing, such as `dry_run`."""

    def changes_something(self, request: Message) -> bool:
        """Return False for a request that only looks."""
        return not (
            (self.only_with and not getattr(request, self.only_with))
            or (self.not_with and getattr(request, self.not_with))
        )

    def list_subjects(self, request: Message, reply: Message | None) -> list[str] | None:
        """Return the names of what was changed, or should have been if there is no reply; None if nothing was."""
        if self.made and reply is not None:
            return [str(value) for value in _walk(reply, self.made.split(".")) if value is not None] or None
        return [str(value) for value in _walk(request, [self.subject])] if self.subject else []

    def list_details(self, request: Message, reply: Message | None) -> dict[str, bool | str | tuple[str, ...]]:
        """Return the choices of the act."""
        found: dict[str, bool | str | tuple[str, ...]] = {}
        for name in self.details:
            given = getattr(request, name, None)
            value = getattr(reply, name, None) if given is None else given
            if isinstance(value, bool):
                found[name] = value
            elif isinstance(value, tuple):
                found[name] = _shorten(value)
            elif value is not None:
                found[name] = str(value)[:SUBJECT_CHARACTERS]
        if self.names_fields:
            found["fields"] = tuple(sorted(request.model_fields_set - {"project", self.subject}))
        return found


def find_project(request: Message, reply: Message | None) -> str | None:
    """Return the project that an act is about; None if it is about several or none."""
    if (project := getattr(request, "project", None)) is not None:
        return str(project)
    projects: tuple[str, ...] = getattr(request, "projects", ()) or getattr(reply, "projects", ())
    return projects[0] if len(projects) == 1 and projects[0] != _EVERY_PROJECT else None


def name_subjects(subjects: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a fact holds."""
    return _shorten(subjects[:SUBJECTS_MAX])


def _shorten(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name[:SUBJECT_CHARACTERS] for name in names)


def _walk(value: object, path: list[str]) -> Iterator[object]:
    """Yield the values at a path, without those of objects that say that they changed nothing."""
    if isinstance(value, tuple):
        for entry in value:
            yield from _walk(entry, path)
    elif not path:
        yield value
    elif isinstance(value, BaseModel) and not _says_unchanged(value):
        yield from _walk(getattr(value, path[0]), path[1:])


def _says_unchanged(value: BaseModel) -> bool:
    return (
        getattr(value, "outcome", None) in _UNCHANGED
        or getattr(value, "ok", None) is False
        or getattr(value, "repeated", None) is True
    )


REFUSED: Final = "refused"
"""Last token of the subject of every fact about what was not done. Refusals share one subject for each service, and a
stream keeps only some facts of each subject. So refused attempts never push out facts about what was done."""


def make_audit_subject(fact: AuditFact) -> str:
    """Return the subject of a fact in the stream `SKILLBUS_AUDIT`."""
    kind = fact.act if fact.outcome is AuditOutcome.DONE else REFUSED
    return f"skillbus.audit.{fact.service}.{kind}"


def make_audit_pattern(service: str) -> str:
    """Return the subject pattern of all facts that a service records."""
    return f"skillbus.audit.{service}.*"


ActName = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,64}$")]
