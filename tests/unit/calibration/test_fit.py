import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from skillbus.calibration.bm25 import Bm25, Floats, build_search_encoder
from skillbus.calibration.effect import measure_effect
from skillbus.calibration.errors import NoSignalError, TooLittleError, UnusableVectorsError
from skillbus.calibration.fit import check_enough, fit_calibration, fit_listwise
from skillbus.calibration.judged import Judged, JudgedQuery, JudgedTool
from skillbus.calibration.pairs import Survey, build_survey
from skillbus.calibration.vectors import Rows, build_vectors, embed_judged, list_query_texts
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import Calibration
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.score import NEUTRAL, build_relevance

from .synthetic import judged, vectors


def pairs_of(data: Judged, *, signal: float, common: float = 0.0, seed: int = 2) -> Survey:
    return build_survey(data, vectors(data, signal=signal, common=common, seed=seed), LexicalEncoder())


def fit(data: Judged, *, signal: float, common: float = 0.0, seed: int = 2) -> Calibration:
    return fit_calibration(data, pairs_of(data, signal=signal, common=common, seed=seed))


def known_truth(slope: float, lexical: float) -> tuple[Judged, Survey]:
    """Thousands of queries, each of which wants the one candidate that the softmax of these weights draws."""
    data = judged(40, 3_000)
    pairs = pairs_of(data, signal=0.7)
    candidates, random = pairs.candidates, np.random.default_rng(5)
    near = np.clip(candidates.cosine, 0.01, 0.999)
    scores = slope * np.log(near / (1 - near)) + lexical * candidates.words
    noisy = scores + random.gumbel(size=len(scores))
    best = np.maximum.reduceat(noisy, candidates.start)[candidates.query]
    return data, replace(pairs, candidates=replace(candidates, relevant=noisy == best))


@pytest.mark.parametrize(("slope", "lexical"), [(2.0, 0.5), (0.5, 2.0), (1.0, 1.0)])
def test_weights_that_made_the_truth_are_found_again(slope: float, lexical: float) -> None:
    data, pairs = known_truth(slope, lexical)
    found = fit_listwise(data, pairs.candidates, data.answerable)
    assert found == pytest.approx([slope, lexical], rel=0.12)


def test_better_vectors_get_the_steeper_map() -> None:
    data = judged(60, 400)
    weak, strong = fit(data, signal=0.5), fit(data, signal=2.0)
    assert strong.slope > weak.slope


def misled() -> Judged:
    """Queries that say the word of a tool that they do not want."""
    data = judged(60, 600, words=0.0)
    queries = tuple(
        JudgedQuery(query=f"please zword{(row + 7) % 60}", relevant=query.relevant)
        for row, query in enumerate(data.queries)
    )
    return replace(data, queries=queries)


def test_words_that_point_to_the_wrong_tool_weigh_nothing() -> None:
    found = fit(misled(), signal=0.5)
    assert found.lexical == 0.0
    assert found.slope > 0


def test_a_model_whose_cosines_are_all_high_gets_a_map_that_tells_them_apart() -> None:
    data = judged(60, 600)
    pairs = pairs_of(data, signal=1.0, common=2.0)
    assert measure_effect(None, data, pairs).random_above_half > 0.95
    after = measure_effect(fit_calibration(data, pairs), data, pairs)
    assert after.random_above_half < 0.2
    assert after.right_above_half > 0.6


def test_what_was_fitted_tells_right_from_wrong_better_than_a_map_that_trusts_the_wrong_words() -> None:
    data = misled()
    pairs = pairs_of(data, signal=0.5)
    assert measure_effect(fit_calibration(data, pairs), data, pairs).auc > measure_effect(None, data, pairs).auc + 0.01


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("signal", "common"), [(0.8, 0.0), (5.0, 0.0), (50.0, 0.0)])
def test_a_few_queries_give_numbers_near_the_neutral_ones(seed: int, signal: float, common: float) -> None:
    found = fit(judged(30, 12, seed=seed), signal=signal, common=common, seed=seed)
    assert NEUTRAL.dense / 3 < found.slope < NEUTRAL.dense * 3
    assert 0 <= found.lexical < NEUTRAL.lexical * 3
    assert abs(found.offset) < 2.5


