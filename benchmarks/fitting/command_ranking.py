"""How well a query finds its command, by texts and sides, and the map from cosine and words to a score.

Two libraries: the dev one (`--data`: spec.jsonl, spec_queries.jsonl), to which the map is fitted, and one of Matter
clusters and Home Assistant services in our own words (own_commands), to which nothing is fitted. `variants` have hit@1
and hit@10 by capability; `folds` ranks each fifth of the queries with a map fitted to the others; `opposites` has how
often the opposite of an action comes before the right command of the same capability, or reaches .5 by itself.
Everything is computed in memory; `skillbus eval commands` measures the same over the bus.

    uv run python benchmarks/fitting/command_ranking.py [--data DIR] [--model NAME]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from command_phrases import OPPOSITE_OF, OPPOSITES, PHRASES, RIGHT
from judged_tools import DEFAULT_MODEL, PACKAGES, describe_setting, embedder_of, save_report
from numpy.typing import NDArray

from skillbus.calibration.bm25 import Bm25, build_search_encoder
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.indexer.commands import CommandSpec
from skillbus.queryir.writing import fold_name
from skillbus.relevance.command_evidence import (
    CONTRARY,
    ELSEWHERE,
    FULFILLED,
    CommandRelevance,
    derive_command_relevance,
)
from skillbus.relevance.command_text import (
    build_command_aside_text,
    build_command_dense_texts,
    build_command_lexical_text,
    build_phrase_text,
    build_phrase_words,
    describe_meaning,
)
from skillbus.relevance.household.meaning import Meaning, read_meaning
from skillbus.relevance.score import build_relevance, compute_probability, compute_rarest_idf, find_calibration
from skillbus.vectors.mean_direction import compute_mean_direction

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "queryir"
OWN = Path(__file__).resolve().parent / "own_commands"
SEED = 7
FOLDS = 5
CANDIDATES = 20
WEIGHTS = ("dense", "lexical", "contrary", "fulfilled", "elsewhere", "offset")
Floats = NDArray[np.float64]
FloatArray = NDArray[np.floating]  # type: ignore[type-arg]


@dataclass(frozen=True, slots=True)
class CommandQuery:
    text: str
    lang: str
    capabilities: frozenset[str]
    right: frozenset[str]


@dataclass(frozen=True)
class Library:
    """Commands, what is asked of them, and what both sides say of it: arrays of shape (queries, commands)."""

    commands: Sequence[CommandSpec]
    queries: Sequence[CommandQuery]
    model: str

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        rows = embedder_of(self.model)(texts, role)
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def vectors_of(self, texts: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Of each command the mean of its texts' vectors."""
        rows = self.embed([text for some in texts for text in some], TextRole.DOCUMENT)
        ends = np.cumsum([0, *map(len, texts)])
        return np.stack([compute_mean_direction(rows[begin:end]) for begin, end in pairwise(ends)])

    @cached_property
    def asked(self) -> NDArray[np.float32]:
        return self.embed([build_phrase_text(query.text) for query in self.queries], TextRole.QUERY)

    @cached_property
    def described(self) -> NDArray[np.float32]:
        return self.vectors_of([build_command_dense_texts(it.description) for it in self.commands])

    @cached_property
    def index(self) -> Bm25:
        texts = [build_command_lexical_text(c.description, c.capability.id, c.command.id) for c in self.commands]
        asides = [build_command_aside_text(c.capability.id, c.command.id) for c in self.commands]
        return Bm25(texts, asides, build_search_encoder())

    @cached_property
    def meanings(self) -> list[Meaning]:
        return [describe_meaning(c.description, c.capability.id, c.command.id) for c in self.commands]

    def words_of(self, texts: Sequence[str]) -> Floats:
        scores = np.stack([self.index.compute_scores(build_phrase_words(text)) for text in texts])
        return scores / compute_rarest_idf(len(self.commands))

    def compare(self, texts: Sequence[str]) -> Floats:
        """Return contradictions, fulfilments and other topics, of shape (3, texts, commands)."""
        read = [read_meaning(text) for text in texts]
        return np.array(
            [
                [[float(one.contradicts(other)) for other in self.meanings] for one in read],
                [
                    [one.is_fulfilled_by(other) * (1.0 if one.topics else 2.0) for other in self.meanings]
                    for one in read
                ],
                [[float(one.is_elsewhere(other)) for other in self.meanings] for one in read],
            ]
        )

    @cached_property
    def features(self) -> Floats:
        """Logit of the cosine, words, contradiction, fulfilment, another topic, 1."""
        texts = [query.text for query in self.queries]
        return features_of(self.asked @ self.described.T, self.words_of(texts), *self.compare(texts))

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        return np.array([[it.id in query.right for it in self.commands] for query in self.queries])

    def hits(self, scores: Floats) -> dict[str, float]:
        """By capability, in all and by language."""
        wanted = np.array([[it.capability.id in q.capabilities for it in self.commands] for q in self.queries])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        found = np.take_along_axis(wanted, best, axis=1)
        english = np.array([query.lang == "en" for query in self.queries])
        return {
            "hit@1": found[:, 0].mean(),
            "hit@10": found.any(axis=1).mean(),
            "hit@1 zh": found[~english, 0].mean(),
            "hit@1 en": found[english, 0].mean(),
        }


