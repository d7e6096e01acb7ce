"""Learning with a chat model: it reads the digest, and every item of its answer must quote it.

Three ways to get a structured answer are tried in turn: the provider's own JSON Schema mode, a tool call, and JSON in
plain text. What cannot be read or proved is dropped; without any usable answer the items of the rules stand alone, and
the job says so.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from pydantic import JsonValue, ValidationError

from skillbus.common.chat.structured_answer import (
    AnswerMode,
    ModelSilentError,
    RawAnswer,
    StructuredChat,
    find_json_objects,
)
from skillbus.contracts.learner.learned import (
    ConfidenceInterval,
    EvidenceQuote,
    LearnedItem,
    LearnedKind,
    LearnedStatement,
    ModelUse,
)
from skillbus.contracts.scope import normalize_scope
from skillbus.learner.domain.learning.model_prompt import (
    MAX_ANSWERED_ITEMS,
    AnsweredItem,
    DigestAnswer,
    ask_about,
    write_digest,
)
from skillbus.learner.domain.learning.text_relation import TextRelation, compare_texts
from skillbus.learning.job import QuotedSection
from skillbus.learning.redaction import redact_text
from skillbus.learning.suspicion import scan_learned

_KINDS: Final = {
    "project_config": LearnedKind.CONFIG,
    "business_rule": LearnedKind.RULE,
    "module_context": LearnedKind.INCIDENT,
    "test_experience": LearnedKind.REGRESSION,
}
_REASON_CHARACTERS: Final = 1_000
_UNPROVED: Final = ConfidenceInterval(low=0.0, high=0.5)
"""Confidence of an item that only a model proposed: one quote is one observation."""


class AnswerCache(Protocol):
    """Answers by the digest of their input."""

    async def get_answer(self, key: str) -> tuple[AnswerMode, RawAnswer] | None: ...

    async def put_answer(self, key: str, mode: AnswerMode, answer: RawAnswer) -> None: ...


@dataclass(frozen=True, slots=True)
class ModelExtraction:
    """Items after a model has read the digest, and what it did."""

    items: tuple[LearnedItem, ...]
    use: ModelUse


@dataclass(frozen=True, slots=True)
class ModelLearning:
    """Lets a model read digests."""

    chat: StructuredChat
    cache: AnswerCache
    model: str
    """`auto`, or `provider/name`."""
    digest_tokens: int
    budget_tokens: int
    """Most tokens of one job, over all modes."""

    async def refine_items(
        self, sections: Sequence[QuotedSection], candidates: Sequence[LearnedItem]
    ) -> ModelExtraction:
        """Return the candidates, some rewritten by the model, and the further items that it proved."""
        digest = write_digest(sections, candidates, self.digest_tokens)
        sent = [section for section in sections if section.text in digest]
        question = ask_about(digest)
        key = sha256(json.dumps([self.model, digest, question.schema]).encode()).hexdigest()
        cached = await self.cache.get_answer(key)
        if cached is not None and (answer := _parse_answer(cached[1].text)) is not None:
            use = ModelUse(model=cached[1].model, mode=cached[0], cached=True)
            return _apply_answer(answer, use, sent, candidates)
        failures, spent = list[str](), 0
        for mode in AnswerMode:
            if spent >= self.budget_tokens:
                failures.append("the budget of tokens is spent")
                break
            try:
                raw = await self.chat.ask_model(self.model, question, mode)
            except ModelSilentError as error:
                failures.append(f"{mode}: {error}")
                continue
            spent += raw.tokens
            answer = _parse_answer(raw.text)
            if answer is None:
                failures.append(f"{mode}: the answer is no JSON object with `items`")
                continue
            await self.cache.put_answer(key, mode, raw)
            use = ModelUse(model=raw.model, mode=mode, tokens=spent, error=_join_failures(failures))
            return _apply_answer(answer, use, sent, candidates)
        use = ModelUse(model=self.model, tokens=spent, error=_join_failures(failures))
        return ModelExtraction(tuple(candidates), use)


def _join_failures(failures: Sequence[str]) -> str | None:
    return "; ".join(failures)[:1_000] or None


def _parse_answer(text: str) -> DigestAnswer | None:
    for value in find_json_objects(text):
        if isinstance(value.get("items"), list):
            try:
                return DigestAnswer.model_validate(value)
            except (ValidationError, RecursionError):
                continue
    return None


@dataclass(slots=True)
class _Refinement:
    """Items of the rules, which an answer rewrites and extends."""

    sections: Sequence[QuotedSection]
    extractor: str
    items: list[LearnedItem]
    candidates: int
    """Number of the first items that are those of the rules. An answer can name only these."""
    kept: int = 0
    dropped: int = 0

    def apply_item(self, value: JsonValue) -> None:
        """Use one item of an answer, or count it as dropped."""
        try:
            answered = AnsweredItem.model_validate(value)
            evidence = tuple(self._locate_quote(quote) for quote in dict.fromkeys(answered.evidence))
            self._use_item(answered, evidence)
        except (ValidationError, LookupError):
            self.dropped += 1
        else:
            self.kept += 1

    def _locate_quote(self, quote: str) -> EvidenceQuote:
        """Return where the digest has a quote, letter by letter. Raises LookupError."""
        for section in self.sections:
            at = section.text.find(quote)
            if at >= 0:
                line = section.line + section.text.count("\n", 0, at) if section.line else 0
                return EvidenceQuote(file=section.file, line=line, quote=quote)
        raise LookupError(quote)

    def _use_item(self, answered: AnsweredItem, evidence: tuple[EvidenceQuote, ...]) -> None:
        title, content = redact_text(answered.title), redact_text(answered.content)
        is_suspicious = bool(scan_learned((title, content, *(quote.quote for quote in evidence))))
        known = self._find_candidate(answered, content, evidence)
        if known is not None:
            before = self.items[known]
            marked = before.addresses_assistant or is_suspicious
            rewritten = {"title": title, "content": content, "extractor": self.extractor, "addresses_assistant": marked}
            self.items[known] = before.model_copy(update=rewritten)
            return
        said = answered.model_dump(include={"subject", "predicate", "value"})
        statement = {name: redact_text(text) for name, text in said.items()}
        self.items.append(
            LearnedItem(
                kind=_KINDS[answered.type],
                type=answered.type,
                title=title,
                content=content,
                scope=_read_scope(redact_text(answered.scope)),
                tags=tuple(map(redact_text, answered.tags[:8])),
                statement=LearnedStatement.model_validate(statement | {"polarity": answered.polarity}),
                evidence=evidence,
                confidence=_UNPROVED,
                seen=len(evidence),
                addresses_assistant=is_suspicious,
                extractor=self.extractor,
            )
        )

    def _find_candidate(self, answered: AnsweredItem, content: str, evidence: Sequence[EvidenceQuote]) -> int | None:
        """Return the index of the item that an answer rewrites: by its number and a quote of it, or by its text."""
        if answered.candidate is not None and 0 < answered.candidate <= self.candidates:
            quoted = [one.quote for one in self.items[answered.candidate - 1].evidence]
            if any(one.quote in quote or quote in one.quote for one in evidence for quote in quoted):
                return answered.candidate - 1
        for index, item in enumerate(self.items):
            if compare_texts(item.content, content).relation is TextRelation.SAME:
                return index
        return None


def _apply_answer(
    answer: DigestAnswer, use: ModelUse, sections: Sequence[QuotedSection], candidates: Sequence[LearnedItem]
) -> ModelExtraction:
    refinement = _Refinement(sections, f"{use.model} ({use.mode})"[:300], list(candidates), len(candidates))
    for value in answer.items[:MAX_ANSWERED_ITEMS]:
        refinement.apply_item(value)
    reason = redact_text((answer.nothing_found_reason or "")[: 4 * _REASON_CHARACTERS])
    counts = {
        "kept": refinement.kept,
        "dropped": refinement.dropped + max(len(answer.items) - MAX_ANSWERED_ITEMS, 0),
        "nothing_found_reason": reason[:_REASON_CHARACTERS] or None,
    }
    return ModelExtraction(tuple(refinement.items), use.model_copy(update=counts))


def _read_scope(text: str) -> str:
    try:
        return normalize_scope(text)
    except ValueError:
        return ""
