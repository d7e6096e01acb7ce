"""Pages for administrators: dead letters, the audit log, and API keys."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field

from skillbus.contracts.gateway.api_keys import ApiKey, Role
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG, ListAuditLog
from skillbus.contracts.indexer.dead_letters import (
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    DeadLetterSelector,
    ListDeadLetters,
)
from skillbus.contracts.message import DEFAULT_PROJECT, ProjectMessage
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.dead_letters import SequenceInPath
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.pages.rendering import render_page
from skillbus.gateway.service.pages.sections.system import SYSTEM_PAGE, list_rights

DEAD_LETTERS_PAGE: Final = f"{SYSTEM_PAGE}/dead-letters"
AUDIT_LOG_PAGE: Final = f"{SYSTEM_PAGE}/audit"
KEYS_PAGE: Final = f"{SYSTEM_PAGE}/keys"
_LETTERS: Final = 50
_DAY_S: Final = 86_400
_LIFETIMES: Final = {days: days * _DAY_S for days in (1, 7, 30, 90, 365)}
"""Seconds that a new key can be valid, by days."""


class DeadLetterPageQuery(ProjectMessage):
    """Query for one page of dead letters."""

    consumer: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    after: Annotated[int, Field(ge=0, le=2**53)] = 0


@dataclass(frozen=True, slots=True)
class AdministrationPages:
    """Handlers of the pages for administrators."""

    caller: BusCaller
    registry: KeyRegistry

    async def show_dead_letters(self, request: Request, page: Annotated[DeadLetterPageQuery, Query()]) -> Response:
        """Show one page of dead letters, oldest first."""
        wanted = ListDeadLetters(consumer=page.consumer, after=page.after, limit=_LETTERS)
        context = {
            "listed": await self.caller.call(LIST_DEAD_LETTERS, wanted),
            "query": page,
            **list_rights(get_caller(request.scope)),
        }
        return render_page(request, "system/dead_letters.html", context, project=page.project)

    async def show_dead_letter(
        self, request: Request, sequence: SequenceInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show a dead letter with its event."""
        letter = await self.caller.call(GET_DEAD_LETTER, DeadLetterSelector(sequence=sequence))
        context = {"letter": letter, **list_rights(get_caller(request.scope))}
        return render_page(request, "system/dead_letter.html", context, project=project)

    async def show_audit_log(self, request: Request, page: Annotated[ListAuditLog, Query()]) -> Response:
        """Show one page of the audit log. The filters are in the address."""
        context = {
            "listed": await self.caller.call(LIST_AUDIT_LOG, page),
            "query": page,
            **list_rights(get_caller(request.scope)),
        }
        return render_page(request, "system/audit_log.html", context, project=page.project or DEFAULT_PROJECT)

    async def show_keys(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the keys that the caller may revoke, and a form to make one. No page holds the text of a key."""
        caller = get_caller(request.scope)
        now = datetime.now(UTC)
        keys = (await self.registry.list_keys(caller)).keys
        context = {
            "keys": tuple((key, _name_state(key, now)) for key in keys),
            "roles": tuple(role for role in Role if caller.role.includes(role)),
            "lifetimes": _LIFETIMES,
            **list_rights(caller),
        }
        return render_page(request, "system/keys.html", context, project=project)


def _name_state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "valid"