def test_more_queries_lead_farther_from_the_neutral_map() -> None:
    few, many = (fit(judged(30, queries), signal=5.0).slope for queries in (12, 1_200))
    assert abs(math.log(many)) > abs(math.log(few)) > 0


def test_the_same_data_give_the_same_numbers() -> None:
    data = judged(30, 40)
    assert fit(data, signal=1.0) == fit(data, signal=1.0)


def test_sources_weigh_the_same_however_many_queries_each_has() -> None:
    """Words are right in one source and wrong in the other, which has nine times as many queries."""
    data = judged(40, 400, words=1.0)
    queries = tuple(
        query
        if row % 10 == 0
        else JudgedQuery(query=f"please zword{(row + 7) % 40}", relevant=query.relevant, source="other")
        for row, query in enumerate(data.queries)
    )
    mixed = replace(data, queries=queries)
    alike = replace(data, queries=tuple(query.model_copy(update={"source": ""}) for query in queries))
    assert fit(mixed, signal=1.0).lexical > fit(alike, signal=1.0).lexical


def test_the_score_rises_with_the_cosine() -> None:
    data = judged(30, 40)
    pairs = pairs_of(data, signal=1.0)
    found = fit_calibration(data, pairs)
    scores = measure_effect(found, data, pairs).scores
    assert list(scores) == sorted(scores)
    assert scores[0] == build_relevance(found).compute_score(0.2, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_vectors_that_say_nothing_are_refused(seed: int) -> None:
    data = judged(50, 300)
    random = np.random.default_rng(seed)
    tools, queries = random.normal(size=(50, 24)), random.normal(size=(300, 24))
    nothing = build_vectors(data, tools.astype(np.float32), queries.astype(np.float32))
    with pytest.raises(NoSignalError):
        fit_calibration(data, build_survey(data, nothing, LexicalEncoder()))


def test_vectors_that_are_all_the_same_are_refused() -> None:
    data = judged(30, 40)
    same = build_vectors(data, np.ones((30, 4), np.float32), np.ones((40, 4), np.float32))
    with pytest.raises(NoSignalError):
        fit_calibration(data, build_survey(data, same, LexicalEncoder()))


def test_vectors_that_point_away_from_what_fits_are_refused() -> None:
    with pytest.raises(NoSignalError):
        fit(judged(30, 100), signal=-0.8)


def test_too_few_tools_are_refused_with_the_number_that_is_needed() -> None:
    with pytest.raises(TooLittleError) as refused:
        check_enough(judged(9, 100))
    assert (refused.value.found, refused.value.needed) == (9, 10)


def test_too_few_requests_for_one_tool_are_refused_with_the_number_that_is_needed() -> None:
    data = judged(30, 12)
    several = [query.model_copy(update={"kind": "multi"}) for query in data.queries[:3]]
    with pytest.raises(TooLittleError) as refused:
        check_enough(replace(data, queries=(*several, *data.queries[3:])))
    assert (refused.value.found, refused.value.needed) == (9, 10)


def test_requests_that_every_tool_fits_are_refused() -> None:
    data = judged(10, 20)
    queries = tuple(query.model_copy(update={"kind": "single"}) for query in data.queries)
    every = replace(data, queries=queries, relevant=(frozenset(range(10)),) * 20)
    with pytest.raises(TooLittleError):
        fit(every, signal=1.0)


def test_requests_that_nothing_fits_are_passed_over() -> None:
    data = judged(30, 40)
    pairs = pairs_of(data, signal=1.0)
    more = replace(
        data,
        queries=(*data.queries, JudgedQuery(query="sing", relevant=())),
        relevant=(*data.relevant, frozenset[int]()),
    )
    given = vectors(data, signal=1.0)
    beside = build_vectors(more, given.tools, np.concatenate([given.asked, given.asked[:1]]))
    assert fit_calibration(more, build_survey(more, beside, LexicalEncoder())).slope == pytest.approx(
        fit_calibration(data, pairs).slope
    )


@pytest.mark.parametrize(
    ("tools", "queries"),
    [
        (np.ones((29, 4)), np.ones((40, 4))),
        (np.ones((30, 4)), np.ones((40, 5))),
        (np.ones((30, 4)), np.ones(40)),
        (np.zeros((30, 4)), np.ones((40, 4))),
        (np.ones((30, 4)), np.full((40, 4), np.nan)),
    ],
)
def test_vectors_that_are_none_are_refused(
    tools: Floats,
    queries: Floats,
) -> None:
    with pytest.raises(UnusableVectorsError):
        build_vectors(judged(30, 40), tools.astype(np.float32), queries.astype(np.float32))


def test_tools_are_embedded_as_documents_and_requests_as_queries() -> None:
    asked: dict[TextRole, list[str]] = {}

    def embed(texts: Sequence[str], role: TextRole) -> Rows:
        asked[role] = list(texts)
        return np.ones((len(texts), 3), np.float32)

    data = judged(12, 14, words=0.0)
    made = embed_judged(data, embed)
    assert made.tools.shape == (12, 3)
    assert np.linalg.norm(made.asked, axis=1) == pytest.approx(np.ones(14))
    assert asked[TextRole.DOCUMENT][0] == "zword0. zdoes0"
    assert asked[TextRole.QUERY] == ["please"] * 14


SEVERAL = "What is the weather in Paris tomorrow? And convert two hundred euros into yen."


def asking(query: str, others: int = 1) -> Judged:
    """A request for tool 0 amid short ones for the same."""
    data = judged(12, 1 + others, words=0.0)
    relevant = (frozenset({0}),) * (1 + others)
    return replace(data, queries=(JudgedQuery(query=query, relevant=("t0",)), *data.queries[1:]), relevant=relevant)


def test_a_request_for_several_things_is_embedded_by_its_sentences() -> None:
    asked = list_query_texts(asking(SEVERAL, others=2))
    first, second = SEVERAL.split("? ")
    assert asked.texts == (f"{first}?", second, "please", "please")
    assert asked.starts == (0, 2, 3)


def test_the_nearest_of_a_request_and_its_sentences_counts() -> None:
    axes = np.eye(12, dtype=np.float32)
    far, near = axes[5], axes[0]
    made = build_vectors(asking(SEVERAL), axes, np.stack([far, near, axes[1]]))
    assert made.starts.tolist() == [0, 3]
    assert made.asked[0].tolist() == pytest.approx([0.5**0.5, 0, 0, 0, 0, 0.5**0.5, *[0] * 6])
    assert made.compute_cosines(0, 2)[0].tolist() == pytest.approx([1, 0, 0, 0, 0, 1, *[0] * 6])
    assert made.compute_cosines(1, 2).tolist() == [pytest.approx([0, 1, *[0] * 10])]


def test_too_few_vectors_for_the_sentences_are_refused() -> None:
    axes = np.eye(12, dtype=np.float32)
    with pytest.raises(UnusableVectorsError):
        build_vectors(asking(SEVERAL), axes, axes[:1])


def test_words_meet_across_languages_as_they_do_in_a_search() -> None:
    """skill-vector-retrieval.md § 向量化质量: 帮我提交代码 shares no word with git-commit, but 提交 means it."""
    data = asking("帮我提交代码")
    tools = (JudgedTool(id="t0", name="git-commit"), *data.tools[1:])
    data = replace(data, tools=tools)
    made = vectors(data, signal=1.0)
    by_words, by_meaning = (
        build_survey(data, made, encoder).right.words[0] for encoder in (LexicalEncoder(), build_search_encoder())
    )
    assert (by_words, by_meaning > 0) == (0, True)


def test_who_provides_a_tool_counts_half() -> None:
    named, provided = JudgedTool(id="a", name="Foo"), JudgedTool(id="b", name="zother", provider="Foo")
    scores = Bm25([named.lexical_text, provided.lexical_text], [named.aside_text, provided.aside_text]).compute_scores(
        "foo"
    )
    assert 0 < scores[1] < scores[0]
