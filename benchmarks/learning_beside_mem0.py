"""Learning with a chat model beside mem0: what each keeps of the same answers of the same scripted model.

Each of ten services writes a log, and a day later the same log again. A scripted model behind a real HTTP server reads
each. It answers with a fixed mixture about three messages: a true fact with a literal quote, a fact whose quote is
nowhere, the true fact again, the true fact in other words, the same with another statement, and the true fact with
another value. skillbus is a whole system with its rules, database and review; mem0 gets the texts that skillbus sent to
the model, and its embeddings from the same server (hashed words). Nothing is sent beyond loopback. An item is grounded
if what it quotes occurs in those texts; it is a duplicate if another item says the same.

mem0 pins other dependencies: `uv` runs it in an environment of its own.

    python benchmarks/learning_beside_mem0.py [--services 10] [--runs 2] [--without-mem0]
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import uvloop
from measuring import BenchmarkParser, save_result

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.embedder.registry import CREATE_MODEL, CREATE_PROVIDER, CreateModel, CreateProvider, ModelKind
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, ExportKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_JOB,
    START_LEARNING,
    LearningFile,
    LearningInputKind,
    LearningJobSelector,
    LearningStatus,
    StartLearning,
)
from skillbus.contracts.message import Content
from skillbus.standalone.app import StandaloneSettings, open_standalone

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the scripted upstream is the tests'

from tests.scripted_answers import Answer, text_of
from tests.scripted_upstream import Exchange, ScriptedUpstream, serve_upstream

SERVICES: Final = (
    "orders", "billing", "search", "mail", "stock", "media", "login", "export", "chat", "maps",
)  # fmt: skip
MEM0: Final = "mem0ai==2.2.1"
CHILD: Final = Path(__file__).with_name("others") / "mem0_memory.py"
DIMENSIONS: Final = 256
ENDED: Final = {LearningStatus.DONE, LearningStatus.FAILED, LearningStatus.CANCELLED}


@dataclass(frozen=True)
class Topic:
    """Message of a log, and what a model says about it. `{s}` is the service, `{v}` the value, `{q}` the quote."""

    part: str
    message: str
    values: tuple[str, str]
    told: str
    reworded: str
    restated: str
    invented: str


TOPICS: Final = (
    Topic(
        "pool",
        "no connection of {s} is left for a new request",
        ("12", "30"),
        "The pool of {s} holds {v} connections and refuses further requests: `{q}`",
        "`{q}` is what callers of {s} get once all {v} slots are taken.",
        "With {v} open sessions the database side of {s} is full (`{q}`).",
        "Callers of {s} must close a session within an hour: `session of {s} was reaped`",
    ),
    Topic(
        "token",
        "signature of the {s} token was made with a retired key",
        ("a day", "a week"),
        "After a change of keys, old tokens for {s} stay valid for {v}; then `{q}` appears.",
        "Keys of {s} may be rotated, but leave {v} of overlap or see `{q}`.",
        "`{q}`: somebody used a token of {s} more than {v} after rotation.",
        "Tokens for {s} are bound to one address: `{s} token came from elsewhere`",
    ),
    Topic(
        "disk",
        "flush of {s} was postponed since the volume is read only",
        ("stops", "retries"),
        "When its volume becomes read only, {s} {v} without losing writes (`{q}`).",
        "`{q}` means that a remount made the storage immutable, upon which {s} {v}.",
        "On immutable storage the component {s} {v}; operators see `{q}`.",
        "Compaction of {s} needs twice the space: `{s} compaction ran out of space`",
    ),
)


@dataclass(frozen=True)
class Fact:
    """What a text says, whatever its words."""

    service: str
    part: str
    value: str


@dataclass
class Script:
    """The model: what it was sent about each service, and what its texts mean."""

    facts: dict[str, Fact] = field(default_factory=dict)
    sent: dict[str, list[str]] = field(default_factory=dict)
    """Texts that it read, by service."""
    proposed: int = 0

    def propose(self, text: str) -> list[dict[str, Any]]:
        """Return the mixture for the service that a text is about."""
        found = re.search(rf"\b({'|'.join(SERVICES)})\.(?:pool|token|disk)\b", text)
        if found is None:
            return []
        service = found[1]
        self.sent.setdefault(service, []).append(text)
        kinds = [[self._write(service, topic, kind) for topic in TOPICS] for kind in range(6)]
        items = [item for kind in kinds for item in kind]
        self.proposed += len(items)
        return items

    def _write(self, service: str, topic: Topic, kind: int) -> dict[str, Any]:
        true, other = topic.values
        form = (topic.told, topic.invented, topic.told, topic.reworded, topic.restated, topic.told)[kind]
        value = other if kind == 5 else "" if kind == 1 else true
        content = form.format(s=service, v=value, q=topic.message.format(s=service))
        self.facts[content] = Fact(service, f"{topic.part} invented" if kind == 1 else topic.part, value)
        predicate = {1: "demands", 4: "is limited by"}.get(kind, "behaves as")
        return {
            "candidate": None,
            "type": "module_context",
            "title": f"{topic.part.capitalize()} of {service}",
            "content": content,
            "scope": service,
            "tags": [],
            "subject": f"{topic.part} of {service}",
            "predicate": predicate,
            "value": value,
            "polarity": "fact",
            "evidence": [quote_of(content)],
        }

    async def answer(self, exchange: Exchange) -> None:
        """Answer a request of either side: chat of skillbus, chat or embeddings of mem0."""
        received = exchange.received
        if received.path.endswith("/embeddings"):
            texts = received.body["input"]
            texts = [texts] if isinstance(texts, str) else texts
            data = [{"object": "embedding", "index": at, "embedding": embed(text)} for at, text in enumerate(texts)]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            await exchange.reply({"object": "list", "model": "m", "data": data, "usage": usage})
            return
        text = text_of(received.body["messages"][-1]["content"])
        _, is_mem0, new = text.partition("## New Messages")
        items = self.propose(new if is_mem0 else text)
        said = {"memory": [{"text": it["content"]} for it in items]} if is_mem0 else {"items": items}
        await Answer(json.dumps(said | ({} if is_mem0 else {"nothing_found_reason": None})))(exchange)


def quote_of(content: str) -> str:
    """Return what a text quotes."""
    return content.split("`")[1] if content.count("`") > 1 else content


def embed(text: str) -> list[float]:
    """Return a vector of hashed words."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1.0
    length = sum(it * it for it in vector) ** 0.5 or 1.0
    return [it / length for it in vector]


