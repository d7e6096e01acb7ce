"""The two clients: all operations on either connection."""

from typing import Final

import httpx

from skillbus.client.connection import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S, AsyncConnection, SyncConnection
from skillbus.client.local_server import find_server
from skillbus.client.operations.chat import ChatOperations
from skillbus.client.operations.embedding import EmbeddingOperations
from skillbus.client.operations.homes import HomeOperations
from skillbus.client.operations.knowledge import KnowledgeOperations
from skillbus.client.operations.learning import LearningOperations
from skillbus.client.operations.runs import RunOperations
from skillbus.client.operations.skills import SkillOperations
from skillbus.client.operations.system import McpServerOperations, SystemOperations
from skillbus.client.operations.tools import ToolOperations

GROUPS: Final = (
    ToolOperations,
    SkillOperations,
    RunOperations,
    KnowledgeOperations,
    LearningOperations,
    HomeOperations,
    ChatOperations,
    McpServerOperations,
    EmbeddingOperations,
    SystemOperations,
)
"""Classes of operations, in the order of the reference."""


class Skillbus(
    ToolOperations,
    SkillOperations,
    RunOperations,
    KnowledgeOperations,
    LearningOperations,
    HomeOperations,
    ChatOperations,
    McpServerOperations,
    EmbeddingOperations,
    SystemOperations,
    SyncConnection,
):
    """Client of a skillbus server. Threads may share it.

    with Skillbus() as skillbus:
        found = skillbus.search_tools(query="write a commit message")
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        project: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to a server. Without `url` or `api_key`, they are found as the command line finds them.

        Args:
            url: Address such as `http://127.0.0.1:8080`. Default: `SKILLBUS_URL`, or the server on this machine that
                `connection.json` describes in `SKILLBUS_DATA`, `./data`, or the data directory started last.
            api_key: Default: `SKILLBUS_API_KEY`, or the key in `connection.json` if the server is that one.
            project: Project of requests that name none. Default: the server decides.
            timeout_s: Longest silence of the server. Operations that take longer by nature have their own.
            retries: Times that a call is sent again if it can be repeated safely.
            transport: Transport of httpx, for tests.
        """
        server = find_server(url, api_key)
        super().__init__(
            server.url, server.key, project=project, timeout_s=timeout_s, retries=retries, transport=transport
        )


class AsyncSkillbus(
    ToolOperations,
    SkillOperations,
    RunOperations,
    KnowledgeOperations,
    LearningOperations,
    HomeOperations,
    ChatOperations,
    McpServerOperations,
    EmbeddingOperations,
    SystemOperations,
    AsyncConnection,
):
    """Client of a skillbus server for asyncio, with the operations and the arguments of `Skillbus`.

    async with AsyncSkillbus() as skillbus:
        found = await skillbus.search_tools(query="write a commit message")
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        project: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect to a server: see `Skillbus`."""
        server = find_server(url, api_key)
        super().__init__(
            server.url, server.key, project=project, timeout_s=timeout_s, retries=retries, transport=transport
        )
