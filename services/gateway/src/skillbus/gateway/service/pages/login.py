"""Login by a link that is used once."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from starlette.responses import RedirectResponse

from skillbus.contracts.errors import RequestError
from skillbus.gateway.domain.access.login_link import LOGIN_PATH, LoginLinks, is_own_page
from skillbus.gateway.domain.access.session import SessionCookie
from skillbus.gateway.service.access.sessions import set_session_cookie
from skillbus.gateway.service.pages.rendering import render_page

_OF_A_PAGE: Final = frozenset({"cross-site", "same-site", "same-origin"})
"""Values of `Sec-Fetch-Site` of what a page opened. A page of this server shows links that strangers wrote, too."""
NextPath = Annotated[str | None, Query(alias="next", max_length=2_000)]


@dataclass(frozen=True, slots=True)
class LoginPages:
    """Handlers of the login."""

    links: LoginLinks
    cookie: SessionCookie
    start_page: str

    async def show_login(
        self, request: Request, token: Annotated[str | None, Query(max_length=200)] = None, next_path: NextPath = None
    ) -> Response:
        """Log in by a link, and go on to the page that it names; without a link, say how to get one.

        A link that a page has opened logs in only when the user says so: the button of the question sends a request
        of its script, which no link of a text can be.
        """
        wanted = next_path if next_path is not None and is_own_page(next_path) else self.start_page
        if token is None:
            return render_page(request, "login.html", {"problem": None, "wanted": wanted, "login": None})
        if _was_opened_by_a_page(request):
            # It may be the link of somebody else, who wants to get what is written after this login.
            address = f"{LOGIN_PATH}?{urlencode({'token': token, 'next': wanted})}"
            return render_page(request, "login.html", {"problem": None, "wanted": wanted, "login": address})
        try:
            text, record = await self.links.open_session(token)
        except RequestError as error:
            return render_page(
                request, "login.html", {"problem": error, "wanted": wanted, "login": None}, status=error.status
            )
        # The answer to a redirect is what browsers keep in their history, so the token is in none.
        response = RedirectResponse(wanted, 303)
        set_session_cookie(response, self.cookie, text.reveal(), record.expires_at - record.created_at)
        return response


def _was_opened_by_a_page(request: Request) -> bool:
    """Return True unless the address was typed or given by a program, or the button of the question was pressed."""
    site, mode = request.headers.get("Sec-Fetch-Site"), request.headers.get("Sec-Fetch-Mode", "navigate")
    return site in _OF_A_PAGE and (site != "same-origin" or mode == "navigate")
