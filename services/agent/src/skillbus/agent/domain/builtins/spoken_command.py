"""The tool `resolve_command`."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from pydantic import Field

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTool, make_tool
from skillbus.agent.domain.errors import BuiltinFailedError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.common.tools.spoken_commands import HomeUnclearError, choose_home, summarize_resolution
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.devices import HomeName, HomesListed, ListHomes, SpokenName
from skillbus.contracts.retriever.command_resolution import CommandResolved, ResolveCommand, SessionName
from skillbus.contracts.retriever.query_ir import Sentence


class ResolveCommandArguments(BuiltinArguments):
    text: Annotated[Sentence, Field(description="What the speaker said, unchanged.")]
    home: Annotated[HomeName | None, Field(description="Name of the home; not needed if there is only one.")] = None
    room: Annotated[
        SpokenName | None, Field(description="Room in which the speaker is, if known: what 'in here' means.")
    ] = None
    session: Annotated[
        SessionName | None,
        Field(description="Dialogue of one speaker: with it, words like 'it' stand for what was mentioned last."),
    ] = None


RESOLVE_COMMAND_PROFILE: Final = BuiltinProfile(
    name="resolve_command",
    english="Resolve a spoken command for a smart home to its devices, the command of each and its arguments. Carries "
    "nothing out.",
    chinese="解析智能家居的口语指令：找出要控制的设备、对应的命令和参数，但不执行。",
    tags=("smart home", "devices", "智能家居", "设备", "指令"),
    examples=(
        "Turn on all lights except in the bedroom.",
        "Set the living room lamp to half brightness.",
        "打开除卧室以外的灯",
        "把客厅空调调到26度",
    ),
)


def make_resolve_command_tool(
    resolve: Callable[[ResolveCommand], Awaitable[CommandResolved]],
    list_homes: Callable[[ListHomes], Awaitable[HomesListed]],
) -> BuiltinTool:
    async def run(project: str, arguments: ResolveCommandArguments) -> ToolAnswer:
        try:
            resolved = await resolve_in_home(project, arguments)
        except HomeUnclearError as error:
            raise BuiltinFailedError(str(error)) from error
        structured = summarize_resolution(resolved)
        return ToolAnswer(json.dumps(structured, ensure_ascii=False), structured=structured)

    async def resolve_in_home(project: str, arguments: ResolveCommandArguments) -> CommandResolved:
        """Resolve the sentence in the home that is named, or in the only one. Raises HomeUnclearError."""
        home = arguments.home
        if home is None:
            home = choose_home(await list_homes(ListHomes(project=project)), None)
        try:
            return await resolve(
                ResolveCommand(
                    project=project, text=arguments.text, home=home, room=arguments.room, session=arguments.session
                )
            )
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                choose_home(await list_homes(ListHomes(project=project)), home)
            raise

    return make_tool(RESOLVE_COMMAND_PROFILE, ResolveCommandArguments, run)