def write_log(service: str, day: int) -> str:
    """Return a log in which each message occurs twenty times, between messages of work."""
    lines = []
    for at in range(240):
        stamp = f"2026-03-{day + 1:02} 10:{at // 60:02}:{at % 60:02}"
        if at % 4:
            lines.append(f"{stamp} INFO [{service}.http] request {at * 7919} took {at % 90} ms")
        else:
            topic = TOPICS[at // 4 % len(TOPICS)]
            lines.append(f"{stamp} ERROR [{service}.{topic.part}] {topic.message.format(s=service)}")
    return "\n".join(lines) + "\n"


async def run_skillbus(upstream: ScriptedUpstream, services: Sequence[str], runs: int) -> list[KnowledgeItem]:
    """Return all items of a system that learned from the logs."""
    os.environ["SKILLBUS_LEARNER_LEARNING_MODEL"] = "auto"
    with tempfile.TemporaryDirectory() as folder:
        async with open_standalone(StandaloneSettings(data=Path(folder) / "data", http_port=0)) as system:
            provider = {"name": "bench", "kind": "openai", "base_url": f"{upstream.url}/v1"}
            await system.bus.caller.call(CREATE_PROVIDER, CreateProvider.model_validate(provider))
            await system.bus.caller.call(CREATE_MODEL, CreateModel(provider="bench", name="m", kind=ModelKind.CHAT))
            for day in range(runs):
                for service in services:
                    await learn_log(system.bus, service, write_log(service, day))
            return await export_items(system.bus)


async def learn_log(bus: Bus, service: str, log: str) -> None:
    content = log.encode()
    held = Content(size_bytes=len(content), sha256=sha256(content).hexdigest(), inline=content)
    file = LearningFile(name=f"{service}.log", content=held)
    request = StartLearning(what=LearningInputKind.LOGS, source=service, files=(file,))
    job = (await bus.caller.call(START_LEARNING, request)).job
    assert job is not None
    selected = LearningJobSelector(id=job.id)
    ended = await eventually(lambda: bus.caller.call(GET_LEARNING_JOB, selected), lambda now: now.status in ENDED, 60.0)
    assert ended.status is LearningStatus.DONE, ended.error


async def export_items(bus: Bus) -> list[KnowledgeItem]:
    statuses = (KnowledgeStatus.PENDING, KnowledgeStatus.ACTIVE)
    items, after = list[KnowledgeItem](), None
    while True:
        page = await bus.caller.call(EXPORT_KNOWLEDGE, ExportKnowledge(statuses=statuses, after=after))
        items += page.items
        after = page.next
        if after is None:
            return items


async def run_mem0(upstream: ScriptedUpstream, texts: Sequence[str]) -> list[str]:
    """Return the memories that mem0 keeps of these texts."""
    uv = shutil.which("uv") or str(Path(__file__).resolve().parents[1] / ".uv/bin/uv")
    given = {"url": f"{upstream.url}/v1", "texts": texts, "dimensions": DIMENSIONS}
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder}
        command = [uv, "run", "--no-project", "--isolated", "--with", MEM0, "python", str(CHILD)]
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        printed, errors = await child.communicate(json.dumps(given).encode())
    if child.returncode != 0:
        sys.exit(errors.decode()[-2000:])
    found: list[str] = json.loads(printed)
    return found


