"""The part of the demo that is about knowledge: what a team knows, asked for by meaning and scope."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text

from skillbus.cli.client.knowledge import KnowledgeClient
from skillbus.cli.demo.record import Record
from skillbus.cli.errors import DemoFailedError, LocalFileError
from skillbus.cli.knowledge import search_view as knowledge_hits
from skillbus.cli.knowledge.importer import import_files, markdown_files
from skillbus.cli.output import Output
from skillbus.cli.text import plain
from skillbus.contracts.retriever.knowledge_search import BuildContext, SearchKnowledge

QUESTION: Final = "直播电商模块需要哪些header参数"
"""Source: knowledge-base.md § 语义检索相关知识."""
SCOPE: Final = "/api/live/*"
BUDGET_TOKENS: Final = 1_000
"""Without a tokenizer each byte counts as one: of Chinese three a character, more than any model counts."""


def knowledge_files(folder: Path) -> tuple[Path, ...]:
    """The items of the examples.

    Raises:
        LocalFileError: There are none.
    """
    if not folder.is_dir():
        raise LocalFileError(f"{folder} is no folder", "It belongs beside the skills.")
    return markdown_files(folder) or ()


@dataclass(frozen=True, slots=True)
class KnowledgeDemo:
    """Plays on a server that is ready. A second time it changes nothing."""

    client: KnowledgeClient
    output: Output
    record: Record
    folder: Path

    async def play(self) -> None:
        """All steps.

        Raises:
            CliError: of the step that failed; the record knows which.
        """
        await self._import()
        await self._search()
        await self._context()

    async def _import(self) -> None:
        with self.record.step("import_knowledge") as step:
            files = knowledge_files(self.folder)
            report = await import_files(self.output, self.client, files, {})
            step.facts.update(report.model_dump(mode="json"))
            if report.results:
                wrong = (f"{it.file}: {it.error}" for it in report.results)
                raise DemoFailedError("\n  ".join(wrong))
        self._title(f"{report.total} items of knowledge of {self.folder}, {_said(report.counts)}")

    async def _search(self) -> None:
        with self.record.step("search_knowledge") as step:
            asked = SearchKnowledge(query=QUESTION, scope=SCOPE, top_k=3, record_use=False)
            found = await self.client.search(asked.model_dump(mode="json", exclude_unset=True))
            step.facts.update(query=QUESTION, scope=SCOPE, **found.model_dump(mode="json"))
            self._title(f"Knowledge: {QUESTION} (scope {SCOPE})")
            self.output.say(knowledge_hits.short(found))
            if not found.results:
                raise DemoFailedError(f"nothing was found for {QUESTION!r}")

    async def _context(self) -> None:
        with self.record.step("build_context") as step:
            asked = BuildContext(query=QUESTION, scope=SCOPE, budget_tokens=BUDGET_TOKENS, record_use=False)
            built = await self.client.context(asked.model_dump(mode="json", exclude_unset=True))
            step.facts.update(built.model_dump(mode="json"))
            self._title(f"The same as a context for a model: {knowledge_hits.how_built(built)}")
            self.output.say(Text(plain(built.text)))
            if not built.items:
                raise DemoFailedError(f"no item fits a context of {BUDGET_TOKENS} tokens")

    def _title(self, line: str) -> None:
        self.output.say(Text(f"\n{plain(line)}", "bold"))


def _said(counts: dict[str, int]) -> str:
    said: Sequence[str] = [f"{number} {outcome}" for outcome, number in counts.items() if number]
    return ", ".join(said)
