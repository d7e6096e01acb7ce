"""Chats with OpenAI's own Python client, a scripted model behind a real HTTP server, and everything between them."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from typer.testing import CliRunner

from skillbus.cli.__main__ import create_app
from skillbus.common.testing import WAIT_S

from ..scripted_answers import Answer, Call, Received, build_chunk
from ..scripted_upstream import Exchange, ScriptedUpstream, fail, play_in_order, serve_upstream
from .conftest import ROOT, System, skill_package
from .node_programs import NEEDS_NODE, execute, http_environment, install_packages

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION: Any = [{"role": "user", "content": "What is 17 * 23? Calculate it."}]
WEATHER: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
CALL = Call("builtin__calculate", {"expression": "17 * 23"})
TURN_ENDPOINT = "/v1/chat/runs/"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registered(system: System) -> AsyncGenerator[ScriptedUpstream]:
    """A chat model that is registered as a user would do it, once chats were tried without any."""
    answer = await system.http.post("/v1/chat/completions", json={"messages": QUESTION})
    assert answer.status_code == 503
    assert "skillbus models add" in answer.json()["error"]["message"]
    async with serve_upstream(lambda _: Answer("Hello.")) as upstream:
        provider = {"name": "scripted", "kind": "openai", "base_url": f"{upstream.url}/v1"}
        assert (await system.http.post("/api/embedding/providers", json=provider)).status_code == 201
        model = {"provider": "scripted", "name": "small", "kind": "chat"}
        assert (await system.http.post("/api/embedding/models", json=model)).status_code == 201
        yield upstream


@pytest.fixture
def upstream(registered: ScriptedUpstream) -> ScriptedUpstream:
    registered.script = lambda _: Answer("Hello.")
    registered.received.clear()
    return registered


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(system: System) -> AsyncGenerator[openai.AsyncOpenAI]:
    http = httpx.AsyncClient(trust_env=False, headers=system.standalone.http_headers)
    url = f"{system.standalone.http_url}/v1"
    key = str(system.standalone.http_headers["Authorization"]).removeprefix("Bearer ")
    async with openai.AsyncOpenAI(base_url=url, api_key=key, http_client=http, max_retries=0) as opened:
        yield opened


@pytest.mark.spec("tool-system.md § ChatController POST /v1/chat/completions")
async def test_a_chat_finds_calls_and_answers(client: openai.AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    reply = await client.chat.completions.create(model="auto", messages=QUESTION)
    assert reply.choices[0].message.content == "It is 391."
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].message.tool_calls is None
    assert reply.usage is not None
    assert reply.usage.total_tokens == 30
    assert "391" in upstream.received[1].results[0]
    # What search finds for the words of the user is shown before the first step.
    assert {"builtin__search_tools", "builtin__calculate"} <= set(upstream.received[0].tool_names)
    extension: Any = reply.model_extra
    assert extension["skillbus"]["tool_calls"] == 1


async def test_a_stream_has_the_text_of_the_reply_the_usage_and_no_call_of_ours(
    client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.script = play_in_order(Answer("Let me see.", [CALL]), Answer(["It is ", "391."]))
    stream = await client.chat.completions.create(
        model="scripted/small", messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Let me see.\n\nIt is 391."
    assert not any(delta.tool_calls for delta in deltas)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 20
    assert len({chunk.id for chunk in chunks}) == 1


async def test_steps_are_told_in_a_stream_that_asks_for_them(
    client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    stream = await client.chat.completions.create(
        model="auto", messages=QUESTION, stream=True, metadata={"skillbus": json.dumps({"events": True})}
    )
    chunks = [chunk async for chunk in stream]
    assert {chunk.model for chunk in chunks} == {"small"}
    extras = [chunk.model_extra or {} for chunk in chunks]
    told: list[Mapping[str, Any]] = [extra["skillbus"] for extra in extras if "skillbus" in extra]
    assert [one.get("kind") for one in told] == ["calling", "called", "step", None]
    assert told[1]["call"]["text"] == "391"
    assert told[-1]["disclosure"]["shown_tools"] >= 2


async def test_the_callers_tool_goes_through_two_turns(client: openai.AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.script = play_in_order(
        Answer((), [CALL]), Answer((), [Call("get_weather", {"city": "Oslo"})]), Answer("Rain, and 391.")
    )
    first = await client.chat.completions.create(model="auto", messages=QUESTION, tools=WEATHER)
    assert first.choices[0].finish_reason == "tool_calls"
    [call] = first.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})
    messages = [
        *QUESTION,
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    second = await client.chat.completions.create(model="auto", messages=messages, tools=WEATHER)
    assert second.choices[0].message.content == "Rain, and 391."
    # The model knows the step that the caller never saw.
    roles = [message["role"] for message in upstream.received[2].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


async def test_the_callers_calls_are_streamed_whole(client: openai.AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.script = lambda _: Answer((), [Call("get_weather", {"city": "Oslo"})])
    stream = await client.chat.completions.create(model="auto", messages=QUESTION, tools=WEATHER, stream=True)
    chunks = [chunk async for chunk in stream]
    (call,) = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert call.index == 0
    assert call.function is not None
    assert json.loads(call.function.arguments or "") == {"city": "Oslo"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.spec("tool-system.md § API兼容性: 聊天API")
async def test_options_and_unknown_fields_reach_the_model(
    client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    await client.chat.completions.create(
        model="auto",
        messages=QUESTION,
        temperature=0.2,
        max_completion_tokens=50,
        stop="END",
        seed=7,
        user="me",
        response_format={"type": "json_object"},
        extra_body={"min_p": 0.1},
        metadata={"skillbus": json.dumps({"disclose": False})},
    )
    body = upstream.received[0].body
    wanted = {"temperature": 0.2, "stop": ["END"], "seed": 7, "user": "me", "min_p": 0.1}
    assert {name: body.get(name) for name in wanted} == wanted
    assert body["response_format"] == {"type": "json_object"}
    assert 50 in {body.get("max_completion_tokens"), body.get("max_tokens")}
    assert "tools" not in body
    assert "metadata" not in body


@pytest.mark.spec("tool-type.md § 7.1 LLM Agent 据 toolType 选择调用策略")
async def test_a_skill_and_a_builtin_tool_are_called_in_one_step(
    system: System, client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    package = skill_package("greeter", "Greets people in their language.", {"scripts/main.py": "print('Hei!')\n"})
    assert (await system.install(package)).status_code == 201
    upstream.script = play_in_order(
        Answer((), [Call("builtin__search_tools", {"query": "greet somebody"})]),
        Answer((), [Call("skill__greeter"), CALL]),
        Answer("Hei!"),
    )
    await client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "Greet Kari."}])
    assert "skill__greeter" in upstream.received[1].tool_names
    # By its type, one runs in the sandbox and the other in the agent.
    assert "Hei!" in upstream.received[2].results[0]
    assert "391" in upstream.received[2].results[1]


async def test_instructions_of_a_skill_without_a_script_are_named_and_can_be_read(
    system: System, client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    package = skill_package("house-style", "How we write release notes.", {"style.md": "Short sentences."})
    assert (await system.install(package)).status_code == 201
    upstream.script = play_in_order(
        Answer((), [Call("builtin__search_tools", {"query": "how to write release notes"})]),
        Answer((), [Call("builtin__read_skill", {"name": "house-style", "path": "style.md"})]),
        Answer("Done."),
    )
    messages: Any = [{"role": "user", "content": "Write release notes in our style."}]
    await client.chat.completions.create(model="auto", messages=messages)
    assert "house-style" in upstream.received[0].body["messages"][0]["content"]
    assert "Short sentences." in upstream.received[2].results[0]


async def test_knowledge_is_given_recorded_as_used_and_cited(
    system: System, client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    item = {"title": "Live rooms", "content": "Every request to live rooms needs the header X-Room.", "type": "note"}
    made = (await system.http.post("/api/knowledge", json=item)).json()
    upstream.script = lambda received: Answer(f"Send X-Room [K-{made['item']['id']} v1].")
    reply = await client.chat.completions.create(
        model="auto",
        messages=[{"role": "user", "content": "Which header do live rooms need?"}],
        metadata={"skillbus": json.dumps({"knowledge": {"budget": 1000}})},
    )
    assert "X-Room" in upstream.received[0].body["messages"][-1]["content"]
    extension: Any = reply.model_extra
    item = made["item"]["id"]
    assert extension["skillbus"]["citations"] == [{"label": f"K-{item} v1", "item_id": item}]


@pytest.mark.parametrize(
    ("given", "status", "word"),
    [
        ({"model": "no-such"}, 404, "no-such"),
        ({"messages": []}, 400, "messages"),
        ({"n": 2}, 400, "n"),
        ({"metadata": {"skillbus": "{"}}, 400, "JSON"),
        ({"metadata": {"skillbus": {"knowlege": {}}}}, 400, "knowlege"),
        ({"metadata": {"skillbus": {"limits": {"stepz": 3}}}}, 400, "stepz"),
    ],
)
async def test_a_wrong_request_is_refused_with_its_reason(
    system: System, upstream: ScriptedUpstream, given: dict[str, Any], status: int, word: str
) -> None:
    body = {"model": "auto", "messages": QUESTION, **given}
    for stream in (False, True):
        answer = await system.http.post("/v1/chat/completions", json={**body, "stream": stream})
        assert answer.status_code == status, answer.text
        assert word in answer.json()["error"]["message"]
    assert upstream.received == []


async def test_a_busy_provider_is_told_as_openai_tells_it(
    client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.script = lambda _: fail(429, retry_after="4000")
    for stream in (False, True):
        with pytest.raises(openai.RateLimitError) as raised:
            await client.chat.completions.create(model="auto", messages=QUESTION, stream=stream)
        assert (raised.value.type, raised.value.code) == ("rate_limit_error", "rate_limit_exceeded")
        assert raised.value.response.headers["Retry-After"] == "4000"
    upstream.script = lambda _: Answer("Hello.")
    assert (await client.chat.completions.create(model="auto", messages=QUESTION)).choices


async def test_leaving_a_stream_cancels_the_request_to_the_model(
    client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    gone = asyncio.Event()

    async def drip(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(b'data: {"choices":[{"index":0,"delta":{"content":"Once"}}]}\n\n')
        await exchange.closed.wait()
        gone.set()

    upstream.script = lambda _: drip
    stream = await client.chat.completions.create(model="auto", messages=QUESTION, stream=True)
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    await stream.close()
    async with asyncio.timeout(WAIT_S):
        await gone.wait()


async def test_a_turn_is_followed_again_by_its_id_and_cancelled(system: System, upstream: ScriptedUpstream) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        asked.set()
        await release.wait()
        await Answer("At last.")(exchange)

    upstream.script = lambda _: wait
    question = {"model": "auto", "messages": QUESTION}
    turn = asyncio.create_task(system.http.post("/v1/chat/completions", json=question))
    async with asyncio.timeout(WAIT_S):
        await asked.wait()
        release.set()
        done = await turn
    turn_id = done.headers["X-Skillbus-Turn"]
    answer = await system.http.get(f"{TURN_ENDPOINT}{turn_id}")
    assert '"content":"At last."' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    last = [int(line[4:]) for line in answer.text.splitlines() if line.startswith("id: ")][-1]
    rest = await system.http.get(f"{TURN_ENDPOINT}{turn_id}", params={"after": last - 1})
    assert "At last." not in rest.text
    cancelled = await system.http.delete(f"{TURN_ENDPOINT}{turn_id}")
    assert cancelled.json() == {"turn_id": turn_id, "ending": False}
    unknown = await system.http.get(f"{TURN_ENDPOINT}{'0' * 32}")
    assert unknown.status_code == 404


@NEEDS_NODE
@pytest.mark.timeout(180)
async def test_openais_client_for_node_chats_streams_calls_its_own_tool_and_cancels(
    system: System, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    gone = asyncio.Event()

    async def drip(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(build_chunk({"content": "Once"}))
        await exchange.closed.wait()
        gone.set()

    folder = tmp_path / "openai"
    shutil.copytree(ROOT / "examples/clients/openai", folder, ignore=shutil.ignore_patterns("node_modules"))
    await install_packages(folder)
    upstream.script = play_in_order(
        *(Answer((), [CALL]), Answer("It is 391.")),
        *(Answer("Let me see.", [CALL]), Answer(["It is ", "391."])),
        *(Answer((), [CALL]), Answer((), [Call("get_weather", {"city": "Oslo"})]), Answer("Rain, and 391.")),
        drip,
    )
    ran = await execute("node", "chat.mjs", "What is 17 * 23?", folder=folder, **http_environment(system))
    assert ran.status == 0, ran
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"step": "ask", "text": "It is 391.", "finish": "stop", "tokens": 30},
        {"step": "stream", "text": "Let me see.\n\nIt is 391.", "tokens": 30},
        {"step": "callTool", "text": "Rain, and 391.", "called": ["Oslo"]},
        {"step": "cancel", "text": "Once"},
    ]
    async with asyncio.timeout(WAIT_S):
        await gone.wait()


@pytest_asyncio.fixture(loop_scope="module")
async def marked(system: System) -> AsyncGenerator[None]:
    """The tool `calculate`, marked for approval."""
    path = "/api/tools/builtin:calculate/approval"
    assert (await system.http.post(path, json={"required": True})).json()["requires_approval"]
    yield
    assert (await system.http.post(path, json={"required": False})).status_code == 200


@pytest.mark.usefixtures("marked")
async def test_a_call_that_needs_it_waits_for_its_approval_and_the_turn_goes_on(
    system: System, client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    stream = await client.chat.completions.create(
        model="auto", messages=QUESTION, stream=True, metadata={"skillbus": json.dumps({"events": True})}
    )
    made = (
        await system.http.post("/api/keys", json={"label": "other", "role": "runner", "projects": ["default"]})
    ).json()
    told = list[Mapping[str, Any]]()
    async for chunk in stream:
        extra: Any = chunk.model_extra
        told += [extra["skillbus"]] if "skillbus" in extra else []
        if told and told[-1].get("kind") == "approval_required":
            waiting = told[-1]["approval"]
            assert (waiting["id"], waiting["arguments"]) == ("builtin:calculate", {"expression": "17 * 23"})
            path = f"{TURN_ENDPOINT}{chunk.id}/approve"
            body = {"decisions": [{"call_id": waiting["call_id"], "approved": True}]}
            foreign = await system.http.post(path, json=body, headers={"Authorization": f"Bearer {made['key']}"})
            elsewhere = await system.http.post(path, params={"project": "elsewhere"}, json=body)
            unknown = {"call_id": "call_none", "approved": True}
            taken = await system.http.post(path, json={"decisions": [unknown, *body["decisions"]]})
            again = await system.http.post(path, json=body)
            assert (foreign.status_code, elsewhere.status_code, again.status_code) == (403, 404, 404)
            assert [one["taken"] for one in taken.json()["decisions"]] == [False, True]
    kinds = [one.get("kind") for one in told]
    assert kinds == ["calling", "approval_required", "approval_decided", "called", "step", None]
    assert told[2]["approval"]["outcome"] == "approved"
    assert "391" in upstream.received[1].results[0]
    facts = (await system.http.get("/api/audit-log", params={"act": "decide_call"})).json()["facts"]
    decided = [fact for fact in facts if fact["subjects"] == [waiting["call_id"]] and fact["outcome"] == "done"]
    assert [fact["details"]["tool"] for fact in decided] == ["builtin:calculate"]
    assert decided[0]["details"]["approved"]


@pytest.mark.usefixtures("marked")
async def test_the_key_that_started_a_turn_may_approve_its_calls(system: System, upstream: ScriptedUpstream) -> None:
    upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    made = await system.http.post("/api/keys", json={"label": "mine", "role": "runner", "projects": ["default"]})
    mine = {"Authorization": f"Bearer {made.json()['key']}"}
    asked = {"model": "auto", "messages": QUESTION, "stream": True, "metadata": {"skillbus": '{"events": true}'}}
    answers = list[int]()
    async with system.http.stream("POST", "/v1/chat/completions", json=asked, headers=mine) as stream:
        async for line in stream.aiter_lines():
            if "approval_required" in line:
                chunk = json.loads(line.removeprefix("data: "))
                decision = {"call_id": chunk["skillbus"]["approval"]["call_id"], "approved": True}
                path = f"{TURN_ENDPOINT}{chunk['id']}/approve"
                answer = await system.http.post(path, json={"decisions": [decision]}, headers=mine)
                answers.append(answer.status_code)
    assert answers == [200]


@pytest.mark.usefixtures("marked")
async def test_a_program_waits_in_its_middle_for_the_approval_of_a_call_and_goes_on(
    system: System, client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    code = 'found = await call_tool("builtin:calculate", expression="17 * 23")\nfound["structured"]["result"]'
    refusal = f"try:\n    {code.partition(chr(10))[0]}\nexcept ToolError as error:\n    print(error.code)"
    direct = await system.http.post("/api/tools/builtin:run_code/call", json={"arguments": {"code": refusal}})
    assert "approval_required" in direct.text  # outside of a turn nobody can be asked
    upstream.script = play_in_order(Answer((), [Call("builtin__run_code", {"code": code})]), Answer("It is 391."))
    options = {"events": True, "tools": ["builtin:run_code"]}
    stream = await client.chat.completions.create(
        model="auto", messages=QUESTION, stream=True, metadata={"skillbus": json.dumps(options)}
    )
    told = list[Mapping[str, Any]]()
    async for chunk in stream:
        extra: Any = chunk.model_extra
        told += [extra["skillbus"]] if "skillbus" in extra else []
        if told and told[-1].get("kind") == "approval_required":
            body = {"decisions": [{"call_id": told[-1]["approval"]["call_id"], "approved": True}]}
            assert (await system.http.post(f"{TURN_ENDPOINT}{chunk.id}/approve", json=body)).status_code == 200
    calling, required, decided, inner, called, *_ = told
    assert (required["kind"], required["approval"]["id"]) == ("approval_required", "builtin:calculate")
    assert required["approval"]["program_call_id"] == calling["call"]["call_id"]
    assert decided["approval"]["outcome"] == "approved"
    assert inner["call"]["call_id"] == required["approval"]["call_id"]
    assert "391" in called["call"]["text"]


async def test_the_calls_of_a_program_are_told_one_by_one_below_it(
    system: System, client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    code = (
        'found = await call_tool("builtin:calculate", expression="17 * 23")\n'
        'try:\n    await call_tool("builtin:nothing", text="x" * 2000)\n'
        'except ToolError as error:\n    print(error.code)\nfound["structured"]["result"]'
    )
    upstream.script = play_in_order(Answer((), [Call("builtin__run_code", {"code": code})]), Answer("It is 391."))
    options = json.dumps({"events": True, "tools": ["builtin:run_code"]})
    stream = await client.chat.completions.create(
        model="auto", messages=QUESTION, stream=True, metadata={"skillbus": options}
    )
    extras = [chunk.model_extra or {} async for chunk in stream]
    told: list[Any] = [extra["skillbus"] for extra in extras if "skillbus" in extra]
    calling, first, second, called, step, ended = told
    assert [one.get("kind") for one in told] == ["calling", "called", "called", "called", "step", None]
    program = calling["call"]["call_id"]
    assert [one["call"].get("program_call_id") for one in (first, second, called)] == [program, program, None]
    assert (first["call"]["id"], first["call"]["arguments"]) == ("builtin:calculate", {"expression": "17 * 23"})
    assert ("391" in first["call"]["text"], first["call"]["is_error"]) == (True, False)
    assert len(first["call"]["run_id"]) == 32
    assert (second["call"]["id"], second["call"]["is_error"]) == ("builtin:nothing", True)
    assert second["call"]["text"].startswith("Not done: there is no builtin tool")
    assert second["call"]["arguments"] == {}  # too long to be told
    assert second["call"].get("run_id") is None
    assert (called["call"]["call_id"], called["call"]["program_calls"]) == (program, 2)
    assert [one["call_id"] for one in step["step"]["calls"]] == [program]
    assert ended["tool_calls"] == 1


@pytest.mark.usefixtures("marked")
async def test_a_client_that_follows_no_steps_gets_an_answer_that_says_what_was_not_called(
    client: openai.AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.script = play_in_order(Answer((), [CALL]), Answer("I may not."))
    reply = await client.chat.completions.create(model="auto", messages=QUESTION)
    assert (reply.choices[0].message.content or "").startswith(
        "I may not.\n\n[Not called, because a person has to approve it: builtin:calculate."
    )
    assert reply.choices[0].finish_reason == "stop"
    extension: Any = reply.model_extra
    assert extension["skillbus"]["unapproved"] == ["builtin:calculate"]
    assert "needs the approval of a person" in upstream.received[1].results[0]


async def test_null_is_as_absent_where_clients_send_it(system: System, upstream: ScriptedUpstream) -> None:
    earlier = {"role": "assistant", "content": "Hi.", "tool_calls": None, "refusal": None, "audio": None}
    function = {"name": "get_weather", "description": None, "parameters": None}
    body = {"model": "auto", "messages": [earlier, *QUESTION], "stream_options": None, "metadata": {"skillbus": None}}
    for tools in (None, [{"type": "function", "function": function}]):
        answer = await system.http.post("/v1/chat/completions", json={**body, "tools": tools})
        assert answer.status_code == 200, answer.text


def script_everything(received: Received) -> Answer:
    return Answer("391.") if received.results else Answer((), [CALL])


async def test_chats_at_once_all_get_their_answers(client: openai.AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.script = script_everything
    async with asyncio.timeout(60):
        replies = await asyncio.gather(
            *(client.chat.completions.create(model="auto", messages=QUESTION) for _ in range(30))
        )
    assert {reply.choices[0].message.content for reply in replies} == {"391."}


async def test_the_command_shows_text_calls_and_what_the_turn_took(system: System, upstream: ScriptedUpstream) -> None:
    upstream.script = play_in_order(Answer("Let me see.", [CALL]), Answer(["It is ", "391 [K-made-up v1]."]))
    address = {"SKILLBUS_URL": str(system.http.base_url), "SKILLBUS_DATA": str(system.data)}
    words = ["chat", "What is 17 * 23?", "--tool", "builtin:calculate", "--knowledge", "*"]
    with capture_logs():  # the server logs to the standard output of this process
        result = await asyncio.to_thread(CliRunner().invoke, create_app(), words, env=address)
    assert (result.exit_code, result.stdout) == (0, "Let me see.\n\nIt is 391 [K-made-up v1].\n"), result.stderr
    calling, called, summary = result.stderr.splitlines()
    assert calling == 'calls builtin:calculate expression="17 * 23"'
    assert called.startswith("builtin:calculate in ")
    assert called.endswith("ms: 391")
    assert summary.startswith("2 steps, 1 tool call, 30 tokens (20 in, 10 out); ")
    assert "cited but not given: K-made-up v1; scripted/small" in summary
