"""Steps of the demo: what a new user would do, through the HTTP API."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from skillbus.cli.client.http_api import KNOWLEDGE, TOOLS
from skillbus.cli.errors import CliError, DemoFailedError, LocalFileError
from skillbus.cli.knowledge.importer import import_files, list_markdown_files
from skillbus.cli.knowledge.view import format_context, render_short_hits
from skillbus.cli.output import CommandOutput, clean_text, format_number
from skillbus.cli.runs.runner import request_run
from skillbus.cli.skills.commands import request_skills
from skillbus.cli.skills.installer import install_all, render_results
from skillbus.cli.skills.packages import PackageToInstall
from skillbus.cli.tools.view import render_hits
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt, KnowledgeFound, SearchKnowledge
from skillbus.contracts.retriever.tool_search import ToolsFound
from skillbus.contracts.sandbox.skill_runs import RunStatus

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

CHINESE_QUERY: Final = "帮我提交代码"
ENGLISH_QUERY: Final = "how many working days are there between two dates"
KNOWLEDGE_QUERY: Final = "直播电商模块需要哪些header参数"
"""Source: knowledge-base.md § 语义检索相关知识."""
SCOPE: Final = "/api/live/*"
BUDGET_TOKENS: Final = 1_000
"""Without a tokenizer each byte counts as a token: three for a Chinese character, more than any model counts."""
ACTOR: Final = "skillbus demo"

_POLL_S: Final = 0.05
"""The HTTP API has nothing to wait on: the catalogue is asked until every skill in it is indexed."""
_INDEXED_WITHIN_S: Final = 60.0


SAMPLES: Final = {"git-commit": "change.diff", "excel-analysis": "report.xlsx", "csv-summary": "orders.csv"}
"""Skills of the examples, each with the file of `examples/data` that it is run on."""


@dataclass(slots=True)
class DemoStep:
    """One step and its result."""

    name: str
    facts: dict[str, object] = field(default_factory=dict)
    took_ms: int = 0
    error: CliError | None = None

    def document(self) -> dict[str, object]:
        """Return the step for programs."""
        document: dict[str, object] = {"step": self.name, "ok": self.error is None, "took_ms": self.took_ms}
        return document | self.facts | ({} if self.error is None else {"error": self.error.document()})


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """The steps so far."""

    steps: list[DemoStep] = field(default_factory=list)

    @contextmanager
    def begin_step(self, name: str) -> Iterator[DemoStep]:
        """Time a step. If it fails, its error is recorded and raised again."""
        step = DemoStep(name)
        self.steps.append(step)
        started = perf_counter()
        try:
            yield step
        except CliError as error:
            step.error = error
            raise
        finally:
            step.took_ms = round((perf_counter() - started) * 1000)

    @property
    def failed(self) -> DemoStep | None:
        """The step that failed."""
        return next((step for step in self.steps if step.error is not None), None)

    def document(self) -> dict[str, object]:
        """Return the demo for programs."""
        failed = self.failed
        return {
            "ok": failed is None,
            "failed": failed.name if failed else None,
            "steps": [step.document() for step in self.steps],
        }


@dataclass(frozen=True, slots=True)
class Demo:
    """Demo on a server that is ready. A second demo on the same data changes nothing."""

    connection: "ApiConnection"
    output: CommandOutput
    record: DemoRecord
    skills: tuple[Path, ...]
    """Folders of the skills to install."""
    samples: Path
    """Folder with the input files of the runs."""
    knowledge: Path
    """Folder with the knowledge items."""

    async def play(self) -> None:
        """Take all steps.

        Raises:
            CliError: A step failed; the record has its name.
        """
        names = await self._install_skills()
        await self._wait_until_indexed(names)
        found = await self._search_tools("search_chinese", CHINESE_QUERY)
        await self._search_tools("search_english", ENGLISH_QUERY)
        await self._run_skill(found)
        await self._import_knowledge()
        await self._search_knowledge()
        await self._build_context()

    async def _install_skills(self) -> frozenset[str]:
        with self.record.begin_step("install") as step:
            with self.output.show_progress("Installing", len(self.skills)) as begin_item:
                packages = [PackageToInstall(str(folder), folder) for folder in self.skills]
                results = await install_all(self.connection, packages, begin_item)
            step.facts["results"] = [result.document() for result in results]
            self._print_title(f"{format_number(len(results), 'skill')} from {self.skills[0].parent}")
            self.output.print_text(render_results(results))
            for result in results:
                if (error := result.error) is not None:
                    raise DemoFailedError("\n  ".join((f"{result.path}: {error.heading()}", *error.lines())))
            return frozenset(result.installed.name for result in results if result.installed is not None)

    async def _wait_until_indexed(self, names: frozenset[str]) -> None:
        with self.record.begin_step("index") as step:
            waiting = names
            try:
                async with asyncio.timeout(_INDEXED_WITHIN_S):
                    while waiting:
                        skills = await request_skills(self.connection, {})
                        waiting = names - {skill.name for skill in skills if skill.indexed}
                        await asyncio.sleep(_POLL_S if waiting else 0)
            except TimeoutError as error:
                late = ", ".join(sorted(waiting))
                raise DemoFailedError(f"not indexed within {_INDEXED_WITHIN_S:g} s: {late}") from error
            step.facts["indexed"] = sorted(names)
        self._print_title(f"All of them are indexed {step.took_ms} ms after the last installation")

    async def _search_tools(self, name: str, query: str) -> ToolsFound:
        with self.record.begin_step(name) as step:
            body = {"query": query, "limit": 5}
            found = await self.connection.request(ToolsFound, "POST", f"{TOOLS}/search", json=body)
            step.facts.update(query=query, **found.model_dump(mode="json"))
            self._print_title(f"Search: {query}")
            self.output.print_text(render_hits(found, explain=False))
            if not found.results:
                raise DemoFailedError(f"nothing was found for {query!r}")
            return found

    async def _run_skill(self, found: ToolsFound) -> None:
        with self.record.begin_step("run") as step:
            name = next((hit.name for hit in found.results if hit.name in SAMPLES), None)
            if name is None:
                hits = ", ".join(hit.name for hit in found.results)
                raise DemoFailedError(f"the demo has no arguments for any of {hits}", "Use examples/skills.")
            file = SAMPLES[name]
            path = self.samples / file
            try:
                content = b64encode(path.read_bytes()).decode()
            except OSError as error:
                detail = f"{path}: {error.strerror or error}"
                raise DemoFailedError(detail, "It belongs next to the folder of the skills.") from error
            reply = await request_run(self.connection, name, {"args": {"file": file}, "files": {file: content}})
            step.facts.update(name=name, **reply.model_dump(mode="json", exclude={"artifacts"}))
            duration = f"{reply.duration_ms:.0f} ms"
            self._print_title(f"Run: {name} on {file}, in {duration}, isolation: {reply.isolation}")
            message = reply.result.get("message") if isinstance(reply.result, dict) else None
            self.output.print_text(Text(clean_text(message if isinstance(message, str) else reply.stdout)))
            if reply.status is not RunStatus.OK:
                cause = reply.detail or reply.stderr
                raise DemoFailedError(f"{name} ended with {reply.status.value}, exit code {reply.exit_code}: {cause}")

    async def _import_knowledge(self) -> None:
        with self.record.begin_step("import_knowledge") as step:
            if not self.knowledge.is_dir():
                raise LocalFileError(
                    f"{self.knowledge} is not a folder", "It belongs next to the folder of the skills."
                )
            files = list_markdown_files(self.knowledge) or ()
            report = await import_files(self.output, self.connection, files, {"wait": "indexed"}, ACTOR)
            step.facts.update(report.model_dump(mode="json"))
            if report.results:
                raise DemoFailedError("\n  ".join(f"{it.file}: {it.error}" for it in report.results))
        counts = ", ".join(f"{number} {outcome}" for outcome, number in report.counts.items() if number)
        self._print_title(f"{report.total} knowledge items from {self.knowledge}: {counts}")

    async def _search_knowledge(self) -> None:
        with self.record.begin_step("search_knowledge") as step:
            request = SearchKnowledge(query=KNOWLEDGE_QUERY, scope=SCOPE, top_k=3, record_use=False)
            body = request.model_dump(mode="json", exclude_unset=True)
            found = await self.connection.request(KnowledgeFound, "POST", f"{KNOWLEDGE}/search", json=body)
            step.facts.update(query=KNOWLEDGE_QUERY, scope=SCOPE, **found.model_dump(mode="json"))
            self._print_title(f"Knowledge: {KNOWLEDGE_QUERY} (scope {SCOPE})")
            self.output.print_text(render_short_hits(found))
            if not found.results:
                raise DemoFailedError(f"nothing was found for {KNOWLEDGE_QUERY!r}")

    async def _build_context(self) -> None:
        with self.record.begin_step("build_context") as step:
            request = BuildContext(query=KNOWLEDGE_QUERY, scope=SCOPE, budget_tokens=BUDGET_TOKENS, record_use=False)
            body = request.model_dump(mode="json", exclude_unset=True)
            built = await self.connection.request(ContextBuilt, "POST", f"{KNOWLEDGE}/context", json=body)
            step.facts.update(built.model_dump(mode="json"))
            self._print_title(f"The same as a context for a model: {format_context(built)}")
            self.output.print_text(Text(clean_text(built.text)))
            if not built.items:
                raise DemoFailedError(f"no item fits a context of {BUDGET_TOKENS} tokens")

    def _print_title(self, line: str) -> None:
        self.output.print_text(Text(f"\n{clean_text(line)}", "bold"))
