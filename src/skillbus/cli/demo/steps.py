"""The demo: what a newcomer would do, step by step, through the HTTP API."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.client.knowledge import KnowledgeClient
from skillbus.cli.client.replies import Ran
from skillbus.cli.client.skills import Client, JsonObject, RunOrder
from skillbus.cli.demo.knowledge import KnowledgeDemo
from skillbus.cli.demo.record import Record
from skillbus.cli.errors import DemoFailedError
from skillbus.cli.output import Output
from skillbus.cli.skills.install import install_all, table_of
from skillbus.cli.text import plain
from skillbus.contracts.retriever.tool_search import ToolsFound

CHINESE_QUERY: Final = "帮我提交代码"
ENGLISH_QUERY: Final = "how many working days are there between two dates"
ACTOR: Final = "skillbus demo"

_POLL_S: Final = 0.05
"""The HTTP API has nothing to wait on: the catalogue is asked until every skill in it is indexed."""
_INDEXED_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Real arguments for a skill of the examples; `file` is one of `examples/data`."""

    args: JsonObject
    file: str


SAMPLES: Final = {
    "git-commit": Sample({"file": "change.diff"}, "change.diff"),
    "excel-analysis": Sample({"file": "report.xlsx"}, "report.xlsx"),
    "csv-summary": Sample({"file": "orders.csv"}, "orders.csv"),
}


@dataclass(frozen=True, slots=True)
class Demo:
    """Plays on a server that is ready.

    `samples` is the folder of the files that skills are run on, `knowledge` that of items of knowledge.
    """

    client: Client
    output: Output
    record: Record
    skills: tuple[Path, ...]
    samples: Path
    knowledge: Path

    async def play(self) -> None:
        """All steps.

        Raises:
            CliError: of the step that failed; the record knows which.
        """
        names = await self._install()
        await self._wait_until_indexed(names)
        found = await self._search("search_chinese", CHINESE_QUERY)
        await self._search("search_english", ENGLISH_QUERY)
        await self._run(found)
        knowledge = KnowledgeClient(self.client.http, self.client.project, ACTOR)
        await KnowledgeDemo(knowledge, self.output, self.record, self.knowledge).play()

    async def _install(self) -> frozenset[str]:
        with self.record.step("install") as step:
            with self.output.progress("Installing", len(self.skills)) as next_item:
                results = await install_all(self.client, self.skills, next_item)
            step.facts["results"] = [result.document() for result in results]
            self._title(f"{len(results)} skills of {self.skills[0].parent}")
            self.output.say(table_of(results))
            for result in results:
                if result.error is not None:
                    raise DemoFailedError(
                        "\n  ".join((f"{result.path}: {result.error.heading()}", *result.error.lines()))
                    )
            return frozenset(result.installed.name for result in results if result.installed is not None)

    async def _wait_until_indexed(self, names: frozenset[str]) -> None:
        with self.record.step("index") as step:
            waiting = names
            try:
                async with asyncio.timeout(_INDEXED_WITHIN_S):
                    while waiting := names - await self._indexed():  # noqa: ASYNC110 (see _POLL_S)
                        await asyncio.sleep(_POLL_S)
            except TimeoutError as error:
                late = ", ".join(sorted(waiting))
                raise DemoFailedError(f"not indexed within {_INDEXED_WITHIN_S:g} s: {late}") from error
            step.facts["indexed"] = sorted(names)
        self._title(f"All of them indexed {step.took_ms} ms after the last was installed")

    async def _indexed(self) -> frozenset[str]:
        return frozenset(skill.name for skill in await self.client.skills() if skill.indexed)

    async def _search(self, name: str, query: str) -> ToolsFound:
        with self.record.step(name) as step:
            found = await self.client.search(query, limit=5)
            step.facts.update(query=query, **found.model_dump(mode="json"))
            self._title(f"Search: {query}")
            self.output.say(tables.hits(found, explain=False))
            if not found.results:
                raise DemoFailedError(f"nothing was found for {query!r}")
            return found

    async def _run(self, found: ToolsFound) -> Ran:
        with self.record.step("run") as step:
            name = next((hit.name for hit in found.results if hit.name in SAMPLES), None)
            if name is None:
                hits = ", ".join(hit.name for hit in found.results)
                raise DemoFailedError(f"no arguments are at hand for any of {hits}", "Play it on examples/skills.")
            ran = await self.client.run(self._order(name))
            step.facts.update(name=name, **ran.model_dump(mode="json", exclude={"artifacts"}))
            self._show_run(name, ran)
            if ran.status.value != "ok":
                raise DemoFailedError(
                    f"{name} ended with {ran.status.value}, exit code {ran.exit_code}: {ran.detail or ran.stderr}"
                )
            return ran

    def _order(self, name: str) -> RunOrder:
        sample = SAMPLES[name]
        path = self.samples / sample.file
        try:
            return RunOrder(name, args=sample.args, files={sample.file: path.read_bytes()})
        except OSError as error:
            raise DemoFailedError(f"{path}: {error.strerror or error}", "It belongs beside the skills.") from error

    def _show_run(self, name: str, ran: Ran) -> None:
        self._title(f"Run: {name} on {SAMPLES[name].file}, in {ran.duration_ms:.0f} ms, isolation: {ran.isolation}")
        result = ran.result
        message = result.get("message") if isinstance(result, dict) else None
        self.output.say(Text(plain(message if isinstance(message, str) else ran.stdout)))

    def _title(self, line: str) -> None:
        self.output.say(Text(f"\n{plain(line)}", "bold"))
