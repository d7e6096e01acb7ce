"""Runs an evaluation on a separate system: embedder, learner, indexer and retriever on their own bus."""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.caller import Caller
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    GET_MODEL,
    UPDATE_MODEL,
    CreateModel,
    ModelSelector,
    UpdateModel,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.embedder.domain.model import ModelFactory
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.evaluation.agent_report import AgentTurnsReport, build_agent_report
from skillbus.evaluation.agent_turns import collect_agent_answers
from skillbus.evaluation.answers import Progress, collect_answers, collect_knowledge_answers
from skillbus.evaluation.cases import Cases
from skillbus.evaluation.knowledge_cases import KnowledgeCases
from skillbus.evaluation.knowledge_report import KnowledgeReport, build_knowledge_report
from skillbus.evaluation.queryir.answers import collect_command_hits, collect_sentence_answers
from skillbus.evaluation.queryir.command_queries import CommandCases
from skillbus.evaluation.queryir.report import (
    CommandReport,
    QueryIrReport,
    build_command_report,
    build_queryir_report,
)
from skillbus.evaluation.queryir.rows import QueryIrCases
from skillbus.evaluation.report import Report, build_report
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

_LOCAL: Final = "local"
_PREFIX: Final = "skillbus-evaluation-"


async def run_tool_evaluation(
    cases: Cases, progress: Progress, model: str | None = None, models: ModelFactory | None = None
) -> Report:
    """Evaluate tool search on these cases, in a temporary folder that is removed afterwards.

    Args:
        cases: Catalogue and requests.
        progress: Callback of each step.
        model: Name of a local model, or None for the default one.
        models: Model factory to use in place of the real one, for tests.

    Raises:
        EvaluationError: a tool was refused or not indexed.
        RequestError: there is no such model, or a service does not answer.
        StartError: the system does not start.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        async with open_system(Path(folder), model, models) as bus:
            answers = await collect_answers(bus.caller, cases, progress)
    return build_report(cases, answers)


async def run_agent_evaluation(
    cases: Cases, progress: Progress, model: str | None = None, models: ModelFactory | None = None
) -> AgentTurnsReport:
    """Evaluate what chats are shown on these cases. Arguments and errors are those of `run_tool_evaluation`."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        async with open_system(Path(folder), model, models) as bus:
            answers = await collect_agent_answers(bus.caller, cases, progress)
    return build_agent_report(cases, answers)


async def run_knowledge_evaluation(
    cases: KnowledgeCases, progress: Progress, model: str | None = None, models: ModelFactory | None = None
) -> KnowledgeReport:
    """Evaluate knowledge search on these cases. Arguments and errors are those of `run_tool_evaluation`."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        async with open_system(Path(folder), model, models) as bus:
            answers = await collect_knowledge_answers(bus.caller, cases, progress)
    return build_knowledge_report(cases, answers)


async def run_queryir_evaluation(
    cases: QueryIrCases, progress: Progress, model: str | None = None, models: ModelFactory | None = None
) -> QueryIrReport:
    """Evaluate the reading of spoken commands. Arguments and errors are those of `run_tool_evaluation`."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        async with open_system(Path(folder), model, models) as bus:
            answers = await collect_sentence_answers(bus.caller, cases, progress)
    return build_queryir_report(cases, answers)


async def run_command_evaluation(
    cases: CommandCases, progress: Progress, model: str | None = None, models: ModelFactory | None = None
) -> CommandReport:
    """Evaluate the search of commands. Arguments and errors are those of `run_tool_evaluation`."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        async with open_system(Path(folder), model, models) as bus:
            queries = [query.query for query in cases.queries]
            hits = await collect_command_hits(bus.caller, cases.commands, queries, progress)
    return build_command_report(cases.queries, hits)


@asynccontextmanager
async def open_system(data: Path, model: str | None = None, models: ModelFactory | None = None) -> AsyncGenerator[Bus]:
    """Run the services with all data in this folder. Raises like `run_tool_evaluation`."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_nats_server(data / "nats"))
        address = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(address, "skillbus-evaluation", CollectorRegistry()))
        await provision(bus.jetstream)
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), models))
        if model is not None:
            await _make_default(bus.caller, model)
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(data=data), store))
        yield bus


async def _make_default(caller: Caller, name: str) -> None:
    """Make a model the default. Must run before the indexer starts, which indexes with the default model."""
    try:
        known = await caller.call(GET_MODEL, ModelSelector(id=name))
    except RequestError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
        await caller.call(CREATE_MODEL, CreateModel(provider=_LOCAL, name=name, is_default=True))
        return
    await caller.call(UPDATE_MODEL, UpdateModel(id=known.id, is_default=True))
