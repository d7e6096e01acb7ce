"""Rule of a route: the role that it needs, as members of its operation in the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.gateway.api_keys import Role

ROLE: Final = "x-role"
ALL_PROJECTS: Final = "x-all-projects"
RUN: Final = "x-run"
SUGGESTION: Final = "x-suggestion"
STREAM: Final = "x-stream"
PUBLIC: Final = "public"
"""Value of `x-role` of a route that needs no key."""


@dataclass(frozen=True, slots=True)
class RouteRule:
    """Condition for a request to reach the handler of a route."""

    role: Role | None
    """Role that the caller needs; None lets everybody in."""
    needs_all_projects: bool = False
    """True for what concerns the whole system: a key of single projects is refused."""
    is_run: bool = False
    """True if a request counts as a run of its key while it is answered."""
    is_suggestion: bool = False
    """True if a request counts as a suggestion of its key."""
    is_stream: bool = False
    """True if a request counts as a stream of its key while it is answered: it follows work that others do."""

    def to_openapi(self) -> dict[str, object]:
        """Return the members for the OpenAPI document."""
        members: dict[str, object] = {ROLE: self.role or PUBLIC}
        if self.role is None:
            members["security"] = []
        if self.needs_all_projects:
            members[ALL_PROJECTS] = True
        if self.is_run:
            members[RUN] = True
        if self.is_suggestion:
            members[SUGGESTION] = True
        if self.is_stream:
            members[STREAM] = True
        return members

    @classmethod
    def from_openapi(cls, members: Mapping[str, object]) -> "RouteRule":
        """Return the rule in the members of an operation. Raises ValueError without a known role."""
        role = str(members.get(ROLE))
        return cls(
            None if role == PUBLIC else Role(role),
            needs_all_projects=bool(members.get(ALL_PROJECTS)),
            is_run=bool(members.get(RUN)),
            is_suggestion=bool(members.get(SUGGESTION)),
            is_stream=bool(members.get(STREAM)),
        )
