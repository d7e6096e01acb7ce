"""The caller of a request: its role and its projects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import ALL_PROJECTS, Role
from skillbus.contracts.message import DEFAULT_PROJECT

CALLER: Final = "skillbus.caller"
"""Member of the ASGI scope that holds the caller of a request."""


class AccessRefusedError(RequestError):
    """The caller's key lacks the role or the project of a request."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.FORBIDDEN, message)


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Session whose cookie came with a request."""

    id: str
    expires_at: datetime
    csrf_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Principal:
    """Caller that was let in."""

    name: str
    """`owner`, `local` on a gateway without a key, or the id of an API key."""
    role: Role
    projects: frozenset[str]
    has_limits: bool = True
    """False for the owner, who is not limited in the number of requests and runs."""
    expires_at: datetime | None = None
    """Time from which the caller's key is refused; None if it does not expire."""
    session: OpenSession | None = None
    """Session of a browser; None if the request brought a key."""

    @property
    def has_all_projects(self) -> bool:
        """True if the caller may use every project, also those that do not exist yet."""
        return ALL_PROJECTS in self.projects

    def check_role(self, needed: Role) -> None:
        """Raise AccessRefusedError unless the caller's role includes `needed`."""
        if not self.role.includes(needed):
            raise AccessRefusedError(
                f"This needs the role {needed}; the key has the role {self.role}: use another key."
            )

    def check_all_projects(self) -> None:
        """Raise AccessRefusedError unless the caller may use every project."""
        if not self.has_all_projects:
            raise AccessRefusedError(
                "This concerns all projects: use the owner's key, or a key made with the project `*`."
            )

    def check_project(self, project: str) -> None:
        """Raise AccessRefusedError unless the caller may use a project."""
        if not self.has_all_projects and project not in self.projects:
            raise AccessRefusedError(f"The key does not belong to this project. Its projects: {self._list_projects()}.")

    def choose_project(self, named: Collection[str]) -> str:
        """Return the project of a request that names these projects in its path, query or body.

        Raises:
            AccessRefusedError: The key does not belong to the project.
            RequestError: `invalid_request`: the request names two, or none and the key belongs to several.
        """
        wanted = set(named)
        for project in wanted:
            self.check_project(project)
        if len(wanted) > 1:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The request names two projects: name one.")
        if wanted:
            return wanted.pop()
        if self.has_all_projects:
            return DEFAULT_PROJECT
        if len(self.projects) == 1:
            return next(iter(self.projects))
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"The key belongs to several projects: name one as `project`, of {self._list_projects()}.",
        )

    def _list_projects(self) -> str:
        return ", ".join(sorted(self.projects))


OWNER: Final = Principal("owner", Role.ADMIN, frozenset({ALL_PROJECTS}), has_limits=False)
"""Caller who sent the owner's key."""
LOCAL_USER: Final = Principal("local", Role.ADMIN, frozenset({ALL_PROJECTS}), has_limits=False)
"""Caller of a gateway without a key: any program of this machine."""


def get_caller(scope: Mapping[str, object]) -> Principal:
    """Return the caller in the ASGI scope of a request. Raises TypeError on a path that needs no key."""
    caller = scope.get(CALLER)
    if not isinstance(caller, Principal):
        raise TypeError(f"{scope.get('path')} needs no key and has no caller")
    return caller
