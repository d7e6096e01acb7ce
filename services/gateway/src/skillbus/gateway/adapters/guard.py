"""The rule of access, before anything of a request but its headers is read."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from skillbus.contracts.errors import RequestError
from skillbus.gateway.adapters.problem_response import problem_response
from skillbus.gateway.domain.access import Access, Visit
from skillbus.gateway.domain.problem import problem_of


class Guard:
    """Lets in what `Access` lets in."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._access.check(_visit(scope))
            except RequestError as error:
                await problem_response(problem_of(error, scope["path"]))(scope, receive, send)
                return
            # Whoever is let in needs the key no more, and what is not there cannot end up in a log.
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        await self._app(scope, receive, send)


def _visit(scope: Scope) -> Visit:
    headers = Headers(scope=scope)
    return Visit(
        method=scope["method"],
        path=scope["path"],
        host=headers.get("host"),
        origin=headers.get("origin"),
        authorization=headers.get("authorization"),
    )
