"""Tools of the catalogue as functions that a model can call."""

from pydantic import JsonValue

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.common.records import RecordVersion
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime
from skillbus.contracts.indexer.tool_functions import DescribeTools, MeasureTools, ToolFunction
from skillbus.indexer.domain.catalogue.functions import ToolDescriber
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord

from .switching.world import Calls, FakeCatalogue, FakeTools, skill
from .test_deciding_tools import INJECTION, described, recorded

SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"path": {"type": "string"}}}


def make_skill(name: str, *, enabled: bool = True) -> SkillRecord:
    actions = (("run", None), ("solve", "Solves equations."), ("check", None))
    entries = tuple(
        EntryPoint(action=action, script="a.py", runtime=Runtime.PYTHON, args_mode=ArgsMode.ARGV, description=about)
        for action, about in actions
    )
    record = skill(name, "Calculates.")
    changes = {"entry_points": entries, "default_action": "run", "enabled": enabled}
    return record.model_copy(update={"skill": record.skill.model_copy(update=changes)})


def make_tool(name: str, description: str = "Reads.", parameters: dict[str, JsonValue] | None = None) -> ToolRecord:
    review = description == INJECTION
    return recorded(described(description, {"id": f"lab.{name}", "parameters": parameters}, review=review))


def make_describer(*records: ToolRecord | SkillRecord) -> ToolDescriber:
    skills, tools = FakeCatalogue(Calls()), FakeTools()
    for record in records:
        if isinstance(record, SkillRecord):
            skills.has(record)
        else:
            tools.stored[record.project, record.id] = RecordVersion(record, 1)
    return ToolDescriber(skills, tools)


async def test_active_tools_and_each_action_of_a_skill_are_functions_in_the_order_of_the_request() -> None:
    describer = make_describer(
        make_tool("read", parameters=SCHEMA),
        make_tool("held", INJECTION),
        make_skill("calculate"),
        make_skill("off", enabled=False),
    )
    ids = ("skill:calculate", "lab.held", "lab.gone", "skill:off", "skill:gone", "lab.read")
    reply = await describer.describe_tools(DescribeTools(ids=ids))
    calculate = "skill:calculate"
    assert reply.functions == (
        ToolFunction(id=calculate, description="Calculates."),
        ToolFunction(id=calculate, action="solve", description="Calculates.\nSolves equations."),
        ToolFunction(id=calculate, action="check", description="Calculates.\nAction: check"),
        ToolFunction(id="lab.read", description="Reads.", parameters=SCHEMA),
    )
    assert reply.left_out == ()


async def test_tools_that_do_not_fit_into_a_message_are_named_as_left_out() -> None:
    large: dict[str, JsonValue] = {"type": "object", "description": "x" * (MESSAGE_BYTES // 2)}
    names = [f"t{number}" for number in range(3)]
    describer = make_describer(*(make_tool(name, parameters=large) for name in names))
    ids = tuple(f"lab.{name}" for name in names)
    seen = list[str]()
    while ids:
        reply = await describer.describe_tools(DescribeTools(ids=ids))
        assert len(reply.model_dump_json()) < MESSAGE_BYTES + 10_000
        seen += [function.id for function in reply.functions]
        ids = reply.left_out
    assert seen == [f"lab.{name}" for name in names]


async def test_all_functions_of_callable_tools_are_measured() -> None:
    callable_tool = recorded(described("Reads.", {"id": "mcp:lab/read", "source": "mcp:lab", "parameters": SCHEMA}))
    describer = make_describer(
        callable_tool,
        make_tool("external"),
        make_tool("held", INJECTION),
        make_skill("calculate"),
        make_skill("off", enabled=False),
    )
    measured = await describer.measure_tools(MeasureTools())
    functions = (await describer.describe_tools(DescribeTools(ids=("mcp:lab/read", "skill:calculate")))).functions
    assert (measured.tools, len(functions)) == (2, 4)
    assert measured.definition_bytes == sum(len(function.model_dump_json()) for function in functions)
