"""A turn with two tool calls and a large catalogue: skillbus, pydantic-ai's own agent, FastMCP's search and code mode.

All ask the same scripted model in a process of its own, which answers at once. It calls the tool `calculate` twice, one
call a step, in the way that each side offers: as a function; by FastMCP's `search_tools` and `call_tool`; in code mode
by one program with both calls. The upstream counts tokens as bytes of the request's JSON / 4, so that they mean the
same everywhere. pydantic-ai's agent sends all definitions in each step. Times hold the upstream's reading of them.

With `--data`, a folder with tools.jsonl and queries.jsonl, it compares how often a right tool is among the first ten:
those that a turn of skillbus shows before its first step, and those that FastMCP's `search_tools` finds for the query.

FastMCP needs a newer `mcp` than skillbus: `uv` runs it in an environment of its own.

    python benchmarks/chat_turns_beside_others.py [--tools 5511] [--rounds 30] [--data DIR] [--queries 400]
"""

import asyncio
import json
import multiprocessing as mp
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvloop
from generator import generate_tools
from measuring import BenchmarkParser, save_result, summarize
from tool_import import import_all, number_tools

from skillbus.contracts.agent.chat import Chat
from skillbus.contracts.agent.turns import CHAT
from skillbus.contracts.embedder.registry import CREATE_MODEL, CREATE_PROVIDER, CreateModel, CreateProvider, ModelKind
from skillbus.evaluation.agent_report import AgentMeasure
from skillbus.evaluation.cases import load_cases
from skillbus.evaluation.runner import run_agent_evaluation
from skillbus.standalone.app import StandaloneSettings, open_standalone

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the scripted upstream is the tests'

from tests.scripted_answers import Answer, Call, Received
from tests.scripted_upstream import serve_upstream

SOURCE = "mcp:bench"
QUESTION = "What is 17 * 23, and 18 * 23? Calculate it."
CALCULATE = {
    "name": "calculate",
    "description": "Calculates an arithmetic expression.",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}
PROGRAM = """a = await call_tool("calculate", {"expression": "17 * 23"})
b = await call_tool("calculate", {"expression": "18 * 23"})
return [a, b]"""
CHILD = Path(__file__).with_name("others") / "fastmcp_agent.py"
FASTMCP = "fastmcp[code-mode]>=4.1,<5"


def script(received: Received) -> Answer:
    """Call the tool twice by the means that there are, then answer."""
    tokens = len(json.dumps(received.body)) // 4
    made = sum(message["role"] == "tool" for message in received.body["messages"])
    names = received.tool_names
    own = next((name for name in names if name in {"calculate", "builtin__calculate"}), None)
    arguments = {"expression": f"{17 + made} * 23"}
    calls: list[Call] = []
    if own is not None:
        calls = [Call(own, arguments)] if made < 2 else []
    elif "execute" in names:
        steps = [Call("search", {"query": "calculate arithmetic"}), Call("execute", {"code": PROGRAM})]
        calls = steps[made : made + 1]
    elif made == 0:
        calls = [Call("search_tools", {"query": "calculate arithmetic"})]
    elif made < 3:
        calls = [Call("call_tool", {"name": "calculate", "arguments": arguments})]
    return Answer(() if calls else "391 and 414.", calls, prompt_tokens=tokens)


def serve_here(pipe: Connection) -> None:
    async def serve() -> None:
        async with serve_upstream(script) as upstream:
            pipe.send(upstream.url)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


async def measure_skillbus(url: str, tools: list[Any], rounds: int, folder: Path) -> dict[str, Any]:
    async with open_standalone(StandaloneSettings(data=folder / "data", http_port=0)) as system:
        provider = {"name": "bench", "kind": "openai", "base_url": f"{url}/v1"}
        await system.bus.caller.call(CREATE_PROVIDER, CreateProvider.model_validate(provider))
        await system.bus.caller.call(CREATE_MODEL, CreateModel(provider="bench", name="m", kind=ModelKind.CHAT))
        await import_all(system.bus, number_tools(tools, len(tools), f"{SOURCE}/tool"), SOURCE)
        chat = Chat.model_validate({"messages": [{"role": "user", "content": QUESTION}]})

        async def take_turn() -> tuple[int, int]:
            ended = await system.bus.caller.call(CHAT, chat)
            return len(ended.steps), ended.usage.prompt_tokens

        return await measure_turns(take_turn, rounds)


