"""The command library: put, remove and list commands."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial

from skillbus.contracts.indexer.commands import (
    CommandPut,
    CommandsListed,
    CommandsPut,
    CommandsRemoved,
    ListCommands,
    PutCommands,
    RemoveCommands,
)
from skillbus.indexer.domain.home.command import CommandRecord, ListedCommand, parse_command
from skillbus.indexer.domain.home.homes import cut_listed
from skillbus.indexer.domain.record.ports import ListedRecords
from skillbus.indexer.domain.record.registry import PlainRegistry
from skillbus.indexer.domain.record.values import read_id


@dataclass(frozen=True, slots=True)
class CommandLibrary:
    """Answers requests about commands. Methods raise RequestError when the records are unavailable."""

    registry: PlainRegistry[CommandRecord]
    listed: ListedRecords[ListedCommand]

    async def put_commands(self, request: PutCommands) -> CommandsPut:
        """Take commands, each by itself. An unchanged one is neither written nor embedded again."""
        parse = partial(parse_command, request.project)
        puts, indexed = await self.registry.put(request.project, request.commands, parse)
        results = [
            CommandPut(id=put.key[1] if put.key else read_id(value), outcome=put.outcome, error=put.error)
            for put, value in zip(puts, request.commands, strict=True)
        ]
        return CommandsPut(results=tuple(results), indexed=indexed)

    async def remove_commands(self, request: RemoveCommands) -> CommandsRemoved:
        """Remove commands. Return the ids of those that existed."""
        removed = await self.registry.remove(request.project, [(request.project, one) for one in request.ids])
        return CommandsRemoved(ids=tuple(command_id for _, command_id in removed))

    async def list_commands(self, request: ListCommands) -> CommandsListed:
        """Return a page of commands, shorter than its limit if it would not fit a message."""
        found = [command for command in await self.listed.list_project(request.project) if command.matches(request)]
        start = 0 if request.after is None else bisect_right(found, request.after, key=lambda command: command.id)
        page, following = cut_listed(
            found[start:], request.limit, lambda command: len(command.content), lambda command: command.id
        )
        return CommandsListed(
            commands=tuple(command.to_command() for command in page), total=len(found), next=following
        )
