"""`skillbus bench`."""

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import count, cycle
from secrets import token_hex
from typing import Annotated, Final

import httpx
import typer

from skillbus.cli.client.connection import ApiConnection
from skillbus.cli.client.http_api import COMMANDS, KNOWLEDGE, TOOLS
from skillbus.cli.errors import CliError, LocalFileError
from skillbus.cli.input_files import decode_text, read_input
from skillbus.cli.load.generator import MAX_CONNECTIONS, LoadGenerator
from skillbus.cli.load.http_sender import encode_request, parse_address
from skillbus.cli.load.report import LoadPhase, LoadReport
from skillbus.cli.load.view import render_load_report
from skillbus.cli.session import Session, remote_command
from skillbus.client.call import Call
from skillbus.contracts.indexer.commands import CommandsListed
from skillbus.contracts.indexer.tools import ToolsListed
from skillbus.contracts.learner.items import KnowledgeListed


class SearchKind(StrEnum):
    """Kind of entries that are searched."""

    TOOLS = "tools"
    KNOWLEDGE = "knowledge"
    COMMANDS = "commands"


Kind = Annotated[SearchKind, typer.Argument(metavar="KIND", help="What to search: tools, knowledge or commands.")]
QueryFile = Annotated[
    str | None,
    typer.Option(
        "--queries", metavar="FILE", help="JSON lines with `query`; - for standard input. Default: what is installed."
    ),
]
Connections = Annotated[
    list[int] | None,
    typer.Option(min=1, max=MAX_CONNECTIONS, help="Closed loop: connections that ask without a pause. Repeatable."),
]
Rates = Annotated[
    list[float] | None,
    typer.Option("--rate", min=0.1, max=10_000, help="Open loop: requests a second. Repeatable."),
]
Duration = Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds of each load.")]
NewTexts = Annotated[bool, typer.Option("--new", help="Make each text a new one, which is embedded.")]
WaitTime = Annotated[float, typer.Option("--timeout", min=0.1, max=600, help="Seconds to wait for a reply.")]

_PATHS: Final = {
    SearchKind.TOOLS: f"{TOOLS}/search",
    SearchKind.KNOWLEDGE: f"{KNOWLEDGE}/search",
    SearchKind.COMMANDS: f"{COMMANDS}/search",
}
_NOUNS: Final = {
    SearchKind.TOOLS: "tools",
    SearchKind.KNOWLEDGE: "knowledge items",
    SearchKind.COMMANDS: "commands",
}
_BODIES: Final[dict[SearchKind, dict[str, object]]] = {
    SearchKind.TOOLS: {"limit": 5},
    SearchKind.KNOWLEDGE: {"top_k": 5, "record_use": False},
    SearchKind.COMMANDS: {"limit": 5},
}
_CLOSED: Final = (1, 16)
_SHARE: Final = 0.5
"""Rate of the open loop that follows them, as a share of the best throughput."""
_QUERIES: Final = 100
_CHARACTERS: Final = 200


