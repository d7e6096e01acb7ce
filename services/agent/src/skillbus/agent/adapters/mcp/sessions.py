"""Opens sessions with servers, over HTTP or with a child process; what they are given is resolved when they begin."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from pydantic import SecretStr

from skillbus.agent.adapters.mcp.http import Streams, http_streams
from skillbus.agent.adapters.mcp.process import LastWords, process_streams
from skillbus.agent.adapters.mcp.session import McpSession
from skillbus.agent.domain.errors import ServerFailedError
from skillbus.common.secrets import REFERENCE, Secrets, SecretUnreadableError
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer

_IN_A_HEADER: Final = re.compile(r"[\x20-\x7e]*")


class McpSessions:
    """Implements `Sessions` with the SDK."""

    def __init__(self, secrets: Secrets, *, stdio_allowed: bool) -> None:
        self._secrets = secrets
        self._stdio_allowed = stdio_allowed

    @asynccontextmanager
    async def open(self, server: RegisterMcpServer, on_change: Callable[[], None]) -> AsyncGenerator[McpSession]:
        """See the port."""
        values = server.headers if server.url is not None else server.env
        given = self._resolved(values)
        secrets = tuple(value for name, value in given.items() if REFERENCE.fullmatch(values[name]))
        session = McpSession(tuple(given.values()), secrets, on_change)
        streams = self._http(server, given) if server.url is not None else self._process(server, given)
        async with session.held(streams, server.timeout_s):
            yield session

    def _resolved(self, values: Mapping[str, str]) -> dict[str, SecretStr]:
        try:
            return {
                name: self._secrets.resolve_line(value) if REFERENCE.fullmatch(value) else SecretStr(value)
                for name, value in values.items()
            }
        except SecretUnreadableError as error:
            raise ServerFailedError(str(error)) from error

    def _http(
        self, server: RegisterMcpServer, given: Mapping[str, SecretStr]
    ) -> Callable[[McpSession], AbstractAsyncContextManager[Streams]]:
        url = server.url or ""
        headers = {name: value.get_secret_value() for name, value in given.items()}
        if bad := [name for name, value in headers.items() if not _IN_A_HEADER.fullmatch(value)]:
            raise ServerFailedError(f"the value of the header {bad[0]} has characters that no header can have")
        return lambda session: http_streams(url, headers, server.timeout_s, session.end)

    def _process(
        self, server: RegisterMcpServer, given: Mapping[str, SecretStr]
    ) -> Callable[[McpSession], AbstractAsyncContextManager[Streams]]:
        if not self._stdio_allowed:
            raise ServerFailedError("it has to be started, and that is not allowed here any more")
        command = (server.command or "", *server.args)
        environment = {name: value.get_secret_value() for name, value in given.items()}
        return lambda session: process_streams(command, environment, session.end, LastWords())
