"""Every request, event and feed of skillbus: the source of the documents and of the tests that cover all of them."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.agent import approvals, mcp_servers, model_test, tool_calls, turns
from skillbus.contracts.embedder import chat_models, embedding, registry
from skillbus.contracts.endpoint import Endpoint, Event, Feed, WorkLine
from skillbus.contracts.indexer import (
    audit_log,
    commands,
    dead_letters,
    devices,
    index_switch,
    index_writes,
    skills,
    tool_approval,
    tool_functions,
    tools,
)
from skillbus.contracts.learner import bulk, index, items, learning_jobs, projects, proposals, usage, versions
from skillbus.contracts.message import Message
from skillbus.contracts.retriever import command_resolution, knowledge_search, nearest_knowledge, tool_search
from skillbus.contracts.sandbox import program_runs, run_history, skill_runs

T = TypeVar("T")

_MODULES: Final = (
    *(embedding, registry, chat_models, embedder),
    *(skills, tools, tool_approval, tool_functions, devices, commands, index_switch, index_writes),
    *(dead_letters, audit_log, indexer),
    *(tool_search, command_resolution, knowledge_search, nearest_knowledge, retriever),
    *(skill_runs, program_runs, run_history, sandbox),
    *(mcp_servers, model_test, tool_calls, turns, approvals, agent),
    *(items, versions, proposals, bulk, projects, usage, index, learning_jobs, learner),
)


def _list_constants(kind: type[T]) -> Iterator[T]:
    """Yield the constants of a kind, module by module, in the order of their definition."""
    for module in _MODULES:
        yield from (value for value in vars(module).values() if isinstance(value, kind))


ENDPOINTS: Final[tuple[Endpoint[Message, Message], ...]] = tuple(_list_constants(Endpoint))
EVENTS: Final[tuple[Event[Message], ...]] = tuple(_list_constants(Event))
FEEDS: Final[tuple[Feed[Message], ...]] = tuple(_list_constants(Feed))
WORK_LINES: Final[tuple[WorkLine[Message, Message], ...]] = tuple(_list_constants(WorkLine))
SERVICES: Final[Mapping[str, str]] = {
    embedder.SERVICE: "Embeds texts, and keeps the registry of providers and models.",
    indexer.SERVICE: "Keeps skills, the catalogue of tools, devices and their commands, and writes the indexes.",
    retriever.SERVICE: "Searches tools, commands and knowledge, builds contexts, and resolves spoken commands.",
    sandbox.SERVICE: "Runs skills in isolation, and keeps the history of runs.",
    agent.SERVICE: "Answers chats with a model that calls tools, follows MCP servers, and calls tools of every type.",
    learner.SERVICE: "Keeps the knowledge base with its items, versions, usage and projects, and learns from files.",
}
"""Description of each service that answers requests."""
