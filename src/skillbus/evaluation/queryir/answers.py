"""Answers of a running system to spoken commands: puts homes and command library, and sends sentences over the bus."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from skillbus.common.bus.caller import Caller
from skillbus.common.paging import cut_batches, measure_json
from skillbus.contracts.indexer.commands import (
    MAX_COMMANDS,
    PUT_COMMANDS,
    CommandPut,
    CommandSpec,
    CommandsPut,
    PutCommands,
)
from skillbus.contracts.indexer.devices import (
    MAX_DEVICES,
    PUT_DEVICES,
    Device,
    DevicePut,
    DevicesPut,
    PutDevices,
    PutOutcome,
)
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.command_resolution import (
    PARSE_QUERY,
    RESOLVE_COMMAND,
    SEARCH_COMMANDS,
    CommandHit,
    ParseQuery,
    RecalledDevice,
    RecallReason,
    ResolveCommand,
    ResolvedQuery,
    SearchCommands,
)
from skillbus.evaluation.answers import NOT_INDEXED, PROJECT, Progress, build_refusal, send_concurrently
from skillbus.evaluation.cases import EvaluationError
from skillbus.evaluation.measures import DEPTH
from skillbus.evaluation.queryir.report import SentenceAnswer
from skillbus.evaluation.queryir.rows import QueryIrCases, SentenceRow

ValueT = TypeVar("ValueT", bound=Message)


async def collect_sentence_answers(caller: Caller, cases: QueryIrCases, progress: Progress) -> list[SentenceAnswer]:
    """Put the homes and the library, then parse each sentence, and resolve those of which the devices are known.

    Raises:
        EvaluationError: a device or command was refused, or not everything was indexed.
        RequestError: a service refused a request, or did not answer.
    """
    devices = [device for home in cases.homes.values() for device in home]
    await _put_devices(caller, devices, progress)
    await put_command_library(caller, cases.commands, progress)

    async def ask(number: int) -> SentenceAnswer:
        row = cases.rows[number]
        asked = ParseQuery(project=PROJECT, text=row.utterance, home=row.inventory)
        queries = (await caller.call(PARSE_QUERY, asked)).queries
        recalled = None if row.expected_devices is None else await _recall_devices(caller, row)
        return SentenceAnswer(queries, recalled)

    return await send_concurrently(len(cases.rows), ask, "Resolving", progress)


async def collect_command_hits(
    caller: Caller, commands: Sequence[CommandSpec], queries: Sequence[str], progress: Progress
) -> list[tuple[CommandHit, ...]]:
    """Put the library and return the ten best commands of each query. Raises as `collect_sentence_answers`."""
    await put_command_library(caller, commands, progress)

    async def search(number: int) -> tuple[CommandHit, ...]:
        request = SearchCommands(project=PROJECT, query=queries[number], limit=DEPTH)
        return (await caller.call(SEARCH_COMMANDS, request)).results

    return await send_concurrently(len(queries), search, "Searching", progress)


async def put_command_library(caller: Caller, commands: Sequence[CommandSpec], progress: Progress) -> None:
    """Put commands into the library. Raises as `collect_sentence_answers`."""

    async def put(batch: Sequence[CommandSpec]) -> CommandsPut:
        values = tuple(command.model_dump(mode="json") for command in batch)
        return await caller.call(PUT_COMMANDS, PutCommands(project=PROJECT, commands=values))

    await _put_all("command", commands, MAX_COMMANDS, put, progress)


async def _put_devices(caller: Caller, devices: Sequence[Device], progress: Progress) -> None:
    async def put(batch: Sequence[Device]) -> DevicesPut:
        values = tuple(device.model_dump(mode="json") for device in batch)
        return await caller.call(PUT_DEVICES, PutDevices(project=PROJECT, devices=values))

    await _put_all("device", devices, MAX_DEVICES, put, progress)


async def _put_all(
    noun: str,
    values: Sequence[ValueT],
    most: int,
    put: Callable[[Sequence[ValueT]], Awaitable[DevicesPut | CommandsPut]],
    progress: Progress,
) -> None:
    step, done = f"Importing {noun}s", 0
    for rows in cut_batches((measure_json(value) for value in values), max_items=most):
        reply = await put(values[rows])
        results: tuple[DevicePut | CommandPut, ...] = reply.results
        for result in results:
            if result.outcome is PutOutcome.REJECTED:
                raise build_refusal("indexer", noun, result.id, result.error)
        if not reply.indexed:
            raise EvaluationError(NOT_INDEXED)
        done += len(results)
        progress(step, done, len(values))


async def _recall_devices(caller: Caller, row: SentenceRow) -> frozenset[str]:
    request = ResolveCommand(project=PROJECT, text=row.utterance, home=row.inventory, last_mentioned=row.last_mentioned)
    reply = await caller.call(RESOLVE_COMMAND, request)
    return frozenset().union(*map(list_recalled_ids, reply.results))


def list_recalled_ids(result: ResolvedQuery) -> frozenset[str]:
    """Return the devices that a command of a sentence recalled: those of the result, candidates and dropped ones.

    Candidates that only have a similar name are left out.
    """
    found = [*result.devices, *(device for device in result.candidates if not _is_only_similar(device))]
    return frozenset([*(device.id for device in found), *(device.id for device in result.dropped)])


def _is_only_similar(device: RecalledDevice) -> bool:
    return set(device.reasons) == {RecallReason.SIMILAR_HIT}
