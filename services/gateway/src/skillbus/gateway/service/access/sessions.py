"""Login and logout of browsers."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from fastapi import Request, Response

from skillbus.contracts.errors import ANY_REQUEST
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.gateway.sessions import LoginLink, LoginLinkBody, SessionStatus
from skillbus.gateway.domain.access.login_link import LoginLinks
from skillbus.gateway.domain.access.principal import Principal, get_caller
from skillbus.gateway.domain.access.session import SessionCookie
from skillbus.gateway.domain.access.session_registry import SessionRegistry
from skillbus.gateway.service.documented_router import DocumentedRouter

_SESSION: Final = "/api/session"


@dataclass(frozen=True, slots=True)
class SessionRoutes:
    """Handlers of sessions."""

    registry: SessionRegistry
    links: LoginLinks
    cookie: SessionCookie

    async def create_session(self, request: Request, response: Response) -> SessionStatus:
        """Log in: take the key of the header, and set a cookie with its rights for 12 hours at most.

        Send `csrf_token` as `X-CSRF-Token` with every request but GET, HEAD and OPTIONS that sends the cookie. The
        session ends with the key. A key has 10 sessions at most: the oldest one ends when another one begins.
        """
        caller = get_caller(request.scope)
        text, record = await self.registry.open_session(caller)
        set_session_cookie(response, self.cookie, text.reveal(), record.expires_at - record.created_at)
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
        set_session_cookie(response, self.cookie, "", timedelta())

    async def create_login_link(
        self, request: Request, response: Response, body: LoginLinkBody | None = None
    ) -> LoginLink:
        """Make a link that logs a browser in with the rights of the key of this request.

        It works once, within an hour, and no longer than the key.
        """
        response.headers["Cache-Control"] = "no-store"
        return await self.links.make_link(get_caller(request.scope), "/" if body is None else body.next)


def set_session_cookie(response: Response, cookie: SessionCookie, value: str, lifetime: timedelta) -> None:
    """Set the cookie of a session. A lifetime of nothing removes it."""
    response.headers["Cache-Control"] = "no-store"
    response.set_cookie(
        cookie.name,
        value,
        max_age=int(lifetime.total_seconds()),
        path="/",
        secure=cookie.is_secure,
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
    links, example = f"{_SESSION}/links", {"next": "/knowledge"}
    router.add("POST", links, Role.READER, routes.create_login_link, ANY_REQUEST, status=201, example=example)
