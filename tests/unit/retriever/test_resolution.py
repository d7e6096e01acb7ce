"""From commands of a sentence to devices: choice, arguments, questions, and what "it" stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.commands import CommandArgument
from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.command_resolution import (
    CommandResolved,
    DropReason,
    Parser,
    RecallReason,
    ResolutionStatus,
    ResolveCommand,
    ResolvedQuery,
)
from skillbus.contracts.retriever.query_ir import Quantifier, QueryArguments, QueryIR, Reference
from skillbus.queryir.home import Home
from skillbus.queryir.recall import recall_devices
from skillbus.queryir.sentence import SpeakerPlace
from skillbus.retriever.domain.commands.ports import CommandScores, ScoredCommand
from skillbus.retriever.domain.resolution.command_choice import CommandCheck
from skillbus.retriever.domain.resolution.outcome import decide_outcome
from skillbus.retriever.domain.resolution.ports import SentenceReading
from skillbus.retriever.domain.resolution.resolver import CommandResolver


def _device(key: str, name: str, room: str | None, kind: str, *can: str) -> Device:
    return Device(home="home", id=key, name=name, room=room, type=kind, capabilities=can)


_DEVICES = (
    _device("bed", "床头灯", "卧室", "light", "switch", "level"),
    _device("desk-a", "台灯", "书房", "light", "switch"),
    _device("desk-b", "台灯", "卧室", "light", "switch"),
    _device("door", "大门", "玄关", "lock", "lock"),
    _device("probe", "大门", "玄关", "sensor", "temperature"),
    _device("bare", "花瓶", "书房", "decoration"),
    _device("cool", "空调", "卧室", "climate", "switch", "cooling"),
    _device("hall", "走道开关", "玄关", "switch", "switch"),
    _device("wall", "墙壁开关", "厨房", "switch", "switch"),
)


def _command(key: str, *arguments: CommandArgument, **scores: float) -> tuple[ScoredCommand, Mapping[str, float]]:
    capability, _, command = key.partition(".")
    return ScoredCommand(key, capability, command, {"zh": key}, arguments, ()), scores


_LEVEL = CommandArgument(name="level", source="brightness", minimum=1, maximum=100, required=True)
_STEP = CommandArgument(name="by", source="brightness_step", required=True)
_LIBRARY = (
    _command("switch.on", 打开=0.9, 关闭=0.2),
    _command("switch.off", 打开=0.2, 关闭=0.9),
    _command("level.set", _LEVEL, 设置亮度=0.9),
    _command("level.step", _STEP, 设置亮度=0.7),
    _command("lock.lock", 锁上=0.9),
    _command("temperature.read", 查询温度=0.9, 打开=0.3),
    _command(
        "cooling.set", CommandArgument(name="celsius", source="temperature", minimum=16, maximum=30), 设置温度=0.9
    ),
    _command("cooling.mode", CommandArgument(name="mode", source="mode", values=("Cool", "Dry")), 设置模式=0.9),
    _command("switch.strange", 打开床头灯呀=0.8),
)


class _Homes:
    async def load_home(self, project: str, name: str) -> Home:
        if (project, name) != ("default", "home"):
            raise RequestError(ErrorCode.NOT_FOUND, f"There is no home {name}.")
        return Home("home", _DEVICES)


@dataclass
class _Dialogues:
    mentioned: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)

    async def load_mentioned(self, project: str, home: str, session: str) -> Sequence[str]:
        return self.mentioned.get((project, home, session), ())

    async def save_mentioned(self, project: str, home: str, session: str, devices: Sequence[str]) -> None:
        self.mentioned[project, home, session] = tuple(devices)


@dataclass
class _Parser:
    queries: tuple[QueryIR, ...] = ()
    place: SpeakerPlace | None = None

    async def read_sentence(self, project: str, text: str, home: Home | None, parser: Parser) -> SentenceReading:
        return SentenceReading(self.queries, "zh", place=self.place)


class _Scorer:
    async def score_commands(
        self, project: str, phrases: Sequence[str], capabilities: Sequence[str], command_ids: Sequence[str]
    ) -> CommandScores:
        return CommandScores(
            tuple(
                ScoredCommand(
                    command.id,
                    command.capability,
                    command.command,
                    command.description,
                    command.arguments,
                    tuple(scores.get(phrase, 0.1) for phrase in phrases),
                )
                for command, scores in _LIBRARY
                if command.capability in capabilities or command.id in command_ids
            )
        )


class _Similar:
    async def find_similar_devices(self, project: str, home: str, name: str, limit: int) -> Sequence[str]:
        return ["bed", "desk-b"] if name == "夜里的灯" else []


@dataclass
class _World:
    dialogues: _Dialogues = field(default_factory=_Dialogues)
    place: SpeakerPlace | None = None
    """Place of the speaker, if the sentence names it."""

    async def resolve_all(self, *queries: QueryIR, **fields: object) -> CommandResolved:
        resolver = CommandResolver(_Homes(), self.dialogues, _Parser(queries, self.place), _Scorer(), _Similar())
        request = {"text": "打开床头灯呀", "home": "home", **fields}
        return await resolver.resolve_command(ResolveCommand.model_validate(request))

    async def resolve(self, query: QueryIR, **fields: object) -> ResolvedQuery:
        (result,) = (await self.resolve_all(query, **fields)).results
        return result


@pytest.fixture
def world() -> _World:
    return _World()


_IT = (Reference.LAST_MENTIONED,)


def _query(action: str, name: str | None = None, **fields: object) -> QueryIR:
    return QueryIR.model_validate({"action": action, "name_hint": name, "confidence": 1.0, **fields})


def _ids(result: ResolvedQuery) -> list[str]:
    return [device.id for device in result.devices]


async def test_a_named_device_gets_its_best_command(world: _World) -> None:
    result = await world.resolve(_query("打开", "床头灯"))
    (device,) = result.devices
    assert (result.status, device.id, device.command.id) == (ResolutionStatus.RESOLVED, "bed", "switch.on")
    assert device.reasons == (RecallReason.NAME_HIT,)
    assert result.confidence == device.confidence == 0.9


async def test_of_a_reading_that_is_not_sure_nothing_is_resolved_but_a_device_whose_name_it_says(world: _World) -> None:
    by_type = await world.resolve(_query("打开", type_hint="light", confidence=0.6))
    by_name = await world.resolve(_query("打开", "床头灯", confidence=0.6))
    assert (by_type.status, _ids(by_type)) == (ResolutionStatus.AMBIGUOUS, [])
    assert by_type.candidates
    assert by_type.question
    assert _ids(by_name) == ["bed"]


async def test_the_room_of_the_speaker_makes_a_sentence_that_names_it_sure(world: _World) -> None:
    world.place = SpeakerPlace.OWN_ROOM
    mine = _query("打开", type_hint="switch", confidence=0.5)
    asked, resolved = await world.resolve(mine), await world.resolve(mine, room="玄关")
    assert (asked.status, [it.id for it in asked.candidates]) == (ResolutionStatus.AMBIGUOUS, ["hall", "wall"])
    assert (resolved.status, _ids(resolved)) == (ResolutionStatus.RESOLVED, ["hall"])
    assert resolved.query.scope_include == ("玄关",)


@pytest.mark.spec("context-retrieval.md § 无匹配命令被过滤")
async def test_a_device_whose_commands_do_not_fit_is_dropped_with_the_reason(world: _World) -> None:
    result = await world.resolve(_query("打开", type_hint="sensor"))
    (dropped,) = result.dropped
    assert (result.status, _ids(result)) == (ResolutionStatus.NO_COMMAND, [])
    assert (dropped.id, dropped.reason, dropped.best_score) == ("probe", DropReason.NO_COMMAND_FITS, 0.3)
    assert "temperature.read" in dropped.detail


async def test_a_device_without_capabilities_is_dropped(world: _World) -> None:
    result = await world.resolve(_query("打开", scope_include=("书房",)))
    assert _ids(result) == ["desk-a"]
    assert [(dropped.id, dropped.reason) for dropped in result.dropped] == [("bare", DropReason.NO_COMMANDS)]


async def test_the_threshold_is_a_filter(world: _World) -> None:
    assert (await world.resolve(_query("打开", "床头灯"), threshold=0.9)).status is ResolutionStatus.RESOLVED
    assert (await world.resolve(_query("打开", "床头灯"), threshold=0.91)).status is ResolutionStatus.NO_COMMAND
    assert (await world.resolve(_query("打开", type_hint="sensor"), threshold=0)).status is ResolutionStatus.RESOLVED


async def test_a_name_of_several_devices_is_ambiguous_unless_only_one_can_do_it(world: _World) -> None:
    result = await world.resolve(_query("打开", "台灯"))
    assert (result.status, _ids(result)) == (ResolutionStatus.AMBIGUOUS, [])
    assert [device.id for device in result.candidates] == ["desk-a", "desk-b"]
    assert result.question == "您指的是哪一个：书房的台灯、卧室的台灯？"
    assert _ids(await world.resolve(_query("打开", "台灯", scope_include=("书房",)))) == ["desk-a"]
    assert _ids(await world.resolve(_query("打开", "台灯", quantifier="all"))) == ["desk-a", "desk-b"]
    assert _ids(await world.resolve(_query("锁上", "大门"))) == ["door"]


async def test_one_takes_the_first_and_lists_the_others(world: _World) -> None:
    result = await world.resolve(_query("打开", type_hint="light", quantifier=Quantifier.ONE))
    assert (result.status, _ids(result)) == (ResolutionStatus.RESOLVED, ["bed"])
    assert [device.id for device in result.candidates] == ["desk-a", "desk-b"]


@pytest.mark.parametrize(
    ("quantifier", "count", "status"),
    [
        (Quantifier.SOME, None, ResolutionStatus.AMBIGUOUS),
        (Quantifier.COUNT, 2, ResolutionStatus.AMBIGUOUS),
        (Quantifier.COUNT, 3, ResolutionStatus.RESOLVED),
        (Quantifier.COUNT, 4, ResolutionStatus.AMBIGUOUS),
        (Quantifier.ALL, None, ResolutionStatus.RESOLVED),
        (None, None, ResolutionStatus.RESOLVED),
    ],
)
async def test_a_number_is_ambiguous_unless_it_is_the_number_of_devices(
    world: _World, quantifier: Quantifier | None, count: int | None, status: ResolutionStatus
) -> None:
    query = _query("打开", type_hint="light", quantifier=quantifier, arguments=QueryArguments(count=count))
    result = await world.resolve(query)
    assert result.status is status
    assert (result.question or "哪几个").count("哪几个") == 1


async def test_values_of_the_sentence_fill_the_arguments(world: _World) -> None:
    result = await world.resolve(_query("设置亮度", "床头灯", arguments=QueryArguments(brightness=30)))
    assert (result.devices[0].command.id, result.devices[0].command.arguments) == ("level.set", {"level": 30})
    result = await world.resolve(_query("设置模式", "空调", arguments=QueryArguments(mode="cool")))
    assert result.devices[0].command.arguments == {"mode": "Cool"}


async def test_a_command_that_lacks_its_value_gives_way_to_one_that_takes_the_given_value(world: _World) -> None:
    result = await world.resolve(_query("设置亮度", "床头灯", arguments=QueryArguments(brightness_step=-10)))
    assert (result.devices[0].command.id, result.devices[0].command.arguments) == ("level.step", {"by": -10})


@pytest.mark.parametrize(
    ("action", "name", "values"),
    [
        ("设置亮度", "床头灯", {"brightness": 0}),
        ("设置亮度", "床头灯", {}),
        ("设置温度", "空调", {"temperature": 31}),
        ("设置模式", "空调", {"mode": "heat"}),
    ],
)
async def test_a_value_that_the_command_does_not_accept_drops_the_device(
    world: _World, action: str, name: str, values: dict[str, object]
) -> None:
    result = await world.resolve(_query(action, name, arguments=QueryArguments.model_validate(values)))
    assert (result.status, _ids(result)) == (ResolutionStatus.NO_COMMAND, [])
    assert [dropped.reason for dropped in result.dropped] == [DropReason.ARGUMENT_REFUSED]


async def test_a_step_is_never_sent_to_a_command_that_takes_only_the_whole_value(world: _World) -> None:
    """Without its optional value the command would do something else, or nothing."""
    result = await world.resolve(_query("设置温度", "空调", arguments=QueryArguments(temperature_step=1)))
    (dropped,) = result.dropped
    assert (result.status, dropped.reason) == (ResolutionStatus.NO_COMMAND, DropReason.ARGUMENT_REFUSED)
    assert "celsius needs a value for temperature, and a step is none" in dropped.detail


async def test_it_stands_for_the_devices_of_the_session_and_of_nobody_else(world: _World) -> None:
    await world.resolve(_query("打开", "床头灯"), session="kitchen.*>")
    assert _ids(await world.resolve(_query("关闭", references=_IT), session="kitchen.*>")) == ["bed"]
    for other in ("kitchen", "kitchen.*", None):
        result = await world.resolve(_query("关闭", references=_IT), session=other)
        assert (result.status, result.question) == (ResolutionStatus.UNRESOLVED, "您指的是哪个设备？")


async def test_the_request_may_say_what_was_mentioned(world: _World) -> None:
    await world.resolve(_query("打开", "床头灯"), session="s")
    for mentioned, found in ((["cool"], ["cool"]), ([], []), (["gone"], [])):
        result = await world.resolve(_query("打开", references=_IT), session="s", last_mentioned=mentioned)
        assert _ids(result) == found


async def test_it_in_the_second_command_stands_for_the_device_of_the_first(world: _World) -> None:
    await world.resolve(_query("打开", "空调"), session="s")
    both = await world.resolve_all(
        _query("打开", "床头灯"),
        _query("设置亮度", references=_IT, arguments=QueryArguments(brightness=50)),
        session="s",
    )
    assert [_ids(result) for result in both.results] == [["bed"], ["bed"]]


async def test_after_a_command_that_was_not_clear_it_stands_for_nothing(world: _World) -> None:
    await world.resolve(_query("打开", "床头灯"), session="s")
    for unclear in (_query("打开", "台灯"), _query("打开", "不存在的灯")):
        results = (await world.resolve_all(unclear, _query("关闭", references=_IT), session="s")).results
        assert results[1].status is ResolutionStatus.UNRESOLVED
        assert (await world.resolve(_query("关闭", references=_IT), session="s")).status is ResolutionStatus.UNRESOLVED


async def test_devices_that_have_no_command_were_mentioned_all_the_same(world: _World) -> None:
    await world.resolve(_query("锁上", "床头灯"), session="s")
    assert _ids(await world.resolve(_query("打开", references=_IT), session="s")) == ["bed"]


async def test_a_name_that_nobody_has_gives_devices_of_similar_names_to_choose_from(world: _World) -> None:
    result = await world.resolve(_query("打开", "夜里的灯"))
    assert result.status is ResolutionStatus.AMBIGUOUS
    assert [(device.id, device.reasons[0]) for device in result.candidates] == [
        ("bed", RecallReason.SIMILAR_HIT),
        ("desk-b", RecallReason.SIMILAR_HIT),
    ]
    scoped = await world.resolve(_query("打开", "夜里的灯", scope_include=("书房",)))
    assert (scoped.status, scoped.candidates) == (ResolutionStatus.NO_DEVICE, ())


async def test_several_devices_of_a_near_type_are_asked_about(world: _World) -> None:
    result = await world.resolve(_query("打开", type_hint="outlet", quantifier="all"))
    assert (result.status, [device.id for device in result.candidates]) == (
        ResolutionStatus.AMBIGUOUS,
        ["hall", "wall"],
    )
    assert _ids(await world.resolve(_query("打开", type_hint="outlet", scope_include=("玄关",)))) == ["hall"]
    assert _ids(await world.resolve(_query("打开", type_hint="switch"))) == ["hall", "wall"]


async def test_a_type_that_nobody_has_is_no_device(world: _World) -> None:
    assert (await world.resolve(_query("打开", type_hint="submarine"))).status is ResolutionStatus.NO_DEVICE


async def test_an_exclusion_that_nobody_has_is_asked_about(world: _World) -> None:
    result = await world.resolve(_query("关闭", type_hint="light", scope_exclude=("地下室",), quantifier="except"))
    assert (result.status, _ids(result)) == (ResolutionStatus.NO_DEVICE, [])
    assert result.question is not None
    assert "地下室" in result.question


async def test_without_an_action_the_whole_sentence_is_compared_with_the_commands(world: _World) -> None:
    assert (await world.resolve(_query("", "床头灯"))).devices[0].command.id == "switch.strange"
    assert (await world.resolve(_query("", "大门"))).status is ResolutionStatus.NOT_UNDERSTOOD


async def test_a_command_without_a_target_is_asked_about(world: _World) -> None:
    result = await world.resolve(_query("打开"))
    assert (result.status, result.question) == (ResolutionStatus.UNRESOLVED, "要操作哪个设备？")
    assert (await world.resolve(_query(""))).status is ResolutionStatus.NOT_UNDERSTOOD


async def test_a_sentence_that_is_no_command_has_no_results(world: _World) -> None:
    await world.resolve(_query("打开", "床头灯"), session="s")
    assert (await world.resolve_all(session="s")).results == ()
    assert _ids(await world.resolve(_query("关闭", references=_IT), session="s")) == ["bed"]


async def test_devices_beyond_the_room_of_a_message_are_counted(world: _World) -> None:
    matches = recall_devices(_query("打开", scope_include=("卧室",)), Home("home", _DEVICES)).matches
    scores = await _Scorer().score_commands("default", ("打开",), ("switch", "level", "cooling"), ())
    check = CommandCheck(scores.commands, QueryArguments(), 0.5)
    query = _query("打开", scope_include=("卧室",))
    whole, _ = decide_outcome(query, matches, check, "zh", 100_000)
    size = sum(len(device.model_dump_json().encode()) + 1 for device in whole.devices)
    cut, mentioned = decide_outcome(query, matches, check, "zh", size - 1)
    assert (_ids(cut), cut.more_devices) == (_ids(whole)[:-1], 1)
    assert list(mentioned or ()) == _ids(whole) == ["bed", "desk-b", "cool"]


async def test_the_times_of_the_stages_are_told(world: _World) -> None:
    reply = await world.resolve_all(_query("打开", "床头灯"), _query("打开", "台灯"))
    assert [(stage.name, stage.candidates) for stage in reply.stages] == [
        ("home", 9),
        ("parse", 0),
        ("recall", 3),
        ("commands", 1),
    ]


async def test_the_home_of_another_project_is_not_found(world: _World) -> None:
    with pytest.raises(RequestError) as raised:
        await world.resolve(_query("打开", "床头灯"), project="other")
    assert raised.value.code is ErrorCode.NOT_FOUND
