"""Spoken commands, which are resolved to devices and commands, and the search for commands."""

from dataclasses import dataclass

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.retriever.command_resolution import (
    PARSE_QUERY,
    RESOLVE_COMMAND,
    SEARCH_COMMANDS,
    CommandResolved,
    CommandsFound,
    ParseQuery,
    QueryParsed,
    ResolveCommand,
    SearchCommands,
)
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter


@dataclass(frozen=True, slots=True)
class SpokenCommandRoutes:
    """Handlers of spoken commands."""

    caller: BusCaller

    async def resolve_command(self, body: ResolveCommand) -> CommandResolved:
        """Resolve a spoken command in Chinese or English to devices of a home and the commands that they carry out.

        Each command of the sentence has its `status`. If it is not `resolved`, `question` may say what to ask the
        speaker. Values without an argument of the command, such as a time, are in `query`. Nothing is carried out.
        """
        return await self.caller.call(RESOLVE_COMMAND, body)

    async def parse_query(self, body: ParseQuery) -> QueryParsed:
        """Parse a spoken command into its fields: action, devices that it names, rooms, quantity and values.

        `parsed_by` says whether the grammar or the chat model did it. A sentence that is no command has no `queries`.
        """
        return await self.caller.call(PARSE_QUERY, body)

    async def search_commands(self, body: SearchCommands) -> CommandsFound:
        """Find the commands of the library that do what a query says, in any language."""
        return await self.caller.call(SEARCH_COMMANDS, body)


def add_spoken_command_routes(router: DocumentedRouter, routes: SpokenCommandRoutes) -> None:
    """Add the routes of spoken commands."""
    for path, handler, endpoint in (
        ("/api/context/resolve", routes.resolve_command, RESOLVE_COMMAND),
        ("/api/context/parse", routes.parse_query, PARSE_QUERY),
        ("/api/commands/search", routes.search_commands, SEARCH_COMMANDS),
    ):
        router.add("POST", path, Role.READER, handler, endpoint.errors, example=endpoint.example)