def features_of(cosines: FloatArray, words: Floats, contrary: Floats, fulfilled: Floats, elsewhere: Floats) -> Floats:
    near = np.clip(np.maximum(cosines, 0.1 * np.minimum(1, words)), 0.01, 0.99)
    return np.stack([np.log(near / (1 - near)), words, contrary, fulfilled, elsewhere, np.ones_like(words)], axis=-1)


def load_library(folder: Path, model: str) -> Library:
    commands = [
        CommandSpec.model_validate_json(line) for line in (folder / "spec.jsonl").read_text("utf-8").splitlines()
    ]
    queries = list[CommandQuery]()
    for line in (folder / "spec_queries.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        wanted = frozenset(row["expected_capability"])
        named = row.get("expected_command") or RIGHT.get(row["id"], "").split()
        right = frozenset(named) or frozenset(it.id for it in commands if it.capability.id in wanted)
        queries.append(CommandQuery(row["query"], row["lang"], wanted, right))
    return Library(commands, queries, model)


def variants_of(library: Library) -> dict[str, dict[str, float]]:
    """Other texts and sides, the lexical side at the weight of the map, each with its own hits."""
    texts = [query.text for query in library.queries]
    descriptions = [list(it.description.values()) for it in library.commands]
    ids = [build_command_aside_text(it.capability.id, it.command.id) for it in library.commands]
    zh = library.asked @ library.vectors_of([[fold_name(it.description["zh"])] for it in library.commands]).T
    en = library.asked @ library.vectors_of([[fold_name(it.description["en"])] for it in library.commands]).T
    one = library.asked @ library.vectors_of([[" ".join(some)] for some in descriptions]).T
    three = library.asked @ library.vectors_of([[*some, name] for some, name in zip(descriptions, ids, strict=True)]).T
    plain_index = Bm25([" ".join(some) for some in descriptions], ids, build_search_encoder())
    plain = np.stack([plain_index.compute_scores(text) for text in texts]) / compute_rarest_idf(len(ids))
    mean, words = library.asked @ library.described.T, library.words_of(texts)
    none, (contrary, fulfilled, _) = np.zeros_like(words), library.compare(texts)
    ranked = {
        "dense, Chinese descriptions": zh,
        "dense, English descriptions": en,
        "dense, both in one text": one,
        "dense, the nearer of both": np.maximum(zh, en),
        "dense, mean of both and of the ids": three,
        "dense, mean of both": mean,
        "words with translations": plain,
        "words and meanings": words,
        "dense and words": np.asarray(features_of(mean, plain, none, none, none) @ product_weights(library.model)),
        "dense, words and meanings": np.asarray(
            features_of(mean, words, none, none, none) @ product_weights(library.model)
        ),
        "the same, the nearer of both": np.asarray(
            features_of(np.maximum(zh, en), words, none, none, none) @ product_weights(library.model)
        ),
        "all, with contradictions": np.asarray(
            features_of(mean, words, contrary, none, none) @ product_weights(library.model)
        ),
        "all, with fulfilments": np.asarray(
            features_of(mean, words, contrary, fulfilled, none) @ product_weights(library.model)
        ),
        "all, with other topics": np.asarray(library.features @ product_weights(library.model)),
    }
    return {name: library.hits(scores) for name, scores in ranked.items()}


def product_weights(model: str) -> Floats:
    relevance = derive_command_relevance(build_relevance(find_calibration(model)))
    return np.array([relevance.dense, relevance.lexical, -CONTRARY, FULFILLED, -ELSEWHERE, relevance.offset])


def fit_map(library: Library, rows: NDArray[np.int64]) -> Floats:
    """Right against wrong commands 1 : 1, half of the wrong ones candidates and half all of them (ADR 0007)."""
    values, answers, weights = list[Floats](), list[float](), list[float]()
    for query in rows.tolist():
        right, wrong = np.flatnonzero(library.right[query]), np.flatnonzero(~library.right[query])
        near = wrong[np.argsort(-library.features[query, wrong] @ product_weights(library.model))[:CANDIDATES]]
        for some, answer, share in ((right, 1.0, 0.5), (near, 0.0, 0.25), (wrong, 0.0, 0.25)):
            values.extend(library.features[query, some])
            answers.extend([answer] * len(some))
            weights.extend([share / len(some)] * len(some))
    rows_of, held = np.array(values), WEIGHTS.index("elsewhere")
    given = rows_of[:, held] * -ELSEWHERE  # held at half of what the fit says
    found = logistic(np.delete(rows_of, held, axis=1), np.array(answers), np.array(weights), given)
    return np.insert(found, held, -ELSEWHERE)


def fit_alone(library: Library) -> dict[str, float]:
    """Power and half of words alone, over pairs that share a word or a meaning."""
    values, answers, weights = list[Floats](), list[float](), list[float]()
    for query in range(len(library.queries)):
        words, contrary = library.features[query, :, 1], library.features[query, :, 2]
        right = np.flatnonzero(library.right[query] & (words > 0))
        wrong = np.flatnonzero(~library.right[query] & (words > 0))
        near = wrong[np.argsort(-words[wrong])[:CANDIDATES]]
        for some, answer, share in ((right, 1.0, 0.5), (near, 0.0, 0.25), (wrong, 0.0, 0.25)):
            values.extend(np.stack([np.log(words[some]), contrary[some], np.ones(len(some))], axis=-1))
            answers.extend([answer] * len(some))
            weights.extend([share / max(1, len(some))] * len(some))
    power, contrary_weight, offset = logistic(np.array(values), np.array(answers), np.array(weights))
    return {"power": power, "half": float(np.exp(-offset / power)), "contrary": -contrary_weight}


def logistic(values: Floats, answers: Floats, weights: Floats, given: Floats | float = 0.0) -> Floats:
    """Weighted logistic regression by Newton's method, with a ridge: contradictions nearly separate the classes.

    `given` are log-odds that are not fitted.
    """
    found = np.zeros(values.shape[1])
    for _ in range(80):
        likely = 1 / (1 + np.exp(-np.clip(values @ found + given, -30, 30)))
        curve = (values * (weights * likely * (1 - likely))[:, None]).T @ values + 1e-3 * np.eye(len(found))
        found += np.linalg.solve(curve, values.T @ (weights * (answers - likely)) - 1e-3 * found)
    return found


def figures_of(library: Library) -> dict[str, object]:
    rows = np.arange(len(library.queries))
    fold = np.random.default_rng(SEED).permutation(len(rows)) % FOLDS
    apart = np.zeros(library.right.shape)
    for number in range(FOLDS):
        apart[fold == number] = library.features[fold == number] @ fit_map(library, rows[fold != number])
    likely = 1 / (1 + np.exp(-(library.features @ product_weights(library.model))))
    return {
        "commands": len(library.commands),
        "queries": len(library.queries),
        "variants": variants_of(library),
        "folds": library.hits(apart),
        "command_hit@1": library.right[rows, likely.argmax(axis=1)].mean(),
        "right_from_.5": (likely[library.right] >= 0.5).mean(),
        "wrong_from_.5": (likely[~library.right] >= 0.5).mean(),
        "fitted": dict(zip(WEIGHTS, fit_map(library, rows), strict=True)),
        "fitted_alone": fit_alone(library),
        "opposites": opposites_of(library),
    }


def opposites_of(library: Library) -> dict[str, object]:
    """Counts over phrases: in all, of words that the lexicon reads, and of others."""
    places = {it.id: place for place, it in enumerate(library.commands)}
    cases = [
        (phrase, places[right], places[wrong])
        for action, one, other in map(str.split, OPPOSITES)
        if one in places
        for said, right, wrong in ((action, one, other), (OPPOSITE_OF[action], other, one))
        for phrase in PHRASES[said].split("|")
    ]
    phrases = [phrase for phrase, _, _ in cases]
    cosines = library.embed([build_phrase_text(it) for it in phrases], TextRole.QUERY) @ library.described.T
    relevance = CommandRelevance(
        derive_command_relevance(build_relevance(find_calibration(library.model))), len(library.commands)
    )
    words = library.words_of(phrases) * compute_rarest_idf(len(library.commands))
    read = [read_meaning(phrase) for phrase in phrases]
    kinds = {"all": [0, 0, 0, 0, 0], "with an action": [0, 0, 0, 0, 0], "without": [0, 0, 0, 0, 0]}
    unread = list[str]()
    for row, (phrase, right, wrong) in enumerate(cases):
        score = {
            place: compute_probability(
                relevance.compute_evidence(
                    float(cosines[row, place]), float(words[row, place]), read[row], library.meanings[place]
                )
            )
            for place in (right, wrong)
        }
        known = bool(read[row].actions)
        for kind in ("all", "with an action" if known else "without"):
            counts = kinds[kind]
            counts[0] += 1
            counts[1] += score[right] > score[wrong]
            counts[2] += score[right] >= 0.5
            counts[3] += score[wrong] >= 0.5
            counts[4] += score[wrong] >= 0.5 and score[wrong] >= score[right]
        if score[wrong] >= 0.5 or score[wrong] >= score[right]:
            unread.append(f"{phrase}: {library.commands[wrong].id}")
    names = ("phrases", "right_first", "right_from_.5", "opposite_from_.5", "opposite_first_from_.5")
    return {**{kind: dict(zip(names, counts, strict=True)) for kind, counts in kinds.items()}, "wrong": unread}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--model", choices=sorted(PACKAGES), default=DEFAULT_MODEL)
    arguments = parser.parse_args()
    model: str = arguments.model
    report: Mapping[str, object] = {
        **describe_setting(SEED, model),
        "map": dict(zip(WEIGHTS, product_weights(model), strict=True)),
        "dev": figures_of(load_library(arguments.data, model)),
        "own": figures_of(load_library(OWN, model)),
    }
    save_report("command_ranking" if model == DEFAULT_MODEL else f"command_ranking_{model}", report)


if __name__ == "__main__":
    main()