def count_items(contents: Sequence[str], live: int, script: Script, texts: str) -> dict[str, int]:
    """Return how many items are kept, grounded, duplicate and contradictory."""
    meant = [script.facts[content] for content in contents]
    values: dict[tuple[str, str], set[str]] = {}
    for fact in set(meant):
        values.setdefault((fact.service, fact.part), set()).add(fact.value)
    return {
        "kept": len(contents),
        "grounded": sum(quote_of(content) in texts for content in contents),
        "duplicates": sum(many - 1 for many in Counter(meant).values()),
        "topics_with_two_values": sum(len(some) > 1 for some in values.values()),
        "true_topics_kept": len({(it.service, it.part) for it in meant if "invented" not in it.part}),
        "live_without_review": live,
    }


async def compare(services: Sequence[str], runs: int, *, with_mem0: bool) -> dict[str, object]:
    ours, theirs = Script(), Script()
    async with serve_upstream(lambda _: ours.answer) as upstream:
        items = await run_skillbus(upstream, services, runs)
        read = {service: ours.sent[service] for service in services}
        texts = [read[service][min(run, len(read[service]) - 1)] for run in range(runs) for service in services]
        upstream.script = lambda _: theirs.answer
        memories = await run_mem0(upstream, texts) if with_mem0 else []
    known, joined = ours.facts, "\n".join(texts)
    of_model = [item for item in items if item.content in known]
    live = sum(item.status is KnowledgeStatus.ACTIVE for item in of_model)
    figures: dict[str, object] = {
        "skillbus": count_items([item.content for item in of_model], live, ours, joined)
        | {"answers_read": sum(map(len, read.values())), "items_of_rules_besides": len(items) - len(of_model)}
    }
    if with_mem0:
        figures["mem0"] = count_items(memories, len(memories), theirs, joined) | {
            "answers_read": sum(map(len, theirs.sent.values()))
        }
    return figures


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--services", type=int, default=len(SERVICES), help="services with a log (%(default)s)")
    parser.add_argument("--runs", type=int, default=2, help="logs of each (%(default)s)")
    parser.add_argument("--without-mem0", action="store_true", help="measure skillbus only")
    given = parser.read_arguments()
    services = SERVICES[: given.services]
    figures = uvloop.run(compare(services, given.runs, with_mem0=not given.without_mem0))
    setting = {
        "services": len(services),
        "runs": given.runs,
        "true_topics": len(services) * len(TOPICS),
        "proposed": len(services) * given.runs * len(TOPICS) * 6,
        "mem0": MEM0,
    }
    save_result("learning_beside_mem0", {**setting, "figures": figures}, given.out)


if __name__ == "__main__":
    main()
