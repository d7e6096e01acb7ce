"""LanceDB in process, in each of its configurations, for the comparison of searches."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Final

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS, Bitmap, IvfFlat, IvfPq
from lancedb.query import MatchQuery
from lancedb.rerankers import RRFReranker
from measuring import read_resident_bytes, summarize, time_call
from numpy.typing import NDArray
from tool_search_corpus import COLUMNS, LIMIT, TYPE, CatalogueTool, EmbeddedQuery

TRIAL: Final = 40
"""Requests of a trial of one configuration."""
RECALL: Final = 0.9
"""Share of the nearest tools that a configuration must find: a lower one would be fast for free."""
WHERE: Final = f"project = 'default' AND tool_type = '{TYPE.value}'"


@dataclass(frozen=True, slots=True)
class LanceForm:
    """A configuration of LanceDB."""

    index: str
    """`none`, `ivf_flat`, `ivf_pq`."""
    tokenizer: str
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class LanceTable:
    """A table of LanceDB with its indexes, and both of its interfaces."""

    blocking: lancedb.table.Table
    table: lancedb.AsyncTable
    form: LanceForm
    queries: Sequence[EmbeddedQuery]

    async def search_hybrid(self, number: int) -> int:
        """Search both sides, joined by LanceDB's own reranker; return the number of tools found."""
        query = self.queries[number]
        if not self.form.asynchronous:
            return self._search_blocking(query)
        both = self.table.query().nearest_to(query.vector).distance_type("cosine").nearest_to_text(_match_words(query))
        return len(await both.where(WHERE).select(COLUMNS).limit(LIMIT).rerank(RRFReranker()).to_list())

    def _search_blocking(self, query: EmbeddedQuery) -> int:
        both = self.blocking.search(query_type="hybrid").vector(query.vector).text(_match_words(query))
        found = both.distance_type("cosine").where(WHERE).select(COLUMNS).limit(LIMIT).rerank(RRFReranker())
        return len(found.to_list())

    async def search_sides(self, number: int) -> int:
        """Search both sides concurrently, not joined; only the asynchronous interface can."""
        words = self.table.query().nearest_to_text(_match_words(self.queries[number]))
        near, said = await asyncio.gather(
            self.find_nearest(number),
            words.where(WHERE).select([*COLUMNS, "_score"]).limit(LIMIT).to_list(),
        )
        return max(len(near), len(said))

    async def find_nearest(self, number: int) -> list[str]:
        """Return the ids of the nearest tools by vector alone."""
        query = self.table.query().nearest_to(self.queries[number].vector).distance_type("cosine")
        found = await query.where(WHERE).select([*COLUMNS, "_distance"]).limit(LIMIT).to_list()
        return [str(row["id"]) for row in found]


@dataclass(frozen=True, slots=True)
class LanceTrial:
    """Measured speed and recall of a configuration."""

    form: LanceForm
    p50_ms: float
    recall: float
    """Share of the ten nearest tools that its vector index finds; 1 for an exact search."""

    def describe(self) -> dict[str, object]:
        return {**asdict(self.form), "p50_ms": self.p50_ms, "dense_recall_at_10": round(self.recall, 3)}


def _match_words(query: EmbeddedQuery) -> MatchQuery:
    """Match any of the words; plain text with quotation marks would be a phrase."""
    return MatchQuery(query.text, "text")


@asynccontextmanager
async def open_lance_table(
    tools: Sequence[CatalogueTool], rows: NDArray[np.float32], form: LanceForm, queries: Sequence[EmbeddedQuery]
) -> AsyncGenerator[tuple[LanceTable, dict[str, float]]]:
    """Yield a compacted table, warmed by each query once, and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        before = read_resident_bytes()
        connection = await lancedb.connect_async(folder)
        table = await connection.create_table("tools", _build_table(tools, rows))
        await table.create_index("text", config=FTS(base_tokenizer=form.tokenizer))
        for column in ("project", "tool_type"):
            await table.create_index(column, config=Bitmap())
        if form.index != "none":
            kind = IvfFlat if form.index == "ivf_flat" else IvfPq
            await table.create_index("vector", config=kind(distance_type="cosine"))
        await table.optimize(cleanup_older_than=timedelta(0))
        opened = LanceTable(lancedb.connect(folder).open_table("tools"), table, form, queries)
        for number in range(len(queries)):
            await opened.search_hybrid(number)
        yield opened, {"memory_bytes_a_tool": round((read_resident_bytes() - before) / len(tools))}


def _build_table(tools: Sequence[CatalogueTool], rows: NDArray[np.float32]) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float32()), rows.shape[1])
    return pa.table(
        {
            "id": [tool.id for tool in tools],
            "project": ["default"] * len(tools),
            "name": [tool.name for tool in tools],
            "description": [tool.description for tool in tools],
            "tool_type": [tool.tool_type for tool in tools],
            "tags": pa.array([list(tool.tags) for tool in tools], pa.list_(pa.string())),
            "text": [tool.lexical_text for tool in tools],
            "vector": vectors,
        }
    )


async def try_lance_forms(
    tools: Sequence[CatalogueTool], rows: NDArray[np.float32], queries: Sequence[EmbeddedQuery]
) -> list[LanceTrial]:
    """Measure all configurations; the fastest is the first."""
    found: list[LanceTrial] = []
    for index, tokenizer in product(("none", "ivf_flat", "ivf_pq"), ("simple", "icu/split")):
        async with open_lance_table(tools, rows, LanceForm(index, tokenizer, True), queries[:TRIAL]) as (opened, _):
            both = [opened, replace(opened, form=LanceForm(index, tokenizer, False))]
            took = [[await time_call(it.search_hybrid, number) for it in both] for number in range(TRIAL)]
            near = [await opened.find_nearest(number) for number in range(TRIAL)]
        recall = _measure_recall(near, tools, rows, queries)
        columns = zip(*took, strict=True)
        found += [LanceTrial(it.form, summarize(ms)["p50"], recall) for it, ms in zip(both, columns, strict=True)]
    return sorted(found, key=lambda trial: trial.p50_ms)


def _measure_recall(
    near: Sequence[Sequence[str]],
    tools: Sequence[CatalogueTool],
    rows: NDArray[np.float32],
    queries: Sequence[EmbeddedQuery],
) -> float:
    """Return the share of the exact answers that these have."""
    of_type = np.array([row for row, tool in enumerate(tools) if tool.tool_type == TYPE.value])
    kept = rows[of_type]
    exact = [of_type[np.argsort(-(kept @ it.vector), kind="stable")[:LIMIT]] for it in queries[: len(near)]]
    pairs = zip(near, exact, strict=True)
    return float(np.mean([len({tools[row].id for row in best} & set(ids)) / LIMIT for ids, best in pairs]))