@remote_command("skillbus bench tools --rate 100 --duration 30")
async def measure_load(
    session: Session,
    kind: Kind = SearchKind.TOOLS,
    queries: QueryFile = None,
    connections: Connections = None,
    rates: Rates = None,
    duration: Duration = 10,
    new: NewTexts = False,
    wait_s: WaitTime = 30,
) -> None:
    """Measure how many searches a running server answers, and how fast.

    Without --connections and --rate: a closed loop of 1 and of 16 connections, then an open loop at half of the best
    throughput. Nothing is changed, and it counts as no use of knowledge. The server works at its limit meanwhile: do
    not do this to one that others need.
    """
    texts = _read_queries(queries) if queries else await _list_texts(session.connection, kind)
    if not texts:
        raise CliError(
            f"there are no {_NOUNS[kind]} to make queries of", "Import some, or give queries with --queries FILE."
        )
    client = session.connection.client
    generator = LoadGenerator(
        parse_address(httpx.URL(client.url)), _encode_requests(session, kind, texts, are_new=new), wait_s
    )
    phases: list[LoadPhase] = []
    try:
        with session.output.show_steps() as show_step:
            # Shows errors as every command does. Texts that were sent once are kept by the server.
            for done, text in enumerate(texts):
                show_step("bench", "sending each query once", done, len(texts))
                body = _build_body(session, kind, text)
                await session.connection.send("POST", _PATHS[kind], wait_s=wait_s, json=body)
            closed = connections or (() if rates else _CLOSED)
            total = len(closed) + len(rates or ()) if connections or rates else len(closed) + 1
            for number in closed:
                show_step("bench", f"closed loop, {number} at once", len(phases), total)
                samples = await generator.send_closed(number, duration)
                phases.append(LoadPhase.from_samples(samples, connections=number))
            for rate in _choose_rates(rates, connections, phases):
                show_step("bench", f"open loop, {rate:g}/s", len(phases), total)
                samples = await generator.send_open(rate, duration)
                phases.append(LoadPhase.from_samples(samples, rate=rate))
    finally:
        generator.close()
    report = LoadReport(kind=kind, queries=len(texts), texts="new" if new else "seen", phases=phases)
    session.output.show_result(report, lambda: render_load_report(report))


def _choose_rates(
    rates: Sequence[float] | None, connections: Sequence[int] | None, closed: Sequence[LoadPhase]
) -> Sequence[float]:
    """Return the rates that were asked for; without any wish, half of the best throughput."""
    if rates or connections:
        return rates or ()
    best = max(phase.answered_per_s for phase in closed)
    return (round(best * _SHARE, 1),) if best else ()


def _build_body(session: Session, kind: SearchKind, text: str) -> dict[str, object]:
    return {"query": text, **_BODIES[kind], **session.connection.scope}


def _encode_requests(session: Session, kind: SearchKind, texts: Sequence[str], *, are_new: bool) -> Iterator[bytes]:
    """Return requests without end. Texts that are not new are encoded once."""
    client = session.connection.client

    def encode(text: str) -> bytes:
        body = _build_body(session, kind, text)
        return encode_request(client.build_request(Call("POST", _PATHS[kind], {"json": body}, None)))

    if are_new:
        return map(encode, make_new_texts(texts))
    return cycle([encode(text) for text in texts])


def make_new_texts(texts: Sequence[str]) -> Iterator[str]:
    """Yield variants of texts without end: no two are the same, nor the same as those of another call."""
    call = token_hex(4)
    for number, text in zip(count(1), cycle(texts), strict=False):
        yield f"{text} {call} {number}"


def _read_queries(file: str) -> list[str]:
    texts: list[str] = []
    for number, line in enumerate(decode_text(read_input(file), file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        text = row.get("query") if isinstance(row, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise LocalFileError(f"{file}, line {number}: no query", 'A line is like {"query": "commit my work"}.')
        texts.append(text)
    if not texts:
        raise LocalFileError(f"{file} has no query", 'A line is like {"query": "commit my work"}.')
    return texts


async def _list_texts(connection: ApiConnection, kind: SearchKind) -> list[str]:
    """Return what describes the first tools, items or commands, as queries."""
    match kind:
        case SearchKind.TOOLS:
            tools, _ = await connection.list_rows(
                ToolsListed, TOOLS, {}, lambda page: (page.tools, page.next), page_size=_QUERIES, limit=_QUERIES
            )
            texts = [tool.description for tool in tools]
        case SearchKind.KNOWLEDGE:
            items, _ = await connection.list_rows(
                KnowledgeListed, KNOWLEDGE, {}, lambda page: (page.items, page.next), page_size=_QUERIES, limit=_QUERIES
            )
            texts = [item.title for item in items]
        case SearchKind.COMMANDS:
            commands, _ = await connection.list_rows(
                CommandsListed,
                COMMANDS,
                {},
                lambda page: (page.commands, page.next),
                page_size=_QUERIES,
                limit=_QUERIES,
            )
            texts = [text for command in commands for text in command.description.values()]
    return [text[:_CHARACTERS] for text in texts if text.strip()]
