"""Access control, before anything but the headers of a request is read."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from skillbus.contracts.errors import RequestError
from skillbus.gateway.adapters.problem_response import make_problem_response
from skillbus.gateway.domain.access import Access, Visit
from skillbus.gateway.domain.problem import make_problem


class Guard:
    """ASGI layer that refuses requests by the rule of `Access`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._access.check_visit(_read_visit(scope))
            except RequestError as error:
                await make_problem_response(make_problem(error, scope["path"]))(scope, receive, send)
                return
            # The key is no longer needed, and what is removed cannot end up in a log.
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        await self._app(scope, receive, send)


def _read_visit(scope: Scope) -> Visit:
    headers = Headers(scope=scope)
    return Visit(
        method=scope["method"],
        path=scope["path"],
        host=headers.get("host"),
        origin=headers.get("origin"),
        authorization=headers.get("authorization"),
    )
