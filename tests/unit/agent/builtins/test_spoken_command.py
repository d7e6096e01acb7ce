"""The tool `resolve_command`. What a model is told is in `tests/unit/common/test_spoken_commands.py`."""

import pytest
from pydantic import JsonValue

from skillbus.agent.domain.builtins.spoken_command import make_resolve_command_tool
from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import HomesListed, HomeSummary, ListHomes
from skillbus.contracts.retriever.command_resolution import CommandResolved, ResolveCommand


class Homes:
    """A project with homes, in which no sentence is a command."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[ResolveCommand] = []
        self.listed: list[ListHomes] = []

    async def resolve(self, request: ResolveCommand) -> CommandResolved:
        self.asked.append(request)
        if request.home not in self.names:
            raise RequestError(ErrorCode.NOT_FOUND, "There is no such home.")
        return CommandResolved(results=(), parsed_by="rules", took_ms=1)

    async def list_homes(self, request: ListHomes) -> HomesListed:
        self.listed.append(request)
        found = tuple(HomeSummary(home=name, devices=1, rooms=0) for name in self.names)
        return HomesListed(homes=found, total=len(found))


async def test_a_sentence_is_resolved_in_the_named_home_or_in_the_only_one() -> None:
    homes = Homes("villa")
    tool = make_resolve_command_tool(homes.resolve, homes.list_homes)
    answer = await tool.call("team", {"text": "打开灯"})
    await tool.call("team", {"text": "打开灯", "home": "villa", "room": "书房", "session": "me"})
    assert answer.structured == {"results": [], "note": "The sentence is no command for devices."}
    assert homes.asked == [
        ResolveCommand(project="team", text="打开灯", home="villa"),
        ResolveCommand(project="team", text="打开灯", home="villa", room="书房", session="me"),
    ]
    assert homes.listed == [ListHomes(project="team")]


@pytest.mark.parametrize(
    ("home", "said"),
    [(None, "name the home: the project has villa, attic"), ("vila", "there is no home 'vila': the project has")],
)
async def test_an_unclear_home_is_an_answer_that_names_the_homes(home: str | None, said: str) -> None:
    homes = Homes("villa", "attic")
    answer = await make_resolve_command_tool(homes.resolve, homes.list_homes).call(
        "team", {"text": "打开灯", "home": home}
    )
    assert answer.is_error
    assert answer.text.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({}, "$.text"),
        ({"text": " "}, "$.text"),
        ({"text": "灯" * 1_001}, "$.text"),
        ({"text": "打开灯", "home": ""}, "$.home"),
    ],
)
async def test_a_wrong_argument_is_refused_with_its_place(arguments: dict[str, JsonValue], place: str) -> None:
    homes = Homes("villa")
    with pytest.raises(ArgumentsInvalidError) as refused:
        await make_resolve_command_tool(homes.resolve, homes.list_homes).call("team", arguments)
    assert refused.value.path == place
    assert homes.asked == []
