"""Login and logout of browsers."""

from dataclasses import dataclass
from typing import Final

from fastapi import Request, Response

from skillbus.contracts.errors import ANY_REQUEST
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.gateway.sessions import SessionStatus
from skillbus.gateway.domain.access.principal import Principal, get_caller
from skillbus.gateway.domain.access.session import SessionCookie
from skillbus.gateway.domain.access.session_registry import SESSION_LIFETIME, SessionRegistry
from skillbus.gateway.service.documented_router import DocumentedRouter

_SESSION: Final = "/api/session"


@dataclass(frozen=True, slots=True)
class SessionRoutes:
    """Handlers of sessions."""

    registry: SessionRegistry
    cookie: SessionCookie

    async def create_session(self, request: Request, response: Response) -> SessionStatus:
        """Log in: take the key of the header, and set a cookie with its rights for 12 hours at most.

        Send `csrf_token` as `X-CSRF-Token` with every request but GET, HEAD and OPTIONS that sends the cookie. The
        session ends with the key. A key has 10 sessions at most: the oldest one ends when another one begins.
        """
        caller = get_caller(request.scope)
        text, record = await self.registry.open_session(caller)
        lifetime_s = int(SESSION_LIFETIME.total_seconds())
        self._set_cookie(response, text.reveal(), lifetime_s)
        return make_status(caller).model_copy(
            update={"expires_at": record.expires_at, "csrf_token": text.make_csrf_token()}
        )

    async def get_session(self, request: Request, response: Response) -> SessionStatus:
        """Return who the request comes from, what it may do, and the token of its session."""
        response.headers["Cache-Control"] = "no-store"
        return make_status(get_caller(request.scope))

    async def end_session(self, request: Request, response: Response) -> None:
        """Log out: end the session of the cookie. It is refused at once, also where its cookie was copied to."""
        await self.registry.end_session(get_caller(request.scope))
        self._set_cookie(response, "", 0)

    def _set_cookie(self, response: Response, value: str, max_age_s: int) -> None:
        response.headers["Cache-Control"] = "no-store"
        response.set_cookie(
            self.cookie.name,
            value,
            max_age=max_age_s,
            path="/",
            secure=self.cookie.is_secure,
            httponly=True,
            samesite="strict",
        )


def make_status(caller: Principal) -> SessionStatus:
    """Return a caller as it sees itself."""
    session = caller.session
    return SessionStatus(
        name=caller.name,
        role=caller.role,
        projects=tuple(sorted(caller.projects)),
        expires_at=caller.expires_at if session is None else session.expires_at,
        csrf_token=None if session is None else session.csrf_token,
    )


def add_session_routes(router: DocumentedRouter, routes: SessionRoutes) -> None:
    """Add the routes of sessions."""
    router.add("POST", _SESSION, Role.READER, routes.create_session, ANY_REQUEST, status=201)
    router.add("GET", _SESSION, Role.READER, routes.get_session, ANY_REQUEST)
    router.add("DELETE", _SESSION, Role.READER, routes.end_session, ANY_REQUEST, status=204)