async def measure_pydantic_ai(url: str, tools: list[Any], rounds: int) -> dict[str, Any]:
    from pydantic_ai import Agent, Tool  # noqa: PLC0415 - a second and 50 MB
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    async def answer(**_: object) -> int:
        return 391

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    made = [Tool.from_schema(answer, it["name"], it["description"], it.get("parameters") or {}) for it in tools]
    agent = Agent(model, tools=made)

    async def take_turn() -> tuple[int, int]:
        result = await agent.run(QUESTION)
        usage = result.usage() if callable(result.usage) else result.usage
        return usage.requests, usage.input_tokens

    return await measure_turns(take_turn, rounds)


async def measure_turns(take_turn: Any, rounds: int) -> dict[str, Any]:
    for _ in range(3):
        steps, tokens = await take_turn()
    took, cpu = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        await take_turn()
        took.append((time.perf_counter() - began) * 1e3)
        cpu.append((time.process_time() - used) * 1e3)
    return {"took_ms": took, "cpu_ms": cpu, "steps": steps, "tokens": tokens}


def run_fastmcp(url: str, tools: list[Any], rounds: int, judged: tuple[list[Any], list[str]]) -> dict[str, Any]:
    uv = shutil.which("uv") or str(Path(__file__).resolve().parents[1] / ".uv/bin/uv")
    given = {"url": url, "tools": tools, "question": QUESTION, "rounds": rounds}
    given |= {"judged_tools": judged[0], "questions": judged[1]}
    command = [uv, "run", "--no-project", "--isolated", "--with", FASTMCP, "--with", "httpx", "python", str(CHILD)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def compare_shown(data: Path, queries: int, found: list[list[str]]) -> dict[str, object]:
    """Return how often a right tool is among the first ten, by language."""
    cases = load_cases(data / "tools.jsonl", data / "queries.jsonl").sampled(queries)
    report = await run_agent_evaluation(cases, lambda *_: None)
    rows = {name_tool(row, tool.name): tool.id for row, tool in enumerate(cases.tools)}
    hits: dict[str, list[bool]] = {}
    for case, names in zip(cases.cases, found, strict=True):
        if case.wants:
            hits.setdefault(case.language, []).append(not case.relevant.isdisjoint(rows[name] for name in names))
    ours = {part.name: part.figures[AgentMeasure.HIT_AT_10].search.mean for part in report.slices}
    return {
        language: {
            "queries": len(some),
            "skillbus": round(ours[language], 3),
            "fastmcp_search": round(statistics.mean(some), 3),
        }
        for language, some in sorted(hits.items())
    }


def name_tool(row: int, name: str) -> str:
    """Return a unique name, of which FastMCP's search reads the words."""
    return f"{name}__{row}"


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--tools", type=int, default=5_511)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--data", type=Path, help="folder with tools.jsonl and queries.jsonl")
    parser.add_argument("--queries", type=int, default=400)
    given = parser.read_arguments()
    generated = generate_tools(given.tools)
    tools = [CALCULATE, *({**it, "name": f"{it['name']}_{row}"} for row, it in enumerate(generated))]
    judged: tuple[list[Any], list[str]] = ([], [])
    if given.data is not None:
        cases = load_cases(given.data / "tools.jsonl", given.data / "queries.jsonl").sampled(given.queries)
        dumped = [tool.model_dump(mode="json", include={"name", "description", "parameters"}) for tool in cases.tools]
        named = [{**it, "name": name_tool(row, it["name"])} for row, it in enumerate(dumped)]
        judged = (named, [case.query for case in cases.cases])
    ours, theirs = mp.get_context("spawn").Pipe()
    server = mp.get_context("spawn").Process(target=serve_here, args=(theirs,))
    server.start()
    try:
        url = ours.recv()
        with tempfile.TemporaryDirectory() as folder:
            sides = {"skillbus": uvloop.run(measure_skillbus(url, generated, given.rounds, Path(folder)))}
        sides["pydantic-ai"] = uvloop.run(measure_pydantic_ai(url, tools, given.rounds))
        fastmcp = run_fastmcp(url, tools, given.rounds, judged)
    finally:
        ours.send(None)
        server.join(5)
    sides |= {f"FastMCP, {name}": figures for name, figures in fastmcp["figures"].items()}
    figures: dict[str, object] = {
        name: {**it, "took_ms": summarize(it["took_ms"]), "cpu_ms": summarize(it["cpu_ms"])}
        for name, it in sides.items()
    }
    if given.data is not None:
        figures["right_tool_among_ten"] = uvloop.run(compare_shown(given.data, given.queries, fastmcp["found"]))
    setting = {"tools": given.tools, "rounds": given.rounds, "fastmcp": FASTMCP}
    save_result("chat_turns_beside_others", {**setting, "figures": figures}, given.out)


if __name__ == "__main__":
    main()
