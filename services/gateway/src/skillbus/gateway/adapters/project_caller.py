"""Client of the services that sends requests only about the project that the HTTP request is bound to.

It holds for every handler, whatever it takes its project from, so that a mistake in one shows no other project's data.
"""

from skillbus.common.bus import headers as bus_headers
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message
from skillbus.gateway.domain.ports import BusCaller, ReplyT, RequestT


class ProjectCaller:
    """Implements `BusCaller` over another one."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        """Send a request and return the reply.

        Raises:
            RequestError: As `BusCaller.call`; `forbidden` for a request about another project.
        """
        _check_project(endpoint, request)
        return await self._caller.call(endpoint, request, timeout_s=timeout_s, content_type=content_type)

    async def call_for_json(
        self, endpoint: Endpoint[RequestT, Message], request: RequestT, *, timeout_s: float | None = None
    ) -> bytes:
        """Send a request and return the reply as JSON. Raises as `call`."""
        _check_project(endpoint, request)
        return await self._caller.call_for_json(endpoint, request, timeout_s=timeout_s)


def _check_project(endpoint: Endpoint[RequestT, Message], request: Message) -> None:
    project = getattr(request, "project", None)
    if project is not None and project != bus_headers.project.get():
        raise RequestError(ErrorCode.FORBIDDEN, f"{endpoint.name} would be about another project than the request.")
