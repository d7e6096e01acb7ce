"""The tools `read_skill` and `read_result`: instructions and files of skills, and the rest of large results."""

from typing import Annotated, Final, Protocol

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTool, make_tool
from skillbus.agent.domain.errors import BuiltinFailedError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import SkillName
from skillbus.contracts.sandbox.skill_runs import RunId

INSTRUCTIONS_FILE: Final = "SKILL.md"
READ_CHARACTERS: Final = 10_000
"""Most characters of one answer."""
MAX_LISTED: Final = 200
_MISSING: Final = frozenset({ErrorCode.SKILL_NOT_FOUND, ErrorCode.NOT_FOUND, ErrorCode.FORBIDDEN})


class SkillReader(Protocol):
    """Files of installed skills. Methods raise RequestError."""

    async def read_file(self, project: str, name: str, path: str) -> bytes:
        """Return the content of a file."""
        ...

    async def list_files(self, project: str, name: str) -> tuple[str, ...]:
        """Return the paths of all files."""
        ...


class ResultReader(Protocol):
    """Stored results of tools. Methods raise RequestError."""

    async def read_result(self, project: str, run_id: str) -> bytes:
        """Return the whole result of a call. Raises `not_found` a day after the call."""
        ...


class ReadSkillArguments(BuiltinArguments):
    name: Annotated[SkillName, Field(description="Name of the skill, without `skill:`.")]
    path: Annotated[
        str, Field(min_length=1, max_length=500, description="File of the skill. Its instructions are in SKILL.md.")
    ] = INSTRUCTIONS_FILE
    offset: Annotated[int, Field(ge=0, le=2**31, description="First character to read.")] = 0


class ReadResultArguments(BuiltinArguments):
    run_id: Annotated[RunId, Field(description="Id of the call, as its cut result names it.")]
    offset: Annotated[int, Field(ge=0, le=2**31, description="First character to read.")] = 0


READ_SKILL: Final = BuiltinProfile(
    name="read_skill",
    english="Read the instructions of a skill (SKILL.md), and the other files that they point to.",
    chinese="读取技能：查看技能的说明文档（SKILL.md）以及其中引用的文件。",
    tags=("skill", "instructions", "技能", "说明"),
    examples=(
        "How do I use the skill pdf-tools?",
        "Show me the instructions of this skill.",
        "这个技能怎么用",
        "打开技能的说明文档",
    ),
)
READ_RESULT: Final = BuiltinProfile(
    name="read_result",
    english="Read more of a tool's result that was too long to be shown at once.",
    chinese="读取结果：继续读取因过长而被截断的工具结果。",
    tags=("result", "paging", "结果"),
    examples=(
        "Show the rest of that output.",
        "Read on from character 12000.",
        "继续看后面的结果",
        "把剩下的输出也读出来",
    ),
)


def make_read_skill_tool(skills: SkillReader) -> BuiltinTool:
    async def run(project: str, arguments: ReadSkillArguments) -> ToolAnswer:
        try:
            data = await skills.read_file(project, arguments.name, arguments.path)
            files = await skills.list_files(project, arguments.name)
        except RequestError as error:
            if error.code in _MISSING:
                raise BuiltinFailedError(error.message) from error
            raise
        about: dict[str, JsonValue] = {
            "name": arguments.name,
            "path": arguments.path,
            "files": list(files[:MAX_LISTED]),
        }
        if "\0" in (text := data.decode("utf-8", "replace")):
            raise BuiltinFailedError(f"{arguments.path} is no text: it has {len(data)} bytes")
        answer = _answer_part(text, arguments.offset, about)
        if arguments.path == INSTRUCTIONS_FILE and not arguments.offset and len(files) > 1:
            listed = "\n".join(files[:MAX_LISTED])
            answer = ToolAnswer(f"{answer.text}\n\nFiles of this skill:\n{listed}", structured=answer.structured)
        return answer

    return make_tool(READ_SKILL, ReadSkillArguments, run)


def make_read_result_tool(results: ResultReader) -> BuiltinTool:
    async def run(project: str, arguments: ReadResultArguments) -> ToolAnswer:
        try:
            data = await results.read_result(project, arguments.run_id)
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise BuiltinFailedError(f"no result of the call {arguments.run_id} is kept") from error
            raise
        return _answer_part(data.decode("utf-8", "replace"), arguments.offset, {"run_id": arguments.run_id})

    return make_tool(READ_RESULT, ReadResultArguments, run)


def _answer_part(text: str, offset: int, about: dict[str, JsonValue]) -> ToolAnswer:
    """Answer with the text from `offset` on, and the offset of the next part."""
    part = text[offset : offset + READ_CHARACTERS]
    end = offset + len(part)
    following = end if end < len(text) else None
    structured: dict[str, JsonValue] = {**about, "offset": offset, "characters": len(text), "next_offset": following}
    if following is not None:
        part = f"{part}\n[{len(text) - end} characters follow: read on with offset={following}]"
    return ToolAnswer(part or "(nothing from this offset on)", structured=structured)
